"""What the core is handed packed is what stands beside it for people, of any rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.built_rows import build_rows
from benchmarks.facts import Shape, draw
from featurelib.schema import PACKED, SNAPSHOT
from featurelib.snapshot.layout import UNPACKED, unpack
from featurelib.snapshot.packed import LAYOUT, pack
from tests.core import scale
from tests.core.test_samples import read_samples

LISTS = [name for name in UNPACKED.names if name not in ("oddities", "configs", "software")]
LISTS = [name for name in LISTS if pa.types.is_list(UNPACKED.field(name).type)]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
LIMITS = {
    pa.int8(): st.integers(-(1 << 7), (1 << 7) - 1),
    pa.int16(): st.integers(-(1 << 15), (1 << 15) - 1),
    pa.int32(): st.integers(-(1 << 31), (1 << 31) - 1),
    pa.int64(): st.one_of(st.just(0), st.integers(-(1 << 63), (1 << 63) - 1)),
    pa.bool_(): st.booleans(),
    pa.string(): TEXTS,
}


def values(of: pa.DataType) -> st.SearchStrategy[object]:
    """Any value of a column of this type that is never null; only `error` may be."""
    if pa.types.is_list(of):
        return st.lists(values(of.value_type), max_size=3)
    if pa.types.is_struct(of):
        said = {field.name: values(field.type) for field in of}
        if "error" in said:
            said["error"] = st.none() | TEXTS
        return st.fixed_dictionaries(said)
    return LIMITS[of]


def put_lists(lists: list[dict[str, object]]) -> pa.RecordBatch:
    """Rows of SNAPSHOT with these lists, packed; everything else is null."""
    columns = {
        name: pa.array([row[name] for row in lists], SNAPSHOT.field(name).type) for name in LISTS
    }
    columns["packed"] = pack(columns)
    return pa.RecordBatch.from_arrays(
        [columns.get(f.name, pa.nulls(len(lists), f.type)) for f in SNAPSHOT], schema=SNAPSHOT
    )


ROWS = st.lists(
    st.fixed_dictionaries({name: values(SNAPSHOT.field(name).type) for name in LISTS}), max_size=4
)


@settings(deadline=None, max_examples=scale.some(60))
@given(ROWS, st.integers(0, 4), st.integers(0, 4))
def test_unpacked_is_what_was_packed(rows: list[dict[str, object]], start: int, size: int) -> None:
    batch = put_lists(rows).slice(start, size)
    handed = batch.drop_columns([*LISTS, "state"])
    assert unpack(handed).equals(batch.select(UNPACKED.names))


@pytest.mark.parametrize("fleet", ["samples", "few", "many"])
def test_packed_equals_nested_in_the_rows_that_are_written(fleet: str) -> None:
    if fleet == "samples":
        batches = [read_samples()]
    else:
        batches = list(build_rows(draw(Shape(clusters=30, nodes=8, features=12, profiles=fleet))))
    for batch in batches:
        assert unpack(batch).equals(batch.select(UNPACKED.names))


def test_without_a_word_all_lists_are_empty() -> None:
    empty: dict[str, object] = {name: [] for name in LISTS}
    batch = put_lists([empty, empty])
    handed = batch.set_column(batch.schema.get_field_index("packed"), "packed", pa.nulls(2, PACKED))
    assert unpack(handed).equals(batch.select(UNPACKED.names))


def test_records_are_little_endian_without_padding() -> None:
    for of in LAYOUT.values():
        sizes = [np.dtype(of[name]).itemsize for name in of.names or ()]
        assert of.itemsize == sum(sizes)
        assert of.newbyteorder("<") == of
    assert [*LAYOUT, "errors", "names"] == sorted(
        PACKED.names, key=[*LAYOUT, "errors", "names"].index
    )
