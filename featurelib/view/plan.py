"""A plan, and why there is none, as lines for a person: levels with names, everything in words.

Texts from outside are made safe to show; nothing here reads the part of a file that is for people,
but to say what it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from featurelib.audit.side_effects import effects_of, first_command, say_effect
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import GENERATIONS, load
from featurelib.core.downgrade import UpdateLoss, loss_of
from featurelib.feature import UpgradeType
from featurelib.model import Guards, Move, NodeGroup, Plan, Reason
from featurelib.planning.files import Approval, ForPeople, PlanFile, say_span, say_time
from featurelib.planning.night import level_names
from featurelib.planning.outlook import NONE, Change, StepOutlook, look_ahead
from featurelib.planning.planner import Planned
from featurelib.planning.reasons import EVIDENCE
from featurelib.source import open_fleet
from featurelib.view.layout import columns, terminal_width, wrap
from featurelib.view.words import answer_text
from featurelib.words import clean, count

WIDEST = 96
_KINDS = {
    UpgradeType.UPGRADE.name: "upgrade",
    UpgradeType.SAFE_DOWNGRADE.name: "SAFE DOWNGRADE",
    UpgradeType.UNSAFE_DOWNGRADE.name: "UNSAFE DOWNGRADE, METADATA MAY BE LOST",
}


def level_text(catalogue: Catalogue, feature: str, level: int) -> str:
    """`25 (4.0-IV3)`, `1`, `0 (not finalized)`."""
    name = catalogue.level_name(feature, level)
    if level == 0:
        return "0 (not finalized)"
    return str(level) if name == str(level) else f"{level} ({name})"


def plan_lines(meaning: Plan, catalogue: Catalogue) -> Iterator[str]:
    """Every request: what it changes, brings and costs, and what is true after it."""
    steps = look_ahead(meaning, catalogue)
    for number, step in enumerate(steps, start=1):
        together = ", all or nothing" if len(step.changes) > 1 else ""
        seconds = f"{step.timeout_ms / 1000:g} s"
        yield f"Request {number} of {len(steps)}{together}, timeout {seconds}"
        for change in step.changes:
            yield from _change_lines(change, catalogue)
        yield from _after_lines(step, meaning, catalogue)
        yield ""


def update_text(update: Move, catalogue: Catalogue) -> str:
    """`metadata.version 21 (3.9-IV0) → 25 (4.0-IV3): upgrade`."""
    low = level_text(catalogue, update.feature, update.from_level)
    high = level_text(catalogue, update.feature, update.to_level)
    kind = _KINDS[update.upgrade_type]
    if update.to_level == 0:
        kind = f"DELETION ({kind.lower()})"
    elif update.to_level in catalogue.irreversible(update.feature):
        kind += ", IRREVERSIBLE"
    return f"{clean(update.feature)} {low} → {high}: {kind}"


def _change_lines(change: Change, catalogue: Catalogue) -> Iterator[str]:
    yield from _wrapped(f"  {update_text(change.update, catalogue)}", 6)
    for word, notes in (("brings", change.brings), ("may lose", change.loses)):
        labels = [word] + [""] * len(notes)
        rows = [
            (label, str(note.level), note.name, note.purpose)
            for label, note in zip(labels, notes, strict=False)
        ]
        lines = columns([("unlocks ", "0", "", ""), *rows])[1:]
        yield from (line for each in lines for line in _hanging(f"    {each}", 14))
    if change.unlocks:
        levels = ", ".join(f"{other} {level}" for other, level in change.unlocks)
        yield from _wrapped(f"    {'unlocks':<8}  {levels}", 14)
    yield from return_lines(change, catalogue)


def return_lines(change: Change, catalogue: Catalogue) -> Iterator[str]:
    """From where on there is no way back, if there is such a place, and what else is changed."""
    for effect in change.side_effects:
        yield from _wrapped(f"    ALSO CHANGES {clean(say_effect(effect), 1000)}", 6)
        if command := first_command(effect):
            yield from _wrapped("    To keep the values, first:", 6)
            yield f"      {clean(command, 400)}"
    name = change.update.feature
    before = level_text(catalogue, name, change.update.from_level)
    if change.irreversible:
        text = f"POINT OF NO RETURN HERE: nothing takes {clean(name)} back to {before}."
        yield from _wrapped(f"    {text}", 6)
    elif change.no_return != NONE:
        there = level_text(catalogue, name, change.no_return)
        text = (
            f"POINT OF NO RETURN HERE: from {there} on, {before} cannot be had again without loss."
        )
        yield from _wrapped(f"    {text}", 6)


def _after_lines(step: StepOutlook, meaning: Plan, catalogue: Catalogue) -> Iterator[str]:
    name = "metadata.version"
    if step.floor != NONE:
        floor = level_text(catalogue, name, step.floor)
        here = step.floor == step.levels[name]
        text = (
            f"{name} cannot be lowered" if here else f"{name} can be lowered to {floor}, no further"
        )
        yield from _wrapped(f"  After it, without loss: {text}.", 6)
    if meaning.requirements.features_node_version is not None:
        return
    joins = say_releases(step.joins, catalogue) or "no release"
    yield from _wrapped(f"  Nodes that may join then: Kafka {joins} (production software).", 6)
    if step.joins_no_more:
        gone = say_releases(step.joins_no_more, catalogue)
        text = f"NO MORE: Kafka {gone}; no node can be rolled back to it without lowering first."
        yield from _wrapped(f"  {text}", 6)
    if step.joins_newly:
        yield from _wrapped(f"  Newly: Kafka {say_releases(step.joins_newly, catalogue)}.", 6)


def say_releases(names: Sequence[str], catalogue: Catalogue) -> str:
    """`3.3 to 3.6, 4.1`: runs of releases in the catalogue's order."""
    order = [release.name for release in catalogue.releases]
    runs: list[list[str]] = []
    for name in names:
        last = runs[-1][-1] if runs else None
        if last is not None and order.index(name) == order.index(last) + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def judged_text(meaning: Plan) -> str:
    """By what the plan was judged."""
    own = [load(name).title for name in meaning.own_dialects if name in GENERATIONS]
    also = f", and as these controllers answer: {'; '.join(own)}" if own else ""
    return f"strict policy{also}; catalogue of {clean(meaning.catalogue)}"


