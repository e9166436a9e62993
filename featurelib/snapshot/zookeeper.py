"""Find the registered brokers of a cluster in ZooKeeper mode.

Input: the state of a cluster. Output: the registrations that count, and the ids of brokers that
left. A landing line may be lost, so a missing line alone does not mean that a broker left. A broker
left if a newer list of the children of `/brokers/ids` lacks it. If no such list was ever read, it
left if a later reading lacks it and it did not respond since. Any other broker that a line names is
registered with an unknown range.
"""

from __future__ import annotations

from featurelib.feature import Role
from featurelib.snapshot.state import DAMAGED, NOTHING, ONE_READING, ClusterState, Registration

ROUND = ("/brokers/ids", "/controller", "/feature")  # the znodes that each reading visits
ROUND_TIME = 1_000_000  # microseconds that one round of reading takes


def registered(state: ClusterState) -> tuple[list[Registration], set[int]]:
    """Return the registrations that count, and the ids of brokers that left. A broker that the
    newest reading lacks, without proof that it left, gets an unknown range: DAMAGED."""
    listed_at, listed_line, listed = state.children
    by_id = {entry.node_id: entry for entry in state.registrations}
    spoke = _newest_responses(state)
    newest = max([listed_at, *(entry.at for entry in state.registrations)])
    if not newest:
        return [], set()
    # A round reads each znode once: if each was read twice since, a whole round lies in between.
    added = [
        max((second for path, (_, second) in state.read_twice.items() if path.startswith(root)),
            default=0)
        for root in ROUND
    ]  # fmt: skip
    entries, removed = list[Registration](), set[int]()
    for node_id in sorted({*by_id, *listed, *spoke}):
        entry = by_id.get(node_id, Registration(node_id, NOTHING, False, 0, 0))
        at, line = spoke.get(node_id, (0, 0))
        # A reading queries listeners and ZooKeeper together, so a response belongs to the reading
        # with the nearest time. A response from the reading that also read the registration is no
        # evidence for a later reading.
        is_nearer = not entry.at or at - entry.at > newest - at
        is_of_this_reading = at + ONE_READING >= newest and is_nearer
        is_whole = min(added) > 0 and min(added) + ROUND_TIME >= entry.at
        if entry.exists and entry.at >= max(listed_at, max(added) * is_whole):
            if entry.at + ONE_READING < newest:  # the newest reading lost its line
                entry = Registration(node_id, DAMAGED, True, entry.at, entry.line)
            entries.append(entry)
        elif node_id in listed and listed_at + ROUND_TIME > entry.at:
            entries.append(Registration(node_id, DAMAGED, True, listed_at, listed_line))
        elif at and is_of_this_reading:
            entries.append(Registration(node_id, DAMAGED, True, at, line))
        elif entry.exists and 0 < listed_at <= entry.at:  # that round's list was lost
            entries.append(Registration(node_id, DAMAGED, True, entry.at, entry.line))
        elif entry.exists:
            removed.add(node_id)
    return entries, removed


def _newest_responses(state: ClusterState) -> dict[int, tuple[int, int]]:
    """Return, by broker, time and line of its newest response. For a broker without other data a
    failed request counts, too: only registered brokers are queried."""
    node_ids = {entry.node_id for entry in state.registrations}
    newest = dict[int, tuple[int, int]]()
    for node in state.listeners:
        moments = [(node.full_at, node.full_line), (node.partial_at, node.partial_line)]
        if node.node_id not in node_ids and not state.children[0]:
            moments.append((node.failed_at, node.failed_line))
        if node.role == Role.BROKER and max(moments)[0]:
            newest[node.node_id] = max(moments)
    return newest
