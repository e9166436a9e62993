"""What a report says before anything else, and the one thing it tells its reader to do next."""

from __future__ import annotations

import shlex
from datetime import timedelta

from featurelib.feature import Severity, Verdict
from featurelib.report import phrases
from featurelib.report.model import Cluster, Fleet, Report, Run
from featurelib.report.muted import count_muted, heard
from featurelib.report.words import show_time

AUDIT = "./spark-submit.sh audit"
SHOW = "featurelib show"


def lead(report: Report) -> str:
    """The state of the fleet in a few sentences."""
    fleet = report.fleet
    if not fleet.clusters:
        return "No cluster was judged: nothing landed, and the inventory expects none."
    if is_all_old(fleet):
        return _say_all_old(report)
    if fleet.need_person == 0 and fleet.can_move == 0:
        where = phrases.count(fleet.clusters, "cluster")
        what = "Nothing else is wrong" if fleet.muted else "Nothing is wrong"
        return f"{what}, and nothing is left to finalize, in {where}.{_say_muted(fleet)}"
    parts = [f"{fleet.need_person:,} of {phrases.count(fleet.clusters, 'cluster')} need a person"]
    if fleet.can_move:
        parts.append(f"{fleet.can_move:,} can finalize something now")
    said = "; ".join(parts) + "."
    if fleet.too_old:
        said += f" The evidence of {fleet.too_old:,} is too old to judge by: collect it again."
    return said + _say_muted(fleet)


def counted(report: Report) -> str:
    """What `need a person` in the lead counts; empty where the lead does not say it."""
    fleet = report.fleet
    if not fleet.clusters or is_all_old(fleet) or fleet.need_person == fleet.can_move == 0:
        return ""
    about = "Need a person: clusters that are BLOCKED or UNKNOWN, or have a finding above info"
    return f"{about}{'; muted findings do not count' if fleet.muted else ''}."


def _say_muted(fleet: Fleet) -> str:
    said = count_muted(fleet.muted, fleet.muted_until)
    return f" {said}." if said else ""


def is_all_old(fleet: Fleet) -> bool:
    """Whether all that landed is too old to judge by."""
    return 0 < fleet.too_old == fleet.clusters - fleet.not_landed


def hint(report: Report) -> tuple[str, str]:
    """The most useful next step: a sentence, and a command, which may be empty."""
    if is_all_old(report.fleet):
        if not _is_newest_old(report.run):
            return "Collect the fleet again, and run again.", ""
        where = shlex.quote(report.run.tables) if report.run.tables else "FOLDER"
        return (
            "Collect the fleet again. To see what the old evidence said:",
            f"{AUDIT} --tables {where} --as-of newest",
        )
    for severity in (Severity.CRITICAL, None, Severity.UNKNOWN, Severity.BLOCKER, Severity.WARNING):
        step = _propose_plan(report) if severity is None else _propose_remedy(report, severity)
        if step:
            return step
    return "Nothing to do until the next run.", ""


def _say_all_old(report: Report) -> str:
    """Which share of the clusters is too old, how old the newest line is, and what to do."""
    fleet, run = report.fleet, report.run
    if fleet.not_landed:
        who = f"{fleet.too_old:,} of {phrases.count(fleet.clusters, 'cluster')}"
        others = "one" if fleet.not_landed == 1 else f"{fleet.not_landed:,}"
        rest = f", and nothing landed from the other {others}"
    else:
        who, rest = f"all {phrases.count(fleet.clusters, 'cluster')}", ""
    said = [f"Every verdict is UNKNOWN because the evidence of {who} is too old to judge by{rest}."]
    if run.newest_line is not None:
        age = phrases.age(max(run.as_of - run.newest_line, timedelta()))
        said.append(f"The newest line is {age} old ({show_time(run.newest_line)}){_limit(run)}.")
    newest = ", or judge as of the newest line with --as-of newest" * _is_newest_old(run)
    said.append(f"Collect the fleet again{newest}.")
    return " ".join(said)


def _limit(run: Run) -> str:
    if run.max_age_hours is None:
        return ""
    return f"; what is older than {run.max_age_hours:g} hours decides nothing"


def _is_newest_old(run: Run) -> bool:
    """Whether judging as of the newest line would judge anything more."""
    if run.newest_line is None or run.max_age_hours is None:
        return True
    return (run.as_of - run.newest_line).total_seconds() > run.max_age_hours * 3600


def _propose_plan(report: Report) -> tuple[str, str] | None:
    movable = [cluster for cluster in report.clusters if cluster.steps]
    if not movable:
        return None
    # A cluster that is READY as a whole, and in our own hands, is the easiest to approve.
    first = min(movable, key=lambda c: (c.verdict is not Verdict.READY, _is_theirs(c)))
    who = first.name + _whose(first)
    if first.plan_file is None:
        return f"Run again with --out FOLDER: {who} has a plan to read.", ""
    how = "carry it out step by step"
    if _is_theirs(first):
        how = f"have {first.managed_by} carry it out, which finalizes there"
    out = (report.run.out or "FOLDER").removeprefix("file:").rstrip("/")
    command = f"{SHOW} {shlex.quote(f'{out}/{first.plan_file}')}"
    return f"Read the plan of {who}, and {how}:", command


def _is_theirs(cluster: Cluster) -> bool:
    """Whether somebody else carries out its plan: then it has no commands for us."""
    return cluster.managed_by is not None and not cluster.commands


def _propose_remedy(report: Report, severity: Severity) -> tuple[str, str] | None:
    for cluster in report.clusters:
        for finding in heard(cluster.findings):
            if finding.severity is severity:
                # Its command stands with the finding: whether it fits is for a person to say.
                who = cluster.name + _whose(cluster)
                return f"{who}: {finding.message} {finding.remedy}", ""
    return None


def _whose(cluster: Cluster) -> str:
    people = ", ".join(filter(None, (cluster.owner, cluster.contact)))
    return f" ({people})" if people else ""
