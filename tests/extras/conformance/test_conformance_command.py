"""`featurelib conformance` and `featurelib rules`."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path
from typing import Any

import pytest

from featurelib.extras.rules.book import rulebook
from tests.cli import commands
from tests.core import recordings


def run(*args: str) -> tuple[int, str, str]:
    return commands.run("conformance", *args)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_files_are_read(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "recorded"
    path.write_bytes(pack(b"\n".join(recordings.lines("zk-2.7.2.jsonl.xz"))))
    assert run(str(path))[1].endswith("119 exchanges, no difference\n")
    path.write_bytes(path.read_bytes()[:-20])
    code, _, err = run(str(path))
    assert code == 2
    assert f"error: {path}: The .gz or .xz file is cut or damaged: " in err


@pytest.mark.parametrize("name", rulebook())
def test_every_rule_can_be_told(name: str) -> None:
    code, out, err = commands.run("rules", name)
    assert (code, err) == (0, "")
    assert out.startswith(f"{name}\n")
    dialects = rulebook()[name].dialects
    assert [dialect for dialect in dialects if f"{dialect} as " not in out] == []
    assert max(len(line) for line in out.splitlines()) <= 100
