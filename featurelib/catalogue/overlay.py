"""Add the rows of a vendor's builds, an overlay in TOML, to the catalogue.

A row with the key of another replaces that row; any other row is added. A contradiction in the
overlay, or with the catalogue, is a ConfigError that names the row. The checks are first of a row
itself and its references, then Kafka's own rules for each release's catalogue (Feature.java,
validateDefaultValueAndLatestProductionValue).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from featurelib.catalogue.catalogue import (
    Catalogue,
    Overlay,
    ReleaseCatalogue,
    build,
    release_catalogues,
)
from featurelib.catalogue.rows import (
    TABLES,
    Cell,
    DifferenceRow,
    LevelRow,
    ReleaseFeatureRow,
    ReleaseRow,
    Row,
    Rows,
    VersionRow,
    key_of,
    pairs,
)
from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION
from featurelib.words import msgspec_fault, toml_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """A value that contradicts the other rows `others`."""

    row: Row
    column: str
    expected: str
    found: str
    others: tuple[Row, ...] = ()


def contradictions(rows: Rows) -> Iterator[Contradiction]:
    """Yield every contradiction in the rows of a catalogue."""
    rows_known, is_whole = _Known(rows), True
    for _, row in rows.every():
        for is_fit, column, expected, value in _checks(row, rows_known):
            if not is_fit:
                is_whole = False
                yield Contradiction(row=row, column=column, expected=expected, found=str(value))
    if is_whole:  # if rows are missing, a release cannot be built
        by_release = {software.release: software for software in release_catalogues(rows)}
        for row in rows.release:
            yield from _of_release(by_release[row.release], row, rows)


Check = tuple[bool, str, str, object]  # (true if the cell is valid; column, expected, found)


class _Known:
    """The names that a catalogue's rows define, with checks that references use only these."""

    def __init__(self, rows: Rows) -> None:
        self.names: dict[
            str, int
        ] = {}  # metadata.version by name; of two equal names the first counts
        self.levels: dict[str, set[int]] = {METADATA_VERSION: set()}
        self.releases = [row.release for row in rows.release]
        # Release ("" = the level's own row), feature, level and column of facts about levels.
        self.cells: dict[tuple[str, str, int, str], str] = {}
        for version in rows.metadata_version:
            self.names.setdefault(version.name, version.level)
            self.levels[METADATA_VERSION].add(version.level)
        for row in rows.feature_level:
            self.levels.setdefault(row.feature, set()).add(row.level)
            for column in ("default_from", "dependency"):
                self.cells["", row.feature, row.level, column] = getattr(row, column)
        for other in rows.release_difference:
            self.cells[other.release, other.feature, other.level, other.what] = other.value

    def has(self, feature: str, level: int) -> bool:
        return level in self.levels.get(feature, ())

    def version(self, column: str, name: str) -> Check:
        expected = "the name of a metadata.version, as 4.0-IV3"
        return name in self.names, column, expected, repr(name)

    def release(self, column: str, name: str) -> Check:
        return name in self.releases, column, f"one of {', '.join(self.releases)}", repr(name)

    def level(self, column: str, feature: str, level: int) -> Check:
        if feature not in self.levels:
            return False, "feature", f"one of {', '.join(self.levels)}", repr(feature)
        expected = f"a level of {feature} that the catalogue has"
        return self.has(feature, level), column, expected, level

    def dependency(self, column: str, feature: str, text: str) -> Iterator[Check]:
        try:
            needed = pairs(text)
        except ValueError:
            yield False, column, "FEATURE=LEVEL, several with ;", repr(text)
            return
        for other, least in needed:
            expected = f"another feature than {feature} itself"
            if not self.has(other, least):
                expected = "a feature and level the catalogue has"
            is_fit = self.has(other, least) and other != feature
            yield is_fit, column, expected, f"{other}={least}"

    def late_enough(self, column: str, release: str, feature: str, level: int) -> Check:
        """Return the check that a level is a default only from a metadata.version that meets its
        dependency."""
        name, text = (
            self.cells.get(
                (release, feature, level, name), self.cells.get(("", feature, level, name), "")
            )
            for name in ("default_from", "dependency")
        )
        try:
            least = dict(pairs(text)).get(METADATA_VERSION, 0)
        except ValueError:
            least = 0  # the column `dependency` has its own check
        default = self.names.get(name, least)
        expected = f"a default_from at or above what the level needs, {METADATA_VERSION}={least}"
        return default >= least, column, expected, f"default_from {name} ({default})"


