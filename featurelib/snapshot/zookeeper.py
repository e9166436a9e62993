"""Which brokers of a cluster in ZooKeeper mode are registered.

Input: the state of a cluster. Output: the registrations that count, and the ids of brokers that
left. A landing line may be lost on its way, so a broker without a registration line is not gone
for that alone. It is gone where a newer list of the children of `/brokers/ids` is without it. In a
cluster of which no such list was ever read it is gone where a later round of reading is without
it, if it did not answer since. Any other broker that a line speaks of is registered with a range
that is not known.
"""

from __future__ import annotations

from featurelib.feature import Role
from featurelib.snapshot.state import DAMAGED, NOTHING, ONE_LOOK, ClusterState, Registration


def registered(state: ClusterState) -> tuple[list[Registration], set[int]]:
    """Return the registrations that count, by broker, and the ids of those that are gone."""
    listed_at, listed_line, listed = state.children
    known = {entry.node_id: entry for entry in state.registrations}
    spoke = _spoke(state)
    newest = max([listed_at, *(entry.at for entry in state.registrations)])
    if not newest:
        return [], set()
    # A round reads each path once: a path that was read twice since is a whole round since.
    round_at = max((second for _, second in state.read_twice.values()), default=0)
    entries, removed = list[Registration](), set[int]()
    for node_id in sorted({*known, *listed, *spoke}):
        entry = known.get(node_id, Registration(node_id, NOTHING, False, 0, 0))
        at, line = spoke.get(node_id, (0, 0))
        # Listeners and ZooKeeper are asked at once, so an answer is of the look that is nearest:
        # one of the look in which its registration was read says nothing of a later look.
        is_of_this_look = at + ONE_LOOK >= newest and (not entry.at or at - entry.at > newest - at)
        if entry.exists and entry.at >= max(listed_at, round_at):
            entries.append(entry)
        elif node_id in listed and listed_at > entry.at:
            entries.append(Registration(node_id, DAMAGED, True, listed_at, listed_line))
        elif at and is_of_this_look:
            entries.append(Registration(node_id, DAMAGED, True, at, line))
        elif entry.exists and 0 < listed_at <= entry.at:  # that round's list was lost
            entries.append(Registration(node_id, DAMAGED, True, entry.at, entry.line))
        elif entry.exists:
            removed.add(node_id)
    return entries, removed


def _spoke(state: ClusterState) -> dict[int, tuple[int, int]]:
    """Return by broker the time and line of its newest answer. Of a broker of which nothing else is
    known, that it did not answer counts, too: only who was registered is asked."""
    known = {entry.node_id for entry in state.registrations}
    newest = dict[int, tuple[int, int]]()
    for node in state.listeners:
        moments = [(node.full_at, node.full_line), (node.partial_at, node.partial_line)]
        if node.node_id not in known and not state.children[0]:
            moments.append((node.failed_at, node.failed_line))
        if node.role == Role.BROKER and max(moments)[0]:
            newest[node.node_id] = max(moments)
    return newest
