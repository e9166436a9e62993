"""Recognise errors of the environment by their messages: a disk, a store, a worker or a damaged
file, as Java, Spark, Delta, deltalake, Arrow and the operating system report them.

The message may be anywhere in hundreds of lines. The user gets one sentence: what, where, what was
found, and what to do. Only faults.toml has the messages; an unknown one is a fault of ours. The
first fitting row counts, so root causes come first: a worker that was killed breaks connections,
and a full disk breaks files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources

import msgspec

from featurelib.errors import BusyError, ConfigError, FeatureLibError, SurroundingsError
from featurelib.words import clean

LONGEST = 250  # characters of another program's message
LONGEST_TEXT = 200_000  # characters that are searched: the message is near the start
PYTHON = (
    "PYSPARK_PYTHON names the workers' Python, which needs featurelib's dependencies "
    "(docs/how-to/spark-cluster.md)."
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FILE = r"[\w./:@=%+~-]{2,500}"
# The place of a read or write, in other programs' messages; the first match counts.
_PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"writing rows to (?P<at>{_FILE}?)\.? +SQLSTATE",
        rf"(?:\[Errno \d+\]|\(os error \d+\))[^\n]*?'(?P<at>{_FILE})'",
        rf"FileSystemException: (?P<at>{_FILE}): ",
        rf"FileNotFoundException: (?P<at>{_FILE}) \(",
        rf"(?:path|file|File|for) [`'\"]?(?P<at>(?:file|hdfs|s3a?|abfss?|gs):/{_FILE})",
        rf"(?P<at>(?:hdfs|s3a?|abfss?|gs)://{_FILE})",
    )
)
_TABLE = re.compile(r"(?:bronze|silver|gold)/[a-z_]+")
# The advice for a missing file of a table; the longest matching name counts.
_ANEW = {
    "bronze": (
        "Restore it from a copy: nothing else has these lines. Without one, move the folders "
        "bronze and silver away and run nightly: it reads the landing files that are still there"
    ),
    "bronze/ingest_run": (
        "Restore it, or move that table's folder away and run again: landing files are read "
        "again, and their lines are recognised"
    ),
    "silver": (
        "Restore it, or move the folder silver away and run nightly, which rebuilds it from bronze"
    ),
    "gold": (
        "Restore it, or move that table's folder away and run nightly, which creates the table "
        "again, without its earlier runs"
    ),
    "": "Restore it and run again",
}

Make = Callable[[str, str], FeatureLibError]  # message and place; empty = no place


@contextmanager
def explaining(place: str) -> Iterator[None]:
    """Turn errors of the surroundings in the block into errors of featurelib's own."""
    try:
        yield
    except FeatureLibError:
        raise
    except Exception as error:
        if (known := explain(error, place)) is None:
            raise
        raise known from error


def explain(error: BaseException, location: str = "") -> FeatureLibError | None:
    """Return featurelib's own error for `error`; None = unknown. `location` is the place for an
    error that names none."""
    if isinstance(error, FeatureLibError):
        return error
    text = _COLOURS.sub("", f"{type(error).__name__}: {error}")[:LONGEST_TEXT]
    for pattern, make in FAULTS:
        if (match := pattern.search(text)) is not None:
            detail = next((part for part in match.groups() if part), match.group())
            at = next((hit["at"] for place in _PLACES if (hit := place.search(text))), location)
            return make(in_a_line(detail), in_a_line(at) if at else "")
    return None


def in_a_line(text: str) -> str:
    """Return a message, which may be many coloured lines, as one line."""
    line = " ".join(_COLOURS.sub("", text).split())
    return clean(line.strip(": ."), LONGEST)


def damaged(detail: str, location: str) -> SurroundingsError:
    """Return the error for a missing or truncated file of a table, with advice for that table."""
    tables = _TABLE.findall(f"{location} {detail}")
    name = tables[0] if tables else ""
    anew = _ANEW.get(name) or _ANEW[name.partition("/")[0]]
    of = f"table {name.replace('/', '.')}" if name else "a file"
    at = f" at {location}" if location and "/" not in detail else ""
    return SurroundingsError(
        f"{of}{at}: cannot be read, because a file of it is missing or damaged: {detail}. {anew}."
    )


def _other_python(detail: str, location: str) -> ConfigError:
    return ConfigError(
        "the workers' Python is of another release than the driver's: "
        f"{detail.replace(' than that in driver: ', ', and not ')}. PYSPARK_PYTHON names the "
        "workers' Python: let it be one of the driver's release (docs/how-to/spark-cluster.md)."
    )


class _Row(msgspec.Struct, frozen=True):
    """A row of faults.toml; that file explains the fields."""

    patterns: list[str]
    error: str = ""
    sentence: str = ""
    nowhere: str = "a disk or store"
    make: str = ""

    def explain(self, detail: str, location: str) -> FeatureLibError:
        """Return the error with the row's sentence."""
        text = self.sentence.format(said=detail, where=location or self.nowhere, python=PYTHON)
        return _ERRORS[self.error](text)


_ERRORS = {kind.__name__: kind for kind in (BusyError, ConfigError, SurroundingsError)}
_MAKERS: dict[str, Make] = {"damaged": damaged, "other_python": _other_python}
_TABLE_OF_ROWS = resources.files(__package__).joinpath("faults.toml").read_bytes()
# A pattern in an error's text, and the function for its matches.
FAULTS: tuple[tuple[re.Pattern[str], Make], ...] = tuple(
    (
        re.compile("|".join(row.patterns).replace("{file}", _FILE)),
        _MAKERS.get(row.make, row.explain),
    )
    for row in msgspec.toml.decode(_TABLE_OF_ROWS, type=dict[str, list[_Row]])["fault"]
)
