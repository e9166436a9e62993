"""Before the first write every executor proves what it runs and what it sees.

Spark sends a job to executors without asking what is on their machines. A Python that lacks a
package fails in the middle of it. A folder that is not shared is worse: an executor writes its
files where nobody else sees them, the driver commits them, and the table cannot be read any more.
So each executor first imports what featurelib needs and reads what the driver has just written
into the tables' folder. One that joins later proves it before the next write; one that joins
within a write is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from pyspark.sql import SparkSession

from featurelib.errors import ConfigError
from featurelib.faults import explain
from featurelib.words import clean

NEEDED = ("featurelib", "msgspec", "numpy", "pandas", "pyarrow")
ROUNDS = 5  # until every executor got a task
HOW_TO = "docs/how-to/spark-cluster.md"


class Executors:
    """Those of one session. `path` is a file of the tables' folder that holds `token`; None = the
    tables are not in a folder of this machine."""

    def __init__(self, session: SparkSession, path: Path | None, token: str) -> None:
        self._session, self._path, self._token = session, path, token
        self._proved: frozenset[str] = frozenset()

    def expect(self, say: Callable[[str], None]) -> None:
        """ConfigError names the host of an executor that lacks a package or the folder."""
        if str(self._session.sparkContext.master).partition("[")[0] == "local":
            return
        there = self._registered()
        if there and there <= self._proved:
            return
        answered: set[tuple[str, int]] = set()
        for number in range(1, ROUNDS + 1):
            answered |= self._ask(number)
            there = self._registered()
            if there and len(answered) >= len(there):
                break
        else:
            say(
                f"warning: of {len(there)} executors only {len(answered)} said whether they see "
                "the tables"
            )
        self._proved |= there

    def _registered(self) -> frozenset[str]:
        """The executors there are, as host:port; the driver's is one of the entries Spark has."""
        context, jvm = self._session.sparkContext, self._session._jvm
        assert jvm is not None
        convert = jvm.scala.jdk.javaapi.CollectionConverters.asJava
        found = convert(context._jsc.sc().getExecutorMemoryStatus())
        driver = context._jsc.sc().env().blockManager().blockManagerId().hostPort()
        return frozenset(str(key) for key in found.keySet()) - {str(driver)}

    def _ask(self, number: int) -> set[tuple[str, int]]:
        """Hosts and processes that answered; ConfigError for the first that does not pass."""
        context = self._session.sparkContext
        tasks = 2 * max(context.defaultParallelism, len(self._registered()), 1)
        look = make_look(NEEDED, str(self._path) if self._path else None, self._token, number)
        answers = context.parallelize(range(tasks), tasks).mapPartitions(look).collect()
        for host, _, missing, sees in answers:
            self._expect(host, missing, sees)
        return {(host, process) for host, process, _, _ in answers}

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


Answer = tuple[str, int, list[str], bool]  # host, process, packages that do not load, sees


def make_look(
    needed: tuple[str, ...], path: str | None, token: str, number: int
) -> Callable[[Iterable[int]], list[Answer]]:
    """What an executor does. It travels by value, since featurelib may not be there to import."""

    def look(_: Iterable[int]) -> list[Answer]:
        import importlib
        import os
        import socket
        import time

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
        time.sleep(0.1 * number)  # so that no executor takes the tasks of all
        return [(socket.gethostname(), os.getppid(), missing, sees)]

    return look
