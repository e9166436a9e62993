"""A real cluster of either mode: looked at listener by listener, updated through its controller.

An update goes out once, to whom it was said before that it would. A request to validate is sent a
second time where the controller had moved; in ZooKeeper mode it would be applied, so there it is
never sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial

from featurelib.backends.base import NO_COMPARISON, NO_VALIDATION, Abilities, Backend, Say
from featurelib.backends.credentials import Credentials
from featurelib.backends.kafka.discover import NOBODY, Map, Reach
from featurelib.backends.kafka.look import LiveLook, explore, line, lines_of, look
from featurelib.backends.kafka.passing import passed
from featurelib.backends.kafka.protocol import Talk, Wire
from featurelib.backends.kafka.responses import Api, ListenerAnswer, missing_right, reply
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.config.security import ZOOKEEPER
from featurelib.core.reply import Reply
from featurelib.errors import (
    FeatureLibError,
    OutcomeUnknownError,
    ProtocolError,
    RefusedError,
    UnreachableError,
)
from featurelib.feature import Role
from featurelib.landing.responses import NOT_AUTHORIZED, NOT_CONTROLLER
from featurelib.model import NotPassed, Passed, Recipient, Step

FORWARDERS = 3  # brokers that are tried where the active controller cannot be reached

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
        from featurelib.backends.zookeeper import read_znodes

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
        self._held: Talk | None = None  # a connection to the recipient of the next update

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
        cannot = [NO_COMPARISON]
        if known.mode == "zk":
            cannot.append(NO_VALIDATION)
            if self._reach.znodes is None:
                cannot.append(_NO_ZNODES)
        if known.is_migrating:
            cannot.append(_MIGRATING)
        validates = known.mode == "kraft" and not known.is_migrating
        return Abilities(mode=known.mode, validate_only=validates, cannot=tuple(cannot))

    def recipient(self) -> Recipient:
        """The first candidate that can be connected to; the connection is kept for `update`."""
        known = self._known()
        talk, role, node = self._connect(known)
        self.close()
        self._held = talk
        epoch, leader = known.leader
        return Recipient(
            role=role.text,
            node=node,
            address=talk.address,
            leader=leader if known.mode == "kraft" else node,
            leader_epoch=epoch,
        )

    def passed(self, sent: Recipient | None, features: Collection[str]) -> Passed | NotPassed:
        """By asking everybody who may hold the request: kafka_passing says what and why."""
        try:
            return passed(self._reach, self._find_again(), sent, features)
        except FeatureLibError as error:
            return NotPassed(why=str(error).rstrip("."))

    def update(self, step: Step, *, validate_only: bool = False) -> Reply:
        """The active controller's answer, its codes and words as they came; only where a right is
        missing, the words say which."""
        if validate_only:
            answered = self._validate(step)
        else:
            if self._held is None:
                self.recipient()
            assert self._held is not None
            with self._held as talk:
                self._held = None
                answered = _understood(talk.update_features(step, validate_only=False))
        if answered.code == NOT_AUTHORIZED:
            return replace(answered, message=missing_right(Api.UPDATE_FEATURES))
        return answered

    def close(self) -> None:
        """Let go of the connection that is kept for an update."""
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def _validate(self, step: Step) -> Reply:
        """A request to validate, sent again where the controller had moved: it writes nothing."""
        if not self.abilities().validate_only:
            raise RefusedError(
                f"{self.where}: expected a controller that validates without writing, found "
                "ZooKeeper mode, which would apply the request. Nothing was sent. Leave out "
                "--validate-only."
            )
        for known in (self._known, self._find_again):
            with self._connect(known())[0] as talk:
                answered = _understood(talk.update_features(step, validate_only=True))
            if answered.code != NOT_CONTROLLER:
                break
        return answered

    def _connect(self, known: Map) -> tuple[Talk, Role, int]:
        """A connection to the first candidate that takes one, and who that is."""
        failures = []
        for role, node, address in candidates(known):
            try:
                return self._reach.wire(role).connect(address), role, node
            except UnreachableError as error:
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

    def _named(self, seen: LiveLook) -> str:
        cluster_id = seen.map.cluster_id or self._cluster_id
        if not cluster_id:
            raise ProtocolError(
                f"{self.where}: expected a node that says the cluster id, found none. Add a "
                "broker to bootstrap, or name the cluster by its entry in the inventory."
            )
        return cluster_id


def candidates(known: Map) -> Iterator[tuple[Role, int, str]]:
    """Whom an update may be sent to, the best first, as (role, node, host:port).

    ZooKeeper mode: the controller alone. KRaft: the active controller itself; brokers forward a
    request to it, and after a lost connection do so again, which the controller itself does not.
    """
    if known.mode == "zk":
        for address in known.brokers.get(known.active, ()):
            yield Role.BROKER, known.active, address
        return
    leader = known.leader[1]
    if leader != NOBODY:
        for address in known.controllers.get(leader, ()):
            yield Role.CONTROLLER, leader, address
    live = [node for node in sorted(known.brokers) if node not in known.fenced]
    for node in live[:FORWARDERS]:
        yield Role.BROKER, node, known.brokers[node][0]


def _understood(answer: ListenerAnswer) -> Reply:
    try:
        return reply(answer)
    except ProtocolError as error:  # it was sent, and something came
        raise OutcomeUnknownError(
            f"UpdateFeatures was sent, and its answer is none: {error}"
        ) from error


def _lines(seen: LiveLook, cluster_id: str) -> Iterator[bytes]:
    for asked in seen.asked:
        yield from lines_of(asked, cluster_id)
    for read in seen.znodes.reads if seen.znodes is not None else ():
        yield line("znode", cluster_id, read.at, **read.content)


def _quietly(text: str) -> None:
    """Nobody waits for this look."""
