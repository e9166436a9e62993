"""A malformed row of a batch never spoils what is said of the other clusters."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions, Expected
from featurelib.audit.malformed import CODE
from featurelib.audit.malformed import set_aside as look
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load as load_dialect
from featurelib.planning.night import with_texts
from featurelib.schema import PACKED, SNAPSHOT
from featurelib.snapshot.layout import UNPACKED, unpack
from featurelib.snapshot.packed import LAYOUT, pack
from tests.core.test_samples import HOUR, read_samples

PARTS = ("findings", "incompatible", "readiness", "plans")
LISTS = [name for name in UNPACKED.names if name not in ("oddities", "configs", "software")]
LISTS = [name for name in LISTS if pa.types.is_list(UNPACKED.field(name).type)]
ENDS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}
NODES = [
    "",
    "null",
    '{"version":1,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":1e400}}}',
    '{"version":1,"status":1,"features":{"f":{"min_version_level":9,"max_version_level":1'
    "000000000000000000000}}}",
    '{"version":99999999999999999999,"status":-1,"features":[]}',
    "[" * 5000,
    '{"version":2,"status":1,"features":{"\\ud800":{"max_version_level":-3}}}',
]
Row = dict[str, Any]


@cache
def samples() -> pa.RecordBatch:
    """Every sample, twice: what is corrupted has like neighbours."""
    batch = read_samples()
    names = pa.array([f"{name}-2" for name in batch.column("cluster").to_pylist()])
    again = batch.set_column(0, batch.schema.field(0), names)
    table = pa.Table.from_batches([batch, again]).combine_chunks()
    return pa.RecordBatch.from_arrays(
        [column.combine_chunks() for column in table.columns], schema=SNAPSHOT
    )


@cache
def rows() -> tuple[Row, ...]:
    return tuple(unpack(samples()).to_pylist())


def judged(batch: pa.RecordBatch) -> dict[str, dict[str, list[Row]]]:
    """What is said of each cluster: part → rows."""
    newest = max(samples().column("observed_at").cast(pa.int64()).to_pylist())
    names = samples().column("cluster").to_pylist()
    inventory = {name: Expected(brokers=(1, 77), vouched=True) for name in names[::3]}
    conditions = Conditions(as_of=newest, max_age=72 * HOUR, inventory=inventory)
    catalogue = load_catalogue()
    said = judge(batch, conditions, catalogue, load_dialect("strict"))
    with_texts(said, dialect="strict", catalogue=catalogue)
    return by_cluster(said)


def by_cluster(said: Judged) -> dict[str, dict[str, list[Row]]]:
    found: dict[str, dict[str, list[Row]]] = {}
    for part in PARTS:
        for row in getattr(said, part).to_pylist():
            found.setdefault(row["cluster"], {}).setdefault(part, []).append(row)
    return found


@cache
def untouched() -> dict[str, dict[str, list[Row]]]:
    return judged(unpack(samples()))


def expect_the_others_as_before(batch: pa.RecordBatch, touched: set[str]) -> int:
    """How many of the touched rows are said to be malformed; the others are judged as ever."""
    found = judged(batch)
    for name, said in untouched().items():
        if name not in touched:
            assert found[name] == said, name
    malformed = 0
    for name in touched:
        said = found[name]
        assert len(said["plans"]) == 1
        if CODE in {row["code"] for row in said.get("findings", [])}:
            malformed += 1
            assert set(said) == {"findings", "plans"}
            assert [row["code"] for row in said["findings"]] == [CODE]
            assert (said["plans"][0]["verdict"], said["plans"][0]["steps"]) == ("UNKNOWN", [])
    return malformed


def spoiled(value: Any, of: pa.DataType, draw: random.Random) -> Any:
    """A value of the type that nobody should have written, somewhere in `value` or in its place."""
    if draw.random() < 0.15:
        return None
    if pa.types.is_list(of):
        if not value or draw.random() < 0.2:
            return draw.choice(
                [[], (value or []) * 2, [None], [spoiled(None, of.value_type, draw)]]
            )
        at = draw.randrange(len(value))
        return [*value[:at], spoiled(value[at], of.value_type, draw), *value[at + 1 :]]
    if pa.types.is_struct(of):
        value = value or {field.name: None for field in of}
        field = draw.choice(list(of))
        return value | {field.name: spoiled(value[field.name], field.type, draw)}
    if of in ENDS:
        end = 1 << ENDS[of]
        return draw.choice([-end, end - 1, -1, -2, 0, 1, 5, 127, draw.randrange(-end, end)])
    if pa.types.is_boolean(of):
        return not value
    if pa.types.is_timestamp(of):
        return draw.choice([-1, (1 << 63) - 1, 1 << 60, 0])
    if pa.types.is_string(of):
        return draw.choice(["", "x", "a:b", "right_refused:x y", ":", "mode_unknown", *NODES])
    return value


def put(changed: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(changed, schema=UNPACKED)


@pytest.mark.parametrize("seed", range(25))
def test_any_spoiled_value_of_some_rows_is_theirs_alone(seed: int) -> None:
    draw, changed = random.Random(seed), list(rows())
    touched = draw.sample(range(len(changed)), 8)
    for at in touched:
        row = dict(changed[at])
        for _ in range(draw.randint(1, 3)):
            field = draw.choice([f for f in UNPACKED if f.name != "cluster"])
            row[field.name] = spoiled(row[field.name], field.type, draw)
        changed[at] = row
    expect_the_others_as_before(put(changed), {changed[at]["cluster"] for at in touched})


def cut(said: bytes, draw: random.Random) -> bytes:
    """Bytes that are too few, too many, or others."""
    at = draw.randrange(len(said) + 1)
    return draw.choice(
        [
            said[:at],
            said + said[:at],
            said[:at] + draw.randbytes(1) + said[at + 1 :],
            draw.randbytes(draw.randint(1, 40)),
            b"",
        ]
    )


@pytest.mark.parametrize("seed", range(25))
def test_any_broken_bytes_of_some_rows_are_theirs_alone(seed: int) -> None:
    draw, packed = random.Random(seed), samples().column("packed").to_pylist()
    touched = draw.sample(range(len(packed)), 8)
    for at in touched:
        name = draw.choice(PACKED.names)
        packed[at] = packed[at] | {name: cut(packed[at][name] or b"", draw)}
    where = SNAPSHOT.get_field_index("packed")
    batch = samples().set_column(where, SNAPSHOT.field(where), pa.array(packed, PACKED))
    names = batch.column("cluster").to_pylist()
    expect_the_others_as_before(unpack(batch), {names[at] for at in touched})


def with_value(name: str, column: str, value: object) -> pa.RecordBatch:
    return put([row | {column: value} if row["cluster"] == name else row for row in rows()])


def first(column: str, **changes: object) -> Callable[[Row], object]:
    """The column with its first entry changed."""
    return lambda row: [row[column][0] | changes, *row[column][1:]]


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("observed_at", lambda row: 1 << 60, "observed_at: expected -62135596800000000 to 2534"),
        ("log_end", lambda row: None, "log_end: expected a value, found null"),
        ("controller", lambda row: -2, "controller: expected -1 to 2147483647, found another"),
        ("profiles", lambda row: None, "profiles: expected a list, found null"),
        ("profiles", lambda row: [None], "profiles: expected a map, found null"),
        ("profiles", lambda row: [[None]], "profiles: expected an entry, found null"),
        (
            "profiles",
            lambda row: [[{"feature": "f", "min_version": -9, "max_version": -9}]] * 9,
            "profiles.min_version: expected 0 to 32767, found another number",
        ),
        ("profiles", lambda row: [], "listeners.full: expected a position in the row's profiles"),
        ("listeners", first("listeners", node_id=-1), "listeners.node_id: expected 0 to 21474836"),
        ("listeners", first("listeners", epoch=None), "listeners.epoch: expected a value, found n"),
        ("listeners", first("listeners", levels=99), "listeners.levels: expected a position in th"),
        ("witnesses", first("witnesses", levels=-1), "witnesses.levels: expected a position in th"),
        ("witnesses", first("witnesses", kind=9), "witnesses.kind: expected 0 to 4, found another"),
        ("members", first("members", members=None), "members.members: expected a list, found null"),
        ("members", first("members", role=2), "members.role: expected 0 to 1, found another numb"),
        ("voters", lambda row: [1, None], "voters: expected a value, found null"),
        ("oddities", lambda row: ["no colon"], "oddities: expected `code:detail`, found 'no col"),
        ("oddities", lambda row: ["a_word:"], "oddities: expected `code:detail`, found 'a_word:'"),
        ("oddities", lambda row: [None], "oddities: expected `code:detail`, found None"),
        ("oddities", lambda row: ["right_refused:x"], "oddities: expected `code:detail`, found 'r"),
        (
            "oddities",
            lambda row: [f"metadata_log_gap@{1 << 65},1:x"],
            "oddities: expected `code:detail`",
        ),
    ],
)
def test_what_is_wrong_is_said(column: str, value: Callable[[Row], object], text: str) -> None:
    row = next(r for r in rows() if r["listeners"] and r["witnesses"] and r["members"])
    batch = with_value(row["cluster"], column, value(row))
    assert expect_the_others_as_before(batch, {row["cluster"]}) == 1
    (found,) = judged(batch)[row["cluster"]]["findings"]
    assert found["detail"].startswith(text)


def test_a_row_without_an_id_is_judged_under_none() -> None:
    row = rows()[3]
    found = judged(with_value(row["cluster"], "cluster", None))
    assert found[""]["findings"][0]["detail"] == "cluster: expected an id, found null"
    assert set(found) == {"", *untouched()} - {row["cluster"]}


def test_broken_bytes_are_named() -> None:
    batch = samples()
    packed = batch.column("packed").to_pylist()
    listeners = packed[0]["listeners"]
    sizes = packed[1]["profile_sizes"]
    changes: dict[int, tuple[str, bytes, str]] = {
        0: ("listeners", listeners[:-1], "packed.listeners: expected whole records"),
        1: ("profile_sizes", sizes + sizes, "packed.profile_sizes: expected sizes that share out"),
        2: ("names", b"\xff", "packed.names: expected a list of texts in MessagePack"),
        3: ("names", msgspec.msgpack.encode([]), "packed.ranges: expected positions of names"),
        4: (
            "errors",
            msgspec.msgpack.encode(["x"] * 9),
            "packed.errors: expected a text in Messag",
        ),
        5: (
            "failed",
            b"\xff" * LAYOUT["failed"].itemsize,
            "packed.failed: expected positions of l",
        ),
    }
    for at, (name, said, _) in changes.items():
        packed[at] = packed[at] | {name: said}
    where = SNAPSHOT.get_field_index("packed")
    handed = unpack(batch.set_column(where, SNAPSHOT.field(where), pa.array(packed, PACKED)))
    names = batch.column("cluster").to_pylist()
    assert expect_the_others_as_before(handed, {names[at] for at in changes}) == len(changes)
    found = look(handed)[1]
    for at, (_, _, text) in changes.items():
        assert found[at].startswith(text)


def test_sound_rows_are_handed_on_as_they_are() -> None:
    batch = unpack(samples())
    assert look(batch) == (batch, {})
    columns = {name: samples().column(name) for name in LISTS}
    assert pack(columns).equals(samples().column("packed"))
