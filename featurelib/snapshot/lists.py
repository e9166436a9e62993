"""Find node lists that are older than other responses of about the same time.

Input: a DescribeCluster list, and the state of its cluster. A node lists the nodes in its own copy
of the metadata, and the copy may lag. A broker's epoch in ApiVersions is the end of its copy. A
controller's epoch is not, so only the list of the quorum's leader counts. `collect` queries a
broker for its list again once the copy has the quorum's high watermark, and writes both offsets
into the line. For other lines the epochs are compared. In between a busy cluster may write many
records, so the high watermark then counts only if a node that reads the log is in no list.
"""

from __future__ import annotations

from featurelib.feature import Role
from featurelib.landing.responses import MEMBERS, UNLISTED
from featurelib.snapshot.state import (
    FASTEST_RESTART,
    IDLE_RECORD_INTERVAL,
    ONE_MOMENT,
    ONE_READING,
    ClusterState,
    Listener,
    Members,
    later_quorum,
)

BUSY_RECORD_INTERVAL = 20_000  # microseconds: a busy cluster writes up to 50 records per second
ON_THE_WAY = 1_000_000  # microseconds: a record reaches all running nodes in less time


def is_outdated(listed: Members, state: ClusterState) -> bool:
    """Return true if other responses of the same time are newer than this node list."""
    equal = [
        other
        for other in state.members
        if (other.role, other.fenced_shown, other.members)
        == (listed.role, listed.fenced_shown, listed.members)
    ]
    compared = [other for other in equal if other.end >= 0]
    return not any(_is_current(other, state) for other in compared or equal)


def _is_current(listed: Members, state: ClusterState) -> bool:
    key = listed.role, listed.asked_node
    own = next((entry for entry in state.listeners if (entry.role, entry.node_id) == key), None)
    if _is_list_lost(listed, own, state) or _is_apart(listed, state):
        return False
    if listed.role == Role.CONTROLLER:
        return True
    unlisted_at = _unlisted_at(state)
    if listed.may_lack_brokers and unlisted_at:
        return False
    if unlisted_at > listed.at + ONE_MOMENT * (listed.end < 0):
        return False  # a later response shows a node that joined after the list
    if listed.end >= 0:
        begin = listed.at - ONE_READING
        return all(end < listed.end for at, end in state.marks if begin <= at <= listed.at)
    return own is None or own.levels_at + ONE_READING < listed.at or not _lags(own, listed, state)


def _is_list_lost(listed: Members, own: Listener | None, state: ClusterState) -> bool:
    """Return true if the node `own` was queried for a newer list, which is not in the data."""
    requests_at = [
        acl.refused_at
        for acl in state.rights
        if acl.request in (MEMBERS, UNLISTED)
        and (acl.role, acl.node_id) == (listed.role, listed.asked_node)
    ]
    # `collect` queries the ranges of a node before its lists, so a later query lost its list.
    if own is not None and state.compared_at + ONE_READING >= listed.at:
        requests_at.append(_asked_at(own) - FASTEST_RESTART)
    return any(0 < at - listed.at <= ONE_READING for at in requests_at)


def _is_apart(listed: Members, state: ClusterState) -> bool:
    """Return true if a controller that does not lead, or a node outside the quorum, sent it."""
    quorum = state.quorum
    if quorum.leader_id < 0 or abs(quorum.at - listed.at) > ONE_READING or quorum.leader_epoch < 0:
        return False
    if listed.role == Role.CONTROLLER:
        return listed.asked_node != quorum.leader_id
    followers = {quorum.leader_id, *quorum.following, *quorum.observers}
    return bool(quorum.observers) and listed.asked_node not in followers


def _asked_at(listener: Listener) -> int:
    return max(listener.full_at, listener.partial_at, listener.levels_at, listener.failed_at)


def _lags(own: Listener, listed: Members, state: ClusterState) -> bool:
    """Return true if a broker lacked metadata records that other nodes had at that time."""
    has_unlisted, quorum = _unlisted_at(state) > 0, state.quorum
    if has_unlisted and own.levels_at > listed.at + FASTEST_RESTART:
        return True  # the end of its copy at that time is unknown
    interval = IDLE_RECORD_INTERVAL if has_unlisted else BUSY_RECORD_INTERVAL
    ends = [(node.levels_at, node.epoch) for node in state.listeners if node.role == Role.BROKER]
    ends += [(quorum.at, quorum.high_watermark - 1)] * has_unlisted
    return any(
        end - own.epoch > _written(at - own.levels_at, interval)
        for at, end in ends
        if abs(at - own.levels_at) <= ONE_READING
    )


def _written(later: int, interval: int) -> int:
    """Return the maximum number of log records written within `later` microseconds."""
    return ON_THE_WAY // IDLE_RECORD_INTERVAL + -(-max(0, later) // interval)


def _unlisted_at(state: ClusterState) -> int:
    """Return the time of the newest response that shows a node that reads the metadata log and is
    in no node list; 0 if there is none."""
    listed = {node_id for members in state.members for node_id, _ in members.members}
    listed |= {node.node_id for node in state.listeners if node.role == Role.CONTROLLER}
    quorums = state.quorum, later_quorum(state)
    times = (quorum.at for quorum in quorums if {*quorum.observers} - listed - {*quorum.voters})
    return max(times, default=0)


def observers_of(state: ClusterState) -> tuple[int, ...]:
    """Return the nodes that the newest responses show as observers of the quorum."""
    return tuple(sorted({*state.quorum.observers, *later_quorum(state).observers}))
