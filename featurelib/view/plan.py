"""A plan as text, and why there is none: what `plan`, `show` and `approve` say; and the waves of a
fleet.

Only what a plan's digest covers is taken for a fact; what else stands in its file can be changed by
whoever can write the file, so it stands apart, and is said to be wrong where it contradicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
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
from featurelib.planning.waves import WaveHeld, WaveMove, WavePlan, WaveStep, WaveWork
from featurelib.questions.gates import StepState, StepStatus, WaveGate, WaveStatus
from featurelib.view.layout import Page
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
    some,
    time_text,
)

STANDARD_OUTPUT = "-"
BESIDE = "Also in the file. The digest does not cover it, and nothing above is taken from it:"


def planning_page(
    planned: Planned,
    cluster: str,
    made_from: str,
    catalogue: Catalogue,
    *,
    left: Sequence[LeftOver] = (),
    muted: Iterable[SetAside | None] = (),
    path: str | None = None,
    ways: str = "",
    address: str = "",
    width: int | None = None,
) -> Page:
    """Return the page of a planning. `cluster` as named_cluster writes it; `address`: of its
    brokers, "" = not known, here and below; `left`: what is not ours, and how that is done;
    `muted`: what conf/audit.toml mutes of the refusals; `path`: where the plan stands, None =
    nowhere; `ways`: options of the next command."""
    page, plan = Page(width), planned.plan
    rows = [("cluster", cluster), ("intent", clean(planned.intent.text, 400)), ("from", made_from)]
    if plan is not None:
        rows += [("judged by", _judged_text(plan)), ("digest", digest(plan))]
    page.facts(rows)
    page.line()
    if plan is not None:
        show_steps(plan, catalogue, page, address)
        if planned.refusals:
            page.head(f"Left out, {count(len(planned.refusals), 'reason')}:")
    elif left:
        page.line("Nothing of this is ours to send now.")
    elif planned.refusals:
        page.line("REFUSED, nothing is written. This is in the way:")
    else:
        page.line("Nothing to do.")
    _reasons(planned.refusals, catalogue, page)
    show_muted(muted, page)
    if planned.goal.stays:
        page.head(f"Not moved: {count(len(planned.goal.stays), 'feature')}")
        for stay in planned.goal.stays:
            page.item(clean(stay.text, 400), 2)
    _warnings(planned.warnings, page)
    show_left(left, page)
    if path is not None:
        page.line()
        what = "written to the cluster" if planned.probed else "sent"
        where = "on standard output" if path == STANDARD_OUTPUT else f"in {path}"
        page.line(f"The plan is {where}. Nothing was {what}.")
        if path != STANDARD_OUTPUT:
            page.line(f"Next: featurelib show {quote(path)}{ways}")
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
    """Return the effects of a plan for its approver; `command` does that; `name` is the
    inventory's; `refusal`: why it can never be applied: it is not ours."""
    page, plan = Page(width), file.plan
    _facts(plan, file.digest, name, page)
    _warnings(list(contradictions(file, name, catalogue)), page)
    page.line()
    steps = look_ahead(plan, catalogue, address)
    for number, step in enumerate(steps, start=1):
        together = ", all or nothing" if len(step.changes) > 1 else ""
        page.line(f"Step {number} of {len(steps)}{together}, timeout {step.timeout_ms / 1000:g} s")
        for change in step.changes:
            _change(change, catalogue, page)
        _after(step, plan, catalogue, page)
        page.line()
    page.line("`featurelib apply` sends it only if it finds this again:")
    for what in _requirements(plan, catalogue):
        page.text(what, 2, 6)
    _warnings(_other_catalogue(plan, catalogue), page)
    _beside(file.for_people, page)
    page.line()
    if refusal is None:
        key = " --key FILE" if plan.guards and plan.guards.require_signature else ""
        page.line(f"Next: {command}{key}")
        return page
    page.line("`featurelib approve` and `featurelib apply` refuse this plan:")
    for line in refusal.splitlines():
        page.line(f"  {clean(line, 2000)}")
    return page


