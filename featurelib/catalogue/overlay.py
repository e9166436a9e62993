"""An overlay: rows of a vendor's builds laid over the catalogue, as TOML.

A row with the key of one that is there replaces it, any other is added. Whatever contradicts itself
or the catalogue is a ConfigError that names the row, before anything is judged by it. The file is
read by the entrance; here it is only text and a name for messages.

Every contradiction of rows is a value: first what a row says by itself and of others; where that
holds, what Kafka holds each release's own catalogue to (Feature.java,
validateDefaultValueAndLatestProductionValue). The package's own rows pass (a test holds it), so
what is found with an overlay is the overlay's.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace

from featurelib.catalogue.catalogue import Catalogue, Overlay, build
from featurelib.catalogue.rows import (
    TABLES,
    Cell,
    DifferenceRow,
    LevelRow,
    ReleaseFeatureRow,
    ReleaseRow,
    Row,
    Rows,
    SideEffectRow,
    VersionRow,
    key_of,
    pairs,
)
from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION

HIGHEST_LEVEL = 2**15 - 1  # int16 on the wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """A cell that does not fit the other rows; `others` are those it does not fit."""

    row: Row
    column: str
    expected: str
    found: str
    others: tuple[Row, ...] = ()


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
    is_whole = True
    for _, row in rows.every():
        for column, expected, found in _of_row(row, known):
            is_whole = False
            yield Contradiction(row=row, column=column, expected=expected, found=str(found))
    if is_whole:  # or the rest could not be worked out
        for release in rows.release:
            yield from _of_release(Own(rows, release, known))


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


class Own:
    """One release's own catalogue, as its software has it: which row says what of a level."""

    def __init__(self, rows: Rows, release: ReleaseRow, known: Known) -> None:
        self.release, self._known = release, known
        self.features = {
            row.feature: row for row in rows.release_feature if row.release == release.release
        }
        self._levels = {(row.feature, row.level): row for row in rows.feature_level}
        self._differences = [
            row for row in rows.release_difference if row.release == release.release
        ]

    def rows_of(self, feature: str, level: int) -> tuple[Row, ...]:
        """The rows that say something of a level, differences first."""
        own = [d for d in self._differences if (d.feature, d.level) == (feature, level)]
        return (*own, self._levels[feature, level])

    def needed(self, feature: str, level: int) -> list[tuple[str, int]]:
        """What a level depends on."""
        return pairs(self._known.says(self.release.release, feature, level, "dependency"))

    def default(self, feature: str, version: int) -> int:
        """The level of new clusters at a metadata.version; -1 = it does not know the feature."""
        if feature not in self.features:
            return -1
        default = 0
        newest = self.features[feature].newest_unstable
        for level in sorted(level for level in self._known.levels[feature] if 0 < level <= newest):
            name = self._known.says(self.release.release, feature, level, "default_from")
            if self._known.names[name] > version:
                break
            default = level
        return default

    def production(self, feature: str) -> int:
        """The newest production level; -1 = it does not know the feature."""
        if feature == METADATA_VERSION:
            return self.release.newest_stable
        return self.features[feature].newest_stable if feature in self.features else -1

    def versions(self) -> list[int]:
        """Every metadata.version that the release knows."""
        every = sorted(self._known.levels[METADATA_VERSION])
        return [level for level in every if level <= self.release.newest_unstable]


def _of_release(own: Own) -> Iterator[Contradiction]:
    """Kafka's own rules, which its software is held to when it is built. They let no new cluster of
    production software have a level that is not production, or that its others do not carry."""
    for feature, row in own.features.items():
        newest = own.release.newest_stable
        default = own.default(feature, newest)
        if default > row.newest_stable:
            yield Contradiction(
                row=row,
                column="newest_stable",
                expected=f"at least {default}, the level of {feature} that new clusters of "
                f"{own.release.release} get by default at metadata.version {newest}",
                found=f"{row.newest_stable}: a default that is unstable",
                others=(*own.rows_of(feature, default), own.release),
            )
        yield from _production(feature, row, own)
        yield from _defaults(feature, own)


