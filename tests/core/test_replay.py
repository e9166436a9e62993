"""What a metadata log proves: lines of kafka-dump-log in, registrations and levels out."""

from __future__ import annotations

import json

import pytest

from featurelib.catalogue import load as load_catalogue
from featurelib.snapshot import ClusterState, begin, fold_lines
from featurelib.snapshot.history import Learned, Statement
from featurelib.snapshot.log import UNSEEN, level_map
from featurelib.snapshot.state import freeze
from tests.core.lines import control_record, landings, line_of, record

LOG = "Dumping node1/logs/__cluster_metadata-0/00000000000000000000.log"
BOOTSTRAP = "Dumping node1/logs/bootstrap.checkpoint"
RANGES = {"metadata.version": (7, 29), "group.version": (0, 1)}
WORDS = {
    "BEGIN": ("BEGIN_TRANSACTION_RECORD", '{"name":"Bootstrap records"}'),
    "END": ("END_TRANSACTION_RECORD", "{}"),
    "ABORT": ("ABORT_TRANSACTION_RECORD", '{"reason":"x"}'),
    "IDLE": ("NO_OP_RECORD", "{}"),
    "MIGRATING": ("ZK_MIGRATION_STATE_RECORD", '{"zkMigrationState":2}'),
}
SHAPES = {
    "MV": ("FEATURE_LEVEL_RECORD", '{{"name":"metadata.version","featureLevel":{}}}'),
    "G": ("FEATURE_LEVEL_RECORD", '{{"name":"group.version","featureLevel":{}}}'),
    "B": ("REGISTER_BROKER_RECORD", '{{"brokerId":{},"features":RANGES,"fenced":true}}'),
    "C": ("REGISTER_CONTROLLER_RECORD", '{{"controllerId":{},"features":RANGES}}'),
    "UNREGISTER": ("UNREGISTER_BROKER_RECORD", '{{"brokerId":{},"brokerEpoch":9}}'),
    "GONE": ("UNREGISTER_CONTROLLER_RECORD", '{{"controllerId":{}}}'),
    "FENCE": ("BROKER_REGISTRATION_CHANGE_RECORD", '{{"brokerId":{},"fenced":1}}'),
    "UNFENCE": ("BROKER_REGISTRATION_CHANGE_RECORD", '{{"brokerId":{},"fenced":-1}}'),
    "SHUTDOWN": ("BROKER_REGISTRATION_CHANGE_RECORD", '{{"brokerId":{}}}'),
    "OLDFENCE": ("FENCE_BROKER_RECORD", '{{"id":{},"epoch":9}}'),
    "OLDUNFENCE": ("UNFENCE_BROKER_RECORD", '{{"id":{},"epoch":9}}'),
    "KRAFTRECORD": ("FEATURE_LEVEL_RECORD", '{{"name":"kraft.version","featureLevel":{}}}'),
}


def text_of(offset: int, word: str, ranges: dict[str, tuple[int, int]] = RANGES) -> str:
    """A record by a short word: MV25, B1, UNREGISTER1, KRAFT1 …"""
    if word in WORDS:
        return record(offset, *WORDS[word])
    name = word.rstrip("0123456789")
    number = word.removeprefix(name)
    if name == "KRAFT":
        return control_record(offset, f'KRaftVersion {{"version":0,"kRaftVersion":{number}}}')
    kind, data = SHAPES[name]
    listed = [
        {"name": n, "minSupportedVersion": a, "maxSupportedVersion": b}
        for n, (a, b) in ranges.items()
    ]
    return record(offset, kind, data.format(number).replace("RANGES", json.dumps(listed)))


def log(start: int, *words: str) -> list[str]:
    """A segment of the log that starts at an offset."""
    return [
        LOG,
        f"Log starting offset: {start}",
        *(text_of(start + i, word) for i, word in enumerate(words)),
    ]


