"""What became of a request, by what was heard and seen; and how a plan ended."""

from __future__ import annotations

import pytest

from featurelib.core.outcome import (
    FINAL_ERRORS,
    Delivery,
    EndingKind,
    Fate,
    LevelsSeen,
    MoveOutcome,
    StepOutcome,
    kind_of,
    settle,
)
from featurelib.core.reply import Reply, Result
from featurelib.model import Move, Step


def step(*names: str) -> Step:
    updates = tuple(
        Move(feature=name, from_level=1, to_level=2, upgrade_type="UPGRADE") for name in names
    )
    return Step(updates=updates, timeout_ms=1000)


def told(**codes: int) -> Delivery:
    results = tuple(Result(feature=n, code=c, message=f"words {c}") for n, c in codes.items())
    return Delivery(reply=Reply(code=0, message=None, results=results))


def top(code: int) -> Delivery:
    return Delivery(reply=Reply(code=code, message="no", results=()))


def fates(
    request: Step, heard: Delivery, seen: dict[str, int] | None, *, proven: bool = False
) -> list[Fate]:
    look = None if seen is None else LevelsSeen(levels=seen)
    return [o.fate for o in settle(request, 0, heard, look, proven=proven).updates]


OK = Delivery(reply=Reply(code=0, message=None, results=None))
LOST = Delivery(why="the connection was cut")
F = step("f")


@pytest.mark.parametrize("heard", [OK, LOST, top(42), top(41), told(f=96), told(f=42), told()])
@pytest.mark.parametrize("proven", [False, True])
def test_a_level_that_is_there_is_applied_whatever_was_answered(
    heard: Delivery, proven: bool
) -> None:
    assert fates(F, heard, {"f": 2}, proven=proven) == [Fate.APPLIED]


@pytest.mark.parametrize(
    ("heard", "without_proof", "with_proof"),
    [
        (OK, Fate.UNKNOWN, Fate.OVERTAKEN),
        (LOST, Fate.UNKNOWN, Fate.NOT_APPLIED),
        (told(), Fate.UNKNOWN, Fate.OVERTAKEN),
        (told(g=0), Fate.UNKNOWN, Fate.NOT_APPLIED),
        (top(41), Fate.UNKNOWN, Fate.REJECTED),
        (top(7), Fate.UNKNOWN, Fate.REJECTED),
        (told(f=96), Fate.UNKNOWN, Fate.REJECTED),
        (top(95), Fate.REJECTED, Fate.REJECTED),
        (top(31), Fate.REJECTED, Fate.REJECTED),
        (told(f=42), Fate.REJECTED, Fate.REJECTED),
    ],
)
def test_a_level_that_is_not_there_is_settled_by_a_refusal_for_good_or_by_proof(
    heard: Delivery, without_proof: Fate, with_proof: Fate
) -> None:
    assert fates(F, heard, {"f": 1}) == [without_proof]
    assert fates(F, heard, {"f": 1}, proven=True) == [with_proof]


@pytest.mark.parametrize("heard", [OK, LOST, top(41), told(f=96)])
def test_what_cannot_be_seen_is_unknown(heard: Delivery) -> None:
    assert fates(F, heard, None, proven=True) == [Fate.UNKNOWN]
    unsure = LevelsSeen(levels={"f": 2}, unknown=frozenset("f"))
    assert settle(F, 0, heard, unsure, proven=True).fate is Fate.UNKNOWN


@pytest.mark.parametrize("code", sorted(FINAL_ERRORS))
def test_a_refusal_for_good_needs_no_look(code: int) -> None:
    assert fates(F, top(code), None) == [Fate.REJECTED]


def test_another_level_is_another_writer_s() -> None:
    for heard in (OK, top(42)):
        assert fates(F, heard, {"f": 3}) == [Fate.OVERTAKEN]
    for heard in (LOST, top(7), top(41)):  # ours may still come after it
        assert fates(F, heard, {"f": 3}) == [Fate.UNKNOWN]
        assert fates(F, heard, {"f": 3}, proven=True) == [Fate.OVERTAKEN]


def test_what_was_never_sent_is_not_applied() -> None:
    assert fates(F, Delivery(sent=False), None) == [Fate.NOT_APPLIED]
    assert fates(F, Delivery(sent=False), {"f": 2}) == [Fate.NOT_APPLIED]


def test_a_partial_answer_is_told_apart_update_by_update() -> None:
    request = step("f", "g")
    outcome = settle(request, 0, told(f=0, g=42), LevelsSeen(levels={"f": 2, "g": 1}), proven=False)
    assert [o.fate for o in outcome.updates] == [Fate.APPLIED, Fate.REJECTED]
    assert outcome.fate is Fate.PARTLY
    assert [(o.code, o.message) for o in outcome.updates] == [(0, "words 0"), (42, "words 42")]


