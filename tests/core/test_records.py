"""Snapshot rows are stored and read back as they were; a damaged row spoils nothing but itself."""

from __future__ import annotations

import hashlib
import random
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
import pytest

from featurelib import schema
from featurelib.audit.audit import judge
from featurelib.audit.evidence import Conditions, Expected
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load as load_dialect
from featurelib.planning import outlook
from featurelib.rows import TableRows, make_rows
from featurelib.schema import BYTES, LAYOUT, SNAPSHOT, TEXT, TEXT_FIELDS, TIME, Kind
from featurelib.snapshot.records import MALFORMED, SET_ASIDE, Snapshots, open_row, write_rows
from featurelib.tables import CLUSTER_SNAPSHOT
from tests.core.lines import HOUR
from tests.facts import first_fact
from tests.report.samples import read_samples
from tests.rows import make, newest, some

PARTS = ("findings", "incompatible", "readiness", "plans")
STORED = [name for name in SNAPSHOT.names if name != "state"]
Row = dict[str, Any]
SEEN = datetime(2026, 11, 21, tzinfo=UTC)


@cache
def samples() -> TableRows:
    return read_samples().batch.select(STORED)


def judged(batch: TableRows) -> dict[str, dict[str, list[Row]]]:
    """What is judged of each cluster: part → rows."""
    names = samples()["cluster"].to_pylist()
    inventory = {name: Expected(brokers=(1, 77), vouched=True) for name in names[::3]}
    conditions = Conditions(as_of=newest(samples()), max_age=72 * HOUR, inventory=inventory)
    catalogue = load_catalogue()
    found = judge(batch, conditions, catalogue, load_dialect("strict"))
    outlook.with_texts(found, dialect="strict", catalogue=catalogue)
    by_cluster: dict[str, dict[str, list[Row]]] = {}
    for part in PARTS:
        for row in getattr(found, part).to_pylist():
            by_cluster.setdefault(row["cluster"], {}).setdefault(part, []).append(row)
    return by_cluster


@cache
def untouched() -> dict[str, dict[str, list[Row]]]:
    return judged(samples())


def damaged(value: Any, of: Kind, draw: random.Random) -> Any:
    """Another value of the same type: a byte more, less, or changed; another number; null."""
    if value is None:
        return {TEXT: "x", BYTES: b"x", TIME: SEEN}.get(of, 1)
    if of is TIME:
        return value.replace(microsecond=value.microsecond ^ 1)
    if of is TEXT:
        return value + "x"
    if of is not BYTES:
        return value ^ (1 << draw.randrange(31))
    changes = [value + b"\0", b"\0" + value]
    if value:
        at = draw.randrange(len(value))
        changes += [
            value[:at],
            value[:at] + bytes([value[at] ^ draw.randrange(1, 256)]) + value[at + 1 :],
        ]
    return draw.choice(changes)


@pytest.mark.parametrize("seed", range(10))
def test_any_damage_of_some_rows_is_theirs_alone_and_unknown(seed: int) -> None:
    draw, rows = random.Random(seed), samples().to_pylist()
    touched = draw.sample(range(len(rows)), 8)
    for at in touched:
        name, of = draw.choice(samples().schema.fields[1:])
        rows[at] = rows[at] | {name: damaged(rows[at][name], of, draw)}
    found = judged(make(rows, SNAPSHOT))
    names = {rows[at]["cluster"] for at in touched}
    for name, before in untouched().items():
        if name not in names:
            assert found[name] == before, name
            continue
        assert set(found[name]) == {"findings", "plans"}
        assert [row["code"] for row in found[name]["findings"]] == [MALFORMED]
        (plan,) = found[name]["plans"]
        assert (plan["verdict"], plan["steps"]) == ("UNKNOWN", [])


def test_a_row_that_rests_on_changed_lines_is_unknown_and_says_so() -> None:
    rows = samples().to_pylist()
    rows[3]["checksum"] = SET_ASIDE
    found = judged(make(rows, SNAPSHOT))[rows[3]["cluster"]]
    why = "bronze.landing_line has lines of the cluster that were quarantined later"
    assert [(row["code"], first_fact(row)) for row in found["findings"]] == [(MALFORMED, why)]
    assert [row["verdict"] for row in found["plans"]] == ["UNKNOWN"]


