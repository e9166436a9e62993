"""Transform DataFrames of landing lines into DataFrames of verdicts, for notebooks and pipelines.

Input: a DataFrame of landing lines, as `spark.read.text(folder)` gives it, or with a column `raw`.
Output: the verdicts, findings and plans that the nightly writes to gold, and the two relations
behind them. The nightly itself is made of the same functions.

    lines ─ parse ─ accepted ─ fold_frame ─ snapshots ─┬─ supported_ranges ─┐
                 └─ quarantined                        ├─ finalized_levels ─┴─ incompatible
                                                       └─ audit ─ clusters, readiness, findings, …

All functions are lazy: they write no table, change no session setting and collect no row at the
driver. They use only methods of Spark Connect. Easy to get wrong: each action on a result reads the
lines again, so persist what several actions use (`audit(lines).persist()`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from featurelib import arrow, tables
from featurelib.audit import gold
from featurelib.audit.columns import latest
from featurelib.audit.evidence import Conditions, Evidence, read
from featurelib.audit.evidence import finalized_levels as _finalized
from featurelib.audit.evidence import supported_ranges as _supported
from featurelib.audit.findings import NO_SITE
from featurelib.catalogue import Catalogue
from featurelib.catalogue import load as load_catalogue
from featurelib.config.fleet import Fleet
from featurelib.config.settings import Settings
from featurelib.core.dialect import STRICT
from featurelib.core.dialect import load as load_dialect
from featurelib.errors import InputError
from featurelib.feature import METADATA_VERSION, SILENT_METADATA_VERSION
from featurelib.landing.line import ZNODE
from featurelib.rows import TableRows
from featurelib.schema import FINALIZED_LEVEL, SNAPSHOT, SUPPORTED_RANGE, Schema
from featurelib.spark.folding import FOLDED, LATE, SORTED, fold_batches
from featurelib.spark.judging import CELLS, CORE_COLUMNS, judge_as_of, judged_in
from featurelib.spark.lines import SCHEMA, limit_of, line_column, parse_lines, wrong_lines

_LINE = ["content_hash", "line_id", "kind", "cluster", "observed_at", "reason", "raw"]
_AS_OF = "as_of"  # the column of the time to judge as of, microseconds
_TEXT_TYPES, _NUMBERS = (T.StringType, T.BinaryType), (T.ShortType, T.IntegerType, T.LongType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """The landing lines, split by the parser.

    Both have the columns content_hash, line_id, kind, cluster, observed_at, reason and raw.
    `accepted` has no reason; in `quarantined`, `reason` is the fault of the line.
    """

    accepted: DataFrame
    quarantined: DataFrame


def parse(lines: DataFrame) -> Parsed:
    """Parse landing lines: JSON in `value` or `raw`, as text or bytes, one per row.

    Every row is returned, accepted or quarantined. Raises InputError for other columns.
    """
    parsed = _parsed(lines).select(*_LINE)
    is_accepted = F.col("reason").isNull()
    return Parsed(accepted=parsed.where(is_accepted), quarantined=parsed.where(~is_accepted))


def snapshots(lines: DataFrame, as_of: datetime | str | None = None) -> DataFrame:
    """Fold landing lines into one row per cluster: featurelib.schema.SNAPSHOT.

    Lines dated more than five minutes after `as_of` (None if no limit) wait: the row has only their
    number. Its binary columns are for the audit. Raises InputError.
    """
    limit = limit_of(as_of)
    is_late = F.unix_micros("observed_at") > (LATE if limit is None else latest(limit))
    entries = entries_of(_parsed(lines), F.when(is_late, LATE).otherwise(1))
    return fold_frame(entries, learns=False).select(*SNAPSHOT.names)


def entries_of(lines: DataFrame, run: Column) -> DataFrame:
    """Return lines as folding.ENTRY: accepted lines, damaged znode lines, and changed lines, which
    invalidate their cluster."""
    reason = F.col("reason")
    state = F.when(reason.isNotNull(), F.lit(b"")).alias("state")
    usable = reason.isNull() | (F.col("kind") == ZNODE) | (reason == tables.CHANGED)
    usable_lines = lines.where(F.col("cluster").isNotNull() & usable)
    return usable_lines.select(run.cast("bigint").alias("run"), "cluster", "line_id", "raw", state)


def fold_frame(entries: DataFrame, learns: bool) -> DataFrame:
    """Combine the landing lines in `entries` to one row per cluster with its state. `learns`:
    include the new history rows."""
    fold = partial(fold_batches, learns=learns)
    gathered = entries.repartition("cluster").sortWithinPartitions(*SORTED)
    return gathered.mapInArrow(fold, from_arrow_schema(FOLDED)).select(*FOLDED.names)


def supported_ranges(lines: DataFrame, as_of: datetime | str | None = None) -> DataFrame:
    """Return the ranges of each registered node, as the audit reads them: SUPPORTED_RANGE.

    Grain: cluster, role, node_id, feature. `as_of` None means the time of the newest line; evidence
    more than 72 hours older is left out. Raises InputError.
    """
    return _relation(_supported, SUPPORTED_RANGE, lines, as_of)


def finalized_levels(lines: DataFrame, as_of: datetime | str | None = None) -> DataFrame:
    """Return the finalized levels of each cluster with their source: FINALIZED_LEVEL.

    Grain: cluster, feature. A cluster without a trustworthy source has no row. `as_of` as in
    supported_ranges. Raises InputError.
    """
    return _relation(_finalized, FINALIZED_LEVEL, lines, as_of)


def incompatible(supported: DataFrame, finalized: DataFrame) -> DataFrame:
    """Join supported ranges with finalized levels: every node that a finalized level excludes.

    `supported` has cluster, node_id, feature, min_version, max_version, and may have role (default:
    broker). `finalized` has cluster, feature, level, and may have min_level. Both may have any
    origin, a row per node and feature, and per cluster and feature. A feature that a node does not
    list means 0-0 (KIP-584), metadata.version 1; a range without an end excludes nothing. Returns
    cluster, role, node_id, feature, finalized_level, min_version, max_version. Raises InputError.
    """
    supported = _expect("supported", supported, SUPPORTED_RANGE, {"role": F.lit("broker")})
    finalized = _expect("finalized", finalized, FINALIZED_LEVEL, {"min_level": F.col("level")})
    node = ["cluster", "role", "node_id"]
    ranges = supported.select(*node, "feature", "min_version", "max_version")
    ranges = ranges.withColumn("is_listed", F.lit(True))
    levels = finalized.where(F.col("level") > 0).select("cluster", "feature", "min_level", "level")
    silent = F.when(F.col("feature") == METADATA_VERSION, SILENT_METADATA_VERSION).otherwise(0)
    lowest = F.least("min_level", "level")
    excludes = (lowest < F.col("min_version")) | (F.col("level") > F.col("max_version"))
    return (
        supported.select(*node)
        .distinct()
        .join(levels, on="cluster", how="inner")
        .join(ranges, on=[*node, "feature"], how="left")
        .where(F.when(F.col("is_listed"), excludes).otherwise(F.col("level") > silent))
        .select(*node, "feature", F.col("level").alias("finalized_level"), *_ENDS)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(gold.Results[DataFrame]):
    """The result of an audit: one DataFrame per gold table, without the column `run`."""

    judged: DataFrame  # a row per batch of clusters: its tables as Arrow streams

    def persist(self) -> Audit:
        """Keep the judgements in Spark's cache, so that several actions judge only once."""
        self.judged.persist()
        return self

    def unpersist(self) -> None:
        """Release the data in Spark's cache."""
        self.judged.unpersist()


