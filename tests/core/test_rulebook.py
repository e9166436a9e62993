"""Which dialect asks which rule: what a row says of itself, and which rows are alike."""

from __future__ import annotations

from featurelib.audit.findings import wordings
from featurelib.conformance.rulebook import DIALECTS, describe, questions, rulebook
from featurelib.core.dialect import STRICT, load
from featurelib.core.rules import RULES


def test_a_row_says_on_which_updates_it_is_asked_of_whom_and_in_which_order() -> None:
    said = {question.id: describe(question.row) for question in questions("kraft-3.9")}
    said |= {question.id: describe(question.row) for question in questions("zk-2.7")}
    for dialect in ("kraft-3.9", "zk-2.7"):
        for question in questions(dialect):
            row, text = question.row, said[question.id]
            assert (text == "") == (not row.where and row.asks is None)
            assert ("asks " in text) == (row.asks is not None)
            assert all(scope.name in text for scope in row.where)
    assert any("silence refuses" in text for text in said.values())
    assert any(" order" in text for text in said.values())
    assert any(text.startswith("where ") and ", asks " in text for text in said.values())


def test_every_rule_has_an_entry_that_knows_who_asks_it() -> None:
    asked = {q.row.rule.name for name in DIALECTS for q in questions(name)}
    assert asked == {name for name, entry in rulebook().items() if entry.questions}
    for name, entry in rulebook().items():
        assert (entry.rule, entry.rule.name) == (RULES[name], name)
        assert entry.wording.message
        assert entry.dialects == tuple(sorted(set(entry.dialects), key=DIALECTS.index))
        flat = [question for group in entry.groups for question in group]
        assert sorted(q.id for q in flat) == sorted(q.id for q in entry.questions)
        assert all(len({question.row for question in group}) == 1 for group in entry.groups)


def test_a_rule_of_which_the_policy_has_no_words_has_its_own() -> None:
    """Only controllers ask it: nothing the audit finds."""
    audit = wordings(load(STRICT))
    own = [entry for name, entry in rulebook().items() if name not in audit]
    assert own
    assert all(entry.wording.source == entry.rule.source for entry in own)
