"""Every command's text and JSON over the samples, a night's tables and embedded clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.transcript import REWRITES, play
from tests.laboratory import LABORATORY
from tests.report.samples import read_samples

ROOT = Path(__file__).parents[2]
# What is typed, progress, a command to copy, KIP-584's form, and the one sentence at the end of it.
MAY_BE_WIDE = (
    "  featurelib why-not ",
    "$ ",
    "! ",
    "% ",
    "# ",
    "  then: ",
    "[Upgrade] ",
    "[Add] ",
    "Applied: ",
    "Dry run: ",
)
TRANSCRIPTS = sorted(Path(__file__).parent.glob("commands/*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_commands_print_what_they_printed(
    path: Path, tables: Path, nights: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "conf").symlink_to(ROOT / "conf")
    (folder / "data").mkdir()
    (folder / "data" / "samples").symlink_to(LABORATORY)
    for name in ("kubernetes", "msk"):
        (folder / "data" / name).symlink_to(ROOT / "data" / name)
    (folder / "tables").symlink_to(tables)
    (folder / "nights").symlink_to(nights)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    for name in ("HOME", "FEATURELIB_HOME"):
        monkeypatch.setenv(name, str(folder))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("USER", "ann")
    monkeypatch.setenv("LOGNAME", "ann")
    monkeypatch.chdir(folder)
    script = path.read_text("utf-8")
    played = play(script, folder, frozenset(read_samples().names))
    if REWRITES:
        path.write_text(played, "utf-8")
    assert played == script or REWRITES


def test_at_80_columns_no_line_runs_over_that_need_not() -> None:
    [path] = [path for path in TRANSCRIPTS if path.stem == "narrow"]
    text = path.read_text("utf-8").replace("<time>", "2026-11-21 06:00 UTC")
    wide = [line for line in text.splitlines() if len(line) > 80]
    assert [line for line in wide if not line.startswith(MAY_BE_WIDE)] == []