def audit(
    lines: DataFrame,
    fleet: Fleet | None = None,
    as_of: datetime | str | None = None,
    settings: Settings | None = None,
    catalogue: Catalogue | None = None,
    landing: str = NO_SITE.landing,
    listed_in: str = NO_SITE.inventory,
) -> Audit:
    """Audit the clusters of a DataFrame of landing lines, and those that `fleet` expects.

    The verdicts, findings and plans are those of a first nightly on the same lines. `as_of` (a
    datetime or ISO-8601, UTC unless it says otherwise; None means the newest line's time) decides
    which evidence is too old or from the future. `settings` holds ages, severities and mutes;
    `catalogue` is the packaged one with or without an overlay. `landing`, the landing folder, and
    `listed_in`, the inventory's file, stand in the commands of findings. Raises InputError."""
    inventory, rules = fleet or Fleet(), settings or Settings()
    known, entries = catalogue or load_catalogue(), inventory.cluster
    rows = _with_as_of(snapshots(lines, as_of), lines, as_of, [entry.id for entry in entries])
    judge = partial(_judge, inventory, rules, catalogue)
    cells = rows.mapInArrow(judge, from_arrow_schema(CELLS)).select(*CELLS.names)
    made = {}
    for name, table in gold.RESULTS.items():
        schema = arrow.schema_of(table.audited)
        unpack = partial(_unpack, table, inventory, known, (landing, listed_in))
        rows = cells.mapInArrow(unpack, from_arrow_schema(schema))
        made[name] = rows.select(*schema.names)
    return Audit(judged=cells, **made)


def create_views(session: SparkSession, root: str) -> None:
    """Create the views of views.sql: permanent in a catalog's schema, otherwise temporary."""
    from featurelib.spark.store import Store  # workers import this module, but not deltalake

    store = Store(session, root)
    kind, prefix = ("VIEW", f"{root}.") if store.is_named else ("TEMP VIEW", "")
    queries = {table.name_in_schema: f"SELECT * FROM {store.in_sql(table)}" for table in tables.ALL}
    for name, query in (({} if prefix else queries) | tables.views()).items():
        placed = re.sub(r"\b(?=(silver|gold|latest)_)", prefix, query)
        session.sql(f"CREATE OR REPLACE {kind} {prefix}{name} AS {placed}")


