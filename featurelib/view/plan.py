"""Show a plan, or why there is none: the text of `plan`, `show` and `approve`.

Only the part that a plan's digest covers counts as fact. Other parts can be changed by anybody who
can write the file, so they stand apart, and contradictions in these parts are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

from featurelib.audit.findings import SetAside
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import FleetEntry
from featurelib.core.dialect import GENERATIONS, load
from featurelib.feature import METADATA_VERSION
from featurelib.findings import tagged
from featurelib.model import Guards, Plan, Reason
from featurelib.planning.files import Approval, ForPeople, PlanFile, digest, say_span
from featurelib.planning.outlook import NONE, ChangeOutlook, StepOutlook, level_names, look_ahead
from featurelib.planning.owners import LeftOver
from featurelib.planning.planner import Planned
from featurelib.planning.reasons import EVIDENCE
from featurelib.view.layout import STYLES, Page, paint
from featurelib.view.words import (
    SNAPSHOT_FIRST,
    answer_text,
    show_change,
    show_danger,
    show_muted,
    update_text,
)
from featurelib.words import (
    brokers_and_controllers,
    clean,
    count,
    level_text,
    levels_text,
    releases_text,
    time_text,
)

STANDARD_OUTPUT = "-"
BESIDE = "Also in the file. The digest does not cover it, and nothing above is taken from it:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Onward:
    """The parts of commands on a plan page; each may be missing. `path`: the plan file; `ways`:
    options; `why_not`: arguments of why-not; `address`: of brokers."""

    path: str | None = None
    ways: str = ""
    why_not: str = ""
    address: str = ""


def planning_page(
    planned: Planned,
    cluster: str,
    made_from: str,
    catalogue: Catalogue,
    *,
    left: Sequence[LeftOver] = (),
    muted: Iterable[SetAside | None] = (),
    onward: Onward,
    width: int | None = None,
) -> Page:
    """Return the page of a planning result. `cluster`: its text; `left`: the owner's changes;
    `muted`: muted refusals."""
    page, plan, path = Page(width), planned.plan, onward.path
    rows = [("cluster", cluster), ("intent", clean(planned.intent.text, 400)), ("from", made_from)]
    if plan is not None:
        rows += [("judged by", _judged_text(plan)), ("digest", digest(plan))]
    page.facts(rows)
    page.line()
    if plan is not None:
        show_steps(plan, catalogue, page, onward.address)
        if planned.refusals:
            page.head(f"Left out, {count(len(planned.refusals), 'reason')}:")
    elif left:
        page.line("Nothing of this is ours to send now.")
    elif planned.refusals:
        page.line(f"{paint('REFUSED', 'red')}, nothing is written. This is in the way:")
    else:
        page.line("Nothing to do.")
    _reasons(planned.refusals, catalogue, page)
    show_muted(muted, page)
    if planned.goal.stays:
        page.head(f"Not moved: {count(len(planned.goal.stays), 'feature')}")
        for unchanged in planned.goal.stays:
            page.item(clean(unchanged.text, 400), 2)
    show_warnings(planned.warnings, page)
    show_left(left, page)
    if plan is None and onward.why_not and onward.why_not.isprintable():  # names are untrusted
        page.head("Every reason, and what unlocks it:")
        page.line(f"  featurelib why-not{onward.why_not}")
    if path is not None:
        page.line()
        effect = "written to the cluster" if planned.probed else "sent"
        path_text = "on standard output" if path == STANDARD_OUTPUT else f"in {path}"
        page.line(f"The plan is {path_text}. Nothing was {effect}.")
        if path != STANDARD_OUTPUT:
            page.line(paint(f"Next: featurelib show {quote(path)}{onward.ways}", "bold"))
    return page


def plan_page(
    file: PlanFile,
    command: str,
    name: str,
    catalogue: Catalogue,
    width: int | None = None,
    *,
    refusal: str | None = None,
    address: str = "",
) -> Page:
    """Return the page of a plan file. `command`: approves it; `name`: in the inventory; `refusal`:
    why featurelib can never apply it."""
    page, plan = Page(width), file.plan
    _facts(plan, file.digest, name, page)
    show_warnings(list(contradictions(file, name, catalogue)), page)
    page.line()
    steps = look_ahead(plan, catalogue, address)
    for number, step in enumerate(steps, start=1):
        together = ", all or nothing" if len(step.changes) > 1 else ""
        title = f"Step {number} of {len(steps)}{together}, timeout {step.timeout_ms / 1000:g} s"
        page.line(paint(title, "bold"))
        for change in step.changes:
            _change(change, catalogue, page)
        _show_levels_after(step, plan, catalogue, page)
        page.line()
    page.line("`featurelib apply` sends it only if it finds this again:")
    for need in _requirements(plan, catalogue):
        page.text(need, 2, 6)
    show_warnings(_other_catalogue(plan, catalogue), page)
    _show_people(file.for_people, page)
    page.line()
    if refusal is None:
        key = " --key FILE" if plan.guards and plan.guards.require_signature else ""
        page.line(paint(f"Next: {command}{key}", "bold"))
        return page
    page.line("`featurelib approve` and `featurelib apply` refuse this plan:")
    for line in refusal.splitlines():
        page.line(f"  {clean(line, 2000)}")
    return page


def approval_page(
    file: PlanFile, approval: Approval, entry: FleetEntry, catalogue: Catalogue
) -> Page:
    """Return the page that asks for an approval: effects, irreversible changes, approver and
    expiry."""
    page, plan, name = Page(), file.plan, entry.name
    _facts(plan, file.digest, name, page)
    page.line()
    show_steps(plan, catalogue, page, entry.address)
    page.line()
    reason = f" ({approval.reason})" if approval.reason else ""
    lasts = say_span(approval.expires_at - approval.approved_at)
    until = f"{time_text(approval.expires_at)}, {lasts} from now"
    page.facts([("by", f"{approval.approved_by}{reason}"), ("until", until)])
    faults = [*_other_catalogue(plan, catalogue), *contradictions(file, name, catalogue)]
    show_warnings(faults, page)
    return page


def show_steps(plan: Plan, catalogue: Catalogue, page: Page, address: str = "") -> None:
    """Add the updates of each step, and its irreversible effects, to the page."""
    for number, step in enumerate(look_ahead(plan, catalogue, address), start=1):
        page.line(paint(f"Step {number} of {len(plan.steps)}", "bold"))
        for change in step.changes:
            show_change(change, catalogue, page)


def named_cluster(cluster: str, name: str) -> str:
    """Return the id of a cluster, followed by its name in brackets if both differ."""
    return clean(cluster) + (f" ({clean(name)})" if name and name != cluster else "")


def _facts(plan: Plan, plan_digest: str, name: str, page: Page) -> None:
    rows = [
        ("cluster", named_cluster(plan.cluster, name)),
        ("intent", clean(plan.intent, 400)),
        ("digest", plan_digest),
        ("judged by", _judged_text(plan)),
        ("guards", "" if plan.guards is None else _guards_text(plan.guards)),
    ]
    page.facts(rows)


def _judged_text(plan: Plan) -> str:
    """Return the judges of a plan as text: policy, dialects and catalogue."""
    titles = "; ".join(load(name).title for name in plan.own_dialects if name in GENERATIONS)
    own_text = f", and the rules of these controllers: {titles}" if titles else ""
    return f"strict policy{own_text}; catalogue of {clean(plan.catalogue)}"


def _guards_text(guards: Guards) -> str:
    """Return the guards of a plan as text: signature and owner."""
    signed = f"a signature is {'required' if guards.require_signature else 'not required'}"
    if not guards.managed_by:
        return f"{signed}; only featurelib finalizes features there"
    names = guards.managed_features
    guarded = "everything" if names is None else ", ".join(map(clean, names))
    return f"{signed}; {clean(guards.managed_by)} finalizes {guarded}"


def show_warnings(warnings: Sequence[str], page: Page) -> None:
    if warnings:
        page.line()
    for warning in warnings:
        page.item(f"{paint('warning', STYLES['warning'])}: {clean(warning, 1000)}")


def show_left(left_over: Sequence[LeftOver], page: Page) -> None:
    """Add the changes that a plan leaves to others to the page, with commands."""
    for request in left_over:
        page.line()
        page.text(clean(request.text, 1000))
        if request.command:
            page.line(f"  {clean(request.command, 1000)}")


def _other_catalogue(plan: Plan, catalogue: Catalogue) -> list[str]:
    if plan.catalogue == catalogue.label:
        return []
    return [
        f"the plan was made with the catalogue of {plan.catalogue}, and this is the one of "
        f"{catalogue.label}. With its overlay, if it had one: --overlay FILE"
    ]


def _change(change: ChangeOutlook, catalogue: Catalogue, page: Page) -> None:
    """Add an update to the page: what it brings or loses, what depends on it, and its downgrade."""
    page.text(update_text(change.update, catalogue), 2, 6)
    rows = []
    for verb, notes in (("brings", change.brings), ("may lose", change.loses)):
        for note in notes:
            level = level_text(catalogue, METADATA_VERSION, note.level)
            rows.append((verb, f"{level}: {note.purpose}" if note.purpose else level))
            verb = ""
    rows += [("unlocks", ", ".join(f"{name} {level}" for name, level in change.unlocks))]
    page.facts(rows, 4)
    show_danger(change, catalogue, page)


def _show_levels_after(step: StepOutlook, plan: Plan, catalogue: Catalogue, page: Page) -> None:
    """Add the possible downgrades and compatible releases after a step to the page."""
    name = METADATA_VERSION
    if step.floor != NONE:
        level, floor = (level_text(catalogue, name, at) for at in (step.levels[name], step.floor))
        verb = "cannot" if floor == level else "can"
        target = "" if floor == level else f" to {floor}"
        page.text(f"At {level}, {name} {verb} be lowered without loss{target}.", 2, 6)
    if plan.requirements.features_node_version is not None:
        return
    releases = releases_text(catalogue, step.joins)
    page.text(f"Nodes that can register then: Kafka {releases} (production software).", 2, 6)
    irreversible = step.never_again(catalogue)
    if lowered := tuple(name for name in step.joins_no_more if name not in irreversible):
        lost = releases_text(catalogue, lowered)
        text = f"No longer: Kafka {lost}. Lower the level before a node is rolled back to these."
        page.text(text, 2, 6)
    if irreversible:
        page.text(f"Never again: Kafka {releases_text(catalogue, irreversible)}.", 2, 6)
    if step.joins_newly:
        page.text(f"Newly: Kafka {releases_text(catalogue, step.joins_newly)}.", 2, 6)
        page.text(SNAPSHOT_FIRST, 2, 6)


def _requirements(plan: Plan, catalogue: Catalogue) -> Iterator[str]:
    """Yield the requirements of a plan, which must be met before sending, as short texts."""
    required = plan.requirements
    levels = levels_text(catalogue, required.levels.items())
    yield f"finalized: {levels or 'nothing'}, and nothing else"
    for group in required.nodes:
        ranges = [
            f"{clean(name)} {low}-{high}" if high else f"no {clean(name)}"
            for name, (low, high) in sorted(group.ranges.items())
        ]
        nodes_text = brokers_and_controllers(group.brokers, group.controllers, most=None)
        yield f"{nodes_text}: {', '.join(ranges)}"
    if required.features_node_version is not None:
        yield f"features node: version {required.features_node_version}"
    yield "no other node"


def _reasons(reasons: Sequence[Reason], catalogue: Catalogue, page: Page) -> None:
    """Add the reasons against a plan to the page, by feature and level."""
    repeated: set[str] = set()
    for feature in dict.fromkeys(reason.feature for reason in reasons):
        own = [reason for reason in reasons if reason.feature == feature]
        shortened = [reason for reason in own if reason.code not in tagged("no_level") and feature]
        levels = {reason.level for reason in shortened if reason.level is not None}
        title = clean(feature) if feature else "the whole cluster"
        level_texts = [level_text(catalogue, feature, level) for level in sorted(levels)]
        page.line(f"  {title} {' and '.join(level_texts)}".rstrip())
        for reason in own:
            _reason(reason, repeated, page)


def _reason(reason: Reason, printed: set[str], page: Page) -> None:
    if reason.judge in GENERATIONS:
        page.item(answer_text(reason.judge, reason.statement, is_answer=reason.is_answer), 4)
        return
    missing = "missing evidence, " if reason.judge == EVIDENCE else ""
    page.item(f"{missing}{reason.code}: {clean(reason.statement, 1000)}", 4)
    if reason.action and reason.action not in printed:
        printed.add(reason.action)
        page.item(f"→ {clean(reason.action, 600)}", 6)
    if reason.command and reason.command not in printed:
        printed.add(reason.command)
        page.line(f"        {clean(reason.command, 400)}")


def _show_people(people: ForPeople, page: Page) -> None:
    """Add the part of a plan file that its digest does not cover to the page."""
    made = [clean(people.written_at)] if people.written_at else []
    made += [f"from {clean(people.made_from, 300)}"] if people.made_from else []
    made += [f"last seen {clean(people.seen_at)}"] if people.seen_at else []
    texts = [f"name: {clean(people.name)}"] if people.name else []
    texts += [f"made: {', '.join(made)}"] if made else []
    texts += [f"warning: {clean(text, 1000)}" for text in people.warnings]
    texts += [f"left out: {clean(text, 400)}" for text in people.left_out]
    if texts:
        page.line()
        page.text(BESIDE)
    for text in texts:
        page.item(text, 2)


def contradictions(file: PlanFile, name: str, catalogue: Catalogue) -> Iterator[str]:
    """Yield the texts in a plan file that `featurelib plan` cannot have written for this plan.
    `name`: in the inventory."""
    context = file.for_people
    if name and context.name and context.name != name:
        yield (
            f"THE FILE CALLS THIS CLUSTER {context.name}, the inventory calls it {name}: its text "
            "was changed, or the cluster got another name. Go by the id."
        )
    if not context.level_names or file.plan.catalogue != catalogue.label:
        return
    if context.level_names != level_names(file.plan, catalogue):
        yield (
            "THE TEXT OF THIS FILE WAS CHANGED after the plan was made: its level_names do not "
            "match its levels. The levels below come from the plan itself. Make the plan again."
        )
