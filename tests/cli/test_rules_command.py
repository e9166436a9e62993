"""`featurelib rules`: whole output and exit code."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from featurelib.cli.app import make_app
from featurelib.conformance.rulebook import rulebook


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `featurelib rules`."""
    result = CliRunner().invoke(make_app(), ["rules", *args], prog_name="featurelib")
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("name", rulebook())
def test_every_rule_can_be_told(name: str) -> None:
    code, out, err = run(name)
    assert (code, err) == (0, "")
    entry = rulebook()[name]
    assert out.startswith(f"{name}\n")
    assert [dialect for dialect in entry.dialects if f"{dialect} as " not in out] == []
    assert max(len(line) for line in out.splitlines()) <= 100


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
