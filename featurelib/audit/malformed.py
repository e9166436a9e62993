"""Snapshot rows that cannot be judged, found before anything is worked out from them.

The columns of a batch lie in one array each, so one row's null, negative id or position beyond its
lists would be read as another cluster's. Such a row is emptied and said to be malformed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from featurelib.audit import oddities as refusals
from featurelib.audit import oddities as validations
from featurelib.audit.columns import Bool, Flat, Int, integers
from featurelib.audit.findings import wordings
from featurelib.audit.oddities import PROBED, REFUSED, Oddity
from featurelib.core.dialect import STRICT, load
from featurelib.feature import Role, Witness

CODE = "snapshot_malformed"
# Microseconds: the years 1 to 9999, as landing lines may say them.
EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
_NODE = (0, (1 << 31) - 1)
_TIME = (EARLIEST, LATEST)
_VERSION = (0, (1 << 15) - 1)
_LEVEL = (-1, (1 << 15) - 1)  # -1 = the witness cannot see it
_ROLE = (int(min(Role)), int(max(Role)))
_FLAG = (-1, 1)

# What the numbers of a row may be. A field that is not listed may be any number, but never null.
SCALARS: dict[str, tuple[int, int] | None] = {
    "quorum_at": _TIME,
    "quorum_line": None,
    "controller": (-1, _NODE[1]),
    "log_end": (0, (1 << 63) - 1),
    "log_at": _TIME,
    "migration": None,
    "features_node_at": _TIME,
    "features_node_line": None,
    "features_node_version": None,
    "zookeeper": None,
}
MAPS = {
    "profiles": dict.fromkeys(("min_version", "max_version"), _VERSION),
    "level_maps": dict.fromkeys(("min_level", "level"), _LEVEL),
}
NUMBERS: dict[str, dict[str, tuple[int, int]]] = {
    "listeners": {
        "node_id": _NODE,
        "role": _ROLE,
        **dict.fromkeys(("full_at", "partial_at", "levels_at", "failed_at"), _TIME),
    },
    "registrations": {"node_id": _NODE, "role": _ROLE, "fenced": _FLAG, "at": _TIME},
    "witnesses": {"kind": (int(min(Witness)), int(max(Witness))), "at": _TIME},
    "members": {"role": _ROLE, "at": _TIME},
    "configs": {"node_id": _NODE, "role": _ROLE, "at": _TIME},
    "software": {"node_id": _NODE, "role": _ROLE, "at": _TIME},
}
# Positions in the row's own lists: the field, the list, and the lowest that means something else.
POSITIONS = {
    "listeners": (
        ("full", "profiles", -1),
        ("partial", "profiles", -1),
        ("levels", "level_maps", -1),
    ),
    "registrations": (("profile", "profiles", -2),),
    "witnesses": (("levels", "level_maps", 0),),
}
# featurelib.audit.oddities writes an entry; what some of them say has a form of its own.
_ODDITY: Final = re.compile(r"(?P<code>\w+)(?:@(?P<place>-?\d+,-?\d+))?:(?P<detail>.*)", re.DOTALL)
_READERS: Final[dict[str, Callable[[Oddity], object]]] = {
    REFUSED: refusals.read_refusal,
    PROBED: validations.read_probe,
}
_MAY_BE_NULL = frozenset({"error", "value"})
_MAY_BE_LEFT_OUT = frozenset({"configs", "software"})  # by releases that had no such column
_EMPTY: dict[str, object] = {
    "controller": -1,
    "migration": -1,
    "features_node_version": -1,
    "zookeeper": False,
}
Fault = tuple[Int, str]  # rows, and what is wrong with them


def set_aside(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, str]]:
    """`batch` (featurelib.schema.SNAPSHOT) with its malformed rows emptied, and by row what is
    wrong: the column, what was expected and what was found.

    An emptied row keeps its cluster, and says nothing.
    """
    found: dict[int, str] = {}
    for rows, text in _faults(batch):
        for row in rows.tolist():
            found.setdefault(row, text)
    if not found:
        return batch, found
    names = batch.column("cluster").fill_null("")
    bad = np.zeros(batch.num_rows, dtype=bool)
    bad[list(found)] = True
    keep = np.where(bad, batch.num_rows, np.arange(batch.num_rows))
    columns = [
        names
        if field.name == "cluster"
        else pa.concat_arrays([column, _nothing(field)]).take(pa.array(keep))
        for field, column in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema), found


def _nothing(field: pa.Field) -> pa.Array:
    """The column's value in the row of a cluster of which nothing landed."""
    if pa.types.is_list(field.type):
        return pa.array([[]], field.type)
    if pa.types.is_integer(field.type) or pa.types.is_boolean(field.type):
        return pa.array([_EMPTY.get(field.name, 0)], field.type)
    return pa.nulls(1, field.type)


