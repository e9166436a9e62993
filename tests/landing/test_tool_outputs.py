"""Outputs of tools become landing lines that prove what the outputs proved, and hold no more."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from featurelib.catalogue import load
from featurelib.errors import LandingError
from featurelib.feature import Role
from featurelib.landing import Landing, metadata_log, read
from featurelib.landing.metadata_log import left_out, parse_line
from featurelib.landing.tool_outputs import ToolOutput, convert
from featurelib.snapshot import fold_lines
from featurelib.snapshot.state import ClusterState, freeze
from tests.backends.judged import findings, judged, verdict
from tests.facts import first_fact
from tests.laboratory import LABORATORY

SAMPLES = LABORATORY
AT = 1_795_000_000_000_000
HEAD = ["Dumping logs/00000000000000000000.log", "Log starting offset: 0"]


def source(**keys: object) -> ToolOutput:
    return ToolOutput(where="dump.txt", cluster_id="c", observed_at=AT, **keys)  # type: ignore[arg-type]


def converted(kind: str, lines: Iterable[str], **keys: object) -> list[bytes]:
    return list(convert(kind, [f"{line}\n".encode() for line in lines], source(**keys)))


def said(raw: Iterable[bytes]) -> list[dict[str, Any]]:
    lines = list(raw)
    assert all(isinstance(read(line), Landing) for line in lines)
    return [json.loads(line) for line in lines]


def dumps() -> dict[str, list[str]]:
    """Every recorded dump, by capture and time; a number that is missing is an empty line."""
    found: dict[str, list[str]] = {}
    for path in sorted(SAMPLES.glob("*/landing.jsonl")):
        for raw in path.read_bytes().splitlines():
            line = json.loads(raw)
            if line["kind"] == "metadata_log":
                texts = found.setdefault(f"{path.parent.name} {line['observed_at']}", [])
                texts += [""] * (line["line_number"] - 1 - len(texts))
                texts.append(line["line"])
    return found


DUMPS = dumps()


def without_lines(raw: Iterable[bytes]) -> ClusterState:
    """The state that lines fold to; landing lines are named by their number in the dump."""
    landings = [(read(line), json.loads(line)["line_number"]) for line in raw]
    return fold_lines([(one, n) for one, n in landings if isinstance(one, Landing)], load())


def whole(texts: Iterable[str]) -> list[bytes]:
    out = source()
    return [
        out.write("metadata_log", {"line_number": number, "line": text}, number)
        for number, text in enumerate(texts, start=1)
    ]


@pytest.mark.parametrize("name", DUMPS)
def test_what_is_kept_of_a_recorded_log_folds_to_what_the_whole_log_does(name: str) -> None:
    texts = DUMPS[name]
    kept = converted("metadata_log", texts)
    assert freeze(without_lines(kept)) == freeze(without_lines(whole(texts)))
    assert without_lines(kept).log.end > 0
    kinds = {"NO_OP_RECORD", "TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD"}
    assert not [line for line in kept if any(kind.encode() in line for kind in kinds)]
    assert len(kept) < len(texts)


def skipped(text: str) -> str:
    """A record as the tool shows it with --skip-record-metadata."""
    at = text.find(" payload: ")
    return text[at:] if text.startswith("| offset: ") and at >= 0 else text


CHANGES: dict[str, Callable[[list[str], random.Random], list[str]]] = {
    "a line is lost": lambda texts, chance: _without(texts, chance.randrange(len(texts))),
    "a line is cut": lambda texts, chance: _cut(texts, chance.randrange(len(texts))),
    "two are swapped": lambda texts, chance: _swap(texts, chance.randrange(len(texts) - 1)),
    "a record comes again": lambda texts, chance: _again(texts, chance.randrange(len(texts))),
    "without record metadata": lambda texts, chance: [skipped(text) for text in texts],
}


def _without(texts: list[str], at: int) -> list[str]:
    return [*texts[:at], *texts[at + 1 :]]


def _cut(texts: list[str], at: int) -> list[str]:
    return [*texts[:at], texts[at][: len(texts[at]) // 2], *texts[at + 1 :]]


def _swap(texts: list[str], at: int) -> list[str]:
    return [*texts[:at], texts[at + 1], texts[at], *texts[at + 2 :]]


def _again(texts: list[str], at: int) -> list[str]:
    return [*texts[: at + 1], *texts[max(at - 3, 0) :]]


@pytest.mark.parametrize("change", CHANGES)
def test_a_damaged_log_proves_as_little_after_lines_were_left_out(change: str) -> None:
    chance = random.Random(7)
    for name, texts in DUMPS.items():
        for _ in range(6):
            damaged = CHANGES[change](texts, chance)
            kept = converted("metadata_log", damaged)
            assert freeze(without_lines(kept)) == freeze(without_lines(whole(damaged))), name


def record(offset: int, kind: str, data: str = "{}") -> str:
    return f'| offset: {offset} keySize: 4 payload: {{"type":"{kind}","version":0,"data":{data}}}'


def test_credentials_and_topics_of_a_log_do_not_land() -> None:
    secret = '{"name":"alice","salt":"c2FsdA==","storedKey":"a2V5"}'
    kept = converted(
        "metadata_log",
        [
            *HEAD,
            record(0, "USER_SCRAM_CREDENTIAL_RECORD", secret),
            record(1, "TOPIC_RECORD", '{"name":"payments-internal"}'),
            record(2, "FEATURE_LEVEL_RECORD", '{"name":"metadata.version","featureLevel":7}'),
            record(3, "NO_OP_RECORD"),
        ],
    )
    texts = [line["line"] for line in said(kept)]
    assert texts[2] == "featurelib: left out 2 lines, offsets 0 to 1."
    assert texts[-1] == "featurelib: left out 1 line, offset 3."
    assert [line["line_number"] for line in said(kept)] == [1, 2, 3, 5, 6]
    assert b"c2FsdA" not in b"".join(kept)
    assert b"payments-internal" not in b"".join(kept)
    assert without_lines(kept).log.end == 4


def test_a_record_in_a_batch_it_cannot_be_of_lands_without_its_data() -> None:
    batch = "baseOffset: 0 lastOffset: 0 count: 1 isControl: true isvalid: true"
    secret = record(0, "USER_SCRAM_CREDENTIAL_RECORD", '{"storedKey":"a2V5"}')
    level = record(1, "FEATURE_LEVEL_RECORD", '{"name":"f","featureLevel":7}')
    kept = converted("metadata_log", [*HEAD, batch, secret, level])
    assert b"a2V5" not in b"".join(kept)
    assert freeze(without_lines(kept)) == freeze(
        without_lines(whole([*HEAD, batch, secret, level]))
    )


def test_a_hole_between_records_that_are_left_out_stays_one() -> None:
    texts = [*HEAD, record(0, "NO_OP_RECORD"), record(5, "NO_OP_RECORD")]
    level = '{"name":"metadata.version","featureLevel":7}'
    kept = converted("metadata_log", [*texts, record(6, "FEATURE_LEVEL_RECORD", level)])
    assert without_lines(kept).log.end == 1


@pytest.mark.parametrize(
    "item",
    [
        metadata_log.LeftOut(1, None, None),
        metadata_log.LeftOut(3, None, None),
        metadata_log.LeftOut(1, 7, 7),
        metadata_log.LeftOut(40, 7, 30),
    ],
)
def test_a_line_of_ours_reads_back_as_what_it_says(item: metadata_log.LeftOut) -> None:
    assert parse_line(left_out(item)) == item


@pytest.mark.parametrize(
    "text",
    [
        "featurelib: left out 0 lines.",
        "featurelib: left out 2 lines, offsets 1 to 3.",  # more records than lines
        "featurelib: left out 9 lines, offsets 5 to 3.",
        "featurelib: left out 9 lines, offsets 5 to 1",  # cut
        "featurelib: left out 9 lines",
        "featurelib: left out 9 lines, offsets 5 to ",
        "featurelib: left out",
    ],
)
def test_a_line_of_ours_that_cannot_be_believed_is_damage(text: str) -> None:
    found = parse_line(text)
    assert isinstance(found, metadata_log.Record)
    assert found.kind == metadata_log.DAMAGED


FEATURE = (
    "Feature: metadata.version\tSupportedMinVersion: 3.0-IV1\tSupportedMaxVersion: 3.7-IV4\t"
    "FinalizedVersionLevel: 3.5-IV2\tEpoch: 12"
)


def test_output_of_the_features_tool_keeps_its_lines_and_numbers() -> None:
    marked = said(converted("features_describe", [f"\ufeff{FEATURE}"]))
    assert [line["line"] for line in marked] == [FEATURE]
    lines = said(converted("features_describe", ["", FEATURE, "[warning] x"]))
    assert [(line["line_number"], line["line"]) for line in lines] == [
        (2, FEATURE),
        (3, "[warning] x"),
    ]
    assert {line["observed_at"] for line in lines} == {"2026-11-18T11:06:40.000000Z"}


# What tools printed of a real cluster: brokers 1 (4.4.0) and 2 (4.2.1), controllers 1 (4.4.0) and
# 102 (4.3.1). kafka-tools of 4.4 is on no server: its lines come from its own kafka-clients.
TOOLS = Path(__file__).parents[1] / "data" / "tool_outputs"


def recorded(name: str) -> list[str]:
    return (TOOLS / f"{name}.txt").read_text("utf-8").splitlines()


@pytest.mark.parametrize(
    ("name", "role", "releases"),
    [
        ("api-versions-brokers-4.4", "broker", {1: "4.4", 2: "4.2"}),
        ("broker-api-versions-4.3", "broker", {1: "4.4", 2: "4.2"}),
        ("api-versions-controllers-4.4", "controller", {1: "4.4", 102: "4.3"}),
    ],
)
def test_requests_that_nodes_offer_tell_their_releases(
    name: str, role: str, releases: dict[int, str]
) -> None:
    raw = converted("api_versions", ["[main] WARN no such thing", *recorded(name)])
    assert {line["role"] for line in said(raw)} == {role}
    state = fold_lines([(one, 1) for one in map(read, raw) if isinstance(one, Landing)], load())
    assert {node.node_id: node.releases for node in state.listeners} == releases
    assert {(node.full, node.partial, node.epoch) for node in state.listeners} == {(-1, -1, -1)}
    assert state.maps == []


def test_a_node_that_the_tool_could_not_ask_is_one_that_does_not_answer() -> None:
    texts = recorded("api-versions-brokers-4.4")
    of_one = texts[: texts.index(")") + 1]
    dead = "[::1]:9 (id: 7 rack: a) -> ( isFenced: true) -> ERROR: The request timed out."
    lines = said(converted("api_versions", [dead, *of_one]))
    assert {line["node_id"]: line.get("error") for line in lines} == {
        7: "The request timed out.",
        1: None,
    }
    assert lines[0]["role"] == "broker"


ONE = "h:1 (id: 1 rack: null) -> ("


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            ["hello"],
            "dump.txt: the file has neither a JSON object in each line, nor the output of kafka-",
        ),
        ([ONE, "\tProduce(0): 0 to 13"], "the file ends before the ')' of its last node"),
        (
            [ONE, "\tProduce(0): x,", ")"],
            "dump.txt:2: this is not a request such as",
        ),
        ([ONE, ")"], "dump.txt:1: the line needs supported_features or error"),
        (
            [ONE, "\tFetch(1): 4", ")", ONE, "\tProduce(0): 4", ")"],
            "the file mixes brokers and controllers",
        ),
        (["h:1 (id: 1 rack: null) -> ERROR: "], "no node responded"),
        ([ONE.replace("id: 1", "id: 9999999999"), "\tProduce(0): 4", ")"], "node_id: expected"),
    ],
)
def test_requests_that_cannot_be_read_are_told(lines: list[str], words: str) -> None:
    with pytest.raises(LandingError) as told:
        converted("api_versions", lines)
    assert words in str(told.value)


def test_what_one_node_was_asked_for_is_its_own_answer() -> None:
    texts = recorded("describe-node-id-4.3")
    raw = converted("features_describe", texts, node=(Role.CONTROLLER, 102))
    *lines, answer = said(raw)
    assert [line["line"] for line in lines] == texts
    assert (answer["kind"], answer["role"], answer["node_id"]) == (
        "api_versions",
        "controller",
        102,
    )
    state = fold_lines([(one, 1) for one in map(read, raw) if isinstance(one, Landing)], load())
    supported = {name: ends for name, *ends in state.maps[state.listeners[0].full]}
    assert (supported["metadata.version"], supported["share.version"]) == ([7, 30], [0, 1])
    # What is finalized the lines say: the tool prints nothing of a feature the node does not have.
    assert (state.witnesses, state.listeners[0].epoch) == ([], -1)
    assert state.tool["metadata.version"][2] == 29


def test_a_level_that_nobody_knows_is_no_range() -> None:
    newer = FEATURE.replace("3.7-IV4", "9.9-IV0")
    with pytest.raises(
        LandingError, match=r"dump.txt:1: the catalogue of .* has no level 9.9-IV0\. Leave"
    ):
        converted("features_describe", [newer], node=(Role.BROKER, 1))
    twice = r"dump.txt:1: .*the feature .metadata.version. is named more than once"
    with pytest.raises(LandingError, match=twice):
        converted("features_describe", [FEATURE, FEATURE], node=(Role.BROKER, 1))


RELEASES = ("3.3.2", "3.8.1", "3.9.2", "4.1.2", "4.4.0")
WATERMARKS = dict(zip(RELEASES, (21, 23, 22, 26, 34), strict=True))


def quorum_of(texts: Iterable[str], cluster_id: str = "c") -> dict[str, Any]:
    out = replace(source(), cluster_id=cluster_id)
    [line] = said(convert("describe_quorum", [f"{text}\n".encode() for text in texts], out))
    [topic] = line["answer"]["topics"]
    [partition] = topic["partitions"]
    assert (line["asked_node"], line["listener"]) == (partition["leader_id"], "controller")
    return dict(partition)


def ids(replicas: Iterable[dict[str, int]]) -> list[int]:
    return sorted(one["replica_id"] for one in replicas)


@pytest.mark.parametrize("release", RELEASES)
def test_the_status_of_a_real_quorum_says_who_votes_and_leads(release: str) -> None:
    texts = recorded(f"quorum-status-{release}")
    found = quorum_of(["$ kafka-metadata-quorum.sh describe --status", *texts], texts[0].split()[1])
    assert (ids(found["current_voters"]), ids(found["observers"])) == ([1, 2, 3], [4])
    assert (found["leader_epoch"], found["high_watermark"]) == (1, WATERMARKS[release])
    assert {one["last_fetch_timestamp"] for one in found["current_voters"]} == {-1}


@pytest.mark.parametrize("release", RELEASES)
def test_the_replicas_of_a_real_quorum_say_who_fetched_and_no_epoch(release: str) -> None:
    found = quorum_of(recorded(f"quorum-replication-{release}"))
    assert (ids(found["current_voters"]), ids(found["observers"])) == ([1, 2, 3], [4])
    assert (found["leader_epoch"], found["high_watermark"]) == (-1, -1)
    times = [one["last_fetch_timestamp"] for one in found["current_voters"]]
    assert max(times) == times[0] > 1_795_000_000_000


@pytest.mark.parametrize("release", ["3.9.2", "4.1.2", "4.4.0"])
def test_times_for_people_are_of_before_the_file_was_read(release: str) -> None:
    found = quorum_of(recorded(f"quorum-human-{release}"))
    times = {one["replica_id"]: one["last_fetch_timestamp"] for one in found["current_voters"]}
    assert times[found["leader_id"]] in range(AT // 1000 - 70, AT // 1000)
    assert all(0 < AT // 1000 - at < 300 for at in times.values())


@pytest.mark.parametrize("release", RELEASES)
def test_both_tables_in_one_file_are_one_answer(release: str) -> None:
    status, table = recorded(f"quorum-status-{release}"), recorded(f"quorum-replication-{release}")
    found = quorum_of([*status, "", *table], status[0].split()[1])
    assert found["leader_epoch"] == 1
    assert min(one["last_fetch_timestamp"] for one in found["current_voters"]) > 0


def test_a_row_that_may_be_missing_proves_no_voters() -> None:
    texts = recorded("quorum-replication-4.1.2")
    raw = converted("describe_quorum", texts[:3])  # the third voter is cut off
    code = ("voters_unknown", None, None)
    assert code in findings(judged(raw))
    assert code in findings(judged(converted("describe_quorum", texts)))
    status = recorded("quorum-status-4.1.2")
    assert code not in findings(judged(converted("describe_quorum", status[1:])))


STATUS = recorded("quorum-status-4.1.2")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["hello"], "this is not the whole output of kafka-metadata-quorum.sh describe --status"),
        (["LeaderId: 1"], "missing required field `LeaderEpoch`"),
        (["LeaderId: x"], "this is not the whole output of"),
        (["LeaderId: 1", "LeaderId: 2"], "dump.txt:2: LeaderId is there twice"),
        (["ClusterId: d"], "expected the quorum of cluster c, found d"),
        (
            [t.replace("LeaderId:               3", "LeaderId: -1") for t in STATUS[1:]],
            "LeaderId is -1: no leader. Run the tool again in a minute.",
        ),
    ],
)
def test_a_quorum_that_cannot_be_read_is_told(lines: list[str], words: str) -> None:
    with pytest.raises(LandingError) as told:
        converted("describe_quorum", lines)
    assert words.replace("the quorum of ", "") in str(told.value)


@pytest.mark.parametrize("left", [9, 30])
def test_a_row_of_a_quorum_that_is_cut_is_told(left: int) -> None:
    *texts, last = recorded("quorum-replication-4.1.2")
    with pytest.raises(
        LandingError, match=r"dump.txt:\d+: the row of --replication is cut or changed"
    ):
        converted("describe_quorum", [*texts, last.lstrip()[:left]])


def test_a_voter_that_is_listed_twice_is_told() -> None:
    texts = [
        f"{line.partition('[')[0]}[1, 1]" if line.startswith("CurrentVoters") else line
        for line in recorded("quorum-status-3.8.1")[1:]
    ]
    with pytest.raises(LandingError, match="a node is in the list twice"):
        converted("describe_quorum", texts)


def test_two_tables_of_two_moments_are_told() -> None:
    texts = [*recorded("quorum-status-4.1.2")[1:], *recorded("quorum-replication-4.1.2")[:3]]
    with pytest.raises(LandingError, match="the two tables list different voters"):
        converted("describe_quorum", texts)


@pytest.mark.parametrize(
    ("name", "feature", "level", "words"),
    [
        ("3.9", "metadata.version", 21, "Broker 2 only supports versions 1-20"),
        ("4.2", "metadata.version", 29, "Broker 2 only supports versions 7-27"),
        ("4.3-dry", "metadata.version", 29, "Broker 2 only supports versions 7-27"),
        ("4.1-downgrade", "kraft.version", 1, "Can't downgrade to a newer version."),
        ("3.8-downgrade", "metadata.version", 7, "because it might delete metadata information."),
    ],
)
def test_a_refusal_that_a_real_tool_printed_is_of_the_feature_that_it_names(
    name: str, feature: str, level: int, words: str
) -> None:
    out = source()
    texts = recorded(f"refused-{name}")
    [line] = said(convert("probe", [f"{text}\n".encode() for text in texts], out))
    assert line["updates"] == [{"feature": feature, "from_level": -1, "to_level": level}]
    [result] = line["answer"]["results"]
    assert (result["feature"], result["error_code"]) == (feature, 95)
    assert result["error_message"].startswith("Invalid ")
    assert result["error_message"].endswith(words)
    assert out.left_out == len(texts) - 1


@pytest.mark.parametrize(
    "text",
    [
        "metadata.version was upgraded to 29.",
        "Could not upgrade metadata.version to 29. The request timed out.",
        "Could not upgrade a.version to 1. The update failed for all features since the following "
        "feature had an error: Invalid update version 2 for feature b.version. Broker 2 only "
        "supports versions 0-1",
    ],
)
def test_what_is_no_refusal_of_a_level_is_told(text: str) -> None:
    with pytest.raises(LandingError, match="no refusal of a controller"):
        converted("probe", [text])


def test_a_refusal_blocks_what_read_ready_until_something_newer_lands() -> None:
    lines = (SAMPLES / "k41-forgotten" / "landing.jsonl").read_bytes().splitlines()
    newest = max(json.loads(line)["observed_at"] for line in lines)
    at = round(datetime.fromisoformat(newest).timestamp() * 1_000_000)
    text = b"Could not upgrade metadata.version to 27. Invalid update version 27 for feature "
    text += b"metadata.version. Broker 9 only supports versions 7-25\n"

    def refused(observed_at: int) -> bytes:
        out = ToolOutput(where="f", cluster_id=cluster_id, observed_at=observed_at)
        return next(convert("probe", [text], out))

    cluster_id = json.loads(lines[0])["cluster_id"]
    assert verdict(judged(lines)) == verdict(judged([*lines, refused(at - 1)])) == "READY"
    view = judged([*lines, refused(at + 1)])
    assert verdict(view) == "BLOCKED"
    found = findings(view)["probe_refused", None, None]
    assert "Broker 9 only supports" in first_fact(found)


def test_answers_kept_as_json_get_their_envelope() -> None:
    answer = {"node_id": 1, "role": "broker", "endpoint": "a:1", "asked_version": 4}
    silent = json.dumps(answer | {"error": "refused"})
    timed = json.dumps(answer | {"error": "refused", "observed_at": "2026-01-01T00:00:00Z"})
    lines = said(converted("api_versions", [silent, "", timed]))
    assert [line["cluster_id"] for line in lines] == ["c", "c"]
    assert lines[1]["observed_at"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("kind", "lines", "words"),
    [
        ("metadata_log", [], "dump.txt: the file is empty."),
        ("metadata_log", ["hello"], "dump.txt: featurelib found no record of kafka-dump-log.sh"),
        ("metadata_log", [*HEAD, "| offset: 1 keySize: 4"], "cannot read any of 1 records"),
        ("features_describe", ["hello"], "dump.txt: the file has no line 'Feature: …'"),
        ("features_describe", ["", "Feature: a.version    SupportedMinVersion: 0"], "dump.txt:2: "),
        (
            "describe_cluster",
            ["{"],
            "What aws kafka prints is for featurelib inventory import --from-msk",
        ),
        ("api_versions", ['{"a":1}', "hello"], "dump.txt:1: "),
        ("api_versions", ["", '{"node_id": 1}'], "dump.txt:2: role is missing"),
        ("api_versions", ['{"kind": "znode"}'], "dump.txt:1: kind is not api_versions"),
        ("api_versions", ['{"cluster_id": "d"}'], "dump.txt:1: cluster_id is not c"),
        ("api_version", ["x"], "dump.txt: --kind api_version: Use one of api_versions"),
    ],
)
def test_a_file_that_is_something_else_is_told(kind: str, lines: list[str], words: str) -> None:
    with pytest.raises(LandingError) as told:
        converted(kind, lines)
    assert words in str(told.value)
    assert str(told.value).endswith("Nothing was written.")


def test_a_byte_that_is_no_text_is_told_with_its_line() -> None:
    with pytest.raises(
        LandingError, match=r"dump.txt:2: the line is not UTF-8 text: byte 0xff at 3"
    ):
        list(convert("metadata_log", [b"a\n", b"ab\xff\n"], source()))


@pytest.mark.parametrize("kind", ["znode", "metadata_log", "features_describe", "probe"])
def test_an_empty_file_is_no_output(kind: str) -> None:
    with pytest.raises(LandingError, match="the file is empty"):
        converted(kind, [])


# What ZooKeeper 3.9.5's shell printed.

STAT = """\
cZxid = 0x2
ctime = Sat Nov 21 14:38:07 UTC 2026
mZxid = 0x2
mtime = Sat Nov 21 14:38:07 UTC 2026
pZxid = 0x2
cversion = 0
dataVersion = 7
aclVersion = 0
ephemeralOwner = 0x100016f30350000
dataLength = {length}
numChildren = 0
"""
FEATURES = '{"version":1,"status":1,"features":{}}'
BROKER = '{"features":{"f":{"min_version":1,"max_version":3}},"version":5}'
START = """\
Connecting to 127.0.0.1:22181
Welcome to ZooKeeper!
JLine support is enabled

