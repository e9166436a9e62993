"""The SQL of docs/how-to/sql.md, over thirty runs of the samples: three engines agree."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from featurelib.spark import create_views
from featurelib.tables import ALL, GOLD, views

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "sql.md").read_text("utf-8")
BLOCKS = dict(re.findall(r'```\w+ title="(\w+)(?:\.\w+)?"\n(.*?)```', PAGE, re.DOTALL))
SETUP = ("spark", "duckdb", "polars")
ASKED = [name for name in BLOCKS if name not in SETUP]
Rows = list[tuple[Any, ...]]
Ask = Callable[[str], Rows]


@pytest.fixture(scope="module")
def tables(checkout: Path) -> str:
    return str(checkout / "build" / "samples" / "tables")


def example(name: str, **given: object) -> dict[str, Any]:
    """Run an example of the page, with the names that it takes for given; return all its names."""
    names = dict(given)
    exec(BLOCKS[name], names)
    return names


@pytest.fixture(scope="module")
def ask_spark(session: SparkSession, tables: str) -> Ask:
    example("spark", spark=session, tables=tables)
    return lambda query: [tuple(row) for row in session.sql(query).collect()]


@pytest.fixture(scope="module")
def ask_duckdb(tables: str) -> Ask:
    example("duckdb", tables=tables)
    return lambda query: duckdb.sql(query).fetchall()


@pytest.fixture(scope="module")
def ask_polars(tables: str) -> Ask:
    sql = example("polars", tables=tables)["sql"]
    return lambda query: list(sql.execute(query, eager=True).rows())


VIEWS = [f"SELECT count(*) FROM {name}" for name in views()]


@pytest.mark.parametrize("query", [*map(BLOCKS.get, ASKED), *VIEWS], ids=[*ASKED, *views()])
def test_each_question_has_one_answer_in_spark_duckdb_and_polars(
    query: str, ask_spark: Ask, ask_duckdb: Ask, ask_polars: Ask
) -> None:
    found = ask_duckdb(query)
    assert ask_polars(query) == found
    assert ask_spark(query) == found
    assert found


def test_views_show_the_newest_run_and_what_nodes_support_beside_what_is_finalized(
    ask_duckdb: Ask,
) -> None:
    for table in GOLD:
        [(view, of_run)] = ask_duckdb(
            f"SELECT (SELECT count(*) FROM latest_{table.name}), count(*) FROM "
            f"{table.name_in_schema} WHERE run = (SELECT max(run) FROM gold_audit_run)"
        )
        assert view == of_run > 0
    [(rows, nodes)] = ask_duckdb(
        "SELECT count(*), count(DISTINCT (cluster, role, node_id)) FROM supported_vs_finalized"
    )
    assert rows > nodes > 40
    misfits = ask_duckdb(
        "SELECT name, role, node_id, feature FROM supported_vs_finalized AS s "
        "JOIN latest_cluster AS c ON s.cluster = c.cluster WHERE NOT fits"
    )
    found = {(name, role, node) for name, role, node, _ in misfits}
    assert found == {("payments-prod-eu", "broker", 5)}


def test_tables_and_views_of_nodes_are_joined_by_one_word(ask_duckdb: Ask) -> None:
    by = "USING (cluster, role, node_id)"
    answered = "SELECT DISTINCT cluster, role, node_id FROM latest_node_advertisement"
    strangers = ask_duckdb(f"SELECT * FROM ({answered}) AS a ANTI JOIN latest_node AS n {by}")
    assert strangers == []
    silent = ask_duckdb(
        "SELECT c.name, n.role, n.node_id, n.stale FROM latest_node AS n JOIN latest_cluster AS c "
        f"USING (cluster) ANTI JOIN ({answered}) AS a {by}"
    )
    assert silent
    [(nodes, processes)] = ask_duckdb(
        "SELECT (SELECT sum(nodes) FROM latest_upgrade_plan), "
        "count(DISTINCT (cluster, node_id)) FROM latest_node"
    )
    assert nodes == processes


def test_views_of_a_catalog_are_kept_in_its_schema(session: SparkSession, tables: str) -> None:
    session.sql("CREATE SCHEMA spark_catalog.analysts")
    for table in ALL:
        rows = session.read.format("delta").load(f"{tables}/{table.path}")
        rows.write.format("delta").saveAsTable(f"analysts.{table.name_in_schema}")
    create_views(session, "spark_catalog.analysts")
    shown = session.sql("SHOW VIEWS IN analysts").collect()
    assert {row.viewName for row in shown if not row.isTemporary} == set(views())
    assert session.table("analysts.latest_cluster").count() == 12
    session.sql("DROP SCHEMA spark_catalog.analysts CASCADE")


def test_there_are_ten_questions_and_their_answers_are_right(ask_duckdb: Ask) -> None:
    assert len(ASKED) == 11  # and how to narrow them
    rows = {name: ask_duckdb(BLOCKS[name]) for name in ASKED}
    assert {row[0] for row in rows["critical"]} == {"payments-prod-eu"}
    assert "logs-prod-ap" in {row[0] for row in rows["silent"]}
    assert "unregister" in {row[0]: row[5] for row in rows["stale_nodes"]}["orders-prod-us"]
    nights = {row[0] for row in rows["adoption"]}
    assert len(nights) == len(rows["verdicts"]) == 30
    since = {(row[0], row[6]) for row in rows["ready_for_long"]}
    assert ("billing-prod-us", date(2026, 11, 9)) in since
    assert "payments" in {row[0] for row in rows["findings_by_owner"]}
    assert {"fraud-prod"} <= {row[0] for row in rows["new_findings"]}
