"""A terminal of 80 columns and a cluster with a long name: nothing runs over that need not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from featurelib.feature import METADATA_VERSION
from tests.cli.commands import run

NAME = "payments-europe-west-4-production-with-a-very-long-name-indeed"
# KIP-584's form, commands to copy, and the one sentence at the end, which scripts take.
FIXED = ("[Upgrade] Feature: ", "[Add] Feature: ", "Applied: ", "Dry run: ", "  then: featurelib ")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def outputs() -> Iterator[tuple[str, str]]:
    """Every step of a change, in its order."""
    _, made, _ = run("embedded", "make", "c.db", "--software", "4.1", "--metadata", "3.9")
    found = re.search(r"cluster (\S+),", made)
    assert found is not None
    Path("conf").mkdir()
    Path("conf/fleet.toml").write_text(
        f'[[cluster]]\nid = "{found[1]}"\nname = "{NAME}"\nfile = "{Path("c.db").absolute()}"\n'
        'owner = "team-payments-platform-and-more"\ncontact = "#payments-platform-on-call-and-more"'
    )
    for words in (
        ("describe", NAME),
        ("why-not", NAME, f"{METADATA_VERSION}=29"),
        ("what-if", NAME, "--release", "4.2"),
        ("roll", NAME, "--to", "4.0"),
        ("plan", NAME, "upgrade-all", "--out", "p.json"),
        ("show", "p.json"),
        ("approve", "p.json", "--expires", "4h", "--yes"),
        ("apply", "p.json", "--dry-run"),
        ("apply", "p.json", "--approval", "p.approval.json", "--yes"),
        ("journal",),
        ("resume",),
        ("plan", NAME, "upgrade", "--metadata", "29"),
    ):
        code, out, err = run(*words)
        assert code == (3 if "29" in words else 0), err
        yield " ".join(words), out


def test_no_line_runs_over_that_need_not() -> None:
    texts = dict(outputs())
    assert len(texts) == 12
    long_path = str(Path.cwd())  # one word, which is not broken
    for command, text in texts.items():
        wide = [line for line in text.splitlines() if len(line) > 80 and long_path not in line]
        assert [line for line in wide if not line.startswith(FIXED)] == [], command
    shown = texts["show p.json"]
    assert re.search(r"\ndigest\n  sha256:[0-9a-f]{64}\n", shown)  # not broken in two
    assert NAME in shown