def approval_page(
    file: PlanFile, approval: Approval, entry: FleetEntry, catalogue: Catalogue
) -> Page:
    """Return the question to an approver: the plan's effects, what cannot be taken back, by whom
    and until when it is approved; `entry` is the inventory's."""
    page, plan, name = Page(), file.plan, entry.name
    _facts(plan, file.digest, name, page)
    page.line()
    show_steps(plan, catalogue, page, entry.address)
    page.line()
    reason = f" ({approval.reason})" if approval.reason else ""
    lasts = say_span(approval.expires_at - approval.approved_at)
    until = f"{time_text(approval.expires_at)}, {lasts} from now"
    page.facts([("by", f"{approval.approved_by}{reason}"), ("until", until)])
    odd = [*_other_catalogue(plan, catalogue), *contradictions(file, name, catalogue)]
    _warnings(odd, page)
    return page


def show_steps(plan: Plan, catalogue: Catalogue, page: Page, address: str = "") -> None:
    """Each step's updates, and what cannot be taken back."""
    for number, step in enumerate(look_ahead(plan, catalogue, address), start=1):
        page.line(f"Step {number} of {len(plan.steps)}")
        for change in step.changes:
            show_change(change, catalogue, page)


def named_cluster(cluster: str, name: str) -> str:
    """A cluster's id, and what people call it."""
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
    """By what the plan was judged."""
    own = "; ".join(load(name).title for name in plan.own_dialects if name in GENERATIONS)
    also = f", and as these controllers answer: {own}" if own else ""
    return f"strict policy{also}; catalogue of {clean(plan.catalogue)}"


def _guards_text(guards: Guards) -> str:
    """Return the demands of a plan's guards."""
    signed = f"a signature is {'required' if guards.require_signature else 'not required'}"
    if not guards.managed_by:
        return f"{signed}; nobody else finalizes features there"
    names = guards.managed_features
    what = "everything" if names is None else ", ".join(map(clean, names))
    return f"{signed}; {clean(guards.managed_by)} finalizes {what}"


def _warnings(warnings: Sequence[str], page: Page) -> None:
    if warnings:
        page.line()
    for warning in warnings:
        page.item(f"warning: {clean(warning, 1000)}")


def show_left(left: Sequence[LeftOver], page: Page) -> None:
    """Show the moves left out; a command stands on a line of its own, so that it can be copied."""
    for one in left:
        page.line()
        page.text(clean(one.text, 1000))
        if one.command:
            page.line(f"  {clean(one.command, 1000)}")


def _other_catalogue(plan: Plan, catalogue: Catalogue) -> list[str]:
    if plan.catalogue == catalogue.label:
        return []
    return [
        f"the plan was made with the catalogue of {plan.catalogue}, and this is the one of "
        f"{catalogue.label}. With its overlay, if it had one: --overlay FILE"
    ]


def _change(change: ChangeOutlook, catalogue: Catalogue, page: Page) -> None:
    """An update, what each level brings or may lose, what it unlocks, and the way back."""
    page.text(update_text(change.update, catalogue), 2, 6)
    rows = []
    for word, notes in (("brings", change.brings), ("may lose", change.loses)):
        for note in notes:
            level = level_text(catalogue, METADATA_VERSION, note.level)
            rows.append((word, f"{level}: {note.purpose}" if note.purpose else level))
            word = ""
    rows += [("unlocks", ", ".join(f"{other} {level}" for other, level in change.unlocks))]
    page.facts(rows, 4)
    show_danger(change, catalogue, page)


def _after(step: StepOutlook, plan: Plan, catalogue: Catalogue, page: Page) -> None:
    """Show the state once a step is applied."""
    name = METADATA_VERSION
    if step.floor != NONE:
        now, floor = (level_text(catalogue, name, at) for at in (step.levels[name], step.floor))
        how = "cannot" if floor == now else "can"
        to = "" if floor == now else f" to {floor}"
        page.text(f"At {now}, {name} {how} be lowered without loss{to}.", 2, 6)
    if plan.requirements.features_node_version is not None:
        return
    joins = releases_text(catalogue, step.joins)
    page.text(f"Nodes that may join then: Kafka {joins} (production software).", 2, 6)
    never = step.never_again(catalogue)
    if lowered := tuple(name for name in step.joins_no_more if name not in never):
        gone = releases_text(catalogue, lowered)
        text = f"No longer: Kafka {gone}. Lower the level before a node is rolled back to these."
        page.text(text, 2, 6)
    if never:
        page.text(f"Never again: Kafka {releases_text(catalogue, never)}.", 2, 6)
    if step.joins_newly:
        page.text(f"Newly: Kafka {releases_text(catalogue, step.joins_newly)}.", 2, 6)
        page.text(SNAPSHOT_FIRST, 2, 6)


