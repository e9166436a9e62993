"""Small text files through Spark's file systems: any URI Spark writes tables to, takes reports too.

A file is written beside its place and renamed, so that a reader never sees half of it.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from featurelib.faults import explaining
from featurelib.spark.session import fill, hadoop
from featurelib.spark.store import resolve_uri


class Folder:
    """A folder of text files at a URI; a local one is written without the JVM."""

    def __init__(self, session: SparkSession, uri: str) -> None:
        self.uri = resolve_uri(uri)
        self._session = session
        self._local = Path(self.uri.removeprefix("file:")) if self.uri.startswith("file:") else None

    def write(self, name: str, text: str) -> None:
        """Put `text` at `name` below the folder. Raises SurroundingsError."""
        with explaining(f"--out {self.uri}/{name}"):
            if self._local is None:
                self._write_remote(f"{self.uri}/{name}", text.encode())
                return
            path = self._local / name
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(path.name + ".part")
            part.write_text(text, encoding="utf-8")
            part.replace(path)

    def keep_only(self, folder: str, names: set[str], kind: str) -> None:
        """Remove the files of `folder` that end in `kind` and are not in `names`: other nights'.

        What a killed run left half written goes too. Raises SurroundingsError.
        """
        old = (f".{kind}", f".{kind}.part")
        with explaining(f"--out {self.uri}/{folder}, whose files of other nights go"):
            if self._local is not None:
                for path in (self._local / folder).glob(f"*.{kind}*"):
                    if path.name not in names and path.name.endswith(old):
                        path.unlink(missing_ok=True)
                return
            fs, path = hadoop(self._session, f"{self.uri}/{folder}")
            for status in fs.listStatus(path) if fs.exists(path) else ():
                found = status.getPath()
                if found.getName() not in names and found.getName().endswith(old):
                    fs.delete(found, False)

    def _write_remote(self, uri: str, content: bytes) -> None:
        fs, path = hadoop(self._session, uri)
        _, part = hadoop(self._session, f"{uri}.part")
        fill(fs.create(part, True), content)
        fs.delete(path, False)
        fs.rename(part, path)
