"""Write small text files, the report and its plans, to any place that can hold tables.

A file is written under another name and then renamed, so that a reader never sees a part of it.
"""

from __future__ import annotations

from pathlib import Path

from pyarrow.fs import FileSelector
from pyspark.sql import SparkSession

from featurelib.faults import explaining
from featurelib.lake import files_at
from featurelib.spark.log import LOCAL, storage_options
from featurelib.spark.store import resolve_uri


class Folder:
    """A folder of text files at a URI."""

    def __init__(self, session: SparkSession, uri: str) -> None:
        self.uri = resolve_uri(uri)
        with explaining(f"--out {self.uri}"):
            if self.uri.startswith(LOCAL):
                Path(self.uri.removeprefix(LOCAL)).mkdir(parents=True, exist_ok=True)
            options = storage_options(session, self.uri)
            self._files = files_at(self.uri.removeprefix(LOCAL), options)

    def write(self, name: str, text: str) -> None:
        """Write `text` to a file in the folder atomically. Raises SurroundingsError."""
        with explaining(f"--out {self.uri}/{name}"):
            if folder := name.rpartition("/")[0]:
                self._files.create_dir(folder, recursive=True)
            content = text.encode()
            size = len(content) + 1  # buffered: deltalake's stream takes bytes, but not Arrow's
            with self._files.open_output_stream(f"{name}.part", buffer_size=size) as stream:
                stream.write(content)
            self._files.move(f"{name}.part", name)

    def keep_only(self, folder: str, names: set[str], kind: str) -> None:
        """Delete files of other runs: those in `folder` that end in `kind` and are not in `names`.

        Half-written files of a killed run are removed, too. Raises SurroundingsError.
        """
        old = (f".{kind}", f".{kind}.part")
        with explaining(f"--out {self.uri}/{folder}: delete files of other runs"):
            for file in self._files.get_file_info(FileSelector(folder, allow_not_found=True)):
                if file.is_file and file.base_name not in names and file.base_name.endswith(old):
                    self._files.delete_file(file.path)