WATCHER::

WatchedEvent state:SyncConnected type:None path:null zxid: -1
"""
PROMPT = "[zk: 127.0.0.1:22181(CONNECTED) {}] "


def shown(data: str, before: str = "") -> str:
    return f"{before}{data}\n{STAT.format(length=len(data.encode()))}"


# No command shows: its input was a pipe. Prompts stand before the data, and before nothing.
PIPED = (
    START + PROMPT.format(3) + shown(FEATURES, PROMPT.format(4)) + shown(BROKER, PROMPT.format(5))
)
PIPED += PROMPT.format(6) + FEATURES + "\n" + PROMPT.format(7) + PROMPT.format(8) + "[1]\n"
# A terminal's transcript shows the commands.
TERMINAL = START + PROMPT.format(0) + "get -s /kafka/feature\n" + shown(FEATURES)
TERMINAL += PROMPT.format(1) + "get -s /kafka/features\nNode does not exist: /kafka/features\n"
TERMINAL += PROMPT.format(2) + "get -s /kafka/brokers/ids/1\n" + shown(BROKER)


def znodes(text: str, **keys: Any) -> list[dict[str, Any]]:
    return said(convert("znode", text.encode().splitlines(keepends=True), source(**keys)))


def test_a_terminal_s_transcript_names_its_paths() -> None:
    lines = znodes(TERMINAL, chroot="/kafka/")
    assert [(line["path"], line["version"], line["data"]) for line in lines] == [
        ("/feature", 7, FEATURES),
        ("/features", None, None),
        ("/brokers/ids/1", 7, BROKER),
    ]
    assert (lines[0]["czxid"], lines[0]["ephemeral_owner"]) == (2, 0x100016F30350000)


def test_what_came_through_a_pipe_is_told_its_paths_in_order() -> None:
    lines = znodes(PIPED, paths=("/feature", "/brokers/ids/1"))
    assert [(line["path"], line["data"]) for line in lines] == [
        ("/feature", FEATURES),
        ("/brokers/ids/1", BROKER),
    ]


@pytest.mark.parametrize(
    "heading",
    [
        "get -s /feature",
        "get -s -w /feature",
        "zookeeper-shell.sh zk:2181 get -s /feature",
        "bin/zkCli.sh -server zk:2181 get -s /feature",
    ],
)
def test_a_command_before_the_output_names_the_path(heading: str) -> None:
    assert znodes(f"{heading}\n{START}{shown(FEATURES)}")[0]["path"] == "/feature"


@pytest.mark.parametrize("data", ["", "a\nb", "null", "ä\n\n{}", "cversion = 1"])
def test_data_is_taken_as_it_is_whatever_it_holds(data: str) -> None:
    assert znodes(f"get -s /feature\n{shown(data)}")[0]["data"] == data


def test_an_absent_node_names_itself_in_older_shells_too() -> None:
    text = "org.apache.zookeeper.KeeperException$NoNodeException: "
    text += "KeeperErrorCode = NoNode for /feature"
    assert znodes(text)[0] | {"observed_at": ""} == {
        "kind": "znode", "cluster_id": "c", "observed_at": "",
        "path": "/feature", "version": None, "data": None,
    }  # fmt: skip


def test_a_path_that_is_told_and_shown_is_one_path() -> None:
    both = ("/feature", "/features")
    lines = znodes("get -s /feature\n" + shown(FEATURES) + shown(FEATURES), paths=both)
    assert [line["path"] for line in lines] == list(both)


def test_json_lines_are_taken_too() -> None:
    lines = znodes('{"path":"/feature","version":3,"data":"{}"}\n\n')
    assert [(line["path"], line["version"]) for line in lines] == [("/feature", 3)]


@pytest.mark.parametrize(
    ("text", "keys", "words"),
    [
        (PIPED, {}, "dump.txt:19: the path of this znode is unknown"),
        (PIPED, {"paths": ("/feature",)}, "dump.txt:31: the path of this znode is unknown"),
        (TERMINAL, {}, "dump.txt:20: wrong path: expected one relative to the chroot"),
        (TERMINAL, {"chroot": "/other"}, "the path /kafka/f"),
        (f"get -s /feature\n{shown(FEATURES)}".replace("status", "s"), {}, "38 bytes of data"),
        ("get -s /feature\n" + shown(FEATURES).replace("{}", "{ }"), {}, "38 bytes of data"),
        ("get -s /feature\n" + shown(FEATURES).replace("dataVersion = 7\n", ""), {}, "dataVersion"),
        ("get -s /feature\n" + shown(FEATURES).replace("= 7", "= x"), {}, "expected a number"),
        (shown(FEATURES), {"paths": ("/feature", "/features")}, "the znodes /features (--path)"),
        ("hello\n", {}, "dump.txt: the file has no stat"),
        ("get -s /zookeeper\n" + shown(""), {}, "wrong path"),
    ],
)
def test_an_output_that_does_not_say_enough_is_told(
    text: str, keys: dict[str, Any], words: str
) -> None:
    with pytest.raises(LandingError) as told:
        znodes(text, **keys)
    assert words in str(told.value)
