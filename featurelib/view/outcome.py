"""What became of a plan or a request, for a person: lines as KIP-584 has them, and one sentence
that says what is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from featurelib.audit.side_effects import effects_of, say_effect
from featurelib.catalogue import Catalogue
from featurelib.controller.resume import Unexplained
from featurelib.core.downgrade import loss_of
from featurelib.core.outcome import Ending, EndingKind, Fate, MoveOutcome, StepOutcome
from featurelib.core.reply import NO_ERROR
from featurelib.feature import UpgradeType
from featurelib.model import Move, Plan
from featurelib.words import clean

_SHOWN = 5  # nodes named in one sentence


def operation(update: Move) -> str:
    """Add, Upgrade, Downgrade or Delete (KIP-584, Tooling support)."""
    if update.to_level == 0:
        return "Delete"
    if update.from_level == 0:
        return "Add"
    return "Upgrade" if update.to_level > update.from_level else "Downgrade"


def update_line(update: Move, outcome: MoveOutcome | None = None) -> str:
    """`[Upgrade] Feature: f ExistingFinalizedMaxVersion: 1 NewFinalizedMaxVersion: 2 Result: OK`.

    Without an outcome there is no result: nothing was sent (KIP-584, Basic CLI tool usage).
    """
    line = (
        f"[{operation(update)}] Feature: {clean(update.feature)} "
        f"ExistingFinalizedMaxVersion: {update.from_level or '-'} "
        f"NewFinalizedMaxVersion: {update.to_level or '-'}"
    )
    return line if outcome is None else f"{line} Result: {_result(outcome)}"


def _result(outcome: MoveOutcome) -> str:
    said = ", ".join(_answer(outcome))
    if outcome.fate is Fate.APPLIED:
        refused = outcome.code not in (None, 0)
        return f"OK, although the controller answered {said}" if refused else "OK"
    if outcome.fate is Fate.REJECTED:
        return f"FAILED due to {said or 'a refusal without words'}"
    if outcome.fate is Fate.OVERTAKEN:
        return f"FAILED due to another writer: the level is {outcome.level or '-'} now"
    if outcome.fate is Fate.NOT_APPLIED:
        return f"NOT APPLIED ({said})" if said else "NOT APPLIED"
    return f"UNKNOWN ({said})" if said else "UNKNOWN"


def _answer(outcome: MoveOutcome) -> Iterable[str]:
    if outcome.code == 0:
        yield "the controller answered OK"
    elif outcome.code is not None:
        yield f"error {outcome.code}"
    if outcome.message and outcome.code != 0:
        yield clean(outcome.message, 300)


def move_text(update: Move, catalogue: Catalogue) -> str:
    """`Upgrade metadata.version: 25 (4.0-IV3) → 29 (4.2-IV1)`."""
    here, there = (
        level_text(update.feature, level, catalogue)
        for level in (update.from_level, update.to_level)
    )
    return f"{operation(update)} {clean(update.feature)}: {here} → {there}"


def warnings(plan: Plan, catalogue: Catalogue, first: int = 0) -> list[str]:
    """What a person should know before saying yes to the steps from `first` on: each downgrade and
    deletion, what may be lost, what nothing takes back, and what else is changed."""
    said, effects = [], effects_of(plan, catalogue)
    for position, step in enumerate(plan.steps[first:], start=first + 1):
        for update in step.updates:
            loss = loss_of(update, plan, catalogue)
            here, there = (
                level_text(update.feature, level, catalogue)
                for level in (update.from_level, update.to_level)
            )
            name, where = clean(update.feature), f"step {position}"
            lost = "; METADATA MAY BE LOST" if loss.may_lose_metadata else ""
            if loss.deletes:
                said.append(f"{where} DELETES {name}, which is finalized at {here}{lost}")
            elif update.upgrade_type != UpgradeType.UPGRADE.name:
                how = update.upgrade_type.replace("_", " ")
                said.append(f"{where} is a {how} of {name} from {here} to {there}{lost}")
            if loss.no_return is not None:
                point = level_text(update.feature, loss.no_return, catalogue)
                said.append(
                    f"{where} is a POINT OF NO RETURN: from {name} {point} on, {here} cannot be "
                    "had again without loss"
                )
            said += [
                f"{where} ALSO CHANGES {clean(say_effect(effect), 1000)}"
                for effect in effects
                if effect.feature == update.feature
            ]
    return said


def level_text(feature: str, level: int | None, catalogue: Catalogue) -> str:
    """`25 (4.0-IV3)`, `2`, `not finalized`, `not known`."""
    if level is None:
        return "not known"
    if level == 0:
        return "not finalized"
    name = catalogue.level_name(feature, level)
    return str(level) if name == str(level) else f"{level} ({name})"


def sentence(
    ending: Ending,
    catalogue: Catalogue,
    *,
    name: str = "",
    resume: str = "",
    again: str = "",
    plan: str = "",
) -> str:
    """One sentence that says what is true of the cluster now, and what to do next: by the commands
    `resume` where something is not known, `again` to go on with the same plan, `plan` to make
    another."""
    who = f"cluster {clean(name or ending.cluster)}"
    steps = "1 step" if ending.total == 1 else f"{ending.total} steps"
    if ending.kind is EndingKind.APPLIED:
        return f"Applied: {who}: {_where(ending.steps, catalogue)}; {_reported(ending.steps)}."
    if ending.kind is EndingKind.NOTHING_TO_DO:
        wrote = f", written by this plan ({clean('; '.join(ending.reasons), 600)})"
        by = wrote if ending.reasons else ""
        return f"Nothing to do: {who} has every level of the plan already{by}; nothing was sent."
    if ending.kind is EndingKind.VALIDATED:
        return f"Validated: {who}: the controller would accept the next step; nothing was written."
    if ending.kind is EndingKind.REHEARSED:
        return f"Dry run: {who} is as the plan expects it; nothing was sent."
    if ending.kind is EndingKind.REJECTED:
        how = _whys(ending) or "the controller refused"
        return f"Rejected: {who}: nothing was written: {how}.{_next(ending, again, plan)}"
    done = f"{ending.applied} of {steps}"
    if ending.kind is EndingKind.UNKNOWN:
        return f"Unknown: {who}: {done} known to be applied; {_whys(ending)}. Run: {resume}"
    return (
        f"Stopped after {done}: {who}: {_where(ending.steps, catalogue)}; {_whys(ending)}."
        f"{_next(ending, again, plan)}"
    )


def _next(ending: Ending, again: str, plan: str) -> str:
    """The command that goes on: the same plan where it can still be carried out, else another."""
    fates = {one.fate for step in ending.steps for one in step.updates}
    if fates & {Fate.REJECTED, Fate.OVERTAKEN}:
        return f" Make a new plan: {plan}" if plan else ""
    return f" Go on with the same plan: {again}" if again else ""


def _where(steps: Sequence[StepOutcome], catalogue: Catalogue) -> str:
    """Where each feature that was asked to move is now."""
    now = {outcome.update.feature: outcome.level for step in steps for outcome in step.updates}
    return ", ".join(
        f"{clean(name)} is {'at ' if level else ''}{level_text(name, level, catalogue)}"
        for name, level in sorted(now.items())
    )


def _reported(steps: Sequence[StepOutcome]) -> str:
    asked = steps[-1].asked if steps else 0
    return f"{asked} of {asked} nodes report it"


def _whys(ending: Ending) -> str:
    """Why it went no further."""
    last = ending.steps[-1] if ending.steps else None
    said = [clean(" ".join(reason.split()).rstrip("."), 2000) for reason in ending.reasons]
    if last is not None:
        said += _whys_of(last)
        if last.late:
            names = ", ".join(last.late[:_SHOWN])
            more = f" and {len(last.late) - _SHOWN} more" if last.late[_SHOWN:] else ""
            count = f"{last.asked - len(last.late)} of {last.asked} nodes report it"
            said.append(f"{count}, not {names}{more}")
    return "; ".join(said)


def _whys_of(step: StepOutcome) -> list[str]:
    """What became of the updates of one request, those of which the same is true together."""
    alike: dict[tuple[Fate, str], list[str]] = {}
    for outcome in step.updates:
        refused = outcome.code not in (None, NO_ERROR)
        if outcome.fate is Fate.APPLIED and not refused:
            continue
        said = ", ".join(_answer(outcome)).rstrip(".")
        key = outcome.fate, "" if outcome.fate is Fate.APPLIED else said
        alike.setdefault(key, []).append(clean(outcome.update.feature))
    texts = []
    for (fate, said), names in alike.items():
        verb = "was" if len(names) == 1 else "were"
        text = _WHYS[fate].format(", ".join(names), verb)
        texts.append(f"{text} ({said})" if said else text)
    if settled := _proof(step):
        texts.append(settled)
    return texts


def _proof(step: StepOutcome) -> str:
    """Why nothing of a request can still be carried out, or why something may; "" where what was
    seen or answered is enough."""
    if not step.unproven:
        return clean(step.proof, 2000) if step.proof else ""
    is_accepted = all(outcome.code == NO_ERROR for outcome in step.updates)
    what = "no node could be seen to report it" if is_accepted else "it may still be carried out"
    return f"{what}: {clean(step.unproven, 2000).rstrip('.')}"


_WHYS = {
    Fate.REJECTED: "{0} {1} refused",
    Fate.NOT_APPLIED: "{0} {1} not applied",
    Fate.OVERTAKEN: "somebody else wrote {0}",
    Fate.UNKNOWN: "whether {0} {1} written is not known",
    Fate.APPLIED: "{0} {1} written although the controller refused it",
}


def settled_sentence(number: int, result: StepOutcome, catalogue: Catalogue) -> str:
    """One sentence about one request that `resume` looked after."""
    words = {
        Fate.APPLIED: "applied",
        Fate.NOT_APPLIED: "not applied",
        Fate.REJECTED: "not applied",
        Fate.OVERTAKEN: "overtaken by another writer",
        Fate.PARTLY: "applied in part",
        Fate.UNKNOWN: "still unknown",
    }
    why = f"; {proof}" if (proof := _proof(result)) else ""
    return f"Journal entry {number}: {words[result.fate]}: {_where([result], catalogue)}{why}."


def unexplained_sentence(one: Unexplained, catalogue: Catalogue) -> str:
    """One sentence about a level that no request explains."""
    where = level_text(one.feature, one.level, catalogue)
    return (
        f"{clean(one.feature)} is {'at ' if one.level else ''}{where}; no request in this journal "
        f"that is known to be applied explains it; entry {one.entry.number} asked for it and was "
        f"closed as {one.entry.fate.value}."
    )
