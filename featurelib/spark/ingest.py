"""Landing files to bronze: keep every line once, by content, also late and damaged ones.

A file is read again only if its size or time changed; a line that bronze has is only counted. Lines
in = accepted + repeated + quarantined, or the run fails. When a crash separates the two commits,
the next run reads those files again and finds their lines repeated.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import Window as W
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from featurelib.arrow import schema_of
from featurelib.errors import LandingError, NoEvidenceError
from featurelib.faults import explaining
from featurelib.lake import place, read_quarantine
from featurelib.spark.lines import SCHEMA, parse_files
from featurelib.spark.local_files import ENDINGS, Landed, list_local, missing
from featurelib.spark.log import LOCAL, Wanted, escape
from featurelib.spark.store import Store, resolve_uri
from featurelib.tables import CHANGED, CLUSTER_SNAPSHOT, FILE, INGEST_RUN, LANDING_LINE
from featurelib.words import count

NAMES = f"*.{{{','.join(ENDINGS)}}}"
SHOWN = 5  # Maximum number of quarantined lines that are printed
MAX_FILE_BYTES = 1 << 30  # of a remote file: it reaches its worker in one piece


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestCounts:
    """The file and line counts of a run: `lines` = `accepted` + `repeated` + `quarantined`."""

    files: int = 0  # new or changed files
    lines: int = 0
    accepted: int = 0
    repeated: int = 0
    quarantined: int = 0


def ingest(store: Store, landing: str, run: int, say: Callable[[str], None]) -> IngestCounts:
    """Append new lines in `landing` to bronze; without a new file nothing is committed.

    Raises LandingError (missing, unreadable or too big), NoEvidenceError (no landing file at all),
    TableError and ConfigError (see Store), all before the first write to an existing table.
    """
    listed = list_files(store.session, landing, say)
    check_files(landing, listed)
    store.create(LANDING_LINE, INGEST_RUN)
    runs = store.fetch(INGEST_RUN, columns=["files"])
    change = store.find_lag(INGEST_RUN, LANDING_LINE) or store.find_change(
        LANDING_LINE, store.newest_commit(INGEST_RUN).get("folded")
    )
    files = drop_known(listed, runs) if change is None else listed
    if change is not None:
        _say_lost(change, listed, runs, say)
        is_changed = F.unhex(F.sha2("raw", 256)) != F.col("content_hash")
        changed = store.read(LANDING_LINE).filter(is_changed).withColumn("reason", F.lit(CHANGED))
        quarantine(store, changed.select("cluster", "line_id", "reason").distinct(), say)
    say(f"ingest: {len(files):,} new file{'' if len(files) == 1 else 's'}")
    if not files:
        return IngestCounts()
    # Each run's commit lists its files. Runs that were folded are known by their number.
    store.expect_newer(run, LANDING_LINE, CLUSTER_SNAPSHOT)
    counts = _commit(store, landing, files, run)
    bronze = store.newest_commit(LANDING_LINE).get("commit")
    of_run = {"run": run, "landing": landing, "files": [file._asdict() for file in files]}
    row = pa.Table.from_pylist([asdict(counts) | of_run], schema=schema_of(INGEST_RUN.schema))
    store.append(INGEST_RUN, row, run, folded=bronze)
    say(
        f"ingest: {counts.lines} lines = {counts.accepted} accepted + {counts.repeated} repeated "
        f"+ {counts.quarantined} quarantined"
    )
    if counts.quarantined:
        count, lines = read_quarantine(store.rows, [("run", "=", run)], SHOWN)
        for source, reason, _ in lines:  # names of files are untrusted
            say(f"ingest: quarantined {ascii(f'{source} {reason}')[1:-1]}")
        if count > SHOWN:
            hint = "… and more: bronze.landing_line holds them all, with their reasons"
            say(f"ingest: quarantined {hint}")
    return counts


def quarantine(store: Store, lines: DataFrame, say: Callable[[str], None]) -> None:
    """Quarantine lines of bronze that were accepted before. `lines`: rows (cluster, line_id,
    reason)."""
    valid = store.read(LANDING_LINE, [("reason", "is null", None)]).drop("reason")
    joined = valid.join(lines, on=["cluster", "line_id"], how="inner")
    rows = joined.select("source_file", "line_number", "reason").toArrow().to_pylist()
    if not rows:
        return
    store.set_aside(lines)
    first = ascii(min(f"{place(row)} {row['reason']}" for row in rows))[1:-1]
    say(f"warning: table bronze.landing_line: {count(len(rows), 'line')} set aside; first: {first}")


def list_files(session: SparkSession, landing: str, say: Callable[[str], None]) -> list[Landed]:
    """Return every landing file below `landing`, sorted by name, without reading it.

    Spark leaves out empty files, hidden ones, and those whose name begins with `_`; so does the
    listing of a local folder.
    """
    uri = resolve_uri(landing)
    with _say_unreadable(landing):
        if uri.startswith(LOCAL) and os.path.exists(path := uri.removeprefix(LOCAL)):
            return sorted(list_local(path, say))
        at_micros = F.unix_micros("modificationTime")
        files = _open_files(session, [uri]).select("path", "length", at_micros)
        return sorted(Landed(*row) for row in files.collect())


def check_files(landing: str, files: Sequence[Landed]) -> None:
    """Raise NoEvidenceError without a landing file, LandingError if a file is too large."""
    if not files:
        raise NoEvidenceError(
            f"landing {landing}: The folder has no files {NAMES}. Nothing was written. Put the "
            "landing files there, or use another folder with --landing."
        )
    for file in files:
        if file.size > MAX_FILE_BYTES and not file.source_file.startswith(LOCAL):
            raise LandingError(
                f"landing {file.source_file}: The file has {file.size} bytes, and {MAX_FILE_BYTES} "
                "are allowed. Nothing was written. Split the file between two lines: split -C 512m."
            )


def _say_lost(
    change: str, listed: Sequence[Landed], runs: pa.Table, say: Callable[[str], None]
) -> None:
    """Print that bronze may have lost lines, and how many landing files are missing."""
    names = set(pc.struct_field(pc.list_flatten(runs["files"]), "source_file").to_pylist())
    missing = len(names.difference(file.source_file for file in listed))
    files = f"{missing:,} file{' of earlier runs is' if missing == 1 else 's of earlier runs are'}"
    lost = f"; {files} not there any more, and cannot be" if missing else ""
    say(
        f"warning: table {LANDING_LINE.full_name}: {change}. Lines may be missing in it, so all "
        f"landing files are read again{lost}."
    )


def drop_known(listed: Sequence[Landed], runs: pa.Table) -> list[Landed]:
    """Return the files that are new or changed since `runs`."""
    of_runs = pc.list_flatten(runs["files"])
    names = pa.array([file.source_file for file in listed], pa.string())
    of_runs = of_runs.filter(pc.is_in(pc.struct_field(of_runs, "source_file"), names))
    name, size, at = (pc.struct_field(of_runs, field) for field in FILE.names)
    columns = (name.to_pylist(), size.to_pylist(), at.cast(pa.int64()).to_pylist())
    keys = set(zip(*columns, strict=True))
    return [file for file in listed if file not in keys]


def read_lines(session: SparkSession, paths: list[str]) -> DataFrame:
    """Return every line of these files, parsed or with its fault, as rows of lines.SCHEMA.

    Workers open local files themselves, in chunks; other files pass through the JVM's memory.
    """
    if all(path.startswith(LOCAL) for path in paths):
        names = {"path": paths, "content": pa.nulls(len(paths), pa.binary())}
        files = session.createDataFrame(pa.table(names))
    else:
        files = _open_files(session, paths).select("path", "content")
    return files.mapInArrow(parse_files, from_arrow_schema(SCHEMA))


def mark_repeated(lines: DataFrame, known: DataFrame) -> DataFrame:
    """Return `lines` with a column `repeated`: true if an equal line is in `known` or earlier in
    `lines`."""
    window = W.partitionBy("content_hash").orderBy("source_file", "line_number")
    until_here = window.rowsBetween(W.unboundedPreceding, W.currentRow)
    hashes = known.select("content_hash", F.lit(True).alias("seen"))
    ranked = lines.withColumn("rank", F.row_number().over(until_here))
    joined = ranked.join(hashes, on="content_hash", how="left")
    repeated = (F.col("rank") > 1) | F.col("seen").isNotNull()
    return joined.select(*lines.columns, repeated.alias("repeated"))


def known_lines(oldest: int | None, newest: int | None) -> list[list[Wanted]]:
    """Return conditions on stored lines that a line observed between these times may repeat (µs,
    UTC).

    Equal lines have equal times, so files with other times are not opened. Both bounds are null if
    no line has a time: then only lines without a time can be repeated. Lines with a fault, or about
    missing responses, may have no time.
    """
    timeless: list[Wanted] = [("observed_at", "is null", None)]
    if oldest is None:
        return [timeless]
    return [timeless, [("observed_at", ">=", oldest), ("observed_at", "<=", newest)]]


ORDER = ("cluster", "observed_at", "source_file", "line_number")


def _commit(store: Store, landing: str, files: Sequence[Landed], run: int) -> IngestCounts:
    """Commit the new lines of these files to bronze; return the counts."""
    with _say_unreadable(landing):
        # Parse lines once and store them on disk, because they may not fit into the driver's heap.
        lines = read_lines(store.session, [file.source_file for file in files])
        lines = lines.persist(StorageLevel.DISK_ONLY)
        [total] = lines.select(
            F.coalesce(F.sum("counted"), F.lit(0)).alias("counted"),  # lines by newlines
            F.coalesce(F.sum("doubled"), F.lit(0)).alias("doubled"),  # lines without a row
            F.count(F.lit(1)).alias("rows"),
            F.unix_micros(F.min("observed_at")).alias("oldest"),
            F.unix_micros(F.max("observed_at")).alias("newest"),
        ).collect()
    _expect_equal("rows parsed", total.counted, total.rows + total.doubled)
    frames = [
        store.read(LANDING_LINE, bounds).select("content_hash")
        for bounds in known_lines(total.oldest, total.newest)
    ]
    observation = Observation()
    marked = mark_repeated(lines, reduce(DataFrame.unionByName, frames)).observe(
        observation,
        F.count_if(~F.col("repeated") & F.col("reason").isNull()).alias("accepted"),
        F.count_if("repeated").alias("repeated"),
        F.count_if(~F.col("repeated") & F.col("reason").isNotNull()).alias("quarantined"),
    )
    fresh = marked.filter(~F.col("repeated")).withColumn("run", F.lit(run))
    # Sorted by cluster, lines need a quarter less space than in the order of hashes.
    store.append(LANDING_LINE, fresh.sortWithinPartitions(*ORDER), run)
    lines.unpersist()
    counted = observation.get
    counted["repeated"] += total.doubled
    counts = IngestCounts(files=len(files), lines=total.counted, **counted)
    parts = counts.accepted + counts.repeated + counts.quarantined
    _expect_equal("accepted + repeated + quarantined", counts.lines, parts)
    return counts


def _open_files(session: SparkSession, paths: list[str]) -> DataFrame:
    reader = session.read.format("binaryFile").option("recursiveFileLookup", "true")
    return reader.option("pathGlobFilter", NAMES).load([escape(path) for path in paths])


def _expect_equal(kind: str, counted: int, actual: int) -> None:
    if counted != actual:
        raise AssertionError(f"{counted} lines by their newlines, but {actual} {kind}")


@contextmanager
def _say_unreadable(landing: str) -> Iterator[None]:
    """Raise LandingError, with the message of disk or store, if the block cannot read `landing`."""
    try:
        with explaining(f"landing {landing}"):
            try:
                yield
            except FileNotFoundError as error:  # deleted after it was listed
                raise missing(landing) from error
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise missing(landing) from error
