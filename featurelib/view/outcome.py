"""Show the outcome of a plan or a request: lines as in KIP-584, and a sentence about the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from featurelib.catalogue import Catalogue
from featurelib.config.fleet import FleetPart
from featurelib.controller.journal import ClusterArgs, JournalEntry, Verified, Withdrawal
from featurelib.controller.send import Resumed, Unexplained
from featurelib.core.outcome import Ending, EndingKind, Fate, MoveOutcome, StepOutcome
from featurelib.core.reply import NO_ERROR
from featurelib.feature import UpgradeType
from featurelib.landing.responses import NOT_AUTHORIZED
from featurelib.model import Move, Plan
from featurelib.planning.files import PlanFile
from featurelib.planning.outlook import look_ahead
from featurelib.view.layout import STYLES, Page, paint
from featurelib.view.plan import show_steps
from featurelib.view.words import SNAPSHOT_FIRST, danger_lines, update_text
from featurelib.words import clean, count, level_text, reporting, some, time_text

_SHOWN = 5  # Maximum number of nodes named in one sentence
_SHORT = len("sha256:") + 12  # the shown characters of a digest


def operation(update: Move) -> str:
    """Return an update's type: Add, Upgrade, Downgrade or Delete (KIP-584, Tooling support)."""
    if update.to_level == 0:
        return "Delete"
    if update.from_level == 0:
        return "Add"
    return "Upgrade" if update.to_level > update.from_level else "Downgrade"


def ending_page(ending: Ending, plan: Plan, message: str, width: int | None = None) -> Page:
    """Return the page of an ending: one line per update as KIP-584 prints it, then the state."""
    page = Page(width)
    results = {
        (step.position, outcome.update.feature): outcome
        for step in ending.steps
        for outcome in step.updates
    }
    steps = enumerate(plan.steps if ending.kind is not EndingKind.NOTHING_TO_DO else ())
    for position, update in [(at, update) for at, step in steps for update in step.updates]:
        outcome = results.get((position, update.feature))
        line = update_line(update, outcome)
        if outcome is None and ending.steps:
            line += " Result: " + ("OK, before" if position < ending.before else "NOT SENT")
        page.line(line)
    page.text(message)
    return page


def update_line(update: Move, outcome: MoveOutcome | None = None) -> str:
    """Return `[Upgrade] Feature: f … NewFinalizedMaxVersion: 2 Result: OK`, as Kafka's tool prints.

    Without an outcome it has no result: nothing was sent (KIP-584, Basic CLI tool usage).
    """
    line = (
        f"[{operation(update)}] Feature: {clean(update.feature)} "
        f"ExistingFinalizedMaxVersion: {update.from_level or '-'} "
        f"NewFinalizedMaxVersion: {update.to_level or '-'}"
    )
    return line if outcome is None else f"{line} Result: {_result(outcome)}"


def _result(outcome: MoveOutcome) -> str:
    answer = _answer(outcome)
    if outcome.fate is Fate.APPLIED:
        return (
            f"OK, although the controller responded with {answer}" if _is_refused(outcome) else "OK"
        )
    if outcome.fate is Fate.REJECTED:
        return f"FAILED due to {answer or 'a refusal without words'}"
    if outcome.fate is Fate.OVERTAKEN:
        return f"FAILED due to another writer: the level is {outcome.level or '-'} now"
    return outcome.fate.value.upper() + (f" ({answer})" if answer else "")


def _is_refused(outcome: MoveOutcome) -> bool:
    return outcome.code not in (None, NO_ERROR)


def _answer(outcome: MoveOutcome) -> str:
    """Return the controller's response to an update as text."""
    if outcome.code == NO_ERROR:
        return "the controller responded with OK"
    code = [] if outcome.code is None else [f"error {outcome.code}"]
    return ", ".join([*code, *([clean(outcome.message, 300)] if outcome.message else [])])


def order_page(
    file: PlanFile, name: str, rules: Sequence[tuple[str, str]], catalogue: Catalogue, address: str
) -> Page:
    """Return the page shown before `featurelib apply`. `name`: cluster with id; `rules`: policy and
    approval; `address`: of brokers, "" = unknown."""
    page = Page()
    intent = clean(file.plan.intent, 400)
    page.facts([("cluster", name), ("intent", intent), ("digest", file.digest), *rules])
    page.line()
    show_steps(file.plan, catalogue, page, address)
    return page


