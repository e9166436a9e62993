"""Every example of the pages runs, and prints what the page says; every option in them exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from featurelib.cli.app import make_app
from tests.cli.commands import run
from tests.docs.examples import (
    BLOCK,
    PAGES,
    ROOT,
    Example,
    commands_in,
    examples,
    files,
    is_as_printed,
    left_out,
    name_of,
)

EXECUTED = [page for page in PAGES if examples(page)]
# Commands that need no cluster: what a page shows of them is executed wherever it stands.
ALWAYS = ("version-mapping", "feature-dependencies", "initial-levels", "rules", "conformance")
REASONS = ("needs a cluster of yours", "needs Kafka's tools", "needs a Spark cluster")
# What a developer may have set, and a reader has not.
FOREIGN = (
    "COLUMNS",
    "FEATURELIB_CASES",
    "FEATURELIB_REWRITE",
    "COVERAGE",
    "MASTER",
    "PYTHON",
    "PYSPARK",
    "XDG_",
)
SUBMIT = """#!/usr/bin/env bash
# The README's first command, with its results in this folder and not in the checkout.
unset PYTHONPATH
exec '{root}/spark-submit.sh' nightly --tables "$PWD/build/samples/tables" \\
  --out "$PWD/build/samples/out" "$@"
"""


def _needs_spark(page: Path) -> bool:
    return any("spark-submit.sh" in example.command for example in examples(page))


def _folder(path: Path, page: Path) -> dict[str, str]:
    """A folder as a checkout looks to a reader, with the files that the page shows, and the
    environment commands run in."""
    for name, text in files(page).items():
        (path / name).write_text(text, encoding="utf-8")
    for name in ("conf", "data", "docs", "featurelib", "tests"):
        (path / name).symlink_to(ROOT / name)
    submit = path / "spark-submit.sh"
    submit.write_text(SUBMIT.format(root=ROOT), encoding="utf-8")
    submit.chmod(0o755)
    (path / ".venv").symlink_to(ROOT / ".venv")
    (path / "home").mkdir()
    environment = {n: text for n, text in os.environ.items() if not n.startswith(FOREIGN)}
    environment["PATH"] = f"{ROOT / '.venv' / 'bin'}:{environment['PATH']}"
    # `featurelib` is found here first, so that build/samples is the one of this folder.
    environment |= {"HOME": str(path / "home"), "PYTHONPATH": str(path), "CI": "true"}
    return environment | {"USER": "ann", "LOGNAME": "ann", "PYTHONDONTWRITEBYTECODE": "1"}


def _run(
    example: Example, before: int, folder: Path, environment: dict[str, str]
) -> tuple[int, str]:
    """Exit code and what was printed; `$?` is what the command before ended with."""
    done = subprocess.run(
        ["bash", "-c", f"(exit {before}); {example.command}"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, marks=[pytest.mark.spark] if _needs_spark(page) else [], id=name_of(page)
        )
        for page in EXECUTED
    ],
)
def test_what_a_page_types_prints_what_it_says(page: Path, tmp_path: Path) -> None:
    environment = _folder(tmp_path, page)
    todo, code = examples(page), 0
    for at, example in enumerate(todo):
        code, printed = _run(example, code, tmp_path, environment)
        asked = at + 1 < len(todo) and todo[at + 1].command == "echo $?"
        assert code == 0 or asked, f"{example}: ended with {code}:\n{printed}"
        assert is_as_printed(example.printed, printed), (
            f"{example}\n--- the page says\n{example.printed}\n--- printed was\n{printed}"
        )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_line_of_a_page_can_be_read(page: Path) -> None:
    """Commands, options and their forms; nothing is run."""
    for line in commands_in(page):
        words = shlex.split(_filled(line), comments=True)
        _parse(words[1:], f"{name_of(page)}: {line}")


def _filled(line: str) -> str:
    """`…` in a command stands for words that do not matter."""
    return re.split(r" (?:\||>>?) ", re.sub(r" (?:…|\[[^\]]*\])(?= |$)", "", line))[0]


def _parse(words: list[str], where: str) -> None:
    command = get_command(make_app())
    context = command.make_context("featurelib", list(words), resilient_parsing=False)
    while hasattr(command, "commands"):
        rest = [*context._protected_args, *context.args]
        assert rest, f"{where}: no command"
        name, below, rest = command.resolve_command(context, rest)
        assert below is not None, f"{where}: no command {rest[:1]}"
        command, context = below, below.make_context(name, rest, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_needs_no_cluster_is_executed_wherever_it_stands(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _folder(tmp_path, page)
    monkeypatch.chdir(tmp_path)
    for line in commands_in(page):
        words = shlex.split(_filled(line), comments=True)[1:]
        is_a_form = "*" in line or {"FILE", "NAME"} & set(words)
        if words[0] in ALWAYS and not is_a_form:
            code, _, errors = run(*words)
            assert code == 0, f"{name_of(page)}: {line}: ended with {code}: {errors}"


def test_few_blocks_are_left_out_and_each_has_a_reason() -> None:
    reasons = [(name_of(page), why) for page in PAGES for why in left_out(page)]
    assert [each for each in reasons if not each[1].startswith(REASONS)] == []
    assert len(reasons) <= 7, reasons


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_console_block_is_overlooked(page: Path) -> None:
    """An indented one, or one with other words behind `console`, would never be executed."""
    begins = re.findall(r"^.*```console.*$", page.read_text(encoding="utf-8"), re.MULTILINE)
    blocks = [each for each in begins if "``` `" not in each and "` ```" not in each]
    assert [each for each in blocks if each != "```console"] == []
    assert len(blocks) == len(BLOCK.findall(page.read_text(encoding="utf-8")))


def test_the_pages_that_teach_are_executed() -> None:
    names = {name_of(page) for page in EXECUTED}
    assert {"docs/tutorial.md", "docs/how-to/stale.md", "docs/how-to/change-window.md"} <= names


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [
        ("one\ntwo", "one\ntwo\n", True),
        ("one\n…", "one\ntwo\nthree", True),
        ("one\n…", "one", True),
        ("…\nthree", "one\ntwo\nthree", True),
        ("…\nthree", "three", True),
        ("one\n…\nthree", "one\nthree", True),
        ("one\n…\nthree", "one\ntwo", False),
        ("cluster …: done", "cluster Xy_1: done", True),
        ("cluster …: done", "cluster\n: done", False),
        ("until 2026-11-21T06:00:00Z", "until 2027-01-01T00:00:00Z", True),
        ("", "", True),
        ("", "one", False),
    ],
)
def test_elisions_stand_for_what_they_say(expected: str, found: str, same: bool) -> None:
    assert is_as_printed(expected, found) is same
