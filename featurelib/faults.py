"""Faults of the surroundings, known by their words: a disk, a store, a worker, a damaged file, and
what Java, Spark, Delta, deltalake, Arrow and the operating system say of them.

They stand somewhere in hundreds of lines, in the words of whoever noticed. What a user reads is one
sentence: what, where, what was found, and what to do. This is the only place that knows the words;
whatever is not known here is a fault of ours. The first row that fits counts, so what others follow
from comes first: a worker that was killed breaks connections, and a full disk breaks files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from featurelib.errors import BusyError, ConfigError, FeatureLibError, SurroundingsError
from featurelib.words import clean

LONGEST = 250  # characters of what somebody else said
LONGEST_TEXT = 200_000  # characters that are searched: the words stand near the beginning
PYTHON = (
    "PYSPARK_PYTHON names the workers' Python, which needs featurelib's dependencies "
    "(docs/how-to/spark-cluster.md)."
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FILE = r"[\w./:@=%+~-]{2,500}"
# Where something was written or read, as others say it; the first that is found.
_PLACES = tuple(
    re.compile(one)
    for one in (
        rf"writing rows to (?P<at>{_FILE}?)\.? +SQLSTATE",
        rf"(?:\[Errno \d+\]|\(os error \d+\))[^\n]*?'(?P<at>{_FILE})'",
        rf"FileSystemException: (?P<at>{_FILE}): ",
        rf"FileNotFoundException: (?P<at>{_FILE}) \(",
        rf"(?:path|file|File|for) [`'\"]?(?P<at>(?:file|hdfs|s3a?|abfss?|gs):/{_FILE})",
        rf"(?P<at>(?:hdfs|s3a?|abfss?|gs)://{_FILE})",
    )
)
_TABLE = re.compile(r"(?:bronze|silver|gold)/[a-z_]+")
# What can be done where a file of a table is gone; of the longest name that fits.
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
        "Restore it, or move the folder silver away and run nightly: it is made anew from bronze"
    ),
    "gold": (
        "Restore it, or move that table's folder away and run nightly: the table begins anew, "
        "without its earlier nights"
    ),
    "": "Restore it and run again",
}

Make = Callable[[str, str], FeatureLibError]  # what was said, and where; empty = nobody said it


@contextmanager
def explaining(where: str) -> Iterator[None]:
    """What the block raises about the surroundings becomes an error of featurelib's own."""
    try:
        yield
    except FeatureLibError:
        raise
    except Exception as error:
        if (known := explain(error, where)) is None:
            raise
        raise known from error


def explain(error: BaseException, where: str = "") -> FeatureLibError | None:
    """The error of featurelib's own that this one is; None = it is not known. `where` stands for a
    place that the error does not name."""
    if isinstance(error, FeatureLibError):
        return error
    text = _COLOURS.sub("", f"{type(error).__name__}: {error}")[:LONGEST_TEXT]
    for pattern, make in FAULTS:
        if (found := pattern.search(text)) is not None:
            said = next((part for part in found.groups() if part), found.group())
            at = next((one["at"] for place in _PLACES if (one := place.search(text))), where)
            return make(in_a_line(said), in_a_line(at) if at else "")
    return None


def in_a_line(said: str) -> str:
    """What others say of a fault, which may be many lines in colours."""
    line = " ".join(_COLOURS.sub("", said).split())
    return clean(line.strip(": ."), LONGEST)


def damaged(said: str, where: str) -> SurroundingsError:
    """A file of a table that is missing or cut off, with what can be done about that table."""
    tables = _TABLE.findall(f"{where} {said}")
    name = tables[0] if tables else ""
    anew = _ANEW.get(name) or _ANEW[name.partition("/")[0]]
    of = f"table {name.replace('/', '.')}" if name else "a file"
    at = f" at {where}" if where and "/" not in said else ""
    return SurroundingsError(
        f"{of}{at}: cannot be read, because a file of it is missing or damaged: {said}. {anew}."
    )