def danger_page(plan: Plan, catalogue: Catalogue, address: str) -> Page:
    """Return the page with the dangers of a plan: downgrades, deletions, losses, irreversible
    levels, side effects."""
    page = Page()
    for number, step in enumerate(look_ahead(plan, catalogue, address), start=1):
        for change in step.changes:
            goes_up = change.update.upgrade_type == UpgradeType.UPGRADE.name
            texts = [] if goes_up else [update_text(change.update, catalogue)]
            for text in [*texts, *danger_lines(change, catalogue)]:
                page.item(paint(f"! step {number}: {text.strip()}", STYLES["critical"]))
    return page


def named(cluster: str, name: str) -> str:
    """Return the name of a cluster, followed by its id in brackets if both differ."""
    return clean(cluster) if name in ("", cluster) else f"{clean(name)} ({clean(cluster)})"


def name_of(entry: JournalEntry, names: Mapping[str, str]) -> str:
    """Return the cluster's name in a journal entry: from the inventory, or as recorded."""
    intent = entry.intent
    return names.get(intent.cluster) or intent.name or intent.cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadJournal:
    """The journal entries to show. `part`: the chosen clusters; `faults`: changed records."""

    path: str
    choice: ClusterArgs
    only_open: bool = False
    part: FleetPart | None = None
    faults: Sequence[str] = ()


def journal_page(
    entries: Sequence[JournalEntry],
    withdrawn: Sequence[Withdrawal],
    names: Mapping[str, str],
    catalogue: Catalogue,
    chosen: ReadJournal,
    width: int | None = None,
) -> Page:
    """Return the page of the journal: its requests and its withdrawn approvals. `names`: cluster id
    → name."""
    page, faults = Page(width), chosen.faults
    for entry in entries:
        _show_entry(entry, named(entry.intent.cluster, name_of(entry, names)), catalogue, page)
    for w in withdrawn:
        name = named(w.cluster, names.get(w.cluster, ""))
        page.item(f"approval by {clean(w.approved_by)}, cluster {name}: {clean(w.text, 2000)}")
        page.item(f"plan: {_short(w.plan)}", 4)
    waiting = sum(entry.is_open for entry in entries)
    waiting_text = f"; {waiting} to settle with {chosen.choice.resume}" if waiting else ""
    number = count(len(entries), "open request" if chosen.only_open else "request")
    owner = f", {clean(chosen.part.text)}" if chosen.part else ""
    page.line(f"{chosen.path}: {number}{owner}{waiting_text}")
    if faults:
        page.line(
            f"WARNING: NOT all records are as they were written ({clean(faults[0], 300)}). Run: "
            f"featurelib journal --verify{chosen.choice.kept_in}"
        )
    return page


def verified_page(
    result: Verified,
    path: str,
    choice: ClusterArgs,
    kept: str | None = None,
    width: int | None = None,
) -> Page:
    """Return the page of a journal check: changed records, newest digest, advice."""
    page = Page(width)
    for fault in result.faults:
        page.item(clean(fault, 300))
    truth = "NOT all as they were written" if result.faults else "as they were written"
    page.line(f"{path}: {count(result.records, 'record')}, {truth}")
    if result.kept:
        sure = "" if result.faults else ": nothing up to it was changed, put in or taken out"
        page.text(f"{clean(result.kept)} has the digest that was kept{sure}")
    elif result.kept is not None:
        page.text(
            f"no record of this journal has that digest: {clean(kept or '')}. The digest is of "
            "another journal, or records were removed, or the journal was rewritten."
        )
    if result.digest:
        page.line(f"newest digest: {result.digest}")
        page.text(
            "A person who can write the file can remove the newest records, or rewrite all records "
            "and digests. Only a digest that is kept elsewhere shows this later: featurelib "
            f"journal --kept DIGEST{choice.kept_in}"
        )
    return page


def _show_entry(entry: JournalEntry, name: str, catalogue: Catalogue, page: Page) -> None:
    sent = entry.intent
    fate = entry.fate.value.upper() if entry.is_open else entry.fate.value
    sender = f"{clean(sent.who.user)} on {clean(sent.who.host)}"
    step = f"step {sent.position + 1} of {sent.total}"
    page.item(f"{entry.number}: {_clock_text(sent.at)} by {sender}, cluster {name}, {step}: {fate}")
    for update in sent.step.updates:
        page.item(update_text(update, catalogue), 4)
    page.item(f"plan: {_short(sent.plan)}", 4)
    if sent.approved_by:
        page.item(f"approval: {clean(sent.clearance.text, 2000)}", 4)
    if sent.settings:
        page.item(f"settings: {clean(sent.settings, 400)}", 4)
    for outcome in entry.outcomes:
        reason = outcome.result.proof or outcome.result.unproven
        became = f"{outcome.result.fate.value}{f': {clean(reason, 500)}' if reason else ''}"
        page.item(f"{_clock_text(outcome.at)} {outcome.by}: {became}", 4)


