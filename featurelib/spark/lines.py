"""Read files into landing lines: the work of an ingest worker, as plain Arrow, without Spark.

Every readable byte of a file is returned in a line with its number; nothing is dropped silently.
Of equal lines in succession only the first has a row: ten gigabytes of newlines, ten megabytes as
gzip, are one. The number of lines is counted twice, by newlines and by rows, so that a
fault here cannot hide. Memory is bounded by a chunk, a line and a batch, never by what a gzip
stream unpacks to.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from hashlib import sha256
from io import FileIO
from itertools import groupby

import numpy as np
import pyarrow as pa

from featurelib.arrow import batch_of, schema_of
from featurelib.errors import InputError
from featurelib.landing import Quarantined, read
from featurelib.rows import Column, Int, Texts, cells_of, make_rows, numbers_of, texts_of
from featurelib.schema import LONG, Schema
from featurelib.tables import LANDING_LINE
from featurelib.words import microseconds

# The last row of a file has two counts: `counted`, its lines by newlines, and `doubled`, the lines
# that repeat the line before and have no row.
_COLUMNS = [(name, kind) for name, kind in LANDING_LINE.schema.fields if name != "run"]
_SCHEMA = Schema.of([*_COLUMNS, ("counted", LONG), ("doubled", LONG)])
SCHEMA = schema_of(_SCHEMA)
MAX_LINE_BYTES = 16 << 20
BATCH_BYTES = 16 << 20
BATCH_LINES = 2048
CHUNK_BYTES = 1 << 18  # small enough to stay in a processor's cache
NEWLINE = ord("\n")

Pieces = Callable[[], Iterator[bytes]]  # returns a file's stored bytes from the start at every call


class Content:
    """The trustworthy bytes of one file, in chunks, unpacked if the file is gzipped.

    `fault` is the error of the gzip stream. After the last chunk, `line_count` is the number of
    lines, with the line that reports the fault.
    """

    def __init__(self, stored: Pieces, zipped: bool) -> None:
        start = next(stored(), b"")
        self._stored = stored
        self._zipped = bool(start) and (zipped or start.startswith(b"\x1f\x8b"))
        self._newlines = 0
        self._last = b"\n"
        self.size = 0
        self.fault: str | None = None
        if self._zipped:
            self.size, self.fault = weigh_gzip(stored)

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._first_bytes() if self._zipped else self._stored():
            # Several times as fast as bytes.count, which checks one byte after the other.
            self._newlines += int(np.count_nonzero(np.frombuffer(chunk, np.uint8) == NEWLINE))
            self._last = chunk[-1:] or self._last
            yield chunk

    @property
    def line_count(self) -> int:
        return self._newlines + (self._last != b"\n") + (self.fault is not None)

    def _first_bytes(self) -> Iterator[bytes]:
        """Yield the first `size` bytes of the unpacked file."""
        unread, chunks = self.size, unzip(self._stored)
        while unread > 0:
            chunk = next(chunks)[0][:unread]
            unread -= len(chunk)
            yield chunk


def weigh_gzip(stored: Pieces) -> tuple[int, str | None]:
    """Return the number of trustworthy unpacked bytes, and the fault of the rest.

    A truncated stream is good up to its end. A member that breaks or fails its checksum may be
    wrong anywhere, also in a level, so nothing of it is trusted.
    """
    size = believed = 0
    try:
        for chunk, at_end in unzip(stored):
            size += len(chunk)
            believed = size if at_end else believed
    except zlib.error as error:
        return believed, str(error)
    except EOFError as error:
        return size, str(error)
    return size, None


def unzip(stored: Pieces) -> Iterator[tuple[bytes, bool]]:
    """Yield (chunk, is last of its member) of a gzip stream. Raises zlib.error, EOFError."""
    decoder = zlib.decompressobj(wbits=31)
    for piece in stored():
        while piece:
            if decoder.eof:
                piece = piece.lstrip(b"\0")  # padding after a member is allowed
                decoder = zlib.decompressobj(wbits=31) if piece else decoder
                continue
            chunk = decoder.decompress(piece, CHUNK_BYTES)
            yield chunk, decoder.eof
            piece = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
    if not decoder.eof:
        yield decoder.flush(), False
        raise EOFError("it ends early")


def parse_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Parse files, given as rows (path, content), to lines of SCHEMA. Content null = the worker
    reads the file."""
    for batch in batches:
        for path, content in zip(*batch.select(["path", "content"]).columns, strict=True):
            name = path.as_py()
            opening = partial(FileIO, name.removeprefix("file:"))  # the path is not escaped
            if content.is_valid:
                opening = partial(pa.BufferReader, content.as_buffer())
            yield from parse_file(name, partial(read_pieces, opening))


