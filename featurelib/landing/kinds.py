"""Define the kinds of landing line: the form of each, and its observation.

A kind is a `Line` whose tag is the value of `kind`. `content` returns the observation, or raises
the FaultError that quarantines the line. A line without a response, or with an error, proves
nothing: its empty lists never mean "supports nothing". Unused fields may have any value.

The text of a znode and the line of a tool are stored unchanged; a finding reports damage in them.
`registration`, `controller` and `tool_feature` read these texts; metadata_log reads a log's line.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, NamedTuple, Self

import msgspec
from msgspec import UNSET, Meta, Raw

from featurelib.catalogue.rows import ApiKeys
from featurelib.core.outcome import Delivery
from featurelib.feature import Role
from featurelib.landing import responses
from featurelib.landing.fields import (
    INT32_MAX,
    ApiVersionsVersion,
    ConfigsVersion,
    Count,
    DescribeVersion,
    EndpointType,
    Epoch,
    FilledText,
    Int16,
    Level,
    LevelOrNone,
    Line,
    LineNumber,
    Listener,
    NodeId,
    Ranges,
    Text,
    Timed,
    Truth,
    ordered,
    reader,
)
from featurelib.landing.samples import MetricsLine, NodeMetrics
from featurelib.landing.strict import FaultError, show
from featurelib.landing.strimzi import StrimziLine

ROLES = {role.text: role for role in Role}
_OBJECT = Meta(description="an object")


def _require_once(path: str, kind: str, keys: Sequence[object]) -> None:
    if len(set(keys)) < len(keys):
        raise FaultError(f"{path}: a {kind} is in the list more than once")


_supported = reader("supported_features", responses.SupportedFeature, ordered)
_finalized = reader("finalized_features", responses.FinalizedFeature, ordered)
_api_keys: Callable[[bytes], ApiKeys] = reader(
    "api_keys", responses.OfferedRequest, lambda keys, _: tuple(sorted(keys))
)
_ABSENT = Raw(b"")
FEATURES_FROM = 3  # the first version of ApiVersions with features (KIP-584)
KNOWS_MINIMUM_ZERO = 4  # the first version whose client can read a minimum of 0 (KIP-1022)


class ApiVersionsAnswer(msgspec.Struct, frozen=True, gc=False):
    """An ApiVersions response; if it has an `error`, only the queried node is known.

    `supported` is (feature, min_version, max_version), None if the line lacks the list; `finalized`
    is (feature, min_level, max_level), both by feature. `epoch` -1 = unknown to this node. `offers`
    are the supported requests, (api_key, min_version, max_version) by key; () = the line lacks the
    list.
    """

    node_id: int
    role: Role
    endpoint: str
    asked_version: int
    answered_version: int | None
    error: str | None
    epoch: int
    supported: Ranges | None
    finalized: Ranges
    offers: ApiKeys = ()
    zk_migration_ready: bool | None = None


class ApiVersionsLine(Timed, tag="api_versions", frozen=True, gc=False, kw_only=True):
    """An ApiVersions response of one listener: the node's ranges, and the finalized levels that it
    reports."""

    node_id: NodeId
    role: Listener
    endpoint: FilledText
    asked_version: ApiVersionsVersion
    answered_version: ApiVersionsVersion | None = None
    error_code: Int16 | msgspec.UnsetType = UNSET  # a response in ZooKeeper mode lacks the code
    supported_features: Raw = _ABSENT
    finalized_features_epoch: Epoch | None = None
    finalized_features: Raw = _ABSENT
    zk_migration_ready: Truth | None = None
    api_keys: Raw = _ABSENT
    error: FilledText | None = None

    def content(self) -> ApiVersionsAnswer:
        apis = _api_keys(bytes(self.api_keys)) if self.api_keys else ()
        epoch, answered = self.finalized_features_epoch, self.answered_version
        key = (self.node_id, ROLES[self.role], self.endpoint, self.asked_version)
        if apis and self._has_only_requests():
            return ApiVersionsAnswer(*key, answered, None, -1, None, (), apis)
        if not self.supported_features or not self.finalized_features or epoch is None:
            self._require_no_response()
        elif self.error is not None:
            raise FaultError(f"the line has an answer and an error: {show(self.error)}")
        else:
            supported = _supported(bytes(self.supported_features))
            finalized = _finalized(bytes(self.finalized_features))
            if not self.error_code:
                answered = self.asked_version if answered is None else answered
                levels, ready = (epoch, supported, finalized), self.zk_migration_ready
                return ApiVersionsAnswer(*key, answered, None, *levels, apis, ready)
        error = self.error or f"error code {self.error_code}"
        return ApiVersionsAnswer(*key, None, error, -1, (), ())

    def _has_only_requests(self) -> bool:
        """Return true for a valid response of a version that has no features."""
        answers = (self.supported_features, self.finalized_features, self.error, self.error_code)
        return (
            self.asked_version < FEATURES_FROM
            and not any(answers)
            and self.finalized_features_epoch is None
        )

    def _require_no_response(self) -> None:
        """Raise FaultError if the response is incomplete, or if response and error are both
        missing."""
        fields = {
            "supported_features": bool(self.supported_features),
            "finalized_features_epoch": self.finalized_features_epoch is not None,
            "finalized_features": bool(self.finalized_features),
        }
        names = [name for name, is_given in fields.items() if is_given]
        if names and self.error is not None:
            raise FaultError(f"the line has both error and {names[0]}")
        if names:
            missing = next(name for name, is_given in fields.items() if not is_given)
            raise FaultError(f"{missing} is missing: a line with {names[0]} needs {missing}")
        if self.error is None and not self.error_code:
            raise FaultError("the line needs supported_features or error, and has neither")


# A follower fetches twice a second (RaftClient, MAX_FETCH_WAIT_MS); a broker is fenced after 9 s.
FOLLOWS_WITHIN_MS = 10_000
_UUID = re.compile("-".join(f"[0-9a-fA-F]{{{n}}}" for n in (8, 4, 4, 4, 12)))
# (key, value, source) for KEYS, by key; the list may lack keys that are not set. Sources as in
# DescribeConfigsResponse: 2 one broker, 3 default of all brokers, 4 the node's file, 5 Kafka's
# default.
Values = tuple[tuple[str, str | None, int], ...]


class RequestLine(Line, frozen=True, gc=False, kw_only=True):
    """A describe request and its response. A line with a response needs a time and a version."""

    asked_node: NodeId
    listener: Listener
    error: FilledText | None = None
    error_code: Int16 | None = None  # the error code of the response, which `error` explains
    principal: Text | None = None  # the user of the request, as an authorizer names it
    why: Text | None = None

    @property
    def role(self) -> Role:
        return ROLES[self.listener]

    def require_one(self, answer: object, version: int | None) -> None:
        """Raise FaultError if the line has both response and error, or neither."""
        if answer is None:
            if self.error is None and self.why is None:
                raise FaultError("the line needs answer, error or why, and has none of them")
            return
        if self.error is not None:
            raise FaultError(f"the line has an answer and an error: {show(self.error)}")
        for name, value in (("observed_at", self.observed_at), ("version", version)):
            if value is None:
                raise FaultError(f"{name} is missing: a line with an answer needs {name}")


class NodeDescription(msgspec.Struct, frozen=True, gc=False):
    """The result of a describe request. `error_code`: of a refusal, 0 = not refused."""

    request: RequestLine
    answered: bool
    error_code: int


class ClusterDescription(NodeDescription, frozen=True, gc=False):
    """A DescribeCluster response: (id, fenced) of each node. `fenced` None = unknown, before
    version 2."""

    role: Role  # the role of the listed nodes
    fenced_shown: bool  # true if the list includes fenced brokers
    members: tuple[tuple[int, bool | None], ...]
    active: int  # the active controller in this node's response; -1 = unknown
    end: int = -1  # its log end, if the quorum's was reached; 0 = no; -1 = unknown
    may_lack_brokers: bool = False  # true if requested over another listener than the brokers'


class QuorumDescription(NodeDescription, frozen=True, gc=False):
    """A DescribeQuorum response; node ids ascending, -1 = unknown. `observers`, `following`: the
    observers and the voters that fetch from the leader."""

    leader_id: int = -1
    leader_epoch: int = -1
    high_watermark: int = -1  # records below this offset are committed
    voters: tuple[int, ...] = ()
    observers: tuple[int, ...] = ()
    following: tuple[int, ...] = ()
    # (voter, its log directory id) in the form of Kafka's tools
    directories: tuple[tuple[int, str], ...] = ()


class ConfigDescription(NodeDescription, frozen=True, gc=False):
    """A DescribeConfigs response (KIP-226, KIP-919): values by node id or BROKER_DEFAULT."""

    resources: tuple[tuple[str, Values], ...]


class DescribeClusterLine(RequestLine, tag="describe_cluster", frozen=True, gc=False, kw_only=True):
    version: DescribeVersion | None = None
    endpoint_type: EndpointType | None = None  # version 0 only describes brokers
    include_fenced_brokers: Truth | None = None
    epoch: Epoch | None = None  # the end of the broker's copy of the metadata log
    high_watermark: Epoch | None = None  # the quorum's, read before the list
    listener_name: Text | None = None  # the listener over which the list was requested
    inter_broker_listener: Text | None = None
    answer: Annotated[responses.DescribeCluster | None, _OBJECT] = None

    def content(self) -> ClusterDescription:
        answer, version, epoch, end = self.answer, self.version, self.epoch, self.high_watermark
        self.require_one(answer, version)
        listed = answer.brokers if answer else ()
        _require_once("answer.brokers", "broker", [broker.broker_id for broker in listed])
        fenced = {broker.broker_id: broker.is_fenced for broker in listed}
        role = Role.CONTROLLER if self.endpoint_type == responses.CONTROLLERS else Role.BROKER
        asks_for_fenced = role is Role.BROKER and bool(self.include_fenced_brokers)
        return ClusterDescription(
            self,
            answer is not None and answer.error_code == 0,
            (answer.error_code if answer else 0) or self.error_code or 0,
            role,
            asks_for_fenced and (version or 0) >= responses.SHOWS_FENCED_FROM,
            tuple((node, None if flag is UNSET else flag) for node, flag in sorted(fenced.items())),
            answer.controller_id if answer else -1,
            -1 if epoch is None else epoch + 1 if 0 < (end or 0) <= epoch + 1 else 0,
            len({self.listener_name, self.inter_broker_listener} - {None}) > 1,
        )


class DescribeQuorumLine(RequestLine, tag="describe_quorum", frozen=True, gc=False, kw_only=True):
    version: DescribeVersion | None = None
    answer: Annotated[responses.DescribeQuorum | None, _OBJECT] = None

    def content(self) -> QuorumDescription:
        self.require_one(self.answer, self.version)
        answer = self.answer
        quorum = None if answer is None or answer.error_code else _quorum(answer)
        if quorum is None or quorum.error_code:
            code = quorum.error_code if quorum else (answer or self).error_code
            # After a minute without a leader, a broker sends this error.
            return QuorumDescription(self, False, 0 if code == responses.TIMED_OUT else code or 0)
        newest = max(map(_fetched_at, (*quorum.current_voters, *quorum.observers)), default=-1)
        observers = [r for r in quorum.observers if _follows(r, newest) or _fetched_at(r) < 0]
        has_times = [r for r in quorum.current_voters if _fetched_at(r) >= 0]
        # A new leader knows only its own fetch time.
        is_new = len(has_times) < 2 <= len(quorum.current_voters)
        following = [r for r in has_times if _follows(r, newest) and not is_new]
        all_ids = map(_ids, (quorum.current_voters, observers, following))
        leader = quorum.leader_id, quorum.leader_epoch, quorum.high_watermark
        directories = ((r.replica_id, _directory(r)) for r in quorum.current_voters)
        known_ids = tuple(sorted(pair for pair in directories if pair[1]))
        voters, observing, followers = all_ids
        return QuorumDescription(self, True, 0, *leader, voters, observing, followers, known_ids)


def _quorum(answer: responses.DescribeQuorum) -> responses.Partition:
    """Return the metadata topic's partition in a DescribeQuorum response."""
    for topic in answer.topics:
        for partition in topic.partitions:
            if topic.topic_name == responses.METADATA_TOPIC and partition.partition_index == 0:
                return partition
    raise FaultError(f"answer.topics: partition 0 of {responses.METADATA_TOPIC} is missing")


