"""Find every listener of a cluster and query all listeners in parallel.

Responses name further nodes: Metadata and DescribeCluster name brokers, DescribeQuorum names voters
and controllers, and registrations in ZooKeeper name brokers. The search ends when no response names
a new node. It takes one timeout, even if many nodes do not respond. A map never has nodes of two
clusters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec

from featurelib.backends.base import Say
from featurelib.backends.kafka.connection import MOST_ADDRESSES, MOST_NODES, Allowance
from featurelib.backends.kafka.internals import Api
from featurelib.backends.kafka.protocol import (
    WITNESSES,
    Client,
    ListedMembers,
    ListenerAnswer,
    NodeAnswers,
    QuorumState,
    Share,
    Silence,
    Target,
    Wire,
    ask,
    now,
    quorum,
)
from featurelib.config.fleet import split_id
from featurelib.errors import BackendError, ConfigError, ProtocolError, UnreachableError
from featurelib.feature import Role
from featurelib.landing import responses
from featurelib.landing.responses import BROKERS, CONTROLLERS
from featurelib.words import clean

if TYPE_CHECKING:
    from featurelib.backends.zookeeper import Znodes

NOBODY = -1


@dataclass(slots=True)
class Map:
    """The nodes of a cluster that a search has found: node id → addresses.

    `leader`: (epoch, node id) of the quorum; `active`: the controller in ZooKeeper mode;
    `nameless`: addresses of controllers with unknown node id."""

    cluster_id: str = ""
    brokers: dict[int, tuple[str, ...]] = field(default_factory=dict)
    controllers: dict[int, tuple[str, ...]] = field(default_factory=dict)
    fenced: set[int] = field(default_factory=set)
    leader: tuple[int, int] = (NOBODY, NOBODY)
    active: int = NOBODY
    voters: set[int] = field(default_factory=set)
    nameless: list[str] = field(default_factory=list)
    modes: set[str] = field(default_factory=set)  # the modes of the nodes that responded

    @property
    def mode(self) -> str:
        return "kraft" if "kraft" in self.modes else "zk"

    @property
    def is_migrating(self) -> bool:
        """True if nodes of both modes responded."""
        return len(self.modes) > 1

    @property
    def size(self) -> int:
        """The number of all known addresses."""
        return sum(map(len, self.brokers.values())) + sum(map(len, self.controllers.values()))

    def targets(self) -> list[Target]:
        """Return every known node in each of its roles; controllers come first."""
        parts = ((Role.CONTROLLER, self.controllers), (Role.BROKER, self.brokers))
        return [
            Target(role=role, node_id=node, addresses=nodes[node])
            for role, nodes in parts
            for node in sorted(nodes)
        ]

    def learn_id(self, cluster_id: str) -> None:
        """Record the cluster's id, unless "". Raises ConfigError if it contradicts the known id."""
        if self.cluster_id and cluster_id not in ("", self.cluster_id):
            first, second = sorted((clean(self.cluster_id), clean(cluster_id)))  # in a fixed order
            raise ConfigError(
                f"expected nodes of one cluster, found some of {first} and some of "
                f"{second}. Fix the addresses of bootstrap and controller_bootstrap."
            )
        self.cluster_id = self.cluster_id or cluster_id

    def learn_quorum(self, quorum: QuorumState) -> None:
        """Add the voters of a quorum, and its leader if its epoch is the newest."""
        for node, addresses in quorum.addresses.items():
            add_addresses(self.controllers, node, addresses)
        self.leader = max(self.leader, (quorum.leader_epoch, quorum.leader_id))
        self.voters |= set(quorum.voters)

    def learn(self, answers: NodeAnswers) -> None:
        """Add the nodes that one node's responses list. Raises ConfigError, ProtocolError."""
        role, members, state = answers.target.role, answers.members, answers.quorum
        if answers.error is None:
            self.modes.add("kraft" if answers.is_kraft else "zk")
        if members is not None:
            self.learn_id(members.cluster_id or "")
            for node, address in members.addresses.items():
                addresses = self.brokers if role is Role.BROKER else self.controllers
                add_addresses(addresses, node, (address,))
            if role is Role.BROKER:
                self.fenced |= members.fenced
                lists_it = members.controller_id != NOBODY
                self.active = members.controller_id if lists_it else self.active
        if state is not None:
            self.learn_quorum(state)

    def learn_introduced(self, answers: NodeAnswers) -> None:
        """Add the nodes that the responses of a given address list. The node at the address was
        unknown before."""
        self.learn(answers)
        node = _node_of(answers)
        if answers.target.role is Role.CONTROLLER and node is None:
            self.nameless.append(answers.address)
        elif answers.target.role is Role.CONTROLLER and node is not None:
            self.place(node, answers.address)

    def place(self, node: int, address: str) -> None:
        """Put a given address before the addresses that its node advertises."""
        advertised = self.controllers.pop(node, ())
        add_addresses(self.controllers, node, (address, *advertised))


