"""What Spark's errors mean where its surroundings are at fault: a disk, another run, the workers'
Python, a file of a table. Whatever is not known here is a fault of ours.

Spark says such things somewhere in hundreds of lines, in the words of whoever noticed. They are
known by those words; what a user reads is one sentence, with the next step.
"""

from __future__ import annotations

import re

from featurelib.errors import BusyError, ConfigError, FeatureLibError, TableError
from featurelib.words import clean

LONGEST = 250  # characters of what somebody else said
PYTHON = (
    "PYSPARK_PYTHON names the workers' Python, which needs featurelib's dependencies "
    "(docs/how-to/spark-cluster.md)."
)
# What an error's text has, which error it is, and what is said; {} = what the pattern caught.
FAULTS: tuple[tuple[str, type[FeatureLibError], str], ...] = (
    (
        r"No space left on device|Disk quota exceeded",
        ConfigError,
        "expected room on the disks that Spark writes to, found none (no space left on device). "
        "Make room and run again: nothing is counted twice.",
    ),
    (
        r"Cannot run program \"(?P<found>[^\"]*)\"",
        ConfigError,
        f"the workers cannot start their Python, {{}}. {PYTHON}",
    ),
    (
        r"ModuleNotFoundError: (?P<found>No module named '[^']*')",
        ConfigError,
        f"the workers' Python lacks a package: {{}}. {PYTHON}",
    ),
    (
        r"DELTA_CONCURRENT_[A-Z_]+|Concurrent(?:Append|Transaction|Write|Delete\w+)Exception"
        r"|DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION|DELTA_PROTOCOL_CHANGED",
        BusyError,
        "tables: another run wrote to them at the same time. Run again when it has ended: what "
        "both have written stands, and nothing is counted twice.",
    ),
    (
        r"(?P<found>\S+\.(?:parquet|json)\S*) (?:is not a Parquet file|does not exist)[^\n]*"
        r"|FAILED_READ_FILE[^\n]*?(?P<file>[\w:/.=-]+\.(?:parquet|json))"
        r"|\[DELTA_(?:MISSING|LOG|TRUNCATED|VERSIONS_NOT|STATE|FILE_NOT)[A-Z_]*\](?P<log>[^\n]*)"
        r"|(?P<versions>[Vv]ersions \([^)]*\) are not contiguous[^\n]*)",
        TableError,
        "a table cannot be read: {}. A file of it is missing or damaged: restore it, or name other "
        "tables with --tables (ingest reads landing files again into new ones).",
    ),
)


def explain(error: BaseException) -> FeatureLibError | None:
    """The error of featurelib's own that this one is; None = it is not known."""
    text = str(error)
    for pattern, kind, says in FAULTS:
        if (found := re.search(pattern, text)) is not None:
            caught = next((part for part in found.groups() if part), found.group())
            return kind(says.format(clean(caught.strip('":. '), LONGEST)))
    return None
