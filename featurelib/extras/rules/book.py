"""List the rules by dialect: every row of every dialect's table has a stable id.

`kraft-4.2.unsupported_by_node.3` is the third row of that rule in that dialect.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from featurelib.audit.findings import wordings
from featurelib.config import nearest
from featurelib.core.dialect import (
    GENERATIONS,
    KIP,
    STRICT,
    Absence,
    Dialect,
    RuleRow,
    WalkOrder,
    load,
)
from featurelib.core.rules import NODE_COLUMNS, RULES, UPDATE_COLUMNS, Rule
from featurelib.errors import ConfigError
from featurelib.findings import FindingRow, finding_rows, rule_rows, tagged
from featurelib.view.documents import Document, fill
from featurelib.view.documents import as_json as to_json
from featurelib.view.layout import Page, wrap

DIALECTS = (*GENERATIONS, KIP, STRICT)
_ROWS = resources.files(__package__).joinpath("unrecorded.toml").read_text(encoding="utf-8")
# Ids of rows that no recorded exchange reaches → the reason.
UNRECORDED: dict[str, str] = {
    f"{dialect}.{row['id']}": row["reason"]
    for row in tomllib.loads(_ROWS)["row"]
    for dialect in GENERATIONS[GENERATIONS.index(row["first"]) : GENERATIONS.index(row["last"]) + 1]
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A row of a dialect: id, rule, and position. `at_door`: a check of the whole request."""

    id: str
    dialect: str
    row: RuleRow
    at_door: bool  # true for a check of the whole request before its updates
    position: int  # from 1, among checks of requests or among rules


@dataclass(frozen=True, slots=True, kw_only=True)
class RulebookEntry:
    """A rule with its texts, and the rows of all dialects that apply it."""

    rule: Rule
    wording: FindingRow
    questions: tuple[Question, ...]

    @property
    def dialects(self) -> tuple[str, ...]:
        """The dialects that apply the rule, in the order of DIALECTS."""
        return tuple(dict.fromkeys(question.dialect for question in self.questions))

    @property
    def groups(self) -> tuple[tuple[Question, ...], ...]:
        """The rows of the rule, grouped by equal content."""
        by_rule: dict[RuleRow, list[Question]] = {}
        for question in self.questions:
            by_rule.setdefault(question.row, []).append(question)
        return tuple(tuple(group) for group in by_rule.values())


@cache
def questions(dialect: str) -> tuple[Question, ...]:
    """Return every row of a dialect, request checks first. Raises KeyError, ValueError."""
    table, codes, asked_rows = load(dialect), Counter[str](), []
    for at_door, rows in ((True, table.request_checks), (False, table.rules)):
        for position, row in enumerate(rows, start=1):
            codes[row.code] += 1
            key = f"{dialect}.{row.code}.{codes[row.code]}"
            asked_rows.append(
                Question(id=key, dialect=dialect, row=row, at_door=at_door, position=position)
            )
    return tuple(asked_rows)


def describe(row: RuleRow) -> str:
    """Return a row as text: `where sets, asks live_brokers`, and why an audit skips it."""
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
    """Return every rule by name, in the order of core/rules.py."""
    rows = [question for dialect in DIALECTS for question in questions(dialect)]
    return {
        name: RulebookEntry(
            rule=rule,
            wording=replace((rule_rows() | finding_rows())[name], source=rule.source),
            questions=tuple(q for q in rows if q.row.rule is rule),
        )
        for name, rule in RULES.items()
    }


WIDTH = 96
TOGETHER = "\u00a0"  # keeps a dialect and its number on one line


class RulesDocument(Document, kw_only=True):
    """featurelib rules; with a name `rule` alone, with --dialects `dialects` alone"""

    rules: list[dict[str, Any]] | UnsetType = UNSET
    rule: dict[str, Any] | UnsetType = UNSET
    dialects: list[dict[str, Any]] | UnsetType = UNSET


def rules(name: str | None = None, dialects: bool = False, as_json: bool = False) -> int:
    """Show the rules of a controller for an update.

    \b
        featurelib rules
        featurelib rules unsupported_by_node
        featurelib rules --dialects

    The code of a finding is the name of its rule. A dialect is the table of one generation of
    controllers. `strict` decides READY, `kip` is the text of the KIPs. Exit codes: 0 done, 2 usage.
    """
    if dialects and name is not None:
        raise ConfigError(
            f"--dialects and the rule {name} exclude each other. `featurelib rules {name}` lists "
            "the dialects with this rule."
        )
    page, book = Page(None if dialects else WIDTH), rulebook()
    if dialects:
        tables = [load(dialect) for dialect in DIALECTS]
        document = fill(RulesDocument, dialects=[*map(_dialect, tables)])
        rows = [["DIALECT", "RULES", "RELEASES", ""]]
        for dialect in tables:
            releases = " ".join(dialect.releases) or "no release"
            rows.append([dialect.name, str(_rules(dialect)), releases, dialect.title])
        page.table(rows)
    elif name is None:
        document = fill(RulesDocument, rules=[*map(_brief, book.values())])
        for entry in book.values():
            page.line(entry.rule.name)
            page.lines([entry.rule.sentence, _asked_in(entry)], indent=4)
    else:
        entry = _entry(name, book)
        document = fill(RulesDocument, rule=_whole(entry))
        _show(entry, page)
    print(to_json(document) if as_json else page)
    return 0


