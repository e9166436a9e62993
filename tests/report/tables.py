"""Small judged tables, written as rows; a column left out is null."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from featurelib.audit.audit import Judged
from featurelib.audit.findings import Mute
from featurelib.config.fleet import Fleet
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.schema import FINDING, INCOMPATIBLE_BROKER, READINESS, UPGRADE_PLAN
from featurelib.view.facts import Links, RunFacts
from featurelib.view.model import Report, ReportedProfile, SupportedRange
from featurelib.view.report import add_details, report_run, summarize
from featurelib.view.trend import PreviousRuns
from featurelib.words import clean
from tests.facts import with_facts
from tests.report.samples import CATALOGUE, HOURS_72
from tests.rows import make

Row = dict[str, Any]
SEEN = datetime(2026, 11, 21, 5, 52, tzinfo=UTC)
AS_OF = 1_795_240_000_000_000


def judged(
    plans: list[Row],
    findings: list[Row] = [],  # noqa: B006  never changed
    readiness: list[Row] = [],  # noqa: B006
    incompatible: list[Row] = [],  # noqa: B006
) -> Judged:
    return Judged(
        findings=make([*map(with_facts, findings)], FINDING),
        incompatible=make(incompatible, INCOMPATIBLE_BROKER),
        readiness=make(readiness, READINESS),
        plans=make(plans, UPGRADE_PLAN),
    )


def report(
    tables: Judged,
    *,
    names: Mapping[str, str] | None = None,
    newest: int = 0,
    out: str = "",
    mutes: tuple[Mute, ...] = (),
    **more: Any,
) -> Report:
    """`names`: by cluster id, as an inventory that says nothing else."""
    facts = RunFacts(release="0.1.0", newest=newest, max_age=HOURS_72, out=out)
    run = report_run(CATALOGUE, 20261121080000, AS_OF, facts)
    if isinstance(before := more.get("before"), dict):  # nothing was critical, unless it says so
        more["before"] = {k: (v, False) if isinstance(v, str) else v for k, v in before.items()}
    if names is not None:
        more["inventory"] = Fleet(cluster=tuple(Entry(id=i, name=n) for i, n in names.items()))
    names = {"nights": "nights", "before": "verdicts", "levels_before": "levels"}
    names |= {"silent_before": "silent", "lowered": "lowered"}
    past = PreviousRuns(**{field: more.pop(name) for name, field in names.items() if name in more})
    names_of_links = ("plan_files", "find_line", "ways", "places")
    links = Links(**{name: more.pop(name) for name in names_of_links if name in more})
    return summarize(tables, run, CATALOGUE, links=links, mutes=mutes, past=past, **more)


def plan(
    cluster: str, verdict: str, phase: str = "mixed software", nodes: int = 3, **more: Any
) -> Row:
    return {"cluster": cluster, "verdict": verdict, "phase": phase, "nodes": nodes, **more}


def finding(cluster: str, code: str, severity: str, **more: Any) -> Row:
    return {"cluster": cluster, "code": code, "severity": severity, **more}


def unfit(cluster: str, node: int, feature: str, low: int | None, high: int | None) -> Row:
    """A broker that does not support level 27 of `feature`."""
    return finding(
        cluster,
        "unsupported_by_node",
        "blocker",
        role="broker",
        node_id=node,
        feature=feature,
        level=27,
        min_version=low,
        max_version=high,
        observed_at=SEEN,
        line_id=node - 3,
    )


Nodes = dict[tuple[str, int], dict[str, tuple[int, int]] | None]


def with_nodes(found: Report, nodes: Nodes) -> Report:
    """The report where every cluster has these nodes, by role and id; None = nobody knows what one
    supports."""
    profiles = tuple(
        ReportedProfile(
            brokers=(number,) if role == "broker" else (),
            controllers=(number,) if role == "controller" else (),
            ranges=None
            if ranges is None
            else tuple(
                SupportedRange(feature=clean(name), min_version=low, max_version=high)
                for name, (low, high) in ranges.items()
            ),
        )
        for (role, number), ranges in nodes.items()
    )
    seen = dict.fromkeys((cluster.key for cluster in found.clusters), profiles)
    return add_details(found, seen, {}, CATALOGUE)
