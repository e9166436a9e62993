"""Landing files to bronze: every line once, by content, whatever is repeated, late or damaged.

A file is read again only if its size or time changed; a line that bronze holds is counted and not
kept. Lines in = accepted + repeated + quarantined, or the run fails. When a crash separates the
two commits, the next run reads those files again and finds their lines repeated.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import Window as W
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from featurelib.errors import LandingError, NoEvidenceError
from featurelib.faults import explaining
from featurelib.spark.lines import SCHEMA, parse_files
from featurelib.spark.local_files import ENDINGS, list_local
from featurelib.spark.store import Store, Wanted, escape, resolve_uri
from featurelib.tables import CLUSTER_SNAPSHOT, INGEST_RUN, LANDING_LINE

LOCAL = "file:"
NAMES = f"*.{{{','.join(ENDINGS)}}}"
SHOWN = 5  # quarantined lines that are said at once
MAX_FILE_BYTES = 1 << 30  # of a remote file: it crosses from the JVM to its worker in one piece


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestCounts:
    """What one run read. `lines` = `accepted` + `repeated` + `quarantined`."""

    files: int = 0  # read now: new, or changed since they were read
    lines: int = 0
    accepted: int = 0
    repeated: int = 0
    quarantined: int = 0


def ingest(store: Store, landing: str, run: int, say: Callable[[str], None]) -> IngestCounts:
    """Bring what is new in `landing` into bronze; without a new file nothing is committed.

    Raises LandingError (missing, unreadable or too big), NoEvidenceError (no landing file at all),
    TableError and ConfigError (see Store), all before the first write to an existing table.
    """
    listed = list_files(store.session, landing, say)
    check_files(landing, listed.collect())
    store.create(LANDING_LINE, INGEST_RUN)
    store.expect_ahead(LANDING_LINE, INGEST_RUN)
    if store.newest_run(INGEST_RUN) is not None:
        listed = drop_known(listed, store.read(INGEST_RUN))
    # As a number: a collected timestamp would pass through the driver's own time zone.
    at = F.unix_micros("modified_at").alias("modified_at")
    listed = listed.select("source_file", "size", at)
    files = sorted(listed.collect(), key=lambda file: file.source_file)
    say(f"ingest: {len(files):,} new file{'' if len(files) == 1 else 's'}")
    if not files:
        return IngestCounts()
    # Every run that read a file committed there; and what was folded is told by its run.
    store.expect_newer(run, LANDING_LINE, CLUSTER_SNAPSHOT)
    with _say_unreadable(landing):
        # Parsed once; on disk, because a night's lines need not fit into a driver's heap.
        lines = read_lines(store.session, [file.source_file for file in files])
        lines = lines.persist(StorageLevel.DISK_ONLY)
        total = sum_lines(lines).collect()[0]
    counts = _commit_lines(store, lines, total, len(files), run)
    lines.unpersist()
    store.add(INGEST_RUN, _run_row(landing, files, counts, run), run)
    say(
        f"ingest: {counts.lines} lines = {counts.accepted} accepted + {counts.repeated} repeated "
        f"+ {counts.quarantined} quarantined"
    )
    if counts.quarantined:
        count, shown = read_quarantine(store, SHOWN, run)
        for where, reason in shown:  # a file name may hold anything
            say(f"ingest: quarantined {ascii(f'{where} {reason}')[1:-1]}")
        if count > SHOWN:
            more = "… and more: bronze.landing_line holds them all, with their reasons"
            say(f"ingest: quarantined {more}")
    return counts


def read_quarantine(
    store: Store, most: int, run: int | None = None
) -> tuple[int, list[tuple[str, str]]]:
    """How many quarantined lines bronze holds, of one run or of all, and `file:line` and reason of
    the newest run's first, `most` of all. Files without such a line are left out by their
    statistics."""
    of_run: list[Wanted] = [] if run is None else [("run", "=", run)]
    columns = ["run", "source_file", "line_number", "reason"]
    bad = store.fetch(LANDING_LINE, [*of_run, ("reason", "is not null", None)], columns)
    order = [("run", "descending"), ("source_file", "ascending"), ("line_number", "ascending")]
    first = bad.take(pc.select_k_unstable(bad, most, order)).to_pylist()
    return bad.num_rows, [(place(row), row["reason"]) for row in first]


def place(row: dict[str, Any]) -> str:
    """Where a line of bronze stood, as `file:line`."""
    return f"{row['source_file'].removeprefix('file:')}:{row['line_number']}"


def list_files(session: SparkSession, landing: str, say: Callable[[str], None]) -> DataFrame:
    """source_file, size, modified_at of every landing file below `landing`, none of it read.

    Spark leaves out empty files, hidden ones, and those whose name begins with `_`; so does what
    looks into a local folder.
    """
    uri = resolve_uri(landing)
    with _say_unreadable(landing):
        if uri.startswith(LOCAL) and os.path.isdir(folder := uri.removeprefix(LOCAL)):
            return session.createDataFrame(list_local(folder, say))
        files = _open_files(session, [uri])
    return files.select(
        F.col("path").alias("source_file"),
        F.col("length").alias("size"),
        F.col("modificationTime").alias("modified_at"),
    )


def check_files(landing: str, files: list[Row]) -> None:
    """NoEvidenceError when there is nothing to read, LandingError for a file too big to."""
    if not files:
        raise NoEvidenceError(
            f"landing {landing}: expected files {NAMES}, found none; nothing was written. "
            "Put the landing files there, or name another folder with --landing."
        )
    for file in files:
        if file.size > MAX_FILE_BYTES and not file.source_file.startswith(LOCAL):
            raise LandingError(
                f"landing {file.source_file}: expected at most {MAX_FILE_BYTES} bytes, found "
                f"{file.size}; nothing was written. Split it between two lines: split -C 512m."
            )


def drop_known(listed: DataFrame, runs: DataFrame) -> DataFrame:
    """The files that no earlier run read as they are now: source_file, size, modified_at."""
    known = runs.select(F.explode("files").alias("file")).select("file.*")
    keys = ["source_file", "size", "modified_at"]
    return listed.join(known, on=keys, how="left_anti").select(*keys)


def read_lines(session: SparkSession, paths: list[str]) -> DataFrame:
    """Every line of these files, with what is wrong with it; columns of lines.SCHEMA.

    Workers open local files themselves, in chunks; others come through the JVM's memory.
    """
    files = _open_files(session, paths)
    if all(path.startswith(LOCAL) for path in paths):
        files = files.withColumn("content", F.lit(None).cast("binary"))
    selected = files.select("path", "content")
    return selected.mapInArrow(parse_files, from_arrow_schema(SCHEMA))


def sum_lines(lines: DataFrame) -> DataFrame:
    """One row: lines by their newlines (`counted`), as `rows` and without one (`doubled`), first
    and last time in µs."""
    return lines.select(
        F.coalesce(F.sum("counted"), F.lit(0)).alias("counted"),
        F.coalesce(F.sum("doubled"), F.lit(0)).alias("doubled"),
        F.count(F.lit(1)).alias("rows"),
        F.unix_micros(F.min("observed_at")).alias("oldest"),
        F.unix_micros(F.max("observed_at")).alias("newest"),
    )


def mark_repeated(lines: DataFrame, known: DataFrame) -> DataFrame:
    """`lines` and `repeated`: its content is in `known`, or in an earlier place of `lines`.

    `known` has one row a content_hash; of equal lines the first by file and number is kept.
    """
    place = W.partitionBy("content_hash").orderBy("source_file", "line_number")
    until_here = place.rowsBetween(W.unboundedPreceding, W.currentRow)
    seen = known.select("content_hash", F.lit(True).alias("seen"))
    ranked = lines.withColumn("rank", F.row_number().over(until_here))
    joined = ranked.join(seen, on="content_hash", how="left")
    repeated = (F.col("rank") > 1) | F.col("seen").isNotNull()
    return joined.select(*lines.columns, repeated.alias("repeated"))


def select_known(bronze: DataFrame, oldest: int | None, newest: int | None) -> DataFrame:
    """content_hash of the lines that could repeat one observed between these times (µs, UTC).

    Equal lines were observed at the same time, so Delta skips the files of other nights. Both
    bounds are null when no line has a time: then only lines without one can be repeated.
    """
    at = F.col("observed_at")
    bounds = [F.timestamp_micros(F.lit(bound).cast("bigint")) for bound in (oldest, newest)]
    return bronze.filter(at.between(*bounds) | at.isNull()).select("content_hash")


def _commit_lines(store: Store, lines: DataFrame, total: Row, files: int, run: int) -> IngestCounts:
    _expect_equal("rows parsed", total.counted, total.rows + total.doubled)
    known = select_known(store.read(LANDING_LINE), total.oldest, total.newest)
    observation = Observation()
    marked = mark_repeated(lines, known).observe(
        observation,
        F.count_if(~F.col("repeated") & F.col("reason").isNull()).alias("accepted"),
        F.count_if("repeated").alias("repeated"),
        F.count_if(~F.col("repeated") & F.col("reason").isNotNull()).alias("quarantined"),
    )
    fresh = marked.filter(~F.col("repeated")).withColumn("run", F.lit(run))
    # Neighbours resemble each other: a quarter less to store than in the order of hashes.
    fresh = fresh.sortWithinPartitions("cluster", "observed_at", "source_file", "line_number")
    store.append(LANDING_LINE, fresh, run)
    found = observation.get
    found["repeated"] += total.doubled
    counts = IngestCounts(files=files, lines=total.counted, **found)
    parts = counts.accepted + counts.repeated + counts.quarantined
    _expect_equal("accepted + repeated + quarantined", counts.lines, parts)
    return counts


def _run_row(landing: str, files: list[Row], counts: IngestCounts, run: int) -> pa.Table:
    row = {
        "run": run,
        "landing": landing,
        **asdict(counts),
        "files": [file.asDict() for file in files],
    }
    return pa.Table.from_pylist([row], schema=INGEST_RUN.schema)


def _open_files(session: SparkSession, paths: list[str]) -> DataFrame:
    reader = session.read.format("binaryFile").option("recursiveFileLookup", "true")
    return reader.option("pathGlobFilter", NAMES).load([escape(path) for path in paths])


def _expect_equal(what: str, counted: int, found: int) -> None:
    if counted != found:
        raise AssertionError(f"{counted} lines by their newlines, but {found} {what}")


@contextmanager
def _say_unreadable(landing: str) -> Iterator[None]:
    """LandingError where there is nothing at `landing`; what its disk or store said, in a line."""
    try:
        with explaining(f"landing {landing}"):
            yield
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise LandingError(
            f"landing {landing}: there is no such folder or file; nothing was written. "
            "Name the folder that holds the landing files with --landing."
        ) from error
