"""What the fold keeps of each line, and what a snapshot row and the histories then say."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from featurelib.catalogue import load as load_catalogue
from featurelib.landing import Landing, kinds
from featurelib.snapshot import ClusterState, Fold, begin, fold_lines
from featurelib.snapshot import fold as snapshot_fold
from featurelib.snapshot.history import Learned, Row, history_rows, level_changes, pack
from featurelib.snapshot.records import Snapshots
from featurelib.snapshot.state import DAMAGED, NOTHING, Event, Segment, freeze, thaw
from featurelib.tables import FINALIZED_FEATURES, NODE_ADVERTISEMENT, Table
from tests.core.lines import anomalies, failure_line, landings, line_of, snapshot
from tests.core.oracle import Node
from tests.core.test_replay import dump, fold_nights, levels, log
from tests.report.samples import SAMPLES


def test_every_kind_of_landing_line_is_folded() -> None:
    assert set(get_args(kinds.Content)) == set(snapshot_fold._ADDERS)


def znode(path: str, age: int, data: str | None, version: int = 1, **keys: object) -> bytes:
    return line_of("znode", "c", age, path=path, version=version, data=data, **keys)


def fold(lines: list[bytes]) -> ClusterState:
    return fold_lines(landings(lines), load_catalogue())


def met(lines: list[bytes]) -> list[str]:
    return anomalies(snapshot({"c": lines}))


NODE = '{"version":1,"status":1,"features":{}}'
SILENT = Node(node_id=1, ranges={}, answered=None, failed=1)
REGISTERED = '{"version":5,"features":{"f":{"min_version":1,"max_version":2}}}'


@pytest.mark.parametrize(
    ("data", "profile", "exists"),
    [(REGISTERED, 0, True), ('{"version":4}', NOTHING, True), ("{", DAMAGED, True),
     (None, NOTHING, False)],
)  # fmt: skip
def test_a_registration_is_a_profile_or_nothing_or_damaged(
    data: str | None, profile: int, exists: bool
) -> None:
    [entry] = fold([znode("/brokers/ids/1", 1, data)]).registrations
    assert (entry.profile, entry.exists) == (profile, exists)


def test_of_a_registration_the_newest_reading_counts() -> None:
    lines = [znode("/brokers/ids/1", 2, REGISTERED), znode("/brokers/ids/1", 1, None)]
    for some in (lines, lines[::-1]):
        [entry] = fold(some).registrations
        assert not entry.exists


def test_that_the_kips_path_is_empty_says_nothing() -> None:
    assert fold([znode("/features", 1, None)]).node.absent_at == 0
    assert fold([znode("/feature", 1, None)]).node.absent_at > 0


def test_a_features_node_that_is_gone_is_seen_in_the_line_that_tells_it() -> None:
    lines = [znode("/feature", 2, NODE), znode("/feature", 1, None)]
    [*_, (_, told)] = landings(lines)
    for some in (lines, lines[::-1]):
        row = Snapshots(snapshot({"c": some}))
        assert row.scalar("features_node_line").tolist() == [told]
        assert (row.features_node, row.features_node_left) == ([None], [NODE])


def test_a_features_node_made_anew_is_told_by_its_creation_alone() -> None:
    first, second = (znode("/feature", age, NODE, czxid=czxid) for age, czxid in ((2, 5), (1, 6)))
    assert met([first, second]) == ["features_node_recreated:"]
    assert met([first, znode("/feature", 1, NODE, version=2, czxid=5)]) == []
    # A collector that does not say when it was made proves nothing of the kind.
    unsaid = znode("/feature", 1, NODE, version=2)
    assert met([first, unsaid]) == []
    assert fold([unsaid]).node.incarnations == {}
    assert fold([unsaid]).node.data == NODE


def test_a_hole_in_the_log_is_told_with_its_offsets() -> None:
    whole, beyond = dump(2, log(0, "MV25", "B1")), dump(1, log(5, "B2"))
    [said] = met([*whole, *beyond])
    assert said == "metadata_log_gap:offsets 2 to 4 were not dumped"
    assert met([*whole, *beyond, *dump(0, log(2, "IDLE", "IDLE", "IDLE"))]) == []


def test_a_piece_that_waits_is_dated_by_its_newest_dump() -> None:
    newer, older = dump(1, log(5, "B2")), dump(9, log(5, "B2"))
    for nights in ((newer, older), (older, newer)):
        state, _ = fold_nights(*nights)
        [waiting] = state.log.pending
        assert waiting.at == state.observed_at


def folding(stored: bytes | None = None) -> tuple[Fold, Learned]:
    fold = begin(stored, load_catalogue())
    fold.run, fold.learned = 1, Learned()
    return fold, fold.learned


def add(fold: Fold, lines: list[bytes]) -> None:
    for landing, line_id in landings(lines):
        fold.add(landing, line_id)


def test_content_and_records_of_a_kind_nobody_knows_yet_change_nothing() -> None:
    fold, learned = folding()
    unknown = Landing("weather", "c", 5, None)  # type: ignore[arg-type]  # it is wrong on purpose
    fold.add(unknown, 1)
    event = Event(0, "weather", 7, "f", line=1, at=5)
    fold.state.log.pending.append(Segment(0, 1, 5, [event], False))
    add(fold, dump(1, log(1, "MV25")))
    fold.close_run()
    assert learned.maps == [(("metadata.version", 25, 25),)]
    state = fold.finish()
    assert (state.log.end, levels(state), state.log.nodes) == (2, {"metadata.version": 25}, [])


def history(lines: list[bytes], table: Table, run: int = 1) -> list[dict[str, object]]:
    """The rows that a fold of one cluster's lines adds to a history."""
    fold, learned = folding()
    fold.run = run
    add(fold, lines)
    fold.close_run()
    clusters = [landing.cluster for landing, _ in landings(lines)]
    packed = [(clusters[0], one) for one in [pack(learned)] if one is not None]
    return [row for batch in history_rows(table, 0, packed, most=5) for row in batch.to_pylist()]