def _faults(batch: pa.RecordBatch) -> Iterator[Fault]:
    yield _where(batch.column("cluster")), "cluster: expected an id, found null"
    observed = batch.column("observed_at").cast(pa.int64()).fill_null(0)  # null = nothing landed
    yield from _of_numbers("observed_at", observed, np.arange(batch.num_rows), _TIME)
    yield from _of_oddities(batch.column("oddities"))
    for name, ends in SCALARS.items():
        yield from _of_numbers(name, batch.column(name), np.arange(batch.num_rows), ends)
    counts = {}
    for name, numbers in MAPS.items():
        yield _where(batch.column(name)), f"{name}: expected a list, found null"
        outer = Flat(batch.column(name))
        counts[name] = outer.lengths
        yield outer.row[_where(outer.values)], f"{name}: expected a map, found null"
        inner = Flat(outer.values)
        yield from _of_structs(name, inner, outer.row[inner.row], numbers)
    for name, numbers in NUMBERS.items():
        if name not in _MAY_BE_LEFT_OUT:
            yield _where(batch.column(name)), f"{name}: expected a list, found null"
        flat = Flat(batch.column(name))
        yield from _of_structs(name, flat, flat.row, numbers)
        for field, of, least in POSITIONS.get(name, ()):
            text = f"{name}.{field}: expected a position in the row's {of}, found none that is one"
            yield _outside(flat.child(field), flat.row, least, counts[of][flat.row] - 1), text
    members = Flat(batch.column("members"))
    yield (
        members.row[_where(members.child("members"))],
        "members.members: expected a list, found null",
    )
    listed = Flat(members.child("members"))
    ends_of = {"node_id": _NODE, "fenced": _FLAG}
    yield from _of_structs("members.members", listed, members.row[listed.row], ends_of)
    for name in ("voters", "observers"):
        yield _where(batch.column(name)), f"{name}: expected a list, found null"
        flat = Flat(batch.column(name))
        yield from _of_numbers(name, flat.values, flat.row, _NODE)


def _of_oddities(column: pa.Array) -> Iterator[Fault]:
    """Nearly no row has any. One that says itself that the row is malformed tells what is."""
    yield _where(column), "oddities: expected a list, found null"
    flat = Flat(column)
    for row, text in zip(flat.row.tolist(), flat.values.to_pylist(), strict=True):
        found = _ODDITY.fullmatch(text or "")
        if found and found["code"] == CODE:
            yield np.array([row]), found["detail"]
        elif not (found and _is_readable(found)):
            yield np.array([row]), f"oddities: expected `code:detail`, found {text!r}"


def _is_readable(found: re.Match[str]) -> bool:
    """Whether an oddity has words, its place is one, and what it says can be taken apart."""
    code, place = found["code"], found["place"]
    at, line = map(int, (place or "0,0").split(","))
    if not (EARLIEST <= at <= LATEST and -(1 << 63) <= line < 1 << 63):
        return False
    if code in _READERS:
        try:
            _READERS[code](Oddity(code=code, detail=found["detail"]))
        except ValueError:
            return False
        return True
    return code in wordings(load(STRICT))


def _of_structs(
    name: str, flat: Flat, row: Int, numbers: dict[str, tuple[int, int]] | None = None
) -> Iterator[Fault]:
    """Null structs and fields, and numbers beyond their ends; `row` is of each entry."""
    yield row[_where(flat.values)], f"{name}: expected an entry, found null"
    for field in flat.values.type:
        column = flat.child(field.name)
        if field.name in _MAY_BE_NULL or pa.types.is_list(field.type):
            continue
        yield from _of_numbers(f"{name}.{field.name}", column, row, (numbers or {}).get(field.name))


def _of_numbers(
    name: str, column: pa.Array, row: Int, ends: tuple[int, int] | None
) -> Iterator[Fault]:
    yield row[_where(column)], f"{name}: expected a value, found null"
    if ends is not None:
        low, high = ends
        outside = _outside(column, row, low, high)
        yield outside, f"{name}: expected {low} to {high}, found another number"


def _outside(column: pa.Array, row: Int, low: int, high: int | Int) -> Int:
    """The rows of numbers below `low` or above `high`; nulls are told apart before."""
    if len(column) == 0:
        return row[:0]
    values = integers(column.fill_null(low) if column.null_count else column)
    hit: Bool = (values < low) | (values > high)
    return row[hit]


def _where(column: pa.Array) -> Int:
    """The positions of nulls."""
    if column.null_count == 0:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
