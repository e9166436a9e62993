"""The Spark library: what its DataFrames say is what the nightly writes and what the core says."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from chispa.dataframe_comparer import assert_df_equality
from hypothesis import HealthCheck, Phase, assume, given, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import featurelib
from featurelib import spark as fl
from featurelib import tables
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.config.settings import Settings
from featurelib.errors import InputError
from featurelib.spark.auditing import audit
from featurelib.spark.refine import refine
from featurelib.spark.store import Store
from featurelib.tables import Table
from tests.core.lines import AS_OF, lines_of, microseconds
from tests.core.random_clusters import kraft, zookeeper
from tests.spark.nights import ROOT, RUN, put_bronze, sample_lines

pytestmark = pytest.mark.spark

GOLD = {
    "clusters": tables.CLUSTERS,
    "readiness": tables.FEATURE_READINESS,
    "incompatible_brokers": tables.INCOMPATIBLE_BROKERS,
    "findings": tables.FINDINGS,
    "plans": tables.UPGRADE_PLANS,
    "nodes": tables.NODES,
}
SILENT = "a cluster that sent nothing"
FLEET = Fleet(cluster=(FleetEntry(id=SILENT, name="silent", brokers=(1,)),))
PLACES = {"landing": "/data/landing", "listed_in": "/etc/fleet.toml"}  # for commands
RANDOM = settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink by Spark jobs takes hours
    suppress_health_check=[*HealthCheck],
)


class Lines(list[bytes]):
    """Landing lines that print as their number."""

    def __repr__(self) -> str:
        return f"<{len(self)} landing lines>"


@st.composite
def fleets(draw: st.DrawFn) -> Lines:
    """Landing lines of some forty random clusters of both modes."""
    kinds = draw(st.lists(st.sampled_from((kraft, zookeeper)), min_size=30, max_size=40))
    clusters = [draw(kind(name=f"{kind.__name__}{i}")) for i, kind in enumerate(kinds)]
    return Lines(line for cluster in clusters for line in lines_of(cluster))


def frame_of(session: SparkSession, lines: list[bytes]) -> DataFrame:
    """The lines as spark.read.text gives them."""
    return session.createDataFrame([(line.decode(),) for line in lines], "value string")


def nightly_of(
    store: Store, lines: list[bytes], as_of: int | None, fleet: Fleet = FLEET
) -> dict[str, DataFrame]:
    """The gold tables that a first nightly writes, by name of the library's table, without run."""
    put_bronze(store, RUN, lines)
    refine(store, lambda _: None, as_of=as_of)
    places = (*PLACES.values(), None)
    audit(store, fleet, Settings(), run=RUN, as_of=as_of, say=lambda _: None, places=places)
    return {name: store.read(table).drop(*tables.OF_RUN) for name, table in GOLD.items()}


def same(found: DataFrame, expected: DataFrame, table: Table) -> None:
    """Hold two frames of one table against each other, whatever the order of their rows."""
    order = [name for name in table.grain if name != "run"]
    assert_df_equality(
        found.orderBy(*order), expected.orderBy(*order), ignore_nullable=True, ignore_metadata=True
    )


def test_an_audit_of_a_frame_is_the_nightly_s_gold(session: SparkSession, store: Store) -> None:
    lines = sample_lines()
    expected = nightly_of(store, lines, None)
    result = fl.audit(frame_of(session, lines), fleet=FLEET, **PLACES).persist()
    for name, table in GOLD.items():
        same(getattr(result, name), expected[name], table)
    assert result.clusters.where(f"cluster = '{SILENT}'").count() == 1
    for place in PLACES.values():
        assert result.findings.where(F.col("command").contains(place)).count() > 0
    texts = pa.table({"value": [line.decode() for line in lines]})
    plain = featurelib.audit(texts, fleet=FLEET, **PLACES)
    for name, table in GOLD.items():
        order = [(column, "ascending") for column in table.grain if column != "run"]
        rows = getattr(result, name).toArrow().sort_by(order).to_pylist()
        assert getattr(plain, name).sort_by(order).to_pylist() == rows, name
    result.unpersist()


@RANDOM
@given(lines=fleets())
def test_an_audit_of_a_random_fleet_is_the_nightly_s_gold(
    session: SparkSession, tmp_path_factory: pytest.TempPathFactory, lines: Lines
) -> None:
    as_of = microseconds(AS_OF)
    store = Store(session, str(tmp_path_factory.mktemp("random")))
    expected = nightly_of(store, lines, as_of)
    moment = datetime.fromtimestamp(as_of / 1e6, UTC)
    result = fl.audit(frame_of(session, lines), fleet=FLEET, as_of=moment, **PLACES).persist()
    for name, table in GOLD.items():
        same(getattr(result, name), expected[name], table)
    result.unpersist()


