"""Make, check, read, append and maintain the Delta tables, for one run at a time.

Every table is checked before it is used: one of a newer release, or with another schema, is refused
before anything is written. One of an earlier release is read with null in the columns it lacks, and
gets them when it is written to. Columns of a later release stay, and are null in new rows. A commit
belongs to a run, has its number, and is made once. Of two runs one wins (hold.py).

Spark's workers write the files of a table; deltalake reads its log and commits, where Spark starts
jobs. Tables of a catalog are Spark's, by their names. Why: docs/decisions/0021-one-road.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from featurelib import arrow
from featurelib.errors import BusyError, ConfigError, NoEvidenceError, TableError
from featurelib.faults import damaged, explaining, in_a_line
from featurelib.lake import VERSION_PROPERTY, is_outdated
from featurelib.rows import TableRows
from featurelib.spark import log
from featurelib.spark.hold import HoldingRun, Lease, telling
from featurelib.spark.local_files import local_path
from featurelib.spark.log import LOCAL, CatalogLog, Head, Mode, PathLog, Rows, Wanted
from featurelib.tables import AUDIT_RUN, CHANGED, GOLD, LANDING_LINE, Table, is_name

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# Operations of other writers that do not change any row.
KEEPS_ROWS = re.compile(
    "OPTIMIZE|VACUUM|SET |UNSET |ADD |CHANGE |UPGRADE |CLUSTER |CREATE |REORG|ROW TRACKING"
)
RETENTION_DAYS = 90  # longer than an approval can be valid


class Store:
    """The tables at one URI, or in one schema of a catalog."""

    def __init__(self, session: SparkSession, root: str) -> None:
        """Open the store. Raises ConfigError if Spark does not know the schema."""
        self.session = session
        self.is_named = is_name(root)
        self.root = root if self.is_named else resolve_uri(root)
        # The folder of the tables' files; "" if the catalog does not show it.
        self.folder = find_schema(session, root) if self.is_named else self.root
        self._options = log.storage_options(session, self.folder)
        self._logs: dict[Table, PathLog | CatalogLog] = {}
        self._made: set[str] = set()  # tables that already have this release's form
        self._checked: dict[Table, Head] = {}
        self._runs: dict[str, int] = {}  # table → its newest run at the last read
        self._lease: Lease | None = None  # set while this run holds the tables

    def path(self, table: Table) -> str:
        """Return the URI of a table, or its name in the catalog."""
        return f"{self.root}{f'.{table.name_in_schema}' if self.is_named else f'/{table.path}'}"

    def in_sql(self, table: Table) -> str:
        """Return the quoted name of the table for SQL."""
        return self._log(table).name

    def exists(self, table: Table) -> bool:
        return self._head(table) is not None

    def create(self, *tables: Table) -> None:
        """Check existing tables and create missing ones."""
        heads = [
            (table, self._head(table)) for table in tables if table.full_name not in self._made
        ]
        self._expect_fit()
        for table, head in heads:
            with explaining(self.path(table)):
                if head is None or is_outdated(table, head.properties, self.path(table)):
                    self._log(table).create(_properties(table), replace=head is not None)
                elif changed := _new_properties(table, head):
                    self._log(table).set(changed)
            self._made.add(table.full_name)

    def check(self, table: Table) -> Head:
        """Return a table's newest commit. Raises NoEvidenceError if the table does not exist."""
        head = self._head(table)
        if head is None:
            raise NoEvidenceError(
                f"table {table.full_name}: there is none at {self.path(table)}. "
                "Run the job that writes it first: nightly, or ingest, refine, audit in turn."
            )
        return head

    def read(self, table: Table, conditions: Sequence[Wanted] = ()) -> DataFrame:
        """Return the rows of a table that meet all `conditions`."""
        self._expect_readable(table)
        frame = self._log(table).frame(conditions)
        rows = frame.to(log.row_schema(table))  # by names at every depth; missing ones are null
        for condition in conditions:
            rows = rows.filter(log.as_column(table, condition))
        return rows

    def fetch(
        self,
        table: Table,
        conditions: Sequence[Wanted] = (),
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Read rows into an Arrow table in the driver. `columns`: None = all."""
        names = list(columns or table.schema.names)
        table_log = self._log(table)
        if isinstance(table_log, PathLog):
            self._expect_readable(table)
            if (rows := table_log.open().fetch(conditions, names)) is not None:
                return rows
        # Spark infers other types for times, and other nullability.
        types = arrow.schema_of(table.schema.select(names))
        return self.read(table, conditions).select(*names).toArrow().cast(types)

    def rows(
        self, table: Table, conditions: Sequence[Wanted] = (), columns: Sequence[str] | None = None
    ) -> TableRows:
        """Read rows of a table as TableRows. `columns`: None = all."""
        schema = table.schema.select(columns or table.schema.names)
        return arrow.rows_of(self.fetch(table, conditions, columns), schema)

    def _expect_readable(self, table: Table) -> None:
        if is_outdated(table, self.check(table).properties, self.path(table)):
            raise NoEvidenceError(
                f"table {table.full_name} at {self.path(table)}: an earlier featurelib wrote it "
                "in another form. Run nightly, or refine: both rebuild it from bronze."
            )

    def append(self, table: Table, rows: Rows, run: int, folded: str | None = None) -> int:
        """Append the rows of one run in one commit; return the new version. `folded`: the id of the
        commit from which the rows were made."""
        return self._write(table, rows, run, "append", folded)

    def overwrite(self, table: Table, rows: Rows, run: int, folded: str | None = None) -> int:
        """Replace all rows by those of one run in one commit; return the new version."""
        return self._write(table, rows, run, "overwrite", folded)

    def set_aside(self, lines: DataFrame) -> None:
        """Quarantine accepted lines of bronze in one commit; `lines` has rows of (cluster, line_id,
        reason).

        A CHANGED line gets another hash: the original line is not in bronze.
        """
        run = self.newest_run(LANDING_LINE) or 0
        is_changed = F.col("reason") == CHANGED
        lines.withColumn("is_changed", is_changed).createOrReplaceTempView("aside")
        merge = f"""
            MERGE INTO {self.in_sql(LANDING_LINE)} AS line USING aside
            ON line.cluster = aside.cluster AND line.line_id = aside.line_id
            AND line.reason IS NULL
            WHEN MATCHED THEN UPDATE SET reason = aside.reason, content_hash = if(
                aside.is_changed, unhex(sha2(concat(line.content_hash, line.raw), 256)),
                line.content_hash)
        """
        self._expect_fit()
        self.session.conf.set(USER_METADATA, _note(LANDING_LINE, run, None))
        try:
            with explaining(self.path(LANDING_LINE)):
                self.session.sql(merge)
        finally:
            self.session.conf.unset(USER_METADATA)
            self.session.catalog.dropTempView("aside")

    def version(self, table: Table) -> int:
        """Return the version of the newest commit of a table."""
        return self.check(table).version

    def newest_run(self, table: Table) -> int | None:
        """Return the newest run that wrote the table; None without run or table."""
        return head.run if (head := self._head(table)) is not None else None

    def newest_commit(self, table: Table) -> dict[str, Any]:
        """Return featurelib's newest note in the table; {} without note. `commit`: its id;
        `folded`: the commit from which the rows were made."""
        commits = head.commits() if (head := self._head(table)) is not None else ()
        return next(filter(None, (log.read_note(note) for _, _, note in commits)), {})

    def find_change(self, table: Table, since: str | None = None) -> str | None:
        """Return a text about how another writer changed the table's rows after the commit `since`
        (None: after featurelib's newest commit); None if there is no row changed.

        A table without the commit `since` is an older copy, or was restored.
        """
        if (head := self._head(table)) is None:
            return None
        for version, operation, note in head.commits():
            if values := log.read_note(note):
                if since in (None, values.get("commit")):
                    return None
            elif KEEPS_ROWS.match(operation) is None:
                return f"another writer changed it ({operation} in version {version})"
        return since and "it is an older copy, without the rows that the last run read"

    def find_lag(self, last: Table, table: Table) -> str | None:
        """Return a text that `table` lacks runs of `last`; None if it does not. `last` is written
        after `table`."""
        newest_last, newest = self.newest_run(last) or 0, self.newest_run(table) or 0
        if newest >= newest_last:
            return None
        return f"its newest run is {newest or 'none'}, and {last.full_name} knows run {newest_last}"

    def find_older(self, versions: Mapping[str, int]) -> list[str]:
        """Return the tables in `versions` of which the last audit read a newer version."""
        if (last := self.newest_run(AUDIT_RUN)) is None:
            return []
        [inputs] = self.fetch(AUDIT_RUN, [("run", "=", last)], ["inputs"])["inputs"].to_pylist()
        read = {entry["table"]: entry["version"] for entry in inputs or ()}
        return [name for name, version in versions.items() if version < read.get(name, 0)]

    def expect_ahead(self, last: Table, *tables: Table) -> None:
        """Raise SurroundingsError if `last` has a newer run than an existing one of `tables`:
        commits were lost."""
        for table in tables:
            lag = self.find_lag(last, table)
            if lag is not None and self.exists(table):
                raise damaged(lag, self.path(table))

    def expect_newer(self, run: int, *tables: Table) -> None:
        """Raise ConfigError unless `run` is greater than all runs in `tables`."""
        for table in tables:
            if (newest := self.newest_run(table)) is not None and run <= newest:
                self._refuse_old_run(table, run, newest)

    @contextmanager
    def hold(self, run: int, job: str, say: Callable[[str], None]) -> Iterator[None]:
        """Keep other runs out of the tables during the block. Raises BusyError if another run holds
        them. `job`: this job."""
        if self.is_named and is_forgotten(self.session, self.root):
            say(
                f"warning: tables {self.root}: this Spark's own catalog has no metastore and knows "
                f"these names until this run ends; the files are in {self.folder} "
                "(docs/reference/runs.md)."
            )
        if not self.folder:
            say(
                f"warning: tables {self.root}: the catalog does not say where they lie, so "
                "nothing keeps a second run out: start one at a time (docs/reference/runs.md)."
            )
        path, me = self.folder.removeprefix(LOCAL), HoldingRun.this(job, run)
        lease = Lease(path, self._options, me, say) if self.folder else None
        with lease.held() if lease else nullcontext(), telling(job, say):
            self._lease = lease
            try:
                yield
            finally:
                self._lease = None

    def _expect_fit(self) -> None:
        """Check the lock before a commit. Raises BusyError if another run may hold it."""
        if self._lease is not None:
            self._lease.expect()

    def maintain(
        self, table: Table, retention_days: int = RETENTION_DAYS, vacuum: bool = False
    ) -> None:
        """Set how long old versions stay readable. `vacuum`: also join small files (except in
        bronze) and delete old files."""
        properties, goal = self.check(table).properties, _retention(retention_days)
        if any(properties.get(key) != value for key, value in goal.items()):
            self._expect_fit()
            with explaining(self.path(table)):
                self._log(table).set(goal)
        if vacuum:  # by the table's own retention time
            self._expect_fit()
            with explaining(self.path(table)):
                self._log(table).clean(joining=table.layer != LANDING_LINE.layer)

    def _write(self, table: Table, rows: Rows, run: int, mode: Mode, folded: str | None) -> int:
        self.create(table)
        note = _note(table, run, folded)
        if table.sort_by and not isinstance(rows, pa.Table):
            rows = rows.sortWithinPartitions(*table.sort_by)
        self._expect_fit()
        with explaining(self.path(table)):
            self._log(table).write(rows, run, note, mode)
        return self._committed(table, run, note)

    def _committed(self, table: Table, run: int, note: str) -> int:
        """Return the version of this run's commit. Checks that it is the newest commit, because
        Delta drops a repeated run silently."""
        runs = self._runs[table.full_name]
        head = self._head(table)
        if head is not None and next(iter(head.commits()))[2] == note:
            try:  # on S3 a run that slept can overwrite another's commit
                self._expect_fit()
            except BusyError as lost:
                raise BusyError(
                    f"{lost} But version {head.version} of {table.full_name}, which it wrote "
                    "meanwhile, may stand in the place of another run's: first move the folders "
                    "silver and bronze/ingest_run away, and all landing files are read again."
                ) from lost
            return head.version
        if runs >= run:
            self._refuse_old_run(table, run, runs)
        newest = "no table" if head is None else f"version {head.version} of another writer"
        raise BusyError(
            f"table {table.full_name} at {self.path(table)}: The newest commit is not of run "
            f"{run}, but {newest}, so rows of the run may be lost. Only featurelib may write "
            "there. Stop the other writer and run the job again: featurelib counts no row twice."
        )

    def _check_columns(self, table: Table, head: Head) -> None:
        """Raise TableError if a column has another type. Optional columns may be missing or
        extra."""
        # Nullability of common columns does not matter: Delta checks required columns itself.
        expected, stored = _types(log.spark_schema(table)), _types(head.schema)
        needed = {f.name for f in (*log.spark_schema(table), *head.schema) if not f.nullable}
        differ = [
            f"{name}: expected {expected.get(name, 'none')}, found {stored.get(name, 'none')}"
            for name in dict.fromkeys((*expected, *stored))
            if expected.get(name) != stored.get(name)
            and (name in needed or (name in expected and name in stored))
        ]
        if differ:
            raise TableError(
                f"table {table.full_name} at {self.path(table)}: column {'; '.join(differ)}; "
                "nothing was written. Restore that table, or name other tables with --tables."
            )

    def _head(self, table: Table) -> Head | None:
        """Return the newest commit of a table; None without table. Raises TableError if this
        release cannot read the table."""
        with explaining(path := self.path(table)):
            head = self._log(table).head()
        self._runs[table.full_name] = (head.run if head else None) or 0
        if head is not None and self._checked.get(table) is not head:
            if not is_outdated(table, head.properties, path):
                self._check_columns(table, head)
            self._checked[table] = head
        return head

    def _log(self, table: Table) -> PathLog | CatalogLog:
        if table not in self._logs:
            self._logs[table] = (
                CatalogLog(self.session, table, quoted(self.path(table)))
                if self.is_named
                else PathLog(self.session, table, self.path(table), self._options)
            )
        return self._logs[table]

    def _refuse_old_run(self, table: Table, run: int, newest: int) -> NoReturn:
        """Raise BusyError if another run took the tables meanwhile, otherwise ConfigError."""
        self._expect_fit()
        raise ConfigError(
            f"run {run}: not greater than run {newest}, the newest in {table.full_name} at "
            f"{self.path(table)}; nothing was written. Leave out --run, or name a later one."
        )


def resolve_uri(root_uri: str) -> str:
    """Return `root_uri` without trailing slash. A plain path becomes an absolute `file:` URI."""
    path = local_path(root_uri)
    return root_uri.rstrip("/") if path is None else f"{LOCAL}{path}"


def _types(schema: T.StructType) -> dict[str, str]:
    """Return column → type. Nested fields count as columns."""
    kinds = {name: field.dataType for name, field in log.flatten(schema).items()}
    texts = {name: kind.simpleString() for name, kind in kinds.items()}
    return {n: kinds[n].typeName() if "struct<" in text else text for n, text in texts.items()}


def _note(table: Table, run: int, folded: str | None) -> str:
    """Return the note of a commit as JSON with a unique id."""
    values = {"run": run, "application": table.application, "commit": uuid4().hex}
    return json.dumps({**values, "folded": folded})


def _properties(table: Table) -> dict[str, str]:
    return {
        VERSION_PROPERTY: str(table.version),
        "delta.enableDeletionVectors": "false",  # so that Parquet readers see the correct rows
        **_retention(RETENTION_DAYS),
        **({log.CHANGE_FEED: "true"} if table in GOLD else {}),
        **({"delta.dataSkippingStatsColumns": ",".join(table.skip_by)} if table.skip_by else {}),
    }


def _new_properties(table: Table, head: Head) -> dict[str, str]:
    """Return the properties of this release that the table lacks. A property with another value is
    kept."""
    properties = {key: value for key, value in head.properties.items() if key != VERSION_PROPERTY}
    wanted = {**_properties(table), **properties}.items() - head.properties.items()
    return dict(wanted)


def _retention(days: int) -> dict[str, str]:
    keys = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")
    return dict.fromkeys(keys, f"interval {days} days")


def find_schema(session: SparkSession, name: str) -> str:
    """Return the folder of a catalog's schema; "" if it has none. Raises ConfigError for an unknown
    schema."""
    try:
        if session.catalog.databaseExists(quoted(name)):
            location = session.catalog.getDatabase(quoted(name)).locationUri or ""
            is_local = location.startswith(LOCAL)
            return f"{LOCAL}/{location.removeprefix(LOCAL).strip('/')}" if is_local else location
        actual = "none of that name"
    except PySparkException as error:  # the catalog is unreachable, or a permission is missing
        actual = in_a_line(str(error))
    raise ConfigError(
        f"--tables {name}: This Spark has no such schema: {actual}. Make the schema with CREATE "
        f"SCHEMA {name}. For a folder of this name, write ./{name}."
    )


def is_forgotten(session: SparkSession, name: str) -> bool:
    """Return true if the catalog of this schema exists only in memory."""
    in_catalog = name.startswith("spark_catalog.")
    return in_catalog and session.conf.get("spark.sql.catalogImplementation", "in-memory") != "hive"


def quoted(name: str) -> str:
    """Return a dotted catalog name quoted for SQL."""
    return ".".join(f"`{part}`" for part in name.split("."))
