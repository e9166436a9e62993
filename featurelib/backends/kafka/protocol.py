"""Query a listener, and read responses of every protocol version.

The highest version that client and listener know is used; a field that the version lacks is None.
Only this module chooses versions, because the client silently omits fields that a version lacks,
such as `ValidateOnly`. An update that was sent and got no response is OutcomeUnknownError; any
earlier failure is UnreachableError, and no request was sent.

Every listener gets all requests that it supports. The first responding address of a node counts.
Two brokers of each version return lists of the cluster.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from shlex import quote
from threading import Lock
from typing import Annotated, NamedTuple, Self, TypeVar

import msgspec

from featurelib.backends.credentials import Credentials
from featurelib.backends.kafka.connection import LONGEST_WORDS, Allowance, Connection, LostError
from featurelib.backends.kafka.internals import Api
from featurelib.config.fleet import split_id
from featurelib.core.reply import Reply
from featurelib.errors import OutcomeUnknownError, ProtocolError, RefusedError, UnreachableError
from featurelib.feature import Role, UpgradeType
from featurelib.landing import responses
from featurelib.landing.fields import NodeId
from featurelib.model import Step
from featurelib.words import clean

# The supported versions. Metadata has the cluster id from 2 on, ApiVersions features from 3, and
# DescribeConfigs the source of a value from 1.
VERSIONS = {
    Api.METADATA: (2, 12),
    Api.API_VERSIONS: (3, 4),
    Api.DESCRIBE_QUORUM: (0, 2),
    Api.UPDATE_FEATURES: (0, 2),
    Api.DESCRIBE_CLUSTER: (0, 2),
    Api.DESCRIBE_CONFIGS: (1, 4),
    Api.LIST_PARTITION_REASSIGNMENTS: (0, 0),
}
ASKED_API_VERSIONS = VERSIONS[Api.API_VERSIONS][1]  # the client sends this request first
VALIDATES_FROM = 1  # version 0 lacks ValidateOnly, so its requests would be applied
# The timeout of a node that timed out before: a fifth, at least 1 s.
AGAIN_PART, AGAIN_AT_LEAST_MS = 5, 1000
_LIST_MS = 30_000  # milliseconds: a controller that lags needs time
FULL_SHARE = 0.9  # tolerates small differences between clocks
_T = TypeVar("_T")
NOT_KNOWN = -1  # replaces an unknown offset
LONGEST_HOST = 255  # the maximum length of a host name, in characters
RESULTS_UP_TO = 1  # UpdateFeatures version 2 has no results (KIP-1022)
# The error of a node that is queried for another node's configuration (ConfigHelper, 3.3 to 4.4).
_OWN_ID = re.compile(r"Unexpected broker id, expected (\d{1,10}) or ", re.ASCII)
# The operations on CLUSTER that requests need (docs/acls.md). A broker answers DescribeCluster
# for every user, a controller only for users with ALTER.
RIGHTS = {
    Api.DESCRIBE_QUORUM: responses.DESCRIBE,
    Api.LIST_PARTITION_REASSIGNMENTS: responses.DESCRIBE,
    Api.DESCRIBE_CLUSTER: responses.ALTER,
    Api.UPDATE_FEATURES: responses.ALTER,
    Api.DESCRIBE_CONFIGS: responses.DESCRIBE_CONFIGS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerAnswer:
    """A response. `body`: the fields, in snake case; `at`: the time of arrival."""

    api: Api
    version: int
    at: datetime
    body: dict[str, object]
    # keys for the landing line
    line_keys: dict[str, int | str | None] = field(default_factory=dict)

    def read(self, shape: type[_T], part: object = None) -> _T:
        """Return the response, or its `part`, as a typed value. Raises ProtocolError."""
        try:
            return msgspec.convert(self.body if part is None else part, shape)
        except msgspec.ValidationError as error:
            raise ProtocolError(
                f"{self.api.title} version {self.version}: expected the fields of the protocol, "
                f"found: {error}. Is it Kafka that listens there?"
            ) from error

    @property
    def _head(self) -> _ErrorHead:
        """The error fields of the response; for DescribeConfigs those of the first result."""
        is_of_many = self.api is Api.DESCRIBE_CONFIGS
        return self.read(_Heads).results[0] if is_of_many else self.read(_ErrorHead)

    @property
    def code(self) -> int:
        return self._head.error_code

    @property
    def fault(self) -> str | None:
        """The error in the response as text with advice; None without error."""
        header = self._head
        if header.error_code == responses.NO_ERROR:
            return None
        if header.error_code == responses.NOT_AUTHORIZED and self.api in RIGHTS:
            return missing_right(self.api)
        detail = f": {clean(header.error_message, LONGEST_WORDS)}" if header.error_message else ""
        return f"{self.api.title} was answered with error {header.error_code}{detail}"


def missing_right(api: Api, principal: str = "") -> str:
    """Return the text that names the missing permission of `principal` ("" = unknown).

    The advice never grants ALTER, because an auditor must not have this permission. kafka-acls.sh
    accepts operations only in camel case."""
    needed = (
        f"{api.title} is not authorized (error {responses.NOT_AUTHORIZED}): "
        f"{principal or 'the user'} needs the operation {RIGHTS[api]} on the resource CLUSTER"
    )
    if RIGHTS[api] == responses.ALTER:
        listing = ", which shows controllers that do not vote" * (api is Api.DESCRIBE_CLUSTER)
        return f"{needed}{listing} (docs/acls.md)."
    operation = RIGHTS[api].title().replace("_", "")
    return (
        f"{needed}. kafka-acls.sh --bootstrap-server HOST:PORT --command-config admin.properties "
        f"--add --allow-principal {quote(principal or 'User:NAME')} --operation {operation} "
        "--cluster"
    )


class _ErrorHead(msgspec.Struct, frozen=True):
    error_code: int = 0  # Metadata has no error code
    error_message: str | None = None


class _Heads(msgspec.Struct, frozen=True):
    results: Annotated[list[_ErrorHead], msgspec.Meta(min_length=1)]


class _Member(msgspec.Struct, frozen=True):
    """A node in a Metadata response (`node_id`) or a DescribeCluster response (`broker_id`)."""

    host: object
    port: object
    node_id: int | None = None
    broker_id: NodeId | None = None
    is_fenced: bool | None = None


class ListedMembers(msgspec.Struct, frozen=True):
    """The members of a cluster in a Metadata or DescribeCluster response. `controller_id`: -1 =
    unknown; a broker in KRaft mode may name any broker."""

    cluster_id: str | None
    controller_id: int
    brokers: list[_Member]

    @property
    def addresses(self) -> dict[int, str]:
        """The addresses of the members, as node id → host:port."""
        return {node: address(member.host, member.port) for node, member in self._by_id}

    @property
    def fenced(self) -> set[int]:
        return {node for node, member in self._by_id if member.is_fenced}

    @property
    def _by_id(self) -> Iterator[tuple[int, _Member]]:
        for member in self.brokers:
            node = member.broker_id if member.node_id is None else member.node_id
            if node is not None:
                yield node, member


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """The leader of the metadata quorum, and the listeners of its voters; -1 = unknown.

    `high_watermark`: the end of committed records; `log_end`: the end of the leader's log.
    Addresses exist from version 2 on (3.9)."""

    leader_id: int
    leader_epoch: int
    voters: tuple[int, ...]
    addresses: dict[int, tuple[str, ...]]
    high_watermark: int = NOT_KNOWN
    log_end: int = NOT_KNOWN


def quorum(answer: ListenerAnswer) -> QuorumState | None:
    """Return the quorum of a DescribeQuorum response; None for an error. Raises ProtocolError."""
    response = answer.read(responses.DescribeQuorum)
    partition = next((part for topic in response.topics for part in topic.partitions), None)
    if response.error_code or partition is None or partition.error_code:
        return None
    voters = {voter.replica_id: voter.log_end_offset for voter in partition.current_voters}
    end = voters.get(partition.leader_id)
    return QuorumState(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        voters=tuple(sorted(voters)),
        addresses={
            node.node_id: tuple(address(at.host, at.port) for at in node.listeners)
            for node in answer.read(list[responses.QuorumNode], response.nodes or [])
        },
        high_watermark=partition.high_watermark,
        log_end=end if isinstance(end, int) else NOT_KNOWN,
    )


def reply(answer: ListenerAnswer) -> Reply:
    """Return an UpdateFeatures response of any version as a Reply. Raises ProtocolError."""
    response = answer.read(responses.UpdateFeatures)
    if answer.version > RESULTS_UP_TO:
        response = msgspec.structs.replace(response, results=None)
    return response.reply


def configurations(answer: ListenerAnswer) -> responses.DescribeConfigs:
    """Return a DescribeConfigs response of any version, without sensitive or unrequested keys.
    Raises ProtocolError."""
    response = answer.read(responses.DescribeConfigs)
    results = [
        msgspec.structs.replace(
            row, configs=[c for c in row.configs if c.name in responses.KEYS and not c.is_sensitive]
        )
        for row in response.results
    ]
    return msgspec.structs.replace(response, results=results)


def address(host: object, port: object) -> str:
    """Return `host:port`, with an IPv6 host in brackets and unprintable characters escaped."""
    name = clean(str(host), LONGEST_HOST)
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


class Wire:
    """The connection settings of listeners. `timeout`: seconds to connect, and again for each
    response. A node that timed out gets a shorter timeout until it responds."""

    def __init__(self, credentials: Credentials, timeout: float) -> None:
        self._credentials, self._timeout_ms = credentials, max(1, round(timeout * 1000))
        again_ms = max(AGAIN_AT_LEAST_MS, self._timeout_ms // AGAIN_PART)
        self._again_ms = min(self._timeout_ms, again_ms)
        self._silent: set[str] = set()  # addresses of listeners that timed out
        self._allowance: Allowance | None = None

    def in_one_reading(self, allowance: Allowance) -> Wire:
        """Return a copy of the settings whose connections share the limits of `allowance`."""
        wire = copy(self)
        wire._allowance = allowance
        return wire

    @property
    def timeout(self) -> float:
        """The timeout in seconds, for a connection and again for each response."""
        return self._timeout_ms / 1000

    def connect(self, address: str) -> Client:
        """Open a connection to `address` and log in. Raises UnreachableError, ConfigError."""
        if self._allowance is not None:
            self._allowance.expect_more(address)
        limit_ms = self._again_ms if address in self._silent else self._timeout_ms
        began = time.monotonic()
        try:
            client = Client(address, self._credentials, self._timeout_ms, limit_ms, self._allowance)
        except UnreachableError:
            if time.monotonic() - began >= FULL_SHARE * limit_ms / 1000:
                self._silent.add(address)
            raise
        self._silent.discard(address)
        return client


class Client(Connection):
    """A connection to one listener, with one method per request type."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_kraft(self) -> bool:
        """True if the node offers DescribeQuorum, which only KRaft nodes do."""
        return Api.DESCRIBE_QUORUM in self.offered

    def version_of(self, api: Api) -> int | None:
        """Return the highest version of a request that both sides support, or None."""
        low, high = VERSIONS[api]
        offered_low, offered_high = self.offered.get(api, (0, -1))
        version = min(high, offered_high)
        return version if version >= max(low, offered_low) else None

    def api_versions(self) -> ListenerAnswer:
        """Return the ApiVersions response; retries with lower versions."""
        low, high = VERSIONS[Api.API_VERSIONS]
        for version in range(self.version_of(Api.API_VERSIONS) or high, low - 1, -1):
            answer = self._ask(Api.API_VERSIONS, version)
            if answer.code != responses.UNSUPPORTED_VERSION:
                break
        return answer

    def metadata(self) -> ListenerAnswer:
        """Return the Metadata response without topics: the running brokers."""
        return self._ask(Api.METADATA, topics=[])

    def describe_cluster(self, endpoint_type: int) -> ListenerAnswer:
        """Return the DescribeCluster response: controllers, or brokers (also fenced ones if
        possible)."""
        version = self._require(Api.DESCRIBE_CLUSTER)
        fenced = version >= responses.SHOWS_FENCED_FROM
        return self._ask(
            Api.DESCRIBE_CLUSTER, endpoint_type=endpoint_type, include_fenced_brokers=fenced
        )

    def describe_quorum(self) -> ListenerAnswer:
        """Return the DescribeQuorum response about the metadata quorum."""
        topic = {"topic_name": responses.METADATA_TOPIC, "partitions": [{"partition_index": 0}]}
        return self._ask(Api.DESCRIBE_QUORUM, topics=[topic])

    def describe_configs(
        self, resources: Sequence[str], keys: Sequence[str] = responses.KEYS
    ) -> ListenerAnswer:
        """Return the DescribeConfigs response for `keys` of `resources`."""
        requested = [
            {
                "resource_type": responses.BROKER,
                "resource_name": name,
                "configuration_keys": list(keys),
            }
            for name in resources
        ]
        return self._ask(
            Api.DESCRIBE_CONFIGS,
            resources=requested,
            include_synonyms=True,
            include_documentation=False,
        )

    def own_id(self) -> int | None:
        """Return the node id of a controller (Kafka 3.7 or later); None if unknown. Source: its
        error message about the configuration of node -1."""
        if self.version_of(Api.DESCRIBE_CONFIGS) is None:
            return None
        match = _OWN_ID.match(self.describe_configs(["-1"])._head.error_message or "")
        return int(match[1]) if match else None

    def list_reassignments(self) -> ListenerAnswer:
        """Return the ListPartitionReassignments response. This read request waits in the queue of a
        ZooKeeper-mode controller (KafkaController.listPartitionReassignments)."""
        return self._ask(Api.LIST_PARTITION_REASSIGNMENTS, timeout_ms=_LIST_MS, topics=None)

    def update_features(self, step: Step, *, validate_only: bool) -> ListenerAnswer:
        """Send UpdateFeatures once; return the response. Raises OutcomeUnknownError,
        UnreachableError, RefusedError."""
        version = self._require(Api.UPDATE_FEATURES)
        if validate_only and (version < VALIDATES_FROM or not self.is_kraft):
            raise RefusedError(
                f"{self.address}: The controller cannot validate without writing: it would apply "
                "the request. Nothing was sent. Leave out --validate-only."
            )
        fields: dict[str, object] = {
            "timeout_ms": step.timeout_ms,
            "validate_only": validate_only,
            "feature_updates": [
                {
                    "feature": update.feature,
                    "max_version_level": update.to_level,
                    "upgrade_type": int(UpgradeType[update.upgrade_type]),
                    "allow_downgrade": update.upgrade_type != UpgradeType.UPGRADE.name,
                }
                for update in step.updates
            ],
        }
        if not validate_only:
            self.forget_when_lost()
        try:
            return self._answer(Api.UPDATE_FEATURES, version, fields, step.timeout_ms)
        except LostError as lost:
            if validate_only:  # a request to validate writes no record
                raise UnreachableError(f"{self.address}: {lost}") from None
            raise OutcomeUnknownError(
                f"UpdateFeatures was sent to {self.address}: {lost}"
            ) from None

    def _ask(self, api: Api, version: int | None = None, **fields: object) -> ListenerAnswer:
        """Send a read request in the given version, or else in the highest common version."""
        if self._allowance is not None:
            self._allowance.expect_more(self.address)
        try:
            return self._answer(api, self._require(api) if version is None else version, fields)
        except LostError as lost:
            raise UnreachableError(f"{self.address}: {lost}") from None

    def _answer(
        self, api: Api, version: int, fields: dict[str, object], more_ms: int = 0
    ) -> ListenerAnswer:
        response = self.send(api, version, fields, more_ms)
        return ListenerAnswer(
            api=api, version=response.version, at=datetime.now(UTC), body=response.to_dict()
        )

    def _require(self, api: Api) -> int:
        version = self.version_of(api)
        if version is None:
            low, high = VERSIONS[api]
            offered = self.offered.get(api)
            actual = "none" if offered is None else f"{offered[0]} to {offered[1]}"
            raise RefusedError(
                f"{self.address}: expected {api.title} in a version from {low} to "
                f"{high}, found {actual}. Nothing was sent."
            )
        return version


