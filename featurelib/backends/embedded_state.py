"""What is true of an embedded cluster at one moment, and what nodes make of the next one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from featurelib.catalogue.tables import Tables
from featurelib.config.fleet import zookeeper_generation
from featurelib.core.cluster import Cluster, Features, Node
from featurelib.core.compatibility import (
    Effect,
    Entry,
    Joined,
    Moment,
    Newcomer,
    Stopped,
    Unfit,
    join,
    stopped,
)
from featurelib.core.dialect import Dialect, is_before
from featurelib.core.dry_run import Answered
from featurelib.core.election import DISABLED, ENABLED, Change, Election, Reason, elect
from featurelib.core.features_znode import FeaturesNode, Generation, behaviour_row, decode
from featurelib.feature import Role

NOBODY = -1  # leads the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """How a broker of ZooKeeper mode was started, where that was said."""

    protocol_version: str
    supported: Features  # below 2.7 it supports more than it registers


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One cluster at one moment. `node`: the bytes of the features node, None if it is not there.

    `epoch`: the log's end, or the features node's version; `features_at`: the offset of the last
    feature record; `term`: the raft leader's epoch.
    """

    cluster: Cluster
    epoch: int
    node: bytes | None = None
    features_at: int = -1
    term: int = 0
    started: dict[int, Started] = field(default_factory=dict)

    @property
    def text(self) -> str | None:
        """The features node as `decode` reads it."""
        return None if self.node is None else self.node.decode("utf-8", "surrogateescape")

    def protocol_version(self, node_id: int) -> str:
        """inter.broker.protocol.version of a broker; empty: its release's own."""
        return self.started[node_id].protocol_version if node_id in self.started else ""

    def supported(self, node: Node) -> Features:
        """What a node supports, registered or not."""
        return (
            self.started[node.node_id].supported
            if node.node_id in self.started
            else (node.supported)
        )

    def follows(self, node: Node, dialect: Dialect) -> bool:
        """ZooKeeper mode: whether a broker looks at the features node at all."""
        if node.node_id in self.started or not self.cluster.off:
            version = self.protocol_version(node.node_id)
            return not is_before(version, dialect.election.system_from)
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """What running nodes make of a change. The others take it over."""

    stopped: tuple[Stopped, ...] = ()
    keep: frozenset[int] = frozenset()  # what they had read, until they can read the next
    blind: frozenset[int] = frozenset()  # they follow no longer, until they are started again


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The controller's answer, and the nodes that stopped over what was finalized."""

    answered: Answered
    stopped: tuple[Stopped, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    """What an election did to the features node (None in KRaft), and the nodes that stopped."""

    election: Election | None = None
    stopped: tuple[Stopped, ...] = ()


def end(cluster: Cluster, ids: Collection[int], dialect: Dialect) -> Cluster:
    """Processes end. A registration in ZooKeeper goes with its session, one of KRaft is fenced."""

    def ended(node: Node) -> Node:
        if node.node_id not in ids:
            return node
        if dialect.mode == "zk":
            return replace(node, running=False, registered=False, ignored=False)
        return replace(node, running=False, fenced=node.fenced or node.role is Role.BROKER)

    return replace(
        cluster,
        nodes=tuple(ended(node) for node in cluster.nodes),
        active=NOBODY if cluster.active in ids else cluster.active,
    )


# ----------------------------------------
# The features node of an embedded cluster in ZooKeeper mode: written, read, damaged, elected over.
#
# It holds no rule: what an election writes, how brokers of each generation read a text and what
# they
# then do is asked of the core.


def start_of(cluster: Cluster, epoch: int, dialect: Dialect) -> State:
    """A cluster as it was captured; in ZooKeeper mode with a node that says what is finalized."""
    state = State(cluster=cluster, epoch=epoch, features_at=epoch)
    return state if dialect.mode == "kraft" or cluster.node_missing else written(state, dialect)


def written(state: State, dialect: Dialect) -> State:
    """The features node as the controller writes what is finalized."""
    cluster = state.cluster
    empty = elect(None, state.protocol_version(cluster.active), {}, dialect).content
    assert empty is not None
    rows = sorted((name, low, level) for name, (low, level) in cluster.finalized.items())
    status = DISABLED if cluster.off else ENABLED
    content = replace(empty, status=status, levels=tuple(rows))
    return replace(state, node=content.text.encode())


def reading_of(state: State, node: Node) -> tuple[FeaturesNode, Generation] | None:
    """What a broker reads in the features node, and which generation it is of; None: no node."""
    if state.text is None:
        return None
    release = node.release or state.cluster.release
    generation = zookeeper_generation(release) or Generation.ZK_3_9
    return decode(state.text, generation), generation


def watch(after: State, nodes: Iterable[Node], dialect: Dialect, tables: Tables) -> Reaction:
    """Brokers of ZooKeeper mode read the node, each generation in its own way."""
    gone: list[Stopped] = []
    keep: set[int] = set()
    alike: dict[Generation, list[Node]] = {}
    for node in nodes:
        read = reading_of(after, node)
        if read is not None and after.follows(node, dialect):
            alike.setdefault(read[1], []).append(node)
    for generation, some in alike.items():
        assert after.text is not None
        reading = decode(after.text, generation)
        effects = behaviour_row(reading.reading, generation)["running"]
        if "stop" in effects:
            gone += [over_text(node, reading) for node in some]
        elif "keep_old" in effects:
            keep |= {node.node_id for node in some}
        else:
            levels = {name: (low, level) for name, low, level in reading.levels}
            cluster = replace(after.cluster, nodes=tuple(some), finalized=levels, off=False)
            gone += stopped(cluster, dialect, tables)
    return Reaction(stopped=tuple(gone), keep=frozenset(keep))


def over_text(node: Node, reading: FeaturesNode) -> Stopped:
    fault = Unfit(feature="", text=reading.fault or "")
    return Stopped(node=node, effect=Effect.EXITS, unfit=(fault,))


def crown(
    state: State, leader: Node, protocol_version: str, dialect: Dialect, *, deaf: bool
) -> tuple[State, Election]:
    """ZooKeeper mode: what the election of `leader`, of `dialect`'s generation, makes of the node.

    A `deaf` one writes, and does not see what it wrote.
    """
    cluster, supported = state.cluster, state.supported(leader)
    found = elect(state.text, protocol_version, supported, dialect)
    if found.change is Change.NOBODY:
        ends = {leader.node_id} if Reason.INCOMPATIBLE in found.reasons else ()
        return replace(state, cluster=replace(end(cluster, ends, dialect), active=NOBODY)), found
    assert found.content is not None
    assert found.text is not None
    version = found.version(None if cluster.node_missing else state.epoch)
    after = replace(
        cluster,
        active=leader.node_id,
        release=leader.release or cluster.release,
        finalized={name: (low, level) for name, low, level in found.content.levels},
        cached={} if deaf else None,
        off=found.content.status != ENABLED,
        node_missing=False,
        blind=deaf,
    )
    node = found.text.encode("utf-8", "surrogateescape")
    return replace(state, cluster=after, epoch=version or 0, node=node), found


def run_with(state: State, node: Node, protocol_version: str, dialect: Dialect) -> State:
    """A broker as if it had been started with another protocol version."""
    how = Started(protocol_version=protocol_version, supported=state.supported(node))
    silent = is_before(protocol_version, dialect.election.system_from)
    now = replace(node, supported={} if silent else how.supported)
    nodes = tuple(now if n == node else n for n in state.cluster.nodes)
    return replace(
        state,
        cluster=replace(state.cluster, nodes=nodes),
        started={**state.started, node.node_id: how},
    )


def look_again(state: State, dialect: Dialect, tables: Tables) -> State:
    """ZooKeeper mode: a new controller leaves out the registrations that do not fit."""

    cluster = state.cluster

    def seen(node: Node) -> Node:
        if not node.registered:
            return node
        newcomer = Newcomer(node=node, unguarded=True)
        entry = join(cluster, newcomer, dialect, tables).entry
        return replace(node, ignored=entry is Entry.IGNORED)

    nodes = tuple(seen(node) for node in cluster.nodes)
    return replace(state, cluster=replace(cluster, nodes=nodes))


def overwritten(state: State, text: str | None, deaf: Collection[int]) -> State:
    """ZooKeeper mode: somebody else writes the features node, or deletes it (None)."""
    cluster = state.cluster
    if text is None:
        gone = replace(cluster, finalized={}, cached={}, node_missing=True, blind=False)
        return replace(state, cluster=gone, node=None)
    node = text.encode("utf-8", "surrogateescape")
    epoch = 0 if cluster.node_missing else state.epoch + 1
    after = replace(state, node=node, epoch=epoch)
    read = reading_of(after, Node(node_id=NOBODY, role=Role.BROKER))  # as the controller does
    assert read is not None
    effects = behaviour_row(read[0].reading, read[1])["running"]
    had = cluster.finalized if cluster.cached is None else cluster.cached
    blind = cluster.active in deaf
    cached = had if "keep_old" in effects else {} if blind or "clear" in effects else None
    levels = {name: (low, level) for name, low, level in read[0].levels}
    return replace(
        after,
        cluster=replace(cluster, finalized=levels, cached=cached, node_missing=False, blind=blind),
    )


# ----------------------------------------
# What the nodes of an embedded cluster make of a change, and what becomes of one that starts.
#
# It holds no rule: who may join and who stops is asked of the core; here its answers become the
# next
# state.


def react(
    before: State, after: State, dialect: Dialect, tables: Tables, deaf: Collection[int] = ()
) -> Reaction:
    """What running nodes make of the way from one state to another; `deaf` ones do not see it."""
    seeing = [node for node in after.cluster.nodes if node.node_id not in deaf]
    if dialect.mode == "zk":
        return watch(after, [node for node in seeing if node.running], dialect, tables)
    cluster = replace(after.cluster, nodes=tuple(seeing), finalized=before.cluster.finalized)
    proposed, moment = after.cluster.finalized, Moment.AFTER_UPDATE
    found = stopped(cluster, dialect, tables, moment=moment, proposed=proposed)
    return Reaction(
        stopped=tuple(item for item in found if item.effect is Effect.EXITS),
        blind=frozenset(item.node.node_id for item in found if item.effect is Effect.BLIND),
    )


def arrive(
    state: State, node: Node, protocol_version: str, dialect: Dialect, tables: Tables
) -> tuple[State, Joined]:
    """A process starts and wants to register: what becomes of it, and of its registration."""
    started = {key: how for key, how in state.started.items() if key != node.node_id}
    if protocol_version:
        how = Started(protocol_version=protocol_version, supported=node.supported)
        started[node.node_id] = how
    cluster = state.cluster
    if node.node_id == cluster.active and any(_key(n) == _key(node) for n in cluster.nodes):
        cluster = replace(cluster, active=NOBODY)  # another process takes the place of the leader
    joined = join(cluster, Newcomer(node=node, protocol_version=protocol_version), dialect, tables)
    entry = joined.entry
    late = entry is Entry.REFUSED and node.role is Role.CONTROLLER  # it runs, and asks again
    silent = is_before(protocol_version, dialect.election.system_from)
    fresh = replace(
        node,
        running=True,
        registered=not late,
        ignored=entry is Entry.IGNORED,
        supported={} if silent else node.supported,
    )
    with_it = replace(state, cluster=_with(cluster, fresh), started=started)
    if ends := _ends_at_start(with_it, fresh, dialect, tables):
        joined = Joined(entry=Entry.STOPS, message=joined.message or ends[0].text, unfit=ends)
    if joined.entry is Entry.STOPS:
        return replace(state, cluster=end(cluster, {node.node_id}, dialect)), joined
    if entry is Entry.REFUSED and not late:
        others = [n for n in cluster.nodes if _key(n) != _key(node)]
        old = [replace(n, running=False, fenced=True) for n in cluster.nodes if n not in others]
        return replace(state, cluster=replace(cluster, nodes=(*others, *old))), joined
    return with_it, joined


def _ends_at_start(state: State, node: Node, dialect: Dialect, tables: Tables) -> tuple[Unfit, ...]:
    """Why a process that starts ends by itself; empty: it does not."""
    if dialect.mode == "kraft":
        found = stopped(state.cluster, dialect, tables, moment=Moment.NEXT_START)
        return next((i.unfit for i in found if i.node == node and i.effect is Effect.EXITS), ())
    read = reading_of(state, node)
    if read is None or not state.follows(node, dialect):
        return ()
    if "stop" in behaviour_row(read[0].reading, read[1])["at_start"]:
        return over_text(node, read[0]).unfit
    return next((item.unfit for item in watch(state, [node], dialect, tables).stopped), ())


def _key(node: Node) -> tuple[int, Role]:
    return node.node_id, node.role


def _with(cluster: Cluster, node: Node) -> Cluster:
    others = [other for other in cluster.nodes if _key(other) != _key(node)]
    return replace(cluster, nodes=(*others, node))


def ask_again(before: Cluster, after: Cluster, dialect: Dialect, tables: Tables) -> Cluster:
    """KRaft: controllers that came too early for a registration, and no longer do."""

    def asked(node: Node) -> Node:
        if node.role is not Role.CONTROLLER or node.registered or not node.running:
            return node
        told = [join(at, Newcomer(node=node), dialect, tables).entry for at in (before, after)]
        return replace(node, registered=told == [Entry.REFUSED, Entry.ACCEPTED])

    return replace(after, nodes=tuple(asked(node) for node in after.nodes))
