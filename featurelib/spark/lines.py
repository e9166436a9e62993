"""Files in, landing lines out: what an ingest worker does, as plain Arrow, without Spark.

Every byte a file can give comes out as a line with its number; nothing is dropped in silence. The
number of lines is counted twice, by newlines and by rows, so that a fault here cannot hide.
Memory is bounded by a chunk, a line and a batch, never by what a gzip stream unpacks to.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import sha256

import numpy as np
import pyarrow as pa

from featurelib.landing import Quarantined, read
from featurelib.tables import LANDING_LINE

# `counted` stands on a file's last line: how many lines the file has by its newlines.
SCHEMA = LANDING_LINE.schema.remove(LANDING_LINE.schema.get_field_index("run")).append(
    pa.field("counted", pa.int64())
)
MAX_LINE_BYTES = 16 << 20
BATCH_BYTES = 16 << 20
BATCH_LINES = 2048
CHUNK_BYTES = 1 << 18  # small enough to stay in a processor's cache
NEWLINE = ord("\n")

Pieces = Callable[[], Iterator[bytes]]  # a file's stored bytes, from the start at every call


class Content:
    """The bytes of one file in chunks, unpacked if gzipped: those that can be believed.

    `fault` says what is wrong with the gzip stream. When the chunks have ended, `line_count` says
    how many lines they held, the line that reports the fault among them.
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
        for chunk in self._believed() if self._zipped else self._stored():
            self._newlines += count_newlines(chunk)
            self._last = chunk[-1:] or self._last
            yield chunk

    @property
    def line_count(self) -> int:
        return self._newlines + (self._last != b"\n") + (self.fault is not None)

    def _believed(self) -> Iterator[bytes]:
        """The first `size` bytes; what lies beyond them is not unpacked again."""
        left, chunks = self.size, unzip(self._stored)
        while left > 0:
            chunk = next(chunks)[0][:left]
            left -= len(chunk)
            yield chunk


def weigh_gzip(stored: Pieces) -> tuple[int, str | None]:
    """How many unpacked bytes can be believed, and what is wrong with the rest.

    A stream that was cut off is good as far as it goes. A member that breaks or fails its checksum
    may be wrong anywhere, in a level as well as in a bracket, so that nothing of it is believed.
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
    """Chunks of every member in turn, and whether one ends its member; zlib.error, EOFError."""
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
    """(path, content) a row in, SCHEMA out: a line a row. Null content: the worker can open it."""
    for batch in batches:
        for path, content in zip(*batch.select(["path", "content"]).columns, strict=True):
            name = path.as_py()
            if content.is_valid:
                pieces = partial(cut_buffer, content.as_buffer())
            else:
                pieces = partial(read_local, name)
            yield from parse_file(name, pieces)


def parse_file(path: str, stored: Pieces) -> Iterator[pa.RecordBatch]:
    """One file's lines as batches of SCHEMA, each of bounded size."""
    content = Content(stored, zipped=path.endswith(".gz"))
    rows = _Rows(path, 1)
    for line in split_lines(content):
        # Before the row, so that the last batch is never empty and can carry the count.
        if len(rows.raw) >= BATCH_LINES or rows.size >= BATCH_BYTES:
            yield rows.make_batch(None)
            rows = _Rows(path, rows.first + len(rows.raw))
        _judge_line(rows, line[:-1] if line.endswith(b"\r") else line)
    if content.fault is not None:
        reason = f"gzip stream is damaged after {content.size} bytes: {content.fault}"
        # The text is this row's content, so that two damaged files are not one repeated line.
        rows.add(f"{path}: {reason}".encode(), reason)
    if rows.raw:
        yield rows.make_batch(content.line_count)


def cut_buffer(stored: pa.Buffer) -> Iterator[bytes]:
    for start in range(0, stored.size, CHUNK_BYTES):
        yield stored.slice(start, min(CHUNK_BYTES, stored.size - start)).to_pybytes()


def read_local(uri: str) -> Iterator[bytes]:
    """The file behind a `file:` URI as Spark writes them: nothing in it is escaped."""
    with open(uri.removeprefix("file:"), "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def count_newlines(chunk: bytes) -> int:
    # Some times as fast as bytes.count, which looks at one byte after the other.
    return int(np.count_nonzero(np.frombuffer(chunk, dtype=np.uint8) == NEWLINE))


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines without their newline; a last one needs none. One too long loses its end."""
    pending: list[bytes] = []
    held = 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        if held <= MAX_LINE_BYTES:
            pending.append(first)
            held += len(first)
        if others:
            yield b"".join(pending)
            yield from others[:-1]
            pending, held = [others[-1]], len(others[-1])
    last = b"".join(pending)
    if last:
        yield last


def _judge_line(rows: _Rows, raw: bytes) -> None:
    if len(raw) > MAX_LINE_BYTES:
        reason = f"line is longer than {MAX_LINE_BYTES} bytes; only these are kept"
        rows.add(raw[:MAX_LINE_BYTES], reason)
        return
    line = read(raw)
    reason_or_none = line.reason if type(line) is Quarantined else None
    rows.add(raw, reason_or_none, line.kind, line.cluster, line.observed_at)


class _Rows:
    """Rows of SCHEMA by column, of lines of one file that follow each other from `first` on."""

    def __init__(self, path: str, first: int) -> None:
        self.path = path
        self.first = first
        self.size = 0  # bytes of raw
        self.raw: list[bytes] = []
        self._digests: list[bytes] = []
        self._kinds: list[str | None] = []
        self._clusters: list[str | None] = []
        self._times: list[int | None] = []
        self._reasons: list[str | None] = []

    def add(
        self,
        raw: bytes,
        reason: str | None,
        kind: str | None = None,
        cluster: str | None = None,
        observed_at: int | None = None,
    ) -> None:
        self.size += len(raw)
        self.raw.append(raw)
        self._digests.append(sha256(raw).digest())
        self._kinds.append(kind)
        self._clusters.append(cluster)
        self._times.append(observed_at)
        self._reasons.append(reason)

    def make_batch(self, counted: int | None) -> pa.RecordBatch:
        """The rows, at least one; `counted` stands on the last."""
        count = len(self.raw)
        digests = b"".join(self._digests)
        # A column is made from one piece of memory where that can be had without an object a row.
        ids = np.frombuffer(digests, dtype=">i8").reshape(count, -1)[:, 0].astype(np.int64)
        columns = {
            "content_hash": _join(digests, self._digests),
            "line_id": ids,
            "source_file": pa.repeat(self.path, count),
            "line_number": np.arange(self.first, self.first + count, dtype=np.int64),
            "kind": self._kinds,
            "cluster": self._clusters,
            "observed_at": self._times,
            "reason": self._reasons,
            "raw": _join(b"".join(self.raw), self.raw),
            "counted": [None] * (count - 1) + [counted],
        }
        arrays = [pa.array(columns[field.name], field.type) for field in SCHEMA]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _join(joined: bytes, values: list[bytes]) -> pa.BinaryArray:
    """`values`, which stand behind each other in `joined`, as an array over these bytes."""
    offsets = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(joined)]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)
