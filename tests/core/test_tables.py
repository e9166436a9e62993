"""Every table says where it lies, what a row is and which columns are never empty, of its own."""

from __future__ import annotations

import pytest

from featurelib import tables
from featurelib.schema import DATE, FACTS, LONG, TEXT, ListOf, Schema
from featurelib.tables import ALL, FINDINGS, Table, with_run

LAYERS = {"bronze", "silver", "gold"}


def test_no_two_tables_have_one_name_or_lie_in_one_place() -> None:
    assert {table.layer for table in ALL} == LAYERS
    assert len({table.full_name for table in ALL}) == len({table.path for table in ALL}) == len(ALL)
    assert FINDINGS.full_name == "gold.finding"
    assert FINDINGS.path == "gold/finding"


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.full_name)
def test_what_a_table_says_of_its_columns_are_columns_it_has(table: Table) -> None:
    named = set(table.grain) | table.required | set(table.skip_by or ()) | set(table.sort_by)
    assert named <= set(table.schema.names)
    assert table.grain
    assert table.comment.endswith(".")
    assert len(set(table.schema.names)) == len(table.schema.names)


def test_every_column_has_a_sentence_of_its_own_table_or_of_all_and_none_is_left_over() -> None:
    said = dict(tables._sentences())  # the cached one stays
    for table in ALL:
        names = []
        for name, kind in table.schema.fields:
            rows = kind.of if isinstance(kind, ListOf) else kind
            parts = rows.names if isinstance(rows, Schema) else []
            names += [name, *(f"{name}.{part}" for part in parts)]
        assert list(table.about) == names  # parts of structs and lists, too
        facts = FACTS.names if table == FINDINGS else []
        assert set(said.pop(table.full_name, ())) <= {*names, *facts}
    every = {name for table in ALL for name in table.schema.names}
    assert said.keys() == {"columns"}
    assert said["columns"].keys() <= every
    assert all(text.endswith(".") for table in ALL for text in table.about.values())


def test_a_run_is_the_first_column() -> None:
    schema = with_run(Schema.of([("a", TEXT)]))
    assert schema.names == ["run", "run_date", "a"]
    assert (schema["run"], schema["run_date"]) == (LONG, DATE)