def _production(feature: str, row: ReleaseFeatureRow, own: Own) -> Iterator[Contradiction]:
    """The newest production level needs production levels only."""
    for other, least in own.needed(feature, row.newest_stable):
        newest = own.production(other)
        if least > newest:
            found = f"{newest} in {own.release.release}" if newest >= 0 else "none"
            said = own.rows_of(feature, row.newest_stable)
            yield Contradiction(
                row=said[0],
                column="value" if isinstance(said[0], DifferenceRow) else "dependency",
                expected=f"production levels, because {feature} {row.newest_stable} is one in "
                f"{own.release.release}",
                found=f"{other}={least}: the newest production level of {other} is {found}",
                others=(*said[1:], row, own.features.get(other, own.release)),
            )


def _defaults(feature: str, own: Own) -> Iterator[Contradiction]:
    """A default needs no more of another feature than the other's default at the same
    metadata.version, named once for each level."""
    told = set()
    for version in own.versions():
        default = own.default(feature, version)
        for other, least in own.needed(feature, default):
            if other == METADATA_VERSION:
                continue  # _too_early says it
            has = own.default(other, version)
            if least > has and (default, other) not in told:
                told.add((default, other))
                said = own.rows_of(feature, default)
                yield Contradiction(
                    row=said[0],
                    column="value" if isinstance(said[0], DifferenceRow) else "dependency",
                    expected=f"at most what new clusters of {own.release.release} get by default "
                    f"at metadata.version {version}, where {feature} {default} is the default",
                    found=f"{other}={least}: the default of {other} is "
                    + (f"{has} there" if has >= 0 else "none"),
                    others=(*said[1:], own.features.get(other, own.release), own.features[feature]),
                )


# --- The file -------------------------------------------------------------------------------------

