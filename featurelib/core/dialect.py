"""A dialect is a table, not code: which rules are asked, of whom, in which order, in which words.

A dialect is compiled when it is loaded: a name that is no rule, no capability or no scope fails
there, not in the night.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from featurelib.core.rules import RULES, Rule
from featurelib.feature import Severity

STRICT = "strict"  # the policy that decides READY


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One row of a dialect's table: the rule, and what it says when it is violated."""

    rule: Rule
    severity: Severity
    message: str
    remedy: str
    command: str

    @property
    def code(self) -> str:
        """The finding's stable code: the name of the rule."""
        return self.rule.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one generation of controllers, or the strict policy, answers."""

    name: str
    title: str
    absent_metadata_version: int  # what a node that does not list it is taken to support
    controllers_register_from: int  # the metadata.version from which controllers register
    rules: tuple[RuleRow, ...]

    @property
    def of_updates(self) -> tuple[RuleRow, ...]:
        return tuple(row for row in self.rules if row.rule.of_updates is not None)

    @property
    def of_nodes(self) -> tuple[RuleRow, ...]:
        return tuple(row for row in self.rules if row.rule.of_nodes is not None)


@cache
def load(name: str) -> Dialect:
    """The dialect `name`, compiled. Raises KeyError for a name in it that is no rule."""
    path = resources.files(__package__).joinpath("dialects", f"{name}.toml")
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    rows = tuple(_compile(row) for row in table["rule"])
    capability = table["capability"]
    return Dialect(
        name=table["name"],
        title=table["title"],
        absent_metadata_version=capability["absent_metadata_version"],
        controllers_register_from=capability["controllers_register_from"],
        rules=rows,
    )


def _compile(row: dict[str, str]) -> RuleRow:
    rule = RULES[row["rule"]]
    scope = "node" if rule.of_nodes is not None else "update"
    if row["scope"] != scope:
        raise KeyError(f"rule {rule.name} looks at a {scope}, its row says {row['scope']}")
    return RuleRow(
        rule=rule,
        severity=Severity(row["severity"]),
        message=row["message"],
        remedy=row["remedy"],
        command=row["command"],
    )