def _checks(row: Row, tables: _Known) -> Iterator[Check]:
    """Yield the checks of one row: its own values, and its references to other rows."""
    match row:
        case VersionRow():
            is_fit = tables.names[row.name] == row.level
            yield is_fit, "name", "a name that no other metadata.version has", repr(row.name)
        case LevelRow():
            expected = "a feature (levels of metadata.version are [[metadata_version]])"
            is_fit = row.feature != METADATA_VERSION
            yield is_fit, "feature", expected, row.feature
            is_fit = not is_fit or tables.has(row.feature, 0)
            yield is_fit, "level", f"a row for level 0 of {row.feature} too", row.level
            yield tables.version("default_from", row.default_from)
            yield tables.release("stable_since", row.stable_since)
            yield from tables.dependency("dependency", row.feature, row.dependency)
            yield tables.late_enough("default_from", "", row.feature, row.level)
        case ReleaseRow():
            if row.based_on:
                yield tables.release("based_on", row.based_on)
            ends = {
                column: getattr(row, column)
                for column in ("oldest_metadata_version", "newest_stable", "newest_unstable")
            }
            for column, level in (ends | {"oldest_bootstrap": row.oldest_bootstrap}).items():
                is_fit = tables.has(METADATA_VERSION, level)
                yield is_fit, column, "a metadata.version of the catalogue", level
            low, stable, newest = ends.values()
            yield low <= stable <= newest, "newest_stable", f"from {low} to {newest}", stable
            is_fit = row.oldest_bootstrap <= newest
            yield is_fit, "oldest_bootstrap", f"at most {newest}", row.oldest_bootstrap
        case ReleaseFeatureRow():
            yield tables.release("release", row.release)
            for column in ("newest_stable", "newest_unstable"):
                yield tables.level(column, row.feature, getattr(row, column))
            expected = f"at most newest_unstable, {row.newest_unstable}"
            is_fit = row.newest_stable <= row.newest_unstable
            yield is_fit, "newest_stable", expected, row.newest_stable
        case DifferenceRow():
            yield from _of_difference(row, tables)
        case _:  # level 0 is not finalized; metadata.version is never an opt-in feature
            if row.feature == METADATA_VERSION:
                yield False, "feature", f"another feature than {METADATA_VERSION}", row.feature
            else:
                yield tables.level("level", row.feature, row.level)
            yield row.level != 0, "level", "a level above 0", row.level
            is_fit = row.what.strip() != ""
            yield is_fit, "what", "what the level changes, in words", repr(row.what)
            is_fit = row.key != "" or not row.from_controller
            expected = "the configuration that the controller's value is written to"
            yield is_fit, "key", expected, repr(row.key)


def _of_difference(row: DifferenceRow, tables: _Known) -> Iterator[Check]:
    yield tables.release("release", row.release)
    yield tables.level("level", row.feature, row.level)
    of_metadata = row.feature == METADATA_VERSION
    allowed = ("loses_metadata_below",) if of_metadata else ("default_from", "dependency")
    if row.what not in allowed:
        yield False, "what", f"{' or '.join(allowed)} for {row.feature}", repr(row.what)
    elif of_metadata:
        yield row.value in ("true", "false"), "value", '"true" or "false"', repr(row.value)
    else:
        if row.what == "default_from":
            yield tables.version("value", row.value)
        else:
            yield from tables.dependency("value", row.feature, row.value)
        yield tables.late_enough("value", row.release, row.feature, row.level)


def _of_release(own: ReleaseCatalogue, release: ReleaseRow, rows: Rows) -> Iterator[Contradiction]:
    """Yield violations of Kafka's rules in one release: defaults are production levels, and all
    levels are consistent."""
    by_feature = {row.feature: row for row in rows.release_feature if row.release == own.release}
    differences = [row for row in rows.release_difference if row.release == own.release]
    versions = sorted(row.level for row in rows.metadata_version)
    versions = versions[: versions.index(own.newest_unstable) + 1]

    def saying(feature: str, level: int) -> list[DifferenceRow | LevelRow]:
        """Return the rows about one level. Rows about differences between releases come first."""
        sources: list[DifferenceRow | LevelRow] = [*differences, *rows.feature_level]
        return [row for row in sources if (row.feature, row.level) == (feature, level)]

    for feature, row in by_feature.items():
        default = own.default(feature, own.newest_stable)
        if default > row.newest_stable:
            yield Contradiction(
                row=row,
                column="newest_stable",
                expected=f"at least {default}, the level of {feature} that new clusters of "
                f"{own.release} get by default at metadata.version {own.newest_stable}",
                found=f"{row.newest_stable}: a default that is unstable",
                others=(*saying(feature, default), release),
            )
        unstable = _needs_unstable(own, feature, row.newest_stable)
        early = _needs_more_than_defaults(own, feature, versions)
        for level, other, expected, actual in (*unstable, *early):
            first, *rows_before = saying(feature, level)
            yield Contradiction(
                row=first,
                column="value" if isinstance(first, DifferenceRow) else "dependency",
                expected=expected,
                found=actual,
                others=(*rows_before, row, by_feature.get(other, release)),
            )


Unmet = tuple[int, str, str, str]  # (the level, the other feature, expected, found)


