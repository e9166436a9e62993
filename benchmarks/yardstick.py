"""DuckDB on the flat tables, in a process of its own with as many threads as Spark has; and the
same views in Spark SQL, which only counts.

It joins supported ranges with finalized levels, takes minimum and maximum over the nodes of each
cluster and feature, calls the result READY, BLOCKED or UP_TO_DATE, and lists every offender. Two
queries, because one that does it all takes a third longer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from benchmarks.measure import SPAWN, clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = {"ranges": "advertisement.parquet", "finalized": "finalized.parquet"}
# View → its rows, in words that both understand.
VIEWS = {
    "offenders": """
    select r.cluster, r.role, r.node, r.feature, f.level, r.min_version, r.max_version
    from ranges r join finalized f using (cluster, feature)
    where f.level < r.min_version or r.max_version < f.level""",
    "bounds": """
    select cluster, feature,
        max(min_version) as lowest, min(max_version) as common, max(max_version) as ceiling
    from ranges group by cluster, feature""",
    "verdicts": """
    select cluster, feature, level, common, ceiling,
        case when common > level and lowest <= common then 'READY'
             when ceiling > level then 'BLOCKED' else 'UP_TO_DATE' end as verdict
    from (select b.*, coalesce(f.level, 0) as level
          from bounds b left join finalized f using (cluster, feature)) levels""",
}
ORDERS = ("cluster", "arrival")  # of the rows in the flat table
_ARRIVAL = "select * from '{path}' order by hash(cluster || '/' || role || '/' || node)"
COUNT = (
    "select verdict, count(*), sum(common), sum(ceiling) from verdicts group by verdict",
    "select count(*), sum(node), sum(level), sum(min_version), sum(max_version) from offenders",
)
WRITE = tuple(
    f"copy {view} to '{{folder}}/{view}.parquet' (format parquet)"
    for view in ("verdicts", "offenders")
)


class Yardstick:
    """The process; `pid` is its number, for whoever counts memory."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.folder = folder
        self._here, there = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_serve, args=(there, threads), daemon=True)
        self._process.start()
        self.pid = self._process.pid or 0
        for name, file in TABLES.items():
            self.ask(f"create view {name} as from read_parquet('{folder}/{file}')")
        for name, rows in VIEWS.items():
            self.ask(f"create view {name} as {rows}")

    def count(self) -> float:
        """Seconds to judge and to fetch counts."""
        return sum(self.ask(query)[0] for query in COUNT)

    def write(self, folder: Path | None = None) -> float:
        """Seconds to judge and to write verdicts and offenders as Parquet, into `folder` or beside
        the flat tables."""
        return sum(self.ask(query.format(folder=folder or self.folder))[0] for query in WRITE)

    def ask(self, query: str) -> tuple[float, list[tuple[object, ...]]]:
        """Seconds it took, and the rows."""
        self._here.send(query)
        answer = self._here.recv()
        if isinstance(answer, str):
            raise RuntimeError(answer)
        seconds, rows = answer
        return seconds, rows

    def close(self) -> None:
        self._here.send(None)
        self._process.join()


def count_with_spark(session: SparkSession, folder: Path) -> float:
    """Seconds that Spark SQL takes to count the same, in the session that featurelib judges in."""
    for name, file in TABLES.items():
        session.read.parquet(str(folder / file)).createOrReplaceTempView(name)
    for name, rows in VIEWS.items():
        session.sql(rows).createOrReplaceTempView(name)
    return clock(lambda: [session.sql(query).collect() for query in COUNT])


def order_by_arrival(folder: Path) -> None:
    """Put the flat table's rows in the order in which a fleet answers: nodes of all clusters mixed.

    By cluster is the yardstick's best case: equal names stand together.
    """
    path = folder / "advertisement.parquet"
    mixed = path.with_suffix(".mixed")
    with duckdb.connect() as connection:
        connection.execute("set enable_progress_bar = false")
        connection.execute(f"copy ({_ARRIVAL.format(path=path)}) to '{mixed}' (format parquet)")
    mixed.replace(path)


@contextmanager
def started(folder: Path, threads: int) -> Iterator[Yardstick]:
    """A yardstick on the flat tables in `folder`."""
    yardstick = Yardstick(folder, threads)
    try:
        yield yardstick
    finally:
        yardstick.close()


def _serve(pipe: Connection, threads: int) -> None:
    connection = duckdb.connect(config={"threads": threads})
    connection.execute("set enable_progress_bar = false")
    while (query := pipe.recv()) is not None:
        begin = time.perf_counter()
        try:
            rows = connection.execute(query).fetchall()
        except duckdb.Error as error:
            pipe.send(str(error))
            continue
        pipe.send((time.perf_counter() - begin, rows))
