"""Options that several commands share: one list, and what a command makes of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated

import pytest
import typer

from featurelib.cli.app import COMMANDS, load
from featurelib.cli.options import EVIDENCE, options_of, with_options
from featurelib.cli.plan import plan_app
from featurelib.source import Wanted
from tests.cli.commands import run

SHARED = [each.name for each in EVIDENCE.parameters]
QUESTIONS = ("why-not", "what-if", "roll")
PLANS = [found.name for found in plan_app.registered_commands]
COMMON = [*QUESTIONS, "describe", *(f"plan {name}" for name in PLANS)]


def parameters(command: Callable[..., object]) -> list[str]:
    return list(inspect.signature(command).parameters)


def test_every_way_to_evidence_is_an_option_of_every_command_that_asks_for_it() -> None:
    assert set(SHARED) == set(Wanted.__dataclass_fields__) - {"cluster"}
    found = {name: parameters(load(COMMANDS[name])) for name in (*QUESTIONS, "describe")}
    for each in plan_app.registered_commands:
        assert each.callback is not None
        found[f"plan {each.name}"] = parameters(each.callback)
    assert (sorted(found), len(PLANS)) == (sorted(COMMON), 6)
    for name, mine in found.items():
        expected = [each for each in SHARED if name != "describe" or each != "as_of"]
        assert [each for each in mine if each in SHARED] == expected, name


@pytest.mark.parametrize("command", COMMON)
def test_the_help_has_each_option_once(command: str) -> None:
    code, out, _ = run(*command.split(), "--help")
    assert code == 0
    for name in SHARED:
        option = f"\n  --{name.replace('_', '-')} "
        assert out.count(option) == (0 if (command, name) == ("describe", "as_of") else 1), name


@pytest.mark.parametrize("command", [*QUESTIONS, "describe", "plan"])
def test_two_ways_to_evidence_contradict_each_other_everywhere(command: str) -> None:
    own = {
        "why-not": ["metadata.version=27"],
        "what-if": ["--release", "4.2"],
        "roll": ["--to", "4.2"],
        "plan": ["upgrade-all"],
    }
    code, _, err = run(command, *own.get(command, []), "--capture", "a", "--file", "b")
    assert (code, "found --capture and --file. Keep one." in err) == (2, True)


def _pair(first: int = 1, second: Annotated[int, typer.Option("--second")] = 2) -> tuple[int, int]:
    return first, second


def test_a_group_stands_where_its_parameter_does_and_can_be_reworded() -> None:
    @with_options(both=options_of(_pair).without("first").worded(second=Annotated[int, "other"]))
    def command(*, before: str, both: tuple[int, int], after: bool = False) -> int:
        return sum(both) if after and before == "x" else 0

    assert parameters(command) == ["before", "second", "after"]
    assert inspect.signature(command).parameters["second"].annotation == Annotated[int, "other"]
    assert command(before="x", second=5, after=True) == 6
