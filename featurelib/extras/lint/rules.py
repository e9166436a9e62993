"""The rules of `featurelib lint`: rows of rules.toml, and the findings that they make of facts.

A row applies where its conditions hold. Its first case whose conditions hold, too, is the finding;
without one there is none. The row REMOVED is about what files declare no more, and no other row is.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources

import msgspec

from featurelib.extras.lint.change import FileChange
from featurelib.extras.lint.declared import Setting
from featurelib.extras.lint.facts import facts_of, texts_of
from featurelib.feature import Severity

FILE, TABLES = "rules.toml", ("facts", "texts")
REMOVED = "declaration_removed"
Conditions = dict[str, str | list[str]]


class LintCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The severity and words of a rule in one circumstance."""

    conditions: Conditions = msgspec.field(name="when", default_factory=dict)
    severity: Severity
    message: str
    consequence: str = ""
    remedy: str


class LintRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row. `at`: the settings whose line is shown; the first that the file has."""

    title: str
    at: list[str]
    conditions: Conditions = msgspec.field(name="when")
    source: str
    cases: list[LintCase] = msgspec.field(name="case")


class LintFinding(msgspec.Struct, frozen=True, kw_only=True):
    """The finding of a rule at a line of a file."""

    code: str
    severity: Severity
    file: str
    line: int
    subject: str  # the cluster that the file declares, or the file
    message: str
    consequence: str
    remedy: str
    source: str


@cache
def rules() -> dict[str, LintRule]:
    """Return the rules by code, in the order of the file."""
    rows = tomllib.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    own = {code: row for code, row in rows.items() if code not in TABLES}
    return msgspec.convert(own, dict[str, LintRule])


def find(change: FileChange) -> Iterator[LintFinding]:
    """Yield the findings of all rules about one change."""
    facts, texts = facts_of(change), texts_of(change)
    for code, rule in rules().items():
        if (code == REMOVED) is not change.is_removed or not holds(rule.conditions, facts):
            continue
        for case in (case for case in rule.cases if holds(case.conditions, facts)):
            at = _place(change, rule.at)
            yield LintFinding(
                code=code,
                severity=case.severity,
                file=at.file,
                line=at.line,
                subject=change.after.name,
                message=case.message.format_map(texts),
                consequence=case.consequence.format_map(texts),
                remedy=case.remedy.format_map(texts),
                source=rule.source,
            )
            break


def holds(conditions: Conditions, facts: Mapping[str, str]) -> bool:
    """Return true if every condition names the word of its fact; a list names several words."""
    return all(facts[name] in _words(words) for name, words in conditions.items())


def _words(words: str | list[str]) -> Sequence[str]:
    return [words] if isinstance(words, str) else words


def _place(change: FileChange, keys: Sequence[str]) -> Setting:
    """Return the first of these settings, or the beginning of its scope."""
    own = change.after
    settings = (own.settings[key] for key in keys if key in own.settings)
    return next(settings, Setting("", own.file, own.line))
