"""What a metadata log proves: lines of kafka-dump-log in, registrations and levels out."""

from __future__ import annotations

import json

from featurelib.catalogue import load as load_catalogue
from featurelib.feature import Role
from featurelib.snapshot import ClusterState, begin, fold_lines
from featurelib.snapshot.history import Learned, Statement
from featurelib.snapshot.log import level_map
from featurelib.snapshot.state import freeze
from tests.core.frozen import expect_frozen
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


def drop(texts: list[str], at: int) -> list[str]:
    return texts[:at] + texts[at + 1 :]


def unreadable(texts: list[str]) -> list[str]:
    return [text.replace('"brokerId":1', '"brokerId":"one"') for text in texts]


HELD = checkpoint(50, "MV25", "B1")
KRAFT_SAYS = [BOOTSTRAP, "KRaft bootstrap snapshot", *checkpoint(0, "MV25")[2:]]
AGAIN = [*log(0, "B1", "UNFENCE1"), text_of(2, "B1", {"metadata.version": (7, 33)})]

# What was dumped → what of it is proven: data/frozen/metadata_log.txt.
DUMPS: dict[str, list[bytes]] = {
    "a complete log says levels and registrations": dump(
        1, log(0, "MV25", "G1", "B1", "B2", "UNFENCE1", "C11")),
    "without a metadata.version record it reads 1": dump(1, log(0, "B1")),
    "level 0 removes a feature": dump(1, log(0, "MV25", "G1", "G0")),
    "an unregistered broker is gone": dump(1, log(0, "B1", "B2", "UNREGISTER1")),
    # As Kafka 4.4.0 writes it at metadata.version 33 (KIP-1312).
    "an unregistered controller is gone, and the broker of that id is not": dump(
        1, log(0, "B2", "C1", "C2", "GONE2", "UNREGISTER1")),
    "a controller that registers again is there": dump(1, log(0, "C2", "GONE2", "C2")),
    **{"fenced? " + " ".join(words): dump(1, log(0, *words)) for words in (
        ["B1"], ["B1", "UNFENCE1"], ["B1", "UNFENCE1", "FENCE1"], ["B1", "UNFENCE1", "SHUTDOWN1"],
        ["B1", "OLDUNFENCE1"], ["B1", "OLDUNFENCE1", "OLDFENCE1"], ["B1", "UNFENCE2"],
    )},
    "registering again replaces what was known": dump(1, AGAIN),
    "a transaction that ends counts": dump(1, log(0, "BEGIN", "MV25", "END", "G1")),
    "a transaction that is aborted never was": dump(
        1, log(0, "MV7", "BEGIN", "MV25", "B1", "ABORT", "B2")),
    "a transaction that is open at the end waits": dump(1, log(0, "MV7", "BEGIN", "MV25")),
    "for the dump that ends it": [
        *dump(2, log(0, "MV7", "BEGIN", "MV25")), *dump(1, log(3, "G1", "END"))],
    "a control record counts inside an aborted transaction": dump(
        1, log(0, "BEGIN", "KRAFT1", "MV25", "ABORT")),
    "kraft.version is read from its control record": dump(1, log(0, "KRAFT1")),
    "and from no other": dump(1, log(0, "KRAFTRECORD1")),
    # As 3.9 and later format it: 0-0.checkpoint holds KRaftVersion, the log starts at 0.
    "a dynamic quorum says it in the checkpoint at 0": dump(
        1, checkpoint(0, "KRAFT1"), log(0, "MV21", "B1")),
    # As 4.4 formats it: 3.8.1 starts from it, 4.3.1 begins at its own newest, 4.4 writes it again.
    "levels that were formatted count where the log has no metadata.version": dump(
        1, checkpoint(0, "MV19", "G1"), log(0, "B1")),
    "and were only asked for where it has": dump(
        1, log(0, "MV30", "B1"), checkpoint(0, "MV21", "G1")),
    "a checkpoint and the segments behind it are the whole log": dump(
        1, HELD, log(50, "MV27", "UNREGISTER1", "B2")),
    "a log that starts above 0 proves nothing without its checkpoint": dump(
        1, log(50, "MV27", "B2")),
    "nor does a checkpoint without its footer": dump(
        1, checkpoint(50, "MV25", "B1", footer=False)),
    "nor one with a hole": dump(1, [line for line in HELD if "offset: 2 " not in line]),
    "nor one without its header": dump(1, drop(HELD, 2)),
    "nor the bootstrap checkpoint": dump(1, KRAFT_SAYS),
    "which changes nothing beside a log": dump(1, log(0, "MV7"), KRAFT_SAYS),
    "a hole stops what is known there": dump(1, drop(log(0, "MV7", "B1", "B2", "MV25"), 3)),
    "and so does a record that cannot be read": dump(1, unreadable(log(0, "MV7", "B1", "B2"))),
    "two dumps of one time are ambiguous, and neither counts": [
        *dump(1, log(0, "MV7")), *dump(1, log(0, "MV25"))],
    "without record metadata kraft.version is hidden": dump(1, [
        *log(0), batch(0, 0, control=True), batch(1, 2), without_metadata("MV25"),
        without_metadata("B1")]),
    "the state of a migration is kept": dump(1, log(0, "MIGRATING")),
    "lines that carry nothing change nothing": dump(1, [
        "", "$ kafka-dump-log.sh --files x", *log(0, "MV25", "B1")[:3], "",
        *log(0, "MV25", "B1")[3:], "Exception in x"]),
}  # fmt: skip


def proven(state: ClusterState) -> str:
    """What a state has from the log, a line for the whole and one for each node."""
    kept = state.log
    waits = [(piece.start, piece.end) for piece in kept.pending]
    said = [f"to {kept.end}: {level_map(kept)}"]
    said += [f"waits: {waits}"] if waits else []
    said += [f"migration {kept.migration}"] if kept.migration >= 0 else []
    said += ["ambiguous"] * len(state.ambiguous_dumps)
    for node in kept.nodes:
        ranges = state.maps[node.profile]
        said.append(f"{Role(node.role).text} {node.node_id}, fenced {node.fenced}: {ranges}")
    return "\n".join(said)


def test_what_a_dump_of_the_log_proves() -> None:
    told = {name: proven(fold(lines)) for name, lines in DUMPS.items()}
    expect_frozen("metadata_log", told)
    first, then = dump(2, log(0, "MV7", "BEGIN", "MV25")), dump(1, log(3, "G1", "END"))
    assert proven(fold_nights(first, then)[0]) == told["for the dump that ends it"]


def test_a_gap_is_closed_by_a_piece_that_comes_late() -> None:
    first = dump(3, log(0, "MV7", "B1"), log(4, "MV27", "B2"))
    late = dump(2, log(2, "MV25", "UNREGISTER1"))
    state, learned = fold_nights(first, late)
    assert levels(state) == {"metadata.version": 27}
    assert nodes(state) == [(0, 2, 1)]
    assert [[one.epoch for one in night] for night in learned] == [[0, 1], [2, 4, 5]]
    assert fold(first).log.end == 2


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
