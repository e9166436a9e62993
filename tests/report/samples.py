"""The samples judged as the nightly judges them, without Spark."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions
from featurelib.catalogue import load as load_catalogue
from featurelib.config.fleet import parse_fleet
from featurelib.config.settings import mutes_of, parse_settings
from featurelib.core.dialect import load as load_dialect
from featurelib.landing import Landing, read
from featurelib.planning.outlook import with_texts
from featurelib.rows import TableRows, join_rows
from featurelib.schema import SNAPSHOT
from featurelib.snapshot import ClusterState, fold_lines, snapshot_rows
from featurelib.snapshot.history import LevelChange, LevelMove
from featurelib.source import RUN_TIME, Wanted, demo_places
from featurelib.view.facts import Links, RunFacts
from featurelib.view.model import Ingest, Report
from featurelib.view.report import add_details, read_profiles, report_run, summarize
from featurelib.view.trend import PreviousRuns
from tests.laboratory import LABORATORY
from tests.rows import make

SAMPLES = LABORATORY
CATALOGUE = load_catalogue()
DIALECT = load_dialect("strict")
HOURS_72 = 72 * 3600 * 10**6
FLEET = parse_fleet((SAMPLES / "fleet.toml").read_text("utf-8"), "fleet.toml", CATALOGUE)
_SETTINGS = parse_settings((SAMPLES / "audit.toml").read_text("utf-8"), "audit.toml")
MUTES = mutes_of(_SETTINGS.mute, FLEET, "audit.toml")
ONE = "k41-forgotten"  # it has a history
HISTORY = (
    LevelChange(
        at=datetime(2026, 11, 20, 8, tzinfo=UTC),
        epoch=7,
        changes=(LevelMove("metadata.version", 20, 25),),
    ),
    LevelChange(
        at=datetime(2026, 11, 21, 8, tzinfo=UTC),
        epoch=9,
        changes=(LevelMove("group.version", 0, 1),),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Snapshot rows, and: cluster id → folder, line_id → file:line, the newest line's time."""

    batch: TableRows
    names: dict[str, str]
    places: dict[int, str]
    newest: int


@cache
def read_samples() -> Samples:
    names, places, newest = {}, {}, 0
    rows: list[tuple[str, ClusterState]] = []
    for file in sorted(SAMPLES.glob("*/landing.jsonl")):
        lines = []
        for number, raw in enumerate(file.read_bytes().splitlines(), 1):
            landed = read(raw)
            assert isinstance(landed, Landing), f"{file}:{number}: {landed}"
            digest = hashlib.sha256(raw).digest()
            line_id = int.from_bytes(digest[:8], "big", signed=True)
            places[line_id] = f"{file.parent.name}/{file.name}:{number}"
            lines.append((landed, line_id))
        state = fold_lines(lines, CATALOGUE)
        newest = max(newest, state.observed_at)
        names[lines[0][0].cluster] = file.parent.name
        rows.append((lines[0][0].cluster, state))
    return Samples(batch=snapshot_rows(rows), names=names, places=places, newest=newest)


@cache
def judge_samples(later: int = 0) -> Judged:
    """The samples judged as of their newest line, or `later` by so many microseconds."""
    samples = read_samples()
    conditions = Conditions(as_of=samples.newest + later, max_age=HOURS_72)
    judged = judge(samples.batch, conditions, CATALOGUE, DIALECT)
    return replace(judged, plans=with_texts(judged, dialect=DIALECT.name, catalogue=CATALOGUE))


@cache
def judge_fleet() -> Judged:
    """The samples judged with their inventory and mutes, as the first command does in a new folder;
    one cluster of the inventory did not land."""
    samples = read_samples()
    never = [entry.id for entry in FLEET.cluster if entry.id not in samples.names]
    rows = join_rows([samples.batch, make([{"cluster": key} for key in never], SNAPSHOT)])
    conditions = Conditions(
        as_of=samples.newest, max_age=HOURS_72, inventory=FLEET.inventory, mutes=MUTES
    )
    judged = judge(rows, conditions, CATALOGUE, DIALECT)
    return replace(judged, plans=with_texts(judged, dialect=DIALECT.name, catalogue=CATALOGUE))