def test_kraft_version_that_is_accepted_in_vain_was_overtaken_by_nobody() -> None:
    """As 4.0.0 and 4.0.1 answer (KAFKA-18992); no request lowers it again."""
    [fate] = fates(step("kraft.version"), OK, {"kraft.version": 1}, proven=True)
    assert fate is Fate.NOT_APPLIED
    assert fates(step("kraft.version"), OK, {"kraft.version": 1}) == [Fate.UNKNOWN]


def test_a_refused_request_that_carried_kraft_version_is_not_settled_by_its_refusal() -> None:
    request = step("kraft.version", "metadata.version")
    moved = {"kraft.version": 2, "metadata.version": 1}
    assert fates(request, top(95), moved) == [Fate.APPLIED, Fate.REJECTED]
    still = {"kraft.version": 1, "metadata.version": 1}
    assert fates(request, top(95), still) == [Fate.UNKNOWN, Fate.REJECTED]
    assert fates(request, top(95), still, proven=True) == [Fate.REJECTED, Fate.REJECTED]
    assert fates(request, top(95), None, proven=True) == [Fate.UNKNOWN, Fate.REJECTED]
    assert fates(step("kraft.version"), top(95), {"kraft.version": 1}) == [Fate.REJECTED]


def outcome(position: int, *given: Fate, late: tuple[str, ...] = ()) -> StepOutcome:
    names = [f"f{i}" for i in range(len(given))]
    levels = {
        name: {Fate.APPLIED: 2, Fate.OVERTAKEN: 3}.get(fate, 1)
        for name, fate in zip(names, given, strict=True)
    }
    codes = {n: 42 if f is Fate.REJECTED else 0 for n, f in zip(names, given, strict=True)}
    unknown = {n for n, f in zip(names, given, strict=True) if f is Fate.UNKNOWN}
    made = settle(
        step(*names),
        position,
        told(**codes),
        LevelsSeen(levels=levels, unknown=frozenset(unknown)),
        proven=True,
    )
    assert [o.fate for o in made.updates] == list(given)
    return StepOutcome(position=position, updates=made.updates, late=late, asked=3)


def concluded(*steps: StepOutcome, total: int = 2, before: int = 0, why: str = "") -> EndingKind:
    reasons = (why,) if why else ()
    return kind_of(steps, before=before, total=total, reasons=reasons)


DONE, NEXT = outcome(0, Fate.APPLIED), outcome(1, Fate.APPLIED)


def test_a_plan_ends_as_all_of_its_steps_did() -> None:
    """Applied only when all of it is, rejected only when nothing was written."""
    late = outcome(1, Fate.APPLIED, late=("broker 3",))
    rejected, overtaken = outcome(1, Fate.REJECTED), outcome(0, Fate.OVERTAKEN)
    ends = [
        (concluded(DONE, NEXT), EndingKind.APPLIED),
        (concluded(NEXT, before=1), EndingKind.APPLIED),
        (concluded(DONE), EndingKind.STOPPED),
        (concluded(DONE, why="broker 3 is gone"), EndingKind.STOPPED),
        (concluded(DONE, late), EndingKind.STOPPED),
        (concluded(DONE, outcome(1, Fate.APPLIED, Fate.REJECTED)), EndingKind.STOPPED),
        (concluded(DONE, outcome(1, Fate.OVERTAKEN)), EndingKind.STOPPED),
        (concluded(outcome(0, Fate.REJECTED)), EndingKind.REJECTED),
        (concluded(DONE, rejected), EndingKind.STOPPED),
        (concluded(rejected, before=1), EndingKind.STOPPED),
        (concluded(outcome(0, Fate.APPLIED, Fate.REJECTED)), EndingKind.STOPPED),
        (concluded(overtaken), EndingKind.STOPPED),
        (concluded(DONE, outcome(1, Fate.APPLIED, Fate.UNKNOWN)), EndingKind.UNKNOWN),
    ]
    assert [pair for pair in ends if pair[0] is not pair[1]] == []
    assert EndingKind.UNKNOWN.exit_code == 4


@pytest.mark.parametrize(
    ("fates", "whole"),
    [
        ([Fate.REJECTED, Fate.NOT_APPLIED], Fate.REJECTED),
        ([Fate.NOT_APPLIED, Fate.NOT_APPLIED], Fate.NOT_APPLIED),
        ([Fate.APPLIED, Fate.REJECTED], Fate.PARTLY),
        ([Fate.OVERTAKEN, Fate.NOT_APPLIED], Fate.PARTLY),
        ([Fate.APPLIED, Fate.UNKNOWN], Fate.UNKNOWN),
    ],
)
def test_a_request_has_one_fate(fates: list[Fate], whole: Fate) -> None:
    update = Move(feature="f", from_level=0, to_level=1, upgrade_type="UPGRADE")
    said = [MoveOutcome(update=update, fate=f, code=0, message=None, level=1) for f in fates]
    assert StepOutcome(position=0, updates=tuple(said)).fate is whole