def _requirements(plan: Plan, catalogue: Catalogue) -> Iterator[str]:
    """Yield the requirements before anything is sent, in short."""
    required = plan.requirements
    levels = levels_text(catalogue, required.levels.items())
    yield f"finalized: {levels or 'nothing'}, and nothing else"
    for group in required.nodes:
        ranges = [
            f"{clean(name)} {low}-{high}" if high else f"no {clean(name)}"
            for name, (low, high) in sorted(group.ranges.items())
        ]
        who = brokers_and_controllers(group.brokers, group.controllers, most=None)
        yield f"{who}: {', '.join(ranges)}"
    if required.features_node_version is not None:
        yield f"features node: version {required.features_node_version}"
    yield "no other node"


def _reasons(reasons: Sequence[Reason], catalogue: Catalogue, page: Page) -> None:
    """Every reason, by feature and level: who says so, by which rule, and what helps."""
    given: set[str] = set()
    for feature in dict.fromkeys(reason.feature for reason in reasons):
        mine = [reason for reason in reasons if reason.feature == feature]
        asked = [reason for reason in mine if reason.code not in tagged("no_level") and feature]
        levels = {reason.level for reason in asked if reason.level is not None}
        title = clean(feature) if feature else "the whole cluster"
        named = [level_text(catalogue, feature, level) for level in sorted(levels)]
        page.line(f"  {title} {' and '.join(named)}".rstrip())
        for reason in mine:
            _reason(reason, given, page)


def _reason(reason: Reason, given: set[str], page: Page) -> None:
    if reason.judge in GENERATIONS:
        page.item(answer_text(reason.judge, reason.message, is_answer=reason.is_answer), 4)
        return
    missing = "missing evidence, " if reason.judge == EVIDENCE else ""
    page.item(f"{missing}{reason.code}: {clean(reason.message, 1000)}", 4)
    if reason.remedy and reason.remedy not in given:
        given.add(reason.remedy)
        page.item(f"→ {clean(reason.remedy, 600)}", 6)
    if reason.command and reason.command not in given:
        given.add(reason.command)
        page.line(f"        {clean(reason.command, 400)}")


def _beside(people: ForPeople, page: Page) -> None:
    """Show the part of a plan's file that its digest does not cover, below a line that says so."""
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
    """Yield texts of the file that `featurelib plan` cannot have written of this plan. `name` is
    the inventory's. Level names are held against the same catalogue only."""
    people = file.for_people
    if name and people.name and people.name != name:
        yield (
            f"THE FILE CALLS THIS CLUSTER {people.name}, the inventory calls it {name}: its text "
            "was changed, or the cluster got another name. Go by the id."
        )
    if not people.level_names or file.plan.catalogue != catalogue.label:
        return
    if people.level_names != level_names(file.plan, catalogue):
        yield (
            "THE TEXT OF THIS FILE WAS CHANGED after the plan was made: its level_names are not "
            "those of its levels. What is shown here is worked out anew. Make the plan again."
        )


# --- Waves of a fleet -----------------------------------------------------------------------------

_GATES = (
    "a step begins when all clusters of the steps before are at their levels, none of them has a "
    "critical finding, and the step before has soaked"
)
_WHY = {
    "UNKNOWN": "UNKNOWN: evidence is missing",
    "BLOCKED": "BLOCKED: something is in the way",
    "critical": "a critical finding has to be fixed first",
    "software": "the software does not know the target",
    "part": "READY for a part of the way only",
    "order": "changes that depend on each other and cannot be told apart",
    "operator": "Strimzi would not carry it out, or would set it back",
}


