"""Small text files through Spark's file systems: any URI Spark writes tables to, takes reports too.

A file is written beside its place and renamed, so that a reader never sees half of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from featurelib.audit import evidence
from featurelib.audit.evidence import Conditions, Evidence
from featurelib.config.fleet import Fleet
from featurelib.core.dialect import STRICT, load
from featurelib.errors import ConfigError
from featurelib.feature import Verdict
from featurelib.snapshot.layout import unpack
from featurelib.spark.audit import CORE_COLUMNS, with_expected
from featurelib.spark.store import Store, resolve_uri
from featurelib.tables import CLUSTER_SNAPSHOT, FINALIZED_FEATURES, UPGRADE_PLANS


class Folder:
    """A folder of text files at a URI; a local one is written without the JVM."""

    def __init__(self, session: SparkSession, uri: str) -> None:
        self.uri = resolve_uri(uri)
        self._session = session
        self._local = Path(self.uri.removeprefix("file:")) if self.uri.startswith("file:") else None

    def write(self, name: str, text: str) -> None:
        """Put `text` at `name` below the folder; ConfigError where it cannot be written."""
        try:
            if self._local is not None:
                _write_local(self._local / name, text)
            else:
                self._write_remote(f"{self.uri}/{name}", text.encode())
        except OSError as error:
            raise ConfigError(
                f"--out {self.uri}: {name} cannot be written ({error.strerror}). "
                "Name a folder this user may write."
            ) from error

    def keep_only(self, folder: str, names: set[str], kind: str) -> None:
        """Remove the files of `folder` that end in `kind` and are not in `names`: other nights'.

        What a killed run left half written goes too; ConfigError for what cannot be removed.
        """
        old = (f".{kind}", f".{kind}.part")
        if self._local is not None:
            for path in (self._local / folder).glob(f"*.{kind}*"):
                if path.name not in names and path.name.endswith(old):
                    self._remove_local(path)
            return
        fs, path = self._open(f"{self.uri}/{folder}")
        if fs.exists(path):
            for status in fs.listStatus(path):
                found = status.getPath()
                name = found.getName()
                if name not in names and name.endswith(old):
                    fs.delete(found, False)

    def _remove_local(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(
                f"--out {self.uri}: {path} is of another night and cannot be removed "
                f"({error.strerror}). Remove it, or name another folder."
            ) from error

    def _open(self, uri: str):  # type: ignore[no-untyped-def]  # py4j objects have no types
        jvm = self._session._jvm
        assert jvm is not None
        path = jvm.org.apache.hadoop.fs.Path(uri)
        return path.getFileSystem(self._session._jsc.hadoopConfiguration()), path

    def _write_remote(self, uri: str, content: bytes) -> None:
        fs, path = self._open(uri)
        _, part = self._open(f"{uri}.part")
        stream = fs.create(part, True)
        try:
            stream.write(content)
        finally:
            stream.close()
        fs.delete(path, False)
        fs.rename(part, path)


def _write_local(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


# ----------------------------------------
# What only the pages of a report need from the tables: evidence, histories, the night before.

BATCH_CLUSTERS = 2000
HISTORY = ["cluster", "observed_at", "line_id", "witness", "epoch", "feature", "level"]


def read_evidence(
    store: Store, fleet: Fleet, conditions: Conditions, clusters: Sequence[str]
) -> Iterator[Evidence]:
    """The evidence of these clusters, in batches."""
    rows = with_expected(store.read(CLUSTER_SNAPSHOT).select(*CORE_COLUMNS), fleet)
    table = rows.filter(F.col("cluster").isin(list(clusters))).toArrow()
    absent = load(STRICT).can.absent_metadata_version
    for batch in table.combine_chunks().to_batches(max_chunksize=BATCH_CLUSTERS):
        yield evidence.read(unpack(batch), conditions, absent)


def read_history(store: Store, clusters: Sequence[str]) -> pa.Table:
    """All that was ever said to be finalized in these clusters: the columns of HISTORY."""
    said = store.read(FINALIZED_FEATURES).select(*HISTORY)
    return said.filter(F.col("cluster").isin(list(clusters))).toArrow()


def verdicts_before(store: Store, run: int) -> dict[Verdict, int] | None:
    """How many clusters had which verdict in the newest run before `run`; None for the first."""
    plans = store.read(UPGRADE_PLANS).filter(F.col("run") < F.lit(run))
    newest = plans.agg(F.max("run").alias("run")).collect()[0].run
    if newest is None:
        return None
    rows = plans.filter(F.col("run") == F.lit(newest)).groupBy("verdict").count().collect()
    counts = Counter({Verdict(row["verdict"]): row["count"] for row in rows})
    return {verdict: counts[verdict] for verdict in Verdict}
