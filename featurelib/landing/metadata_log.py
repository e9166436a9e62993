"""One line of `kafka-dump-log --cluster-metadata-decoder`, read.

Both forms are understood: with record metadata (`| offset: N … payload: {…}`) and without it
(` payload: {…}`). Nothing raises: what cannot be read is an `Undecodable` record. A collector may
keep back lines that say nothing, and then says so with a line of its own (`left_out`).
"""

from __future__ import annotations

import re

from featurelib.landing.fault import FaultError, show
from featurelib.landing.log_items import (
    Batch,
    Body,
    BootstrapStart,
    Dumping,
    LeftOut,
    LogItem,
    LogStart,
    Other,
    Record,
    SnapshotStart,
    Undecodable,
)
from featurelib.landing.log_records import control, payload

_RECORD = "| offset: "
_PAYLOAD = " payload: "
_IDLE = '{"type":"NO_OP_RECORD"'  # two a second on an idle cluster: most lines of most logs
_IDLE_BODY = Other("NO_OP_RECORD")
_BATCH = re.compile(
    r"baseOffset: (\d{1,18}) lastOffset: (\d{1,18}) count: (\d{1,10}) .*"
    r"isControl: (true|false) .*isvalid: true",
    re.ASCII,
)
_OFFSET = re.compile(r"\d{1,18}", re.ASCII)  # well within an int64
_SNAPSHOT_START = "Snapshot end offset: "
_LEFT_OUT = re.compile(
    r"featurelib: left out (\d{1,18}) lines?(?:, offsets? (\d{1,18})(?: to (\d{1,18}))?)?\.",
    re.ASCII,
)
_LOG_STARTS = ("Log starting offset: ", "Starting offset: ")


def parse_line(line: str) -> LogItem | None:
    """What the line says; None if it carries nothing (blank, prompts, errors of the tool).

    Source: Kafka, DumpLogSegments.
    """
    if line.startswith(_RECORD):
        return _record(line)
    if line.startswith("baseOffset: "):
        return _batch(line)
    if line.startswith(" "):
        body = _body(line, 0)
        return None if body is None else Record(None, body)
    return _heading(line)


def _record(line: str) -> Record:
    end = line.find(" ", len(_RECORD))
    digits = line[len(_RECORD) : end]
    if not _OFFSET.fullmatch(digits):
        return _unread(line)
    return Record(int(digits), _body(line, end) or _undecodable(line))


def _body(line: str, start: int) -> Body | None:
    """The record that follows `start`; None if none does."""
    at = line.find(_PAYLOAD, start)
    text = at + len(_PAYLOAD)
    if at >= 0 and line.startswith(_IDLE, text) and line.endswith("}}"):
        return _IDLE_BODY
    try:
        return control(line[start:]) if at < 0 else payload(line[text:])
    except FaultError as fault:
        return Undecodable(str(fault))


def _batch(line: str) -> Batch | Record:
    found = _BATCH.match(line)
    if not found:
        return _unread(line)
    base, last, count, is_control = found.groups()
    return Batch(int(base), int(last), int(count), is_control == "true")


def _heading(line: str) -> LogItem | None:
    if line.startswith("Dumping "):
        return Dumping(line.removeprefix("Dumping "))
    if line.startswith("KRaft bootstrap snapshot"):
        return BootstrapStart()
    if line.startswith("featurelib: "):
        return _left_out(line)
    for start in _LOG_STARTS:
        if line.startswith(start):
            offset = _OFFSET.fullmatch(line.removeprefix(start).rstrip())
            return LogStart(int(offset[0])) if offset else _unread(line)
    if line.startswith(_SNAPSHOT_START):
        offset = _OFFSET.match(line, len(_SNAPSHOT_START))
        is_whole = offset and line.startswith(", epoch: ", offset.end())
        return SnapshotStart(int(offset[0])) if offset and is_whole else _unread(line)
    return _unread(line) if line.startswith("|") else None


def left_out(item: LeftOut) -> str:
    """The line that stands for lines a collector kept back; `parse_line` reads it."""
    text = f"featurelib: left out {item.lines} line{'' if item.lines == 1 else 's'}"
    if item.first is None:
        return f"{text}."
    if item.first == item.last:
        return f"{text}, offset {item.first}."
    return f"{text}, offsets {item.first} to {item.last}."


def _left_out(line: str) -> LeftOut | Record:
    found = _LEFT_OUT.fullmatch(line)
    if not found:
        return _unread(line)
    lines = int(found[1])
    first = None if found[2] is None else int(found[2])
    last = first if found[3] is None else int(found[3])
    possible = first is None or last is None or 0 <= last - first < lines
    return LeftOut(lines, first, last) if lines and possible else _unread(line)


def _unread(line: str) -> Record:
    return Record(None, _undecodable(line))


def _undecodable(line: str) -> Undecodable:
    return Undecodable(f"expected a whole line of kafka-dump-log, found {show(line)}")
