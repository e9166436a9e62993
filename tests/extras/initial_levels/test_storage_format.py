"""The levels of a new cluster against recorded kafka-storage command lines of four releases."""

from __future__ import annotations

import json
import tomllib
from importlib import resources
from typing import Any

import pytest

from featurelib.catalogue import ReleaseCatalogue, load, with_overlay
from featurelib.extras.initial_levels.storage_format import (
    FormatRequest,
    Initial,
    initial_levels,
    preview_levels,
)
from featurelib.extras.predictions.rolling import format_with, is_for_itself
from tests.core.frozen import expect_frozen
from tests.core.recorded import Formatted, formats

RECORDED = formats()


def own(release: str) -> ReleaseCatalogue:
    return load().of(release)


def asked(software: str, **request: object) -> Initial:
    return initial_levels(own(software), FormatRequest(**request))  # type: ignore[arg-type]


def texts(initial: Initial) -> list[str]:
    return [refusal.text for refusal in initial.refusals]


@pytest.mark.parametrize("recorded", RECORDED, ids=[f.name for f in RECORDED])
def test_the_levels_and_words_are_those_of_the_real_tool(recorded: Formatted) -> None:
    release = load().release_named(recorded.tool)
    assert release is not None
    initial = initial_levels(own(release), recorded.request)
    assert (initial.records or None) == recorded.levels
    # Each recorded line breaks one rule, so that nothing is said beyond it.
    assert texts(initial) == ([recorded.says] if recorded.says else [])


def test_every_release_has_a_tool_of_its_own() -> None:
    """Only a vendor build that is based on none answers as the newest tool."""
    path = resources.files("featurelib.extras.initial_levels").joinpath("storage_format.toml")
    tools = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]
    listed = [release for tool in tools for release in tool["releases"]]
    assert listed == [release.release for release in load().releases]


@pytest.mark.parametrize("release", [release.release for release in load().releases])
def test_without_options_a_cluster_starts_with_the_defaults_of_its_release(release: str) -> None:
    software = own(release)
    defaults = software.defaults(software.newest_stable)
    expected = {name: n for name, n in defaults.items() if n and name != "kraft.version"}
    assert initial_levels(software, FormatRequest()).levels == expected


def test_the_quorum_decides_kraft_version_not_the_mapping() -> None:
    assert "kraft.version" not in asked("4.2").levels
    dynamic = asked("4.2", dynamic_quorum=True)
    assert dynamic.levels["kraft.version"] == 1
    assert "kraft.version" not in dynamic.records


@pytest.mark.parametrize(
    ("release", "level"), [("3.7", 19), ("3.8", 20), ("3.9", 23), ("4.2", 30), ("4.4", 34)]
)
def test_with_unstable_features_the_newest_is_the_default_from_3_9(
    release: str, level: int
) -> None:
    assert asked(release, unstable=True).levels["metadata.version"] == level


REFUSED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("3.4", {"features": {"metadata.version": 7}}),
    ("3.4", {"dynamic_quorum": True}),
    *(("3.4", {"release_version": text}) for text in ("2.8.1", "3.0", "3.0-IV0", "3.5")),
    ("3.7", {"release_version": "3.8-IV0"}),
    *(("3.8", {"features": {"metadata.version": level}}) for level in (22, 3)),
    ("3.8", {"release_version": "0.10.2.1"}),
    ("3.9", {"features": {"transaction.version": 2}}),
    ("3.9", {"release_version": "2.8", "features": {"x": 1}}),
    ("4.0", {"features": {"metadata.version": 6}}),
    ("4.0", {"release_version": "9", "features": {"metadata.version": 9}}),
    ("4.0", {"release_version": "3.9", "features": {
        "zzz": 1, "aaa": 2, "kraft.version": 1, "group.version": 7,
        "eligible.leader.replicas.version": 1}}),
    ("4.1", {"release_version": "4.2"}),
    ("4.1", {"features": {"streams.version": 1}}),
    ("4.2", {"features": {"metadata.version": 30}}),
)  # fmt: skip


def test_a_tool_asks_what_its_release_asks_and_says_all_in_its_order() -> None:
    """data/frozen/storage_format.txt has the code and the words of each refusal."""
    told = {}
    for release, request in REFUSED:
        initial = asked(release, **request)
        assert initial.levels == {}
        said = [f"{refusal.code}: {refusal.text}" for refusal in initial.refusals]
        told[f"{release} {json.dumps(request)}"] = "\n".join(said)
    expect_frozen("storage_format", told)


