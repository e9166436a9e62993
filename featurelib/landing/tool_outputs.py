"""Convert outputs of Kafka's and ZooKeeper's own tools to landing lines.

A line keeps its text and its number. Of a metadata log only records about features, nodes,
transactions and the raft layer are kept, not topics, quotas and credentials. One line replaces
omitted lines and has their number and offsets, so that the other lines prove as much as before. For
`get -s PATH` ZooKeeper's shell prints the unchanged data and then a stat, whose `dataLength` shows
which lines are the data. The path comes from the command in the output, or must be given. Supported
requests, voters and refusals are printed in several lines, and become one landing line of the
response. Damage is an error, and no line is written.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import msgspec

from featurelib.catalogue import load
from featurelib.errors import LandingError
from featurelib.feature import Role
from featurelib.landing.fields import write_line
from featurelib.landing.kinds import KNOWS_MINIMUM_ZERO, ToolFeature, tool_feature
from featurelib.landing.line import KINDS, Quarantined, read
from featurelib.landing.metadata_log import (
    DAMAGED,
    OTHER,
    PAYLOAD,
    LeftOut,
    Record,
    RecordBatch,
    left_out,
    parse_line,
)
from featurelib.landing.responses import METADATA_TOPIC, NO_ERROR
from featurelib.landing.strict import show

DUMP_TOOL = "kafka-dump-log.sh --cluster-metadata-decoder --files LOG"
FEATURES_TOOL = "kafka-features.sh --bootstrap-server HOST:PORT describe"
REQUESTS_TOOL = "kafka-cluster.sh api-versions"
QUORUM_TOOL = "kafka-metadata-quorum.sh describe --status"


@dataclass(slots=True, kw_only=True)
class ToolOutput:
    """A file with a tool's output, and the progress of its parser. `observed_at`: microseconds."""

    where: str
    cluster_id: str
    observed_at: int
    paths: tuple[str, ...] = ()  # the znodes' paths, in order, if the output lacks the paths
    chroot: str = ""
    node: tuple[Role, int] | None = None  # the node given to kafka-features.sh describe --node-id
    lines: int = field(default=0, init=False)
    left_out: int = field(default=0, init=False)

    def fault(self, text: str, line: int | None = None) -> LandingError:
        """Return an error with file and line, which says that nothing was written."""
        location = self.where if line is None else f"{self.where}:{line}"
        return LandingError(f"{location}: {text} Nothing was written.")

    def write(self, kind: str, keys: dict[str, object], line: int) -> bytes:
        """Return a landing line, checked as in ingest. Raises LandingError."""
        raw = write_line(kind, self.cluster_id, self.observed_at, keys)
        landing = read(raw)
        if isinstance(landing, Quarantined):
            raise self.fault(f"{landing.reason}.", line)
        return raw

    def write_text(self, kind: str, number: int, text: str) -> bytes:
        """Return the landing line that contains one line of the output."""
        return self.write(kind, {"line_number": number, "line": text}, number)


def convert(kind: str, lines: Iterable[bytes], source: ToolOutput) -> Iterator[bytes]:
    """Convert a tool's output to landing lines of `kind`. Raises LandingError, possibly after some
    lines."""
    if kind not in KINDS:
        raise source.fault(f"--kind {kind}: Use one of {', '.join(KINDS)}.")
    reader = _READERS.get(kind, partial(_json_lines, kind))
    yield from reader(numbered(lines, source), source)
    if source.lines == 0:
        raise source.fault("the file is empty.")