def checkpoint(end: int, *words: str, footer: bool = True) -> list[str]:
    """A checkpoint: the state below `end`, with offsets of its own."""
    texts = [f"Dumping {end:020}-0000000001.checkpoint", f"Snapshot end offset: {end}, epoch: 1"]
    texts.append(control_record(0, 'SnapshotHeader {"version":0,"lastContainedLogTimestamp":0}'))
    texts += [text_of(1 + i, word) for i, word in enumerate(words)]
    if footer:
        texts.append(control_record(1 + len(words), 'SnapshotFooter {"version":0}'))
    return texts


def dump(age: int, *files: list[str]) -> list[bytes]:
    """One output of the tool, read `age` hours before the audit, as landing lines."""
    texts = [text for file in files for text in file]
    return [
        line_of("metadata_log", "c", age, line_number=i, line=text)
        for i, text in enumerate(texts, start=2)
    ]


def fold(*dumps: list[bytes]) -> ClusterState:
    return fold_lines(landings([line for lines in dumps for line in lines]), load_catalogue())


def fold_nights(*nights: list[bytes]) -> tuple[ClusterState, list[list[Statement]]]:
    """Night after night, each from what the last one stored."""
    stored, learned = None, []
    for night in nights:
        folding = begin(stored, load_catalogue())
        folding.learned = Learned()
        for landing, line_id in landings(night):
            folding.add(landing, line_id)
        folding.close_run()
        learned.append(folding.learned.statements)
        stored = freeze(folding.finish())
    return begin(stored, load_catalogue()).finish(), learned


def levels(state: ClusterState) -> dict[str, int]:
    assert state.log.end > 0, "the log proves nothing"
    return {name: level for name, _, level in level_map(state.log)}


def nodes(state: ClusterState) -> list[tuple[int, int, int]]:
    return [(node.role, node.node_id, node.fenced) for node in state.log.nodes]


def test_a_complete_log_says_levels_and_registrations() -> None:
    state = fold(dump(1, log(0, "MV25", "G1", "B1", "B2", "UNFENCE1", "C11")))
    assert levels(state) == {"metadata.version": 25, "group.version": 1}
    assert nodes(state) == [(0, 1, 0), (0, 2, 1), (1, 11, -1)]
    assert state.log.end == 6


def test_a_complete_log_without_a_metadata_version_record_reads_1() -> None:
    assert levels(fold(dump(1, log(0, "B1")))) == {"metadata.version": 1}


def test_level_0_removes_a_feature() -> None:
    assert levels(fold(dump(1, log(0, "MV25", "G1", "G0")))) == {"metadata.version": 25}


def test_an_unregistered_broker_is_gone() -> None:
    assert nodes(fold(dump(1, log(0, "B1", "B2", "UNREGISTER1")))) == [(0, 2, 1)]


def test_an_unregistered_controller_is_gone_and_the_broker_of_that_id_is_not() -> None:
    """As Kafka 4.4.0 writes it at metadata.version 33 (KIP-1312)."""
    state = fold(dump(1, log(0, "B2", "C1", "C2", "GONE2", "UNREGISTER1")))
    assert nodes(state) == [(0, 2, 1), (1, 1, -1)]
    assert nodes(fold(dump(1, log(0, "C2", "GONE2", "C2")))) == [(1, 2, -1)]


@pytest.mark.parametrize(
    ("words", "fenced"),
    [
        (["B1"], 1),
        (["B1", "UNFENCE1"], 0),
        (["B1", "UNFENCE1", "FENCE1"], 1),
        (["B1", "UNFENCE1", "SHUTDOWN1"], 0),
        (["B1", "OLDUNFENCE1"], 0),
        (["B1", "OLDUNFENCE1", "OLDFENCE1"], 1),
        (["B1", "UNFENCE2"], 1),
    ],
)
def test_the_last_word_about_fencing_counts(words: list[str], fenced: int) -> None:
    assert nodes(fold(dump(1, log(0, *words)))) == [(0, 1, fenced)]