_ENDS = ["min_version", "max_version"]
_Batches = Iterable[pa.RecordBatch]


def _relation(
    relation: Callable[[Evidence], TableRows],
    schema: Schema,
    lines: DataFrame,
    as_of: datetime | str | None,
) -> DataFrame:
    rows = _with_as_of(snapshots(lines, as_of), lines, as_of)
    conditions = Conditions(as_of=0, max_age=Settings().max_age)
    relate = partial(_relate, relation, conditions)
    return rows.mapInArrow(relate, from_arrow_schema(arrow.schema_of(schema))).select(*schema.names)


def _with_as_of(
    rows: DataFrame,
    lines: DataFrame,
    as_of: datetime | str | None,
    expected: list[str] | None = None,
) -> DataFrame:
    """Return snapshot rows (columns CORE_COLUMNS) with the time of the judgement. An expected
    cluster without lines gets a row without evidence."""
    rows = rows.select(*CORE_COLUMNS)
    if expected:
        ids = [(cluster,) for cluster in expected]
        inventory = rows.sparkSession.createDataFrame(ids, "cluster string")
        rows = rows.join(F.broadcast(inventory), on="cluster", how="full")
    moment = limit_of(as_of)
    if moment is not None:
        return rows.withColumn(_AS_OF, F.lit(moment))
    newest = F.coalesce(F.max(F.unix_micros("observed_at")), F.lit(0)).alias(_AS_OF)
    return rows.crossJoin(F.broadcast(parse(lines).accepted.agg(newest)))


def _judge(
    fleet: Fleet, settings: Settings, catalogue: Catalogue | None, batches: _Batches
) -> Iterator[pa.RecordBatch]:
    for batch, as_of in _dated(batches):
        yield from judge_as_of(as_of, fleet, settings, catalogue)([batch])


def _relate(
    relation: Callable[[Evidence], TableRows], conditions: Conditions, batches: _Batches
) -> Iterator[pa.RecordBatch]:
    absent = load_dialect(STRICT).can.absent_metadata_version
    for batch, moment in _dated(batches):
        of_moment = replace(conditions, as_of=moment)
        yield arrow.batch_of(relation(read(arrow.rows_of(batch, SNAPSHOT), of_moment, absent)))


def _dated(batches: _Batches) -> Iterator[tuple[pa.RecordBatch, int]]:
    for batch in batches:
        if batch.num_rows:
            yield batch, batch.column(_AS_OF)[0].as_py()


def _unpack(
    table: tables.Table,
    fleet: Fleet,
    catalogue: Catalogue,
    places: tuple[str, str],
    batches: _Batches,
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield arrow.batch_of(gold.rows_of(table, judged_in(batch), fleet, catalogue, places))


def _parsed(lines: DataFrame) -> DataFrame:
    """Parse the landing lines of a DataFrame to rows of lines.SCHEMA. Raises InputError without a
    column of lines."""
    kinds = {field.name: field.dataType for field in lines.schema}
    name = line_column(name for name, kind in kinds.items() if isinstance(kind, _TEXT_TYPES))
    if name is None:
        raise wrong_lines(_columns_of(lines), "Read files with spark.read.text(folder).")
    raw = lines.select(F.col(name).cast("binary").alias("raw"))
    return raw.mapInArrow(parse_lines, from_arrow_schema(SCHEMA))


def _expect(
    argument: str, frame: DataFrame, schema: Schema, defaults: Mapping[str, Column]
) -> DataFrame:
    """Return the frame with missing default columns added. Raises InputError with the expected
    schema."""
    needed = [name for name in schema.names if name not in ("observed_at", "epoch", "source")]
    kinds = {field.name: field.dataType for field in frame.schema}
    wrong = [name for name in needed if name not in kinds and name not in defaults]
    for name in needed:
        types = _TEXT_TYPES[:1] if schema[name] == "string" else _NUMBERS
        if name in kinds and not isinstance(kinds[name], types):
            wrong.append(name)
    if wrong:
        columns = ", ".join(f"{n} {'string' if schema[n] == 'string' else 'int'}" for n in needed)
        raise InputError(
            f"`{argument}` has no usable column {', '.join(wrong)}. Needed are: {columns}. "
            f"{_columns_of(frame)}"
        )
    missing = {name: column for name, column in defaults.items() if name not in kinds}
    return frame.withColumns(missing) if missing else frame


def _columns_of(frame: DataFrame) -> str:
    have = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema)
    return f"The DataFrame has: {have or 'no column'}."
