"""What a rule says to a person, whichever dialect asks it: rules.toml, read once."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from featurelib.feature import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWords:
    """A finding's severity and texts. {placeholders} are columns of the finding."""

    severity: Severity
    message: str
    remedy: str
    command: str


@cache
def _table() -> dict[str, dict[str, str]]:
    text = resources.files(__package__).joinpath("rules.toml").read_text(encoding="utf-8")
    table: dict[str, dict[str, str]] = tomllib.loads(text)
    return table


@cache
def rule_words(name: str) -> RuleWords:
    """The words of rule `name`. Raises KeyError for a rule without words, ValueError (severity)."""
    row = _table()[name]
    return RuleWords(
        severity=Severity(row["severity"]),
        message=row["message"],
        remedy=row["remedy"],
        command=row.get("command", ""),
    )