def _follows(replica: responses.Replica, fetched_at: int) -> bool:
    """Return true if the replica fetched recently. `fetched_at`: the time of the response by the
    leader's clock."""
    at = _fetched_at(replica)
    return at >= 0 and fetched_at - at <= FOLLOWS_WITHIN_MS


def _directory(replica: responses.Replica) -> str:
    """Return the id of a voter's log directory as Kafka's tools print it; "" if unknown."""
    text = replica.replica_directory_id
    if not (isinstance(text, str) and _UUID.fullmatch(text)):
        return ""
    raw = bytes.fromhex(text.replace("-", ""))
    return urlsafe_b64encode(raw).decode().rstrip("=") if any(raw) else ""


def _fetched_at(replica: responses.Replica) -> int:
    at = replica.last_fetch_timestamp
    return -1 if at is UNSET else at


def _ids(replicas: Iterable[responses.Replica]) -> tuple[int, ...]:
    """Return the distinct replica ids. A replica with a new disk may be listed twice."""
    return tuple(sorted({replica.replica_id for replica in replicas}))


class DescribeConfigsLine(RequestLine, tag="describe_configs", frozen=True, gc=False, kw_only=True):
    listener: Listener = msgspec.field(name="role")
    endpoint: FilledText
    version: ConfigsVersion | None = None
    answer: Annotated[responses.DescribeConfigs | None, _OBJECT] = None

    def content(self) -> ConfigDescription:
        self.require_one(self.answer, self.version)
        results = self.answer.results if self.answer else []
        _require_once("answer.results", "resource", [result.resource_name for result in results])
        values = [self._values(result, f"answer.results[{i}]") for i, result in enumerate(results)]
        resources = tuple(
            (result.resource_name, values_of)
            for result, values_of in zip(results, values, strict=True)
            if result.error_code == 0
        )
        code = results[0].error_code if results else self.error_code or 0
        return ConfigDescription(self, bool(resources), 0 if resources else code, resources)

    def _values(self, result: responses.Resource, path: str) -> Values:
        name = result.resource_name
        if result.error_code == 0 and name not in (responses.BROKER_DEFAULT, str(self.asked_node)):
            # A node returns only its own configuration: "Unexpected broker id" (ConfigHelper).
            raise FaultError(
                f'{path}.resource_name: expected "{self.asked_node}", the node of the request, or '
                f'"", found {show(name)}'
            )
        _require_once(f"{path}.configs", "key", [config.name for config in result.configs])
        configs = {config.name: config for config in result.configs}
        return tuple(
            (key, responses.given(configs[key].value), configs[key].config_source)
            for key in responses.KEYS
            if key in configs and not configs[key].is_sensitive
        )


