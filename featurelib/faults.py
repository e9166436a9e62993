"""Recognise environment errors by their messages: a disk, a store, a worker or a damaged file, as
Java, Spark, Delta, deltalake, Arrow and the operating system report them.

The message may be anywhere in hundreds of lines. The user gets one sentence: problem, place, detail
and action. Only faults.toml has the messages; an unknown message is a bug of featurelib. The first
matching row counts, so root causes come first: a killed worker breaks connections, and a full disk
breaks files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Literal

import msgspec

from featurelib import errors
from featurelib.errors import FeatureLibError, SurroundingsError
from featurelib.words import clean

LONGEST = 250  # the maximum length of another program's message, in characters
LONGEST_TEXT = 200_000  # the searched characters: the message is near the start
PYTHON = (
    "PYSPARK_PYTHON names the workers' Python, which needs featurelib's dependencies "
    "(docs/how-to/spark-cluster.md)."
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FILE = r"[\w./:@=%+~-]{2,500}"
# Patterns of the place of a read or write in other programs' messages; the first match counts.
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


@contextmanager
def explaining(location: str) -> Iterator[None]:
    """Convert known errors of disk, store or workers in the block to featurelib's errors."""
    try:
        yield
    except FeatureLibError:
        raise
    except Exception as error:
        if (explained := explain(error, location)) is None:
            raise
        raise explained from error


def explain(error: BaseException, location: str = "") -> FeatureLibError | None:
    """Return featurelib's error for a known error of another program; None if unknown. `location`:
    used if the error names no place."""
    if isinstance(error, FeatureLibError):
        return error
    text = _COLOURS.sub("", f"{type(error).__name__}: {error}")[:LONGEST_TEXT]
    for row in _FAULTS.fault:
        if (match := row.pattern.search(text)) is not None:
            detail = in_a_line(next((part for part in match.groups() if part), match.group()))
            at = next((hit["at"] for pattern in _PLACES if (hit := pattern.search(text))), location)
            at = in_a_line(at) if at else ""
            return row.explain(detail, at) if row.error else damaged(detail, at)
    return None


def in_a_line(text: str) -> str:
    """Return another program's message in one line without colours."""
    line = " ".join(_COLOURS.sub("", text).split())
    return clean(line.strip(": ."), LONGEST)


def damaged(detail: str, location: str) -> SurroundingsError:
    """Return the error about a missing or damaged file of a table, with advice."""
    tables = _TABLE.findall(f"{location} {detail}")
    name = tables[0] if tables else ""
    advice = _FAULTS.restore.get(name) or _FAULTS.restore[name.partition("/")[0]]
    of = f"table {name.replace('/', '.')}" if name else "a file"
    at = f" at {location}" if location and "/" not in detail else ""
    return SurroundingsError(
        f"{of}{at}: cannot be read, because a file of it is missing or damaged: {detail}. {advice}."
    )


class _Fault(msgspec.Struct, frozen=True):
    """A known error: a row `fault` in faults.toml, where the fields are explained."""

    patterns: list[str]
    error: Literal["BusyError", "ConfigError", "SurroundingsError"] | None = None
    sentence: str = ""
    nowhere: str = "a disk or store"

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of all messages of this error."""
        return re.compile("|".join(self.patterns).replace("{file}", _FILE))

    def explain(self, detail: str, location: str) -> FeatureLibError:
        """Return featurelib's error with the sentence of this row."""
        text = self.sentence.format(said=detail, where=location or self.nowhere, python=PYTHON)
        kind: type[FeatureLibError] = getattr(errors, self.error or "")
        return kind(text)


class _Faults(msgspec.Struct, frozen=True):
    """The content of faults.toml."""

    restore: dict[str, str]
    fault: list[_Fault]


_FAULTS = msgspec.toml.decode(
    resources.files(__package__).joinpath("faults.toml").read_bytes(), type=_Faults
)