def add_addresses(known: dict[int, tuple[str, ...]], node: int, new: Iterable[str]) -> None:
    """Add addresses to a node, up to MOST_ADDRESSES per node and MOST_NODES nodes."""
    if node in known or len(known) < MOST_NODES:
        addresses = dict.fromkeys((*known.get(node, ()), *new))
        known[node] = tuple(islice(addresses, MOST_ADDRESSES))


def _ask_members(role: Role, address: str, wire: Wire, with_leader: bool) -> NodeAnswers:
    """Query one address for its list of members; `with_leader`: also for the leader. A controller
    with unknown id is also asked for the id. Raises UnreachableError without a response,
    ConfigError."""
    with wire.connect(address) as client:
        answers = NodeAnswers(
            target=Target(role=role, node_id=NOBODY, addresses=(address,)),
            address=address,
            is_kraft=client.is_kraft,
            answers=(*_list(client, role),),
        )
        if with_leader or (role is Role.CONTROLLER and _node_of(answers) is None):
            answers = replace(answers, answers=(*answers.answers, *_leader(client)))
        if role is Role.CONTROLLER and _node_of(answers) is None:
            with suppress(BackendError):
                answers = replace(answers, own_id=client.own_id())
        return answers


def _node_of(answers: NodeAnswers) -> int | None:
    """Return the node id of the controller at an address: of the node that advertises it, else of
    the leader, else the node's own id. None = unknown."""
    for node, advertised in answers.members.addresses.items() if answers.members else ():
        if advertised == answers.address:
            return node
    return answers.own_id if answers.quorum is None else answers.quorum.leader_id


def _list(client: Client, role: Role) -> Iterator[ListenerAnswer]:
    """Yield the response that lists the cluster's members, or no response."""
    fault = "it offers neither DescribeCluster nor Metadata"
    if client.version_of(Api.DESCRIBE_CLUSTER) is not None:
        answer = client.describe_cluster(BROKERS if role is Role.BROKER else CONTROLLERS)
        fault = answer.fault or ""
        if not fault:
            yield answer
    if role is Role.CONTROLLER or not fault:
        return
    if client.version_of(Api.METADATA) is not None:  # 2.7 supports no other request for members
        answer = client.metadata()
        if answer.fault is None:
            yield answer
            return
        fault = answer.fault
    raise UnreachableError(
        f"{client.address} did not return the list of brokers: {fault.rstrip('.')}. "
        "If this address is a controller's, use it under controller_bootstrap (--controllers)."
    )


def _leader(client: Client) -> Iterator[ListenerAnswer]:
    """Yield the DescribeQuorum response; nothing if it fails."""
    with suppress(BackendError):
        if client.version_of(Api.DESCRIBE_QUORUM) is not None:
            answer = client.describe_quorum()
            if quorum(answer) is not None:
                yield answer


AT_ONCE = 64  # the maximum number of listeners that are queried at once
TOLD_EVERY = 25  # the number of listeners between two progress lines
FURTHER = 5  # the maximum number of known brokers to try if no given one responds
PAUSE_SECONDS = 0.5  # the wait for nodes that list others, in seconds