def _entry(name: str, book: dict[str, RulebookEntry]) -> RulebookEntry:
    """Return the rule with this name. Raises ConfigError that lists valid names."""
    if name in book:
        return book[name]
    detail = f"there is no such name. {nearest(name, book, 1)} `featurelib rules` lists them all."
    if name in tagged("own_dialect"):
        detail = (
            "a finding: the cluster's own controllers refuse what the policy lets pass. The "
            "finding names the rule they refuse by: `featurelib rules` and that name says what it "
            "asks."
        )
    elif name in wordings(load(STRICT)):
        detail = (
            "a finding about evidence, which no rule stands behind. docs/vocabulary.md says what "
            "it means; `featurelib rules` lists rules."
        )
    raise ConfigError(f"{name} is not the name of a rule: {detail}")


def _dialect(table: Dialect) -> dict[str, object]:
    names = ("name", "title", "mode", "releases")
    return {name: getattr(table, name) for name in names} | {"rules": _rules(table)}


def _rules(table: Dialect) -> int:
    return len(table.request_checks) + len(table.rules)


def _brief(entry: RulebookEntry) -> dict[str, object]:
    rule = entry.rule
    return {"name": rule.name, "sentence": rule.sentence, "dialects": list(entry.dialects)}


def _asked_in(entry: RulebookEntry) -> str:
    """Return the text that names the dialects of the rule."""
    if not entry.dialects:
        return "asked of no update: nodes that belong to a cluster are judged by it"
    return f"asked in {' '.join(entry.dialects)}"


def _whole(entry: RulebookEntry) -> dict[str, object]:
    rule, wording = entry.rule, entry.wording
    return {
        **_brief(entry),
        "source": rule.source,
        "columns": {name: _meaning(entry, name) for name in rule.columns},
        "severity": wording.severity.value,
        "message": wording.statement,
        "action": wording.remedy,
        "command": wording.command,
        "asked": [_question(question) for question in entry.questions],
    }


def _meaning(entry: RulebookEntry, column: str) -> str:
    return (NODE_COLUMNS if entry.rule.about_nodes else UPDATE_COLUMNS)[column]


def _question(question: Question) -> dict[str, object]:
    row = question.row
    return {
        "id": question.id,
        "dialect": question.dialect,
        "at_door": question.at_door,
        "position": question.position,
        "where": [scope.name for scope in row.where],
        "asks": row.asks and row.asks.value,
        "absence": row.absence.value if row.asks else None,
        "order": row.order.value if row.asks else None,
        "code": row.code_number,
        "says": row.says,
        "says_absent": row.says_absent if row.says_absent != row.says else None,
        "recorded": question.dialect in GENERATIONS and question.id not in UNRECORDED,
        "why_not_recorded": UNRECORDED.get(question.id),
    }


def _show(entry: RulebookEntry, page: Page) -> None:
    rule, wording = entry.rule, entry.wording
    page.line(rule.name)
    page.item(rule.sentence, 2)
    page.item(f"source: {rule.source}", 2)
    for column in rule.columns:
        page.item(f"reads {column}: {_meaning(entry, column)}", 2)
    page.item(f"finding, {wording.severity.value}: {wording.statement}", 2)
    page.item(f"remedy: {wording.remedy}", 2)
    if wording.command:
        page.line(f"    {wording.command}")
    if not entry.questions:
        page.item(_asked_in(entry), 2)
    for group in entry.groups:
        row = group[0].row
        page.line()
        page.lines(
            line.replace(TOGETHER, " ") for line in wrap(_where_asked(group), WIDTH, "", "  ")
        )
        if row.says:
            page.item(f"{row.code_number}: {row.says}", 2)
        if row.says_absent != row.says:
            page.item(f"{row.code_number}, if it is not listed: {row.says_absent}", 2)
        unrecorded: dict[str, list[str]] = {}
        for question in group:
            if question.id in UNRECORDED:
                unrecorded.setdefault(UNRECORDED[question.id], []).append(question.dialect)
        for reason, names in unrecorded.items():
            page.item(f"read in the source of {', '.join(names)} only: {reason}", 2)


def _where_asked(group: tuple[Question, ...]) -> str:
    """Return a rule's rows as text: `kraft-3.3 as 3, kraft-3.5 as 3: asks local_controller`."""
    door = " at the door" if group[0].at_door else ""
    places = ", ".join(
        f"{question.dialect} as {question.position}".replace(" ", TOGETHER) for question in group
    )
    scope = describe(group[0].row)
    return f"{places}{door}{': ' if scope else ''}{scope}"
