"""Read runs from the nightly's tables: the fleet at a glance, and single clusters.

It needs no Spark and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os.path import isdir
from typing import Any

from featurelib.api.clusters import Answer, Stored, to_frame
from featurelib.audit.audit import Judged
from featurelib.audit.evidence import Conditions, read
from featurelib.audit.findings import NO_SITE, Mute
from featurelib.catalogue import Catalogue
from featurelib.config.files import find_settings, open_catalogue
from featurelib.config.fleet import Choice, Fleet, FleetEntry, FleetPart
from featurelib.config.settings import Settings, mutes_of
from featurelib.core.dialect import STRICT, load
from featurelib.errors import NoEvidenceError, SurroundingsError, TableError
from featurelib.feature import Severity, Verdict
from featurelib.lake import Lake, LeftOut, Read, lines_of, night_before, places, read_quarantine
from featurelib.planning.files import add_warning, file_names
from featurelib.questions.setbacks import find_lowered
from featurelib.rows import TableRows, join_rows, make_rows, texts_of
from featurelib.snapshot.history import histories
from featurelib.source import RUN_TIME, Wanted, open_fleet
from featurelib.tables import AUDIT_RUN, FINALIZED_FEATURES, GOLD, INGEST_RUN
from featurelib.view.facts import Links, RunFacts
from featurelib.view.model import Ingest, Report, ReportedCluster
from featurelib.view.report import (
    IN_FULL,
    add_details,
    narrow,
    read_profiles,
    report_run,
    summarize,
)
from featurelib.view.report import MOST as MOST_SHOWN
from featurelib.view.text import LIMIT, report_page
from featurelib.view.trend import PreviousRuns, ask_first
from featurelib.words import clean, microseconds

Row = dict[str, object]
QUARANTINED = 3  # Maximum number of quarantined lines that a report lists


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditInputs:
    """The inputs of a question about a fleet. `part`: the chosen clusters, None = all. `ways`:
    returns the options of commands about a cluster."""

    fleet: Fleet
    part: FleetPart | None
    settings: Settings
    mutes: tuple[Mute, ...]
    catalogue: Catalogue
    ways: Callable[[FleetEntry], str] = lambda entry: ""


class NightTables:
    """The tables of one run; `tables[name]` returns one cluster."""

    def __init__(self, options: Wanted, catalogue: Catalogue, choice: Choice | None = None) -> None:
        """Open the tables in `options.tables`. Raises ConfigError if the tables do not exist."""
        assert options.tables is not None
        self.lake, self._wanted, self.catalogue = Lake(options.tables), options, catalogue
        self.listed_in, self._inventory = open_fleet(options.fleet, catalogue)
        self.part = self._inventory.choose(choice or Choice(), self.listed_in)
        self.run = self.lake.run(options.run)

    def __repr__(self) -> str:
        return f"<tables in {self.lake.root}, run {self.run}, {len(self.clusters)} clusters>"

    @cached_property
    def _summary(self) -> Report:
        """The report of the run without ranges and level histories, which are slow to read."""
        lake, judged = self.lake, self.lake.judged(self.run)
        full_report = report_night(
            lake.read,
            self.run,
            judged,
            self.asked(),
            tables=lake.root,
            listed_in=self.listed_in,
            find_line=self._places(judged.findings).get,
        )
        if self.part is None:
            return full_report
        part = narrow(full_report, self.part)
        if not part.clusters:
            raise self.nothing(f"run {self.run}")
        return part

    def asked(self) -> AuditInputs:
        """Return the inputs of a question about all chosen clusters."""
        settings, file = find_settings(self._wanted.config)
        return AuditInputs(
            fleet=self._inventory,
            part=self.part,
            settings=settings,
            mutes=mutes_of(settings.mute, self._inventory, file),
            catalogue=self.catalogue,
            ways=replace(self._wanted, as_of=RUN_TIME).later,
        )

    @cached_property
    def report(self) -> Report:
        """The report of the run about the chosen clusters. Raises NoEvidenceError if the run judged
        no such cluster."""
        lake, run = self.lake, self.run
        settings, _ = find_settings(self._wanted.config)
        inventory = self._inventory.inventory
        try:
            return detail_worst(
                self._summary,
                Conditions(as_of=lake.as_of(run), max_age=settings.max_age, inventory=inventory),
                self.catalogue,
                lambda keys: lake.snapshots(run, [("cluster", "in", keys)]),
                lambda keys: lake.history(FINALIZED_FEATURES, keys, run),
            )
        except (NoEvidenceError, TableError, SurroundingsError):
            return self._summary  # snapshots of old runs may be gone

    def _places(self, findings: TableRows) -> dict[int, str]:
        """Return line id → (file, line number) of the landing lines of these findings; {} if the
        bronze tables are missing or have too many lines."""
        try:
            return places(self.lake.read, lines_of(findings, self.part))
        except (NoEvidenceError, TableError, SurroundingsError):
            return {}

    @property
    def names(self) -> dict[str, str]:
        """The cluster names in the inventory, by id."""
        return self._inventory.names

    @property
    def ways(self) -> str:
        """The options of commands that read the newest run of these tables."""
        return replace(self._wanted, as_of=None, run=None).ways[0]

    @property
    def made_from(self) -> str:
        """The source of the answers, as text: the tables, and the chosen clusters."""
        return f"tables in {self.lake.root}" + (f", {self.part.text}" if self.part else "")

    @property
    def clusters(self) -> tuple[str, ...]:
        """The names of the clusters, most urgent first."""
        return tuple(cluster.name for cluster in self._summary.clusters)

    def nothing(self, run: str) -> NoEvidenceError:
        """Return the error for a run that judged no chosen cluster."""
        assert self.part is not None
        return NoEvidenceError(
            f"{clean(self.part.text)}: {run} below {self.lake.root} has no verdicts about these "
            "clusters. Choose other clusters or another run."
        )

    def fleet(self) -> Any:
        """Return the fleet as a pandas DataFrame: one row per cluster, worst first.

        Columns: cluster, owner, labels, verdict, phase, nodes, ready (number of READY features),
        critical, blocker, unknown, warning (numbers of unmuted findings), in_one_line, id. Raises
        ConfigError if pandas is not installed."""
        return to_frame(map(_row, self._summary.clusters))

    def gold(self, name: str) -> Any:
        """Return a gold table, for example `finding`, as a pandas DataFrame with all runs and the
        chosen clusters."""
        table = {table.name: table for table in GOLD}[name]
        chosen = ("cluster", "in", [cluster.key for cluster in self._summary.clusters])
        is_about_clusters = "cluster" in table.schema.names
        return to_frame(self.lake.read(table, [chosen] * is_about_clusters).to_pylist())

    def __getitem__(self, cluster: str) -> Stored:
        """Return a cluster by id or name. Raises ConfigError with the nearest name."""
        entry = self._inventory.named(cluster) or FleetEntry(id=cluster)
        self.lake.expect_cluster(entry.id, self.run, list(self.names.values()))
        options = replace(self._wanted, cluster=entry.id, run=self.run)
        return Stored(wanted=options, catalogue=self.catalogue)


def report_night(
    read: Read,
    run: int,
    judged: Judged,
    order: AuditInputs,
    *,
    tables: str,
    listed_in: str,
    find_line: Callable[[int], str | None],
) -> Report:
    """Return the report of a run, made from its tables. `read`: reads a table; `listed_in`: the
    inventory file."""
    rows = judged.readiness.select(["cluster", "feature", "verdict"]).to_pylist()
    ready = {(row["cluster"], row["feature"]) for row in rows if row["verdict"] == Verdict.READY}
    previous = PreviousRuns(*night_before(read, run), find_lowered(read, run, ready))
    night = next(row for row in previous.nights if row["run"] == run)
    is_last = len(read(AUDIT_RUN, [("run", ">", run)], ["run"])) == 0
    folder = night["out"] if is_last else None  # plans of earlier runs are deleted
    plans = plan_files(judged, order.fleet.names) if folder is not None else {}
    earlier = max((row["run"] for row in previous.nights if row["run"] < run), default=0)
    ingest, quarantine, landing = _landed(read, run, earlier, order.fleet.names)
    run_facts = report_run(
        order.catalogue,
        run,
        microseconds(night["as_of"]),
        RunFacts(
            release=night["release"] or "",
            ingest=ingest,
            newest=int(judged.plans.numbers("newest_line").max(initial=0)),
            max_age=order.settings.max_age,
            tables=tables,
            out=folder or "",
            quarantine=quarantine,
        ),
    )
    return summarize(
        judged,
        run_facts,
        order.catalogue,
        inventory=order.fleet,
        links=Links(
            plan_files={cluster: f"plans/{name}" for cluster, (name, _) in plans.items()},
            find_line=find_line,
            ways=order.ways,
            places=(landing, listed_in),
        ),
        mutes=order.mutes,
        past=previous,
    )


def _landed(
    read: Read, run: int, before: int, names: Mapping[str, str]
) -> tuple[Ingest | None, tuple[int, list[LeftOut]] | None, str]:
    """Return (counts of ingested lines, quarantined lines of the clusters in `names`, landing
    folder), since the run `before`. Without bronze tables: (None, None, "")."""
    try:
        runs = read(INGEST_RUN, [("run", "<=", run)], None).to_pylist()
        lines, newest = read_quarantine(read, [("run", "<=", run)], QUARANTINED)
    except (NoEvidenceError, TableError, SurroundingsError):
        return None, None, NO_SITE.landing
    counts = {
        name: sum(row[name] for row in runs if row["run"] > before)
        for name in Ingest.__dataclass_fields__
    }
    folder = max(runs, key=lambda row: int(row["run"]))["landing"] if runs else ""
    left_out = lines, [(at, reason, key and names.get(key, key)) for at, reason, key in newest]
    return Ingest(**counts), left_out, folder if isdir(folder) else NO_SITE.landing


def plan_files(
    judged: Judged, titles: Mapping[str, str], report: Report | None = None
) -> dict[str, tuple[str, str]]:
    """Return cluster id → (file name, text) for each plan that has steps. The text includes the
    warnings of `report`."""
    rows = zip(judged.plans["cluster"].to_pylist(), judged.plans["plan"].to_pylist(), strict=True)
    texts = {cluster: text for cluster, text in rows if text is not None}
    for cluster, reason in ask_first(report) if report else ():
        if cluster in texts:
            texts[cluster] = add_warning(texts[cluster], reason)
    return {c: (name, texts[c]) for c, name in zip(texts, file_names(texts, titles), strict=True)}


def detail_worst(
    report: Report,
    conditions: Conditions,
    catalogue: Catalogue,
    snapshots: Callable[[list[str]], TableRows],
    history: Callable[[list[str]], TableRows],
) -> Report:
    """Return the report; the worst clusters get ranges and level histories. `snapshots`, `history`:
    read the rows of some clusters."""
    keys = [cluster.key for cluster in report.clusters[:MOST_SHOWN]]
    rows, in_full = snapshots(keys), keys[:IN_FULL]
    never = sorted({*keys} - {*rows["cluster"].to_pylist()})
    missing = make_rows(rows.schema, len(never), {"cluster": texts_of(never)})
    absent = load(STRICT).can.absent_metadata_version
    profiles = read_profiles(read(join_rows([rows, missing]), conditions, absent))
    moved = dict.fromkeys(in_full, ()) | histories(history(in_full).to_pylist())
    return add_details(report, profiles, moved, catalogue)


def open_tables(
    folder: str,
    *,
    run: int | None = None,
    fleet: str | None = None,
    config: str | None = None,
    overlay: str | None = None,
    owner: list[str] | None = None,
    label: list[str] | None = None,
    view: str | None = None,
) -> NightTables:
    """Open the nightly's tables without Spark: the newest run, or the run named by `run`.

        tables = open_tables("build/samples/tables", fleet="data/samples/fleet.toml")
        tables.fleet()
        why_not(tables["orders-prod-us"], "metadata.version", 29)

    `fleet` is the inventory that names the clusters; default conf/fleet.toml. `owner`, `label`
    (`KEY=VALUE` or `KEY`) and `view` choose clusters, as the options of commands do. Raises
    ConfigError where there are no tables, NoEvidenceError for tables without a night.
    """
    options = Wanted(
        tables=folder, run=run, as_of=RUN_TIME, fleet=fleet, config=config, overlay=overlay
    )
    choice = Choice(owner=owner, label=label, view=view)
    return NightTables(options, open_catalogue(overlay), choice)


def report(night: NightTables, limit: int = LIMIT) -> Answer[Report]:
    """Print the report of a run.

    The output equals the nightly's:

    \b
        featurelib report --owner payments --tables TABLES
        featurelib report --run 20261121060000 --tables TABLES --json

    Counts, causes and tasks are computed for the chosen clusters only. For a spreadsheet or a CI
    server: featurelib export. In Python: report(open_tables(...)); a row is a cluster.

    Exit codes: 0 done; 2 usage; 5 there is no run, or it judged none of these clusters.
    """
    return Answer(
        value=night.report,
        make_rows=lambda: map(_row, night.report.clusters),
        make_document=lambda: night.report,
        page=lambda width: report_page(night.report, width, limit),
    )


def _row(cluster: ReportedCluster) -> dict[str, object]:
    severities = [finding.severity for finding in cluster.findings if finding.muted is None]
    counted = (Severity.CRITICAL, Severity.BLOCKER, Severity.UNKNOWN, Severity.WARNING)
    return {
        "cluster": cluster.name,
        "owner": cluster.owner,
        "labels": cluster.labels,
        "verdict": cluster.verdict.value,
        "phase": cluster.phase.value,
        "nodes": cluster.nodes,
        "ready": sum(ready.verdict is Verdict.READY for ready in cluster.readiness),
        **{severity.value: severities.count(severity) for severity in counted},
        "in_one_line": cluster.summary,
        "id": cluster.id,
    }
