"""What a worker makes of a file's bytes. No Spark here: plain Arrow."""

from __future__ import annotations

import gzip
import time
import tracemalloc
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from featurelib.spark import lines
from featurelib.spark.lines import SCHEMA, parse_file, parse_files, read_pieces, split_lines
from featurelib.spark.local_files import list_local

GOOD = (
    b'{"kind":"znode","cluster_id":"c","observed_at":"2026-11-21T00:00:00Z","path":"/feature",'
    b'"version":null,"czxid":null,"ephemeral_owner":null,"data":null}'
)


def parse(content: bytes, path: str = "file:/a.jsonl") -> list[dict[str, Any]]:
    batches = list(parse_file(path, partial(read_pieces, partial(pa.BufferReader, content))))
    return pa.Table.from_batches(batches, schema=SCHEMA).to_pylist()


def raws(content: bytes, path: str = "file:/a.jsonl") -> list[bytes]:
    return [row["raw"] for row in parse(content, path)]


def test_a_line_carries_its_place_its_hash_and_what_the_parser_read() -> None:
    _, row = parse(b"x\n" + GOOD + b"\n")
    digest = sha256(GOOD).digest()
    assert row["source_file"] == "file:/a.jsonl"
    assert row["line_number"] == 2
    assert row["content_hash"] == digest
    assert row["line_id"] == int.from_bytes(digest[:8], "big", signed=True)
    assert (row["kind"], row["cluster"], row["reason"]) == ("znode", "c", None)
    assert row["observed_at"].isoformat() == "2026-11-21T00:00:00+00:00"
    assert row["raw"] == GOOD


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\r\nb\r", [b"a", b"b"]),
        (b"\n\r\na\n", [b"", b"a"]),
        (b"a\rb\n", [b"a\rb"]),
        (b"a\r\r\n", [b"a\r"]),
    ],
)
def test_lines_end_at_newlines_and_nowhere_else(content: bytes, expected: list[bytes]) -> None:
    assert raws(content) == expected


def test_a_blank_line_is_a_quarantined_line() -> None:
    assert [row["reason"] is None for row in parse(b"\n" + GOOD)] == [False, True]


def test_lines_do_not_depend_on_how_the_bytes_are_cut_into_chunks() -> None:
    content = b"one\n\ntwo\r\n\n\n\n\r\n\r\n\r\n\r\nthree\n\n\n\n"
    expected = [line.removesuffix(b"\r") for line in content.split(b"\n")[:-1]]
    for size in range(1, len(content) + 1):
        chunks = [content[start : start + size] for start in range(0, len(content), size)]
        assert [line.removesuffix(b"\r") for line in split_lines(chunks)] == expected


def test_a_line_that_repeats_the_one_before_it_is_counted_and_has_no_row() -> None:
    rows = parse(b"a\na\r\na\nb\n\n\n\n\n" + GOOD + b"\n" + GOOD + b"\na\n")
    assert [(row["line_number"], row["raw"]) for row in rows] == [
        (1, b"a"),
        (4, b"b"),
        (5, b""),
        (9, GOOD),
        (11, b"a"),
    ]
    assert [(row["counted"], row["doubled"]) for row in rows] == [(None, None)] * 4 + [(11, 6)]


@pytest.mark.parametrize("line", [b"\n", b"\r\n"])
def test_a_gzip_of_newlines_costs_what_its_bytes_cost(line: bytes) -> None:
    times = 4 << 20
    packed = gzip.compress(line * times)
    began = time.process_time()
    (row,) = parse(packed, "file:/a.jsonl.gz")
    assert (row["counted"], row["doubled"]) == (times, times - 1)
    assert row["reason"] is not None
    # A look at each line took forty seconds.
    assert time.process_time() - began < 10


@pytest.mark.parametrize("content", [b"", b"a", b"a\n", b"\n\n", b"a\nb", b"a\n" * 20_000])
def test_every_file_with_a_line_carries_the_number_of_its_newlines_once(content: bytes) -> None:
    rows = parse(content)
    counted = [row["counted"] for row in rows if row["counted"] is not None]
    doubled = sum(row["doubled"] or 0 for row in rows)
    assert counted == ([len(rows) + doubled] if rows else [])


def test_batches_are_bounded_in_lines_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BATCH_LINES", 3)
    monkeypatch.setattr(lines, "BATCH_BYTES", 10)
    content = b"a\nb\nc\nd\n" + b"0123456789\n9876543210\n"
    sizes = [
        batch.num_rows
        for batch in parse_file("file:/a", partial(read_pieces, partial(pa.BufferReader, content)))
    ]
    assert sizes == [3, 2, 1]