def parse_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Parse landing lines, in the first column of `batches`, to rows of SCHEMA with an empty
    `source_file`."""
    for batch in batches:
        lines = [line or b"" for line in batch.column(0).to_pylist()]
        for start in range(0, len(lines), BATCH_LINES):
            rows = [_judged(line, 0) for line in lines[start : start + BATCH_LINES]]
            yield _batch("", rows)


def line_column(names: Iterable[str]) -> str | None:
    """Return the column of landing lines, `raw` or `value`; None without such a column."""
    usable = set(names)
    return next((name for name in ("raw", "value") if name in usable), None)


def wrong_lines(columns: str, remedy: str) -> InputError:
    """Return the error about a table without a column of landing lines. `columns`: its columns."""
    return InputError(
        "The table of landing lines needs a column `value` or `raw` of type string or binary, a "
        f"line a row. {columns} {remedy}"
    )


def limit_of(as_of: datetime | str | None) -> int | None:
    """Return `as_of` in microseconds; None = the newest line. Raises InputError."""
    try:
        return None if as_of is None else microseconds(as_of)
    except ValueError as error:
        raise InputError(
            f"as_of {as_of!r} is no time. Give a datetime, or ISO-8601 as 2026-11-21T06:00:00Z."
        ) from error


def parse_file(path: str, stored: Pieces) -> Iterator[pa.RecordBatch]:
    """Parse one file to batches of SCHEMA with limited size."""
    content = Content(stored, zipped=path.endswith(".gz"))
    rows: list[_Row] = []
    number = doubled = size = 0
    for raw, repeated in groupby(line.removesuffix(b"\r") for line in split_lines(content)):
        # Before the row, so that the last batch is never empty and can have the counts.
        if len(rows) >= BATCH_LINES or size >= BATCH_BYTES:
            yield _batch(path, rows)
            size, rows = 0, []
        rows.append(_judged(raw, number + 1))
        size += len(rows[-1][1])
        times = sum(1 for _ in repeated)
        number, doubled = number + times, doubled + times - 1
    if content.fault is not None:
        reason = f"gzip stream is damaged after {content.size} bytes: {content.fault}"
        # The text is this row's content: two damaged files are no repeated lines.
        rows.append((number + 1, f"{path}: {reason}".encode(), reason, None, None, None))
    if rows:
        yield _batch(path, rows, content.line_count, doubled)


def read_pieces(opening: Callable[[], FileIO]) -> Iterator[bytes]:
    """Yield the content of a file in pieces. `opening`: opens the file."""
    with opening() as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines without line end. A line that is too long is cut."""
    pending: list[bytes] = []
    size = 0
    for chunk in chunks:
        first, *rest_lines = chunk.split(b"\n")
        if size <= MAX_LINE_BYTES:
            pending.append(first)
            size += len(first)
        if rest_lines:
            yield b"".join(pending)
            yield from rest_lines[:-1]
            pending, size = [rest_lines[-1]], len(rest_lines[-1])
    last = b"".join(pending)
    if last:
        yield last


_Row = tuple[int, bytes, str | None, str | None, str | None, int | None]  # a row of SCHEMA


def _judged(raw: bytes, number: int) -> _Row:
    if len(raw) > MAX_LINE_BYTES:
        reason = f"line is longer than {MAX_LINE_BYTES} bytes; only these are kept"
        return number, raw[:MAX_LINE_BYTES], reason, None, None, None
    line = read(raw)
    reason_or_none = line.reason if type(line) is Quarantined else None
    return number, raw, reason_or_none, line.kind, line.cluster, line.observed_at


def _batch(
    path: str, rows: list[_Row], counted: int | None = None, doubled: int | None = None
) -> pa.RecordBatch:
    """Return rows of one file as a batch. `counted`, `doubled`: counts for the last row."""
    count = len(rows)
    numbers, raw, reasons, kinds, clusters, times = zip(*rows, strict=True)
    digests = [sha256(line).digest() for line in raw]
    ids = np.frombuffer(b"".join(digests), dtype=">i8").reshape(count, -1)[:, 0]
    columns: dict[str, Column | Int] = {
        "content_hash": cells_of(digests),
        "line_id": ids.astype(np.int64),
        "source_file": Texts(words=[path], codes=np.zeros(count, dtype=np.int64)),
        "line_number": np.array(numbers, dtype=np.int64),
        "kind": texts_of(kinds),
        "cluster": texts_of(clusters),
        "observed_at": numbers_of(times),
        "reason": texts_of(reasons),
        "raw": cells_of(raw),
        "counted": numbers_of([*[None] * (count - 1), counted]),
        "doubled": numbers_of([*[None] * (count - 1), doubled]),
    }
    return batch_of(make_rows(_SCHEMA, count, columns))
