"""Find landing files below a local folder without Spark, entering every folder once.

The same files count as for Spark: no hidden names, none that begin with `_`, no empty file. A link
to a folder that is read anyway, in a loop or not, is reported and not followed; Spark would follow
one loop forty times, and two loops forever.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from featurelib.errors import LandingError
from featurelib.words import count

ENDINGS = ("jsonl", "jsonl.gz", "ndjson", "ndjson.gz", "json", "json.gz")


def local_path(uri: str) -> str | None:
    """Return `uri` as absolute local path; None if it is not a local file."""
    scheme, colon, path = uri.partition(":")
    if colon and "/" not in scheme and scheme != "file":
        return None
    path = path if colon and scheme == "file" else uri
    # One slash only: Delta treats file:///x and file:/x as two places (DELTA_AMBIGUOUS_PATHS).
    return os.path.abspath("/" + path.lstrip("/") if path.startswith("//") else path)


class Landed(NamedTuple):
    """A landing file, with its size and modification time (microseconds)."""

    source_file: str
    size: int
    modified_at: int


def missing(landing: str) -> LandingError:
    """Return the error that a landing folder or file does not exist."""
    return LandingError(
        f"landing {landing}: there is no such folder or file; nothing was written. "
        "Name the folder that holds the landing files with --landing."
    )


def walk(root: str, say: Callable[[str], None]) -> Iterator[str]:
    """Yield the paths of all landing files in a folder and its subfolders, in order. If `root` is a
    file, yield it. Raises OSError."""
    endings = tuple(f".{ending}" for ending in ENDINGS)
    if not os.path.isdir(root):
        yield from [root] * root.endswith(endings)
        return
    entered: set[tuple[int, int]] = set()
    folders = deque([root])
    links: deque[str] = deque()
    while folders or links:
        folder = folders.popleft() if folders else links.popleft()
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in entered:
            say(f"ingest: {ascii(folder)[1:-1]} is a link to a folder that is read anyway: once")
            continue
        entered.add((status.st_dev, status.st_ino))
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            if entry.name.startswith((".", "_")):
                continue
            if os.path.isdir(entry.path):  # false for a link to itself
                (links if entry.is_symlink() else folders).append(entry.path)
            elif entry.name.endswith(endings):
                yield entry.path


def list_local(root: str, say: Callable[[str], None]) -> Iterator[Landed]:
    """Yield the non-empty landing files in a folder and its subfolders. Raises OSError."""
    empty = 0
    for path in walk(root, say):
        try:
            status = os.stat(path)
        except PermissionError:
            raise
        except OSError:  # a broken link, or a deleted file
            continue
        if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
            empty += stat.S_ISREG(status.st_mode)
            continue
        if any("\ud800" <= letter <= "\udfff" for letter in path):  # Spark needs UTF-8
            say(f"ingest: {ascii(path)[1:-1]} is left out: its name is not UTF-8. Rename it")
            continue
        # In whole milliseconds, as Spark wrote them into existing tables.
        at = status.st_mtime_ns // 1_000_000 * 1000
        yield Landed(f"file:{path}", status.st_size, at)
    if empty:
        say(f"ingest: {count(empty, 'empty file')} left out")