def _needs_unstable(software: ReleaseCatalogue, feature: str, level: int) -> Iterator[Unmet]:
    """Yield the production levels that depend on an unstable level."""
    for need in software.needs(feature, level):
        newest = max(software.known_levels(need.other, unstable=False), default=None)
        if newest is None or need.least > newest:
            newest_text = "none" if newest is None else f"{newest} in {software.release}"
            expected = f"production levels, because {feature} {level} is one in {software.release}"
            actual = f"the newest production level of {need.other} is {newest_text}"
            yield level, need.other, expected, f"{need.other}={need.least}: {actual}"


def _needs_more_than_defaults(
    software: ReleaseCatalogue, feature: str, versions: list[int]
) -> Iterator[Unmet]:
    """Yield each default level whose dependency is above the other feature's default at the same
    metadata.version."""
    features = set()
    for version in versions:
        level = software.default(feature, version)
        for need in software.needs(feature, level):
            known = need.other in software.features
            default = software.default(need.other, version) if known else -1
            if need.least > default and need.other != METADATA_VERSION and need not in features:
                features.add(need)
                expected = (
                    f"at most what new clusters of {software.release} get by default at "
                    f"metadata.version {version}, where {feature} {level} is the default"
                )
                actual = f"the default of {need.other} is {f'{default} there' if known else 'none'}"
                yield level, need.other, expected, f"{need.other}={need.least}: {actual}"


Keyed = dict[tuple[str, tuple[Cell, ...]], Row]  # (table, key) → row
NEXT = "conf/catalogue-overlay.toml explains every table and key."


def with_overlay(base: Catalogue, text: str | bytes, name: str) -> Catalogue:
    """Return `base` with the overlay in `text` added.

    Raises ConfigError for an overlay that contradicts itself or the catalogue, with `name`, line,
    and expected and actual value."""
    placed = _read(text, name)
    if not placed:
        return base
    once = _unique(placed)
    rows = _merge(base.rows, once)
    places = {id(row): index for index, _, row in placed}
    for fault in contradictions(rows):
        overlay_rows = [row for row in (fault.row, *fault.others) if id(row) in places]
        index = places[id(overlay_rows[0])] if overlay_rows else f"{name}: {_key_text(fault.row)}"
        column = f"{fault.column}: "
        if overlay_rows and overlay_rows[0] is not fault.row:  # the fault is in another row
            column = f"{_key_text(fault.row)}: {column}"
        raise ConfigError(
            f"{index}: {column}expected {fault.expected}, found {fault.found}. {NEXT}"
        )
    return build(rows, Overlay(name=name, rows=frozenset(once), digest=_digest(once)))


def _read(text: str | bytes, name: str) -> list[tuple[str, str, Row]]:
    """Return (place in messages, table, row) of an overlay file's rows. Raises ConfigError."""
    try:
        content = text if isinstance(text, str) else text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: the file is no text in UTF-8. {NEXT}") from error
    source = f"overlay {name}"

    def place(table: str, index: int) -> str:
        return f"{name}{toml_line(content, table, index)}: [[{table}]] number {index + 1}"

    try:
        rows = msgspec.toml.decode(content, type=Rows)
    except msgspec.MsgspecError as error:
        table, index, fault = msgspec_fault(error)
        raise ConfigError(f"{place(table, index) if table else name}: {fault}. {NEXT}") from error
    return [
        (place(table, i), table, msgspec.structs.replace(row, source=row.source or source))
        for table in TABLES
        for i, row in enumerate(getattr(rows, table))
    ]


def _unique(placed: list[tuple[str, str, Row]]) -> Keyed:
    """Return (table, key) → row. Raises ConfigError if two rows with one key differ."""
    first: dict[tuple[str, tuple[Cell, ...]], tuple[str, Row]] = {}
    for position, table, row in placed:
        earlier, duplicate = first.setdefault((table, key_of(row)), (position, row))
        if duplicate != row:
            raise ConfigError(
                f"{position}: {earlier} has another row for {_key_text(row)} with different "
                "values. Keep one of the two rows."
            )
    return {key: row for key, (_, row) in first.items()}


def _merge(base: Rows, overlay: Keyed) -> Rows:
    merged: Keyed = {(table, key_of(row)): row for table, row in base.every()}
    shared = (ReleaseFeatureRow, DifferenceRow)
    for build_ in overlay.values():
        if isinstance(build_, ReleaseRow) and build_.based_on:  # a vendor's build has its base's
            for table, row in base.every():
                if isinstance(row, shared) and row.release == build_.based_on:
                    copied = msgspec.structs.replace(row, release=build_.release)
                    merged.setdefault((table, key_of(copied)), copied)
    merged |= overlay
    tables = {name: tuple(r for (t, _), r in merged.items() if t == name) for name in TABLES}
    return Rows(**tables)  # type: ignore[arg-type]  # each table has rows of its own type


def _key_text(row: Row) -> str:
    return ", ".join(f"{name} {getattr(row, name)}" for name in row.KEY)


def _digest(rows: Keyed) -> str:
    texts = sorted(
        json.dumps([table, {**msgspec.structs.asdict(row), "source": ""}], sort_keys=True)
        for (table, _), row in rows.items()
    )
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
