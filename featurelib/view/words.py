"""Write the sentences that several views share: an update, a point of no return, judges, mutes.
Shorter phrases (a level, a time, a node list) are in featurelib.words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from featurelib.audit.findings import SetAside
from featurelib.audit.side_effects import say_effect
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import GENERATIONS, STRICT, load
from featurelib.feature import METADATA_VERSION, UpgradeType
from featurelib.findings import tagged
from featurelib.model import Move
from featurelib.planning.goal import GOAL
from featurelib.planning.outlook import NONE, ChangeOutlook
from featurelib.planning.owners import ADVICE
from featurelib.planning.reasons import PROBE
from featurelib.view import digest, model
from featurelib.view.layout import STYLES, Page, paint
from featurelib.words import age, clean, count, level_text, newer_than, nodes, some, time_text

_JUDGES = {STRICT: "policy", GOAL: "the release's catalogue", PROBE: "the controller itself"}
MUTED = "muted in the settings file, and still in the way"
READ_AGAIN = (
    "these files do not change: collect again and run the nightly, or let the plan read the "
    "cluster itself"
)
COLLECT_AGAIN = (
    "these files do not change: collect again and run the nightly first. The inventory has no "
    "address of this cluster: with bootstrap, zookeeper or file in its entry a plan can read the "
    "cluster itself"
)
_KINDS = {
    UpgradeType.UPGRADE.name: "upgrade",
    UpgradeType.SAFE_DOWNGRADE.name: "SAFE DOWNGRADE",
    UpgradeType.UNSAFE_DOWNGRADE.name: "UNSAFE DOWNGRADE, METADATA MAY BE LOST",
}
# Measured on real nodes: tests/backends/test_return_to_older_real.py, tests/walk/returning.py.
SNAPSHOT_FIRST = (
    "A controller or combined node ends at start while its metadata log replays a level that its "
    "software does not support. Each of them first needs a metadata snapshot written after the "
    "level changed: ls -l METADATA_LOG_DIR/__cluster_metadata-0/*.checkpoint. A running node "
    "writes one every metadata.log.max.snapshot.interval.ms (1 hour by default), also without "
    "traffic. Elapsed time alone proves nothing. Restart one controller first. A broker that is "
    "no controller needs no snapshot."
)


def update_text(update: Move, catalogue: Catalogue) -> str:
    """Return an update as text: `metadata.version 21 (3.9-IV0) → 25 (4.0-IV3): upgrade`."""
    low = level_text(catalogue, update.feature, update.from_level)
    high = level_text(catalogue, update.feature, update.to_level)
    kind = _KINDS[update.upgrade_type]
    if update.to_level == 0:
        kind = f"DELETION ({kind.lower()})"
    elif update.to_level in catalogue.irreversible(update.feature):
        kind += ", IRREVERSIBLE"
    return f"{clean(update.feature)} {low} → {high}: {kind}"


def no_return_text(feature: str, before: int, point: int, catalogue: Catalogue) -> str:
    """Return a sentence about the first level that cannot be downgraded to `before`."""
    start = level_text(catalogue, feature, point)
    now = level_text(catalogue, feature, before)
    return (
        f"POINT OF NO RETURN: from {clean(feature)} {start} on it cannot go back to {now} without "
        "loss."
    )


def danger_lines(change: ChangeOutlook, catalogue: Catalogue) -> list[str]:
    """Return lines about the irreversible effects and side effects of an update."""
    update, lines = change.update, []
    for effect in change.side_effects:
        lines.append(f"ALSO CHANGES {clean(say_effect(effect), 1000)}")
    for command in change.keeps:
        lines += ["To keep the values, first:", f"  {clean(command, 400)}"]
    if change.irreversible:
        level_before = level_text(catalogue, update.feature, update.from_level)
        name = clean(update.feature)
        lines.append(f"POINT OF NO RETURN: nothing takes {name} back to {level_before}.")
    elif change.no_return != NONE:
        point = change.no_return
        lines.append(no_return_text(update.feature, update.from_level, point, catalogue))
    return lines


def show_change(change: ChangeOutlook, catalogue: Catalogue, page: Page) -> None:
    """Add an update and its irreversible effects to the page."""
    page.text(update_text(change.update, catalogue), 2, 6)
    show_danger(change, catalogue, page)


def show_danger(change: ChangeOutlook, catalogue: Catalogue, page: Page) -> None:
    """Add the irreversible effects and side effects of an update to the page."""
    for line in danger_lines(change, catalogue):
        if line.startswith(" "):
            page.line(f"    {line}")
        else:
            page.item(paint(line, STYLES["critical"]), 4)


def judge_text(judge: str) -> str:
    """Return the short name of a judge: the policy, a probe, or controllers of some releases."""
    return _JUDGES.get(judge) or (load(judge).title if judge in GENERATIONS else judge)


def judges_text(dialects: Sequence[str]) -> str:
    """Return a text that names the policy and the controllers of these dialects."""
    titles = "; ".join(load(name).title for name in dialects if name in GENERATIONS)
    return f"the policy{'; and the rules of these controllers: ' + titles if titles else ''}"


def answer_text(judge: str, message: str, *, is_answer: bool) -> str:
    """Return a controller's message as text. `is_answer`: it would be the response; otherwise a
    further reason."""
    verb_text = "would respond" if is_answer else "would also refuse this after the other fixes"
    return f'{judge_text(judge)} {verb_text}: "{clean(message, 1000)}"'


def show_muted(mutes: Iterable[SetAside | None], page: Page, head: str = MUTED) -> None:
    """Add the muted findings, by code and reason, below a heading to the page."""
    muted = dict.fromkeys(mute for mute in mutes if mute is not None)
    if muted:
        page.line()
        page.text(head)
        for text in digest.muted_lines(muted):
            page.item(clean(text, 600), 2)


def newest_text(findings: Iterable[model.ReportedFinding], catalogue: Catalogue) -> str:
    """Return a note that a cluster's software is newer than the catalogue; "" if it is not."""
    newer = tagged("newer")
    is_newer = any(f.code in newer and f.feature == METADATA_VERSION for f in findings)
    return newer_than(catalogue) if is_newer else ""