def numbered(lines: Iterable[bytes], source: ToolOutput) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of each line. Counts the lines in `source`. Raises LandingError."""
    for number, raw in enumerate(lines, start=1):
        source.lines = number
        try:
            encoding = "utf-8-sig" if number == 1 else "utf-8"  # Windows writes a BOM first
            yield number, raw.removesuffix(b"\n").removesuffix(b"\r").decode(encoding)
        except UnicodeDecodeError as error:
            actual = f"byte 0x{raw[error.start]:02x} at {error.start + 1}"
            raise source.fault(f"the line is not UTF-8 text: {actual}.", number) from None


Numbered = Iterator[tuple[int, str]]


def _features_lines(texts: Numbered, source: ToolOutput) -> Iterator[bytes]:
    """Yield a landing line per output line of kafka-features.sh. With --node-id also yield the
    node's response (KIP-1160)."""
    features: list[tuple[int, ToolFeature]] = []
    for number, text in texts:
        if (feature := tool_feature(text)) is not None:
            features.append((number, feature))
        elif text.lstrip().startswith("Feature:"):
            raise source.fault(
                f"the line 'Feature: … Epoch: N' is cut or wrapped, or has no Epoch: {show(text)}. "
                "Join the parts of a wrapped line.",
                number,
            )
        if text.strip():
            yield source.write_text("features_describe", number, text)
    if source.lines and not features:
        raise source.fault(f"the file has no line 'Feature: …' of {FEATURES_TOOL}.")
    if source.node is not None and features:
        yield _own_answer(*source.node, features, source)


def _own_answer(
    role: Role, node_id: int, features: list[tuple[int, ToolFeature]], source: ToolOutput
) -> bytes:
    """Return the ranges of a node that was queried by id, as its ApiVersions response."""

    def level(number: int, text: str) -> int:
        parsed = load().level_of(text)
        if parsed is None:
            fault = f"the catalogue of {load().dated} has no level {show(text)}"
            raise source.fault(f"{fault}. Leave --node-id out.", number)
        return parsed

    supported = [
        {
            "name": ends.feature,
            "min_version": level(number, ends.min_version),
            "max_version": level(number, ends.max_version),
        }
        for number, ends in features
    ]
    keys: dict[str, object] = {
        "node_id": node_id,
        "role": role.text,
        "endpoint": f"kafka-features.sh describe --node-id {node_id}",
        "asked_version": KNOWS_MINIMUM_ZERO,
        "supported_features": supported,
        "finalized_features_epoch": -1,
        "finalized_features": [],
    }
    return source.write("api_versions", keys, features[0][0])


class _Log:
    """A reader of one dump, line by line (Kafka, DumpLogSegments).

    Consecutive omitted lines have consecutive offsets, because a gap must stay a gap.
    """

    def __init__(self, source: ToolOutput) -> None:
        self.source = source
        self.kept: list[bytes] = []  # lines for the next call
        self.run = LeftOut(0, None, None)
        self.run_number = 0
        # The current batch, as long as none of its records is kept.
        self.batch: tuple[int, str] | None = None
        self.offset = -1  # the offset of the next record if the tool prints no offset
        self.is_control = False  # true for a batch of raft records, which is kept
        self.records = self.read = 0

    def take(self, number: int, text: str) -> None:
        item = parse_line(text)
        if item is None:
            self.keep_batch()
            self.leave_out(number, None)
            return
        if isinstance(item, RecordBatch):
            self.offset, self.is_control = item.base_offset, item.is_control
            if not item.is_control:
                self.keep_batch()
                self.batch = number, text
                return
        elif isinstance(item, Record):
            self.records += 1
            if item.kind != DAMAGED:
                self.read += 1
                offset = self.offset if item.offset is None else item.offset
                self.offset = offset + 1
                if item.kind == OTHER and PAYLOAD in text:
                    if not self.is_control:
                        self.leave_out(number, offset)
                        return
                    # A record of a damaged batch keeps its offset, without data.
                    payload = {"type": item.name, "version": 0, "data": {}}
                    text = text[: text.find(PAYLOAD)] + PAYLOAD
                    text += msgspec.json.encode(payload).decode()
        self.keep(number, text)

    def leave_out(self, number: int, offset: int | None) -> None:
        if offset is not None and self.run.last is not None and offset != self.run.last + 1:
            self.close_run()
        if offset is not None and self.batch is not None:
            (batch, _), self.batch = self.batch, None
            self.leave_out(batch, None)
        lines, first, last = self.run.lines, self.run.first, self.run.last
        self.run_number = self.run_number if lines else number
        first = offset if first is None else first
        self.run = LeftOut(lines + 1, first, last if offset is None else offset)

    def keep_batch(self) -> None:
        """Keep the current batch, because its first record is kept or not printed."""
        if self.batch is not None:
            batch, self.batch = self.batch, None
            self.keep(*batch)

    def close_run(self) -> None:
        if self.run.lines:
            self.source.left_out += self.run.lines
            line = self.source.write_text("metadata_log", self.run_number, left_out(self.run))
            self.kept.append(line)
        self.run = LeftOut(0, None, None)

    def keep(self, number: int, text: str) -> None:
        self.keep_batch()
        self.close_run()
        self.kept.append(self.source.write_text("metadata_log", number, text))