def guards_text(guards: Guards) -> str:
    """What a plan's guards ask for."""
    signed = f"a signature is {'required' if guards.require_signature else 'not required'}"
    if not guards.managed_by:
        return f"{signed}; nobody else finalizes there"
    names = guards.managed_features
    what = "everything" if names is None else ", ".join(map(clean, names))
    return f"{signed}; {clean(guards.managed_by)} finalizes {what}"


def requirement_lines(meaning: Plan, catalogue: Catalogue) -> Iterator[str]:
    """What has to be found again before anything is sent, in short."""
    required = meaning.requirements
    levels = ", ".join(
        f"{clean(n)} {level_text(catalogue, n, v)}" for n, v in sorted(required.levels.items())
    )
    rows = [("finalized", f"{levels or 'nothing'}, and nothing else")]
    rows += [(_who(group), _ranges(group)) for group in required.nodes]
    if required.features_node_version is not None:
        rows.append(("features node", f"version {required.features_node_version}"))
    rows.append(("other nodes", "none"))
    for who, what in rows:
        yield from _wrapped(f"  {who}: {what}", 6)


def _who(group: NodeGroup) -> str:
    texts = []
    for noun, ids in (("broker", group.brokers), ("controller", group.controllers)):
        if ids:
            texts.append(f"{noun}{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids))}")
    return " and ".join(texts)


def _ranges(group: NodeGroup) -> str:
    texts = [
        f"{clean(name)} {low}-{high}" if high else f"no {clean(name)}"
        for name, (low, high) in sorted(group.ranges.items())
    ]
    return ", ".join(texts)