def _line(error: type[FeatureLibError], sentence: str, *, nowhere: str = "a disk or store") -> Make:
    """What makes the error of a sentence with {where} and {said}; `nowhere` is {where} where nobody
    named it."""
    return lambda said, where: error(sentence.format(said=said, where=where or nowhere))


def _other_python(said: str, where: str) -> ConfigError:
    return ConfigError(
        "the workers' Python is of another release than the driver's: "
        f"{said.replace(' than that in driver: ', ', and not ')}. PYSPARK_PYTHON names the "
        "workers' Python: let it be one of the driver's release (docs/how-to/spark-cluster.md)."
    )


# What an error's text has, and what is made of it: of what the pattern caught, or of all it found.
FAULTS: tuple[tuple[re.Pattern[str], Make], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (
            r"No space left on device|Disk quota exceeded|There is not enough space on the disk"
            r"|QuotaExceededException",
            _line(
                SurroundingsError,
                "the disk of {where}: expected room, found none ({said}). Make room and run again: "
                "nothing is counted twice.",
                nowhere="--tables, of --out or of Spark's scratch (SPARK_LOCAL_DIRS, else /tmp)",
            ),
        ),
        (
            r"Cannot run program \"([^\"]*)\"",
            _line(ConfigError, f"the workers cannot start their Python, {{said}}. {PYTHON}"),
        ),
        (
            r"Python in worker has different version: (\S+ than that in driver: [\d.]+)",
            _other_python,
        ),
        (
            r"ModuleNotFoundError: (No module named '[^']*')",
            _line(ConfigError, f"the workers' Python lacks a package: {{said}}. {PYTHON}"),
        ),
        (
            # What featurelib's own process raises, and not a worker whose words Spark passes on.
            r"^(?:MemoryError|ArrowMemoryError|OSError: \[Errno 12\])[^\n]*",
            _line(
                SurroundingsError,
                "featurelib has no memory left ({said}). Let the process have more, or give it "
                "less at once: fewer or smaller files.",
            ),
        ),
        (
            r"OutOfMemoryError: [^\n]*|GC overhead limit exceeded|MemoryError\b[^\n]*"
            r"|Cannot allocate memory|SparkOutOfMemoryError"
            r"|failed to map segment from shared object(?!: )",
            _line(
                SurroundingsError,
                "Spark has no memory left ({said}). Run again with more, as in ./spark-submit.sh "
                "--driver-memory 4g nightly …; on a cluster also --executor-memory. Nothing is "
                "counted twice.",
            ),
        ),
        (
            r"(Python worker exited unexpectedly[^\n:.]*)|Python worker (?:process )?crashed"
            r"|(ExecutorLostFailure \([^\n]*)|Failed to connect to (?:Python|worker)[^\n]*"
            r"|Python worker failed to connect back|SparkException: EOF reached before Python",
            _line(
                SurroundingsError,
                "a worker of Spark died ({said}). Run again: nothing is counted twice. If it "
                "happens again, memory is short: fewer tasks at once (MASTER='local[1]'), or more "
                "of it.",
            ),
        ),
        (
            r"SparkContext was shut down|Py4JNetworkError[^\n]*|Answer from Java side is empty"
            r"|Cannot call methods on a stopped SparkContext|while trying to connect to the Java"
            # What a job's own Python cannot reach without saying where is its JVM.
            r"|^(?:ConnectionRefused|ConnectionReset|BrokenPipe)Error: \[Errno \d+\] [\w ]+$",
            _line(
                SurroundingsError,
                "Spark's own process has ended, or was ended ({said}). Run again: nothing is "
                "counted twice. If it happens again, look whether the cluster that MASTER names "
                "answers, or give more memory: ./spark-submit.sh --driver-memory 4g …",
            ),
        ),
        (
            r"DELTA_CONCURRENT_[A-Z_]+|Concurrent(?:Append|Transaction|Write|Delete\w+)Exception"
            r"|DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION|DELTA_PROTOCOL_CHANGED"
            r"|Failed to commit transaction",
            _line(
                BusyError,
                "tables: another run wrote to them at the same time. Run again when it has ended: "
                "what both have written stands, and nothing is counted twice.",
            ),
        ),
        (
            r"Unsupported table features required: [^\n]*|set these reader features: [^\n]*"
            r"|Schema evolution on column-mapped tables",
            _line(
                ConfigError,
                "{where}: another writer turned on table features that featurelib cannot use "
                "({said}). Drop them (ALTER TABLE ... DROP FEATURE), or name other tables.",
                nowhere="a table",
            ),
        ),
        (
            r"No FileSystem for scheme \"?[\w+.-]+\"?|Class (?:org\.apache\.hadoop|com)\.[\w.$]+"
            r" not found|DELTA_UNSUPPORTED_SCHEME[^\n]*|Unknown scheme: [^\n]*"
            r"|Could not find a valid ObjectStore[^\n]*|No suitable object store found[^\n]*",
            _line(
                ConfigError,
                "{where}: nothing here can open it ({said}). Name another place, or give Spark "
                "what opens it (docs/how-to/spark-cluster.md).",
                nowhere="a store",
            ),
        ),
        (
            r"(http://169\.254\.169\.254)",  # who has no credentials asks the machine's cloud last
            _line(
                SurroundingsError,
                "{where}: no credentials were found, nor does {said} give those of this machine. "
                "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and run again.",
                nowhere="a store",
            ),
        ),
        (
            r"Read-only file system|Permission denied|AccessControlException: [^\n]*"
            r"|Operation not permitted|AccessDenied(?:Exception)?\b[^\n<]*"
            r"|(?:InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken)[^\n<]*"
            r"|(?:NoAuthWithAWSException|NoAwsCredentials)[^\n]*"
            r"|(?:Status Code: |status: |HTTP )40[13]\b[^\n]*"
            r"|(?:SdkClientException|CredentialsNotLoaded)[^\n]*[Cc]redentials[^\n]*",
            _line(
                SurroundingsError,
                "{where}: access is refused ({said}). Let this user, or these credentials, read "
                "and write there, or name another place; then run again.",
            ),
        ),
        (
            rf"({_FILE}\.(?:parquet|json|crc)\S*) (?:is not a Parquet file|does not exist)"
            rf"|(?:Failed to open local file|Object at location) '?({_FILE}\.(?:parquet|json))"
            rf"|Could not open Parquet input source '({_FILE})'|(Corrupt \w+ compressed data)"
            rf"|FAILED_READ_FILE[^\n]*?({_FILE}\.(?:parquet|json))"
            r"|\[DELTA_(?:MISSING|LOG|TRUNCATED|VERSIONS_NOT|STATE|FILE_NOT)[A-Z_]*\]([^\n]*)"
            r"|([Vv]ersions \([^)]*\) are not contiguous[^\n]*)"
            r"|Kernel error: (?:Generic \w+ kernel error: )?((?:(?!: \w+ \{)[^\n])*)",
            damaged,
        ),
        (
            r"Connection refused|Connection reset|No route to host|Network is unreachable"
            r"|(?:UnknownHost|NoRouteToHost|SocketTimeout|ConnectTimeout\w*)Exception: [^\n]*"
            r"|error sending request[^\n]*|dns error[^\n]*|(?:NoSuch|Unknown)Bucket[^\n<]*"
            r"|client error \(Connect\)|Status Code: 5\d\d\b[^\n]*",
            _line(
                SurroundingsError,
                "{where}: cannot be reached, or is not there ({said}). Look whether its name is "
                "right and whether it answers, then run again: nothing is counted twice.",
                nowhere="a store",
            ),
        ),
        (
            r"Input/output error|Stale file handle|Too many open files|File too large"
            r"|Too many levels of symbolic links|File name too long"
            r"|(?:java\.io\.\w*Exception|FileSystemException|FileNotFoundError): [^\n]*",
            _line(
                SurroundingsError,
                "{where}: cannot be read or written ({said}). Fix that and run again: nothing is "
                "counted twice.",
            ),
        ),
    )
)
