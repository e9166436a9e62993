"""Colours: every command has them on a terminal, none has them elsewhere. Real processes."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.backends.simulator import Simulated
from tests.extras.watch.test_watch import AT_40, TABLES
from tests.report.samples import SAMPLES

STYLE = re.compile(r"\x1b\[[\d;]+m")
CAPTURE = ("--capture", str(SAMPLES / "k41-forgotten"), "--as-of", "newest")
COMMANDS = {
    "check": ("check", *CAPTURE),
    "describe": ("describe", *CAPTURE),
    "why-not": ("why-not", "metadata.version=29", *CAPTURE),
    "what-if": ("what-if", "--release", "4.2", *CAPTURE),
}


def on_a_terminal(*words: str, answer: str = "", **environment: str) -> str:
    """What a command writes to a terminal: both streams are one. Somebody types the answer."""
    main, other = pty.openpty()
    known = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    command = [sys.executable, "-m", "featurelib", *words]
    process = subprocess.Popen(
        command,
        stdin=other,
        stdout=other,
        stderr=other,
        env=known | {"TERM": "xterm"} | environment,
    )
    os.close(other)
    os.write(main, answer.encode())
    read = b""
    try:
        while chunk := os.read(main, 4096):
            read += chunk
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(main)
    assert process.wait(timeout=120) == 0
    return read.decode().replace("\r\n", "\n")


def in_a_pipe(*words: str) -> str:
    command = [sys.executable, "-m", "featurelib", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_colour_is_for_a_terminal_and_changes_no_letter(name: str) -> None:
    words = COMMANDS[name]
    painted, plain = on_a_terminal(*words, COLUMNS="100"), in_a_pipe(*words)
    assert "\x1b" not in plain
    assert STYLE.search(painted)
    bare = STYLE.sub("", painted)
    assert "\\u001b" not in bare  # a style that was shown as text
    assert "\x1b" not in bare
    assert [line.rstrip() for line in plain.splitlines()] == [
        line.rstrip() for line in bare.splitlines()
    ]


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_who_wants_no_colour_gets_none(environment: dict[str, str]) -> None:
    assert "\x1b" not in on_a_terminal(*COMMANDS["check"], **environment)


def test_json_has_no_colour_on_a_terminal() -> None:
    assert "\x1b" not in on_a_terminal(*COMMANDS["check"], "--json")


def test_a_name_from_outside_paints_nothing(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text('[[cluster]]\nid = "a"\nname = "\\u001b[31mred\\u001b[2J"\nowner = "b"\n')
    shown = on_a_terminal("check", "--all", *CAPTURE, "--fleet", str(fleet))
    assert "red" in shown
    assert "\x1b[2J" not in shown
    assert "\x1b[31mred" not in shown


def test_the_questions_of_approve_and_apply_have_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with Simulated("c.db", TABLES, cluster_id="c-1") as made:
        made.put(replace(AT_40, finalized={"metadata.version": (7, 7)}), 9)
    (tmp_path / "fleet.toml").write_text(
        '[[cluster]]\nid = "c-1"\nname = "payments"\nfile = "c.db"\n'
    )
    fleet = ("--fleet", "fleet.toml")
    planned = on_a_terminal("plan", "payments", "upgrade-all", "--out", "p.json", *fleet)
    assert "\x1b[1mStep\x1b[0m" in planned
    words = ("approve", "p.json", "--expires", "1h", *fleet)
    plain = on_a_terminal(*words, answer="y\n", NO_COLOR="1")
    assert "\x1b" not in plain
    approved = on_a_terminal(*words, answer="y\n")
    applied = on_a_terminal("apply", "p.json", *fleet, answer="y\n")
    for shown, question in ((approved, "Approve"), (applied, "Apply")):
        assert "\x1b[1mStep\x1b[0m" in shown
        assert "\x1b[1;31mPOINT\x1b[0m" in shown
        assert f"\x1b[1m{question}\x1b[0m \x1b[1mthis\x1b[0m" in shown
    assert re.search("^.*it replaces the approval", plain, re.MULTILINE) is None
    assert "it replaces the approval" in approved