HEADER = re.compile(r"\s*\[\[\s*\"?(\w+)\"?\s*\]\]")
KINDS = {"int": int, "str": str, "bool": bool}
WORDS = {"int": "a whole number", "str": "a text", "bool": "true or false"}
Keyed = dict[tuple[str, tuple[Cell, ...]], Row]  # table and key → row
NEXT = "conf/catalogue-overlay.toml explains every table and key."


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a row of the overlay stands: for messages only."""

    name: str
    table: str
    number: int  # the how-manieth row of its table, from 1
    line: int | None

    def __str__(self) -> str:
        line = f"{self.name}:{self.line}" if self.line is not None else self.name
        return f"{line}: [[{self.table}]] number {self.number}"


def with_overlay(base: Catalogue, text: str | bytes, name: str) -> Catalogue:
    """`base` with the overlay in `text` laid over it; `base` itself if the overlay has no rows.

    Raises ConfigError, which says `name`, the line, what was expected and found, and where to read
    on, for an overlay that contradicts itself or the catalogue.
    """
    placed = _read(text, name)
    if not placed:
        return base
    once = _unique(placed)
    rows = _merge(base.rows, once)
    places = {id(row): place for place, row in placed}
    for fault in contradictions(rows):
        mine = [row for row in (fault.row, *fault.others) if id(row) in places]
        place = places[id(mine[0])] if mine else f"{name}: {_key_text(fault.row)}"
        column = f"{fault.column}: "
        if mine and mine[0] is not fault.row:  # the cell is another row's
            column = f"{_key_text(fault.row)}: {column}"
        raise ConfigError(
            f"{place}: {column}expected {fault.expected}, found {fault.found}. {NEXT}"
        )
    return build(rows, Overlay(name=name, rows=frozenset(once), digest=_digest(once)))


def _read(text: str | bytes, name: str) -> list[tuple[Place, Row]]:
    try:
        found = tomllib.loads(text if isinstance(text, str) else text.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: expected TOML, found: {error}. {NEXT}") from error
    lines = _lines(text if isinstance(text, str) else text.decode("utf-8"))
    placed = []
    for table, entries in found.items():
        if table not in TABLES:
            raise ConfigError(
                f"{name}: expected tables {', '.join(TABLES)}, found {table!r}. {NEXT}"
            )
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise ConfigError(f"{name}: expected [[{table}]], found [{table}] or a value. {NEXT}")
        at = lines.get(table, [])
        for i, entry in enumerate(entries):
            line = at[i] if len(at) == len(entries) else None
            place = Place(name=name, table=table, number=i + 1, line=line)
            placed.append((place, _row(place, entry)))
    return placed


def _lines(text: str) -> dict[str, list[int]]:
    """Table → the lines of its headers."""
    found: dict[str, list[int]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        header = HEADER.match(line)
        if header:
            found.setdefault(header[1], []).append(number)
    return found


def _row(place: Place, entry: Mapping[str, object]) -> Row:
    kind = TABLES[place.table]
    columns = {column.name: column for column in fields(kind)}
    for key, value in entry.items():
        if key not in columns:
            raise ConfigError(f"{place}: expected keys {', '.join(columns)}, found {key!r}. {NEXT}")
        wanted = str(columns[key].type)
        if type(value) is not KINDS[wanted]:
            raise ConfigError(f"{place}: {key}: expected {WORDS[wanted]}, found {value!r}. {NEXT}")
    missing = [n for n, column in columns.items() if column.default is MISSING and n not in entry]
    if missing:
        raise ConfigError(f"{place}: expected {', '.join(missing)} too, found none. {NEXT}")
    cells: dict[str, object] = {"source": f"overlay {place.name}", **entry}
    return kind(**cells)  # type: ignore[arg-type]  # types were checked above


def _unique(placed: list[tuple[Place, Row]]) -> Keyed:
    """The rows by table and key; one that stands twice must say the same twice."""
    rows: Keyed = {}
    first: dict[tuple[str, tuple[Cell, ...]], Place] = {}
    for place, row in placed:
        key = (place.table, key_of(row))
        if key in rows and rows[key] != row:
            raise ConfigError(
                f"{place}: expected one row for {_key_text(row)}, found another that says "
                f"something else ({first[key]}). Keep one of them."
            )
        first.setdefault(key, place)
        rows.setdefault(key, row)
    return rows


def _merge(base: Rows, overlay: Keyed) -> Rows:
    merged: dict[str, dict[tuple[Cell, ...], Row]] = {table: {} for table in TABLES}
    for table, row in base.every():
        merged[table][key_of(row)] = row
    for row in overlay.values():
        if isinstance(row, ReleaseRow) and row.based_on:
            for copied in _inherited(base, row):
                merged[_table_of(copied)].setdefault(key_of(copied), copied)
    for (table, key), row in overlay.items():
        merged[table][key] = row
    return Rows(**{table: tuple(rows.values()) for table, rows in merged.items()})  # type: ignore[arg-type]  # each table holds rows of its own kind


def _inherited(base: Rows, release: ReleaseRow) -> list[Row]:
    """The features and differences a vendor build has from the release it is based on."""
    shared: list[ReleaseFeatureRow | DifferenceRow] = [
        *base.release_feature,
        *base.release_difference,
    ]
    return [
        replace(row, release=release.release) for row in shared if row.release == release.based_on
    ]


def _table_of(row: Row) -> str:
    return next(table for table, kind in TABLES.items() if isinstance(row, kind))


def _key_text(row: Row) -> str:
    return ", ".join(f"{name} {getattr(row, name)}" for name in row.KEY)


def _digest(rows: Keyed) -> str:
    said = sorted(
        json.dumps([table, {**asdict(row), "source": ""}], sort_keys=True)
        for (table, _), row in rows.items()
    )
    return hashlib.sha256("\n".join(said).encode()).hexdigest()