@RANDOM
@given(lines=fleets())
def test_the_join_finds_the_brokers_that_the_core_finds(
    session: SparkSession, lines: Lines
) -> None:
    frame, as_of = frame_of(session, lines), datetime.fromtimestamp(microseconds(AS_OF) / 1e6, UTC)
    supported, finalized = fl.supported_ranges(frame, as_of), fl.finalized_levels(frame, as_of)
    joined = fl.incompatible(supported, finalized)
    expected = fl.audit(frame, as_of=as_of).incompatible_brokers.select(*joined.columns)
    assume(expected.count() > 0)
    same(joined, expected, tables.INCOMPATIBLE_BROKERS)


def test_two_flat_tables_of_somebody_else_are_enough(session: SparkSession) -> None:
    ranges = "cluster string, node_id int, feature string, min_version int, max_version int"
    supported = session.createDataFrame(
        [("c", 1, "f", 1, 3), ("c", 2, "f", 2, 5), ("c", 3, "g", 1, 1), ("d", 1, None, None, None)],
        ranges,
    )
    levels = "cluster string, feature string, level long"
    finalized = session.createDataFrame([("c", "f", 5), ("c", "g", 0), ("d", "f", 1)], levels)
    joined = fl.incompatible(supported, finalized).orderBy("cluster", "node_id")
    assert [tuple(row) for row in joined.collect()] == [
        ("c", "broker", 1, "f", 5, 1, 3),
        ("c", "broker", 3, "f", 5, None, None),  # it lists no f: 0-0
        ("d", "broker", 1, "f", 1, None, None),  # it lists nothing
    ]


def test_lines_that_are_broken_are_quarantined_and_none_is_lost(session: SparkSession) -> None:
    lines = [*sample_lines("k33-fresh"), b"", b"{", b'{"kind":1}']
    parsed = fl.parse(frame_of(session, lines))
    assert parsed.accepted.count() == len(lines) - 3
    assert [row.raw for row in parsed.quarantined.collect()] == [bytearray(b) for b in lines[-3:]]
    assert parsed.quarantined.where("reason is null").count() == 0


def test_an_audit_without_lines_has_the_clusters_that_are_expected(session: SparkSession) -> None:
    empty = frame_of(session, [])
    assert fl.audit(empty).readiness.count() == 0
    [row] = fl.audit(empty, fleet=FLEET).clusters.collect()
    assert (row.cluster, row.name, row.verdict) == (SILENT, "silent", "UNKNOWN")


@pytest.mark.parametrize(
    ("rows", "schema", "wanted"),
    [
        ([(1,)], "line int", "needs a column `value` or `raw`"),
        ([(1,)], "value int", "The DataFrame has: value int."),
        ([("x",)], "text string", "Read files with spark.read.text(folder)."),
    ],
)
def test_a_frame_of_something_else_is_refused_with_what_is_needed(
    session: SparkSession, rows: list[tuple[object]], schema: str, wanted: str
) -> None:
    with pytest.raises(InputError) as error:
        fl.audit(session.createDataFrame(rows, schema))
    assert wanted in str(error.value)


def test_relations_of_another_form_are_refused_with_the_form_that_is_needed(
    session: SparkSession,
) -> None:
    levels = session.createDataFrame([("c", "f", 1)], "cluster string, feature string, level int")
    with pytest.raises(InputError) as error:
        fl.incompatible(levels, levels)
    assert "`supported` has no usable column node_id, min_version, max_version" in str(error.value)
    named = levels.withColumnRenamed("level", "finalized")
    supported = session.createDataFrame(
        [("c", "1", "f", 1, 1)],
        "cluster string, node_id string, feature string, min_version int, max_version int",
    )
    with pytest.raises(InputError, match="no usable column node_id"):
        fl.incompatible(supported, levels)
    with pytest.raises(InputError, match="`finalized` has no usable column level"):
        fl.incompatible(supported.withColumn("node_id", supported.node_id.cast("int")), named)
    with pytest.raises(InputError, match="as_of 'tomorrow' is no time"):
        fl.audit(session.createDataFrame([("",)], "value string"), as_of="tomorrow")


def test_the_page_s_examples_run(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "how-to" / "spark-dataframes.md").read_text("utf-8")
    names: dict[str, object] = {"spark": session}
    for title, block in re.findall(r'```python title="(\w+)"\n(.*?)```', page, re.DOTALL):
        exec(compile(block, title, "exec"), names)
    printed = capsys.readouterr().out
    assert "|payments|broker|      1|metadata.version|             27|" in printed
    assert "logs-prod-ap|" in printed
