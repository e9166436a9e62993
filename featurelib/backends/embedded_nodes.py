"""What the nodes of an embedded cluster make of a change, and what becomes of one that starts.

It holds no rule: who may join and who stops is asked of the core; here its answers become the next
state.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from featurelib.backends.embedded_state import NOBODY, Reaction, Started, State, end
from featurelib.backends.embedded_znode import over_text, reading_of, watch
from featurelib.catalogue.tables import Tables
from featurelib.core.cluster import Cluster, Node
from featurelib.core.compatibility import (
    Effect,
    Entry,
    Joined,
    Moment,
    Newcomer,
    Unfit,
    join,
    stopped,
)
from featurelib.core.dialect import Dialect
from featurelib.core.features_node import behaviour_row
from featurelib.core.sections import is_before
from featurelib.feature import Role


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