class ProbedUpdate(msgspec.Struct, frozen=True, gc=False):
    """An update in a request that only validates. `from_level` -1 = unknown."""

    feature: FilledText
    from_level: LevelOrNone
    to_level: Level


class ProbeAnswer(NamedTuple):
    """The response about one update of a probe. `code` None = no response."""

    feature: str
    from_level: int
    to_level: int
    code: int | None
    message: str


class ProbeReply(msgspec.Struct, frozen=True, gc=False):
    """The controller's response to a probe. `code`: of the whole request, None = no response."""

    answers: tuple[ProbeAnswer, ...]
    code: int | None


class ProbeLine(Timed, tag="probe", frozen=True, gc=False, kw_only=True):
    """An UpdateFeatures request to the active controller that only validated, with its response."""

    updates: Annotated[
        list[ProbedUpdate], Meta(min_length=1, description="a list of at least one update")
    ]
    answer: Annotated[responses.UpdateFeatures | None, _OBJECT] = None
    error: FilledText | None = None

    def content(self) -> ProbeReply:
        if (self.answer is None) == (self.error is None):
            raise FaultError("the line needs either answer or error, and has both or neither")
        _require_once("updates", "feature", [update.feature for update in self.updates])
        came = Delivery(reply=None if self.answer is None else self.answer.reply)
        answers = []
        for update in self.updates:
            code, message = came.of(update.feature)
            move = (update.feature, update.from_level, update.to_level)
            answers.append(ProbeAnswer(*move, code, message or ""))
        return ProbeReply(tuple(answers), None if self.answer is None else self.answer.error_code)