WITNESSES = 2  # brokers of each version that are queried for a list


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A node in one role. `addresses`: texts host:port."""

    role: Role
    node_id: int
    addresses: tuple[str, ...]

    @property
    def key(self) -> tuple[Role, int]:
        return self.role, self.node_id

    @property
    def title(self) -> str:
        return f"{self.role.text} {self.node_id}"


class Silence(NamedTuple):
    """A request that got no usable response: time, reason, and error code."""

    api: Api
    at: datetime
    why: str
    code: int | None = None  # None = no response, or no request was sent


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswers:
    """The responses of one node in one role. `error`: why the node could not be queried; `silent`:
    the requests without usable response; `principal`: our user as the node names it, "" =
    unknown."""

    target: Target
    address: str
    at: datetime = field(default_factory=now)
    error: str | None = None
    is_kraft: bool = False
    answers: tuple[ListenerAnswer, ...] = ()  # the responses without an error
    silent: tuple[Silence, ...] = ()
    principal: str = ""
    own_id: int | None = None  # the id of a controller that no other response identifies

    @property
    def configured_voters(self) -> list[tuple[int | None, str]]:
        """Return (node id, address) of each configured voter. Raises ProtocolError."""
        answers = (configurations(a) for a in self.answers if a.api is Api.DESCRIBE_CONFIGS)
        keys = (key for answer in answers for result in answer.results for key in result.configs)
        values = (responses.given(key.value) for key in keys if key.name == responses.VOTERS)
        return [split_id(entry.strip()) for text in values if text for entry in text.split(",")]

    @property
    def members(self) -> ListedMembers | None:
        """The members that the node lists; None without a list. Raises ProtocolError."""
        apis = (Api.DESCRIBE_CLUSTER, Api.METADATA)
        lists_read = (answer.read(ListedMembers) for answer in self.answers if answer.api in apis)
        return next(lists_read, None)

    @property
    def shows_fenced(self) -> bool:
        """True for a broker that also lists fenced brokers."""
        versions = (answer.version for answer in self.answers if answer.api is Api.DESCRIBE_CLUSTER)
        is_broker = self.target.role is Role.BROKER
        return is_broker and max(versions, default=0) >= responses.SHOWS_FENCED_FROM

    @property
    def quorum(self) -> QuorumState | None:
        """The quorum that the node reports; None without response. Raises ProtocolError."""
        states = (quorum(answer) for answer in self.answers if answer.api is Api.DESCRIBE_QUORUM)
        return next(states, None)


class Share:
    """The number of brokers that returned a list of the whole cluster, per version of the request.
    A few lists per version are enough. Controllers' lists do not count."""

    def __init__(self) -> None:
        self._answered: Counter[tuple[Api, int | None]] = Counter()
        self._lock = Lock()

    def is_enough(self, target: Target, api: Api, version: int | None) -> bool:
        """Return true if enough brokers returned this list; always false for a controller."""
        with self._lock:
            return target.role is Role.BROKER and self._answered[api, version] >= WITNESSES

    def note(self, target: Target, answer: ListenerAnswer) -> None:
        """Count the response of a broker that contains a list."""
        is_list = answer.fault is None
        if answer.api is Api.DESCRIBE_QUORUM:
            is_list = is_list and quorum(answer) is not None
        if is_list and target.role is Role.BROKER:
            with self._lock:
                self._answered[answer.api, answer.version] += 1


