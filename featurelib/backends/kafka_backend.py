"""A real cluster of either mode: looked at listener by listener, updated through its controller.

An update goes out once. Only where an answer says that nothing was written, because the controller
had moved, is it sent a second time, to the new one. In ZooKeeper mode a request to validate would
be applied, so it is never sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from featurelib.backends.base import Abilities, Backend, Say
from featurelib.backends.kafka_answers import (
    NOT_CONTROLLER,
    Answer,
    Api,
    missing_right,
    reply,
)
from featurelib.backends.kafka_lines import line, lines_of
from featurelib.backends.kafka_look import Seen, explore, look
from featurelib.backends.kafka_map import NOBODY, Map
from featurelib.backends.kafka_search import Reach
from featurelib.backends.kafka_wire import Wire
from featurelib.backends.security import Credentials
from featurelib.catalogue import Catalogue
from featurelib.configuration.fleet import Cluster as Entry
from featurelib.configuration.security import ZOOKEEPER
from featurelib.core.planned import Step
from featurelib.core.refusals import NOT_AUTHORIZED
from featurelib.core.reply import Reply
from featurelib.errors import (
    OutcomeUnknownError,
    ProtocolError,
    RefusedError,
    UnreachableError,
)
from featurelib.feature import Role

FORWARDERS = 3  # brokers that are tried where the active controller cannot be reached

_NO_COMPARISON = "It cannot refuse a request that another writer has overtaken."
_NO_VALIDATION = "It cannot validate without writing: in ZooKeeper mode such a request is applied."
_NO_ZNODES = (
    "It cannot tell which version of the features node a request meets: the inventory names no "
    "zookeeper."
)
_MIGRATING = (
    "It cannot say which mode a request meets: nodes of ZooKeeper mode and of KRaft answer."
)


def open_kafka(entry: Entry, catalogue: Catalogue, *, timeout: float) -> Backend:
    """The backend of a real cluster; nothing is connected yet. `timeout` in seconds, a node.

    Raises CredentialsError for secrets and files that are not there, ConfigError where ZooKeeper is
    named and its client is not installed.
    """
    brokers = Credentials(entry.security)
    controllers = brokers
    if entry.controller_security is not None:
        controllers = Credentials(entry.controller_security, "controller_security")
    for credentials in (brokers, controllers):
        credentials.check()
    znodes = None
    if entry.zookeeper:
        from featurelib.backends.znodes import read_znodes

        Credentials(entry.zookeeper_security, ZOOKEEPER).check()
        znodes = partial(read_znodes, entry.zookeeper, timeout, entry.zookeeper_security)
    given = (*entry.bootstrap, *entry.controller_bootstrap) or (entry.zookeeper,)
    reach = Reach(
        where=",".join(given),
        bootstrap=entry.bootstrap,
        controllers=entry.controller_bootstrap,
        brokers_wire=Wire(brokers, timeout),
        controllers_wire=Wire(controllers, timeout),
        znodes=znodes,
    )
    return KafkaBackend(reach, entry.id)


class KafkaBackend:
    """One real cluster. `cluster_id` names it where no node says its name; empty = not known."""

    def __init__(self, reach: Reach, cluster_id: str = "") -> None:
        self._reach, self._cluster_id = reach, cluster_id
        self._map: Map | None = None

    @property
    def where(self) -> str:
        """The addresses that were given."""
        return self._reach.where

    def describe(self, say: Say) -> tuple[bytes, ...]:
        """One look at every listener, as landing lines. Raises UnreachableError, ProtocolError."""
        seen = look(self._reach, say)
        self._map = seen.map
        return tuple(_lines(seen, self._named(seen)))

    def abilities(self) -> Abilities:
        """By mode, as the listeners showed it. Raises UnreachableError if it has to look."""
        known = self._known()
        cannot = [_NO_COMPARISON]
        if known.mode == "zk":
            cannot.append(_NO_VALIDATION)
            if self._reach.znodes is None:
                cannot.append(_NO_ZNODES)
        if known.is_migrating:
            cannot.append(_MIGRATING)
        validates = known.mode == "kraft" and not known.is_migrating
        return Abilities(mode=known.mode, validate_only=validates, cannot=tuple(cannot))

    def update(self, step: Step, *, validate_only: bool = False) -> Reply:
        """The active controller's answer, its codes and words as they came; only where a right is
        missing, the words say which."""
        if validate_only and not self.abilities().validate_only:
            raise RefusedError(
                f"{self.where}: expected a controller that validates without writing, found "
                "ZooKeeper mode, which would apply the request. Nothing was sent. Leave out "
                "--validate-only."
            )
        answered = self._send(self._known(), step, validate_only)
        if answered.code == NOT_CONTROLLER:  # nothing was written
            answered = self._send(self._find_again(), step, validate_only)
        if answered.code == NOT_AUTHORIZED:
            return replace(answered, message=missing_right(Api.UPDATE_FEATURES))
        return answered

    def close(self) -> None:
        """Nothing is held between two calls."""

    def _send(self, known: Map, step: Step, validate_only: bool) -> Reply:
        """Send to the first candidate that can be connected to: to one, and once."""
        failures = []
        for role, address in candidates(known):
            try:
                with self._reach.wire(role).connect(address) as talk:
                    return _understood(talk.update_features(step, validate_only=validate_only))
            except UnreachableError as error:  # nothing was sent
                failures.append(str(error))
        found = " · ".join(failures) or "none is known"
        raise UnreachableError(
            f"{self.where}: expected the active controller to take the request, found: {found}. "
            "Nothing was sent. Try again once one leads."
        )

    def _known(self) -> Map:
        if self._map is None:
            self._map = look(self._reach, _quietly).map
        return self._map

    def _find_again(self) -> Map:
        """Who leads now, asked of one broker and of the controllers that were named."""
        before = self._known()
        now = Map(
            cluster_id=before.cluster_id,
            brokers=dict(before.brokers),
            controllers=dict(before.controllers),
            fenced=set(before.fenced),
            kraft=set(before.kraft),
            zookeeper=before.zookeeper,
        )
        explore(self._reach, now)
        self._map = now
        return now

    def _named(self, seen: Seen) -> str:
        cluster_id = seen.map.cluster_id or self._cluster_id
        if not cluster_id:
            raise ProtocolError(
                f"{self.where}: expected a node that says the cluster id, found none. Add a "
                "broker to bootstrap, or name the cluster by its entry in the inventory."
            )
        return cluster_id


def candidates(known: Map) -> Iterator[tuple[Role, str]]:
    """Whom an update may be sent to, one after the other, as (role, host:port).

    ZooKeeper mode: the controller alone. KRaft: the active controller itself; brokers forward a
    request to it, and after a lost connection do so again, which the controller itself does not.
    """
    if known.mode == "zk":
        yield from ((Role.BROKER, address) for address in known.brokers.get(known.active, ()))
        return
    leader = known.leader[1]
    if leader != NOBODY:
        for address in known.controllers.get(leader, ()):
            yield Role.CONTROLLER, address
    live = [node for node in sorted(known.brokers) if node not in known.fenced]
    for node in live[:FORWARDERS]:
        yield Role.BROKER, known.brokers[node][0]


def _understood(answer: Answer) -> Reply:
    try:
        return reply(answer)
    except ProtocolError as error:  # it was sent, and something came
        raise OutcomeUnknownError(f"{error} It may have been applied: featurelib resume") from error


def _lines(seen: Seen, cluster_id: str) -> Iterator[bytes]:
    for asked in seen.asked:
        yield from lines_of(asked, cluster_id)
    for read in seen.znodes.reads if seen.znodes is not None else ():
        yield line("znode", cluster_id, read.at, **read.content)


def _quietly(text: str) -> None:
    """Nobody waits for this look."""