def _short(digest: str) -> str:
    """Return a short form of a digest for people."""
    return clean(digest)[:_SHORT]


def _clock_text(seconds: float) -> str:
    return time_text(datetime.fromtimestamp(seconds, UTC), seconds=True)


def _is_at(feature: str, level: int | None, catalogue: Catalogue) -> str:
    """Return `metadata.version is at 25 (4.0-IV3)` or `group.version is not finalized`."""
    at = f"at {level_text(catalogue, feature, level)}" if level else "not finalized"
    return f"{clean(feature)} is {'not known' if level is None else at}"


def sentence(
    ending: Ending,
    catalogue: Catalogue,
    name: str = "",
    options: ClusterArgs | None = None,
    again: str = "",
    approve: str = "",
) -> str:
    """Return a sentence with the cluster's state after an ending, and the next step. `again`: the
    command that continues; `approve`: the command before it; `options`: choose the cluster."""
    title, levels = f"cluster {clean(name or ending.cluster)}", _where(ending.steps, catalogue)
    done, cause = f"{ending.applied} of {count(ending.total, 'step')}", _cause(ending)
    if ending.kind is EndingKind.APPLIED:
        nodes = ending.steps[-1].asked if ending.steps else 0
        return f"Applied: {title}: {levels}; {reporting(nodes, nodes)} it."
    if ending.kind is EndingKind.NOTHING_TO_DO:
        wrote = f", written by this plan ({clean('; '.join(ending.reasons), 600)})"
        by = wrote if ending.reasons else ""
        return f"Nothing to do: {title} has every level of the plan already{by}; nothing was sent."
    if ending.kind is EndingKind.VALIDATED:
        return (
            f"Validated: {title}: the controller would accept the next step; nothing was written."
        )
    if ending.kind is EndingKind.REHEARSED:
        return f"Dry run: {title} is as the plan expects it; nothing was sent."
    if ending.kind is EndingKind.UNKNOWN:
        run = (options or ClusterArgs()).resume
        return f"Unknown: {title}: {done} known to be applied; {cause}. Run: {run}"
    go_on = _next_command(ending, options, again, approve)
    if ending.kind is EndingKind.REJECTED:
        reason = cause or "the controller refused"
        return f"Rejected: {title}: nothing was written: {reason}.{go_on}"
    return f"Stopped after {done}: {title}: {levels}; {cause}.{go_on}"


def _cause(ending: Ending) -> str:
    """Return the reasons of an ending as text, with the outcomes of the last request."""
    texts = [clean(" ".join(reason.split()).rstrip("."), 2000) for reason in ending.reasons]
    return "; ".join([*texts, *(text for step in ending.steps[-1:] for text in _outcomes(step))])


def _next_command(ending: Ending, args: ClusterArgs | None, again: str, approve: str) -> str:
    """Return a sentence with the command that continues a rejected or stopped plan."""
    updates = (update for step in ending.steps for update in step.updates)
    codes = {update.code for update in updates if update.fate in {Fate.REJECTED, Fate.OVERTAKEN}}
    if codes == {NOT_AUTHORIZED}:
        return f" Run the same plan and approval again, as a user with ALTER: {again}"
    if codes:  # no update of it can still be applied
        return f" Make a new plan: {args.plan}" if args else ""
    again = f" Go on with the same plan: {again}" if again else ""
    return f" Approve the plan again: {approve}" if approve else again


def before_return(ending: Ending, plan: Plan) -> str:
    """Return what controllers need before older software starts; "" if no level was downgraded."""
    is_lower = any(move.to_level < move.from_level for move in plan.moves)
    is_kraft = plan.requirements.features_node_version is None
    is_over = ending.kind is EndingKind.APPLIED and is_lower and is_kraft
    return f" Before software is rolled back: {SNAPSHOT_FIRST}" if is_over else ""


def _where(steps: Sequence[StepOutcome], catalogue: Catalogue) -> str:
    """Return the present levels of the features in these requests as text."""
    levels = {outcome.update.feature: outcome.level for step in steps for outcome in step.updates}
    return ", ".join(_is_at(name, level, catalogue) for name, level in sorted(levels.items()))