def test_a_line_too_long_is_quarantined_and_its_end_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 10)
    monkeypatch.setattr(lines, "CHUNK_BYTES", 4)
    long, after = parse(b"x" * 35 + b"\nafter")
    assert long["raw"] == b"x" * 10
    assert long["reason"] == "line is longer than 10 bytes; only these are kept"
    assert (after["raw"], after["line_number"]) == (b"after", 2)


def test_gzip_is_recognised_by_its_name_or_by_its_first_bytes() -> None:
    packed = gzip.compress(b"a\nb\n")
    assert raws(packed, "file:/a.jsonl.gz") == raws(packed, "file:/a.jsonl") == [b"a", b"b"]


def test_members_of_a_gzip_file_follow_each_other_without_a_seam() -> None:
    packed = gzip.compress(b"a\nb") + gzip.compress(b"") + gzip.compress(b"c\n") + b"\0" * 512
    assert raws(packed, "file:/a.gz") == [b"a", b"bc"]


def test_an_empty_file_is_an_empty_gzip_file() -> None:
    assert parse(b"", "file:/a.gz") == []


def test_a_gzip_file_that_was_cut_off_keeps_every_line_it_has() -> None:
    some = Random(1)  # the cut falls within a line, not behind one
    content = b"".join(some.randbytes(20).hex().encode() + b"\n" for _ in range(5_000))
    *kept, cut, fault = parse(gzip.compress(content)[:60_000], "file:/a.gz")
    assert content.startswith(b"\n".join([*(row["raw"] for row in kept), cut["raw"]]))
    assert len(kept) > 1_000
    size = sum(len(row["raw"]) + 1 for row in kept) + len(cut["raw"])
    assert fault["reason"] == f"gzip stream is damaged after {size} bytes: it ends early"
    assert fault["line_number"] == fault["counted"] == len(kept) + 2


def test_nothing_is_believed_of_a_gzip_member_that_fails_its_checksum() -> None:
    """One wrong bit can turn a level 8 into a 9 that parses."""
    member = bytearray(gzip.compress(b"level 8\n"))
    member[-8] ^= 1
    good, fault = parse(gzip.compress(b"good\n") + bytes(member), "file:/a.gz")
    assert good["raw"] == b"good"
    assert "gzip stream is damaged after 5 bytes" in fault["reason"]
    assert "incorrect data check" in fault["reason"]


def test_two_damaged_files_are_two_lines() -> None:
    faults = [parse(b"plain text", path)[0] for path in ("file:/a.gz", "file:/b.gz")]
    assert faults[0]["reason"] == faults[1]["reason"]
    assert faults[0]["content_hash"] != faults[1]["content_hash"]


def test_what_a_gzip_file_unpacks_to_is_never_held_whole() -> None:
    packed = partial(read_pieces, partial(pa.BufferReader, gzip.compress(bytes(128 << 20))))
    tracemalloc.start()
    (batch,) = parse_file("file:/bomb.gz", packed)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "longer than" in batch.to_pylist()[0]["reason"]
    assert peak < 64 << 20


def test_a_file_the_worker_opens_reads_like_one_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 100)
    content = b"".join(b"%d\n" % number for number in range(1_000))
    path = tmp_path / "a %20.jsonl"
    path.write_bytes(content)
    schema = pa.schema([("path", pa.string()), ("content", pa.binary())])
    rows = [
        {"path": f"file:{path}", "content": content},
        {"path": f"file:{path}", "content": None},
    ]
    given, opened = (
        pa.Table.from_batches(parse_files([pa.RecordBatch.from_pylist([row], schema=schema)]))
        for row in rows
    )
    assert given.num_rows == 1_000
    assert given.equals(opened)


def test_a_landing_file_that_is_named_is_listed_as_it_is_in_its_folder(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl.gz", "c.txt"):
        (tmp_path / name).write_bytes(b"{}\n")
    (tmp_path / "empty.jsonl").touch()
    whole = {file.source_file: file for file in list_local(str(tmp_path), print)}
    assert [*whole] == [f"file:{tmp_path}/{name}" for name in ("a.jsonl", "b.jsonl.gz")]
    for uri, file in whole.items():
        assert [*list_local(uri.removeprefix("file:"), print)] == [file]
    for other in ("c.txt", "empty.jsonl"):
        assert [*list_local(f"{tmp_path}/{other}", print)] == []