def made_up_nights(run: int, as_of: datetime) -> list[dict[str, Any]]:
    """Rows of gold.audit_run of eleven nights up to this run, the first two of an earlier
    featurelib, which did not count what runs and waits."""
    nights = []
    for back in range(10, -1, -1):
        is_old = back > 8
        on = [("3.9", 9 + back), ("4.2", 17 - back)]
        at = [(21, 4 + back), (27, 9), (29, 13 - back)]
        nights.append({
            "run": run - back * 1_000_000,
            "as_of": as_of - timedelta(days=back),
            "unknown": 2 + back % 3,
            "blocked": 8 + back // 3,
            "ready": 4,
            "up_to_date": 12 - back % 3 - back // 3,
            "findings": 68 + 3 * back,
            "releases": None if is_old else [{"release": r, "clusters": n} for r, n in on],
            "metadata_versions": None if is_old else [{"level": v, "clusters": n} for v, n in at],
            "median_wait_hours": None if is_old else 24 * (12 - back),
            "longest_wait_hours": None if is_old else 24 * (40 - back),
        })  # fmt: skip
    return nights


@cache
def report_samples() -> Report:
    """The report with everything a caller can give."""
    samples = read_samples()
    lines = len(samples.places)
    run, judged = 20261121080000, judge_fleet()
    before: dict[str, str] = dict(
        zip(*(judged.plans[name].to_pylist() for name in ("cluster", "verdict")), strict=True)
    )
    ids = {name: cluster for cluster, name in samples.names.items()}
    del before[ids["k40-fresh"]]
    before |= {ids["ghost-broker"]: "READY", ids["k37-forgotten"]: "UNKNOWN", "it-is-gone": "READY"}
    before[ids["zk-282-ignored-broker"]] = "BLOCKED"
    told = judged.findings.select(["cluster", "role", "node_id"]).to_pylist()
    silent = {tuple(row.values()) for row in told if row["cluster"] != ids["ghost-broker"]}
    levels = judged.readiness.select(
        ["cluster", "feature", "verdict", "finalized_level", "ceiling"]
    ).to_pylist()
    then = {("mixed-42-39", "metadata.version"): 20, ("zk-282-ignored-broker", "search.index"): 2}
    for row in levels:
        about = samples.names.get(row["cluster"]), row["feature"]
        row["finalized_level"] = then.get(about, row["finalized_level"])
    said = summarize(
        judged,
        report_run(
            CATALOGUE,
            run,
            samples.newest,
            RunFacts(
                release="0.1.0",
                ingest=Ingest(lines=lines, accepted=lines, repeated=0, quarantined=0),
                newest=samples.newest,
                max_age=HOURS_72,
                tables="build/samples/tables",
                out="build/samples/out",
            ),
        ),
        CATALOGUE,
        inventory=FLEET,
        links=Links(
            plan_files={cluster: f"plans/{name}.json" for cluster, name in samples.names.items()},
            find_line=samples.places.get,
            ways=Wanted(as_of=RUN_TIME, **demo_places()).later,
            places=("data/samples", "data/samples/fleet.toml"),
        ),
        mutes=MUTES,
        past=PreviousRuns(
            nights=made_up_nights(run, datetime.fromtimestamp(samples.newest / 1e6, UTC)),
            verdicts={key: (verdict, True) for key, verdict in before.items()},
            levels=levels,
            silent=silent,
        ),
    )
    assert judged.evidence is not None
    moved = dict.fromkeys((cluster.key for cluster in said.clusters), ()) | {ids[ONE]: HISTORY}
    return add_details(said, read_profiles(judged.evidence), moved, CATALOGUE)