def _log_lines(texts: Numbered, source: ToolOutput) -> Iterator[bytes]:
    dump = _Log(source)
    for number, text in texts:
        dump.take(number, text)
        yield from dump.kept
        dump.kept.clear()
    dump.keep_batch()
    dump.close_run()
    yield from dump.kept
    if source.lines and not dump.read:
        actual = f"cannot read any of {dump.records} records" if dump.records else "found no record"
        raise source.fault(f"featurelib {actual} of {DUMP_TOOL}.")


_NODE = re.compile(r"(\S+:\d{1,5}) \(id: (\d{1,10}) rack: .*\) -> (?:(\()|ERROR: (.*))", re.ASCII)
_OFFERED = re.compile(
    r"\s+\w+\((\d{1,5})\): (?:(\d{1,5})(?: to (\d{1,5}))?(?: \[[^\]]*\])?|UNSUPPORTED),?", re.ASCII
)
_PRODUCE = 0  # the API key of Produce, which only brokers offer
Offers = list[dict[str, int]]


def _request_lines(texts: Numbered, source: ToolOutput) -> Iterator[bytes]:
    """Yield each node's response with its supported requests, or its failure (kafka-cluster.sh
    api-versions, kafka-broker-api-versions.sh)."""
    nodes: list[tuple[int, dict[str, object]]] = []
    answers: list[Offers] = []
    api_keys: Offers | None = None  # the supported requests of the current node
    for number, text in texts:
        if api_keys is None:
            if node := _NODE.fullmatch(text):
                keys: dict[str, object] = {"node_id": int(node[2]), "endpoint": node[1]}
                if node[3]:
                    answers.append(api_keys := [])
                    keys["api_keys"] = api_keys
                else:
                    keys["error"] = node[4] or "ERROR"
                nodes.append((number, keys))
        elif text.strip() == ")":
            api_keys = None
        elif match := _OFFERED.fullmatch(text):
            if match[2]:
                ends = {"min_version": int(match[2]), "max_version": int(match[3] or match[2])}
                api_keys.append({"api_key": int(match[1]), **ends})
        else:
            fault = "this is not a request such as 'Produce(0): 0 to 13 [usable: 13]', or ')'"
            raise source.fault(f"{fault}: {show(text)}.", number)
    if not nodes:
        raise source.fault(
            f"the file has neither a JSON object in each line, nor the output of {REQUESTS_TOOL} "
            "('HOST:PORT (id: 1 rack: null isFenced: false) -> (')."
        )
    if api_keys is not None:
        raise source.fault("the file ends before the ')' of its last node.")
    role = _role_of(answers, source)
    for number, keys in nodes:
        members = {"role": role.text, "asked_version": 0, **keys}
        yield source.write("api_versions", members, number)


def _role_of(offers: list[Offers], source: ToolOutput) -> Role:
    """Return the role of the queried nodes, inferred from their requests."""
    of_brokers = {any(entry["api_key"] == _PRODUCE for entry in node) for node in offers}
    if len(of_brokers) == 1:
        return Role.BROKER if of_brokers.pop() else Role.CONTROLLER
    if not offers:
        raise source.fault("no node responded, so its role is unknown. Run the tool again.")
    raise source.fault(
        "the file mixes brokers and controllers. Pass the output of each command in its own file."
    )


