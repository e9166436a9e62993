"""The SQL of docs/how-to/sql.md, over the three nights of the samples: Spark and DuckDB agree."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "sql.md").read_text("utf-8")
BLOCKS = dict(re.findall(r'```\w+ title="(\w+)(?:\.\w+)?"\n(.*?)```', PAGE, re.DOTALL))
SETUP = ("spark", "tables", "newest")
ASKED = [name for name in BLOCKS if name not in SETUP]
Rows = list[tuple[Any, ...]]
Ask = Callable[[str], Rows]


@pytest.fixture(scope="module")
def tables(checkout: Path) -> str:
    return str(checkout / "build" / "samples" / "tables")


@pytest.fixture(scope="module")
def ask_spark(session: SparkSession, tables: str) -> Ask:
    for statement in _statements("spark", tables) + _statements("newest", tables):
        session.sql(statement)
    return lambda query: [tuple(row) for row in session.sql(query).collect()]


@pytest.fixture(scope="module")
def ask_duckdb(tables: str) -> Ask:
    exec(BLOCKS["tables"].replace("TABLES", tables), {})  # the page's own example
    for statement in _statements("newest", tables):
        duckdb.sql(statement)
    return lambda query: duckdb.sql(query).fetchall()


def _statements(name: str, tables: str) -> list[str]:
    return [one for one in BLOCKS[name].replace("TABLES", tables).split(";") if one.strip()]


@pytest.mark.parametrize("name", ASKED)
def test_each_question_has_one_answer(name: str, ask_spark: Ask, ask_duckdb: Ask) -> None:
    found = ask_spark(BLOCKS[name])
    assert found == ask_duckdb(BLOCKS[name])
    assert found or name == "ready_for_long"  # three nights are not fourteen


def test_there_are_ten_questions_and_their_answers_are_right(ask_duckdb: Ask) -> None:
    assert len(ASKED) == 11  # and how to narrow them
    rows = {name: ask_duckdb(BLOCKS[name]) for name in ASKED}
    assert [row[0] for row in rows["critical"]] == ["zk-282-ignored-broker"]
    assert ("not-landed", None) in [(row[0], row[3]) for row in rows["silent"]]
    assert "unregister" in {row[0]: row[5] for row in rows["ghosts"]}["ghost-broker"]
    nights = {row[0] for row in rows["adoption"]}
    assert len(nights) == len(rows["verdicts"]) == 3
    waits = BLOCKS["ready_for_long"].replace("14 DAYS", "1 DAYS")
    since = {(row[0], row[6]) for row in ask_duckdb(waits)}
    assert ("k37-forgotten", date(2026, 11, 19)) in since
    assert "payments" in {row[0] for row in rows["findings_by_owner"]}
    assert {"ghost-broker"} <= {row[0] for row in rows["new_findings"]}
