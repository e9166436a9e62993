"""`featurelib conformance` and `featurelib rules`."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from featurelib.conformance.rulebook import rulebook
from tests.cli import commands
from tests.core import recordings


def run(*args: str) -> tuple[int, str, str]:
    return commands.run("conformance", *args)


def lines(name: str, count: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in recordings.lines(name)[:count]]


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return str(path)


def wrong(count: int) -> list[dict[str, Any]]:
    """A recording of 3.3.2 in which every code is another."""
    rows = lines("3.3.2.jsonl.xz", count)
    for row in rows:
        row["response"]["error_code"] = 7
    return rows


def test_a_difference_is_shown_and_told_by_the_exit_code(tmp_path: Path) -> None:
    good = write(tmp_path / "good.jsonl", lines("zk-3.9.2.jsonl.xz", 3))
    bad = write(tmp_path / "bad.jsonl", wrong(1))
    code, out, err = run(good, bad)
    assert code == 1
    assert err == f"[1/2] {good}\n[2/2] {bad}\n"
    assert out.endswith(
        "\n3.3.2-stable-001-low-dry-metadata-version-1-up: code\n"
        "  recorded  7\n"
        "  ours      0\n"
        "\n"
        "4 exchanges, 1 difference\n"
    )


def test_only_the_first_twenty_are_shown(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.jsonl", wrong(22))
    code, out, _ = run(path)
    assert (code, out.count("  recorded  ")) == (1, 20)
    assert "\n2 more differences: --all shows them\n" in out
    code, out, _ = run(path, "--all")
    assert (code, out.count("  recorded  "), "more" in out) == (1, 22, False)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_files_are_read(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "recorded"
    path.write_bytes(pack(b"\n".join(recordings.lines("zk-2.7.2.jsonl.xz"))))
    assert run(str(path))[1].endswith("119 exchanges, no difference\n")
    path.write_bytes(path.read_bytes()[:-20])
    code, _, err = run(str(path))
    assert code == 2
    assert f"error: {path}: expected a whole .gz or .xz file, found: " in err


def test_a_line_of_another_form_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text('{"kind": "api_versions"}\n', encoding="utf-8")
    code, out, err = run(str(path))
    assert (code, out) == (2, "")
    assert err.splitlines()[1] == (
        f"error: {path}:1: expected a recorded exchange, one JSON object a line with id, release, "
        "mode, cluster, request, response and after; found: Object missing required field `id`. "
        "docs/conformance.md specifies the form, and `featurelib rules --dialects` lists the "
        "releases."
    )


def test_a_release_nobody_knows_is_named_with_its_line(tmp_path: Path) -> None:
    rows = lines("3.3.2.jsonl.xz", 2)
    rows[1]["release"] = "7.9.1-acme"
    path = write(tmp_path / "acme.jsonl", rows)
    code, out, err = run(path)
    assert code == 2
    assert f"error: {path}:2: " in err
    assert "found: no dialect for release 7.9.1 in kraft mode" in err
    assert out.endswith("1 exchange, no difference\n")  # the other line is replayed


def test_lines_of_another_form_do_not_hide_the_others(tmp_path: Path) -> None:
    rows = lines("3.3.2.jsonl.xz", 2)
    rows[0]["response"]["error_code"] = 7
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(["[1]"] * 23 + [json.dumps(row) for row in rows]), encoding="utf-8")
    code, out, err = run(str(path))
    assert code == 2
    assert "2 exchanges, 1 difference" in out
    assert err.count("expected a recorded exchange") == 20
    assert err.endswith("error: and 3 more lines: --all shows every one\n")
    document = json.loads(run(str(path), "--json")[1])
    assert len(document["unread"]) == 23
    assert f"{path}:23: " in document["unread"][-1]


def test_a_file_that_is_missing_or_empty_is_a_usage_error(tmp_path: Path) -> None:
    code, out, err = run(str(tmp_path / "nothing"))
    assert (code, out) == (2, "")
    assert "nothing: expected a file of recorded exchanges, found: No such file" in err
    code, out, err = run(str(tmp_path))
    assert (code, out) == (2, "")
    assert "found: Is a directory" in err
    (tmp_path / "empty").touch()
    code, out, err = run(str(tmp_path / "empty"))
    assert (code, out) == (2, "")
    assert "empty: expected a recorded exchange a line, found no line" in err


def test_the_help_says_how_to_record() -> None:
    code, out, _ = run("--help")
    assert code == 0
    said = " ".join(out.split())
    assert "featurelib conformance --json" in said
    assert "To record your vendor's controller, write one JSON object a line" in said
    assert "0 done, no difference; 1 differences; 2 usage" in said


@pytest.mark.parametrize("name", rulebook())
def test_every_rule_can_be_told(name: str) -> None:
    code, out, err = commands.run("rules", name)
    assert (code, err) == (0, "")
    assert out.startswith(f"{name}\n")
    dialects = rulebook()[name].dialects
    assert [dialect for dialect in dialects if f"{dialect} as " not in out] == []
    assert max(len(line) for line in out.splitlines()) <= 100
