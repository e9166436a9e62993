"""Before a write the executors prove what they run and what they see.

Spark sends a job to executors without asking what is on their machines. A Python that lacks a
package fails in the middle of it. A folder that is not shared is worse: an executor writes its
files where nobody else sees them, the driver commits them, and the table cannot be read any more.
So a job of one task a core first imports what featurelib needs, and reads what the driver has just
written into the tables' folder. Easy to get wrong: executors come and go, so the proof is asked for
again after a minute; one that joins within a write is not asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from featurelib.errors import ConfigError
from featurelib.faults import explain
from featurelib.words import clean

NEEDED = ("featurelib", "msgspec", "numpy", "pandas", "pyarrow")
AGAIN = 60.0  # seconds
HOW_TO = "docs/how-to/spark-cluster.md"


class Executors:
    """Those of one session. `path` is a file of the tables' folder that holds `token`; None = the
    tables are not in a folder of this machine."""

    def __init__(self, session: SparkSession, path: Path | None, token: str) -> None:
        self._session, self._path, self._token = session, path, token
        self._proved = -AGAIN  # when

    def expect(self) -> None:
        """ConfigError names the host of an executor that lacks a package or the folder."""
        master = str(self._session.conf.get("spark.master", "local"))
        if master.partition("[")[0] == "local" or time.monotonic() - self._proved < AGAIN:
            return
        look = make_look(NEEDED, str(self._path) if self._path else None, self._token)
        tasks = self._session.range(0, 1 << 20)  # by default one task a core
        answers = tasks.mapInArrow(look, "host string, missing string, sees boolean").distinct()
        for row in answers.collect():
            self._expect(row.host, row.missing.split("; ") if row.missing else [], row.sees)
        self._proved = time.monotonic()

    def _expect(self, host: str, missing: list[str], sees: bool) -> None:
        where = clean(host, 100)
        if missing == ["featurelib"]:
            raise ConfigError(
                f"executors: the Python on {where} was not given featurelib; nothing was written. "
                "Start with ./spark-submit.sh, which ships it, or give it with --py-files "
                f"({HOW_TO})."
            )
        if missing:
            lacks = ", ".join(missing)
            raise explain(ImportError(lacks)) or ConfigError(
                f"executors: the Python on {where} lacks {clean(lacks, 300)}; nothing was "
                "written. PYSPARK_PYTHON names the executors' Python, at the same path on every "
                f"machine, with the packages of featurelib's extra spark ({HOW_TO})."
            )
        if not sees:
            assert self._path is not None
            raise ConfigError(
                f"tables {self._path.parent}: the executor on {where} does not see this folder as "
                "the driver does; nothing was written. Name a place that all machines share with "
                "--tables: a share that is mounted at the same path, hdfs://… or s3a://…"
            )


Look = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def make_look(needed: tuple[str, ...], path: str | None, token: str) -> Look:
    """Return what a task does: (host, packages that do not load, whether the file is seen). The
    function travels by value, since featurelib may not be there to import."""

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib
        import socket
        import time

        import pyarrow as pa

        for _ in batches:
            pass
        missing = []
        for name in needed:
            try:
                importlib.import_module(name)
            except ModuleNotFoundError:
                missing.append(name)
            except (ImportError, MemoryError) as error:  # it is there
                missing.append(f"{name} ({type(error).__name__}: {error})")
        sees = True
        if path is not None:
            try:
                with open(path, "rb") as file:
                    sees = token.encode() in file.read()
            except OSError:
                sees = False
        time.sleep(0.2)  # so that no executor takes the tasks of all
        answer = {"host": [socket.gethostname()], "missing": ["; ".join(missing)], "sees": [sees]}
        yield pa.RecordBatch.from_pydict(answer)

    return look
