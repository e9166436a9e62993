"""Show waves, and their progress, as pages of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from shlex import quote

from msgspec import UNSET, UnsetType

from featurelib.api.clusters import Answer
from featurelib.api.tables import NightTables, Row
from featurelib.catalogue import Catalogue
from featurelib.config.files import read_file, write_whole
from featurelib.errors import ConfigError, NoEvidenceError, RefusedError
from featurelib.extras.waves.gates import StepState, StepStatus, WaveGate, WaveStatus, nights_since
from featurelib.extras.waves.gates import waves_status as find_status
from featurelib.extras.waves.rings import (
    FORMAT,
    WaveHeld,
    WaveMove,
    WavePlan,
    WaveStep,
    WaveWork,
    Waving,
    read_waves,
)
from featurelib.extras.waves.standings import Aim, find_standings, plan_waves
from featurelib.feature import METADATA_VERSION
from featurelib.planning.files import expect_span, say_span
from featurelib.view.documents import Document, fill
from featurelib.view.layout import Page
from featurelib.view.plan import show_warnings
from featurelib.words import clean, count, level_text, some, time_text

MOST = 20  # clusters in the text; the document has all
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
    """Return a wave plan as a page. `limit`: clusters per step, 0 = all; `path`: the plan's file,
    None = not written; `ways`: options for commands."""
    page, steps = Page(width), plan.steps
    in_rings = sum(len(ring.clusters) for ring in plan.rings)
    least = sum((step.span for step in steps[:-1]), timedelta())
    levels = "every feature as far as it is READY"
    if plan.level is not None:
        level = level_text(catalogue, METADATA_VERSION, plan.level)
        levels = f"{METADATA_VERSION} {level}, and what belongs to it"
    rows = [
        ("target", f"{clean(plan.target)}: {levels}"),
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
    show_warnings(plan.notes, page)
    number = 0
    for index, ring in enumerate(plan.rings, start=1):
        page.line()
        size = count(len(ring.clusters), "cluster")
        title = f"Ring {index} of {len(plan.rings)}, {clean(ring.name)}: {size}"
        page.item(f"{title}, {clean(ring.about, 300)}")
        for step in ring.steps:
            number += 1
            _wave_step(step, number, catalogue, limit, page)
    for reason in dict.fromkeys(c.why for c in plan.held):
        _wave_held([c for c in plan.held if c.why == reason], limit, page)
    if plan.reached:
        page.line()
        _names("At the target", [c.name for c in plan.reached], limit, page)
    page.head("Nothing was sent. Each cluster is planned, approved and applied by itself.")
    if path is None:
        page.line("To keep it for a review: the same command with --out FILE")
    else:
        page.line(f"The waves are in {path}. After each run:")
        page.line(f"  featurelib waves status {quote(path)}{ways}")
    return page


def _names(label: str, names: Sequence[str], limit: int, page: Page) -> None:
    """Add 'LABEL, N clusters: names' to the page; nothing if `names` is empty."""
    if names:
        page.item(f"{label}, {count(len(names), 'cluster')}: {some(names, limit or len(names))}")


def _more(hidden: int, page: Page, indent: int) -> None:
    if hidden > 0:
        page.line(f"{' ' * indent}and {count(hidden, 'cluster')} more: --limit 0 shows all")


def _wave_step(step: WaveStep, number: int, catalogue: Catalogue, limit: int, page: Page) -> None:
    """Add a step to the page: its gate, and the clusters of each batch."""
    kind = "each can be downgraded" if step.way_back else "NO DOWNGRADE"
    since = f", since {clean(step.soak_why, 400)}" if step.soak_why else ""
    page.item(f"Step {number}, {kind}; soaks {say_span(step.span)}{since}", 2)
    most, hidden = limit or len(step.works), len(step.works)
    for index, batch in enumerate(step.batches, start=1):
        if most > 0 and len(step.batches) > 1:
            page.line(f"    Batch {index} of {len(step.batches)}")
        for work in batch[: max(most, 0)]:
            _wave_work(work, catalogue, page)
        most, hidden = most - len(batch), hidden - min(len(batch), max(most, 0))
    _more(hidden, page, 4)


def _wave_work(work: WaveWork, catalogue: Catalogue, page: Page) -> None:
    """Add a cluster with its changes and commands to the page."""
    page.item(_wave_who(work.name, work.owner, work.contact), 4)
    if work.note:
        page.item(clean(work.note, 2000), 6)
    for task in work.does:
        for move in task.moves:
            low = level_text(catalogue, move.feature, move.from_level)
            high = level_text(catalogue, move.feature, move.to_level)
            page.item(f"{clean(move.feature)} {low} → {high}{_wave_return(move, catalogue)}", 6)
        if task.by:
            page.item(
                f"{clean(task.by)} finalizes that. {clean(task.whom, 400) if task.whom else ''}", 6
            )
        if task.command:
            page.line(f"        {clean(task.command, 1000)}")


def _wave_who(name: str, owner: str | None, contact: str | None) -> str:
    contacts = ", ".join(clean(text) for text in (owner, contact) if text)
    return clean(name) + (f" ({contacts})" if contacts else "")


def _wave_return(move: WaveMove, catalogue: Catalogue) -> str:
    """Return a text about the first level that cannot be downgraded; "" if all can."""
    if move.way_back:
        return ""
    if move.no_return is None:
        return "; it is unknown whether it can be downgraded"
    return f"; no downgrade from {level_text(catalogue, move.feature, move.no_return)} on"


def _wave_held(blocked: Sequence[WaveHeld], limit: int, page: Page) -> None:
    """Add the clusters that one reason keeps out of all rings, with the fixes, to the page."""
    page.line()
    page.item(f"Held, {_WHY[blocked[0].why]}: {count(len(blocked), 'cluster')}")
    same: dict[object, list[WaveHeld]] = {}
    for cluster in blocked:
        same.setdefault(
            (cluster.more, *((unlock.statement, unlock.action) for unlock in cluster.unlocks)), []
        ).append(cluster)
    groups = list(same.values())
    for some_held in groups[: limit or None]:
        names = [_wave_who(c.name, c.owner, c.contact) for c in some_held]
        page.item(some(names, limit or len(names)), 2)
        _wave_unlocks(some_held[0], page, 4)
    _more(sum(map(len, groups[limit:])) if limit else 0, page, 2)


def _wave_unlocks(held: WaveHeld, page: Page, indent: int) -> None:
    """Add the obstacles with their fixes to the page. Obstacles with a common fix show it once."""
    commands = dict[str, None]()
    for index, advice in enumerate(held.unlocks):
        page.item(clean(advice.statement, 1000), indent)
        commands |= {advice.command: None} if advice.command else {}
        if held.unlocks[index + 1 : index + 2] and held.unlocks[index + 1].action == advice.action:
            continue
        if advice.action:
            page.item(f"→ {clean(advice.action, 600)}", indent + 2)
        for command in commands:
            page.line(f"{' ' * (indent + 4)}{clean(command, 400)}")
        commands.clear()
    if held.more:
        page.line(f"{' ' * indent}and {held.more:,} more: featurelib report shows them")


def waves_status_page(
    status: WaveStatus, catalogue: Catalogue, limit: int, width: int | None
) -> Page:
    """Return the progress of the waves as a page: the steps, the possible next changes, and the
    obstacles. `limit`: clusters of each, 0 = all."""
    page = Page(width)
    page.text(
        f"waves to {clean(status.target)} by run {status.run}, as of {time_text(status.as_of)}; "
        f"{count(status.nights, 'night')} since the plan"
    )
    page.line()
    rows = [("step", "ring", "downgrade", "at level", "state")]
    for step in status.steps:
        at_level, undo = f"{step.at_level:,} of {step.clusters:,}", "yes" if step.way_back else "NO"
        rows.append((str(step.number), clean(step.ring), undo, at_level, _wave_state(step)))
    if status.steps:
        page.table(rows)
    for step in status.steps:
        if step.next:
            page.head(f"Step {step.number} is open. Now, in each of these:")
            for task in step.next[: limit or None]:
                _wave_work(task.work, catalogue, page)
                if task.held is not None:
                    page.item(f"NOT NOW, {_WHY[task.held.why]}", 6)
                    _wave_unlocks(task.held, page, 8)
            _more(len(step.next) - limit if limit else 0, page, 4)
        if step.ahead:
            page.line()
            names = some(step.ahead, limit or len(step.ahead))
            page.item(
                f"warning: at the level of step {step.number} before its gate opened: {names}"
            )
    _wave_gate(status, limit, page)
    page.line()
    _names("In no place of the plan", status.strangers, limit, page)
    _names("Held by the plan, and READY now", status.unlocked, limit, page)
    if status.strangers or status.unlocked:
        page.line("Made again, the plan takes them in: featurelib waves plan TARGET --out FILE")
    if status.gate is WaveGate.DONE:
        page.line("Every step is done.")
    return page


def _wave_state(step: StepStatus) -> str:
    """Return the state of a step as text: `soaking until …`, `done, healthy since …` or `open`."""
    if step.state is StepState.SOAKING:
        return f"soaking until {time_text(step.until)}"
    if step.state is StepState.DONE:
        return f"done, healthy since {time_text(step.since)}"
    return str(step.state)


def _wave_gate(status: WaveStatus, limit: int, page: Page) -> None:
    """Add the reasons why the first closed gate is closed to the page."""
    closed = next((step for step in status.steps if step.state is StepState.CLOSED), None)
    if closed is None:
        return
    page.head(f"The gate of step {closed.number} is closed:")
    if closed.waits_until is not None:
        page.item(f"the step before soaks until {time_text(closed.waits_until)}", 2)
    for wait in closed.waits[: limit or None]:
        page.item(f"{clean(wait.name)}: {wait.state}", 2)
    _more(len(closed.waits) - limit if limit else 0, page, 2)


class WavesDocument(Document, kw_only=True):
    """featurelib waves; `plan` has `format` and `waves`, `status` has `status`"""

    format: str | UnsetType = UNSET
    waves: WavePlan | UnsetType = UNSET
    status: WaveStatus | UnsetType = UNSET


def waves(
    tables: NightTables,
    target: str,
    *,
    by: list[str] = [],  # noqa: B006  # typer reads the default and never changes it
    soak: str = "7d",
    max_parallel: int = 5,
    limit: int = MOST,
    out: str | None = None,
) -> Answer[WavePlan]:
    """Plan the order in which a fleet is upgraded, ring by ring.

    \b
        featurelib waves plan 4.1 --tables TABLES
        featurelib waves plan 4.1 --by environment=test,production --by region --out waves.json

    Canaries go first, one cluster of each kind of change; then the values of a label, or the
    clusters of least risk. A step's gate opens after the soak, when all clusters of the steps
    before are at their levels without a critical finding. What cannot be undone is never in one
    step with what has one. UNKNOWN and BLOCKED clusters stand apart, with what unlocks them.

    In Python: waves(open_tables(FOLDER), "4.1").value has rings, held and reached; a row is one
    cluster in one step. Exit codes: 0 answered; 2 usage; 5 there is no run.
    """
    expect_span("--soak", soak)
    if max_parallel < 1:
        raise ConfigError(f"--max-parallel {max_parallel}: The number must be 1 or more.")
    parts = [text.partition("=") for text in by]
    labels = {key: tuple(filter(None, values.split(","))) for key, _, values in parts}
    if len(labels) < len(parts):
        raise ConfigError(
            f"--by: A label is given twice: {', '.join(part[0] for part in parts)}. Remove one."
        )
    waving = Waving(by=labels, soak=soak, max_parallel=max_parallel)
    aim = Aim.of(target, tables.catalogue)
    plan = plan_waves(tables.asked(), tables.lake, tables.run, aim, waving)
    answer = Answer(
        value=plan,
        make_rows=lambda: _wave_rows(plan),
        make_document=lambda: fill(WavesDocument, format=FORMAT, waves=plan),
        page=lambda width: waves_page(plan, tables.catalogue, limit, out, tables.ways, width),
    )
    if out is not None:
        write_whole(out, f"{answer.json()}\n".encode())
    return answer


def waves_status(tables: NightTables, path: str, *, limit: int = MOST) -> Answer[WaveStatus]:
    """Say which gate is open, and what may be done.

    \b
        featurelib waves status waves.json --tables TABLES

    The command reads the runs after the plan. All clusters of the file count, also outside a
    selection. Exit codes: 0 the next batch may be changed, or all is done; 1 a step soaks; 2 usage;
    3 the next batch is held, a person must check it; 5 there is no run, or its data does not show
    whether the gate is open.
    """
    plan = read_waves(read_file("waves status", Path(path)), path)
    if plan.run > tables.run:
        raise ConfigError(
            f"{path}: The waves are of run {plan.run}, and the tables end with run {tables.run}. "
            "Name the tables of that run with --tables, or another run with --run."
        )
    aim = Aim.of(plan.target, tables.catalogue)
    nights = nights_since(tables.lake, plan.run, tables.run)
    tonight = find_standings(replace(tables.asked(), part=None), tables.lake, tables.run, aim)
    later = sum(plan.run < run <= tables.run for run in tables.lake.runs["run"].to_pylist())
    status = find_status(plan, tables.run, nights, tonight, later=later)
    return Answer(
        value=status,
        make_rows=lambda: ({name: getattr(step, name) for name in _STEP} for step in status.steps),
        make_document=lambda: fill(WavesDocument, status=status),
        page=lambda width: waves_status_page(status, tables.catalogue, limit, width),
        exit_code=_AT_GATE[status.gate],
    )


_AT_GATE = {
    WaveGate.DONE: 0,
    WaveGate.OPEN: 0,
    WaveGate.SOAKING: 1,
    WaveGate.CLOSED: RefusedError.exit_code,
    WaveGate.UNKNOWN: NoEvidenceError.exit_code,
}


_STEP = ("number", "ring", "way_back", "state", "clusters", "at_level", "since", "until")


def _wave_rows(plan: WavePlan) -> Iterator[Row]:
    for ring in plan.rings:
        for step in ring.steps:
            for number, batch in enumerate(step.batches, start=1):
                for work in batch:
                    for command in work.does:
                        yield {
                            "ring": ring.name,
                            "way_back": step.way_back,
                            "batch": number,
                            "cluster": work.name,
                            "by": command.by,
                            "command": command.command,
                        }
