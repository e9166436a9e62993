"""Provide standard output, standard error and the interrupt for commands. The module imports
little, because scripts/driver.py and featurelib.__main__ use it first.

Output that cannot be written (a full disk, a closed stream) is remembered, not raised: the work is
done to its end, and the exit code says so. A character that the encoding lacks is a question mark,
in JSON an escape. Control characters and marks that change the writing direction are shown as
escapes.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import select
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

OUTPUT, ERRORS = 1, 2  # the file descriptors of stdout and stderr
OUTPUT_LOST = 74  # the exit code EX_IOERR of sysexits.h
READER_GONE = 141  # the shell's exit code for SIGPIPE
INTERRUPTED = 130
MESSAGE = "error: interrupted; run the command again, nothing is done twice"
ONLY_READ = "error: interrupted; no cluster was changed"
_says = [MESSAGE]
_interrupted = threading.RLock()
_PARTS = re.compile(r"(\x1b\[[0-7;]{1,6}m)|[^\n]")  # a style of view.layout.paint, or a character
_ESCAPED = "featurelib.escaped"  # the name of an error handler that escapes as in JSON


class Sink(io.FileIO):
    """A standard stream of the process. `fault`: the error of a failed write."""

    def __init__(self, number: int, fault: OSError | None = None) -> None:
        super().__init__(number, "w", closefd=False)
        self.fault = fault

    def is_lost(self) -> bool:
        """Return true if nobody reads the stream, for example a closed pipe."""
        poll = select.poll()
        poll.register(self, 0)  # errors are reported in any case
        if self.fault is None and any(event & select.POLLERR for _, event in poll.poll(0)):
            self.fault = BrokenPipeError()
        return self.fault is not None

    def write(self, data: Any, /) -> int:
        """Write all data; store an error in `fault`."""
        rest_bytes = memoryview(data).cast("B")
        total = len(rest_bytes)
        while rest_bytes and self.fault is None:
            try:
                # None: the pipe is full, and another process made it non-blocking.
                if (count := super().write(rest_bytes)) is None:
                    select.select([], [self], [])
                rest_bytes = rest_bytes[count or 0 :]
            except OSError as error:
                self.fault = error
        return total


class CleanText(io.TextIOWrapper):
    """A text stream that escapes control characters. `has_styles`: it keeps styles."""

    has_styles = False

    def write(self, text: str, /) -> int:
        if not text.replace("\n", "").isprintable():
            text = _PARTS.sub(self._clean, text)
        return super().write(text)

    def _clean(self, part: re.Match[str]) -> str:
        is_style = part[1] is not None and self.has_styles
        is_clean = is_style or part[0].isprintable()
        return part[0] if is_clean else "".join(map(_escape, part[0]))


def has_styles(stream: object) -> bool:
    """Return true if a standard stream is a terminal that can show styles."""
    return isinstance(stream, CleanText) and stream.has_styles


def _escape(text: str) -> str:
    """Return a text with each character escaped as in ASCII JSON."""
    units = text.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _escape_what_is_lacking(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return _escape(error.object[error.start : error.end]), error.end


def take_over(*, is_json: bool = False) -> None:
    """Replace standard output and standard error by streams that escape control characters.
    `is_json`: standard output will be JSON."""
    closed = [number for number in (0, OUTPUT, ERRORS) if not _is_open(number)]
    for _ in closed:  # the order ensures that no opened file gets a descriptor from 0 to 2
        os.open(os.devnull, os.O_RDWR)
    fault = OSError(errno.EBADF, os.strerror(errno.EBADF)) if OUTPUT in closed else None
    codecs.register_error(_ESCAPED, _escape_what_is_lacking)
    sys.stdout = _text(Sink(OUTPUT, fault), sys.stdout, _ESCAPED if is_json else "replace")
    sys.stderr = _text(Sink(ERRORS), sys.stderr, "replace")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _text(sink: Sink, before: object, errors: str) -> CleanText:
    encoding = getattr(before, "encoding", None) or "utf-8"
    # Flush every line, also into a pipe: a log of both streams must keep their order.
    stream = CleanText(io.BufferedWriter(sink), encoding, errors, line_buffering=True)
    is_dumb = os.environ.get("TERM", "dumb") == "dumb" or os.environ.get("NO_COLOR")
    stream.has_styles = sink.isatty() and not is_dumb
    return stream


def leave(run: Callable[[], object]) -> NoReturn:
    """Run a command line, write the buffered output, and end the process with the exit code."""
    try:
        run()
        code: object = 0
    except SystemExit as leaving:
        code = leaving.code or 0
    raise SystemExit(_end(code if isinstance(code, int) else 1))


def output_is_lost() -> bool:
    """Return true if nobody reads standard output, so that an endless command can end."""
    sink = _sink()
    return sink is not None and sink.is_lost()


def _sink() -> Sink | None:
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw if isinstance(raw, Sink) else None


class Screen:
    """The part of a terminal in which a page is redrawn; the lines above it stay."""

    def __init__(self) -> None:
        self._size, self._drawn = os.terminal_size((0, 0)), 0

    @staticmethod
    def is_there() -> bool:
        """Return true if standard output is a terminal on which the cursor can move up."""
        return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def draw(self, lines: list[str]) -> None:
        """Draw lines over the previous lines. Cuts the lines that do not fit on the terminal."""
        size = shutil.get_terminal_size()
        if (excess := len(lines) - (size.lines - 1)) > 0:
            lines = [*lines[: -excess - 1], f"… {excess + 1} more lines: make the window higher"]
        erase = f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""
        if self._drawn and size != self._size:  # a resize has wrapped the old lines
            erase = "\x1b[2J\x1b[H"
        sys.stdout.flush()
        # Not through CleanText, which would escape this control sequence.
        sys.stdout.buffer.write(erase.encode())
        print("\n".join(lines), flush=True)
        self._size, self._drawn = size, len(lines)


def _end(code: int) -> int:
    sink = _sink()
    fault = None if sink is None else sink.fault
    if fault is None or code:
        return code
    if isinstance(fault, BrokenPipeError):
        return READER_GONE
    reason = (fault.strerror or str(fault)).lower()
    print(f"error: standard output: {reason}; not all of it was written", file=sys.stderr)
    return OUTPUT_LOST


def leave_at_interrupt() -> None:
    """End the process with one line at SIGINT, unless the caller ignores SIGINT."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _at_interrupt)


def set_only_reads() -> None:
    """Record that no cluster was changed, for the message after an interrupt."""
    _says.append(ONLY_READ)


def ignore_interrupts() -> None:
    """Ignore SIGINT while the process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def raising_at_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGINT within the block."""
    before = signal.getsignal(signal.SIGINT)
    if before is not _at_interrupt:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _at_interrupt(number: int, frame: object) -> None:
    os._exit(say_interrupted())


def say_interrupted() -> int:
    """Print the line about an interrupt, once per process; return the exit code."""
    # The main thread and the driver's thread may both print: the second waits for the line.
    with _interrupted:
        if _says:
            with suppress(OSError):  # the disk may be full
                os.write(2, f"{_says[-1]}\n".encode())
            _says.clear()
    return INTERRUPTED