def reason_lines(reasons: Sequence[Reason], catalogue: Catalogue) -> Iterator[str]:
    """Every reason, by feature and level: who says so, by which rule, and what helps."""
    told: set[str] = set()
    for feature in dict.fromkeys(reason.feature for reason in reasons):
        mine = [reason for reason in reasons if reason.feature == feature]
        levels = {r.level for r in mine if r.level is not None} if feature else set()
        title = clean(feature) if feature else "the whole cluster"
        named = [level_text(catalogue, feature, level) for level in sorted(levels)]
        yield f"  {title} {' and '.join(named)}".rstrip()
        for reason in mine:
            yield from _reason_lines(reason, told)


def _reason_lines(reason: Reason, told: set[str]) -> Iterator[str]:
    message = clean(reason.message, 1000)
    if reason.judge in GENERATIONS:
        text = answer_text(reason.judge, reason.message, is_answer=reason.is_answer)
        yield from _wrapped(f"    {text}", 6)
        return
    missing = "missing evidence, " if reason.judge == EVIDENCE else ""
    yield from _wrapped(f"    {missing}{reason.code}: {message}", 6)
    if reason.remedy and reason.remedy not in told:
        told.add(reason.remedy)
        yield from _wrapped(f"      → {clean(reason.remedy, 400)}", 8)
        if reason.command:
            yield f"        {clean(reason.command, 400)}"


def stay_lines(planned: Planned) -> Iterator[str]:
    """What was not moved, and why."""
    if planned.goal.stays:
        yield f"Not moved: {count(len(planned.goal.stays), 'feature')}"
        for stay in planned.goal.stays:
            yield from _wrapped(f"  {clean(stay.text, 400)}", 4)


def warning_lines(warnings: Sequence[str]) -> Iterator[str]:
    for warning in warnings:
        yield from _wrapped(f"warning: {clean(warning, 1000)}", 2)


def _wrapped(text: str, indent: int) -> list[str]:
    start = len(text) - len(text.lstrip())
    return wrap(text.lstrip(), plan_width(), " " * start, " " * indent)


def _hanging(line: str, indent: int) -> list[str]:
    """A line of columns as it is, if it fits."""
    return [line] if len(line) <= plan_width() else _wrapped(line, indent)


def plan_width() -> int:
    """Columns that the text of a plan is written in."""
    return min(WIDEST, terminal_width())


