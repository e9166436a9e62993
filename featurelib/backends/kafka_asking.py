"""One listener is asked everything it can say; what it does not answer is kept as words.

A node has several addresses where it was listed with several listeners: the first that answers
counts. Lists of a whole cluster are asked of two brokers of each version, not of all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import NamedTuple

from featurelib.backends.kafka_answers import (
    BROKERS,
    CONTROLLERS,
    Answer,
    Api,
    missing_right,
    quorum,
)
from featurelib.backends.kafka_wire import Talk, Wire
from featurelib.core.configured import BROKER_DEFAULT
from featurelib.core.refusals import NOT_AUTHORIZED
from featurelib.errors import ProtocolError, UnreachableError
from featurelib.feature import Role

WITNESSES = 2  # brokers that are asked for a list, of each version of it
NOT_OFFERED = "the listener does not offer {}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One half of one node, and where it listens, as host:port."""

    role: Role
    node_id: int
    addresses: tuple[str, ...]

    @property
    def key(self) -> tuple[Role, int]:
        return self.role, self.node_id

    @property
    def title(self) -> str:
        return f"{self.role.text} {self.node_id}"


class Silence(NamedTuple):
    """A request that a listener did not answer: when, why, and the error code of its refusal."""

    api: Api
    at: datetime
    why: str
    code: int | None = None  # None = nothing came, or it was not asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one half of one node said. `error` says why it could not be asked at all.

    `silent` is what a listener that answered otherwise did not answer. `principal` is who asked,
    as an authorizer names it; "" = that is known to the listener alone.
    """

    target: Target
    address: str
    at: datetime
    error: str | None
    is_kraft: bool = False
    answers: tuple[Answer, ...] = ()
    silent: tuple[Silence, ...] = ()
    principal: str = ""

    def answer(self, api: Api) -> Answer | None:
        """Its answer to a request, if it gave one without an error."""
        return next((one for one in self.answers if one.api is api), None)


class Share:
    """Which brokers are asked for lists of the whole cluster: of each version, until enough of them
    gave one. What a controller lists is not what a broker does, and a refusal is no list."""

    def __init__(self) -> None:
        self._answered: Counter[tuple[Api, int | None]] = Counter()
        self._lock = Lock()

    def is_enough(self, target: Target, api: Api, version: int | None) -> bool:
        """Whether enough brokers have given this list; every controller is asked."""
        with self._lock:
            return target.role is Role.BROKER and self._answered[api, version] >= WITNESSES

    def note(self, target: Target, answer: Answer) -> None:
        """Count a list that a broker gave."""
        is_list = answer.fault is None
        if answer.api is Api.DESCRIBE_QUORUM:
            is_list = is_list and quorum(answer) is not None
        if is_list and target.role is Role.BROKER:
            with self._lock:
                self._answered[answer.api, answer.version] += 1


def ask(target: Target, wire: Wire, share: Share) -> Asked:
    """Everything one half of one node says. Raises ConfigError only."""
    failed = "no address is known"
    address = ""
    for address in target.addresses:
        try:
            with wire.connect(address) as talk:
                return _everything(target, address, talk, share)
        except (UnreachableError, ProtocolError) as error:
            failed = str(error)
    return Asked(target=target, address=address, at=datetime.now(UTC), error=failed)


def _everything(target: Target, address: str, talk: Talk, share: Share) -> Asked:
    first = talk.api_versions()
    if (fault := first.fault) is not None:
        return Asked(target=target, address=address, at=first.at, error=fault)
    kind = CONTROLLERS if target.role is Role.CONTROLLER else BROKERS
    answers = [first]
    silent: list[Silence] = []
    lists: tuple[tuple[Api, Callable[[], Answer]], ...] = (
        (Api.DESCRIBE_CLUSTER, lambda: talk.describe_cluster(kind)),
        (Api.DESCRIBE_QUORUM, talk.describe_quorum),
    )
    wanted = [one for one in lists if not share.is_enough(target, one[0], talk.version_of(one[0]))]
    if talk.is_kraft:  # of itself; and whoever lists the cluster, of the default of all brokers
        resources = [str(target.node_id)]
        if target.role is Role.BROKER and wanted:
            resources.append(BROKER_DEFAULT)
        wanted.append((Api.DESCRIBE_CONFIGS, lambda: talk.describe_configs(resources)))
    for api, question in wanted:
        version = talk.version_of(api)
        if version is None:
            silent.append(Silence(api, datetime.now(UTC), NOT_OFFERED.format(api.title)))
            continue
        try:
            answer = question()
        except (UnreachableError, ProtocolError) as error:
            silent.append(Silence(api, datetime.now(UTC), str(error)))
            continue
        share.note(target, answer)
        if (fault := answer.fault) is None:
            answers.append(answer)
        else:
            if answer.code == NOT_AUTHORIZED:
                fault = missing_right(api, talk.principal)
            silent.append(Silence(api, answer.at, fault, answer.code))
    return Asked(
        target=target,
        address=address,
        at=first.at,
        error=None,
        is_kraft=talk.is_kraft,
        answers=tuple(answers),
        silent=tuple(silent),
        principal=talk.principal,
    )