def _outcomes(step: StepOutcome) -> Iterator[str]:
    """Yield the outcomes of a request's updates as texts, and the nodes that are late."""
    groups: dict[tuple[Fate, str], list[str]] = {}
    for outcome in step.updates:
        is_applied = outcome.fate is Fate.APPLIED
        if not is_applied or _is_refused(outcome):
            answer = "" if is_applied else _answer(outcome).rstrip(".")
            groups.setdefault((outcome.fate, answer), []).append(clean(outcome.update.feature))
    for (fate, answer), names in groups.items():
        text = _WHYS[fate].format(", ".join(names), "was" if len(names) == 1 else "were")
        yield f"{text} ({answer})" if answer else text
    if settled := _proof(step):
        yield settled
    if step.late:
        report = f"{reporting(step.asked - len(step.late), step.asked)} it"
        yield f"{report}, not {some(step.late, _SHOWN)}"


def _proof(step: StepOutcome) -> str:
    """Return the reason why a request cannot be applied later, or still can; "" if unknown."""
    if not step.unproven:
        return clean(step.proof, 2000) if step.proof else ""
    is_accepted = all(outcome.code == NO_ERROR for outcome in step.updates)
    state = "no node reports its levels" if is_accepted else "it may still be applied"
    return f"{state}: {clean(step.unproven, 2000).rstrip('.')}"


_WHYS = {
    Fate.REJECTED: "{0} {1} refused",
    Fate.NOT_APPLIED: "{0} {1} not applied",
    Fate.OVERTAKEN: "somebody else wrote {0}",
    Fate.UNKNOWN: "whether {0} {1} written is not known",
    Fate.APPLIED: "{0} {1} written although the controller refused it",
}
_SETTLED = {
    Fate.REJECTED: "not applied",
    Fate.OVERTAKEN: "overtaken by another writer",
    Fate.PARTLY: "applied in part",
    Fate.UNKNOWN: "still unknown",
}


def resumed_page(resumed: Resumed, catalogue: Catalogue, width: int | None = None) -> Page:
    """Return the page of `resume`: settled requests, unexplained levels, summary."""
    page = Page(width)
    lines = [(entry, settled_sentence(entry, catalogue)) for entry in resumed.settled]
    lines += [
        (entry, f"Journal entry {entry.number}: still unknown: {words}")
        for entry, words in resumed.lost
    ]
    lines += [(u.entry, unexplained_sentence(u, catalogue)) for u in resumed.unexplained]
    for entry, text in lines:
        page.line(f"cluster {clean(entry.intent.cluster)}: {text}")
    page.line(resumed_end(resumed))
    return page


def resumed_end(resumed: Resumed) -> str:
    """Return the summary of `resume`: the number of open requests, and the next command."""
    number, unknown = len(resumed.settled) + len(resumed.lost), resumed.unknown
    advice = ""
    counts = Counter((entry.intent.cluster, command) for entry, command in resumed.others)
    for (cluster, command), times in counts.items():
        requests = f"{count(times, 'request')} {'is' if times == 1 else 'are'} open"
        advice += f" {requests} for another cluster ({clean(cluster)}). Run: {command}"
    if unknown:
        waiting = [str(entry.number) for entry in resumed.settled if entry.is_open]
        entry_text = f" for journal entry {', '.join(waiting)}" if resumed.lost else ""
        again = (
            f" Run the command again{entry_text}." if waiting else ""
        )  # these have their own advice
        return f"Still unknown: {unknown} of {count(number, 'request')}.{again}{advice}"
    if number:
        return f"Settled: {count(number, 'request')}; resume itself wrote nothing.{advice}"
    if advice:
        part = clean(resumed.part) if resumed.part else f"this cluster ({clean(resumed.cluster)})"
        return f"Nothing to settle: no request is open for {part}.{advice}"
    if resumed.unexplained:
        return "Nothing to settle. It is not known how these levels came about."
    return "Nothing to settle: the outcome of every request is known."


def settled_sentence(entry: JournalEntry, catalogue: Catalogue) -> str:
    """Return the sentence about a request that `resume` checked."""
    result = entry.outcomes[-1].result
    reason = f"; {proof}" if (proof := _proof(result)) else ""
    fate_text = _SETTLED.get(result.fate, result.fate.value)
    return f"Journal entry {entry.number}: {fate_text}: {_where([result], catalogue)}{reason}."


def unexplained_sentence(level: Unexplained, catalogue: Catalogue) -> str:
    """Return the sentence about a finalized level that no journal entry explains."""
    return (
        f"{_is_at(level.feature, level.level, catalogue)}. No request of this journal that was "
        f"applied explains the level: entry {level.entry.number} requested it and was closed as "
        f"{level.entry.fate.value}."
    )
