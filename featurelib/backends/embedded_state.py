"""What is true of an embedded cluster at one moment, and what its nodes make of the next one.

It holds no rule: who stops, who may register, and how brokers of each generation read the features
node is asked of the core; here its answers become the next state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from featurelib.catalogue.tables import Tables
from featurelib.config.fleet import zookeeper_generation
from featurelib.core.cluster import Cluster, Node
from featurelib.core.compatibility import (
    Admission,
    Effect,
    Moment,
    Newcomer,
    Stopped,
    Unfit,
    join,
    stopped,
)
from featurelib.core.dialect import Dialect
from featurelib.core.election import DISABLED, ENABLED, elect
from featurelib.core.features_znode import DecodedNode, Generation, behaviour_row, decode
from featurelib.feature import Role

NOBODY = -1  # leads the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedState:
    """One cluster at one moment. `node`: the bytes of the features node, None if it is not there.

    `epoch`: the log's end, or the features node's version; `features_at`: the offset of the last
    feature record; `term`: the raft leader's epoch.
    """

    cluster: Cluster
    epoch: int
    node: bytes | None = None
    features_at: int = -1
    term: int = 0

    @property
    def text(self) -> str | None:
        """The features node as `decode` reads it."""
        return None if self.node is None else self.node.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """What running nodes make of a change. The others take it over."""

    stopped: tuple[Stopped, ...] = ()
    keep: frozenset[int] = frozenset()  # what they had read, until they can read the next
    blind: frozenset[int] = frozenset()  # they follow no longer, until they are started again


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


def start_of(cluster: Cluster, epoch: int, dialect: Dialect) -> EmbeddedState:
    """A cluster as it was captured; in ZooKeeper mode with a node that says what is finalized."""
    state = EmbeddedState(cluster=cluster, epoch=epoch, features_at=epoch)
    return state if dialect.mode == "kraft" or cluster.node_missing else written(state, dialect)


def written(state: EmbeddedState, dialect: Dialect) -> EmbeddedState:
    """The features node as the controller writes what is finalized."""
    cluster = state.cluster
    empty = elect(None, "", {}, dialect).content
    assert empty is not None
    rows = sorted((name, low, level) for name, (low, level) in cluster.finalized.items())
    status = DISABLED if cluster.off else ENABLED
    content = replace(empty, status=status, levels=tuple(rows))
    return replace(state, node=content.text.encode())


def reading_of(state: EmbeddedState, node: Node) -> tuple[DecodedNode, Generation] | None:
    """What a broker reads in the features node, and which generation it is of; None: no node."""
    if state.text is None:
        return None
    release = node.release or state.cluster.release
    generation = zookeeper_generation(release) or Generation.ZK_3_9
    return decode(state.text, generation), generation


def react(
    before: EmbeddedState,
    after: EmbeddedState,
    dialect: Dialect,
    tables: Tables,
    deaf: Collection[int] = (),
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


def watch(
    after: EmbeddedState, nodes: Iterable[Node], dialect: Dialect, tables: Tables
) -> Reaction:
    """Brokers of ZooKeeper mode read the node, each generation in its own way."""
    gone: list[Stopped] = []
    keep: set[int] = set()
    alike: dict[Generation, list[Node]] = {}
    for node in nodes:
        read = reading_of(after, node)
        if read is not None and not after.cluster.off:  # below 2.7 nobody reads the node
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


def over_text(node: Node, reading: DecodedNode) -> Stopped:
    fault = Unfit(feature="", text=reading.fault or "")
    return Stopped(node=node, effect=Effect.EXITS, unfit=(fault,))


def ask_again(before: Cluster, after: Cluster, dialect: Dialect, tables: Tables) -> Cluster:
    """KRaft: controllers that came too early for a registration, and no longer do."""

    def asked(node: Node) -> Node:
        if node.role is not Role.CONTROLLER or node.registered or not node.running:
            return node
        told = [join(at, Newcomer(node=node), dialect, tables).entry for at in (before, after)]
        return replace(node, registered=told == [Admission.REFUSED, Admission.ACCEPTED])

    return replace(after, nodes=tuple(asked(node) for node in after.nodes))