BROKER_IDS = "/brokers/ids"
PATHS = frozenset(
    {
        "/feature", "/features", "/controller", "/controller_epoch", "/cluster/id", "/migration",
        BROKER_IDS,
    }
)  # fmt: skip
_BROKER = re.compile(r"/brokers/ids/(0|[1-9][0-9]{0,9})", re.ASCII)


class Znode(Timed, tag="znode", frozen=True, gc=False, kw_only=True):
    """The content of one znode; `version` and `data` None = the znode does not exist.

    `version` is ZooKeeper's data version; that of `/feature` is the epoch. `children`, only of
    `/brokers/ids`: the ids of the registered brokers.
    """

    path: Text
    version: NodeId | None  # the data version of the znode has the range of a node id
    data: Text | None
    czxid: Count | None = None
    ephemeral_owner: Text | Count | None = None
    children: Annotated[list[NodeId] | None, Meta(description="a list of whole numbers")] = None

    def content(self) -> Self:
        if self.path not in PATHS and broker_id(self.path) is None:
            paths = ", ".join(sorted({*PATHS, "/brokers/ids/N"}))
            actual = show(self.path)
            expected = f"expected one relative to the chroot ({paths})"
            raise FaultError(f"wrong path: {expected}, found {actual}")
        if self.version is None and self.data is not None:
            raise FaultError("version is null: a line with data needs a number")
        if self.path == BROKER_IDS:
            if self.children is None and self.version is not None:
                raise FaultError(f"children is missing: a line of {BROKER_IDS} needs children")
            _require_once("children", "broker", self.children or ())
        return self


