"""Every kind of broken line is quarantined, with a reason a person understands."""

from __future__ import annotations

import pytest

from featurelib.landing import Landing, Quarantined, read
from tests.landing.corpus import CASES, GOOD, Case


@pytest.mark.parametrize("line", GOOD)
def test_lines_the_broken_ones_are_made_from_are_accepted(line: str) -> None:
    assert isinstance(read(line.encode()), Landing)


def test_corpus_has_many_cases_and_names_each_once() -> None:
    assert len(CASES) >= 75
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_broken_line_is_rejected_with_words_that_help(case: Case) -> None:
    verdict = read(case.raw)
    assert isinstance(verdict, Quarantined)
    assert [word for word in case.words if word not in verdict.reason] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reason_is_one_short_printable_sentence(case: Case) -> None:
    verdict = read(case.raw)
    assert isinstance(verdict, Quarantined)
    assert len(verdict.reason) < 300
    assert verdict.reason.isprintable()
    for word in ("Traceback", "msgspec", "Decode", "ValidationError", "Line(", "Raw"):
        assert word not in verdict.reason


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_read_of_a_broken_envelope_is_clean(case: Case) -> None:
    verdict = read(case.raw)
    assert isinstance(verdict, Quarantined)
    for text in (verdict.kind, verdict.cluster):
        assert text is None or (0 < len(text) <= 255 and text.isprintable())
