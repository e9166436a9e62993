"""The rows of findings: what each code says to a person, and which groups it belongs to.

findings.toml has what concerns evidence and nodes; rules.toml has the rules that dialects ask. The
function that emits a finding names its code. Every other module selects findings by `Tag`.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from featurelib.feature import Severity


class FindingRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The severity and texts of one code. {placeholders} are columns of the finding.

    `title` says what is so in several clusters, "" = no cluster shows that alone; `title_stale` the
    same where the node is off and still registered. `state` is the word for the node in a
    description of its cluster. `fates` are texts for the detail.
    """

    severity: Severity
    message: str
    remedy: str
    command: str = ""
    title: str = ""
    title_stale: str = ""
    state: str = ""
    source: str = ""
    tags: frozenset[str] = frozenset()
    fates: dict[str, str] = {}
    # Where a node's range begins above what is finalized, or only its listener fails.
    other: str = ""
    other_command: str = ""


@cache
def finding_rows() -> dict[str, FindingRow]:
    """Return the rows of findings.toml by code."""
    return _read("findings.toml")


@cache
def rule_rows() -> dict[str, FindingRow]:
    """Return the rows of rules.toml by the name of the rule."""
    return _read("rules.toml")


@cache
def tags() -> dict[str, str]:
    """Return each tag with what it stands for."""
    return {name: str(text) for name, text in _load("findings.toml")["tags"].items()}


@cache
def tagged(*names: str) -> frozenset[str]:
    """Return the codes that have any of these tags. Raises KeyError for an unknown tag."""
    wanted = frozenset(name for name in names if tags()[name])
    rows = (finding_rows() | rule_rows()).items()
    return frozenset(code for code, row in rows if not row.tags.isdisjoint(wanted))


def code_of(tag: str) -> str:
    """Return the code of a tag that one row has."""
    [code] = tagged(tag)
    return code


def _load(name: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _read(name: str) -> dict[str, FindingRow]:
    table = _load(name)
    table.pop("tags", None)
    return msgspec.convert(table, dict[str, FindingRow])