def waves_page(
    plan: WavePlan,
    catalogue: Catalogue,
    limit: int,
    path: str | None,
    ways: str = "",
    width: int | None = None,
) -> Page:
    """A plan of waves, for the people who review it; `limit`: clusters of each step and reason, 0 =
    all; `path`: where it was written, None = nowhere; `ways`: options that commands need."""
    page, steps = Page(width), plan.steps
    in_rings = sum(len(ring.clusters) for ring in plan.rings)
    least = sum((step.span for step in steps[:-1]), timedelta())
    rows = [
        ("target", _target_text(plan, catalogue)),
        ("from", f"tables in {plan.tables}, run {plan.run}, judged as of {plan.as_of}"),
        ("clusters", clean(plan.part, 300) if plan.part else ""),
        ("in rings", f"{count(in_rings, 'cluster')} in {count(len(plan.rings), 'ring')}"),
        ("steps", f"{len(steps)}, at least {say_span(least)} in all" if len(steps) > 1 else ""),
        ("at once", f"at most {count(plan.max_parallel, 'cluster')}"),
        ("gates", _GATES if len(steps) > 1 else ""),
        ("held", count(len(plan.held), "cluster")),
        ("reached", count(len(plan.reached), "cluster")),
    ]
    page.facts(rows)
    _warnings(plan.notes, page)
    number = 0
    for place, ring in enumerate(plan.rings, start=1):
        page.line()
        size = count(len(ring.clusters), "cluster")
        title = f"Ring {place} of {len(plan.rings)}, {clean(ring.name)}: {size}"
        page.item(f"{title}, {clean(ring.about, 300)}")
        for step in ring.steps:
            number += 1
            _wave_step(step, number, catalogue, limit, page)
    for why in dict.fromkeys(one.why for one in plan.held):
        _wave_held([one for one in plan.held if one.why == why], limit, page)
    if plan.reached:
        page.line()
        _names("At the target", [one.name for one in plan.reached], limit, page)
    page.head("Nothing was sent. Each cluster is planned, approved and applied by itself.")
    if path is None:
        page.line("To keep it for a review: the same command with --out FILE")
    else:
        page.line(f"The waves are in {path}. After each night:")
        page.line(f"  featurelib waves status {quote(path)}{ways}")
    return page


def _names(what: str, names: Sequence[str], limit: int, page: Page) -> None:
    """Add 'WHAT, N clusters: names', or nothing if there are none."""
    if names:
        page.item(f"{what}, {count(len(names), 'cluster')}: {some(names, limit or len(names))}")


def _more(left: int, page: Page, indent: int) -> None:
    if left > 0:
        page.line(f"{' ' * indent}and {count(left, 'cluster')} more: --limit 0 shows all")


def _target_text(plan: WavePlan, catalogue: Catalogue) -> str:
    if plan.level is None:
        return f"{clean(plan.target)}: every feature as far as it is READY"
    level = level_text(catalogue, METADATA_VERSION, plan.level)
    return f"{clean(plan.target)}: {METADATA_VERSION} {level}, and what belongs to it"


def _wave_step(step: WaveStep, number: int, catalogue: Catalogue, limit: int, page: Page) -> None:
    """A step: its gate, and who does what in which batch."""
    kind = "each has a way back" if step.way_back else "NO WAY BACK"
    why = f", since {clean(step.soak_why, 400)}" if step.soak_why else ""
    page.item(f"Step {number}, {kind}; soaks {say_span(step.span)}{why}", 2)
    shown, left = limit or len(step.works), len(step.works)
    for place, batch in enumerate(step.batches, start=1):
        if shown > 0 and len(step.batches) > 1:
            page.line(f"    Batch {place} of {len(step.batches)}")
        for work in batch[: max(shown, 0)]:
            _wave_work(work, catalogue, page)
        shown, left = shown - len(batch), left - min(len(batch), max(shown, 0))
    _more(left, page, 4)


def _wave_work(work: WaveWork, catalogue: Catalogue, page: Page) -> None:
    """A cluster, what moves, and the commands."""
    page.item(_wave_who(work.name, work.owner, work.contact), 4)
    if work.note:
        page.item(clean(work.note, 2000), 6)
    for one in work.does:
        for move in one.moves:
            low = level_text(catalogue, move.feature, move.from_level)
            high = level_text(catalogue, move.feature, move.to_level)
            page.item(f"{clean(move.feature)} {low} → {high}{_wave_return(move, catalogue)}", 6)
        if one.by:
            page.item(
                f"{clean(one.by)} finalizes that. {clean(one.whom, 400) if one.whom else ''}", 6
            )
        if one.command:
            page.line(f"        {clean(one.command, 1000)}")


def _wave_who(name: str, owner: str | None, contact: str | None) -> str:
    whose = ", ".join(clean(text) for text in (owner, contact) if text)
    return clean(name) + (f" ({whose})" if whose else "")


def _wave_return(move: WaveMove, catalogue: Catalogue) -> str:
    """From where on it cannot go back; empty where it can."""
    if move.way_back:
        return ""
    if move.no_return is None:
        return "; nobody can tell whether it goes back"
    return f"; no way back from {level_text(catalogue, move.feature, move.no_return)} on"