def idle_text(off: Sequence[int], silent: Sequence[int]) -> str:
    """Return a text about nodes that an assumed change does not change: stopped nodes, and nodes
    without response. "" if there are none."""
    parts = []
    for ids, verb, plural in ((off, "does not run", "do not run"), (silent, "did not respond", "")):
        if ids:
            verb_text = f"{verb} and is" if len(ids) == 1 else f"{plural or verb} and are"
            parts.append(f"{nodes(None, ids)} {verb_text} left as now")
    return "; ".join(parts)


# --- Plans of a fleet ---

FEATURES = 2  # Maximum number of features of a plan that a line names


def by_managers(managers: Iterable[str]) -> str:
    """Return a sentence that names the owners, with advice for owners without command."""
    names = list(dict.fromkeys(managers))
    subject = some(names, 2) if names[2:] else " and ".join(names)
    subject += " finalize" if names[1:] else " finalizes"
    text = f"{subject} these levels: upgrade them there."
    return f"{text} {ADVICE.get(names[0].casefold(), '')}".rstrip()


def after_ours(managed: Sequence[model.ReportedCluster]) -> str:
    """Return a sentence that featurelib's plan comes before the owner's changes."""
    with_ours = [cluster for cluster in managed if digest.parts(cluster)[0]]
    names = "" if len(with_ours) == len(managed) else f" of {some([c.name for c in with_ours], 2)}"
    return f"Apply our plan{names} first. " if with_ours else ""


def one_way(levels_by_cluster: Mapping[str, Sequence[str]]) -> str:
    """Return a sentence about points of no return; "" without any. `levels`: by cluster name."""
    features = [name for name, levels in levels_by_cluster.items() if levels]
    if len(features) != 1:
        return f"Some levels of {some(features, 2)} cannot be taken back. " if features else ""
    suffix = f" of {features[0]}" if len(levels_by_cluster) > 1 else ""
    return f"Point of no return{suffix}: {some(levels_by_cluster[features[0]], FEATURES)}. "


def warns_besides(cluster: model.ReportedCluster) -> bool:
    """Return true if the cluster has a warning that its plan does not fix."""
    return digest.warns(cluster, tagged("forgotten"))


def plans_text(clusters: Sequence[model.ReportedCluster], *, owners: bool) -> str:
    """Return the steps of a single plan as text, or the number of plans. `owners`: use the
    managers' steps."""
    if clusters[1:]:
        return f"{count(len(clusters), 'plan')} are ready."
    steps = digest.parts(clusters[0])[owners]
    return (
        some([digest.step_text(replace(step, managed_by=None)) for step in steps], FEATURES) + "."
    )


def before_text(clusters: Sequence[model.ReportedCluster], *, owners: bool) -> str:
    """Return the warnings and points of no return to read before these plans are approved."""
    warned = [cluster.name for cluster in clusters if warns_besides(cluster)]
    text = f"Read the findings of {some(warned, 2)} first. " if warned else ""
    steps = {c.name: digest.no_returns(c, digest.parts(c)[owners]) for c in clusters}
    return text + one_way(steps)


# --- The sentences above a report ---