_T = TypeVar("_T")
Key = tuple[Role, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The addresses of a cluster: host:port; for controllers also ID@host:port. `znodes`: reads
    ZooKeeper if the inventory has its address."""

    where: str
    bootstrap: tuple[str, ...]
    controllers: tuple[str, ...]
    wires: dict[Role, Wire]
    znodes: Callable[[], Znodes] | None

    def after(self, node_map: Map | None) -> Reach:
        """Return these addresses, followed by a few brokers of an earlier map as a last resort."""
        known_at = islice((at[0] for at in node_map.brokers.values()), FURTHER) if node_map else ()
        return replace(self, bootstrap=tuple(dict.fromkeys((*self.bootstrap, *known_at))))


CATCH_UP_PAUSE = 0.05  # seconds between two requests to a broker whose metadata lags


class _End(msgspec.Struct, frozen=True):
    """The end offset of a broker's copy of the metadata log; -1 = unknown."""

    finalized_features_epoch: int = -1


_ADDRESSES = "advertised.listeners", "listeners"
_OF_BROKERS = "inter.broker.listener.name", "security.inter.broker.protocol"


def _listener_names(client: Client, node: int, response: ListenerAnswer) -> dict[str, str]:
    """Return the names of two listeners: the one that sent the node list, and the one between
    brokers; {} = unknown. Raises ProtocolError, UnreachableError."""
    if client.version_of(Api.DESCRIBE_CONFIGS) is None:
        return {}
    answer = client.describe_configs([str(node)], (*_ADDRESSES, *_OF_BROKERS))
    configs = answer.read(responses.DescribeConfigs).results[0].configs
    values = {config.name: responses.given(config.value) for config in configs}
    listeners, of_brokers = (
        next(filter(None, map(values.get, keys)), "") for keys in (_ADDRESSES, _OF_BROKERS)
    )
    pairs = (text.strip().partition("://") for text in listeners.split(","))
    names = {host_port: name for name, _, host_port in pairs}
    name = names.get(response.read(ListedMembers).addresses.get(node, ""), "")
    keys = {"listener_name": name, "inter_broker_listener": of_brokers}
    return keys if all(keys.values()) else {}


def _list_again(node: NodeAnswers, wire: Wire) -> tuple[NodeAnswers, bool]:
    """Wait until a broker's metadata log reaches the quorum's end offset, then repeat
    DescribeCluster. Return (all responses of the broker, true if it caught up). Its list then has
    every earlier registration (featurelib.snapshot.lists)."""
    deadline, epoch, end = time.monotonic() + wire.timeout, 0, None
    try:
        with wire.connect(node.address) as client:
            while end is None or epoch + 1 < end:
                # A new leader does not know the high watermark yet.
                if end is None and (state := quorum(client.describe_quorum())) is not None:
                    end = state.high_watermark if state.high_watermark > 0 else None
                epoch = max(0, client.api_versions().read(_End).finalized_features_epoch)
                if time.monotonic() > deadline:
                    break
                Event().wait(CATCH_UP_PAUSE * (end is None or epoch + 1 < end))
            listed = client.describe_cluster(BROKERS)
            names = _listener_names(client, node.target.node_id, listed)
        silence = Silence(Api.DESCRIBE_CLUSTER, listed.at, listed.fault or "", listed.code)
    except (UnreachableError, ProtocolError) as error:
        silence = Silence(Api.DESCRIBE_CLUSTER, now(), str(error))
    if silence.why:
        return replace(node, silent=(*node.silent, silence)), False
    listed = replace(listed, line_keys={"epoch": epoch, "high_watermark": end, **names})
    return replace(node, answers=(*node.answers, listed)), end is not None and epoch + 1 >= end


class Search:
    """A search for nodes. Threads query nodes; one thread adds the responses to the map. `asks`:
    read ZooKeeper, and query every node in full; otherwise query only given addresses for members.
    `failures`: texts about given addresses that failed."""

    def __init__(self, reach: Reach, node_map: Map, say: Say, *, asks: bool) -> None:
        self.known, self.failures, self._asks = node_map, list[str](), asks
        self.asked: dict[Key, NodeAnswers] = {}
        self.znodes: Znodes | None = None
        self._reach, self._say, self._share = reach, say, Share()
        # The handlers of finished queries.
        self._running, self._done = 0, SimpleQueue[Callable[[], None]]()
        self._may_be_new = True  # true if a node may still have to be queried
        self._tried: dict[Key, set[str]] = {}
        self._given: set[str] = set()  # brokers that must send their lists
        self._introducing, self._has_list = 0, False
        self._began = self._next_broker_at = time.monotonic()
        allowance = Allowance(max(wire.timeout for wire in reach.wires.values()))
        self._wires = {role: wire.in_one_reading(allowance) for role, wire in reach.wires.items()}

    @property
    def answers(self) -> list[NodeAnswers]:
        """The queried nodes, sorted by role and id."""
        return sorted(self.asked.values(), key=lambda a: (-a.target.role, a.target.node_id))

    def run(self) -> Self:
        """Run the search to its end. Raises ConfigError."""
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ask")
        try:
            if self._asks and self._reach.znodes is not None:
                self._learn_from(self._reach.znodes, self._learn_znodes)
            for text in self._reach.controllers:
                node, address = split_id(text)
                if node is None:
                    self._ask_members(Role.CONTROLLER, address)
                else:
                    self.known.place(node, address)
            while True:
                self._introduce_next_broker()
                if self._asks and self._may_be_new:
                    self._may_be_new = self._is_patient()
                    self._ask_new()
                if not self._running:
                    break
                for learn in self._next_done():
                    self._running -= 1
                    learn()
        finally:
            self._pool.shutdown(cancel_futures=True)
        return self

    def _next_done(self) -> Iterator[Callable[[], None]]:
        """Yield the handlers of finished queries. Waits if no query is finished."""
        with suppress(Empty):
            yield self._done.get(timeout=self._seconds_left())
            while True:
                yield self._done.get_nowait()

    def _start(self, work: Callable[[], _T], then: Callable[[Future[_T]], None]) -> None:
        self._running += 1
        job = self._pool.submit(work)
        job.add_done_callback(lambda done: self._done.put(partial(then, done)))

    # Query given addresses for other nodes.

    def _introduce_next_broker(self) -> None:
        """Query the next given broker for its list, if the previous one failed or is slow."""
        waiting = self._brokers_left()
        if waiting and time.monotonic() >= self._next_broker_at:
            self._given.add(waiting[0])
            self._next_broker_at = time.monotonic() + PAUSE_SECONDS
            self._ask_members(Role.BROKER, waiting[0])

    def _brokers_left(self) -> list[str]:
        if self._has_list:
            return []
        registered = (address for addresses in self.known.brokers.values() for address in addresses)
        brokers = dict.fromkeys((*self._reach.bootstrap, *islice(registered, FURTHER)))
        return [address for address in brokers if address not in self._given]

    def _ask_members(self, role: Role, address: str) -> None:
        work = partial(_ask_members, role, address, self._wires[role], not self._asks)
        self._learn_from(work, self.known.learn_introduced, role)

    def _learn_from(
        self, work: Callable[[], _T], learn: Callable[[_T], None], role: Role | None = None
    ) -> None:
        """Start a query in a thread, and pass the response to `learn`. `role`: of the queried node,
        None = ZooKeeper."""

        def learned(job: Future[_T]) -> None:
            self._introducing -= 1
            self._may_be_new = True
            try:
                learn(job.result())
            except BackendError as error:
                self.failures.append(str(error))
                if role is Role.BROKER:
                    self._next_broker_at = time.monotonic()
            else:
                self._has_list |= role is Role.BROKER

        self._introducing += 1
        self._start(work, learned)

    def _learn_znodes(self, znodes: Znodes) -> None:
        self.znodes = znodes
        self.known.learn_id(znodes.cluster_id)
        for node, addresses in znodes.brokers.items():
            add_addresses(self.known.brokers, node, addresses)

    # Wait for nodes.

    def _is_patient(self) -> bool:
        """Return true while the search waits for nodes that can list further nodes."""
        return bool(self._introducing) and time.monotonic() < self._began + PAUSE_SECONDS

    def _may_be_given(self, target: Target) -> bool:
        """Return true if a given address may belong to this node. Given addresses have priority."""
        is_given = not {*target.addresses}.isdisjoint(self._reach.controllers)
        return target.role is Role.CONTROLLER and not is_given and self._is_patient()

    def _seconds_left(self) -> float | None:
        """Return the seconds until the search continues without a response; None = no limit."""
        moments = [self._next_broker_at] if self._brokers_left() else []
        moments += [self._began + PAUSE_SECONDS] if self._is_patient() else []
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def list_again(self) -> None:
        """Query a broker for its node list again. Skipped if no node showed the quorum."""
        if all(node.quorum is None for node in self.answers):
            return
        for node in [node for node in self.answers if node.shows_fenced][:WITNESSES]:
            self.asked[node.target.key], is_proven = _list_again(node, self._wires[Role.BROKER])
            if is_proven:
                return

    # Query the found nodes.

    def _ask_new(self) -> None:
        """Query new nodes, and silent nodes that have a new address."""
        new = []
        for target in self.known.targets():
            tried = self._tried.get(target.key, set())
            untried = tuple(address for address in target.addresses if address not in tried)
            before = self.asked.get(target.key)
            is_silent = before is not None and before.error is not None
            if target.key not in self._tried:
                is_new = not self._may_be_given(target)
            else:
                is_new = bool(untried) and is_silent
            if is_new:
                new.append(replace(target, addresses=untried))
                self._tried[target.key] = {*tried, *untried}
        if new:
            self._say(f"{self._reach.where}: asking {_counted(new)}")
        for target in new:
            wire = self._wires[target.role]
            self._start(partial(ask, target, wire, self._share), self._learn_asked)

    def _learn_asked(self, job: Future[NodeAnswers]) -> None:
        answer = job.result()
        self.asked[answer.target.key] = answer
        before = self.known.size
        self.known.learn(answer)
        for node, address in answer.configured_voters:  # the voter gives an address its node id
            if node is not None and address in self._reach.controllers:
                self.known.place(node, address)
        self._may_be_new |= self.known.size > before or answer.error is not None
        if len(self.asked) % TOLD_EVERY == 0:
            self._say(f"{self._reach.where}: {len(self.asked)} of {len(self._tried)} asked")


def _counted(targets: list[Target]) -> str:
    count = {role: sum(target.role is role for target in targets) for role in Role}
    return " and ".join(f"{n} {role.text}{'s' * (n != 1)}" for role, n in count.items() if n)