def _json_lines(kind: str, texts: Numbered, source: ToolOutput) -> Iterator[bytes]:
    """Yield landing lines of JSON responses, one per line. A time in the response replaces the
    file's time."""
    for number, text in texts:
        if not text.strip():
            continue
        keys = _object(text)
        if keys is None or "ClusterInfo" in keys:
            path = shlex.quote(source.where)
            aws = f" What aws kafka prints is for featurelib inventory import --from-msk {path}."
            hint = aws if text.lstrip()[:1] == "{" else ""
            raise source.fault(f"the line is not a JSON object: {show(text)}.{hint}", number)
        for name, expected in (("kind", kind), ("cluster_id", source.cluster_id)):
            if keys.pop(name, expected) != expected:
                raise source.fault(f"{name} is not {expected}.", number)
        yield source.write(kind, keys, number)


def _object(text: str) -> dict[str, object] | None:
    try:
        return _OBJECT.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


_PROMPT = re.compile(r"^(?:\[zk: [^\]]*\] ?)+")
_COMMAND = re.compile(r"(?:\S*zookeeper-shell(?:\.sh)? \S+ |\S*zkCli\.sh .*)?get(?: -[sw])* (/\S*)")
_ABSENT = re.compile(r"(?:Node does not exist: |.*KeeperErrorCode = NoNode for )(/\S+)")
_STAT = re.compile(r"(cZxid|dataVersion|ephemeralOwner|dataLength|numChildren) = (\S+)")
_OTHER_STAT = re.compile(r"(?:ctime|mZxid|mtime|pZxid|cversion|aclVersion) = ")
_LONGEST = 1 << 16  # the maximum number of lines of one znode's data


def _shell_lines(lines: Numbered, source: ToolOutput) -> Iterator[bytes]:
    """Yield a landing line for each znode in the output of ZooKeeper's shell (GetCommand)."""
    shell, is_any = _Shell(source), False
    for number, text in lines:
        line = shell.take(number, _PROMPT.sub("", text, count=1))
        if line is not None:
            is_any = True
            yield line
    if not is_any:
        raise source.fault("the file has no stat (cZxid = …). Use the output of 'get -s PATH'.")
    if shell.left:
        raise source.fault(f"the file ends before the znodes {', '.join(shell.left)} (--path).")


class _Shell:
    """A parser for ZooKeeper's shell: the lines since the last znode, and the current stat."""

    def __init__(self, source: ToolOutput) -> None:
        self.source, self.fault = source, source.fault
        self.left = list(source.paths)  # paths of the following znodes
        self.path = ""
        self.before: list[str] = []
        self.stat: dict[str, int] = {}

    def take(self, number: int, text: str) -> bytes | None:
        """Return the landing line of a znode after its last line; otherwise None."""
        if command := _COMMAND.fullmatch(text.strip()):
            self.path, self.before = command[1], []
        elif absent := _ABSENT.fullmatch(text.strip()):
            self.path = absent[1]
            return self._write(number, {"version": None, "data": None})
        elif match := _STAT.fullmatch(text):
            try:
                self.stat[match[1]] = int(match[2], 0)
            except ValueError:
                raise self.fault(f"expected a number, found {match[2]!r}.", number) from None
            return self._end(number) if match[1] == "numChildren" else None
        elif not (self.stat and _OTHER_STAT.match(text)):
            self.before = [*self.before[-_LONGEST:], text]
        return None

    def _end(self, number: int) -> bytes:
        stat, self.stat = self.stat, {}
        missing = [name for name in ("cZxid", "dataVersion", "dataLength") if name not in stat]
        if missing:
            raise self.fault(f"the stat is cut: {', '.join(missing)} is missing.", number)
        keys: dict[str, object] = {
            "version": stat["dataVersion"],
            "czxid": stat["cZxid"],
            "ephemeral_owner": stat.get("ephemeralOwner"),
            "data": self._data(stat["dataLength"], number),
        }
        return self._write(number, keys)

    def _write(self, number: int, keys: dict[str, object]) -> bytes:
        """Return a znode's landing line with the printed path, or else the next given path."""
        given_path, self.path, self.before = self.path, "", []
        path = given_path or (self.left[0] if self.left else "")
        if not path:
            raise self.fault(
                "the path of this znode is unknown. Add a line 'get -s PATH' before it, or one "
                "more --path PATH.",
                number,
            )
        if self.left[:1] == [path]:
            self.left.pop(0)
        root, chroot = self.source.chroot.rstrip("/"), self.source.chroot
        if not path.startswith(f"{root}/"):
            raise self.fault(f"the path {path} is not below --chroot {chroot}.", number)
        return self.source.write("znode", {"path": path.removeprefix(root), **keys}, number)

    def _data(self, length: int, number: int) -> str:
        """Return the data of a znode: the last `length` bytes before the stat."""
        if length == 0:
            return ""
        size = -1
        for i in reversed(range(len(self.before))):
            size += len(self.before[i].encode()) + 1
            if size == length:
                return "\n".join(self.before[i:])
        raise self.fault(
            f"the {length} bytes of data before this stat (dataLength) are missing: the output was "
            "cut or changed, or the data is not text.",
            number,
        )