def ask(target: Target, wire: Wire, share: Share) -> NodeAnswers:
    """Query one node in one role; return all responses. Raises only ConfigError."""
    failed, address = "no address is known", ""
    for address in target.addresses:
        try:
            with wire.connect(address) as client:
                return _all_answers(target, client, share)
        except (UnreachableError, ProtocolError) as error:
            failed = str(error)
    return NodeAnswers(target=target, address=address, error=failed)


def _all_answers(target: Target, client: Client, share: Share) -> NodeAnswers:
    first = client.api_versions()
    if (fault := first.fault) is not None:
        return NodeAnswers(target=target, address=client.address, at=first.at, error=fault)
    kind = responses.CONTROLLERS if target.role is Role.CONTROLLER else responses.BROKERS
    answers, silent = [first], list[Silence]()
    lists: tuple[tuple[Api, Callable[[], ListenerAnswer]], ...] = (
        (Api.DESCRIBE_CLUSTER, lambda: client.describe_cluster(kind)),
        (Api.DESCRIBE_QUORUM, client.describe_quorum),
    )
    requests = [r for r in lists if not share.is_enough(target, r[0], client.version_of(r[0]))]
    # The node's own configuration and, if it is queried for lists, the default of all brokers.
    if client.is_kraft:
        resources = [str(target.node_id)]
        if target.role is Role.BROKER and requests:
            resources.append(responses.BROKER_DEFAULT)
        requests.append((Api.DESCRIBE_CONFIGS, lambda: client.describe_configs(resources)))
    for api, question in requests:
        try:
            if client.version_of(api) is None:
                raise UnreachableError(responses.NOT_OFFERED.format(api.title))
            answer = question()
        except (UnreachableError, ProtocolError) as error:
            silent.append(Silence(api, now(), str(error)))
            continue
        share.note(target, answer)
        if (fault := answer.fault) is None:
            answers.append(answer)
            continue
        is_refused = answer.code == responses.NOT_AUTHORIZED
        fault = missing_right(api, client.credentials.principal) if is_refused else fault
        silent.append(Silence(api, answer.at, fault, answer.code))
    return NodeAnswers(
        target=target,
        address=client.address,
        at=first.at,
        is_kraft=client.is_kraft,
        answers=tuple(answers),
        silent=tuple(silent),
        principal=client.credentials.principal,
    )
