"""Landing files on this machine: one a cluster and round, there whole or not at all.

A name begins with the time, so that files sort, and because a cluster id may begin with a sign that
makes readers of folders skip the file. What is being written has a name nobody ingests.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from featurelib.errors import ConfigError, LandingError, NoEvidenceError

SUFFIX = ".jsonl"
PART = ".part"  # of a file that is being written; its name begins with a dot, too
_TIME = "%Y%m%dT%H%M%S.%fZ"
_SAFE = re.compile(r"[^A-Za-z0-9_-]")
_GZIP = b"\x1f\x8b"
STDIN = "-"
ENDINGS = tuple(f".{end}{packed}" for end in ("jsonl", "ndjson", "json") for packed in ("", ".gz"))
LONGEST_ID = 100  # characters of an id in a name; real ones have 22


def name_of(cluster_id: str, at: datetime, what: str = "") -> str:
    """The name of the file of one cluster and one round: `TIME-CLUSTER[-WHAT].jsonl`."""
    return f"{at.astimezone(UTC).strftime(_TIME)}-{_slug(cluster_id)}{what and '-' + what}{SUFFIX}"


def files_of(folder: Path, cluster_id: str) -> list[Path]:
    """The cluster's files of earlier rounds in this folder, newest first."""
    slug = _slug(cluster_id)
    found = [
        path for path in folder.glob(f"*{SUFFIX}") if path.name.partition("-")[2] == slug + SUFFIX
    ]
    return sorted(found, key=lambda path: path.name, reverse=True)


def write_lines(path: Path, lines: Iterable[bytes]) -> int:
    """Write landing lines to a new file, which appears when it is whole; returns their number.

    Raises ConfigError where the folder cannot be written; on any error nothing appears.
    """
    part = path.with_name(f".{path.name}{PART}")
    count = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("xb") as file:
            for line in lines:
                file.write(line + b"\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
        _sync_folder(path.parent)
    except OSError as error:
        _remove(part)
        raise ConfigError(
            f"{path}: expected a file that can be written, found: {error.strerror}. Nothing of it "
            "landed. Name another folder with --out, or make room."
        ) from error
    except BaseException:
        _remove(part)
        raise
    return count


def read_lines(name: str) -> Iterator[bytes]:
    """The lines of a file, gzipped or not, or of stdin (`-`). Raises LandingError."""
    number = 0
    try:
        with contextlib.ExitStack() as stack:
            stored = 0 if name == STDIN else name
            raw = stack.enter_context(open(stored, "rb", closefd=name != STDIN))
            zipped = raw.peek(2)[:2] == _GZIP
            for line in stack.enter_context(gzip.open(raw)) if zipped else raw:
                number += 1
                yield line
    except (OSError, EOFError, zlib.error) as error:
        found = getattr(error, "strerror", None) or error
        place = f"{name}:{number + 1}" if number else name
        raise LandingError(
            f"{place}: expected a file that can be read, found: {found}. Nothing was written."
        ) from error


def landing_lines(option: str, path: str) -> Iterator[bytes]:
    """The lines below `path`, files by name; `option` is what a message calls it.

    Raises LandingError (no such place, damaged file), NoEvidenceError (no landing file).
    """
    place = Path(path)
    if not place.exists():
        raise LandingError(f"{option} {path}: expected a file or folder, found none. Name another.")
    files = [place]
    if place.is_dir():
        files = sorted(f for f in place.rglob("*") if f.name.endswith(ENDINGS) and f.is_file())
    if not files:
        raise NoEvidenceError(
            f"{option} {path}: expected files *{', *'.join(ENDINGS)}, found none. Name the folder "
            "that holds the landing files."
        )
    for file in files:
        try:
            content = file.read_bytes()
            yield from (gzip.decompress(content) if file.suffix == ".gz" else content).splitlines()
        except (OSError, EOFError, zlib.error) as error:
            raise LandingError(
                f"{file}: expected a whole landing file, found: {error}. Copy it again."
            ) from error


def _slug(cluster_id: str) -> str:
    """The id as part of a file name; ids that differ stay different."""
    safe = _SAFE.sub("_", cluster_id)
    if safe == cluster_id and len(safe) <= LONGEST_ID:
        return safe
    return f"{safe[:LONGEST_ID]}.{sha256(cluster_id.encode()).hexdigest()[:8]}"


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(part: Path) -> None:
    with contextlib.suppress(OSError):
        part.unlink()
