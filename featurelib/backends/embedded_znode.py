"""The features node of an embedded cluster in ZooKeeper mode: written, read, damaged, elected over.

It holds no rule: what an election writes, how brokers of each generation read a text and what they
then do is asked of the core.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from featurelib.backends.embedded_state import NOBODY, Reaction, Started, State, end
from featurelib.catalogue.tables import Tables
from featurelib.configuration.fleet import zookeeper_generation
from featurelib.core.cluster import Cluster, Node
from featurelib.core.compatibility import Effect, Entry, Newcomer, Stopped, Unfit, join, stopped
from featurelib.core.dialect import Dialect
from featurelib.core.election import DISABLED, ENABLED, Change, Election, Reason, elect
from featurelib.core.features_node import FeaturesNode, Generation, behaviour_row, decode
from featurelib.core.sections import is_before
from featurelib.feature import Role


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