def test_registering_again_replaces_what_was_known() -> None:
    texts = log(0, "B1", "UNFENCE1")
    texts.append(text_of(2, "B1", {"metadata.version": (7, 33)}))
    state = fold(dump(1, texts))
    assert nodes(state) == [(0, 1, 1)]
    assert state.maps[state.log.nodes[0].profile] == (("metadata.version", 7, 33),)


def test_a_transaction_that_ends_counts() -> None:
    assert levels(fold(dump(1, log(0, "BEGIN", "MV25", "END", "G1")))) == {
        "metadata.version": 25,
        "group.version": 1,
    }


def test_a_transaction_that_is_aborted_never_was() -> None:
    state = fold(dump(1, log(0, "MV7", "BEGIN", "MV25", "B1", "ABORT", "B2")))
    assert levels(state) == {"metadata.version": 7}
    assert nodes(state) == [(0, 2, 1)]


def test_a_transaction_that_is_open_at_the_end_waits_for_the_next_dump() -> None:
    first, second = dump(2, log(0, "MV7", "BEGIN", "MV25")), dump(1, log(3, "G1", "END"))
    assert levels(fold(first)) == {"metadata.version": 7}
    state, _ = fold_nights(first, second)
    assert levels(state) == {"metadata.version": 25, "group.version": 1}


def test_a_control_record_counts_inside_an_aborted_transaction() -> None:
    state = fold(dump(1, log(0, "BEGIN", "KRAFT1", "MV25", "ABORT")))
    assert levels(state) == {"metadata.version": 1, "kraft.version": 1}


def test_kraft_version_is_read_from_its_control_record_only() -> None:
    assert levels(fold(dump(1, log(0, "KRAFT1"))))["kraft.version"] == 1
    assert "kraft.version" not in levels(fold(dump(1, log(0, "KRAFTRECORD1"))))


def test_a_dynamic_quorum_says_kraft_version_in_the_checkpoint_at_0() -> None:
    """As 3.9 and later format it: 0-0.checkpoint holds KRaftVersion, the log starts at 0."""
    state = fold(dump(1, checkpoint(0, "KRAFT1"), log(0, "MV21", "B1")))
    assert levels(state)["kraft.version"] == 1


def test_a_checkpoint_and_the_segments_behind_it_are_the_whole_log() -> None:
    state = fold(dump(1, checkpoint(50, "MV25", "B1"), log(50, "MV27", "UNREGISTER1", "B2")))
    assert levels(state) == {"metadata.version": 27}
    assert nodes(state) == [(0, 2, 1)]
    assert state.log.end == 53


def test_a_log_that_starts_above_0_proves_nothing_without_its_checkpoint() -> None:
    state = fold(dump(1, log(50, "MV27", "B2")))
    assert (state.log.end, nodes(state)) == (0, [])
    assert [(piece.start, piece.end) for piece in state.log.pending] == [(50, 52)]


@pytest.mark.parametrize(
    "texts",
    [
        checkpoint(50, "MV25", "B1", footer=False),
        [line for line in checkpoint(50, "MV25", "B1") if "offset: 2 " not in line],
        checkpoint(50, "MV25", "B1")[:2] + checkpoint(50, "MV25", "B1")[3:],
    ],
    ids=["no footer", "a hole", "no header"],
)
def test_a_checkpoint_that_is_not_whole_proves_nothing(texts: list[str]) -> None:
    assert fold(dump(1, texts)).log.end == 0


def test_the_bootstrap_checkpoint_proves_nothing() -> None:
    texts = [BOOTSTRAP, "KRaft bootstrap snapshot", *checkpoint(0, "MV25")[2:]]
    assert fold(dump(1, texts)).log.end == 0
    assert levels(fold(dump(1, log(0, "MV7"), texts))) == {"metadata.version": 7}