@pytest.mark.parametrize("table", [NODE_ADVERTISEMENT, FINALIZED_FEATURES])
def test_the_histories_of_the_samples_are_those_of_the_nightly(table: Table) -> None:
    stored = Path(__file__).parents[1] / f"golden/tables/samples/silver.{table.name}.jsonl"
    rows = [
        {key: value for key, value in row.items() if value is not None}
        for path in SAMPLES.glob("*/landing.jsonl")
        for row in history(path.read_bytes().splitlines(), table, 20261121080000)
    ]
    texts = [json.dumps(row, default=datetime.isoformat, ensure_ascii=False) for row in rows]
    assert sorted(texts) == stored.read_text("utf-8").splitlines()


def test_what_no_line_shows_is_in_no_history() -> None:
    lines = [znode("/brokers/ids/1", 1, "{"), znode("/feature", 1, "{"), failure_line("c", SILENT)]
    assert history(lines, NODE_ADVERTISEMENT) + history(lines, FINALIZED_FEATURES) == []
    (row,) = history([znode("/brokers/ids/1", 1, '{"version":4}')], NODE_ADVERTISEMENT)
    assert (row["role"], row["node_id"], row["feature"]) == ("registration", 1, None)


def told(finalized: str) -> list[tuple[object, object]]:
    line = f"Feature: f\tSupportedMinVersion: 1\tSupportedMaxVersion: 9\t{finalized}\tEpoch: 8"
    tool = line_of("features_describe", "c", 1, line_number=2, line=line)
    return [(row["min_level"], row["level"]) for row in history([tool], FINALIZED_FEATURES)]


def test_the_history_of_a_tools_line() -> None:
    kept = {
        "FinalizedVersionLevel: 4": [(4, 4)],
        "FinalizedVersionLevel: -": [(0, 0)],
        "FinalizedVersionLevel: 3.3-IV3": [(7, 7)],
        "FinalizedVersionLevel: words": [],
        "FinalizedMinVersionLevel: 3\tFinalizedMaxVersionLevel: 4": [(3, 4)],
        "FinalizedMinVersionLevel: -\tFinalizedMaxVersionLevel: -": [(0, 0)],
        "FinalizedMinVersionLevel: words\tFinalizedMaxVersionLevel: 4": [(4, 4)],
        "nothing of the kind": [],
    }
    assert {text: told(text) for text in kept} == kept


@pytest.mark.parametrize("known", range(len(ClusterState.__struct_fields__)))
def test_a_state_from_before_fields_were_added_is_read_without_them(known: int) -> None:
    state = fold([znode("/brokers/ids/1", 1, REGISTERED), *dump(1, log(0, "MV25"))])
    fields: list[object] = msgspec.msgpack.decode(freeze(state))
    kept, empty = thaw(msgspec.msgpack.encode(fields[:known])), ClusterState()
    for at, name in enumerate(ClusterState.__struct_fields__):
        assert getattr(kept, name) == getattr(state if at < known else empty, name)


# What became of the levels, by the rows of a history.

Known = tuple[str, int | None, str | None, int | None, int]  # witness, epoch, feature, level, hour


