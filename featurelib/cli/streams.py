"""Standard output and standard error as commands need them.

What cannot be written (a disk that is full, a stream that is closed, a reader that went away) is
remembered and not raised: what is under way is done to its end, and the exit code says so. A
character that the encoding lacks is shown as a question mark, in JSON as an escape. What nodes and
files say cannot steer a terminal: controls and marks that turn the direction of writing are shown
as escapes, in the form that JSON has too.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import select
import sys
from collections.abc import Callable
from typing import Any, NoReturn

OUTPUT, ERRORS = 1, 2  # file descriptors
OUTPUT_LOST = 74  # EX_IOERR of sysexits.h
READER_GONE = 141  # as a shell shows what SIGPIPE ended
_ESCAPED = "featurelib.escaped"  # what an encoding lacks, as JSON writes it


class Sink(io.RawIOBase):
    """One standard stream of the process. `fault` says why something could not be written."""

    def __init__(self, number: int, fault: OSError | None = None) -> None:
        self._number, self.fault = number, fault

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: Any, /) -> int:
        """Write all of it, or remember why not."""
        left = memoryview(data).cast("B")
        whole = len(left)
        while left and self.fault is None:
            try:
                left = left[os.write(self._number, left) :]
            except BlockingIOError:  # somebody else made the pipe so
                select.select([], [self._number], [])
            except OSError as error:
                self.fault = error
        return whole


class CleanText(io.TextIOWrapper):
    """Text without anything that could steer a terminal; line ends are kept."""

    def write(self, text: str, /) -> int:
        if not text.replace("\n", "").isprintable():
            text = "".join(c if c.isprintable() or c == "\n" else _escape(c) for c in text)
        return super().write(text)


def _escape(text: str) -> str:
    """Characters as JSON writes them where it keeps to ASCII."""
    units = text.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _escape_what_is_lacking(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return _escape(error.object[error.start : error.end]), error.end


def take_over(*, is_json: bool = False, has_colours: bool = False) -> None:
    """Put both streams in place of Python's. To standard output goes JSON (`is_json`), or text of
    somebody who cleans what others said and uses escapes of his own (`has_colours`)."""
    closed = [number for number in (0, OUTPUT, ERRORS) if not _is_open(number)]
    for _ in closed:  # in their order; or the next file that is opened would be one of them
        os.open(os.devnull, os.O_RDWR)
    fault = OSError(errno.EBADF, os.strerror(errno.EBADF)) if OUTPUT in closed else None
    kind = io.TextIOWrapper if has_colours else CleanText
    codecs.register_error(_ESCAPED, _escape_what_is_lacking)
    sys.stdout = _text(kind, Sink(OUTPUT, fault), sys.stdout, _ESCAPED if is_json else "replace")
    sys.stderr = _text(CleanText, Sink(ERRORS), sys.stderr, "replace")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _text(
    kind: Callable[..., io.TextIOWrapper], sink: Sink, before: object, errors: str
) -> io.TextIOWrapper:
    encoding = getattr(before, "encoding", None) or "utf-8"
    # Line by line into a pipe, too: a log of both streams has to keep their order.
    return kind(io.BufferedWriter(sink), encoding, errors, line_buffering=True)


def leave(run: Callable[[], object]) -> NoReturn:
    """Run a command line, and end the process with its code once all of its output is written."""
    try:
        run()
        code: object = 0
    except SystemExit as leaving:
        code = leaving.code or 0
    raise SystemExit(_end(code if isinstance(code, int) else 1))


def _end(code: int) -> int:
    stream = sys.stdout
    stream.flush()
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    fault = raw.fault if isinstance(raw, Sink) else None
    if fault is None or code:
        return code
    if isinstance(fault, BrokenPipeError):
        return READER_GONE
    why = (fault.strerror or str(fault)).lower()
    print(f"error: standard output: {why}; not all of it was written", file=sys.stderr)
    return OUTPUT_LOST
