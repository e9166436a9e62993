"""`describe_quorum`: who votes in the metadata quorum, and who only follows.

Only partition 0 of `__cluster_metadata` is the metadata quorum. A replica that changed its disk
may be listed twice, with two directory ids: the ids are kept once. Kafka lists an observer for five
minutes after its last fetch (LeaderState.OBSERVER_SESSION_TIMEOUT_MS), so who follows is told by
the times of their fetches, against the leader's own time in the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta

from featurelib.feature import Role
from featurelib.landing.describe import DescribeLine, Unused
from featurelib.landing.fault import FaultError
from featurelib.landing.wire import Epoch, Int16, NodeId, NodeIdOrNone, Text

METADATA_TOPIC = "__cluster_metadata"
# A follower fetches twice a second (RaftClient, MAX_FETCH_WAIT_MS); a broker is fenced after 9 s.
FOLLOWS_WITHIN_MS = 10_000


class QuorumDescription(msgspec.Struct, frozen=True, gc=False):
    """One DescribeQuorum answer; voters and observers are node ids, ascending.

    Of the observers those that follow. -1 as leader, epoch or high watermark = unknown.
    """

    asked_node: int
    listener: Role
    version: int | None  # None = not answered
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[int, ...]
    observers: tuple[int, ...]
    answered: bool
    error_code: int = 0
    principal: str = ""  # who asked; "" = not known


class _Replica(msgspec.Struct, frozen=True, gc=False):
    replica_id: NodeId
    last_fetch_timestamp: Epoch | msgspec.UnsetType = UNSET  # ms; -1 or UNSET = not known


class _Partition(msgspec.Struct, frozen=True, gc=False):
    partition_index: NodeId
    error_code: Int16
    leader_id: NodeIdOrNone
    leader_epoch: NodeIdOrNone  # an int32 as well
    high_watermark: Epoch
    current_voters: Annotated[Sequence[_Replica], Meta(description="a list of replicas")]
    observers: Annotated[Sequence[_Replica], Meta(description="a list of replicas")]


class _WholeReplica(_Replica, frozen=True, gc=False):
    replica_directory_id: Unused = UNSET
    log_end_offset: Unused = UNSET
    last_caught_up_timestamp: Unused = UNSET


class _WholePartition(_Partition, frozen=True, gc=False, kw_only=True):
    current_voters: Sequence[_WholeReplica]
    observers: Sequence[_WholeReplica]
    error_message: Unused = UNSET


class _Topic(msgspec.Struct, frozen=True, gc=False):
    topic_name: Text
    partitions: Annotated[Sequence[_Partition], Meta(description="a list of partitions")]


class _Answer(msgspec.Struct, frozen=True, gc=False):
    error_code: Int16
    topics: Annotated[Sequence[_Topic], Meta(description="a list of topics")]


class _WholeTopic(_Topic, frozen=True, gc=False):
    partitions: Sequence[_WholePartition]


class _Listener(msgspec.Struct, frozen=True, gc=False):
    name: Unused = UNSET
    host: Unused = UNSET
    port: Unused = UNSET


class _Node(msgspec.Struct, frozen=True, gc=False):
    node_id: Unused = UNSET
    listeners: Sequence[_Listener] | msgspec.UnsetType = UNSET


class _WholeAnswer(_Answer, frozen=True, gc=False, kw_only=True):
    topics: Sequence[_WholeTopic]
    throttle_time_ms: Unused = UNSET
    error_message: Unused = UNSET
    nodes: Sequence[_Node] | msgspec.UnsetType = UNSET


_UNANSWERED = _Partition(0, 0, -1, -1, -1, [], [])


class DescribeQuorumLine(DescribeLine, tag="describe_quorum", frozen=True, gc=False, kw_only=True):
    """The line as it stands in the file."""

    answer: Annotated[_Answer | None, Meta(description="an object")] = None

    def content(self) -> QuorumDescription:
        """What was observed; FaultError for an answer that is none."""
        self.require_one(self.answer is not None, self.version)
        quorum = _quorum(self.answer) if self.answer else None
        code = self.error_code or 0
        if self.answer is not None:
            code = self.answer.error_code or (quorum.error_code if quorum else 0)
        answered = quorum is not None and code == 0
        said = quorum if quorum is not None and answered else _UNANSWERED
        return QuorumDescription(
            self.asked_node,
            self.role,
            self.version,
            said.leader_id,
            said.leader_epoch,
            said.high_watermark,
            _ids(said.current_voters),
            _ids(_following(said)),
            answered,
            code,
            self.principal or "",
        )


class WholeDescribeQuorumLine(
    DescribeQuorumLine, tag="describe_quorum", frozen=True, gc=False, kw_only=True
):
    """A line whose answer has no other fields than Kafka's."""

    answer: _WholeAnswer | None = None


def _quorum(answer: _Answer) -> _Partition | None:
    """The metadata partition of an answer; None if the whole answer is an error."""
    if answer.error_code:
        return None
    for topic in answer.topics:
        for partition in topic.partitions:
            if topic.topic_name == METADATA_TOPIC and partition.partition_index == 0:
                return partition
    raise FaultError(f"answer.topics: expected partition 0 of {METADATA_TOPIC}, found none")


def _following(quorum: _Partition) -> list[_Replica]:
    """The observers that fetched lately. The leader's own entry has the time of the answer
    (LeaderState.describeReplicaState); where no time is said, being listed is all there is."""
    now = max(map(_fetched_at, (*quorum.current_voters, *quorum.observers)), default=-1)
    fetched = ((one, _fetched_at(one)) for one in quorum.observers)
    return [one for one, at in fetched if at < 0 or now - at <= FOLLOWS_WITHIN_MS]


def _fetched_at(replica: _Replica) -> int:
    at = replica.last_fetch_timestamp
    return -1 if at is UNSET else at


def _ids(replicas: Sequence[_Replica]) -> tuple[int, ...]:
    return tuple(sorted({replica.replica_id for replica in replicas}))