def read_rows(*rows: Known, nodes: int = 99) -> list[Row]:
    """Each of the rows is of the next of so many nodes."""
    start = datetime(2026, 11, 1, tzinfo=UTC)
    return [
        Row(
            cluster="c",
            observed_at=start + timedelta(hours=hour),
            line_id=hour,
            role=witness,
            node_id=node % nodes,
            epoch=epoch,
            feature=feature,
            level=level,
        )
        for node, (witness, epoch, feature, level, hour) in enumerate(rows)
    ]


def changes(*rows: Known) -> list[tuple[int | None, tuple[tuple[str, int, int], ...]]]:
    return [(change.epoch, change.changes) for change in level_changes(read_rows(*rows))]


def test_levels_change_in_the_order_of_epochs_however_late_they_landed() -> None:
    late = ("broker", 9, "f", 3, 1), ("broker", 5, "f", 1, 2)
    assert changes(*late) == [(5, (("f", 0, 1),)), (9, (("f", 1, 3),))]
    gone = ("broker", 5, "f", 2, 0), ("broker", 5, "g", 1, 0), ("broker", 7, "g", None, 1)
    both = (("f", 2, 0), ("g", 1, 0))
    assert changes(*gone) == [(5, (("f", 0, 2), ("g", 0, 1))), (7, both)]
    log = ("metadata_log", 5, "f", 2, 0), ("metadata_log", 7, "g", 1, 0)  # says what changed alone
    assert changes(*log) == [(5, (("f", 0, 2),)), (7, (("g", 0, 1),))]
    assert changes(("broker", 4, None, None, 0)) == changes() == []
    [(_, three)] = changes(*(("broker", 5, name, 1, 0) for name in ("a", "metadata.version", "z")))
    assert [name for name, _, _ in three] == ["metadata.version", "a", "z"]


def test_a_controller_counts_where_no_broker_and_no_log_does_and_a_tool_by_when_it_looked() -> None:
    controller = ("controller", 900, "f", 4, 0)
    assert changes(controller) == [(900, (("f", 0, 4),))]
    assert changes(controller, ("broker", 5, "f", 2, 0)) == [(5, (("f", 0, 2),))]
    looks = ("tool", 3, "f", 2, 2), ("tool", 8, "f", 1, 1)
    assert changes(*looks) == [(None, (("f", 0, 1),)), (None, (("f", 1, 2),))]


def broken(*rows: Known, nodes: int) -> list[tuple[int | None, int | None, object]]:
    found = level_changes(read_rows(*rows, nodes=nodes))
    return [(change.epoch_before, change.epoch, change.changes) for change in found]


def test_what_is_read_after_the_epoch_went_back_stands_after_all_that_was_read_before() -> None:
    was = [("broker", 900 + node, "f", 3, 1) for node in range(3)]
    again = [("broker", 40 + node, "f", 3, 2) for node in range(3)]
    first, same = (None, 900, (("f", 0, 3),)), (902, 40, (("f", 3, 3),))
    assert broken(*was, *again, nodes=3) == [first, same]
    lower = [("broker", 40 + node, "f", 2, 2) for node in range(3)]
    later = [("broker", 950, "f", 4, 9)]
    moved = [(902, 40, (("f", 3, 2),)), (None, 950, (("f", 2, 4),))]
    assert broken(*was, *lower, *later, nodes=3) == [first, *moved]
    gone = [("broker", 40, None, None, 2), *lower[1:]]
    assert broken(*was, *gone, nodes=3)[1] == (902, 40, (("f", 3, 0),))


def test_one_broker_that_reads_its_log_again_is_no_break() -> None:
    was = [("broker", 900, "f", 3, 1)] * 3
    again = [("broker", 40, "f", 2, 2), *[("broker", 950, "f", 3, 2)] * 2]
    assert broken(*was, *again, nodes=3) == [
        (None, 40, (("f", 0, 2),)),
        (None, 900, (("f", 2, 3),)),
    ]


def test_what_the_log_kept_from_before_it_went_back_is_told_before_that() -> None:
    was, again = ("broker", 900, "f", 3, 1), ("broker", 40, "f", 1, 2)
    log = [("metadata_log", epoch, "f", level, 3) for epoch, level in ((7, 1), (60, 2))]
    rows = [*read_rows(was, again, nodes=1), *read_rows(*log)]
    found = [(one.epoch_before, one.epoch, one.changes) for one in level_changes(rows)]
    assert found[2:] == [(900, 40, (("f", 3, 1),)), (None, 60, (("f", 1, 2),))]