class UnreadZnode(msgspec.Struct, frozen=True, gc=False):
    """A read of a znode whose line was quarantined. The content is unknown."""

    path: str


def broker_id(path: str) -> int | None:
    """Return the broker id in the path of a registration; None for another path."""
    match = _BROKER.fullmatch(path)
    node = int(match[1]) if match else INT32_MAX + 1
    return node if node <= INT32_MAX else None


class _Controller(msgspec.Struct, frozen=True, gc=False):
    brokerid: NodeId


class _Range(msgspec.Struct, frozen=True, gc=False):
    min_version: Level
    max_version: Level


class _Registration(msgspec.Struct, frozen=True, gc=False):
    version: Annotated[int, Meta(ge=1, le=INT32_MAX)]
    features: dict[str, _Range] | None = None


_CONTROLLER = msgspec.json.Decoder(_Controller)
_REGISTRATION = msgspec.json.Decoder(_Registration)
_DAMAGE = (msgspec.DecodeError, UnicodeError, RecursionError)


def controller(data: str | None) -> int:
    """Return the broker id in the text of `/controller`; -1 if there is none (ControllerZNode)."""
    try:
        return _CONTROLLER.decode(data or "").brokerid
    except _DAMAGE:
        return -1


def registration(data: str) -> Ranges | None:
    """Return the ranges in the text of a broker's registration. None = the text has no such key
    (schemas 1 to 4), which differs from an empty map. Raises FaultError.

    Source: Kafka, ZkData.scala, BrokerIdZNode: the version is not checked, `features` may be
    absent.
    """
    try:
        features = _REGISTRATION.decode(data).features
    except _DAMAGE as error:
        raise FaultError(f"the data is not a broker's registration: {show(data)}") from error
    if features is None:
        return None
    ranges = ((name, ends.min_version, ends.max_version) for name, ends in features.items())
    return ordered(ranges, "features")


