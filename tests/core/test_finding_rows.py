"""A finding is a row: Python names its code where it emits it, and selects findings by tag."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from featurelib.findings import check_row, code_of, finding_rows, rule_rows, tagged, tags, ways
from featurelib.schema import FACTS, FINDING
from featurelib.tables import FINDINGS

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
        if node.func.id in ("tagged", "_with_tags", "code_of")
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


ROW = """
[lost]
severity = "warning"
tags = ["stale"]
facts = { reason = "text" }
message = "{role} {node} is lost: {reason}"
headline = "{nodes} {are} lost"

[[lost.remedy]]
when = { role = "broker", metadata_version = ">=33" }
text = "Start broker {node}."
command = "start --id {node}"

[[lost.remedy]]
text = "Look for it."
"""


def test_a_row_that_is_right_is_read() -> None:
    row = check_row("rows.toml", ROW, "lost")
    assert (row.remedy, row.command, row.remedies[0].command) == (
        "Look for it.", "", "start --id {node}",
    )  # fmt: skip
    known = {"role": "broker", "metadata_version": 33}
    assert [row.remedies[0].when.holds(known | {"metadata_version": n}) for n in (32, 33)] == [
        False, True,
    ]  # fmt: skip
    assert not row.remedies[0].when.holds({"role": "broker", "metadata_version": None})


@pytest.mark.parametrize(
    ("right", "wrong", "line", "said"),
    [
        ('"stale"', '"stael"', 2, "unknown tag stael"),
        ("lost: {reason}", "lost: {reasons}", 2, "names {reasons}, which is no fact"),
        ("{are}", "{reason}", 2, "names {reason} in its headline, which has only ["),
        ("reason =", "detail =", 2, "unknown fact detail. Add it to _OF_FACTS of schema.py"),
        ("Start broker {node}", "Start broker {id}", 9, "names {id}, which is no fact"),
        ("Look for it.", "Look for {cause}.", 14, "names {cause}"),
        ("role =", "rule =", 9, "unknown field `rule`"),
        ('"broker"', '"brokers"', 9, "Invalid enum value 'brokers'"),
        ('">=33"', '"33"', 9, "matching regex"),
        ("--id {node}", "--id '{node}", 9, "No closing quotation"),
        ('text = "Look', 'when = { stale = true }\ntext = "Look', 14, "Only the last remedy"),
        ('when = { role = "broker", metadata_version = ">=33" }\n', "", 9, "Only the last remedy"),
        ("severity =", "serverity =", 2, "unknown field `serverity`"),
        ('"warning"', '"warn"', 2, "Invalid enum value 'warn'"),
    ],
)
def test_a_row_that_is_wrong_fails_with_file_and_line(
    right: str, wrong: str, line: int, said: str
) -> None:
    assert right in ROW
    with pytest.raises(ValueError, match=rf"^rows\.toml:{line}: \[lost\] ") as error:
        check_row("rows.toml", ROW.replace(right, wrong), "lost")
    assert said in str(error.value)


def test_each_remedy_is_a_sentence_and_the_last_way_fits_always() -> None:
    rows = (finding_rows() | rule_rows()).items()
    texts = [(code, one.text) for code, row in rows for one in row.remedies]
    assert [row for row in texts if not row[1].endswith((".", "{stale}"))] == []
    *others, last = ways()
    assert last.when.holds({})
    assert not any(way.when.holds({}) for way in others)


def test_settings_and_the_tables_name_each_fact_of_a_row() -> None:
    columns = {*FINDING.names}
    facts = {fact for row in (finding_rows() | rule_rows()).values() for fact in row.facts}
    assert facts == set(FACTS.names)
    assert {f"facts.{fact}" for fact in facts} <= FINDINGS.about.keys()
    assert columns.isdisjoint(facts)