def _wave_held(held: Sequence[WaveHeld], limit: int, page: Page) -> None:
    """Clusters that are in no ring for one reason, and what unlocks each; of those that are held
    alike the command is the first one's."""
    page.line()
    page.item(f"Held, {_WHY[held[0].why]}: {count(len(held), 'cluster')}")
    alike: dict[object, list[WaveHeld]] = {}
    for one in held:
        alike.setdefault((one.more, *((w.message, w.remedy) for w in one.unlocks)), []).append(one)
    groups = list(alike.values())
    for some_held in groups[: limit or None]:
        names = [_wave_who(one.name, one.owner, one.contact) for one in some_held]
        page.item(some(names, limit or len(names)), 2)
        _wave_unlocks(some_held[0], page, 4)
    _more(sum(map(len, groups[limit:])) if limit else 0, page, 2)


def _wave_unlocks(one: WaveHeld, page: Page, indent: int) -> None:
    """Show the obstacles; a remedy of several stands below the last of them, with the command for
    each."""
    commands = dict[str, None]()
    for place, way in enumerate(one.unlocks):
        page.item(clean(way.message, 1000), indent)
        commands |= {way.command: None} if way.command else {}
        if one.unlocks[place + 1 : place + 2] and one.unlocks[place + 1].remedy == way.remedy:
            continue
        if way.remedy:
            page.item(f"→ {clean(way.remedy, 600)}", indent + 2)
        for command in commands:
            page.line(f"{' ' * (indent + 4)}{clean(command, 400)}")
        commands.clear()
    if one.more:
        page.line(f"{' ' * indent}and {one.more:,} more: featurelib report shows them")


def waves_status_page(
    found: WaveStatus, catalogue: Catalogue, limit: int, width: int | None
) -> Page:
    """Return the progress of the waves: a line for each step, then what may be done now, and what
    keeps the first closed gate closed; `limit`: clusters of each, 0 = all."""
    page = Page(width)
    page.text(
        f"waves to {clean(found.target)} by run {found.run}, as of {time_text(found.as_of)}; "
        f"{count(found.nights, 'night')} since the plan"
    )
    page.line()
    rows = [("step", "ring", "way back", "at level", "state")]
    for step in found.steps:
        there, way = f"{step.at_level:,} of {step.clusters:,}", "yes" if step.way_back else "NO"
        rows.append((str(step.number), clean(step.ring), way, there, _wave_state(step)))
    if found.steps:
        page.table(rows)
    for step in found.steps:
        if step.next:
            page.head(f"Step {step.number} is open. Now, in each of these:")
            for one in step.next[: limit or None]:
                _wave_work(one.work, catalogue, page)
                if one.held is not None:
                    page.item(f"NOT NOW, {_WHY[one.held.why]}", 6)
                    _wave_unlocks(one.held, page, 8)
            _more(len(step.next) - limit if limit else 0, page, 4)
        if step.ahead:
            page.line()
            names = some(step.ahead, limit or len(step.ahead))
            page.item(
                f"warning: at the level of step {step.number} before its gate opened: {names}"
            )
    _wave_gate(found, limit, page)
    page.line()
    _names("In no place of the plan", found.strangers, limit, page)
    _names("Held by the plan, and READY now", found.unlocked, limit, page)
    if found.strangers or found.unlocked:
        page.line("Made again, the plan takes them in: featurelib waves plan TARGET --out FILE")
    if found.gate is WaveGate.DONE:
        page.line("Every step is done.")
    return page


def _wave_state(step: StepStatus) -> str:
    """`soaking until …`, `done, healthy since …`, `open`."""
    if step.state is StepState.SOAKING:
        return f"soaking until {time_text(step.until)}"
    if step.state is StepState.DONE:
        return f"done, healthy since {time_text(step.since)}"
    return str(step.state)


def _wave_gate(found: WaveStatus, limit: int, page: Page) -> None:
    """Show what keeps the first closed gate closed."""
    closed = next((one for one in found.steps if one.state is StepState.CLOSED), None)
    if closed is None:
        return
    page.head(f"The gate of step {closed.number} is closed:")
    if closed.waits_until is not None:
        page.item(f"the step before soaks until {time_text(closed.waits_until)}", 2)
    for wait in closed.waits[: limit or None]:
        page.item(f"{clean(wait.name)}: {wait.state}", 2)
    _more(len(closed.waits) - limit if limit else 0, page, 2)
