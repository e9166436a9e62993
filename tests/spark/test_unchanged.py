"""Clusters that did not change take their results from the last run: the tables are the same."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.alike import KINDS, shapes_of
from benchmarks.builds import catalogue_of
from benchmarks.built_rows import build_rows
from benchmarks.facts import draw as facts_of
from featurelib import schema
from featurelib.arrow import rows_of as rows_of_table
from featurelib.arrow import table_of
from featurelib.audit.audit import Judged
from featurelib.audit.columns import SKEW, age_class, is_fresh, latest
from featurelib.audit.evidence import Conditions, Waiting
from featurelib.catalogue import Catalogue, load, with_overlay
from featurelib.config import files
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.config.settings import MuteEntry, Settings
from featurelib.errors import FeatureLibError
from featurelib.rows import NONE, join_rows
from featurelib.snapshot.records import Snapshots, open_row, with_checksum, write_rows
from featurelib.spark import auditing, unchanged
from featurelib.spark.auditing import Audited
from featurelib.spark.judging import (
    CELLS,
    PARTS,
    EarlierRun,
    WaitingClusters,
    judge_by,
    judged_in,
    unchanged_in,
)
from featurelib.spark.store import Store
from featurelib.spark.unchanged import digest_conditions, rows_without_ready
from featurelib.tables import AUDIT_RUN, FINDINGS
from featurelib.tables import UPGRADE_PLANS as PLANS
from tests.core.lines import conditions as conditions_of
from tests.core.lines import lines_of, snapshot
from tests.core.oracle import Cluster
from tests.core.random_clusters import clusters
from tests.spark.nights import GOLD, RUN, Row, fold_samples, in_order, rows_of, sample_lines
from tests.spark.test_audit import DAY, HOUR, MAX_AGE, newest, put_snapshots

OVERLAY = Path(__file__).parents[2] / "conf" / "overlays" / "automq.toml"
SAID = [name for name in schema.SNAPSHOT.names if name != "state"]


def judge(
    rows: pa.Table,
    under: Conditions,
    last: EarlierRun | None = None,
    catalogue: Catalogue | None = None,
) -> Judged:
    """Return what workers find in these rows; they name each cluster that they leave out."""
    judging = judge_by(under, {}, catalogue, last=last)
    cells = pa.Table.from_batches(judging(rows.select(SAID).combine_chunks().to_batches()), CELLS)
    judged, unchanged = judged_in(cells), unchanged_in(cells)
    assert unchanged == {*rows["cluster"].to_pylist()} - {*judged.plans["cluster"].to_pylist()}
    return judged


def waits_of(judged: Judged) -> WaitingClusters:
    """What a run reads of the run before."""
    waiting: WaitingClusters = {}
    times = [judged.readiness.numbers(name).tolist() for name in ("ready_since", "verdict_since")]
    for row, *since in zip(judged.readiness.to_pylist(), *times, strict=True):
        if row["verdict"] != "UP_TO_DATE":
            own = Waiting(
                row["finalized_level"],
                row["verdict"],
                row["target"],
                *(None if at == NONE else at for at in since),
            )
            waiting.setdefault(row["cluster"], {})[row["feature"]] = own
    return waiting


def every_time(rows: pa.Table) -> list[int]:
    """All times in these rows, by the names of fields and not by their marks."""
    parts = Snapshots(rows_of_table(rows, schema.SNAPSHOT))
    fields = [(part, name) for part, of in schema.LAYOUT.items() for name in of.names or ()]
    times = {0}.union(
        *(
            np.abs(parts[part].field(name)).tolist()
            for part, name in fields
            if name == "at" or name.endswith("_at")
        )
    )
    return sorted(times - {0, abs(NONE), NONE})


def in_microseconds(at: datetime) -> int:
    return round((at - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))


def rows_about(judged: Judged, names: set[str]) -> dict[str, list[Row]]:
    """The rows of all parts about these clusters."""
    return {
        part: [row for row in in_order(getattr(judged, part)) if row["cluster"] in names]
        for part in PARTS
    }


@dataclass
class Chain:
    """Runs in turn: each takes what holds from the one before, which did the same. `all_lines`: the
    newest line of each cluster that any run judged."""

    catalogue: Catalogue | None = None
    before: Judged | None = None
    as_of: int = 0
    all_lines: dict[str, set[int]] = field(default_factory=dict)
    counts: list[tuple[int, int]] = field(default_factory=list)  # clusters taken, and judged

    def run(self, rows: pa.Table, under: Conditions) -> None:
        """Hold a run against one that judges every cluster."""
        until = latest(under.as_of)
        newest_lines = {
            name: max(counted)
            for name, times in self.all_lines.items()
            if (counted := [at for at in times if at <= until])
        }
        last, now = None, replace(under, newest_lines=newest_lines)
        if self.before is not None:
            now = replace(now, waiting=waits_of(self.before))
            holds = rows_without_ready(self.before.plans, now.waiting)
            last = EarlierRun(run=RUN, as_of=self.as_of, rows=holds)
        whole, part = (judge(rows, now, run, self.catalogue) for run in (None, last))
        judged = set(part.plans["cluster"].to_pylist())
        stays = set(rows["cluster"].to_pylist()) - judged
        ready = {row["cluster"] for row in whole.readiness.to_pylist() if row["verdict"] == "READY"}
        assert not ready & stays
        assert rows_about(whole, judged) == rows_about(part, judged)
        if stays:
            assert self.before is not None
            assert rows_about(whole, stays) == rows_about(self.before, stays)
        self.before, self.as_of = whole, under.as_of
        for row in whole.plans.to_pylist():
            if (newest := row["newest_line"]) is not None:
                self.all_lines.setdefault(row["cluster"], set()).add(in_microseconds(newest))
        self.counts.append((len(stays), len(judged)))


def test_all_recorded_clusters_at_every_age() -> None:
    """At times at which a time of a cluster becomes too old or stops to be in the future, and one
    microsecond later or earlier."""
    rows = fold_samples(sample_lines())
    under = Conditions(
        as_of=newest(rows), max_age=MAX_AGE, forgotten=DAY, min_ready=HOUR, inventory={}
    )
    counts = list[tuple[int, int]]()
    times = every_time(rows)
    ends = [at + more for at in times for more in (-MAX_AGE, -SKEW, 0, MAX_AGE)]
    for seed in range(6):
        draw = random.Random(seed)
        chain, chosen = Chain(), draw.sample(ends, 5)
        for as_of in sorted([*chosen, *(end + draw.choice((-1, 1)) for end in chosen)]):
            chain.run(rows, replace(under, as_of=as_of))
        counts += chain.counts
    assert any(stays > judged for stays, judged in counts)
    assert any(judged > stays > 0 for stays, judged in counts)


TIMES = st.integers(-60, 60)  # seconds


@given(TIMES, TIMES, TIMES, st.integers(0, 5))
def test_a_time_of_the_same_class_compares_alike_with_both_clocks(
    seconds: int, then: int, now: int, max_age: int
) -> None:
    """With an age of some seconds, and clocks that may differ by SKEW."""

    def compare(at: int, as_of: int) -> list[bool]:
        is_counted = bool(is_fresh(np.array(at), as_of, age))
        return [is_counted, at > latest(as_of), abs(as_of - at) <= age]

    age, second = max_age * 1_000_000, 1_000_000
    for shift in (0, SKEW, 3 * SKEW):
        for more in (-1, 0, 1):
            at, clocks = seconds * second + shift + more, (then * second, now * second)
            first, other = (int(age_class(np.array(at), as_of, age)) for as_of in clocks)
            if first == other:
                assert compare(at, clocks[0]) == compare(at, clocks[1])


LATER = [0, 1, 3600, 86_400, 3 * 86_400]  # seconds
RUNS = st.lists(st.tuples(st.integers(0, 15), st.sampled_from(LATER)), min_size=2, max_size=5)


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(clusters(), clusters(), RUNS, st.booleans())
def test_random_fleets_over_several_runs(
    some: list[Cluster], others: list[Cluster], runs: list[tuple[int, int]], declares: bool
) -> None:
    """In each run a cluster has one of two rows: of the same lines as before, newer or older."""
    under = conditions_of(some)
    if not declares:
        under = replace(under, inventory={})
    pairs = list(zip(some, others, strict=False))
    chain = Chain()
    for chosen, seconds in runs:
        fleet = [pair[chosen >> at & 1] for at, pair in enumerate(pairs)]
        rows = table_of(snapshot({of.name: lines_of(of) for of in fleet}))
        under = replace(under, as_of=under.as_of + seconds * 1_000_000)
        chain.run(rows, under)


@pytest.mark.parametrize("kind", KINDS)
def test_benchmark_fleets_over_several_runs(kind: str) -> None:
    """In each run some clusters have the row of a later night."""
    draw, shapes = random.Random(7), shapes_of(kind, 40)
    facts = [[facts_of(shape, night) for shape in shapes] for night in range(3)]
    fleets = [join_rows([rows for of in night for rows in build_rows(of)]) for night in facts]
    size, nights = len(fleets[0]), np.zeros(len(fleets[0]), dtype=np.int64)
    chain = Chain(catalogue=catalogue_of(shapes[0].features))
    under = Conditions(as_of=facts[0][0].as_of, max_age=2 * DAY)
    for later in (0, HOUR, DAY, DAY + HOUR, 2 * DAY, 2 * DAY + HOUR):
        rows = table_of(join_rows(fleets).take(nights * size + np.arange(size)))
        chain.run(rows, replace(under, as_of=under.as_of + later))
        for cluster in draw.sample(range(size), 5):
            nights[cluster] = min(nights[cluster] + 1, 2)
    assert sum(stays for stays, _ in chain.counts) > size
    assert all(judged >= 5 for _, judged in chain.counts[1:])


def test_lines_that_were_lost_are_seen_although_the_row_did_not_change() -> None:
    """A run judged a line of the future that counts only now: the tables are of a backup."""
    rows = fold_samples(sample_lines("ghost-broker"))
    chain, under = Chain(), Conditions(as_of=newest(rows), max_age=MAX_AGE)
    [name] = set(rows["cluster"].to_pylist())
    chain.all_lines = {name: {newest(rows) + HOUR}}
    for later in (0, 0, HOUR, HOUR):
        chain.run(rows, replace(under, as_of=newest(rows) + later))
    assert [stays for stays, _ in chain.counts] == [0, 1, 0, 0]
    assert chain.before is not None
    assert "evidence_lost" in {row["code"] for row in chain.before.findings.to_pylist()}


def test_whatever_a_result_depends_on_changes_the_conditions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mute = MuteEntry(code="ghost_broker", reason="known", until=date(2026, 12, 1))
    ends = (date(2026, 12, 2).toordinal() - date(1970, 1, 1).toordinal()) * DAY
    entry, order, catalogue = FleetEntry(id="x"), Settings(mute=(mute,)), load()

    def digest(
        entry: FleetEntry = entry,
        order: Settings = order,
        catalogue: Catalogue | None = None,
        as_of: int = ends - 1,
        is_newest: bool = False,
    ) -> str | None:
        return digest_conditions(Fleet(cluster=(entry,)), order, catalogue, as_of, is_newest)

    first = digest()
    assert first == digest(catalogue=load(), as_of=ends - DAY)
    others = [digest(is_newest=True), digest(as_of=ends)]
    others.append(digest(catalogue=with_overlay(catalogue, OVERLAY.read_text(), "automq.toml")))
    for change in ({"release": "3.9"}, {"brokers": (1,)}, {"registrations_complete": True}):
        others.append(digest(msgspec.structs.replace(entry, **change)))
    for changed in ({"max_age_hours": 1.0}, {"min_ready_days": 1}, {"mute": ()}):
        others.append(digest(order=msgspec.structs.replace(order, **changed)))
    monkeypatch.setattr(files, "__version__", "0.0.0")
    others.append(digest())
    assert len({first, *others}) == len(others) + 1
    monkeypatch.setattr(unchanged, "digest_code", lambda: "")
    assert digest() is None


def test_a_row_whose_bytes_were_changed_is_judged_and_said() -> None:
    rows = fold_samples(sample_lines("ghost-broker", "k39-dynamic", "mixed-42-39"))
    under = Conditions(as_of=newest(rows), max_age=MAX_AGE)
    before = judge(rows, under)
    at = before.plans["verdict"].to_pylist().index("BLOCKED")
    name = before.plans["cluster"].to_pylist()[at]
    last = EarlierRun(run=RUN, as_of=under.as_of, rows=rows_without_ready(before.plans, {}))
    assert not len(judge(rows, under, last).plans)
    place = rows["cluster"].to_pylist().index(name)
    stored = rows["listeners"].to_pylist()
    stored[place] = bytes([stored[place][0] ^ 1]) + stored[place][1:]
    at_column = rows.schema.get_field_index("listeners")
    changed = rows.set_column(at_column, "listeners", pa.array(stored, pa.binary()))
    part = judge(changed, under, last)
    assert part.plans["cluster"].to_pylist() == [name]
    codes = {row["code"] for row in part.findings.to_pylist()}
    assert "snapshot_malformed" in codes
    assert part.plans["verdict"].to_pylist() == ["UNKNOWN"]


def test_a_row_with_other_content_of_the_same_time_is_judged() -> None:
    rows = fold_samples(sample_lines("k39-dynamic"))
    under = Conditions(as_of=newest(rows), max_age=MAX_AGE)
    stored = open_row(rows_of_table(rows, schema.SNAPSHOT))
    ranges = stored.parts["ranges"]
    for most in (1, 2):
        ranges["max_version"] = most
        changed = table_of(write_rows([stored]))
        before = judge(changed, under)
        last = EarlierRun(run=RUN, as_of=under.as_of, rows=rows_without_ready(before.plans, {}))
        assert not len(judge(changed, under, last).plans)
        ranges["min_version"] = most
        assert len(judge(table_of(write_rows([stored])), under, last).plans) == 1


# Whole audits, on real tables.


def audit(store: Store, run: int, as_of: int | None, **given: object) -> Audited:
    fleet = given.pop("fleet", Fleet())
    assert isinstance(fleet, Fleet)
    catalogue = given.pop("catalogue", None)
    assert catalogue is None or isinstance(catalogue, Catalogue)
    order = Settings(max_age_hours=MAX_AGE / HOUR, **given)  # type: ignore[arg-type]
    own = Store(store.session, store.root)
    return auditing.audit(
        own, fleet, order, run=run, as_of=as_of, say=lambda _: None, catalogue=catalogue
    )


def gold_of(store: Store, run: int) -> dict[str, list[Row]]:
    return {table.name: rows_of(store.root, table, without=(), run=run) for table in GOLD}


def with_checksums(rows: pa.Table) -> pa.Table:
    """Return snapshot rows with the checksums of what they hold."""
    return table_of(with_checksum(dict(rows_of_table(rows, schema.SNAPSHOT).columns)))


def stayed(store: Store, run: int) -> object:
    [row] = rows_of(store.root, AUDIT_RUN, without=(), run=run)
    return row["unchanged"]


@pytest.mark.spark
def test_runs_write_the_same_tables_as_runs_that_judge_every_cluster(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = Store(store.session, str(tmp_path / "every"))
    lines = sample_lines()
    rows = fold_samples(lines)
    names = rows["cluster"].to_pylist()
    new = fold_samples(lines[: len(lines) // 2])  # other rows of some clusters
    there = dict(zip(new["cluster"].to_pylist(), range(len(new)), strict=True))
    at = [there.get(name, -1) for name in names]
    mixed = pa.concat_tables(
        [new.slice(of, 1) if of >= 0 else rows.slice(i, 1) for i, of in enumerate(at)]
    )
    fleet = Fleet(cluster=(FleetEntry(id="lost", brokers=(7,)),))
    nights: list[tuple[pa.Table, int | None]]
    nights = [(rows, 0), (rows, HOUR), (mixed, 2 * HOUR), (mixed, 2 * DAY), (rows, 2 * DAY)]
    nights += [(rows, None), (mixed, None)]
    counts = []
    for number, (snapshots, later) in enumerate(nights):
        run, as_of = RUN + number, None if later is None else newest(rows) + later
        for tables in (store, every):
            put_snapshots(tables, snapshots, run)
            with monkeypatch.context() as patch:
                if tables is every:
                    patch.setattr(auditing, "digest_conditions", lambda *_: None)
                audit(tables, run, as_of, fleet=fleet)
        assert gold_of(store, run) == gold_of(every, run)
        [own], [other] = (rows_of(of.root, AUDIT_RUN, without=(), run=run) for of in (store, every))
        assert own | {"unchanged": 0, "conditions": None} == other
        counts.append(own["unchanged"])
    assert counts[0] == 0
    assert 0 < counts[2] < counts[1] < len(names)
    assert counts[5] == 0  # as of the newest line
    assert 0 < counts[6] < counts[1]


@pytest.mark.spark
def test_every_cluster_is_judged_where_the_last_results_may_not_hold(store: Store) -> None:
    rows = fold_samples(sample_lines("ghost-broker", "k39-dynamic", "mixed-42-39"))
    put_snapshots(store, rows, RUN)
    ends, start = date(2026, 12, 1), newest(rows)
    mute = MuteEntry(code="ghost_broker", reason="known", until=ends)
    at_end = (ends.toordinal() + 1 - date(1970, 1, 1).toordinal()) * DAY

    def count(run: int, as_of: int | None, **given: object) -> object:
        audit(store, RUN + run, as_of, **given)
        return stayed(store, RUN + run)

    assert count(1, start) == 0
    same = count(2, start)
    assert isinstance(same, int)
    assert same > 0
    assert count(3, start - 1) == 0  # another time
    assert count(4, start) == same
    assert count(5, start, forgotten_nights=3) == 0  # other settings
    assert count(6, start, fleet=Fleet(cluster=(FleetEntry(id="x"),))) == 0
    assert count(7, start, mute=(mute,)) == 0
    assert count(8, at_end - 1, mute=(mute,)) <= same  # type: ignore[operator]
    assert count(9, at_end - 1, mute=(mute,)) == same
    assert count(10, at_end, mute=(mute,)) == 0  # the mute ended
    assert count(11, None, mute=(mute,)) == 0  # as of the newest line: an earlier time
    assert count(12, None, mute=(mute,)) == same
    assert count(13, start, mute=(mute,)) == 0  # the same time, but lines of the future wait
    overlaid = with_overlay(load(), OVERLAY.read_text(), "automq.toml")
    assert count(14, start, mute=(mute,), catalogue=overlaid) == 0
    assert count(15, start, mute=(mute,)) == 0
    names = pa.array([f"new-{name}" for name in rows["cluster"].to_pylist()])
    put_snapshots(store, with_checksums(rows.set_column(0, "cluster", names)), RUN + 16)
    assert count(16, start, mute=(mute,)) == 0  # other names
    put_snapshots(store, rows, RUN + 17)
    assert count(17, start, mute=(mute,)) == 0


@pytest.mark.spark
def test_every_cluster_is_judged_where_gold_is_not_what_the_last_run_left(
    store: Store, tmp_path: Path
) -> None:
    rows = fold_samples(sample_lines("ghost-broker", "k39-dynamic", "mixed-42-39"))
    put_snapshots(store, rows, RUN)
    number = 0

    def count() -> object:
        nonlocal number
        number += 1
        audit(store, RUN + number, newest(rows))
        told = {row["cluster"] for row in rows_of(store.root, PLANS, without=(), run=RUN + number)}
        assert told == {*rows["cluster"].to_pylist()}
        return stayed(store, RUN + number)

    findings, plans = (Path(store.path(table).removeprefix("file:")) for table in (FINDINGS, PLANS))
    assert count() == 0
    assert (same := count()) != 0
    DeltaTable(findings).delete(f"run = {RUN + number} and code = 'ghost_broker'")
    assert count() == 0  # another writer deleted rows
    assert count() == same
    DeltaTable(plans).update({"verdict": "'READY'"}, predicate=f"run = {RUN + number}")
    assert count() == 0  # or changed them
    assert count() == same
    DeltaTable(findings).restore(DeltaTable(findings).version() - 1)
    assert count() == 0  # or brought an earlier version back
    DeltaTable(findings).optimize.compact()
    assert count() == same  # the same rows in other files
    backup = shutil.copytree(findings, tmp_path / "backup")
    assert count() == same
    shutil.rmtree(findings)
    shutil.move(backup, findings)
    with pytest.raises(FeatureLibError, match="newest run"):
        count()  # a table of a backup: as before this run takes no results from it
    shutil.rmtree(findings)
    assert count() == 0  # a table is gone
    assert count() == same
