"""Find the registered brokers of a cluster in ZooKeeper mode.

Input: the state of a cluster. Output: the registrations that count, and the ids of unregistered
brokers. Easy to get wrong: a landing line may be lost, so a missing line does not prove that a
broker unregistered. A broker counts as unregistered if a newer list of the children of
`/brokers/ids` lacks its id. If no list of children was ever read, a broker counts as unregistered
if a later reading lacks its znode and the broker did not respond since. Any other broker that a
line names is registered with an unknown range.
"""

from __future__ import annotations

from featurelib.feature import Role
from featurelib.snapshot.state import DAMAGED, NOTHING, ONE_READING, ClusterState, Registration

ROUND = ("/brokers/ids", "/controller", "/feature")  # the znodes that each reading visits
ROUND_TIME = 1_000_000  # microseconds in which one reading visits all these znodes


def registered(state: ClusterState) -> tuple[list[Registration], set[int]]:
    """Return (valid registrations, ids of unregistered brokers). A broker that is missing without
    proof gets an unknown range."""
    listed_at, listed_line, listed = state.children
    by_id = {entry.node_id: entry for entry in state.registrations}
    responses = _newest_responses(state)
    newest = max([listed_at, *(entry.at for entry in state.registrations)])
    if not newest:
        return [], set()
    # A reading visits each znode once. If each was read twice since, one visit of all is complete.
    read_twice_at = [
        max((second for path, (_, second) in state.read_twice.items() if path.startswith(root)),
            default=0)
        for root in ROUND
    ]  # fmt: skip
    entries, unregistered = list[Registration](), set[int]()
    for node_id in sorted({*by_id, *listed, *responses}):
        entry = by_id.get(node_id, Registration(node_id, NOTHING, False, 0, 0))
        at, line = responses.get(node_id, (0, 0))
        # A reading queries listeners and ZooKeeper together, so a response belongs to the reading
        # with the nearest time. If that reading also read the registration, the response is no
        # evidence for a later reading.
        is_nearer_to_newest = not entry.at or at - entry.at > newest - at
        responded_in_newest = at + ONE_READING >= newest and is_nearer_to_newest
        round_is_complete = min(read_twice_at) > 0 and min(read_twice_at) + ROUND_TIME >= entry.at
        if entry.exists and entry.at >= max(listed_at, max(read_twice_at) * round_is_complete):
            if entry.at + ONE_READING < newest:  # the line of the newest reading was lost
                entry = Registration(node_id, DAMAGED, True, entry.at, entry.line)
            entries.append(entry)
        elif node_id in listed and listed_at + ROUND_TIME > entry.at:
            entries.append(Registration(node_id, DAMAGED, True, listed_at, listed_line))
        elif at and responded_in_newest:
            entries.append(Registration(node_id, DAMAGED, True, at, line))
        elif entry.exists and 0 < listed_at <= entry.at:  # that list was lost
            entries.append(Registration(node_id, DAMAGED, True, entry.at, entry.line))
        elif entry.exists:
            unregistered.add(node_id)
    return entries, unregistered


def _newest_responses(state: ClusterState) -> dict[int, tuple[int, int]]:
    """Return broker id → (time, line id) of its newest response. The znode /controller counts as a
    response of its broker. A failed request counts if no other data exists."""
    node_ids = {entry.node_id for entry in state.registrations}
    controller = state.controller[2]
    newest = {controller: state.controller[:2]} if controller >= 0 else {}
    for node in state.listeners:
        moments = [(node.full_at, node.full_line), (node.partial_at, node.partial_line)]
        if node.node_id not in node_ids and node.failed_at > state.children[0] + ONE_READING:
            moments.append((node.failed_at, node.failed_line))
        if node.role == Role.BROKER and max(moments)[0]:
            newest[node.node_id] = max(*moments, newest.get(node.node_id, (0, 0)))
    return newest
