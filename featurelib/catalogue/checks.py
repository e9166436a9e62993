"""What rows of a catalogue may not say: each contradiction as a value, the first one first.

The package's own rows pass (a test holds it), so what is found with an overlay is the overlay's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from featurelib.catalogue.rows import (
    DifferenceRow,
    LevelRow,
    ReleaseFeatureRow,
    ReleaseRow,
    Row,
    Rows,
    SideEffectRow,
    VersionRow,
    pairs,
)
from featurelib.feature import METADATA_VERSION

HIGHEST_LEVEL = 2**15 - 1  # int16 on the wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """A cell that does not fit the other rows."""

    row: Row
    column: str
    expected: str
    found: str


class Known:
    """What the rows name, for looking up."""

    def __init__(self, rows: Rows) -> None:
        self.names: dict[str, int] = {}  # of metadata.version; the first row with a name has it
        for row in rows.metadata_version:
            self.names.setdefault(row.name, row.level)
        self.releases = [row.release for row in rows.release]
        self.levels: dict[str, set[int]] = {
            METADATA_VERSION: {row.level for row in rows.metadata_version}
        }
        self.cells: dict[tuple[str, str, int, str], str] = {}  # release, feature, level, column
        for level in rows.feature_level:
            self.levels.setdefault(level.feature, set()).add(level.level)
            for what in ("default_from", "dependency"):
                self.cells["", level.feature, level.level, what] = getattr(level, what)
        for other in rows.release_difference:
            self.cells[other.release, other.feature, other.level, other.what] = other.value

    def has(self, feature: str, level: int) -> bool:
        return level in self.levels.get(feature, ())

    def says(self, release: str, feature: str, level: int, what: str) -> str:
        """A cell of a level as a release has it; release "" = the level's own row."""
        common = self.cells.get(("", feature, level, what), "")
        return self.cells.get((release, feature, level, what), common)


def contradictions(rows: Rows) -> Iterator[Contradiction]:
    """Everything the rows say that cannot be, table by table."""
    known = Known(rows)
    for _, row in rows.every():
        for column, expected, found in _of_row(row, known):
            yield Contradiction(row=row, column=column, expected=expected, found=str(found))


Fault = tuple[str, str, object]  # column, expected, found


def _of_row(row: Row, known: Known) -> Iterator[Fault]:
    yield from _numbers(row)
    if isinstance(row, VersionRow):
        if not row.name or known.names[row.name] != row.level:
            yield "name", "a name that no other metadata.version has", repr(row.name)
    elif isinstance(row, LevelRow):
        yield from _level(row, known)
    elif isinstance(row, ReleaseRow):
        yield from _release(row, known)
    elif isinstance(row, ReleaseFeatureRow):
        yield from _release_feature(row, known)
    elif isinstance(row, SideEffectRow):
        yield from _side_effect(row, known)
    else:
        yield from _difference(row, known)


def _numbers(row: Row) -> Iterator[Fault]:
    for column in row.__dataclass_fields__:
        value = getattr(row, column)
        if type(value) is int and not 0 <= value <= HIGHEST_LEVEL:
            yield column, f"a level from 0 to {HIGHEST_LEVEL}", value


def _level(row: LevelRow, known: Known) -> Iterator[Fault]:
    if row.feature in ("", METADATA_VERSION):
        yield (
            "feature",
            "a feature (levels of metadata.version are [[metadata_version]])",
            row.feature,
        )
    elif not known.has(row.feature, 0):
        yield "level", f"a row for level 0 of {row.feature} too", row.level
    yield from _version_name("default_from", row.default_from, known)
    yield from _release_name("stable_since", row.stable_since, known)
    yield from _dependency("dependency", row.feature, row.dependency, known)
    yield from _too_early("default_from", "", row.feature, row.level, known)


