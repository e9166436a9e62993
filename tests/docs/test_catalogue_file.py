"""The published catalogue follows its schema, and agrees with what real tools and nodes printed."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from scripts.write_catalogue import write
from tests.core.recorded import mappings, table


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Each release of the file, after the file was held against its schema."""
    data, schema = write(tmp_path_factory.mktemp("catalogue"))
    document = json.loads(data.read_text())
    jsonschema.validate(document, json.loads(schema.read_text()))
    for release in document["releases"]:
        assert release["release"] in document["dialects"][release["dialect"]]["releases"]
    return {release["release"]: release for release in document["releases"]}


def line(version: str) -> str:
    return ".".join(version.split(".")[:2])


def test_defaults_are_those_of_version_mapping(releases: dict[str, Any]) -> None:
    compared = 0
    for tool, asked, levels in mappings():
        if levels and "-IV" in asked:
            assert releases[line(tool)]["defaults"][asked] == levels, (tool, asked)
            compared += 1
    assert compared > 50


def test_needs_are_those_of_feature_dependencies(releases: dict[str, Any]) -> None:
    compared = 0
    for row in table("feature_dependencies.csv"):
        levels = releases[line(row["tool"])]["features"].get(row["feature"], ())
        known = {each["level"]: each for each in levels}.get(int(row["level"]))
        if row["needs"] == "unknown":
            assert known is None, row
            continue
        wanted = dict(text.split("=") for text in row["needs"].split(";") if text)
        assert known is not None, row
        assert known["needs"] == {name: int(level) for name, level in wanted.items()}, row
        compared += 1
    assert compared > 20


def test_ranges_are_those_that_real_nodes_advertised(releases: dict[str, Any]) -> None:
    rows = table("ranges.csv")
    assert len(rows) > 20
    for row in rows:
        levels = [
            each["level"]
            for each in releases[line(row["node"])]["features"][row["feature"]]
            if each["production"] or row["unstable"] == "true"
        ]
        assert (levels[0], levels[-1]) == (int(row["oldest"]), int(row["newest"])), row


def test_a_level_that_changes_more_than_itself_says_so(releases: dict[str, Any]) -> None:
    (off, on) = releases["4.2"]["features"]["eligible.leader.replicas.version"]
    assert off["side_effects"] == []
    (effect,) = on["side_effects"]
    assert (effect["configuration"], effect["restored"]) == ("min.insync.replicas", False)
    (_, kraft) = releases["4.2"]["features"]["kraft.version"]
    assert kraft["irreversible"]
