"""The rules of `featurelib lint`: rows of rules.toml, and the findings that they make of facts.

A row applies where its conditions hold. Its first case whose conditions hold, too, is the finding;
without one there is none. A row that is wrong fails when it is loaded, with file and line.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from string import Formatter
from typing import Any

import msgspec

from featurelib.extras.lint.change import FileChange
from featurelib.extras.lint.declared import Setting
from featurelib.extras.lint.facts import facts_of, texts_of
from featurelib.feature import Severity

FILE, TABLES = "rules.toml", ("facts", "texts")
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
    text = resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return {code: check_rule(text, code) for code in tomllib.loads(text) if code not in TABLES}


def find(change: FileChange) -> Iterator[LintFinding]:
    """Yield the findings of all rules about one change."""
    facts, texts = facts_of(change), texts_of(change)
    for code, rule in rules().items():
        if not holds(rule.conditions, facts):
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


# --- Loading --------------------------------------------------------------------------------------


def check_rule(text: str, code: str) -> LintRule:
    """Return the row of a code. Raises ValueError with file and line for an unknown key, fact, word
    of a fact or placeholder."""
    tables: dict[str, Any] = tomllib.loads(text)
    try:
        rule = msgspec.convert(tables[code], LintRule)
        fault = next(_faults(rule, tables["facts"], {*tables["texts"]["names"]}), "")
    except msgspec.ValidationError as error:
        fault = str(error)
    if fault:
        line = text.splitlines().index(f"[{code}]") + 1
        raise ValueError(f"{FILE}:{line}: [{code}] {fault}")
    return rule


def _faults(rule: LintRule, facts: Mapping[str, list[str]], texts: set[str]) -> Iterator[str]:
    for conditions in (rule.conditions, *(case.conditions for case in rule.cases)):
        for name, words in conditions.items():
            if name not in facts:
                yield f"names the fact {name}, which there is not. Facts: {', '.join(facts)}."
            elif strange := {*_words(words)} - {*facts[name]}:
                words = ", ".join(facts[name])
                yield f"compares {name} with {min(strange)}. It is one of: {words}."
    for case in rule.cases:
        parts = Formatter().parse(case.message + case.consequence + case.remedy)
        if strange := {name for _, name, _, _ in parts if name is not None} - texts:
            yield f"names {{{min(strange)}}}, which is none of the texts."
