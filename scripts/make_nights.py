"""Makes the nights before, data/nights, from the recordings in data/samples, which are the newest.

    .venv/bin/python -m scripts.make_nights

A recording has one moment or some, seconds apart: a moment begins when a question is asked again.
The nights before hold the earlier moments, as if days lay between them; where nothing happened they
hold the same as the newest. A line is as it was recorded, but for the day in its `observed_at`.
What was asked at the end only is of every night what was true then: of a dump of the metadata log
what was written by then, and who votes, which changed in no recording, with a high watermark that
is the end of that dump.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"
RECORDED = "2026-11-21"
NIGHTS = ("2026-11-19", "2026-11-20")
FORMATTED = {"k40-fresh": 1, "k42-dynamic": 2, "k43-unstable": 2}  # in which night; others before
DUMP, VOTERS = "metadata_log", "describe_quorum"
WRITTEN = re.compile(r"CreateTime: (\d+) ")  # milliseconds
RECORD = re.compile(r"\| offset: (\d+) ")
WATERMARK = re.compile(rb'"high_watermark":\d+')
Line = dict[str, Any]


def moments(lines: list[Line]) -> list[list[str]]:
    """When the questions of each moment of a recording were asked."""
    found: list[list[str]] = []
    asked: set[object] = set()
    for line in sorted(lines, key=itemgetter("observed_at")):
        question = line.get("path"), line.get("endpoint"), line.get("asked_version")
        if any(question):
            if not found or question in asked:
                found.append([])
                asked.clear()
            found[-1].append(line["observed_at"])
            asked.add(question)
    return found


def night_of(recording: bytes, night: int) -> Iterator[bytes]:
    """The lines of one cluster that landed in a night, the first being 0."""
    texts = [text for text in recording.splitlines() if b'"observed_at"' in text]
    lines = [json.loads(text) for text in texts]
    known = moments(lines)
    at = max(0, len(known) - 1 - len(NIGHTS) + night)
    is_last = at == len(known) - 1
    begin, end = known[at][0], "9999" if is_last else known[at + 1][0]
    asks_who_votes = any(
        line["kind"] == VOTERS and begin <= line["observed_at"] < end for line in lines
    )
    dumped, ends = True, [0]
    for line in lines:
        if line["kind"] == DUMP and (found := RECORD.match(line["line"])):
            written = WRITTEN.search(line["line"])
            ends += [int(found[1]) + 1] * (written is not None and _time(written) <= known[at][-1])
    for text, line in zip(texts, lines, strict=True):
        if line["kind"] == DUMP and not is_last:
            written = WRITTEN.search(line["line"])
            dumped &= written is None or _time(written) <= known[at][-1]
            is_of_it = dumped
        elif line["kind"] == VOTERS and not asks_who_votes:
            is_of_it = True
            text = WATERMARK.sub(b'"high_watermark":%d' % max(ends), text)
        else:
            is_of_it = begin <= line["observed_at"] < end
        if is_of_it:
            was, is_now = (f'"observed_at":"{day}T'.encode() for day in (RECORDED, NIGHTS[night]))
            yield text.replace(was, is_now)


def _time(written: re.Match[str]) -> str:
    """When a record was written, as lines say it."""
    return datetime.fromtimestamp(int(written[1]) / 1000, UTC).isoformat()


def nights() -> dict[str, bytes]:
    """By day what landed: a file that is gzipped, as collectors write it."""
    recordings = {file.parent.name: file for file in sorted(DATA.glob("samples/*/landing.jsonl"))}
    made = {}
    for night, day in enumerate(NIGHTS):
        there = [file for name, file in recordings.items() if FORMATTED.get(name, 0) <= night]
        lines = [line for file in there for line in night_of(file.read_bytes(), night)]
        made[day] = gzip.compress(b"".join(line + b"\n" for line in lines), mtime=0)
    return made


if __name__ == "__main__":
    for day, text in nights().items():
        (DATA / "nights").mkdir(exist_ok=True)
        (DATA / "nights" / f"{day}.jsonl.gz").write_bytes(text)
