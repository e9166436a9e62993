"""Every row of every generation's table decides a recorded answer, or is known to be read only."""

from __future__ import annotations

from collections import Counter

from featurelib.catalogue import load
from featurelib.conformance.rulebook import DIALECTS, UNRECORDED, questions, rulebook
from featurelib.core.dialect import GENERATIONS
from scripts.choose_pack import reached
from tests.core import recordings


def test_every_row_decides_a_recorded_answer_or_was_read_in_the_source_only() -> None:
    decided = Counter[str]()
    for ids in reached([*recordings.every(), *recordings.random()], load().tables):
        decided.update(ids)
    rows = [question.id for name in GENERATIONS for question in questions(name)]
    assert [row for row in rows if not decided[row] and row not in UNRECORDED] == []
    assert [row for row in UNRECORDED if row not in rows or decided[row]] == []
    assert len(rows) == 153
    assert len(UNRECORDED) == 27


def test_a_row_has_one_name_in_all_dialects() -> None:
    ids = [question.id for name in DIALECTS for question in questions(name)]
    assert len(ids) == len(set(ids))
    assert "kraft-4.2.unsupported_by_node.3" in ids


def test_every_rule_is_asked_by_somebody_or_about_members() -> None:
    unasked = [name for name, entry in rulebook().items() if not entry.questions]
    assert unasked == ["incompatible_with_finalized"]
