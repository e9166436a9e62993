"""What an approver sees of a plan: its steps, what goes down, and what cannot be taken back.

Only the part of a plan that its digest covers is read, and texts from it are made safe to show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from featurelib.catalogue import Catalogue
from featurelib.cli.plan_text import guards_text
from featurelib.core.downgrade import Loss, loss_of
from featurelib.core.effects import effects_of, first_command, say_effect
from featurelib.feature import UpgradeType
from featurelib.model import Move, Plan
from featurelib.planning.files import Approval, say_span, say_time
from featurelib.view.layout import terminal_width, wrap
from featurelib.words import clean


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


def _say_update(update: Move, loss: Loss, catalogue: Catalogue) -> str:
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
