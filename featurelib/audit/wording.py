"""Writes findings as sentences: fills the templates of a dialect's rules and of findings.toml.

A template's placeholders are filled in one pass with cleaned texts, so that no name can smuggle in
another placeholder, an escape sequence or, in a command, a second command.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from datetime import datetime
from typing import TypedDict

from featurelib.audit.findings import (
    EXPIRED,
    Remedy,
    Wording,
    action_for_gone,
    filled,
    remedies,
    software,
    wordings,
)
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import STRICT, load
from featurelib.feature import METADATA_VERSION, Role, Severity
from featurelib.words import clean, code_text, level_text, range_text, time_text

# The core composes these details itself, of whole sentences, and cuts and escapes what it quotes;
# or they are a controller's refusal, which names who is in the way at its end.
COMPOSED = frozenset(
    {
        "features_node_damaged",
        "features_node_ambiguous",
        "side_effect_by_name",
        "probe_refused",
        EXPIRED,
    }
)
COMPOSED_LENGTH = 1200
# The detail of these is the least release that helps.
RELEASED = frozenset({"ghost_controller", "voter_not_registered"})
WAY = "{way}"  # of remedies.toml, by the finding's role and metadata.version

_DATED_LEVEL = re.compile(rf"\b{re.escape(METADATA_VERSION)} (\d{{1,5}})\b(?! \()")


class FindingColumns(TypedDict):
    """The columns of one finding that its words may use."""

    code: str
    role: str | None
    node_id: int | None
    feature: str | None
    finalized_level: int | None
    level: int | None
    min_version: int | None
    max_version: int | None
    observed_at: datetime | None
    detail: str | None


class FindingWords:
    """The policy's words, with the level names of one catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._wordings = wordings(load(STRICT))

    def of(self, columns: FindingColumns, address: str = "") -> Wording:
        """The words of its code, filled in; `address` of the cluster's brokers."""
        wording = self._wordings.get(columns["code"]) or _unworded(columns["code"])
        values = self._values(columns)
        way = self._way(columns)
        values["way"] = way.text.format_map(values)
        command = way.command if wording.command == WAY else wording.command
        return replace(
            wording,
            message=_open_sentence(wording.message, values).rstrip(),
            remedy=_open_sentence(wording.remedy, values),
            command=filled(_fill_command(command, values), address),
        )

    def detail(self, code: str, text: str | None) -> str | None:
        """What was seen, safe to show, with the names of levels of metadata.version added."""
        if not text:
            return None
        shown = clean(text, COMPOSED_LENGTH) if code in COMPOSED else clean(text)
        return _DATED_LEVEL.sub(self._add_name, shown)

    def _way(self, columns: FindingColumns) -> Remedy:
        """What to do about the node that the finding calls gone."""
        role = Role[(columns["role"] or Role.BROKER.text).upper()]
        return remedies()[action_for_gone(role, columns["finalized_level"])]

    def _values(self, columns: FindingColumns) -> dict[str, str]:
        feature, catalogue = columns["feature"], self.catalogue
        node, detail = columns["node_id"], columns["detail"]
        level, finalized = columns["level"], columns["finalized_level"]
        low, high = columns["min_version"], columns["max_version"]
        ends = None if low is None or high is None else (low, high)
        return {
            "role": columns["role"] or "node",
            "node": "?" if node is None else str(node),
            "feature": "a feature" if feature is None else clean(feature),
            "range": range_text(catalogue, feature, ends),
            "level": "?" if level is None else level_text(catalogue, feature, level),
            "finalized": "an unknown level"
            if finalized is None
            else level_text(catalogue, feature, finalized),
            # An empty detail has nothing to add; a missing one should have been there.
            "detail": "?" if detail is None else self.detail(columns["code"], detail) or "",
            "software": software(detail or "") if columns["code"] in RELEASED else software(""),
            "observed_at": time_text(columns["observed_at"]) or "an unknown day",
            "dated": catalogue.label,
        }

    def _add_name(self, found: re.Match[str]) -> str:
        named = level_text(self.catalogue, METADATA_VERSION, int(found[1]))
        return f"{METADATA_VERSION} {named}"


def _fill_command(template: str, values: dict[str, str]) -> str:
    """A command with its values quoted for a shell; most findings have none to fill."""
    if "{" not in template:
        return template
    return template.format_map({key: shlex.quote(value) for key, value in values.items()})


def _open_sentence(template: str, values: dict[str, str]) -> str:
    """A role or an action at the start gets its capital letter; a feature's name keeps its own."""
    text = template.format_map(values)
    return text[:1].upper() + text[1:] if template.startswith(("{role}", WAY)) else text


def _unworded(code: str) -> Wording:
    """A code that this release has no words for: another release wrote the finding."""
    return Wording(
        severity=Severity.WARNING,
        source="",
        message=code_text(code).replace("{", "{{").replace("}", "}}") + " {detail}",
        remedy="",
        command="",
    )
