"""`featurelib rules`: whole output and exit code."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from featurelib.cli.app import make_app
from featurelib.conformance.rulebook import DIALECTS, UNRECORDED, rulebook


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `featurelib rules`."""
    result = CliRunner().invoke(make_app(), ["rules", *args], prog_name="featurelib")
    return result.exit_code, result.stdout, result.stderr


def test_all_rules_are_listed() -> None:
    code, out, err = run()
    assert (code, err) == (0, "")
    assert [line for line in out.splitlines() if not line.startswith(" ")] == list(rulebook())
    assert (
        "below_local_min\n"
        "    The level is below what the controller itself supports.\n"
        "    asked in zk-2.7\n"
    ) in out
    listed = json.loads(run("--json")[1])
    assert (listed["version"], [r["name"] for r in listed["rules"]]) == (1, list(rulebook()))


def test_one_rule_is_told_whole() -> None:
    assert run("during_zk_migration") == (
        0,
        "during_zk_migration\n"
        "  Nothing moves while a cluster migrates from ZooKeeper.\n"
        "  source: FeatureControlManager: no metadata.version while a ZooKeeper migration runs\n"
        "  reads migrating: the cluster migrates from ZooKeeper\n"
        "  finding, blocker: The cluster is between ZooKeeper and KRaft; {feature} may not move.\n"
        "  remedy: Finish the migration, or roll it back, first.\n"
        "\n"
        "kraft-3.5 as 9, kraft-3.7 as 10, kraft-3.8 as 10, kraft-3.9 as 10: "
        "where of_metadata_version\n"
        "  95: Invalid metadata.version {level}. Unable to modify metadata.version while a ZK "
        "migration\n"
        "    is in progress.\n"
        "  read in the source of kraft-3.5, kraft-3.7, kraft-3.8, kraft-3.9 only: no migration "
        "from\n"
        "    ZooKeeper was recorded\n"
        "\n"
        "strict as 18: where changes\n",
        "",
    )


def test_one_rule_as_json() -> None:
    code, out, _ = run("unsupported_by_node", "--json")
    rule = json.loads(out)["rule"]
    assert code == 0
    assert rule["columns"]["level"] == "the level that is asked for"
    asked = {question["id"]: question for question in rule["asked"]}
    third = asked["kraft-4.2.unsupported_by_node.3"]
    assert (third["position"], third["where"]) == (5, ["controllers_register"])
    assert (third["asks"], third["order"], third["code"]) == (
        "registered_controllers",
        "table",
        95,
    )
    assert third["says"].endswith("Controller {node} only supports versions {node_range}")
    assert third["says_absent"].endswith("Controller {node} does not support this feature.")
    assert third["recorded"]
    unrecorded = asked["kraft-3.7.unsupported_by_node.3"]
    assert not unrecorded["recorded"]
    assert unrecorded["why_not_recorded"] == UNRECORDED["kraft-3.7.unsupported_by_node.3"]


@pytest.mark.parametrize("name", rulebook())
def test_every_rule_can_be_told(name: str) -> None:
    code, out, err = run(name)
    assert (code, err) == (0, "")
    entry = rulebook()[name]
    assert out.startswith(f"{name}\n")
    assert [dialect for dialect in entry.dialects if f"{dialect} as " not in out] == []
    assert max(len(line) for line in out.splitlines()) <= 100


def test_dialects_are_listed_with_their_releases() -> None:
    code, out, _ = run("--dialects")
    assert code == 0
    rows = out.splitlines()[1:]
    assert [row.split()[0] for row in rows if row[:1] != " "] == list(DIALECTS)
    assert rows[9].split(maxsplit=2)[2] == "4.2 4.3 4.4                  KRaft 4.2 to 4.4"
    listed = json.loads(run("--dialects", "--json")[1])["dialects"]
    assert listed[9]["releases"] == ["4.2", "4.3", "4.4"]


def test_an_unknown_name_is_told_with_its_neighbours() -> None:
    code, out, err = run("unsuported_by_node")
    assert (code, out) == (2, "")
    assert err == (
        "error: unsuported_by_node: expected the name of a rule, found none such; near it: "
        "unsupported_by_node, range_unsupported_by_node. `featurelib rules` lists them all.\n"
    )
    assert run("zzz")[2] == (
        "error: zzz: expected the name of a rule, found none such. "
        "`featurelib rules` lists them all.\n"
    )


def test_a_finding_that_no_rule_stands_behind_is_no_rule() -> None:
    code, out, err = run("ghost_broker")
    assert (code, out) == (2, "")
    assert "found a finding about evidence, which no rule stands behind" in err


def test_dialects_and_a_rule_are_not_listed_at_once() -> None:
    code, out, err = run("same_level", "--dialects")
    assert (code, out) == (2, "")
    assert "expected one of the two, found both" in err


def test_a_finding_of_the_own_controllers_points_to_the_rule_it_names() -> None:
    code, out, err = run("refused_by_own_controller")
    assert (code, out) == (2, "")
    assert err == (
        "error: refused_by_own_controller: expected the name of a rule, found a finding: the "
        "cluster's own controllers refuse what the policy lets pass. The finding names the rule "
        "they refuse by: `featurelib rules` and that name says what it asks.\n"
    )