def fact_lines(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Names and values below each other; an empty value leaves its name out. A value with a word
    that has no room there stands below its name."""
    indent, width = max(len(name) for name, _ in rows) + 2, plan_width()
    lines = list[str]()
    for name, value in rows:
        if value and max(map(len, value.split())) <= width - indent:
            lines += wrap(value, width, f"{name:<{indent}}")
        elif value:
            lines += [name, *wrap(value, width, "  ")]
    return lines


# ----------------------------------------
# What an approver sees of a plan: its steps, what goes down, and what cannot be taken back.
#
# Only the part of a plan that its digest covers is read, and texts from it are made safe to show.


def describe(
    meaning: Plan, digest: str, approval: Approval, catalogue: Catalogue, name: str = ""
) -> Iterator[str]:
    """What is approved, by whom and until when, as lines; `name` is the inventory's."""
    yield f"plan: {digest}"
    named = f" ({clean(name)})" if name else ""
    yield from wrap(f"cluster: {clean(meaning.cluster)}{named}", terminal_width(), below="  ")
    yield from wrap(f"does: {clean(meaning.intent)}", terminal_width(), below="  ")
    if meaning.guards is not None:
        yield from wrap(f"guards: {guards_text(meaning.guards)}", terminal_width(), below="  ")
    for i, step in enumerate(meaning.steps, start=1):
        yield f"step {i} of {len(meaning.steps)}:"
        for update in step.updates:
            text = _say_update(update, loss_of(update, meaning, catalogue), catalogue)
            yield from wrap(text, terminal_width(), "  ", "    ")
    for effect in effects_of(meaning, catalogue):
        text = f"{effect.feature} {effect.level} ALSO CHANGES {say_effect(effect)}"
        yield from wrap(clean(text, 1000), terminal_width(), "! ", "  ")
        if command := first_command(effect):
            yield "  To keep the values, first:"
            yield f"  {clean(command, 400)}"
    if meaning.catalogue != catalogue.label:
        note = (
            f"note: the plan was made with the catalogue of {clean(meaning.catalogue)}, and this "
            f"is the one of {catalogue.label}. With its overlay, if it had one: --overlay FILE"
        )
        yield from wrap(note, terminal_width())
    reason = f" ({approval.reason})" if approval.reason else ""
    yield from wrap(f"by: {approval.approved_by}{reason}", terminal_width())
    lasts = say_span(approval.expires_at - approval.approved_at)
    yield f"until: {say_time(approval.expires_at)}, {lasts} from now"


def _say_update(update: Move, loss: UpdateLoss, catalogue: Catalogue) -> str:
    """`metadata.version 20 (4.0-IV0) → 25 (4.0-IV3)`, then what cannot be taken back."""

    def level(number: int) -> str:
        name = catalogue.level_name(update.feature, number)
        return str(number) if name == str(number) else f"{number} ({name})"

    up = update.upgrade_type == UpgradeType.UPGRADE.name
    kind = "UPGRADE" if up else "DELETION" if loss.deletes else update.upgrade_type
    notes = kind.lower() if up else kind.replace("_", " ")
    if loss.may_lose_metadata:
        notes += "; METADATA MAY BE LOST"
    if loss.no_return is not None:
        back = level(update.from_level)
        notes += f"; NO WAY BACK to {back} from {level(loss.no_return)} on"
    return f"{clean(update.feature)} {level(update.from_level)} → {level(update.to_level)}: {notes}"


def updates_of(meaning: Plan, catalogue: Catalogue) -> list[dict[str, object]]:
    """The same as objects for JSON, one for each update."""
    return [
        {"step": i, **asdict(update), **asdict(loss_of(update, meaning, catalogue))}
        for i, step in enumerate(meaning.steps, start=1)
        for update in step.updates
    ]


# ----------------------------------------
# What a plan's file says beside its meaning.
#
# Whoever can write the file can change it, and the digest stays the same: so it stands apart, no
# fact
# is taken from it, and where it contradicts what is known it is said so.

HEAD = "Also in the file, not covered by the digest, and nothing above is taken from it:"


def known_name(cluster: str, fleet: str | None, catalogue: Catalogue) -> str:
    """What the inventory calls the cluster; empty where it does not list it. Raises ConfigError."""
    _, inventory = open_fleet(fleet, catalogue)
    return next((entry.name for entry in inventory.cluster if entry.id == cluster), "")


def beside_lines(people: ForPeople) -> Iterator[str]:
    """All of it that a person may want to read, below a line that says what it is."""
    made = [clean(people.written_at)] if people.written_at else []
    made += [f"from {clean(people.made_from, 300)}"] if people.made_from else []
    made += [f"last seen {clean(people.seen_at)}"] if people.seen_at else []
    said = [f"name: {clean(people.name)}"] if people.name else []
    said += [f"made: {', '.join(made)}"] if made else []
    said += [f"warning: {clean(text, 1000)}" for text in people.warnings]
    said += [f"left out: {clean(text, 400)}" for text in people.left_out]
    if said:
        yield from wrap(HEAD, plan_width())
        for text in said:
            yield from wrap(text, plan_width(), "  ", "    ")


def contradictions(file: PlanFile, name: str, catalogue: Catalogue) -> Iterator[str]:
    """Where the file's own text cannot be what `featurelib plan` wrote of this meaning. `name` is
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
