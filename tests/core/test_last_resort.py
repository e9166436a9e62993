"""A fault of featurelib in one cluster's lines or row leaves that cluster UNKNOWN, never a run."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import pyarrow as pa
import pytest

from featurelib.audit import audit
from featurelib.audit.audit import Judged
from featurelib.audit.cluster_view import Inputs
from featurelib.catalogue import load
from featurelib.landing import kinds
from featurelib.rows import TableRows
from featurelib.schema import SNAPSHOT
from featurelib.snapshot import fold
from featurelib.snapshot.fold import Fold
from featurelib.snapshot.records import SET_ASIDE, UNUSABLE
from featurelib.spark.folding import ENTRY, fold_batches
from featurelib.spark.judging import judge_by, judged_in
from featurelib.spark.refine import ahead_of
from tests.core.lines import MAX_AGE, NOW, conditions, failure_line, lines_of
from tests.core.oracle import BROKER, CONTROLLER, Cluster, Node

RANGES = {"metadata.version": (7, 27)}
NAMES = ("a", "bad", "c", "d", "e")


def cluster(name: str) -> Cluster:
    levels = {"metadata.version": 25}
    nodes = (
        Node(node_id=1, role=CONTROLLER, ranges=RANGES, levels=levels, epoch=5),
        Node(node_id=2, role=BROKER, ranges=RANGES, levels=levels, epoch=5),
    )
    return Cluster(name=name, nodes=nodes, voters=(1,), stored=levels)


LINES = {name: lines_of(cluster(name)) for name in NAMES}
BAD = failure_line("bad", Node(node_id=2, role=BROKER, ranges=RANGES, failed=0))


def folded(lines: dict[str, list[bytes]]) -> pa.Table:
    """The rows that a worker makes of a run's lines."""
    entries = sorted(
        (1, name, int.from_bytes(sha256(raw).digest()[:8], "big", signed=True), raw, None)
        for name, some in lines.items()
        for raw in some
    )
    entries.sort(key=lambda entry: entry[1])
    arrays = [pa.array(c, f.type) for c, f in zip(zip(*entries, strict=True), ENTRY, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=ENTRY)
    return pa.Table.from_batches(fold_batches([batch], True))


def judged(table: pa.Table) -> Judged:
    cells = judge_by(conditions([]), {})(table.select(SNAPSHOT.names).to_batches())
    return judged_in(pa.Table.from_batches(cells))


def verdicts(of: Judged, name: str) -> set[str]:
    return {row["verdict"] for row in of.readiness.to_pylist() if row["cluster"] == name}


def facts_of(of: Judged, name: str) -> list[tuple[str, str]]:
    rows = [row for row in of.findings.to_pylist() if row["cluster"] == name]
    return [(row["code"], row["facts"]["reason"] or "") for row in rows]


def fail_for(
    monkeypatch: pytest.MonkeyPatch, is_bad: Callable[[kinds.ApiVersionsAnswer], bool]
) -> None:
    def add(self: Fold, content: kinds.ApiVersionsAnswer, at: int, line: int) -> None:
        if is_bad(content):
            raise OverflowError("Python integer 70000 out of bounds for int16")
        Fold._add_answer(self, content, at, line)

    monkeypatch.setitem(fold._ADDERS, kinds.ApiVersionsAnswer, add)


def test_a_line_that_the_fold_cannot_use_is_quarantined(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = folded(LINES).to_pylist()
    fail_for(monkeypatch, lambda content: content.error is not None)
    table = folded(LINES | {"bad": [*LINES["bad"], BAD]})
    rows = {row["cluster"]: row for row in table.to_pylist()}
    assert [rows[name] for name in NAMES if name != "bad"] == [
        row for row in whole if row["cluster"] != "bad"
    ]
    assert rows["bad"]["checksum"] == SET_ASIDE
    [[line_id, reason]] = [list(row.values()) for row in rows["bad"]["set_aside"]]
    assert line_id == int.from_bytes(sha256(BAD).digest()[:8], "big", signed=True)
    assert reason == "featurelib cannot use this line (OverflowError): please report it"
    result = judged(table)
    assert verdicts(result, "bad") <= {"UNKNOWN"}
    assert verdicts(result, "a") == {"READY"}


def test_without_spark_the_line_is_quarantined_with_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail_for(monkeypatch, lambda content: content.error is not None)
    inputs = Inputs(catalogue=load(), as_of=NOW, max_age=MAX_AGE)
    lines = [*LINES["a"], *LINES["bad"], BAD]
    result, _, rejected = inputs.judge_lines(lines, (), every=True)
    reason = "featurelib cannot use this line (OverflowError): please report it"
    assert rejected == [(len(lines), reason)]
    assert verdicts(result, "bad") == verdicts(result, "a") == {"READY"}
    assert inputs.see_lines([*LINES["bad"], BAD]).rejected == ((len(LINES["bad"]) + 1, reason),)


def test_a_cluster_whose_fold_fails_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = folded(LINES).to_pylist()
    close_run = Fold.close_run

    def close(self: Fold) -> None:
        if any(node_id == 77 for _, node_id in self._entries["listeners"]):
            raise ValueError("a dump that nobody foresaw")
        close_run(self)

    monkeypatch.setattr(Fold, "close_run", close)
    odd = Cluster(
        name="bad",
        nodes=(Node(node_id=77, role=BROKER, ranges=RANGES, answered=1),),
        stored={"metadata.version": 25},
    )
    lines = LINES | {"bad": lines_of(odd)}
    table = folded(lines)
    rows = {row["cluster"]: row for row in table.to_pylist()}
    assert [rows[name] for name in NAMES if name != "bad"] == [
        row for row in whole if row["cluster"] != "bad"
    ]
    assert rows["bad"]["checksum"] == UNUSABLE
    result = judged(table)
    reason = "featurelib failed on it (ValueError: a dump that nobody foresaw); please report it"
    assert ("snapshot_malformed", reason) in facts_of(result, "bad")
    assert ahead_of(table, []) == ["bad"]  # the next run folds it again

    inputs = Inputs(catalogue=load(), as_of=NOW, max_age=MAX_AGE)
    plain, _, _ = inputs.judge_lines(
        [line for some in lines.values() for line in some], (), every=True
    )
    assert ("snapshot_malformed", reason) in facts_of(plain, "bad")
    assert verdicts(plain, "e") == {"READY"}


def test_a_row_that_cannot_be_judged_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    table = folded(LINES)
    whole, read = judged(table), audit.facts.read

    def fail(rows: TableRows, *more: object) -> object:
        if any(name == "bad" for name in _with_data(rows)):
            raise IndexError("index 9 is out of bounds")
        return read(rows, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(audit.facts, "read", fail)
    result = judged(table)
    reason = "featurelib failed on it (IndexError: index 9 is out of bounds); please report it"
    assert facts_of(result, "bad") == [("snapshot_malformed", reason)]
    for name in NAMES:
        if name != "bad":
            assert facts_of(result, name) == facts_of(whole, name)
            assert verdicts(result, name) == verdicts(whole, name) == {"READY"}


def _with_data(rows: TableRows) -> list[str]:
    is_whole = rows.numbers("checksum") >= 0
    return [
        name for name, whole in zip(rows["cluster"].to_pylist(), is_whole, strict=True) if whole
    ]


def test_a_fault_in_every_row_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> object:
        raise IndexError("of everybody")

    table = folded(LINES)
    monkeypatch.setattr(audit.facts, "read", fail)
    with pytest.raises(IndexError, match="of everybody"):
        judged(table)
