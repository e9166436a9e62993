"""`featurelib show`: a plan drawn for the person who has to approve it; whole output."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from featurelib.feature import KRAFT_VERSION, METADATA_VERSION
from featurelib.model import Plan
from featurelib.planning.files import ForPeople, write_plan
from featurelib.planning.goal import Command, Intent
from featurelib.planning.outlook import NONE, look_ahead
from featurelib.planning.planner import make_plan
from tests.cli import commands
from tests.core.test_planfile import MEANING
from tests.report.samples import CATALOGUE, HOURS_72, SAMPLES
from tests.seeing import see


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@cache
def meaning(name: str, command: Command, **asked: object) -> Plan:
    lines = (SAMPLES / name / "landing.jsonl").read_bytes().splitlines()
    view = see(lines, catalogue=CATALOGUE, as_of=None, max_age=HOURS_72)
    intent = Intent(command=command, **{key: _plain(value) for key, value in asked.items()})  # type: ignore[arg-type]
    planned = make_plan(view, intent, CATALOGUE)
    assert planned.plan is not None
    return planned.plan


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, tuple) and value and value[0][1:] else value


def show(made: Plan, *args: str, people: ForPeople | None = None) -> tuple[int, str, str]:
    Path("plan.json").write_text(write_plan(made, people), encoding="utf-8")
    return run("plan.json", *args)


def run(*args: str) -> tuple[int, str, str]:
    return commands.run("show", *args)


def test_the_next_command_asks_for_no_longer_than_an_approval_may_last() -> None:
    Path("conf").mkdir()
    made = meaning("k37-forgotten", Command.UPGRADE)
    for hours, span in (("168", "24h"), ("2.5", "2h"), ("0.5", "30m")):
        Path("conf/audit.toml").write_text(f"longest_approval_hours = {hours}\n")
        again = f"featurelib approve plan.json --expires {span}\n"
        assert show(made)[1].endswith(f"Next: {again}")
        # And so does `apply` without an approval.
        assert commands.run("apply", "plan.json", "--yes")[2].endswith(f"Write one: {again}")


def test_level_names_of_another_catalogue_are_not_called_changed() -> None:
    people = ForPeople(level_names={METADATA_VERSION: {"11": "vendor-11"}})
    made = replace(meaning("k37-forgotten", Command.UPGRADE), catalogue="2020-01-01")
    assert "WAS CHANGED" not in show(made, people=people)[1]


def test_no_text_of_a_plan_reaches_the_terminal_as_it_is() -> None:
    made = replace(MEANING, cluster="c\x1b[31m", intent="upgrade \x1b[A")
    people = ForPeople(
        name="\x1b[2J", warnings=("\x07\n\nNext: rm -rf /",), left_out=("\r",), made_from="\u202e"
    )
    code, out, _ = show(made, people=people)
    assert code == 0
    assert not set("\x1b\x07\r\u202e") & set(out)
    assert "\nNext: rm" not in out


def test_another_catalogue_is_told() -> None:
    _, out, _ = show(replace(MEANING, catalogue="2020-01-01 + overlay x"))
    assert "warning: the plan was made with the catalogue of 2020-01-01 + overlay x, and" in out


def test_the_outlook_of_each_step_is_after_those_before_it() -> None:
    made = meaning(
        "k41-forgotten", Command.UPGRADE, up=((METADATA_VERSION, "25"), (KRAFT_VERSION, "1"))
    )
    first, second = look_ahead(made, CATALOGUE)
    assert (first.levels, second.levels) == (
        {METADATA_VERSION: 25}, {METADATA_VERSION: 25, KRAFT_VERSION: 1}
    )  # fmt: skip
    assert first.joins == second.joins == ("4.0", "4.1", "4.2", "4.3", "4.4")
    assert second.joins_no_more == ()
    assert [change.irreversible for change in second.changes] == [True]
    assert second.changes[0].no_return == 1
    assert first.changes[0].no_return == 8
    zookeeper = look_ahead(meaning("zk-332-ranges", Command.UPGRADE_ALL), CATALOGUE)
    assert {step.floor for step in zookeeper} == {NONE}
