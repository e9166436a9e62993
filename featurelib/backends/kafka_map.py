"""What is known of a cluster while it is explored: who belongs to it, where, and who leads.

Knowledge is only added. Nodes of two clusters are never put on one map.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from featurelib.backends.kafka_answers import Api, Members, Quorum, members, quorum
from featurelib.backends.kafka_asking import Asked, Target
from featurelib.backends.kafka_limits import MOST_ADDRESSES, MOST_NODES
from featurelib.errors import ConfigError
from featurelib.feature import Role
from featurelib.words import clean

NOBODY = -1


@dataclass(slots=True)
class Map:
    """What is known of a cluster while it is explored; node id → addresses.

    `leader` is (epoch, node) of the quorum, `active` the controller broker of ZooKeeper mode;
    `nameless` are addresses of controllers that do not say their node id.
    """

    cluster_id: str = ""
    brokers: dict[int, tuple[str, ...]] = field(default_factory=dict)
    controllers: dict[int, tuple[str, ...]] = field(default_factory=dict)
    fenced: set[int] = field(default_factory=set)
    leader: tuple[int, int] = (NOBODY, NOBODY)
    active: int = NOBODY
    voters: set[int] = field(default_factory=set)
    nameless: list[str] = field(default_factory=list)
    kraft: set[Role] = field(default_factory=set)
    zookeeper: bool = False

    @property
    def mode(self) -> str:
        return "kraft" if self.kraft else "zk"

    @property
    def is_migrating(self) -> bool:
        """Whether nodes of both modes answered."""
        return bool(self.kraft) and self.zookeeper

    @property
    def size(self) -> int:
        """How many addresses are known, of all nodes."""
        return sum(map(len, self.brokers.values())) + sum(map(len, self.controllers.values()))

    @property
    def is_full(self) -> bool:
        """Whether nodes may have been left out."""
        return max(len(self.brokers), len(self.controllers)) >= MOST_NODES

    def targets(self) -> list[Target]:
        """Every half of every node that is known, controllers first."""
        parts = ((Role.CONTROLLER, self.controllers), (Role.BROKER, self.brokers))
        return [
            Target(role=role, node_id=node, addresses=nodes[node])
            for role, nodes in parts
            for node in sorted(nodes)
        ]

    def learn_mode(self, role: Role, *, is_kraft: bool) -> None:
        """Of which mode a listener is that answered."""
        if is_kraft:
            self.kraft.add(role)
        else:
            self.zookeeper = True

    def learn_id(self, cluster_id: str) -> None:
        """The cluster's id, "" = not said. Raises ConfigError for the id of another cluster."""
        if self.cluster_id and cluster_id not in ("", self.cluster_id):
            first, second = sorted((clean(self.cluster_id), clean(cluster_id)))  # not by speed
            raise ConfigError(
                f"expected nodes of one cluster, found some of {first} and some of "
                f"{second}. Mend the addresses of bootstrap and controller_bootstrap."
            )
        self.cluster_id = self.cluster_id or cluster_id

    def learn_members(self, said: Members, role: Role) -> None:
        """Who belongs to it. Raises ConfigError for the list of another cluster."""
        self.learn_id(said.cluster_id)
        known = self.brokers if role is Role.BROKER else self.controllers
        for node, address in said.addresses.items():
            add_addresses(known, node, (address,))
        if role is Role.BROKER:
            self.fenced |= said.fenced
            self.active = self.active if said.controller_id == NOBODY else said.controller_id

    def learn_quorum(self, said: Quorum) -> None:
        """Who votes, and who leads in the newest epoch that was heard of."""
        for node, addresses in said.addresses.items():
            add_addresses(self.controllers, node, addresses)
        self.leader = max(self.leader, (said.leader_epoch, said.leader_id))
        self.voters |= set(said.voters)

    def learn(self, asked: Asked) -> None:
        """What one half of one node said."""
        role = asked.target.role
        if asked.error is None:
            self.learn_mode(role, is_kraft=asked.is_kraft)
        if (answer := asked.answer(Api.DESCRIBE_CLUSTER)) is not None:
            self.learn_members(members(answer), role)
        if (answer := asked.answer(Api.DESCRIBE_QUORUM)) is not None:
            said = quorum(answer)
            if said is not None:
                self.learn_quorum(said)


def add_addresses(known: dict[int, tuple[str, ...]], node: int, new: Iterable[str]) -> None:
    """Further addresses of a node, behind those that were known; a node too many is left out."""
    if node in known or len(known) < MOST_NODES:
        addresses = dict.fromkeys((*known.get(node, ()), *new))
        known[node] = tuple(islice(addresses, MOST_ADDRESSES))
