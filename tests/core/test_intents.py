"""What a person asks, as a value: its text, its faults, and the goal it means."""

from __future__ import annotations

from typing import Any

import pytest

from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION, UpgradeType
from featurelib.planning.goal import Command, Direction, Intent, goal_of, read_level
from tests.core.made_up import CATALOGUE, kraft, zookeeper

GROUP, SHARE = "group.version", "share.version"


def intent(command: str, **asked: Any) -> Intent:
    return Intent(command=Command(command), **asked)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (intent("upgrade-all"), "upgrade-all"),
        (intent("upgrade-all", stepwise=True), "upgrade-all --stepwise"),
        (
            intent("downgrade-all", release_version="4.0"),
            "downgrade-all --release-version 4.0",
        ),
        (intent("upgrade"), "upgrade"),
        (intent("upgrade", release_version="4.1"), "upgrade --release-version 4.1"),
        (intent("upgrade", up={"g": "1", "f": "2"}), "upgrade --feature f=2 --feature g=1"),
        (intent("downgrade", down={"f": "0"}, unsafe=True), "downgrade --feature f=0 --unsafe"),
        (intent("disable", delete=("g", "f")), "disable --feature f --feature g"),
        (
            intent("update", up={"f": "2"}, down={"g": "3"}, delete=("h",), stepwise=True),
            "update --upgrade f:2 --downgrade g:3 --delete h --stepwise",
        ),
    ],
)
def test_an_intent_has_one_text(made: Intent, text: str) -> None:
    assert made.text == text


@pytest.mark.parametrize(
    ("command", "asked", "said"),
    [
        ("upgrade", {"release_version": "4.1", "up": {"f": "1"}}, "found both"),
        ("downgrade-all", {}, "expected --release-version RELEASE"),
        ("downgrade", {}, "expected --release-version, --metadata or --feature"),
        ("disable", {}, "expected a feature, found none"),
        ("update", {}, "expected a feature, found none"),
        ("upgrade", {"up": {"f": "1"}, "unsafe": True}, "--unsafe is for what goes down"),
        ("upgrade-all", {"unsafe": True}, "--unsafe is for what goes down"),
        ("upgrade", {"up": {"": "1"}}, "found an empty one"),
        ("disable", {"delete": (" ",)}, "found an empty one"),
        ("disable", {"delete": ("f", "f")}, "expected f once, found it twice"),
        ("update", {"up": {"f": "2"}, "delete": ("f",)}, "expected f once, found it twice"),
        ("update", {"up": {"f": "2"}, "down": {"f": "1"}}, "expected f once, found it twice"),
    ],
)
def test_what_no_command_takes_cannot_be_asked(
    command: str, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        intent(command, **asked)


def test_each_entry_of_an_update_goes_its_own_way_or_is_a_fault() -> None:
    cluster = zookeeper("3.9", {"f": (1, 4), "g": (1, 4), "h": (1, 4)}, {"f": 1, "g": 4, "h": 2})
    made = intent("update", up={"f": "2"}, down={"g": "3"}, delete=("h",))
    goal = goal_of(made, cluster, CATALOGUE)
    assert {move.feature: (move.level, move.kind) for move in goal.moves} == {
        "f": (2, UpgradeType.UPGRADE),
        "g": (3, UpgradeType.SAFE_DOWNGRADE),
        "h": (0, UpgradeType.SAFE_DOWNGRADE),
    }
    assert goal.direction is Direction.EITHER
    wrong = intent("update", up={"g": "3", "x": "1"}, down={"f": "2"})
    faults = goal_of(wrong, cluster, CATALOGUE).faults
    assert [(fault.feature, fault.code) for fault in faults] == [
        ("f", "wrong_direction"), ("g", "wrong_direction"), ("x", "unknown_feature")
    ]  # fmt: skip


def test_disable_takes_levels_away_and_leaves_what_is_not_there() -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 29, GROUP: 1})
    goal = goal_of(intent("disable", delete=(GROUP, SHARE), unsafe=True), cluster, CATALOGUE)
    assert [(m.feature, m.level, m.kind) for m in goal.moves] == [
        (GROUP, 0, UpgradeType.UNSAFE_DOWNGRADE)
    ]
    assert [(stay.feature, stay.text) for stay in goal.stays] == [
        (SHARE, "share.version is not finalized, as asked.")
    ]
    assert goal.direction is Direction.DOWN
    metadata = goal_of(intent("disable", delete=(METADATA_VERSION,)), cluster, CATALOGUE)
    assert [fault.code for fault in metadata.faults] == ["unknown_level"]


def test_every_other_command_is_its_goal() -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 25, GROUP: 1})
    up = goal_of(intent("upgrade", release_version="4.1"), cluster, CATALOGUE)
    assert (up.direction, up.levels[METADATA_VERSION]) == (Direction.UP, 27)
    assert goal_of(intent("upgrade"), cluster, CATALOGUE).levels[METADATA_VERSION] == 29
    down = goal_of(intent("downgrade", down={METADATA_VERSION: "24"}), cluster, CATALOGUE)
    assert (down.direction, down.levels) == (Direction.DOWN, {METADATA_VERSION: 24})
    back = intent("downgrade-all", release_version="3.9")
    assert goal_of(back, cluster, CATALOGUE).levels == {METADATA_VERSION: 21, GROUP: 0}
    every = goal_of(intent("upgrade-all"), cluster, CATALOGUE)
    assert every.levels[METADATA_VERSION] == 29


@pytest.mark.parametrize(
    ("release", "feature", "text", "level"),
    [
        ("4.2", METADATA_VERSION, "25", 25),
        ("4.2", METADATA_VERSION, "4.0-IV3", 25),
        ("4.2", METADATA_VERSION, "4.0", 25),
        ("4.2", METADATA_VERSION, "4.0.1", 25),
        ("3.9", METADATA_VERSION, "4.0-IV3", 25),  # named, and refused as unknown to 3.9
        ("", METADATA_VERSION, "4.0-IV3", 25),
        ("", METADATA_VERSION, "4.0", None),
        ("4.2", METADATA_VERSION, "four", None),
        ("4.2", METADATA_VERSION, "-1", None),
        ("4.2", METADATA_VERSION, "٢", None),
        ("4.2", GROUP, "1", 1),
        ("4.2", GROUP, "4.0", None),
    ],
)
def test_a_level_is_a_number_or_a_name_the_controller_knows(
    release: str, feature: str, text: str, level: int | None
) -> None:
    cluster = kraft(release, {METADATA_VERSION: 21}, supported={METADATA_VERSION: (1, 30)})
    assert read_level(feature, text, cluster, CATALOGUE) == level


def test_a_level_that_means_nothing_is_a_fault_that_names_what_does() -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 21})
    asked = intent("upgrade", up={METADATA_VERSION: "4.9", GROUP: "one"})
    group, metadata = goal_of(asked, cluster, CATALOGUE).faults
    assert group.text == "group.version has no level 'one': expected a number."
    assert metadata.text.startswith("metadata.version has no level '4.9': expected a number, a re")
    assert "4.2-IV1" in metadata.text
    unknown = kraft("", {METADATA_VERSION: 21}, supported={METADATA_VERSION: (1, 30)})
    (fault,) = goal_of(intent("upgrade", up={METADATA_VERSION: "?"}), unknown, CATALOGUE).faults
    assert "4.4-IV2" in fault.text