def test_3_8_takes_the_defaults_of_its_newest_version_unless_a_release_version_is_named() -> None:
    text = """
[[feature_level]]
feature = "acme.version"
level = 0
default_from = "3.3-IV3"
stable_since = "3.8"
[[feature_level]]
feature = "acme.version"
level = 1
default_from = "3.8-IV0"
stable_since = "3.8"
[[release_feature]]
release = "3.8"
feature = "acme.version"
newest_stable = 1
newest_unstable = 1
"""
    software = with_overlay(load(), text, "acme.toml").of("3.8")
    by_level = initial_levels(software, FormatRequest(features={"metadata.version": 8}))
    assert by_level.levels == {"metadata.version": 8, "acme.version": 1}
    by_name = initial_levels(software, FormatRequest(release_version="3.4"))
    assert by_name.levels == {"metadata.version": 8}


def test_a_vendor_build_answers_as_the_release_it_is_based_on() -> None:
    text = """
[[release]]
release = "acme"
based_on = "4.0"
oldest_metadata_version = 7
oldest_bootstrap = 8
newest_stable = 24
newest_unstable = 24
[[release]]
release = "other"
oldest_metadata_version = 7
oldest_bootstrap = 7
newest_stable = 24
newest_unstable = 24
"""
    catalogue = with_overlay(load(), text, "acme.toml")
    unknown = initial_levels(catalogue.of("acme"), FormatRequest(release_version="4.1"))
    assert texts(unknown) == [
        "Version 4.1 is not a valid version. The minimum version is 3.3-IV3 and the maximum "
        "version is 4.0-IV2"
    ]
    # One that is based on nothing answers as the newest tool.
    newest = initial_levels(catalogue.of("other"), FormatRequest(release_version="4.1"))
    assert texts(newest)[0].startswith("Unknown metadata.version '4.1'. Supported")


@pytest.mark.parametrize("release", ["3.3", "3.6", "3.9"])
def test_a_preview_cluster_is_at_level_1_up_to_3_9(release: str) -> None:
    assert preview_levels(own(release)) == Initial(levels={"metadata.version": 1}, refusals=())


def test_a_preview_cluster_cannot_be_read_from_4_0_on() -> None:
    initial = preview_levels(own("4.0"))
    assert initial.levels == {}
    assert texts(initial) == [
        "Kafka 4.0 reads no cluster without a metadata.version record: start its controllers with "
        "3.3 to 3.9 and finalize 3.3-IV3 first."
    ]


def test_what_a_newer_tool_formats_is_for_its_own_software_and_later() -> None:
    def tool(*releases: str) -> str | None:
        found = format_with(map(own, releases))
        return None if found is None else found.release

    assert [release for release in ("4.2", "4.3", "4.4") if is_for_itself(own(release))] == ["4.4"]
    assert tool("4.4", "4.2", "4.3") == "4.2"
    assert [tool("4.4"), tool("4.4", "4.4"), tool("4.3", "3.9"), tool()] == [None] * 4


@pytest.mark.parametrize(
    ("patch", "version", "refused"), [("4.1.0", "3.8", 1), ("4.1.2", "3.8", 0), ("4.1.0", "3.9", 0)]
)
def test_a_patch_release_that_differs_answers_for_itself(
    patch: str, version: str, refused: int
) -> None:
    """4.1.0 and 4.1.2 were run (KAFKA-19719)."""
    asked = FormatRequest(release_version=version, dynamic_quorum=True, patch=patch)
    assert len(initial_levels(load().of("4.1"), asked).refusals) == refused


@pytest.mark.parametrize(
    ("release", "version", "refused"),
    [
        ("3.3", "3.3", ["no_migration"]),
        ("3.5", "3.3", ["migration"]),
        ("3.6", "3.4", []),
        ("3.7", "3.6-IV0", ["migration"]),
        ("3.9", "3.6-IV0", ["migration"]),
        ("3.9", "3.6-IV1", []),
        ("3.9", None, []),
        ("4.0", "4.0", ["no_migration"]),
    ],
)
def test_controllers_of_a_migration_need_a_level_that_supports_it(
    release: str, version: str | None, refused: list[str]
) -> None:
    """Controllers of 3.5.2, 3.6.2, 3.7.2 and 3.9.2 were started so."""
    asked = FormatRequest(release_version=version, migration=True)
    said = initial_levels(load().of(release), asked).refusals
    assert [refusal.code for refusal in said] == refused
