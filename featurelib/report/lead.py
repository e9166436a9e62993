"""What a report says before anything else, and the one thing it tells its reader to do next."""

from __future__ import annotations

from featurelib.feature import Severity, Verdict
from featurelib.report import phrases
from featurelib.report.model import Report

NIGHTLY = "./spark-submit.sh nightly"


def lead(report: Report) -> str:
    """The state of the fleet in one or two sentences."""
    fleet = report.fleet
    if not fleet.clusters:
        return "No cluster was judged: nothing landed, and the inventory expects none."
    if fleet.all_too_old:
        return (
            "Every verdict is UNKNOWN because the evidence is too old to judge by. "
            "Collect the fleet again, or judge as of the newest line with --as-of newest."
        )
    if fleet.need_person == 0 and fleet.can_move == 0:
        where = phrases.count(fleet.clusters, "cluster")
        return f"Nothing is wrong, and nothing is left to finalize, in {where}."
    parts = [f"{fleet.need_person:,} of {phrases.count(fleet.clusters, 'cluster')} need a person"]
    if fleet.can_move:
        parts.append(f"{fleet.can_move:,} can finalize something now")
    return "; ".join(parts) + "."


def hint(report: Report) -> tuple[str, str]:
    """The most useful next step: a sentence, and a command or a file, which may be empty."""
    if report.fleet.all_too_old:
        return "Judge as of the newest line:", f"{NIGHTLY} --as-of newest"
    for severity in (Severity.CRITICAL, None, Severity.UNKNOWN, Severity.BLOCKER, Severity.WARNING):
        step = _propose_plan(report) if severity is None else _propose_remedy(report, severity)
        if step:
            return step
    return "Nothing to do until the next run.", ""


def _propose_plan(report: Report) -> tuple[str, str] | None:
    movable = [cluster for cluster in report.clusters if cluster.steps]
    if not movable:
        return None
    # A cluster that is READY as a whole is the easiest to approve.
    first = min(movable, key=lambda cluster: cluster.verdict is not Verdict.READY)
    if first.plan_file is None:
        return f"Run again with --out FOLDER: {first.name} has a plan to read.", ""
    return f"Read the plan of {first.name}, and carry it out step by step:", first.plan_file


def _propose_remedy(report: Report, severity: Severity) -> tuple[str, str] | None:
    for cluster in report.clusters:
        for finding in cluster.findings:
            if finding.severity is severity:
                # Its command stands with the finding: whether it fits is for a person to say.
                return f"{cluster.name}: {finding.message} {finding.remedy}", ""
    return None