# kafka-metadata-quorum.sh describe: --status, and a row of --replication (MetadataQuorumCommand).
_STATUS = re.compile(
    r"(ClusterId|LeaderId|LeaderEpoch|HighWatermark|Current\w+):\s+(\S.*)", re.ASCII
)
_REPLICA = re.compile(
    r"(\d{1,10})\s+(?:[\w-]{22}\s+)?-?\d+\s+-?\d+\s+(?:(\d{1,18}) ms ago|(-?\d{1,18}))\s+"
    r"-?\d+(?: ms ago)?\s+(Leader|Follower|Observer)",
    re.ASCII,
)


class _Member(msgspec.Struct, frozen=True):
    id: int


class _Status(msgspec.Struct, frozen=True, rename="pascal"):
    """The output of `describe --status`. Before 3.9 a member is only an id."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    current_voters: list[int | _Member]
    current_observers: list[int | _Member]


def _quorum_lines(texts: Numbered, source: ToolOutput) -> Iterator[bytes]:
    """Yield the leader's response, from --status, --replication, or both in one file.

    With --replication alone the epoch is unknown (-1): the output may lack a row.
    """
    pairs, rows, times = dict[str, str](), dict[str, list[int]](), dict[int, int]()
    for number, text in texts:
        if match := _STATUS.fullmatch(text.strip()):
            if pairs.setdefault(match[1], match[2]) != match[2]:
                raise source.fault(f"{match[1]} is there twice with two values.", number)
        elif match := _REPLICA.fullmatch(text.strip()):
            age_ms, at, node = match[2], match[3], int(match[1])
            times[node] = source.observed_at // 1000 - int(age_ms) if age_ms else int(at)
            rows.setdefault(match[4], []).append(node)
        elif rows and text.lstrip()[:1].isdigit():
            fault = "the row of --replication is cut or changed"
            raise source.fault(f"{fault}: {show(text)}.", number)
    if (cluster_id := pairs.pop("ClusterId", source.cluster_id)) != source.cluster_id:
        raise source.fault(f"expected cluster {source.cluster_id}, found {show(cluster_id)}.")
    voters = [*rows.get("Leader", []), *rows.get("Follower", [])]
    if not pairs and "Leader" in rows:
        pairs = {"LeaderId": f"{voters[0]}", "LeaderEpoch": "-1", "HighWatermark": "-1"}
        pairs |= {"CurrentVoters": f"{voters}", "CurrentObservers": f"{rows.get('Observer', [])}"}
    try:
        fields = ",".join(f'"{key}":{value}' for key, value in pairs.items())
        status = msgspec.json.decode(f"{{{fields}}}", type=_Status)
    except msgspec.DecodeError as error:
        raise source.fault(f"this is not the whole output of {QUORUM_TOOL}: {error}.") from None

    if status.leader_id < 0:
        raise source.fault("LeaderId is -1: no leader. Run the tool again in a minute.")

    def listed(members: list[int | _Member]) -> list[dict[str, int]]:
        ids = [member if isinstance(member, int) else member.id for member in members]
        if len({*ids}) < len(ids):
            raise source.fault(f"a node is in the list twice: {ids}.")
        return [{"replica_id": n, "last_fetch_timestamp": times.get(n, -1)} for n in ids]

    partition = {
        "partition_index": 0,
        "error_code": NO_ERROR,
        "leader_id": status.leader_id,
        "leader_epoch": status.leader_epoch,
        "high_watermark": status.high_watermark,
        "current_voters": listed(status.current_voters),
        "observers": listed(status.current_observers),
    }
    if rows and {row["replica_id"] for row in listed(status.current_voters)} != {*voters}:
        raise source.fault("the two tables list different voters. Run the tool again.")
    topic = {"topic_name": METADATA_TOPIC, "partitions": [partition]}
    keys = {"asked_node": status.leader_id, "listener": Role.CONTROLLER.text, "version": 1}
    answer = {"error_code": NO_ERROR, "topics": [topic]}
    yield source.write("describe_quorum", {**keys, "answer": answer}, 1)


# The message of kafka-features.sh about a refused level (FeatureControlManager). From 4.0 on, a
# refusal of one feature makes all others of its request fail with an equal message.
_REFUSED = re.compile(
    r"(?:Could|Can) not (?:upgrade|downgrade|disable) (\S+?)(?: to (\d{1,5}))?\. "
    r"(?:The update failed for all features since the following feature had an error: )?"
    r"(Invalid (?:update version -?\d+ for feature )?(\S+?)(?: -?\d+)?\. .*)",
    re.ASCII,
)
_INVALID_UPDATE_VERSION = 95


def _refusal_lines(texts: Numbered, source: ToolOutput) -> Iterator[bytes]:
    """Yield one probe response with the controller's refusals in a tool's output. Other lines are
    ignored."""
    updates, results = list[dict[str, object]](), list[dict[str, object]]()
    for _, text in texts:
        match = _REFUSED.fullmatch(text.strip())
        if match is None or match[1] != match[4]:
            source.left_out += 1
            continue
        updates.append({"feature": match[1], "from_level": -1, "to_level": int(match[2] or 0)})
        refusal = {"error_code": _INVALID_UPDATE_VERSION, "error_message": match[3]}
        results.append({"feature": match[1], **refusal})
    if not updates:
        example = "'Could not upgrade NAME to LEVEL. Invalid …'"
        raise source.fault(f"the file has no refusal of a controller, such as {example}.")
    answer = {"error_code": NO_ERROR, "results": results}
    yield source.write("probe", {"updates": updates, "answer": answer}, 1)


_OBJECT = msgspec.json.Decoder(dict[str, object])
Reader = Callable[[Numbered, ToolOutput], Iterator[bytes]]


def _lines_in(kind: str, read_text: Reader, texts: Numbered, source: ToolOutput) -> Iterator[bytes]:
    """Yield landing lines from JSON objects, or from a tool's text if line 1 is no JSON."""
    header = list[tuple[int, str]]()
    for number, text in texts:
        header.append((number, text))
        if text.strip():
            break
    else:
        return  # the file is empty
    keys = _object(header[-1][1])
    # JSON in a znode is not a landing line.
    is_json = keys is not None and (kind != "znode" or "path" in keys)
    reader = partial(_json_lines, kind) if is_json else read_text
    yield from reader(chain(header, texts), source)


_READERS: dict[str, Reader] = {"metadata_log": _log_lines, "features_describe": _features_lines}
for _kind, _reader in (
    ("api_versions", _request_lines),
    ("describe_quorum", _quorum_lines),
    ("probe", _refusal_lines),
    ("znode", _shell_lines),
):
    _READERS[_kind] = partial(_lines_in, _kind, _reader)
