"""List the rules by dialect: every row of every dialect's table has a stable id.

`kraft-4.2.unsupported_by_node.3` is the third row of that rule in that dialect.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib import resources

from msgspec.structs import replace

from featurelib.core.dialect import GENERATIONS, KIP, STRICT, Absence, RuleRow, WalkOrder, load
from featurelib.core.rules import RULES, Rule
from featurelib.findings import FindingRow, finding_rows, rule_rows

DIALECTS = (*GENERATIONS, KIP, STRICT)
_ROWS = resources.files(__package__).joinpath("unrecorded.toml").read_text(encoding="utf-8")
# Rows that no recorded exchange reaches, and why none does.
UNRECORDED: dict[str, str] = {
    f"{dialect}.{row['id']}": row["reason"]
    for row in tomllib.loads(_ROWS)["row"]
    for dialect in GENERATIONS[GENERATIONS.index(row["first"]) : GENERATIONS.index(row["last"]) + 1]
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A row of a dialect's table, and where it stands there."""

    id: str
    dialect: str
    row: RuleRow
    at_door: bool  # about the request as a whole, before any update is looked at
    position: int  # from 1, within the door or within the rules


@dataclass(frozen=True, slots=True, kw_only=True)
class RulebookEntry:
    """A rule, what it says to a person, and every row that asks it."""

    rule: Rule
    wording: FindingRow
    questions: tuple[Question, ...]

    @property
    def dialects(self) -> tuple[str, ...]:
        """The dialects that ask the rule, in the order of DIALECTS."""
        return tuple(dict.fromkeys(question.dialect for question in self.questions))

    @property
    def groups(self) -> tuple[tuple[Question, ...], ...]:
        """The questions that differ in nothing but their place, in the order of the first."""
        same: dict[RuleRow, list[Question]] = {}
        for question in self.questions:
            same.setdefault(question.row, []).append(question)
        return tuple(tuple(group) for group in same.values())


@cache
def questions(dialect: str) -> tuple[Question, ...]:
    """Return every row of a dialect, the door first. Raises what `load` raises."""
    table, codes, asked_rows = load(dialect), Counter[str](), []
    for at_door, rows in ((True, table.door), (False, table.rules)):
        for position, row in enumerate(rows, start=1):
            codes[row.code] += 1
            of = f"{dialect}.{row.code}.{codes[row.code]}"
            asked_rows.append(
                Question(id=of, dialect=dialect, row=row, at_door=at_door, position=position)
            )
    return tuple(asked_rows)


def describe(row: RuleRow) -> str:
    """Return the updates and nodes that a row is about: `where sets, asks live_brokers`; and why
    an audit does not ask it."""
    parts = []
    if row.where:
        parts.append(f"where {' and '.join(scope.name for scope in row.where)}")
    if row.asks is not None:
        parts.append(f"asks {row.asks.value}")
        if row.absence is Absence.REFUSE:
            parts.append("silence refuses")
        if row.order is not WalkOrder.NONE:
            parts.append(f"in {row.order.value} order")
    if row.not_in_audits:
        parts.append(f"not in audits: {row.not_in_audits}")
    return ", ".join(parts)


@cache
def rulebook() -> dict[str, RulebookEntry]:
    """Return every rule by name, in the order of rules.py."""
    every = [question for dialect in DIALECTS for question in questions(dialect)]
    return {
        name: RulebookEntry(
            rule=rule,
            wording=replace((rule_rows() | finding_rows())[name], source=rule.source),
            questions=tuple(q for q in every if q.row.rule is rule),
        )
        for name, rule in RULES.items()
    }
