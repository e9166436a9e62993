"""Files without end end a command with one line; `/dev/zero` stands for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from featurelib import collecting
from featurelib.config import files
from tests.cli.commands import run

ENDLESS = "/dev/zero"


@pytest.mark.parametrize(
    "words",
    [
        ("show", ENDLESS),
        ("approve", ENDLESS, "--expires", "1h"),
        ("apply", ENDLESS, "--approval", ENDLESS),
        ("show", "plan.json", "--overlay", ENDLESS),
        ("plan", "c", "upgrade-all", "--fleet", ENDLESS),
        ("plan", "c", "upgrade-all", "--config", ENDLESS, "--file", "c.db"),
        ("describe", "--capture", ENDLESS),
        ("inventory", "import", "--from-msk", ENDLESS),
    ],
)
def test_a_file_without_end_is_one_line(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "LONGEST_FILE", 1 << 20)
    monkeypatch.setattr(collecting, "_LONGEST_LINE", 1 << 20)
    code, _, error = run(*words)
    assert code in (2, 5)
    assert "more than 1 MiB" in error
    assert len(error.strip().splitlines()) == 1
