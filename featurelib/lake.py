"""Read the tables without Spark: the results of runs, and each cluster's newest snapshot, as rows.

The run and the cluster choose files before rows. A run exists once its row in gold.audit_run does.
Any Delta reader sees the same; this one needs no Java.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cached_property
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

import numpy as np

from featurelib.audit.audit import Judged
from featurelib.errors import (
    ConfigError,
    FeatureLibError,
    NoEvidenceError,
    SurroundingsError,
    TableError,
    needing,
)
from featurelib.faults import damaged, explaining, in_a_line
from featurelib.findings import tagged
from featurelib.rows import NONE, TableRows
from featurelib.schema import FINDING, SNAPSHOT
from featurelib.tables import (
    AUDIT_RUN,
    CLUSTER_SNAPSHOT,
    CLUSTERS,
    FEATURE_READINESS,
    FINDINGS,
    INCOMPATIBLE_BROKERS,
    LANDING_LINE,
    UPGRADE_PLANS,
    Table,
    is_name,
)
from featurelib.words import microseconds, some

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyarrow.dataset import Dataset
    from pyarrow.fs import FileSystem

# (column, comparison, value): a condition on rows; all must be met. Times are microseconds.
Wanted = tuple[str, str, Any]
Read = Callable[[Table, Sequence[Wanted], Sequence[str] | None], TableRows]
Node = tuple[str, str | None, int | None]  # cluster, role, id
LeftOut = tuple[str, str, str | None]  # `file:line`, reason, and the cluster if known
Judgement = Mapping[str, tuple[str, bool]]  # cluster → its verdict, and true if it is critical
MOST_LOCATED = 5000  # Maximum number of landing lines whose files are looked up
Row = Mapping[str, Any]
Entries = list[tuple[str, int, int]]  # (name, bytes, time) of each file of a Delta log
VERSION_PROPERTY = "featurelib.tableVersion"
FOUND = ("run", *FINDING.names)  # stored columns; texts are not stored
_SHOWN = 5
_LISTED = 12


class Lake:
    """The tables in one folder, or in a catalog's schema."""

    def __init__(self, root: str) -> None:
        """Open the tables in `root`. Options of an object store come from the environment. Raises
        ConfigError if the folder does not exist."""
        self.root = root.rstrip("/") or "/"
        self._open: dict[tuple[str, int | None], TableReader] = {}
        if is_name(root) and not Path(root).is_dir():
            raise ConfigError(
                f"{root} is the name of a schema, and this command reads folders. Pass the "
                f"schema's folder to --tables. `DESCRIBE SCHEMA {root}` in Spark's SQL prints the "
                "folder, and so does the nightly's report."
            )
        if "://" not in root and not Path(root).is_dir():
            raise ConfigError(
                f"tables {root}: There is no such folder. Use the folder of the nightly's tables "
                "with --tables FOLDER. `./spark-submit.sh` makes the tables of the samples."
            )

    @cached_property
    def runs(self) -> TableRows:
        """The rows of gold.audit_run, newest first. Raises NoEvidenceError if there is no run."""
        table = self.read(AUDIT_RUN)
        if len(table) == 0:
            raise NoEvidenceError(
                f"table {AUDIT_RUN.full_name} below {self.root} has no run. Run the nightly first."
            )
        return table.take(np.argsort(-table.numbers("run"), kind="stable"))

    def run(self, run: int | None = None) -> int:
        """Return `run`, or the newest run for None. Raises ConfigError if it does not exist."""
        return int(self.night(run)["run"])

    def night(self, run: int | None = None) -> dict[str, Any]:
        """Return a run's row of gold.audit_run; None = the newest run. Raises ConfigError."""
        nights: list[dict[str, Any]] = self.runs.to_pylist()
        if (night := next((row for row in nights if run in (None, row["run"])), None)) is not None:
            return night
        assert run is not None
        nearest = sorted((row["run"] for row in nights), key=lambda row: abs(row - run))[:_SHOWN]
        raise ConfigError(
            f"--run {run}: None of the {len(nights)} runs below {self.root} has this number. The "
            f"nearest are {', '.join(map(str, nearest))}. Leave --run out for the newest run."
        )

    def as_of(self, run: int | None = None) -> int:
        """Return the time as of which a run judged, microseconds."""
        return microseconds(self.night(run)["as_of"])

    def version_if_whole(self, table: Table) -> int | None:
        """Return the version of a local table; None if a log file is missing or changed."""
        opened = self._opened(table, None).opened
        files = opened.get_add_actions(flatten=True)
        paths = [Path(self.place(table), unquote(path)) for path in files["path"].to_pylist()]
        sizes = [path.is_file() and path.stat().st_size for path in paths]
        return int(opened.version()) if sizes == files["size_bytes"].to_pylist() else None

    def rows(
        self,
        table: Table,
        *,
        run: int | None = None,
        cluster: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> TableRows:
        """Return one run's rows of a gold table. None = newest run, all clusters. Raises
        SurroundingsError if the run's commit is lost."""
        conditions: list[Wanted] = [("run", "=", number := self.run(run))]
        if cluster is not None:
            conditions.append(("cluster", "=", cluster))
        # None means another writer's commit. A run's own row is written last.
        newest = self._opened(table, None).opened.transaction_version(table.application)
        if newest is not None and newest < number:
            detail = f"its newest run is {newest}, {AUDIT_RUN.full_name} knows run {number}"
            raise damaged(detail, self.place(table))
        return self.read(table, conditions, columns)

    def judged(self, run: int | None = None, cluster: str | None = None) -> Judged:
        """Return the judgement of a run, about all clusters or `cluster`."""
        return Judged(
            findings=self.rows(FINDINGS, run=run, cluster=cluster, columns=FOUND),
            incompatible=self.rows(INCOMPATIBLE_BROKERS, run=run, cluster=cluster),
            readiness=self.rows(FEATURE_READINESS, run=run, cluster=cluster),
            plans=self.rows(UPGRADE_PLANS, run=run, cluster=cluster),
        )

    def history(self, table: Table, clusters: Sequence[str], run: int | None = None) -> TableRows:
        """Return all rows of a silver history about these clusters, up to `run`."""
        key: Wanted = ("cluster", "in", list(clusters))
        return self.read(table, [key, ("run", "<=", self.run(run))])

    def clusters(self, run: int | None = None) -> list[str]:
        """Return the sorted cluster ids of a run."""
        return sorted(self.rows(UPGRADE_PLANS, run=run, columns=["cluster"])["cluster"].to_pylist())

    def expect_cluster(
        self, cluster: str, run: int | None = None, names: Sequence[str] = ()
    ) -> None:
        """Raise ConfigError, with the nearest name, for a cluster that the run does not have.

        `names` are the inventory's; the run has names of its own.
        """
        if len(self.rows(UPGRADE_PLANS, run=run, cluster=cluster, columns=["cluster"])):
            return
        matches: list[Mapping[str, Any]] = []
        with suppress(FeatureLibError):  # earlier releases did not have this table
            matches = self.rows(CLUSTERS, run=run, columns=["cluster", "name"]).to_pylist()
        if ids := [row["cluster"] for row in matches if row["name"] == cluster]:
            raise ConfigError(
                f"No inventory is named that knows the cluster {cluster!r}. Add --fleet FILE, or "
                f"give its id in run {self.run(run)}: {' or '.join(ids)}"
            )
        names = [*names, *(row["name"] for row in matches)]
        clusters = self.clusters(run)
        folded = {name.casefold(): name for name in (*clusters, *names)}
        near = get_close_matches(cluster.casefold(), folded, n=_SHOWN, cutoff=0.6)
        nearest = f" Did you mean {' or '.join(folded[name] for name in near)}?" if near else ""
        listed = some(sorted({*names}) or clusters, _LISTED)
        raise ConfigError(
            f"No cluster {cluster!r} is in run {self.run(run)} below {self.root}.{nearest} Known "
            f"are {listed or 'none'}. If it is in other tables, add --tables FOLDER."
        )

    def snapshot(self, cluster: str, run: int | None = None) -> TableRows:
        """Return the snapshot row (featurelib.schema.SNAPSHOT) of a cluster that a run judged.

        Raises ConfigError for an unknown cluster, NoEvidenceError for one without data.
        """
        rows = self.snapshots(run, [("cluster", "=", cluster)])
        if len(rows) == 0:
            self.expect_cluster(cluster, run)
            raise NoEvidenceError(
                f"cluster {cluster}: no data of it up to run {self.run(run)}. Collect it."
            )
        return rows

    def snapshots(self, run: int | None = None, conditions: Sequence[Wanted] = ()) -> TableRows:
        """Return the snapshot rows that a run judged and that meet all `conditions`."""
        # The version of the snapshot table that the run judged; None means the newest.
        inputs = {table["table"]: table["version"] for table in self.night(run)["inputs"] or ()}
        snapshot_version = inputs.get(CLUSTER_SNAPSHOT.full_name)
        return self.read(CLUSTER_SNAPSHOT, conditions, SNAPSHOT.names, snapshot_version)

    def read(
        self,
        table: Table,
        conditions: Sequence[Wanted] = (),
        columns: Sequence[str] | None = None,
        version: int | None = None,
    ) -> TableRows:
        """Return the rows of a table that meet all `conditions`."""
        opened, names = self._opened(table, version), columns or table.schema.names
        from featurelib import arrow  # pyarrow is installed, because the table could be opened

        rows = opened.fetch(conditions, names)
        if rows is None:
            raise TableError(
                f"table {table.full_name} at {self.place(table)}: only Spark reads it, because of "
                "features like deletion vectors. Use featurelib.spark, or Spark's own SQL."
            )
        return arrow.rows_of(rows, table.schema.select(names))

    def place(self, table: Table) -> str:
        """Return the folder or URI of a table."""
        return f"{self.root}/{table.name_in_schema if self._is_schema else table.path}"

    @cached_property
    def _is_schema(self) -> bool:
        """True if the tables are those of a catalog's schema."""
        from deltalake import DeltaTable

        return DeltaTable.is_deltatable(f"{self.root}/{AUDIT_RUN.name_in_schema}")

    def _opened(self, table: Table, version: int | None) -> TableReader:
        """Open a table for reading. Raises NoEvidenceError, TableError, ConfigError."""
        if (table.full_name, version) in self._open:
            return self._open[table.full_name, version]
        with needing("reading tables needs the packages deltalake and pyarrow", "lake"):
            import pyarrow  # noqa: F401  # what is read comes as Arrow's
            from deltalake.exceptions import DeltaError, TableNotFoundError
        uri = f"{self.root}/{table.path}"
        try:
            with explaining(uri):
                uri = self.place(table)
                reader = TableReader(table, uri, version=version).open()
        except TableNotFoundError as error:
            raise NoEvidenceError(
                f"table {table.full_name}: there is none at {uri}. Name the folder the nightly "
                "writes with --tables FOLDER."
            ) from error
        except (DeltaError, OSError) as error:
            fault = f"table {table.full_name} at {uri}: cannot be read: {in_a_line(str(error))}. "
            if version is not None:
                old = "Snapshots of old runs are kept for 90 days; omit --run for the newest"
                raise TableError(f"{fault}{old}.") from error
            advice = "Is it reachable, and may this user read it? Then run again"
            raise SurroundingsError(f"{fault}{advice}.") from error
        if is_outdated(table, reader.opened.metadata().configuration, uri):
            subject, then = "it", "Run the nightly once. It rebuilds the table."
            if version is not None:
                subject, then = "it for that run", f"{then} Then omit --run."
            raise NoEvidenceError(
                f"table {table.full_name} at {uri}: an earlier featurelib wrote {subject} in "
                f"another form. {then}"
            )
        self._open[table.full_name, version] = reader
        return reader


class TableReader:
    """A reader of one version of a table (None = newest) through deltalake. Call `open` first."""

    opened: DeltaTable

    def __init__(
        self, table: Table, path: str, options: Mapping[str, str] = {}, version: int | None = None
    ) -> None:
        self.table, self.place, self.options = table, path, dict(options)
        self._version = version
        self._entries: Entries | None = None  # the files of the log when it was read

    def open(self) -> Self:
        """Read the table's log if its files changed. Raises TableNotFoundError; SurroundingsError
        if the log is damaged."""
        from deltalake import DeltaTable

        try:  # listed before it is read, so that no commit is missed
            entries = log_entries(self.place, self.options)
        except OSError:  # no table, or an error that deltalake explains
            entries = None
        if entries is None or entries != self._entries:
            self.opened = DeltaTable(self.place, self._version, storage_options=self.options)
            self._entries = entries or log_entries(self.place, self.options)
            self.__dict__.pop("dataset", None)
        return self

    @cached_property
    def dataset(self) -> Dataset | None:
        """The files of the table with their bounds; None if only Spark can read the table."""
        if self.opened.protocol().min_reader_version > 1:
            return None
        # Arrow's own file system: deltalake's threads call Python while the process ends.
        files = files_at(self.place, self.options)
        dataset: Dataset = self.opened.to_pyarrow_dataset(filesystem=files)
        return dataset

    def fetch(self, conditions: Sequence[Wanted], names: Sequence[str]) -> pa.Table | None:
        """Return columns of the rows that meet all `conditions`; None if only Spark can read the
        table. Raises SurroundingsError."""
        from featurelib import arrow

        try:
            with explaining(self.place):
                dataset = self.dataset
                return dataset and arrow.read(dataset, self.table.schema, conditions, names)
        except arrow.FAULTS as error:
            raise damaged(in_a_line(str(error)), self.place) from error


def places(read: Read, lines: Mapping[int, int], cluster: str | None = None) -> dict[int, str]:
    """Return line_id → `file:line` of landing lines, of one cluster or of all. Lines that are not
    kept are left out; so are all lines if there are too many to open.

    `lines`: line_id → time of observation, microseconds; the times choose files.
    """
    if not 0 < len(lines) <= MOST_LOCATED:
        return {}
    conditions: list[Wanted] = [("cluster", "=", cluster)] if cluster is not None else []
    conditions += [
        ("observed_at", ">=", min(lines.values())),
        ("observed_at", "<=", max(lines.values())),
        ("line_id", "in", list(lines)),
    ]
    rows = read(LANDING_LINE, conditions, ["line_id", "source_file", "line_number"]).to_pylist()
    return {row["line_id"]: place(row) for row in rows}


def lines_of(findings: TableRows, part: Container[str] | None = None) -> dict[int, int]:
    """Return line id → observation time (microseconds) of the landing lines behind findings.
    `part`: the clusters, None = all."""
    columns = (findings.numbers(name).tolist() for name in ("line_id", "observed_at"))
    rows = zip(findings["cluster"].to_pylist(), *columns, strict=True)
    return {
        line: at
        for cluster, line, at in rows
        if NONE not in (line, at) and (part is None or cluster in part)
    }


def place(row: Mapping[str, Any]) -> str:
    """Return the origin of a bronze line as `file:line`."""
    return f"{row['source_file'].removeprefix('file:')}:{row['line_number']}"


def read_quarantine(read: Read, runs: Sequence[Wanted], most: int) -> tuple[int, list[LeftOut]]:
    """Return (number of quarantined lines of these runs, the first `most`, newest run first)."""
    columns = ["run", "source_file", "line_number", "reason", "cluster"]
    bad = read(LANDING_LINE, [*runs, ("reason", "is not null", None)], columns)
    first = nsmallest(
        most, bad.to_pylist(), lambda row: (-row["run"], row["source_file"], row["line_number"])
    )
    return len(bad), [(place(row), row["reason"], row["cluster"]) for row in first]


def night_before(read: Read, run: int) -> tuple[list[Row], Judgement | None, list[Row], set[Node]]:
    """Return (rows of gold.audit_run up to a run, cluster → judgement of the run before, its level
    rows, its silent nodes). The judgement is None for the first run."""
    nights = read(AUDIT_RUN, [("run", "<=", run)], None).to_pylist()
    before = max((night["run"] for night in nights if night["run"] < run), default=None)
    if before is None:
        return nights, None, [], set()
    conditions: list[Wanted] = [("run", "=", before)]
    plans = read(UPGRADE_PLANS, conditions, ["cluster", "verdict"]).to_pylist()
    columns = ["cluster", "feature", "verdict", "finalized_level", "ceiling"]
    levels = read(FEATURE_READINESS, conditions, columns).to_pylist()
    judges = {(r["catalogue"], r["dialect"]) for r in nights if r["run"] in (before, run)}
    if len(judges) > 1:
        levels = [row | {"ceiling": None} for row in levels]  # another dialect has other ceilings
    critical: list[Wanted] = [("severity", "=", "critical"), ("muted", "is null", None)]
    bad = {*read(FINDINGS, [*conditions, *critical], ["cluster"])["cluster"].to_pylist()}
    down: Wanted = ("code", "in", sorted(tagged("down")))
    nodes = read(FINDINGS, [*conditions, down], ["cluster", "role", "node_id"]).to_pylist()
    silent = {(row["cluster"], row["role"], row["node_id"]) for row in nodes}
    verdicts = {r["cluster"]: (r["verdict"], r["cluster"] in bad) for r in plans}
    return nights, verdicts, levels, silent


def is_outdated(table: Table, properties: Mapping[str, str], path: str) -> bool:
    """Return true if an earlier release wrote the table, so that it must be rebuilt. Raises
    TableError if a newer release wrote it."""
    version = properties.get(VERSION_PROPERTY, "none")
    if not version.isdecimal() or int(version) > table.version:
        raise TableError(
            f"table {table.full_name} at {path}: A newer featurelib wrote this table: "
            f"{VERSION_PROPERTY} is {version}, and this featurelib knows {table.version} or "
            "earlier. Nothing was written. Use that release of featurelib or a later one."
        )
    return table.is_rebuilt and int(version) < table.version


def log_entries(path: str, options: Mapping[str, str] | None = None) -> Entries:
    """Return the log files of a Delta table by name. Raises OSError; SurroundingsError for an empty
    file, which readers would take as an empty commit."""
    from pyarrow.fs import FileSelector

    files = files_at(path, options).get_file_info(FileSelector("_delta_log"))
    for file in files:
        if file.size == 0 and file.extension == "json":
            raise damaged(f"{path}/_delta_log/{file.base_name} is empty", path)
    return sorted((file.base_name, file.size or 0, file.mtime_ns or 0) for file in files)


def files_at(path: str, options: Mapping[str, str] | None = None) -> FileSystem:
    """Return the file system rooted at a folder or URI. `options`: as for deltalake."""
    from pyarrow.fs import LocalFileSystem, PyFileSystem, SubTreeFileSystem

    if "://" not in path:
        return SubTreeFileSystem(path, LocalFileSystem())
    from deltalake.fs import DeltaStorageHandler

    return PyFileSystem(DeltaStorageHandler(path, dict(options or {})))