class LogLine(Timed, tag="metadata_log", frozen=True, gc=False, kw_only=True):
    """A line of kafka-dump-log's output, not yet parsed."""

    line_number: LineNumber
    line: Text

    def content(self) -> Self:
        return self


_GAP = r"(?:\t| {2,})"
_FEATURE = re.compile(
    rf"Feature: (\S.*?){_GAP}SupportedMinVersion: (\S.*?){_GAP}SupportedMaxVersion: (\S.*?){_GAP}"
    rf"(?:FinalizedMinVersionLevel: (\S.*?){_GAP}FinalizedMaxVersionLevel|FinalizedVersionLevel): "
    rf"(\S.*?){_GAP}Epoch: (-|\d{{1,18}})\s*",
    re.ASCII,
)


class ToolFeature(msgspec.Struct, frozen=True, gc=False):
    """A line of kafka-features.sh about one feature, without its node. Levels are as printed: names
    for metadata.version ("3.3-IV3"), "UNKNOWN 33" for an unknown level, "-" for no level.

    Only the layout of 2.7 to 3.2 has `min_level`. `epoch` None = unknown.
    """

    feature: str
    min_version: str
    max_version: str
    level: str
    min_level: str | None
    epoch: int | None


class ToolLine(Timed, tag="features_describe", frozen=True, gc=False, kw_only=True):
    """A line of `kafka-features.sh describe`, not yet parsed."""

    line_number: LineNumber
    line: Text

    def content(self) -> Self:
        return self


def tool_feature(line: str) -> ToolFeature | None:
    """Return the feature in a line of `kafka-features.sh describe`; None for any other line.

    Source: Kafka, FeatureCommand: TABs up to 4.2, padded columns from 4.3, no TAB in a name.
    """
    match = _FEATURE.fullmatch(line)
    if not match:
        return None
    feature, first, last, min_level, level, epoch = match.groups()
    epoch_number = None if epoch == "-" else int(epoch)
    return ToolFeature(feature, first, last, level, min_level, epoch_number)


class NotReachedLine(Timed, tag="not_reached", frozen=True, gc=False, kw_only=True):
    """A collection that reached no node of a cluster. `error`: the reason."""

    error: FilledText

    def content(self) -> Self:
        return self


KindLine = (
    ApiVersionsLine
    | Znode
    | DescribeClusterLine
    | DescribeQuorumLine
    | DescribeConfigsLine
    | LogLine
    | ToolLine
    | ProbeLine
    | StrimziLine
    | MetricsLine
    | NotReachedLine
)
Content = (
    ApiVersionsAnswer
    | Znode
    | UnreadZnode
    | ClusterDescription
    | QuorumDescription
    | ConfigDescription
    | LogLine
    | ToolLine
    | ProbeReply
    | StrimziLine
    | NodeMetrics
    | NotReachedLine
)