def _release(row: ReleaseRow, known: Known) -> Iterator[Fault]:
    if row.based_on:
        yield from _release_name("based_on", row.based_on, known)
    columns = ("oldest_metadata_version", "newest_stable", "newest_unstable", "oldest_bootstrap")
    levels = [getattr(row, column) for column in columns]
    for column, level in zip(columns, levels, strict=True):
        if not known.has(METADATA_VERSION, level):
            yield column, "a metadata.version of the catalogue", level
    if levels[:3] != sorted(levels[:3]):
        yield (
            "newest_stable",
            f"from {row.oldest_metadata_version} to {row.newest_unstable}",
            levels[1],
        )
    if row.oldest_bootstrap > row.newest_unstable:
        yield "oldest_bootstrap", f"at most {row.newest_unstable}", row.oldest_bootstrap


def _release_feature(row: ReleaseFeatureRow, known: Known) -> Iterator[Fault]:
    yield from _release_name("release", row.release, known)
    for column in ("newest_stable", "newest_unstable"):
        yield from _known_level(column, row.feature, getattr(row, column), known)
    if row.newest_stable > row.newest_unstable:
        yield "newest_stable", f"at most newest_unstable, {row.newest_unstable}", row.newest_stable


def _difference(row: DifferenceRow, known: Known) -> Iterator[Fault]:
    yield from _release_name("release", row.release, known)
    yield from _known_level("level", row.feature, row.level, known)
    of_metadata = row.feature == METADATA_VERSION
    allowed = ("loses_metadata_below",) if of_metadata else ("default_from", "dependency")
    if row.what not in allowed:
        yield "what", f"{' or '.join(allowed)} for {row.feature}", repr(row.what)
    elif row.what == "default_from":
        yield from _version_name("value", row.value, known)
        yield from _too_early("value", row.release, row.feature, row.level, known)
    elif row.what == "dependency":
        yield from _dependency("value", row.feature, row.value, known)
        yield from _too_early("value", row.release, row.feature, row.level, known)
    elif row.value not in ("true", "false"):
        yield "value", '"true" or "false"', repr(row.value)


def _side_effect(row: SideEffectRow, known: Known) -> Iterator[Fault]:
    """Level 0 is where a feature goes back to, and metadata.version moves unasked."""
    if row.feature == METADATA_VERSION:
        yield "feature", f"another feature than {METADATA_VERSION}", row.feature
    else:
        yield from _known_level("level", row.feature, row.level, known)
    if row.level == 0:
        yield "level", "a level above 0", row.level
    if not row.what.strip():
        yield "what", "what the level changes, in words", repr(row.what)
    if row.from_controller and not row.key:
        yield "key", "the configuration that the controller's value is written to", repr(row.key)


def _known_level(column: str, feature: str, level: int, known: Known) -> Iterator[Fault]:
    if feature not in known.levels:
        yield "feature", f"one of {', '.join(known.levels)}", repr(feature)
    elif not known.has(feature, level):
        yield column, f"a level of {feature} that the catalogue has", level


def _version_name(column: str, name: str, known: Known) -> Iterator[Fault]:
    if name not in known.names:
        yield column, "the name of a metadata.version, as 4.0-IV3", repr(name)


def _release_name(column: str, name: str, known: Known) -> Iterator[Fault]:
    if name not in known.releases:
        yield column, f"one of {', '.join(known.releases)}", repr(name)


def _too_early(
    column: str, release: str, feature: str, level: int, known: Known
) -> Iterator[Fault]:
    """A new cluster cannot get a level by default before the level's own dependency is met."""
    name = known.says(release, feature, level, "default_from")
    try:
        needed = dict(pairs(known.says(release, feature, level, "dependency")))
    except ValueError:
        return  # told of the cell itself
    least = needed.get(METADATA_VERSION, 0)
    default = known.names.get(name, least)
    if default < least:
        yield (
            column,
            f"a default_from at or above what the level needs, {METADATA_VERSION}={least}",
            f"default_from {name} ({default})",
        )


def _dependency(column: str, feature: str, text: str, known: Known) -> Iterator[Fault]:
    try:
        needed = pairs(text)
    except ValueError:
        yield column, "FEATURE=LEVEL, several with ;", repr(text)
        return
    for other, least in needed:
        if not known.has(other, least):
            yield column, "a feature and level the catalogue has", f"{other}={least}"
        elif other == feature:
            yield column, f"another feature than {feature} itself", f"{other}={least}"