NEEDS = (
    "A cluster needs action if it is BLOCKED or UNKNOWN, if a finding is worse than info, if it "
    "has a plan, if a level or its software was downgraded, or if this run has no data of it."
)


def lead(report: model.Report) -> str:
    """Return the state of the fleet in a few sentences."""
    fleet, clusters = report.fleet, count(report.fleet.clusters, "cluster")
    if not fleet.clusters:
        return "No cluster was judged: no data was collected, and the inventory lists no cluster."
    if is_all_old(fleet):
        return _all_old(report)
    if fleet.need_person == fleet.can_move == 0:
        verdict = "Nothing else is wrong" if fleet.muted else "Nothing is wrong"
        muted = f" {digest.count_muted(fleet.muted, fleet.muted_until)}." if fleet.muted else ""
        return f"{verdict}, and nothing is left to finalize, in {clusters}.{muted}"
    verb = "needs" if fleet.need_person == 1 else "need"
    text = f"{fleet.need_person:,} of {clusters} {verb} action."
    return text + f" {fleet.can_move:,} can be upgraded now." * bool(fleet.can_move)


def part_text(report: model.Report) -> str:
    """Return the choice of clusters in a report, and their number; "" = the whole fleet."""
    if report.part is None:
        return ""
    total = count(report.part.of, "cluster")
    return f"{report.part.text}: {report.fleet.clusters:,} of {total}"


def lead_note(report: model.Report) -> str:
    """Return the note that explains `need action` in a report; "" if no cluster needs action."""
    fleet = report.fleet
    if not fleet.clusters or is_all_old(fleet) or fleet.need_person == fleet.can_move == 0:
        return ""
    return NEEDS + " Muted findings do not count." * bool(fleet.muted)


def is_all_old(fleet: model.FleetCounts) -> bool:
    """Return true if the data of every cluster is too old for a verdict."""
    return 0 < fleet.too_old == fleet.clusters - fleet.not_landed


def _all_old(report: model.Report) -> str:
    """Return sentences about a fleet whose data is too old: share, newest line, remedy."""
    fleet, run = report.fleet, report.run
    clusters = count(fleet.clusters, "cluster")
    part, ending = f"all {clusters}", ""
    if fleet.not_landed:
        part = f"{fleet.too_old:,} of {clusters}"
        number = "one" if fleet.not_landed == 1 else f"{fleet.not_landed:,}"
        ending = f", and no data was collected from the other {number}"
    text = f"Every verdict is UNKNOWN because the data of {part} is too old{ending}."
    if run.newest_line is not None:
        old = age(max(run.as_of - run.newest_line, timedelta()))
        limit = run.max_age_hours
        than = "" if limit is None else f"; what is older than {limit:g} hours decides nothing"
        text += f" The newest line is {old} old ({time_text(run.newest_line)}){than}."
    newest = ", or judge as of the newest line with --as-of newest" * is_newest_old(run)
    return f"{text} Collect the fleet again{newest}."


def is_newest_old(run: model.ReportedRun) -> bool:
    """Return true if the newest line is too old for verdicts as of this run."""
    if run.newest_line is None or run.max_age_hours is None:
        return True
    return (run.as_of - run.newest_line).total_seconds() > run.max_age_hours * 3600


def left_out_line(line: model.QuarantinedLine) -> str:
    """Return a quarantined line as text: `payments: FILE:7: not valid JSON`."""
    return ": ".join(filter(None, (line.cluster, line.line, line.reason)))


def left_out_text(run: model.ReportedRun) -> str:
    """Return a text about quarantined lines: `9 landing lines of all runs left out, none of this
    run`."""
    lines = run.quarantine.lines if run.quarantine else 0
    quarantined = f"{run.ingest.quarantined:,}" if run.ingest and run.ingest.quarantined else "none"
    newest = f", {quarantined} of this run" if run.ingest else ""
    return f"{count(lines, 'landing line')} of all runs left out{newest}"


def next_step(report: model.Report) -> tuple[str, str]:
    """Return (most urgent task as sentence, its command or "")."""
    if not report.today:
        return "Nothing to do until the next run." if report.clusters else "Collect a cluster.", ""
    task = report.today[0]
    names = {cluster.key: cluster.name for cluster in report.clusters}
    names_text = some([names[key] for key in task.clusters], FEATURES)
    owners = f" ({some(task.owners, FEATURES)})" if task.owners else ""
    # A task shows the command of its remedy; a person decides whether to run it.
    command = task.command if task.verb in ("Approve", "Hand over", "Collect") else ""
    return f"{task.verb} {names_text}{owners}: {task.text} {task.how}".rstrip(), command
