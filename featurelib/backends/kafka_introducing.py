"""What one address that was given says of its cluster: who belongs to it, and who listens there.

A value is made of it and nothing else is touched, so that several can be asked at once.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from featurelib.backends.kafka_answers import (
    BROKERS,
    CONTROLLERS,
    Api,
    Members,
    Quorum,
    members,
    quorum,
)
from featurelib.backends.kafka_map import Map, add_addresses
from featurelib.backends.kafka_wire import Talk, Wire
from featurelib.errors import BackendError, UnreachableError
from featurelib.feature import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduced:
    """What the listener at `address` said. `members` and `quorum` None = it did not say."""

    role: Role
    address: str
    is_kraft: bool
    members: Members | None
    quorum: Quorum | None = None

    @property
    def node_id(self) -> int | None:
        """Which controller listens there, if it can be known: the one that advertises the address,
        or else the leader, since on a controller's listener only the leader answers."""
        for node, advertised in self.members.addresses.items() if self.members else ():
            if advertised == self.address:
                return node
        return None if self.quorum is None else self.quorum.leader_id


def introduce(role: Role, address: str, wire: Wire, *, who_leads: bool) -> Introduced:
    """Ask one address who belongs to its cluster, and `who_leads`; a controller also where it
    cannot be known otherwise which one it is.

    Raises UnreachableError where nobody answers or a broker does not list the others, ConfigError.
    """
    with wire.connect(address) as talk:
        is_broker = role is Role.BROKER
        said = Introduced(
            role=role,
            address=address,
            is_kraft=talk.is_kraft,
            members=_broker_s_list(talk) if is_broker else _controller_s_list(talk),
        )
        if who_leads or (not is_broker and said.node_id is None):
            return replace(said, quorum=_quorum(talk))
        return said


def learn(known: Map, said: Introduced) -> None:
    """Put it on the map. Raises ConfigError where it is of another cluster."""
    known.learn_mode(said.role, is_kraft=said.is_kraft)
    if said.members is not None:
        known.learn_members(said.members, said.role)
    if said.quorum is not None:
        known.learn_quorum(said.quorum)
    if said.role is Role.CONTROLLER:
        if said.node_id is not None:
            place(known, said.node_id, said.address)
        else:
            known.nameless.append(said.address)


def place(known: Map, node: int, address: str) -> None:
    """An address that was given is tried before those a node advertises."""
    advertised = known.controllers.pop(node, ())
    add_addresses(known.controllers, node, (address, *advertised))


def _broker_s_list(talk: Talk) -> Members:
    answer, fault = None, "it offers neither DescribeCluster nor Metadata"
    if talk.version_of(Api.DESCRIBE_CLUSTER) is not None:
        answer = talk.describe_cluster(BROKERS)
        fault = answer.fault or ""
    if fault and talk.version_of(Api.METADATA) is not None:  # 2.7 has nothing else
        answer = talk.metadata()
        fault = answer.fault or ""
    if answer is None or fault:
        raise UnreachableError(
            f"{talk.address}: expected a broker that lists the others, found: {fault}. "
            "A controller's listener belongs under controller_bootstrap (--controllers)."
        )
    return members(answer)


def _controller_s_list(talk: Talk) -> Members | None:
    if talk.version_of(Api.DESCRIBE_CLUSTER) is None:
        return None
    answer = talk.describe_cluster(CONTROLLERS)
    return members(answer) if answer.fault is None else None


def _quorum(talk: Talk) -> Quorum | None:
    """Who leads, if the listener says it; whoever is asked in full says once more why not."""
    with suppress(BackendError):
        if talk.version_of(Api.DESCRIBE_QUORUM) is not None:
            return quorum(talk.describe_quorum())
    return None