@pytest.mark.parametrize("row", range(26))
def test_every_byte_of_a_row_is_guarded(row: int) -> None:
    """Each byte of a row is damaged in a copy of its own."""
    [one] = some(samples(), row).to_pylist()
    copies = [
        one | {name: value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]}
        for name, value in one.items()
        if isinstance(value, bytes)
        for at in range(len(value))
    ]
    batch = make([one, *copies], SNAPSHOT)
    assert sorted(Snapshots(batch).malformed) == list(range(1, len(batch)))


def test_a_row_under_another_id_or_none_is_malformed() -> None:
    rows = samples().to_pylist()
    rows[3] |= {"cluster": None}
    rows[5] |= {"cluster": "another"}
    snapshots = Snapshots(make(rows, SNAPSHOT))
    assert sorted(snapshots.malformed) == [3, 5]
    assert (snapshots.clusters[3], snapshots.clusters[5]) == ("", "another")
    assert not snapshots.landed[[3, 5]].any()


def test_of_an_id_alone_nothing_landed() -> None:
    empty = dict.fromkeys(STORED) | {"cluster": "c"}
    snapshots = Snapshots(make([empty], SNAPSHOT))
    assert (snapshots.malformed, snapshots.landed.tolist()) == ({}, [False])
    assert snapshots.scalar("controller").tolist() == [-1]
    assert all(len(snapshots[part]) == (part == "scalars") for part in LAYOUT)
    nobody = Snapshots(make_rows(SNAPSHOT, 0, {}))
    assert (len(nobody), [len(nobody[part]) for part in LAYOUT]) == (0, [0] * len(LAYOUT))


def test_a_row_that_is_opened_and_written_is_the_same() -> None:
    for i in range(len(samples())):
        row = some(samples(), i)
        assert write_rows([open_row(row)]).select(STORED).to_pylist() == row.to_pylist()


@pytest.mark.parametrize("start", [0, 7])
def test_a_batch_has_the_records_and_texts_of_its_rows(start: int) -> None:
    batch = make(samples().to_pylist()[start : start + 12], SNAPSHOT)
    snapshots = Snapshots(batch)
    for part, of in LAYOUT.items():
        stored = [open_row(some(batch, i)) for i in range(len(batch))]
        records = snapshots[part]
        assert records.row.tolist() == [i for i, row in enumerate(stored) for _ in row.parts[part]]
        for name in of.names or ():
            values = np.concatenate([row.parts[part][name] for row in stored]).tolist()
            if name not in TEXT_FIELDS:
                assert records.field(name).tolist() == values
                continue
            lists = [getattr(stored[i], TEXT_FIELDS[name]) for i in records.row]
            texts = [None if at < 0 else some[at] for some, at in zip(lists, values, strict=True)]
            assert [records.text(name, i) for i in range(len(records))] == texts


def test_rows_of_another_layout_are_made_anew() -> None:
    """Rows of before cannot be read by another layout: whoever changes it raises the version of
    silver.cluster_snapshot, and writes both here."""
    text = repr([(part, of.descr) for part, of in LAYOUT.items()]) + repr(
        sorted(TEXT_FIELDS.items())
    )
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert (CLUSTER_SNAPSHOT.version, digest) == (12, "9c1520449ae03eeb")


@pytest.mark.parametrize("mark", ["<i1", "content", "", "time <i8", "moment"])
def test_a_field_without_a_mark_is_not_loaded(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(schema._PARTS["voters"], "follows", mark)
    said = r"snapshot\.toml \[voters\] follows: write time, line, node, name, text, or content with"
    with pytest.raises(ValueError, match=said):
        schema._stored_as("voters", "follows")


def test_every_time_and_line_of_a_row_is_marked() -> None:
    for of in schema._PARTS.values():
        for name, mark in of.items():
            assert (mark == "time") == (name == "at" or name.endswith("_at")), name
            assert (mark == "line") == (name == "line" or name.endswith("_line")), name


def test_records_are_little_endian_without_padding() -> None:
    for of in LAYOUT.values():
        assert of.itemsize == sum(of[name].itemsize for name in of.names or ())
        assert of.newbyteorder("<") == of
