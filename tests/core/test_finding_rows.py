"""A finding is a row: Python names its code where it emits it, and selects findings by tag."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from featurelib.findings import code_of, finding_rows, rule_rows, tagged, tags

PACKAGE = Path(__file__).parents[2] / "featurelib"
# They only read findings: plans, questions, views, entrances and stores.
READERS = ("api", "cli", "controller", "planning", "questions", "spark", "view")


def constants(folders: tuple[str, ...]) -> Iterator[tuple[str, ast.Constant]]:
    """Every text in the Python of these folders, with its place."""
    for path in (path for folder in folders for path in sorted((PACKAGE / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{path.name}:{node.lineno} {node.value}", node


def selected() -> set[str]:
    """Every tag that Python selects findings by."""
    calls = (
        node
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in ("tagged", "code_of")
    )
    given = (arg for call in calls for arg in call.args)
    return {arg.value for arg in given if isinstance(arg, ast.Constant)}


def test_no_reader_names_a_code() -> None:
    codes = set(finding_rows())
    assert [at for at, node in constants(READERS) if node.value in codes] == []


def test_each_tag_is_described_held_and_selected() -> None:
    held = {tag for row in (finding_rows() | rule_rows()).values() for tag in row.tags}
    assert set(tags()) == held == selected()


def test_findings_are_selected_by_known_tags() -> None:
    assert tagged("stale") < tagged("down", "voter")
    assert code_of("unfit") == "incompatible_with_finalized"
    with pytest.raises(KeyError):
        tagged("stael")
    with pytest.raises(ValueError, match="too many values"):
        code_of("stale")
