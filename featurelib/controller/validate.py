"""A request put to the active controller to validate only: where it may be, and what it says.

It is put only where writing is ruled out: to KRaft alone, and where every dialect that may be
spoken honours it. The controller asks every registered broker, and whom it is configured to ask, so
its yes to a request stands for those that nobody could list.
"""

from __future__ import annotations

from collections.abc import Sequence

from featurelib.audit.oddities import ALTER, HONOURED
from featurelib.backends.base import Backend, Say
from featurelib.core.dialect import load
from featurelib.core.outcome import Fate, Heard, StepOutcome, UpdateOutcome
from featurelib.core.reply import NO_ERROR
from featurelib.errors import OutcomeUnknownError, UnreachableError
from featurelib.feature import KRAFT_VERSION
from featurelib.model import Step

# The findings that a controller's yes stands for.
UNPROVEN = frozenset({"registrations_unproven", "configured_voters_unknown"})


def is_honoured(backend: Backend, dialects: Sequence[str]) -> bool:
    """Whether a request to validate is sure to write nothing; `dialects` may be spoken there."""
    abilities = backend.abilities()
    if abilities.mode != "kraft" or not abilities.validate_only or not dialects:
        return False
    return all(load(name).can.validate_only == HONOURED for name in dialects)


def may_prove(backend: Backend, dialects: Sequence[str], step: Step) -> bool:
    """Whether the controller's yes to `step` may stand for registrations that nobody listed.

    Never of kraft.version: 4.1 and later hand it on while they validate (KAFKA-16538).
    """
    is_plain = all(update.feature != KRAFT_VERSION for update in step.updates)
    return is_plain and is_honoured(backend, dialects)


def moves_text(step: Step) -> str:
    """Write the levels of a request in one line."""
    return ", ".join(f"{u.feature} {u.from_level} to {u.to_level}" for u in step.updates)


def ask(backend: Backend, step: Step, say: Say | None = None) -> Heard:
    """Put `step` to the controller to validate only, and give its answer; `say` is called before.
    Raises UnreachableError where it does not answer, and RefusedError where it would write."""
    if say is not None:
        say(f"asking the controller to validate only: {moves_text(step)} (needs {ALTER})")
    try:
        return Heard(reply=backend.update(step, validate_only=True))
    except OutcomeUnknownError as error:  # a request to validate writes nothing
        raise UnreachableError(
            f"the controller did not answer a request to validate: {error} Nothing was written."
        ) from error


def is_agreed(step: Step, heard: Heard) -> bool:
    """Whether it agreed to every update."""
    return all(heard.of(update.feature)[0] == NO_ERROR for update in step.updates)


def refused(step: Step, position: int, heard: Heard) -> StepOutcome:
    """What a controller refused to validate: nothing of it was written."""
    updates = []
    for update in step.updates:
        code, message = heard.of(update.feature)
        fate = Fate.NOT_APPLIED if code == NO_ERROR else Fate.REJECTED
        updates.append(
            UpdateOutcome(
                update=update, fate=fate, code=code, message=message, level=update.from_level
            )
        )
    return StepOutcome(position=position, updates=tuple(updates))
