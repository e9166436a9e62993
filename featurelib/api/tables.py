"""A night of the nightly's tables: the fleet at a glance, and every cluster of it to ask about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from featurelib.api.clusters import Stored
from featurelib.api.nights import diff, timeline
from featurelib.api.questions import range_plot, roll, what_if, why_not
from featurelib.api.shown import Answer, to_frame
from featurelib.catalogue import Catalogue
from featurelib.cli.asked import expect_catalogue
from featurelib.cli.catalogue import open_catalogue
from featurelib.core.audit import Judged
from featurelib.core.dialect import STRICT, load
from featurelib.errors import ConfigError
from featurelib.feature import Severity, Verdict
from featurelib.lake import Lake
from featurelib.questions.diff import Diff
from featurelib.questions.roll import Roll
from featurelib.questions.timeline import Timeline
from featurelib.questions.what_if import WhatIf
from featurelib.questions.why_not import WhyNot
from featurelib.reaching import open_fleet
from featurelib.source import RUN_TIME, Wanted, entry_named
from featurelib.tables import FEATURE_READINESS, FINDINGS, INCOMPATIBLE_BROKERS, UPGRADE_PLANS
from featurelib.view.model import Report, ReportedCluster
from featurelib.view.report import RunInfo, summarize

if TYPE_CHECKING:
    from featurelib.view.html import RangePlot


class Tables:
    """One night; `tables[name]` is one cluster of it, which every function here takes."""

    def __init__(self, lake: Lake, wanted: Wanted, catalogue: Catalogue) -> None:
        self.lake, self._wanted, self.catalogue = lake, wanted, catalogue
        self.run = lake.run(wanted.run)

    def __repr__(self) -> str:
        return f"<tables in {self.lake.root}, run {self.run}, {len(self.clusters)} clusters>"

    @cached_property
    def report(self) -> Report:
        """The night's report: the values behind its text, JSON and page."""
        lake, run = self.lake, self.run
        judged = Judged(
            findings=lake.rows(FINDINGS, run=run),
            incompatible=lake.rows(INCOMPATIBLE_BROKERS, run=run),
            readiness=lake.rows(FEATURE_READINESS, run=run),
            plans=lake.rows(UPGRADE_PLANS, run=run),
        )
        about = RunInfo(number=run, as_of=lake.as_of(run), tables=lake.root)
        _, fleet = open_fleet(self._wanted.fleet, self.catalogue)
        return summarize(judged, about, self.catalogue, load(STRICT), inventory=fleet)

    @cached_property
    def names(self) -> dict[str, str]:
        """What the inventory calls clusters, by id."""
        return open_fleet(self._wanted.fleet, self.catalogue)[1].names

    @property
    def clusters(self) -> tuple[str, ...]:
        """What people call the clusters, those that need a person most first."""
        return tuple(cluster.name for cluster in self.report.clusters)

    def fleet(self) -> Any:
        """The fleet at a glance as a pandas DataFrame: one row a cluster, worst first.

        Columns: cluster, verdict, phase, nodes, ready (features that can move now), critical,
        blocker, unknown, warning (findings, without muted ones), in_one_line, id. Raises
        ConfigError where pandas is not installed.
        """
        return to_frame(pa.Table.from_pylist([_row(one) for one in self.report.clusters]))

    def __getitem__(self, cluster: str) -> Stored:
        """One cluster, by its id or name. Raises ConfigError, naming the nearest, for another."""
        _, fleet = open_fleet(self._wanted.fleet, self.catalogue)
        entry = entry_named(cluster, fleet.cluster)
        self.lake.expect_cluster(entry.id, self.run, list(self.names.values()))
        wanted = replace(self._wanted, cluster=entry.id, run=self.run)
        return Stored(wanted=wanted, catalogue=self.catalogue)

    def why_not(self, cluster: str, feature: str, level: int | str) -> Answer[WhyNot]:
        """As featurelib.why_not, of one cluster of this night."""
        return why_not(self[cluster], feature, level)

    def what_if(self, cluster: str, **changes: Any) -> Answer[WhatIf]:
        """As featurelib.what_if, of one cluster of this night."""
        return what_if(self[cluster], **changes)

    def roll(self, cluster: str, to: str) -> Answer[Roll]:
        """As featurelib.roll, of one cluster of this night."""
        return roll(self[cluster], to)

    def timeline(self, cluster: str) -> Answer[Timeline]:
        """As featurelib.timeline, up to this night."""
        return timeline(self[cluster])

    def diff(self, before: int | None = None) -> Answer[Diff]:
        """As featurelib.diff: this night against the one before it, or against `before`."""
        return diff(self, before)

    def range_plot(self, cluster: str, features: Sequence[str] = ()) -> RangePlot:
        """As featurelib.range_plot, of one cluster of this night."""
        return range_plot(self[cluster], features)


def open_tables(
    folder: str,
    *,
    run: int | None = None,
    fleet: str | None = None,
    config: str | None = None,
    overlay: str | None = None,
) -> Tables:
    """The tables the nightly wrote, without Spark: the newest night, or the one named by `run`.

        tables = open_tables("build/samples/tables", fleet="data/samples/fleet.toml")
        tables.fleet()
        tables.why_not("ghost-broker", "metadata.version", 27)

    `fleet` is the inventory that names the clusters; default conf/fleet.toml. Raises ConfigError
    where there are no tables, NoEvidenceError for tables without a night.
    """
    try:
        lake = Lake(folder)
    except ConfigError as error:
        raise ConfigError(
            f"{folder}: expected the folder of the nightly's tables, found none. Those of the "
            "samples are made, in build/samples/tables, by running ./spark-submit.sh in the "
            "folder of the checkout; then run this again."
        ) from error
    catalogue = open_catalogue(overlay)
    wanted = Wanted(tables=folder, run=run, as_of=RUN_TIME, fleet=fleet, config=config)
    expect_catalogue(lake, run, catalogue)
    return Tables(lake, wanted, catalogue)


def _row(cluster: ReportedCluster) -> dict[str, object]:
    heard = [finding.severity for finding in cluster.findings if finding.muted is None]
    counted = (Severity.CRITICAL, Severity.BLOCKER, Severity.UNKNOWN, Severity.WARNING)
    return {
        "cluster": cluster.name,
        "verdict": cluster.verdict.value,
        "phase": cluster.phase.value,
        "nodes": cluster.nodes,
        "ready": sum(ready.verdict is Verdict.READY for ready in cluster.readiness),
        **{severity.value: heard.count(severity) for severity in counted},
        "in_one_line": cluster.summary,
        "id": cluster.id,
    }
