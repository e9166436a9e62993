"""An overlay adds or replaces rows, is remembered, and is refused where it contradicts itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from featurelib.catalogue import load, with_overlay
from featurelib.catalogue.overlay import contradictions
from featurelib.catalogue.rows import read_rows
from featurelib.errors import ConfigError
from tests.core.frozen import expect_refused

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
    broken = [
        structs.replace(row, dependency="?", stable_since="?") for row in rows.feature_level[:2]
    ]
    found = list(
        contradictions(structs.replace(rows, feature_level=(*broken, *rows.feature_level[2:])))
    )
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


def swap(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        text = text.replace(old, new, 1)
    return text


NEEDED = "group.version=1"
NEEDS = "metadata.version=26;group.version=1"
STABLE = swap(FEATURE, ("newest_stable = 0", "newest_stable = 1"))
IN_3_9 = ('release = "4.1"', 'release = "3.9"'), ("metadata.version=26;", "")
RANGE = '[[release_feature]]\nrelease = "4.1"\nfeature = "x"\nnewest_stable = 0'

# What is wrong → the overlay. How it is told: data/frozen/overlay.txt.
WRONG: dict[str, str | bytes] = {
    "two rows for one level": VERSION + VERSION.replace("true", "false"),
    "a dependency on a feature nobody has": swap(FEATURE, (NEEDED, "made.up=1")),
    "a dependency on a level nobody has": swap(FEATURE, (NEEDED, "group.version=9")),
    "a dependency that is no FEATURE=LEVEL": swap(FEATURE, (NEEDED, "group.version>1")),
    "a name that another level has": swap(VERSION, ("4.5-IV1", "4.0-IV3")),
    "a level below 0": swap(VERSION, ("35", "-1")),
    "an unknown key": swap(VERSION, ("level", "lvl")),
    "a level that is a text": swap(VERSION, ("35", '"35"')),
    "a number for true": swap(VERSION, ("= true", "= 1")),
    "keys left out": '[[metadata_version]]\nlevel = 35\nrelease = "4.5"',
    "keys left out of a row without a line": "metadata_version = [{level = 35}]",
    "a table that is no list": "[release]\nrelease = 1",
    "an unknown table": "[[cluster]]",
    "no TOML": "level = x\n",
    "no UTF-8": b"\xff",
    "a base nobody knows": swap(BUILD, ('"4.1"', '"5.0"')),
    "a newest stable level above the newest": swap(BUILD, ("stable = 26", "stable = 30")),
    "a newest level nobody has": swap(BUILD, ("unstable = 29", "unstable = 99")),
    "a lowest bootstrap above the newest": swap(BUILD, ("bootstrap = 7", "bootstrap = 30")),
    "a dependency on itself": swap(FEATURE, (NEEDED, "acme.version=0")),
    "a default below what it needs": swap(FEATURE, ("version=26", "version=30")),
    "levels that do not begin at 0": swap(FEATURE, ("level = 0", "level = 2")),
    "levels of metadata.version": FEATURE.replace("acme.version", "metadata.version"),
    "a default from no metadata.version": swap(FEATURE, ("3.3-IV3", "3.3-IV9")),
    "stable since no release": swap(FEATURE, ('stable_since = "4.1"', 'stable_since = "4.x"')),
    "a range with a level nobody has": swap(FEATURE, ("unstable = 1", "unstable = 5")),
    "a range that is upside down": swap(STABLE, ("newest_unstable = 1", "newest_unstable = 0")),
    "a side effect of metadata.version": EFFECT.format("metadata.version", 30, "x"),
    "a side effect of a level nobody has": EFFECT.format("group.version", 7, "x"),
    "a side effect of level 0": EFFECT.format("group.version", 0, "x"),
    "a side effect without words": EFFECT.format("group.version", 1, " "),
    "a value of the controller without a key":
        EFFECT.format("group.version", 1, "x") + "\nfrom_controller = true",
    "a range of a feature nobody has": RANGE + "\nnewest_unstable = 0",
    # The rules of Feature.validateDefaultValueAndLatestProductionValue.
    "an unstable default": swap(FEATURE, ("4.2-IV0", "4.1-IV0")),
    "a stable level that needs an unstable one": swap(STABLE, (NEEDED, "streams.version=1")),
    "or an unstable metadata.version": swap(STABLE, ("version=26", "version=28")),
    "or one that its release does not know": swap(STABLE, IN_3_9[0]),
    "or a feature that its release does not know": swap(STABLE, *IN_3_9, ("4.2-IV0", "3.9-IV0")),
    "a default that needs no default": swap(FEATURE, *IN_3_9, ("4.2-IV0", "4.0-IV0")),
    "or more than the default": swap(
        STABLE, (NEEDS, "transaction.version=2"), ("4.2-IV0", "4.0-IV0")),
    "a build older than what is stable in it": swap(BUILD, ("stable = 26", "stable = 22")),
    "a row of the package that others rest on":
        swap(VERSION, ("35", "24"), ("4.5-IV1", "renamed")),
}  # fmt: skip
DIFFERENCE = """[[release_difference]]
release = "4.1"
feature = "{}"
level = 1
what = "{}"
value = "{}"
"""
ELR = "eligible.leader.replicas.version"
for difference in (
    ("group.version", "name", "x"),
    ("metadata.version", "dependency", ""),
    ("metadata.version", "loses_metadata_below", "no"),
    ("group.version", "default_from", "x"),
    ("group.version", "dependency", "x=1"),
    ("group.version", "dependency", "metadata.version=26"),
    (ELR, "default_from", "3.9-IV0"),
    ("group.version", "dependency", "group.version=0"),
    ("group.version", "dependency", "streams.version=1"),
    ("group.version", "dependency", "transaction.version=2"),
    ("made.up", "dependency", ""),
):
    WRONG["a difference: " + " ".join(difference).strip()] = DIFFERENCE.format(*difference)


def test_an_overlay_that_contradicts_itself_or_kafka_is_told() -> None:
    def using(text: str | bytes) -> Callable[[], object]:
        return lambda: with_overlay(load(), text, "acme.toml")

    cases = [(name, using(text)) for name, text in WRONG.items()]
    expect_refused("overlay", ConfigError, cases, begins="acme.toml")


def test_a_difference_is_of_its_release_only() -> None:
    text = DIFFERENCE.format("group.version", "dependency", "metadata.version=21")
    catalogue = with_overlay(load(), text, "acme.toml")
    assert [d.least for d in catalogue.of("4.1").needs("group.version", 1)] == [21]
    assert catalogue.of("4.2").needs("group.version", 1) == ()


def test_a_row_of_the_package_can_be_renamed_where_nothing_rests_on_it() -> None:
    catalogue = with_overlay(load(), swap(VERSION, ("35", "25"), ("4.5-IV1", "new")), "acme.toml")
    assert catalogue.level_name("metadata.version", 25) == "new"
