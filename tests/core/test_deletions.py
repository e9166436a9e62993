"""The law of lost lines: no landing line that is left out makes a feature READY, or READY for more.

`make laws` draws 100,000 sets; tests/core/deletions.py has the exceptions and their reasons.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.core import scale
from tests.core.deletions import (
    EXCEPTIONS,
    Violation,
    at_random,
    capture_of,
    captures,
    collected_twice,
    contradicted,
    drawn,
    dumped_twice,
    excuse,
    single,
    verdicts,
    violations,
)
from tests.core.lines import NOW
from tests.core.test_registrations import ANSWERS, NO_GHOST, list_after, quorum
from tests.core.test_zookeeper_evidence import NARROW, ROUND, answer, registered


def unexcused(found: list[Violation]) -> tuple[list[str], Counter[str]]:
    """What breaks the law, and how often each exception was used."""
    names = [excuse(one) for one in found]
    broken = [str(one) for one, name in zip(found, names, strict=True) if not name]
    return broken, Counter(name for name in names if name)


def test_no_line_that_is_left_out_of_a_capture_makes_a_feature_ready() -> None:
    found = [one for capture in captures() for one in violations(capture, [*single(capture)])]
    broken, used = unexcused(found)
    assert broken == []
    # One night alone: broker 1 did not answer, and its registration stands in the night before.
    assert used == {"_brokers_nobody_speaks_of": 2}


@pytest.mark.no_cover
def test_nor_does_any_set_of_lines() -> None:
    dice = random.Random(28)
    several = [*captures(), *contradicted(captures()), *drawn(scale.some(60))]
    several += collected_twice(captures(), dice) + dumped_twice(captures(), dice)
    sets = scale.some(20)
    found = [
        one for capture in several for one in violations(capture, [*at_random(capture, dice, sets)])
    ]
    broken, used = unexcused(found)
    assert broken == []
    assert used.keys() <= {of.__name__ for of in EXCEPTIONS} | {"several"}


def test_an_earlier_dump_of_another_log_changes_no_verdict() -> None:
    whole = {capture.name: capture for capture in captures()}
    several = dumped_twice(captures(), random.Random(28))
    assert len(several) > 5
    for twice in several:
        name = twice.name.removeprefix("dumped twice ")
        assert verdicts(twice, [()]) == verdicts(whole[name], [()]), name


def test_a_line_that_frees_is_found() -> None:
    """The harness itself: a broker whose lines are all left out, and that nobody listed."""
    capture = capture_of("made up", [*ROUND, registered(1, NARROW), answer(1, NARROW)], NOW)
    both = len(ROUND), len(ROUND) + 1
    [one] = violations(capture, [both])
    assert (one.feature, one.whole, one.part) == ("f", ("READY", 5), ("READY", 6))
    assert excuse(one) == "_brokers_nobody_speaks_of"
    assert [*violations(capture, [(both[0],)])] == []


def test_two_lists_that_disagree_hold_back_and_one_of_them_frees() -> None:
    capture = capture_of("made up", [*ANSWERS, quorum([(1, 0)]), list_after(0, *NO_GHOST)], NOW)
    [twice] = contradicted([capture])
    found = [*violations(twice, [*single(twice)])]
    assert {excuse(one) for one in found} == {"_lists_that_are_contradicted"}
    assert {one.whole and one.whole[0] for one in found} == {"UNKNOWN"}
