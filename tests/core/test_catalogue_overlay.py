"""An overlay adds or replaces rows, is remembered, and is refused where it contradicts itself."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from featurelib.catalogue import load, with_overlay
from featurelib.catalogue.overlay import contradictions
from featurelib.catalogue.rows import read_rows
from featurelib.errors import ConfigError

SHIPPED = Path(__file__).parents[2] / "conf" / "catalogue-overlay.toml"
VERSION = """
[[metadata_version]]
level = 35
name = "4.5-IV1"
release = "4.5"
loses_metadata_below = true
"""
FEATURE = """
[[feature_level]]
feature = "acme.version"
level = 0
default_from = "3.3-IV3"
stable_since = "4.1"
[[feature_level]]
feature = "acme.version"
level = 1
default_from = "4.2-IV0"
stable_since = "4.1"
dependency = "metadata.version=26;group.version=1"
[[release_feature]]
release = "4.1"
feature = "acme.version"
newest_stable = 0
newest_unstable = 1
"""
EFFECT = '[[side_effect]]\nfeature = "{}"\nlevel = {}\nwhat = "{}"\nrestored = true'
BUILD = """
[[release]]
release = "4.1-acme"
based_on = "4.1"
oldest_metadata_version = 7
oldest_bootstrap = 7
newest_stable = 26
newest_unstable = 29
"""


def told(text: str | bytes) -> str:
    with pytest.raises(ConfigError) as error:
        with_overlay(load(), text, "acme.toml")
    return str(error.value)


def test_the_shipped_overlay_changes_nothing() -> None:
    assert with_overlay(load(), SHIPPED.read_bytes(), "conf/catalogue-overlay.toml") is load()
    assert load().label == load().dated == "2026-11-21"


def test_the_examples_in_the_shipped_overlay_can_be_used() -> None:
    lines = SHIPPED.read_text(encoding="utf-8").splitlines()
    rows = [line[2:] for line in lines if re.match(r"# (\[\[\w+\]\]|[a-z_]+ = )", line)]
    catalogue = with_overlay(load(), "\n".join(rows), "examples")
    assert catalogue.of("4.1-acme").defaults(27)["acme.tiering.version"] == 1
    assert catalogue.of("4.5").newest_stable == 35
    assert catalogue.level_name("metadata.version", 35) == "4.5-IV1"
    assert catalogue.overlay is not None
    assert len(catalogue.overlay.rows) == 8
    assert catalogue.only_by_name("acme.tiering.version") == {1}


def test_the_package_s_own_rows_contradict_nothing() -> None:
    assert list(contradictions(read_rows())) == []


def test_every_contradiction_is_found_not_only_the_first() -> None:
    rows = read_rows()
    broken = [replace(row, dependency="?", stable_since="?") for row in rows.feature_level[:2]]
    found = list(contradictions(replace(rows, feature_level=(*broken, *rows.feature_level[2:]))))
    assert [fault.column for fault in found] == ["stable_since", "dependency"] * 2


def test_every_row_of_the_package_says_where_it_is_from() -> None:
    assert [row for _, row in read_rows().every() if not row.source] == []


def test_a_level_is_added() -> None:
    catalogue = with_overlay(load(), VERSION, "acme.toml")
    assert catalogue.level_of("4.5-IV1") == catalogue.newest_known("metadata.version") == 35
    assert 35 in catalogue.loses_metadata_below
    assert load().level_of("4.5-IV1") is None


def test_a_row_is_replaced() -> None:
    text = VERSION.replace("35", "30").replace("4.5-IV1", "4.3-IV0").replace("true", "false")
    catalogue = with_overlay(load(), text, "acme.toml")
    assert 30 not in catalogue.loses_metadata_below
    assert 30 not in catalogue.of("4.3").loses_metadata_below
    assert 30 in load().of("4.3").loses_metadata_below


def test_a_feature_is_known_where_a_release_says_so() -> None:
    catalogue = with_overlay(load(), FEATURE, "acme.toml")
    own = catalogue.of("4.1")
    assert own.known_levels("acme.version") == (0, 1)
    assert own.known_levels("acme.version", unstable=False) == (0,)
    assert own.features[-1] == "acme.version"
    assert [(d.other, d.least) for d in own.needs("acme.version", 1)] == [
        ("metadata.version", 26),
        ("group.version", 1),
    ]
    assert catalogue.of("4.2").known_levels("acme.version") == ()
    assert "acme.version" in catalogue.features
    code = catalogue.tables.feature_code("acme.version")
    assert catalogue.tables.level_known[:, code].sum() == 4


def test_a_build_has_what_its_base_release_has() -> None:
    catalogue = with_overlay(load(), BUILD + FEATURE, "acme.toml")
    build, base = catalogue.of("4.1-acme"), load().of("4.1")
    assert build.features == base.features
    assert build.dependencies == base.dependencies
    assert (build.newest_stable, build.based_on) == (26, "4.1")
    assert catalogue.release_named("4.1-acme") == "4.1-acme"
    assert build.level_of("4.1") == 26


def test_a_level_beyond_the_tables_makes_them_wider() -> None:
    text = VERSION.replace("35", "300")
    build = BUILD.replace("newest_unstable = 29", "newest_unstable = 300")
    catalogue = with_overlay(load(), text + build, "acme.toml")
    assert catalogue.tables.width == 301
    assert catalogue.tables.level_known.shape == (14, 7, 301)
    assert 300 in catalogue.of("4.1-acme").loses_metadata_below


def test_the_catalogue_remembers_the_overlay() -> None:
    catalogue = with_overlay(load(), VERSION, "acme.toml")
    assert catalogue.overlay is not None
    assert set(catalogue.overlay.rows) == {("metadata_version", (35,))}
    assert re.fullmatch(
        r"2026-11-21 \+ overlay acme\.toml \(1 row, [0-9a-f]{12}\)", catalogue.label
    )
    assert "(4 rows, " in with_overlay(load(), VERSION + FEATURE, "acme.toml").label


def test_the_digest_is_of_what_the_rows_say() -> None:
    def digest(text: str, name: str = "acme.toml") -> str:
        overlay = with_overlay(load(), text, name).overlay
        assert overlay is not None
        return overlay.digest

    assert digest(VERSION + FEATURE) == digest("# note\n" + FEATURE + VERSION, "other.toml")
    assert digest(VERSION) != digest(VERSION.replace("true", "false"))


def test_the_same_row_twice_is_one() -> None:
    assert "(1 row, " in with_overlay(load(), VERSION + VERSION, "acme.toml").label


NEXT = "conf/catalogue-overlay.toml explains every table and key."
# Where a row stands.
VERSION_1 = "acme.toml:2: [[metadata_version]] number 1: "
LEVEL_2 = "acme.toml:7: [[feature_level]] number 2: "
LEVEL_1 = "acme.toml:2: [[feature_level]] number 1: "
RELEASE_1 = "acme.toml:2: [[release]] number 1: "
RANGE_1 = "acme.toml:13: [[release_feature]] number 1: "
EFFECT_1 = "acme.toml:1: [[side_effect]] number 1: "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            VERSION + VERSION.replace("true", "false"),
            "acme.toml:8: [[metadata_version]] number 2: expected one row for level 35, found "
            "another that says something else (acme.toml:2: [[metadata_version]] number 1). Keep "
            "one of them.",
        ),
        (
            FEATURE.replace("group.version=1", "made.up=1"),
            LEVEL_2 + "dependency: expected a feature and level the catalogue has, found "
            "made.up=1.",
        ),
        (
            FEATURE.replace("group.version=1", "group.version=9"),
            LEVEL_2 + "dependency: expected a feature and level the catalogue has, found "
            "group.version=9.",
        ),
        (
            FEATURE.replace("group.version=1", "group.version>1"),
            LEVEL_2 + "dependency: expected FEATURE=LEVEL, several with ;, found "
            "'metadata.version=26;group.version>1'.",
        ),
        (
            VERSION.replace("4.5-IV1", "4.0-IV3"),
            VERSION_1 + "name: expected a name that no other metadata.version has, found "
            "'4.0-IV3'.",
        ),
        (
            VERSION.replace("35", "-1"),
            VERSION_1 + "level: expected a level from 0 to 32767, found -1.",
        ),
        (
            VERSION.replace("level", "lvl"),
            VERSION_1 + "expected keys level, name, release, loses_metadata_below, purpose, "
            "source, found 'lvl'.",
        ),
        (VERSION.replace("35", '"35"'), VERSION_1 + "level: expected a whole number, found '35'."),
        (
            VERSION.replace("= true", "= 1"),
            VERSION_1 + "loses_metadata_below: expected true or false, found 1.",
        ),
        (
            '[[metadata_version]]\nlevel = 35\nrelease = "4.5"',
            "acme.toml:1: [[metadata_version]] number 1: expected name, loses_metadata_below too, "
            "found none.",
        ),
        (
            "metadata_version = [{level = 35}]",
            "acme.toml: [[metadata_version]] number 1: expected name, release, "
            "loses_metadata_below too, found none.",
        ),
        ("[release]\nrelease = 1", "acme.toml: expected [[release]], found [release] or a value."),
        (
            "[[cluster]]",
            "acme.toml: expected tables metadata_version, feature_level, release, "
            "release_feature, release_difference, side_effect, found 'cluster'.",
        ),
        ("level = x\n", "acme.toml: expected TOML, found: Invalid value (at line 1, column 9)."),
        (b"\xff", "acme.toml: expected TOML, found: 'utf-8' codec can't decode byte 0xff"),
        (BUILD.replace('"4.1"', '"5.0"'), RELEASE_1 + "based_on: expected one of 3.3, "),
        (
            BUILD.replace("newest_stable = 26", "newest_stable = 30"),
            RELEASE_1 + "newest_stable: expected from 7 to 29, found 30.",
        ),
        (
            BUILD.replace("newest_unstable = 29", "newest_unstable = 99"),
            RELEASE_1 + "newest_unstable: expected a metadata.version of the catalogue, found 99.",
        ),
        (
            BUILD.replace("oldest_bootstrap = 7", "oldest_bootstrap = 30"),
            RELEASE_1 + "oldest_bootstrap: expected at most 29, found 30.",
        ),
        (
            FEATURE.replace("group.version=1", "acme.version=0"),
            LEVEL_2 + "dependency: expected another feature than acme.version itself, found "
            "acme.version=0.",
        ),
        (
            FEATURE.replace("metadata.version=26", "metadata.version=30"),
            LEVEL_2 + "default_from: expected a default_from at or above what the level needs, "
            "metadata.version=30, found default_from ",
        ),
        (
            FEATURE.replace("level = 0", "level = 2", 1),
            LEVEL_1 + "level: expected a row for level 0 of acme.version too, found 2.",
        ),
        (
            FEATURE.replace("acme.version", "metadata.version"),
            LEVEL_1 + "feature: expected a feature (levels of metadata.version are "
            "[[metadata_version]]), found metadata.version.",
        ),
        (
            FEATURE.replace("3.3-IV3", "3.3-IV9"),
            LEVEL_1 + "default_from: expected the name of a metadata.version, as 4.0-IV3, found "
            "'3.3-IV9'.",
        ),
        (
            FEATURE.replace('stable_since = "4.1"', 'stable_since = "4.x"'),
            LEVEL_1 + "stable_since: expected one of 3.3, ",
        ),
        (
            FEATURE.replace("newest_unstable = 1", "newest_unstable = 5"),
            RANGE_1 + "newest_unstable: expected a level of acme.version that the catalogue has, "
            "found 5.",
        ),
        (
            FEATURE.replace("newest_stable = 0", "newest_stable = 1").replace(
                "newest_unstable = 1", "newest_unstable = 0"
            ),
            RANGE_1 + "newest_stable: expected at most newest_unstable, 0, found 1.",
        ),
        (
            EFFECT.format("metadata.version", 30, "x"),
            EFFECT_1 + "feature: expected another feature than metadata.version, found "
            "metadata.version.",
        ),
        (
            EFFECT.format("group.version", 7, "x"),
            EFFECT_1 + "level: expected a level of group.version that the catalogue has, found 7.",
        ),
        (
            EFFECT.format("group.version", 0, "x"),
            EFFECT_1 + "level: expected a level above 0, found 0.",
        ),
        (
            EFFECT.format("group.version", 1, " "),
            EFFECT_1 + "what: expected what the level changes, in words, found ' '.",
        ),
        (
            EFFECT.format("group.version", 1, "x") + "\nfrom_controller = true",
            EFFECT_1 + "key: expected the configuration that the controller's value is written "
            "to, found ''.",
        ),
        (
            '[[release_feature]]\nrelease = "4.1"\nfeature = "x"\nnewest_stable = 0\n'
            "newest_unstable = 0",
            "acme.toml:1: [[release_feature]] number 1: feature: expected one of metadata",
        ),
    ],
)
def test_an_overlay_that_contradicts_itself_is_told(text: str | bytes, message: str) -> None:
    assert told(text).startswith(message)
    assert told(text).endswith(NEXT if "number 2: expected one row" not in message else "of them.")


STABLE = FEATURE.replace("newest_stable = 0", "newest_stable = 1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            FEATURE.replace("4.2-IV0", "4.1-IV0"),
            RANGE_1 + "newest_stable: expected at least 1, the level of acme.version that new "
            "clusters of 4.1 get by default at metadata.version 27, found 0: a default that is "
            "unstable.",
        ),
        (
            STABLE.replace("group.version=1", "streams.version=1"),
            LEVEL_2 + "dependency: expected production levels, because acme.version 1 is one in "
            "4.1, found streams.version=1: the newest production level of streams.version is 0 in "
            "4.1.",
        ),
        (
            STABLE.replace("metadata.version=26", "metadata.version=28"),
            LEVEL_2 + "dependency: expected production levels, because acme.version 1 is one in "
            "4.1, found metadata.version=28: the newest production level of metadata.version is "
            "27 in 4.1.",
        ),
        (
            STABLE.replace('release = "4.1"', 'release = "3.9"'),
            LEVEL_2 + "dependency: expected production levels, because acme.version 1 is one in "
            "3.9, found metadata.version=26: the newest ",
        ),
        (
            STABLE.replace('release = "4.1"', 'release = "3.9"')
            .replace("metadata.version=26;", "")
            .replace("4.2-IV0", "3.9-IV0"),
            LEVEL_2 + "dependency: expected production levels, because acme.version 1 is one in "
            "3.9, found group.version=1: the newest production level of group.version is none.",
        ),
        (
            FEATURE.replace('release = "4.1"', 'release = "3.9"')
            .replace("metadata.version=26;", "")
            .replace("4.2-IV0", "4.0-IV0"),
            LEVEL_2 + "dependency: expected at most what new clusters of 3.9 get by default at "
            "metadata.version 22, where acme.version 1 is the default, found group.version=1: the "
            "default of group.version is none.",
        ),
        (
            STABLE.replace("metadata.version=26;group.version=1", "transaction.version=2").replace(
                "4.2-IV0", "4.0-IV0"
            ),
            LEVEL_2 + "dependency: expected at most what new clusters of 4.1 get by default at "
            "metadata.version 22, where acme.version 1 is the default, found "
            "transaction.version=2: the default of transaction.version is 0 there.",
        ),
        (
            BUILD.replace("newest_stable = 26", "newest_stable = 22"),
            RELEASE_1 + "feature eligible.leader.replicas.version, level 1: dependency: expected "
            "production levels, because eligible.leader.replicas.version 1 is one in 4.1-acme, "
            "found metadata.version=23: the newest ",
        ),
    ],
)
def test_an_overlay_is_held_to_what_kafka_holds_its_own_catalogue_to(
    text: str, message: str
) -> None:
    """The rules of Feature.validateDefaultValueAndLatestProductionValue."""
    assert told(text).startswith(message)


DIFFERENCE = """[[release_difference]]
release = "4.1"
feature = "FEATURE"
level = 1
what = "WHAT"
value = "VALUE"
"""


@pytest.mark.parametrize(
    ("feature", "what", "value", "message"),
    [
        ("group.version", "name", "x", "what: expected default_from or dependency for group"),
        ("metadata.version", "dependency", "", "what: expected loses_metadata_below for metadata"),
        ("metadata.version", "loses_metadata_below", "no", 'value: expected "true" or "false"'),
        ("group.version", "default_from", "x", "value: expected the name of a metadata.version"),
        ("group.version", "dependency", "x=1", "value: expected a feature and level the catalogue"),
        (
            "group.version",
            "dependency",
            "metadata.version=26",
            "value: expected a default_from at or above what the level needs, metadata.version=26, "
            "found default_from 4.0-IV0 (22)",
        ),
        (
            "eligible.leader.replicas.version",
            "default_from",
            "3.9-IV0",
            "value: expected a default_from at or above what the level needs, metadata.version=23, "
            "found default_from 3.9-IV0 (21)",
        ),
        ("group.version", "dependency", "group.version=0", "value: expected another feature than"),
        (
            "group.version",
            "dependency",
            "streams.version=1",
            "value: expected production levels, because group.version 1 is one in 4.1, found ",
        ),
        (
            "group.version",
            "dependency",
            "transaction.version=2",
            "value: expected at most what new clusters of 4.1 get by default at metadata.version "
            "22, where group.version 1 is the default, found transaction.version=2: the default ",
        ),
        ("made.up", "dependency", "", "feature: expected one of metadata.version, kraft.version"),
    ],
)
def test_a_difference_that_means_nothing_is_told(
    feature: str, what: str, value: str, message: str
) -> None:
    text = DIFFERENCE.replace("FEATURE", feature).replace("WHAT", what).replace("VALUE", value)
    assert told(text).startswith(f"acme.toml:1: [[release_difference]] number 1: {message}")


def test_a_difference_is_of_its_release_only() -> None:
    text = DIFFERENCE.replace("FEATURE", "group.version").replace("WHAT", "dependency")
    catalogue = with_overlay(load(), text.replace("VALUE", "metadata.version=21"), "acme.toml")
    assert [d.least for d in catalogue.of("4.1").needs("group.version", 1)] == [21]
    assert catalogue.of("4.2").needs("group.version", 1) == ()


def test_a_row_that_breaks_another_of_the_package_is_told() -> None:
    text = VERSION.replace("35", "25").replace("4.5-IV1", "renamed")
    catalogue = with_overlay(load(), text, "acme.toml")
    assert catalogue.level_name("metadata.version", 25) == "renamed"
    text = VERSION.replace("35", "24").replace("4.5-IV1", "renamed")
    assert told(text).startswith(
        "acme.toml: feature transaction.version, level 1: default_from: expected the name of a "
        "metadata.version, as 4.0-IV3, found '4.0-IV2'."
    )
