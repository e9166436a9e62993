"""The one table of options: every row is used, and every parameter of a command has its words."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import get_args

import pytest
import typer

from featurelib.cli.app import COMMANDS
from featurelib.cli.options import OPTIONS, with_options
from featurelib.source import Wanted
from tests.cli.commands import run
from tests.laboratory import LABORATORY

QUESTIONS = ("why-not", "what-if", "can-roll")
JOBS = sorted(path.stem for path in (Path(__file__).parents[2] / "jobs").glob("[!_]*.py"))


def signatures() -> Iterator[tuple[str, dict[str, inspect.Parameter]]]:
    """Every command and job, with its options."""
    made = {}
    for name, place in COMMANDS.items():
        command = resolve_name(place)
        if isinstance(command, typer.Typer):
            for each in command.registered_commands:
                assert each.callback is not None
                made[f"{name} {each.name}"] = each.callback
        else:
            made[name] = with_options(command, name)
    for name in JOBS:
        made[f"job {name}"] = with_options(importlib.import_module(f"jobs.{name}").main, "job")
    for name, command in made.items():
        yield name, dict(inspect.signature(command).parameters)


def rows_of(command: str, parameter: str) -> list[str]:
    return [f"{word}.{parameter}" for word in command.split()] + [parameter]


def test_every_option_has_words_and_every_row_of_the_table_is_used() -> None:
    used, bare = set[str](), set[str]()
    for command, parameters in signatures():
        for name, parameter in parameters.items():
            used |= set(rows_of(command, name))
            if name not in ("ctx", "kind") and len(get_args(parameter.annotation)) < 2:
                bare.add(f"{command} {name}")
    hidden = {row for row, words in OPTIONS.items() if words is False}
    assert (set(OPTIONS) - used - hidden, bare) == (set(), set())


def test_every_way_to_evidence_is_an_option_of_every_command_that_needs_evidence() -> None:
    ways = set(Wanted.__dataclass_fields__) - {"cluster"}
    for command, parameters in signatures():
        if command.split()[0] in (*QUESTIONS, "describe", "plan"):
            assert ways <= set(parameters), command


@pytest.mark.parametrize("command", [*QUESTIONS, "describe", "plan"])
def test_two_ways_to_evidence_contradict_each_other_everywhere(command: str) -> None:
    own = {
        "why-not": ["metadata.version=27"],
        "what-if": ["--release", "4.2"],
        "can-roll": ["--to", "4.2"],
        "plan": ["upgrade-all"],
    }
    code, _, err = run(command, *own.get(command, []), "--capture", "a", "--file", "b")
    assert (code, "--capture and --file are different sources of data" in err) == (2, True)


def test_a_cluster_s_id_that_begins_with_a_hyphen_is_no_option(tmp_path: Path) -> None:
    """Kafka in ZooKeeper mode draws such ids, one of 64."""
    own, hyphened = b"gzC6s3zqQT2rhb9IftIyZw", b"-Bo5hZWMTFGN9xvou5dIkQ"
    recorded = (LABORATORY / "zk-282-disabled" / "landing.jsonl").read_bytes()
    assert recorded.count(own) > 5
    (tmp_path / "landing.jsonl").write_bytes(recorded.replace(own, hyphened))
    where = ("--capture", str(tmp_path), "--as-of", "newest")
    code, out, err = run("check", hyphened.decode(), *where)
    assert (code, out[:23]) == (0, f"{hyphened.decode()}:"), err
    printed = [line.split() for line in out.splitlines() if line.startswith("  featurelib ")]
    assert printed
    for words in printed:  # each Next of its page
        assert run(*words[1:])[0] in (0, 3), words
    code, _, err = run("version-mapping", hyphened.decode())
    assert (code, f"({hyphened.decode()})" in err) == (2, True)