def test_a_gap_is_closed_by_a_piece_that_comes_late() -> None:
    first = dump(3, log(0, "MV7", "B1"), log(4, "MV27", "B2"))
    late = dump(2, log(2, "MV25", "UNREGISTER1"))
    state, learned = fold_nights(first, late)
    assert levels(state) == {"metadata.version": 27}
    assert nodes(state) == [(0, 2, 1)]
    assert [[one.epoch for one in night] for night in learned] == [[0, 1], [2, 4, 5]]
    assert fold(first).log.end == 2


def test_a_hole_inside_a_dump_stops_what_is_known_there() -> None:
    texts = log(0, "MV7", "B1", "B2", "MV25")
    del texts[3]
    state = fold(dump(1, texts))
    assert (state.log.end, levels(state)) == (1, {"metadata.version": 7})


def test_a_record_that_cannot_be_read_stops_what_is_known_there() -> None:
    texts = log(0, "MV7", "B1", "B2")
    texts[3] = texts[3].replace('"brokerId":1', '"brokerId":"one"')
    assert fold(dump(1, texts)).log.end == 1


def test_two_dumps_of_one_time_are_ambiguous_and_neither_counts() -> None:
    state = fold(dump(1, log(0, "MV7")), dump(1, log(0, "MV25")))
    assert state.log.end == 0
    assert len(state.ambiguous_dumps) == 1


def test_a_dump_that_comes_again_teaches_nothing_new() -> None:
    one = dump(2, log(0, "MV25", "B1"))
    state, learned = fold_nights(one, one, dump(1, log(0, "MV25", "B1", "B2")))
    assert [len(night) for night in learned] == [2, 0, 1]
    assert nodes(state) == [(0, 1, 1), (0, 2, 1)]


def test_a_newer_dump_of_the_same_records_makes_them_fresher() -> None:
    old, new = dump(9, log(0, "MV25", "B1")), dump(1, log(0, "MV25", "B1"))
    state, _ = fold_nights(old, new)
    fresh = fold(new)
    assert state.log.at == fresh.log.at
    assert state.log.nodes[0].at == fresh.log.nodes[0].at


def batch(base: int, last: int, control: bool = False) -> str:
    is_control = "true" if control else "false"
    return (
        f"baseOffset: {base} lastOffset: {last} count: {last - base + 1} baseSequence: -1 "
        "lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 1 "
        f"isTransactional: false isControl: {is_control} deleteHorizonMs: OptionalLong.empty "
        "position: 0 CreateTime: 1795240165440 size: 91 magic: 2 compresscodec: none "
        "crc: 725159229 isvalid: true"
    )


def without_metadata(word: str) -> str:
    text = text_of(0, word)
    return text[text.index(" payload: ") :]


def test_a_dump_without_record_metadata_hides_kraft_version() -> None:
    texts = log(0)
    texts += [batch(0, 0, control=True), batch(1, 2)]
    texts += [without_metadata("MV25"), without_metadata("B1")]
    state = fold(dump(1, texts))
    assert levels(state) == {"metadata.version": 25, "kraft.version": UNSEEN}
    assert nodes(state) == [(0, 1, 1)]
    assert state.log.end == 3


def test_the_state_of_a_migration_is_kept() -> None:
    assert fold(dump(1, log(0, "MIGRATING"))).log.migration == 2
    assert fold(dump(1, log(0, "IDLE"))).log.migration == -1


def test_lines_that_carry_nothing_change_nothing() -> None:
    texts = log(0, "MV25", "B1")
    noise = ["", "$ kafka-dump-log.sh --files x", *texts[:3], "", *texts[3:], "Exception in x"]
    assert freeze_without_lines(fold(dump(1, noise))) == freeze_without_lines(fold(dump(1, texts)))


def freeze_without_lines(state: ClusterState) -> tuple[object, ...]:
    return level_map(state.log), nodes(state), state.log.end, state.log.at
