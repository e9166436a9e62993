"""Says findings, levels and ranges in words: fills the templates of a dialect and findings.toml.

A template's placeholders are filled in one pass with cleaned texts, so that no name can smuggle in
another placeholder, an escape sequence or, in a command, a second command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypedDict

from featurelib.catalogue import Catalogue
from featurelib.core.dialect import Dialect
from featurelib.core.findings import Wording, wordings
from featurelib.core.mutes import EXPIRED
from featurelib.core.remedies import Remedy, action_for_gone, filled, remedies, software
from featurelib.feature import METADATA_VERSION, Role, Severity
from featurelib.report.clean import clean
from featurelib.report.model import Level, Range

NOT_LISTED = "no such feature"  # reads on from "supports" and "it supports"
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


class Columns(TypedDict):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One finding in words."""

    message: str
    remedy: str
    command: str
    source: str


class Words:
    """The words of one dialect, with the level names of one catalogue."""

    def __init__(self, catalogue: Catalogue, dialect: Dialect) -> None:
        self._catalogue = catalogue
        self._wordings = wordings(dialect)

    def level(self, feature: str | None, number: int | None) -> Level | None:
        """A level with its name, if it has one: `25 (4.0-IV3)`."""
        if number is None:
            return None
        name = self._catalogue.level_name(feature, number) if feature else str(number)
        named = name != str(number)
        return Level(number=number, text=f"{number} ({name})" if named else name)

    def supported(self, feature: str | None, low: int | None, high: int | None) -> Range | None:
        """A range with the name of its upper end, or None where the feature is not listed."""
        if low is None or high is None:
            return None
        level = self.level(feature, high)
        assert level is not None
        if low == high:
            return Range(min_version=low, max_version=high, text=f"{level.text} only")
        name = level.text.removeprefix(str(high)).replace("(", "(up to ", 1)
        return Range(min_version=low, max_version=high, text=f"{low}-{high}{name}")

    def releases(self, names: Sequence[str]) -> str:
        """Releases in the catalogue's order, those that follow one another as `4.0 to 4.4`."""
        order = [release.name for release in self._catalogue.releases]
        runs: list[list[str]] = []
        for name in names:
            before = runs[-1][-1] if runs else ""
            if before in order and order[order.index(before) + 1 :][:1] == [name]:
                runs[-1].append(name)
            else:
                runs.append([name])
        said = [run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
        return ", ".join(said) or "none"

    def detail(self, code: str, text: str | None) -> str | None:
        """What was seen, safe to show, with the names of levels of metadata.version added."""
        if not text:
            return None
        shown = clean(text, COMPOSED_LENGTH) if code in COMPOSED else clean(text)
        return _DATED_LEVEL.sub(self._add_name, shown)

    def say(self, columns: Columns, address: str = "") -> Said:
        """The finding's message, remedy, command and source; `address` of the cluster's brokers."""
        wording = self._wordings.get(columns["code"]) or _unworded(columns["code"])
        values = self._values(columns)
        way = self._way(columns)
        values["way"] = way.text.format_map(values)
        command = way.command if wording.command == WAY else wording.command
        message = wording.message.format_map(values)
        remedy = wording.remedy.format_map(values)
        return Said(
            message=_open_sentence(wording.message, message).rstrip(),
            remedy=_open_sentence(wording.remedy, remedy),
            command=filled(_fill_command(command, values), address),
            source=wording.source,
        )

    def _way(self, columns: Columns) -> Remedy:
        """What to do about the node that the finding calls gone."""
        role = Role[(columns["role"] or Role.BROKER.text).upper()]
        return remedies()[action_for_gone(role, columns["finalized_level"])]

    def _values(self, columns: Columns) -> dict[str, str]:
        feature = columns["feature"]
        level = self.level(feature, columns["level"])
        finalized = self.level(feature, columns["finalized_level"])
        supported = self.supported(feature, columns["min_version"], columns["max_version"])
        node, detail = columns["node_id"], columns["detail"]
        return {
            "role": columns["role"] or "node",
            "node": "?" if node is None else str(node),
            "feature": "a feature" if feature is None else clean(feature),
            "range": NOT_LISTED if supported is None else supported.text,
            "level": "?" if level is None else level.text,
            "finalized": "an unknown level" if finalized is None else finalized.text,
            # An empty detail has nothing to add; a missing one should have been there.
            "detail": "?" if detail is None else self.detail(columns["code"], detail) or "",
            "software": software(detail or "") if columns["code"] in RELEASED else software(""),
            "observed_at": show_time(columns["observed_at"]) or "an unknown day",
            "dated": self._catalogue.label,
        }

    def _add_name(self, found: re.Match[str]) -> str:
        level = self.level(METADATA_VERSION, int(found[1]))
        return found[0] if level is None else f"{METADATA_VERSION} {level.text}"


def _fill_command(template: str, values: dict[str, str]) -> str:
    """A command with its values quoted for a shell; most findings have none to fill."""
    if "{" not in template:
        return template
    return template.format_map({key: shlex.quote(value) for key, value in values.items()})


def show_time(time: datetime | None) -> str | None:
    """A time to the minute, as people write it."""
    return None if time is None else time.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def metadata_first(feature: str) -> tuple[bool, str]:
    """The order of features: metadata.version, on which others depend, then by name."""
    return feature != METADATA_VERSION, feature


def _open_sentence(template: str, text: str) -> str:
    """A role or an action at the start gets its capital letter; a feature's name keeps its own."""
    return text[:1].upper() + text[1:] if template.startswith(("{role}", WAY)) else text


def _unworded(code: str) -> Wording:
    """A code that this release has no words for: another release wrote the finding."""
    return Wording(
        severity=Severity.WARNING,
        source="",
        message=say_code(code).replace("{", "{{").replace("}", "}}") + " {detail}",
        remedy="",
        command="",
    )


def say_code(code: str) -> str:
    """A finding's code as words."""
    return clean(code).replace("_", " ")
