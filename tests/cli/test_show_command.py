"""`featurelib show`: a plan drawn for the person who has to approve it; whole output."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from featurelib.audit.cluster_view import see
from featurelib.cli.app import make_app
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION
from featurelib.model import Plan
from featurelib.planning.files import ForPeople, digest, write_plan
from featurelib.planning.goal import Command, Intent
from featurelib.planning.night import level_names
from featurelib.planning.outlook import NONE, look_ahead
from featurelib.planning.planner import make_plan
from tests.core.test_planfile import MEANING
from tests.report.samples import CATALOGUE, HOURS_72, SAMPLES


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    logging.disable(logging.NOTSET)


@cache
def meaning(name: str, command: Command, **asked: object) -> Plan:
    lines = (SAMPLES / name / "landing.jsonl").read_bytes().splitlines()
    sight = see(lines, catalogue=CATALOGUE, as_of=None, max_age=HOURS_72)
    intent = Intent(command=command, **{key: _plain(value) for key, value in asked.items()})  # type: ignore[arg-type]
    planned = make_plan(sight, intent, CATALOGUE)
    assert planned.plan is not None
    return planned.plan


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, tuple) and value and value[0][1:] else value


def show(made: Plan, *args: str, people: ForPeople | None = None) -> tuple[int, str, str]:
    Path("plan.json").write_text(write_plan(made, people), encoding="utf-8")
    return run("plan.json", *args)


def run(*args: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(make_app(), ["show", *args], prog_name="featurelib")
    return result.exit_code, result.stdout, result.stderr


def test_an_upgrade_shows_what_each_level_brings_and_where_there_is_no_way_back() -> None:
    made = meaning("k37-forgotten", Command.UPGRADE)
    people = ForPeople(
        name="pay", written_at="2026-11-21T06:00:00Z", made_from="x", seen_at="y", left_out=("z",)
    )
    code, out, err = show(made, people=people)
    assert (code, err) == (0, "")
    assert out == (
        "cluster    0Dfym0miRVGxC5OFS_ySCg\n"
        "intent     upgrade\n"
        f"digest     {digest(made)}\n"
        "judged by  strict policy, and as these controllers answer: KRaft 3.7; catalogue of "
        "2026-11-21\n"
        "\n"
        "Request 1 of 1, timeout 60 s\n"
        "  metadata.version 11 (3.5-IV2) → 19 (3.7-IV4): upgrade\n"
        "    brings    12  3.6-IV0  no leader epoch bump on ISR shrink\n"
        "              13  3.6-IV1  metadata transactions\n"
        "              14  3.6-IV2  delegation tokens\n"
        "              15  3.7-IV0  controller registration (KIP-919)\n"
        "              16  3.7-IV1\n"
        "              17  3.7-IV2  JBOD (KIP-858)\n"
        "              18  3.7-IV3\n"
        "              19  3.7-IV4  KIP-951 fetch\n"
        "    POINT OF NO RETURN HERE: from 13 (3.6-IV1) on, 11 (3.5-IV2) cannot be had again "
        "without\n"
        "      loss.\n"
        "  After it, without loss: metadata.version can be lowered to 17 (3.7-IV2), no further.\n"
        "  Nodes that may join then: Kafka 3.7 to 4.4 (production software).\n"
        "  NO MORE: Kafka 3.5 to 3.6; no node can be rolled back to it without lowering first.\n"
        "\n"
        "It is applied only while this is found again:\n"
        "  finalized: metadata.version 11 (3.5-IV2), and nothing else\n"
        "  broker 1 and controller 1: metadata.version 1-19\n"
        "  other nodes: none\n"
        "\n"
        "Also in the file, not covered by the digest, and nothing above is taken from it:\n"
        "  name: pay\n"
        "  made: 2026-11-21T06:00:00Z, from x, last seen y\n"
        "  left out: z\n"
        "\n"
        "Next: featurelib approve plan.json --expires 24h\n"
    )


def test_a_downgrade_shows_deletions_and_who_may_join_again() -> None:
    made = meaning("k42-dynamic", Command.DOWNGRADE, release_version="4.0")
    _, out, _ = show(made)
    assert out.partition("\n\n")[2].partition("\n\n")[0] == (
        "Request 1 of 1, all or nothing, timeout 60 s\n"
        "  metadata.version 29 (4.2-IV1) → 25 (4.0-IV3): SAFE DOWNGRADE\n"
        "  eligible.leader.replicas.version 1 → 0 (not finalized): DELETION (safe downgrade)\n"
        "  share.version 1 → 0 (not finalized): DELETION (safe downgrade)\n"
        "  streams.version 1 → 0 (not finalized): DELETION (safe downgrade)\n"
        "  After it, without loss: metadata.version can be lowered to 23 (4.0-IV1), no further.\n"
        "  Nodes that may join then: Kafka 4.0 to 4.4 (production software).\n"
        "  Newly: Kafka 4.0 to 4.1."
    )


def test_zookeeper_mode_says_nothing_of_releases_and_requires_the_node() -> None:
    made = meaning("zk-332-ranges", Command.UPGRADE_ALL)
    _, out, _ = show(made)
    assert "  features node: version 1\n" in out
    assert "Kafka" not in out.partition("Request 1")[2]
    assert "  broker 10: geo 2-4, search.index 1-3\n" in out


def test_what_may_be_lost_and_what_is_unlocked_is_said() -> None:
    made = meaning("k42-dynamic", Command.DOWNGRADE, release_version="4.0")
    (step,) = made.steps
    metadata = replace(step.updates[0], to_level=21, upgrade_type="UNSAFE_DOWNGRADE")
    unsafe = replace(made, steps=(replace(step, updates=(metadata,)),))
    _, out, _ = show(unsafe)
    assert "→ 21 (3.9-IV0): UNSAFE DOWNGRADE, METADATA MAY BE LOST\n" in out
    assert "    may lose  23  4.0-IV1  eligible leader replicas (KIP-966)\n" in out
    up = meaning("k41-forgotten", Command.UPGRADE)
    assert "    unlocks   eligible.leader.replicas.version 1\n" in show(up)[1]


def test_a_plan_that_was_tampered_with_is_refused() -> None:
    made = meaning("k37-forgotten", Command.UPGRADE)
    text = write_plan(made).replace('"to_level": 19', '"to_level": 18')
    Path("plan.json").write_text(text)
    code, out, err = run("plan.json")
    assert (code, out) == (2, "")
    assert "plan.json: digest: expected sha256:" in err
    assert "The plan was changed after it was made." in err
    code, _, err = run("none.json")
    assert (code, "none.json: expected a plan file, found: No such file" in err) == (2, True)


def test_a_text_that_was_changed_misleads_nobody() -> None:
    made = meaning("k37-forgotten", Command.UPGRADE)
    true = ForPeople(name="pay-prod", level_names=level_names(made, CATALOGUE))
    Path("fleet.toml").write_text(f'[[cluster]]\nid = "{made.cluster}"\nname = "pay-prod"\n')
    code, honest, err = show(made, "--fleet", "fleet.toml", people=true)
    assert (code, err, "CHANGED" in honest) == (0, "", False)
    assert f"cluster    {made.cluster} (pay-prod)\n" in honest
    names = {METADATA_VERSION: {"11": "3.5-IV2", "19": "3.5-IV3"}}
    lie = ForPeople(name="pay-test", level_names=names, warnings=("Nothing can be lost.",))
    code, out, _ = show(made, "--fleet", "fleet.toml", people=lie)
    facts, _, beside = out.partition("Also in the file, not covered by the digest")
    assert code == 0
    assert "  metadata.version 11 (3.5-IV2) → 19 (3.7-IV4): upgrade\n" in facts
    assert "Nothing can be lost" not in facts
    assert f"cluster    {made.cluster} (pay-prod)\n" in facts
    assert "warning: THE FILE CALLS THIS CLUSTER pay-test, the inventory calls it pay-prod" in facts
    assert "warning: THE TEXT OF THIS FILE WAS CHANGED after the plan was made" in facts
    assert "  name: pay-test\n  warning: Nothing can be lost.\n" in beside
    _, out, _ = show(made, "--fleet", "fleet.toml", "--json", people=lie)
    assert [text[:9] for text in json.loads(out)["contradictions"]] == ["THE FILE ", "THE TEXT "]


def test_level_names_of_another_catalogue_are_not_called_changed() -> None:
    people = ForPeople(level_names={METADATA_VERSION: {"11": "vendor-11"}})
    made = replace(meaning("k37-forgotten", Command.UPGRADE), catalogue="2020-01-01")
    assert "WAS CHANGED" not in show(made, people=people)[1]


def test_no_text_of_a_plan_reaches_the_terminal_as_it_is() -> None:
    made = replace(MEANING, cluster="c\x1b[31m", intent="upgrade\n\nNext: rm -rf /")
    people = ForPeople(name="\x1b[2J", warnings=("\x07",), left_out=("\r",), made_from="\u202e")
    code, out, _ = show(made, people=people)
    assert code == 0
    assert not set("\x1b\x07\r\u202e") & set(out)
    assert "\nNext: rm" not in out


def test_another_catalogue_is_told() -> None:
    _, out, _ = show(replace(MEANING, catalogue="2020-01-01 + overlay x"))
    assert "warning: the plan was made with the catalogue of 2020-01-01 + overlay x, and" in out


def test_json_holds_the_plan_and_the_outlook() -> None:
    made = meaning("k37-forgotten", Command.UPGRADE)
    code, out, _ = show(made, "--json")
    said = json.loads(out)
    assert (code, said["version"], said["digest"]) == (0, 1, digest(made))
    (step,) = said["outlook"]
    assert (step["floor"], step["changes"][0]["no_return"]) == (17, 13)
    assert said["plan"]["requirements"]["levels"] == {METADATA_VERSION: 11}


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
