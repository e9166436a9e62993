"""An overlay: rows of a vendor's builds laid over the catalogue, as TOML.

A row with the key of one that is there replaces it, any other is added. Whatever contradicts itself
or the catalogue is a ConfigError that names the row, before anything is judged by it. The file is
read by the entrance; here it is only text and a name for messages.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace

from featurelib.catalogue.catalogue import Catalogue, Overlay, build
from featurelib.catalogue.checks import contradictions
from featurelib.catalogue.rows import (
    TABLES,
    Cell,
    DifferenceRow,
    ReleaseFeatureRow,
    ReleaseRow,
    Row,
    Rows,
    key_of,
)
from featurelib.errors import ConfigError

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
