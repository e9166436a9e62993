"""Write the generated pages of docs/ from the code.

.venv/bin/python -m scripts.write_docs
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from importlib import resources
from pathlib import Path

from featurelib.core.dialect import Absence, Asks, Dialect, WalkOrder, load
from featurelib.core.rules import SCOPES
from featurelib.extras.rules.book import (
    DIALECTS,
    UNRECORDED,
    Question,
    RulebookEntry,
    describe,
    questions,
    rulebook,
)
from scripts.docs_texts import (
    ASKS_NOBODY,
    DIALECTS_INTRO,
    GROUPS,
    MEANINGS,
    ORDERS,
    PLACEHOLDERS,
    RULES_INTRO,
)
from scripts.draw_picture import picture
from scripts.markdown import code, comments_of, page, table
from scripts.write_commands import commands_page, errors_page, exit_codes_page
from scripts.write_schemas import commands_schema, schemas_page, tables_page
from scripts.write_side_effects import side_effects_page
from scripts.write_vocabulary import vocabulary_page

DOCS = Path(__file__).parents[1] / "docs"
# Sections of a dialect's table besides its capabilities and rules.
SECTIONS = ("registration", "protection", "election")
UNSEEN = "†"  # read in the source, and in no recording


def rules_page() -> str:
    """Return the page of rules, with sentence, source, finding and dialects of each rule."""
    entries = rulebook().values()
    contents = [
        [f"[{entry.rule.name}](#{entry.rule.name})", entry.rule.sentence, _spoken(entry)]
        for entry in entries
    ]
    return page(
        "# Rules",
        RULES_INTRO,
        table(["rule", "meaning", "applied in"], contents),
        *(part for entry in entries for part in _rule(entry)),
    )


def _spoken(entry: RulebookEntry) -> str:
    """Return the names of the dialects that apply a rule, or `all`."""
    if len(entry.dialects) == len(DIALECTS):
        return "all"
    return ", ".join(entry.dialects) or "none"


def _rule(entry: RulebookEntry) -> list[str]:
    rule, wording = entry.rule, entry.wording
    reads = ", ".join(code(name) for name in rule.columns)
    about = [
        ["source", rule.source],
        ["[columns](vocabulary.md)", reads],
        [f"finding ({wording.severity.value})", wording.statement],
        ["remedy", wording.remedy],
    ]
    about += [["command", code(wording.command)]] if wording.command else []
    asked = [[_places(group), _scope(group[0]), _words(group[0])] for group in entry.groups]
    head = ["dialects and rows", "checked updates and nodes", "message"]
    shown = table(head, asked) if asked else ASKS_NOBODY
    return [f"## {rule.name}", rule.sentence, table(["", ""], about), shown]


def _places(group: tuple[Question, ...]) -> str:
    return ", ".join(f"{q.dialect} {q.position}{_mark(q)}" for q in group)


def _mark(question: Question) -> str:
    return f" {UNSEEN}" if question.id in UNRECORDED else ""


def _scope(question: Question) -> str:
    door = "at the door" if question.at_door else ""
    return ", ".join(part for part in (door, describe(question.row)) if part) or "every update"


def _words(question: Question) -> str:
    row = question.row
    if not row.says:
        return "a finding, no answer"
    said = f"{row.code_number}: {code(row.says)}"
    if row.says_absent != row.says:
        said += f"; if it is not listed {code(row.says_absent)}"
    return said


def dialects_page() -> str:
    """Return the page of dialects: their capabilities side by side, and the rules of each."""
    tables = [load(name) for name in DIALECTS]
    groups = [[code(name), meaning] for name, meaning in _members(Asks)]
    absences = [[code(name), meaning] for name, meaning in _members(Absence)]
    orders = [[code(name), f"{meaning}. {ORDERS[name]}"] for name, meaning in _members(WalkOrder)]
    scopes = [[code(name), scope.sentence] for name, scope in SCOPES.items()]
    return page(
        "# Dialects",
        DIALECTS_INTRO,
        "## Capabilities side by side",
        _side_by_side(tables, lambda dialect: dialect.can),
        _meanings(tables[0].can),
        "## Scopes: updates that a row checks",
        table(["where", "checked if"], scopes),
        "## Groups: nodes that a row checks",
        table(["asks", "nodes"], groups),
        table(["a node does not list the feature", "meaning"], absences),
        "## Orders: the node that the message names",
        table(["order", "meaning"], orders),
        *(part for section in SECTIONS for part in _section(section, tables)),
        PLACEHOLDERS,
        *(part for dialect in tables for part in _dialect(dialect)),
    )


def _members(owner: type[Asks] | type[Absence] | type[WalkOrder]) -> list[tuple[str, str]]:
    comments = comments_of(owner)
    return [(each.value, GROUPS.get(each.value) or comments[each.name]) for each in owner]


def _side_by_side(tables: list[Dialect], of: Callable[[Dialect], object]) -> str:
    first = of(tables[0])
    names = [f.name for f in fields(first) if not _is_text(f.name)]  # type: ignore[arg-type]
    rows = [[code(name), *(_value(getattr(of(d), name)) for d in tables)] for name in names]
    return table(["", *(dialect.name for dialect in tables)], rows)


def _is_text(name: str) -> bool:
    return name.startswith("says") or name == "race"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "–"
    if isinstance(value, tuple):
        return " ".join(str(part) for part in value) or "–"
    return str(value) if value not in ("", 0, None) else "–"


def _meanings(section: object) -> str:
    comments = comments_of(type(section))
    rows = [
        [code(field.name), MEANINGS.get(field.name) or comments[field.name]]
        for field in fields(section)  # type: ignore[arg-type]  # a dataclass
        if not _is_text(field.name)
    ]
    return table(["", "means"], rows)


def _section(name: str, tables: list[Dialect]) -> list[str]:
    first = getattr(tables[0], name)
    return [
        f"## {name.capitalize()}",
        str(type(first).__doc__),
        _side_by_side(tables, lambda dialect: getattr(dialect, name)),
        _meanings(first),
    ]


def _dialect(dialect: Dialect) -> list[str]:
    path = resources.files("featurelib.core").joinpath("dialects", f"{dialect.name}.toml")
    lines = path.read_text(encoding="utf-8").splitlines()
    about = [line[1:].strip() for line in lines[: lines.index("")]]
    rows = [
        [
            f"{'door ' if question.at_door else ''}{question.position}{_mark(question)}",
            f"[{question.row.code}](rules.md#{question.row.code})",
            describe(question.row) or "every update",
            _words(question),
        ]
        for question in questions(dialect.name)
    ]
    noun = "release" if len(dialect.releases) == 1 else "releases"
    releases = f"the {noun} {', '.join(dialect.releases)}" if dialect.releases else "no release"
    return [
        f"## {dialect.name}",
        " ".join(about),
        f"The dialect {code(dialect.name)} describes controllers of {releases}.",
        table(["", "rule", "checked updates and nodes", "message"], rows),
        table(["message of", "name", "text"], _texts(dialect)),
    ]


def _texts(dialect: Dialect) -> list[list[str]]:
    """Return the messages of a dialect, except those of its rules."""
    said = []
    for section in ("text", *SECTIONS):
        values = getattr(dialect, section)
        for field in fields(values):
            text = getattr(values, field.name)
            if text and (section == "text" or _is_text(field.name)):
                said.append([section, field.name, code(text)])
    return said


PAGES: dict[str, Callable[[], str]] = {
    "rules.md": rules_page,
    "dialects.md": dialects_page,
    "vocabulary.md": vocabulary_page,
    "side_effects.md": side_effects_page,
    "pictures/stale-broker.svg": picture,
    "reference/commands.md": commands_page,
    "reference/commands.schema.json": commands_schema,
    "reference/errors.md": errors_page,
    "reference/exit-codes.md": exit_codes_page,
    "reference/schemas.md": schemas_page,
    "reference/tables.md": tables_page,
}


def main() -> None:
    """Write every generated page."""
    for name, write in PAGES.items():
        (DOCS / name).write_text(write(), encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
