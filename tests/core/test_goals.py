"""What a person asks, as a value; and what it comes to on a cluster: whatever is wrong is named."""

from __future__ import annotations

from typing import Any

import pytest

from featurelib.catalogue import with_overlay
from featurelib.core.cluster import Cluster
from featurelib.errors import ConfigError
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION
from featurelib.model import Move
from featurelib.planning.goal import (
    Command,
    Goal,
    Intent,
    goal_of,
    losses,
    read_level,
    stay_at_ceiling,
)
from tests.core.made_up import CATALOGUE, kraft, software, zookeeper

ELR, GROUP, SHARE = "eligible.leader.replicas.version", "group.version", "share.version"
TRANSACTION, STREAMS = "transaction.version", "streams.version"


def intent(command: str, **asked: Any) -> Intent:
    return Intent(command=Command(command), **asked)


def goal(cluster: Cluster, command: str, **asked: Any) -> Goal:
    return goal_of(intent(command, **asked), cluster, CATALOGUE)


def faults(found: Goal) -> list[tuple[str, str]]:
    return [(fault.code, fault.feature) for fault in found.faults]


def stays(found: Goal) -> dict[str, str]:
    return {stay.feature: stay.code for stay in found.stays}


def kinds(found: Goal) -> dict[str, tuple[int, str]]:
    return {move.feature: (move.to_level, move.upgrade_type) for move in found.moves}


def test_an_intent_has_one_text() -> None:
    mixed = {"up": {"f": "2"}, "down": {"g": "3"}, "delete": ("h",), "stepwise": True}
    texts = {
        "upgrade-all --stepwise": intent("upgrade-all", stepwise=True),
        "downgrade-all --release-version 4.0": intent("downgrade-all", release_version="4.0"),
        "upgrade": intent("upgrade"),
        "upgrade --feature f=2 --feature g=1": intent("upgrade", up={"g": "1", "f": "2"}),
        "downgrade --feature f=0 --unsafe": intent("downgrade", down={"f": "0"}, unsafe=True),
        "disable --feature f --feature g": intent("disable", delete=("g", "f")),
        "update --upgrade f:2 --downgrade g:3 --delete h --stepwise": intent("update", **mixed),
    }
    assert {text: made.text for text, made in texts.items()} == {text: text for text in texts}


@pytest.mark.parametrize(
    ("command", "asked", "said"),
    [
        (
            "upgrade",
            {"release_version": "4.1", "up": {"f": "1"}},
            "--release-version excludes features by name",
        ),
        ("downgrade-all", {}, "Add --release-version RELEASE"),
        ("downgrade", {}, "Add --release-version, --metadata or --feature"),
        ("update", {}, "The feature is missing"),
        ("upgrade", {"up": {"f": "1"}, "unsafe": True}, "--unsafe is for downgrades only"),
        ("disable", {"delete": (" ",)}, "The name of a feature is empty"),
        ("update", {"up": {"f": "2"}, "delete": ("f",)}, "f is given twice"),
    ],
)
def test_what_no_command_takes_cannot_be_asked(
    command: str, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        intent(command, **asked)


def test_a_level_is_a_number_or_a_name_the_controller_knows() -> None:
    read = {
        "4.2": {"25": 25, "4.0-IV3": 25, "4.0.1": 25, "-1": None, "٢": None},
        "3.9": {"4.0-IV3": 25},  # named, and refused as unknown to 3.9
        "": {"4.0": None},
    }
    for release, texts in read.items():
        at = kraft(release, {METADATA_VERSION: 21}, supported={METADATA_VERSION: (1, 30)})
        found = {text: read_level(METADATA_VERSION, text, at, CATALOGUE) for text in texts}
        assert found == texts, release
        assert read_level(GROUP, "4.0", at, CATALOGUE) is None


def test_upgrade_all_says_why_it_leaves_a_feature_at_its_ceiling() -> None:
    cluster = kraft("4.1", {METADATA_VERSION: 27, GROUP: 1, "x": 2})

    def left(name: str, ceiling: int) -> tuple[str, int, str]:
        stay = stay_at_ceiling(cluster, CATALOGUE, name, ceiling)
        return stay.code, stay.level, stay.text

    metadata = "metadata.version is at 4.1-IV1; that is its ceiling."
    assert left(METADATA_VERSION, 27) == ("at_ceiling", 27, metadata)
    assert left("x", 2)[0] == "at_ceiling"
    assert left(KRAFT_VERSION, 0) == (
        "irreversible", 1, "kraft.version could go up to 1, but never back: ask for it by name."
    )  # fmt: skip
    share = "share.version could go up to 1, but that level is no default: ask for it by name."
    assert left(SHARE, 0) == ("beyond_default", 1, share)
    assert left(ELR, 0)[2].endswith(
        "it changes min.insync.replicas too, and going back does not restore that: ask for it by "
        "name."
    )


def test_a_vendors_level_that_changes_something_without_a_name_moves_only_by_name() -> None:
    overlay = '[[side_effect]]\nfeature = "group.version"\nlevel = 1\nwhat = "x"\nrestored = true'
    catalogue = with_overlay(CATALOGUE, overlay, "acme.toml")
    cluster = kraft("4.0", {METADATA_VERSION: 25, TRANSACTION: 2, ELR: 1})
    stay = stay_at_ceiling(cluster, catalogue, GROUP, 0)
    assert stay.text.endswith("1, but it changes more than its level too: ask for it by name.")
    nobody_knows = kraft("", {METADATA_VERSION: 25}, supported=software("4.0"))
    assert stay_at_ceiling(nobody_knows, CATALOGUE, GROUP, 0).level == 1


def test_downgrade_all_goes_to_what_the_release_has_and_deletes_what_it_does_not_know() -> None:
    levels = {METADATA_VERSION: 29, TRANSACTION: 2, SHARE: 1, KRAFT_VERSION: 1, GROUP: 1}
    cluster = kraft("4.2", levels)
    some = goal(cluster, "downgrade-all", release_version="4.0.1")
    assert kinds(some) == {
        METADATA_VERSION: (25, "SAFE_DOWNGRADE"), SHARE: (0, "SAFE_DOWNGRADE")
    }  # fmt: skip
    assert stays(some) == dict.fromkeys((KRAFT_VERSION, TRANSACTION, GROUP), "no_higher")
    older = goal(cluster, "downgrade-all", release_version="3.8")
    assert older.levels == {METADATA_VERSION: 20, SHARE: 0, TRANSACTION: 0, GROUP: 0}
    assert stays(older) == {KRAFT_VERSION: "irreversible"}
    unknown = goal(cluster, "downgrade-all", release_version="9.9")
    assert (faults(unknown), unknown.moves) == ([("unknown_release", "")], ())


@pytest.mark.parametrize("release", ["2.7.2", "2.8.2", "3.2"])
def test_the_empty_catalogue_of_an_early_release_is_refused(release: str) -> None:
    cluster = zookeeper("3.3", {"f": (1, 4)}, {"f": 3, "g": 1})
    found = goal(cluster, "downgrade-all", release_version=release)
    assert (faults(found), found.moves) == ([("empty_catalogue", "")], ())
    assert "all would be deleted: f, g" in found.faults[0].message


def test_a_release_version_gives_every_feature_its_mapped_level() -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 21})
    up = goal(cluster, "upgrade", release_version="4.1")
    assert up.levels == {METADATA_VERSION: 27, TRANSACTION: 2, GROUP: 1}
    assert stays(up) == {
        KRAFT_VERSION: "irreversible", ELR: "side_effect", SHARE: "at_level", STREAMS: "at_level"
    }  # fmt: skip
    [text] = [stay.text for stay in up.stays if stay.feature == ELR]
    assert text.startswith(f"{ELR} 1 changes only if you name it: it changes min.insync.repl")
    assert goal(cluster, "upgrade").levels[METADATA_VERSION] == 29
    mapped = {METADATA_VERSION: 27, TRANSACTION: 2, GROUP: 1, ELR: 1, KRAFT_VERSION: 1}
    down = goal(kraft("4.2", mapped), "downgrade", release_version="4.0-IV0")
    assert down.levels == {METADATA_VERSION: 22, TRANSACTION: 0, ELR: 0}
    assert stays(down)[KRAFT_VERSION] == "at_level"
    before_kraft = goal(kraft("4.2", mapped), "downgrade", release_version="3.8-IV0")
    assert stays(before_kraft)[KRAFT_VERSION] == "irreversible"
    unknown = goal(cluster, "upgrade", release_version="4.9")
    assert faults(unknown) == [("unknown_level", METADATA_VERSION)]
    assert "4.2 knows no release version 4.9. It knows 3.3-IV3," in unknown.faults[0].message
    unstable = goal(cluster, "upgrade", release_version="4.3-IV0")
    assert faults(unstable) == [("unstable_level", METADATA_VERSION)]
    nobody = kraft("9.9", {METADATA_VERSION: 21}, supported=software("4.2"))
    assert faults(goal(nobody, "upgrade", release_version="4.2")) == [("unknown_release", "")]


def test_every_wrong_direction_is_named() -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 29, SHARE: 1, GROUP: 1, TRANSACTION: 1})
    up = goal(cluster, "upgrade", release_version="4.1")
    assert faults(up) == [("wrong_direction", METADATA_VERSION), ("wrong_direction", SHARE)]
    assert up.faults[0].message == (
        "metadata.version is at 4.2-IV1 and would go down to 4.1-IV1: that is no upgrade."
    )
    down = goal(cluster, "downgrade", release_version="4.1")
    assert faults(down) == [("wrong_direction", TRANSACTION)]
    assert "that is no downgrade" in down.faults[0].message
    [stay] = [stay for stay in down.stays if stay.feature == ELR]
    assert stay.text == f"{ELR} is not finalized, and a downgrade raises nothing."


def test_levels_by_name_go_their_own_way_and_every_fault_is_named() -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 29, GROUP: 1, KRAFT_VERSION: 1})
    found = goal(cluster, "update", up={SHARE: "1"}, down={METADATA_VERSION: "28"}, delete=(GROUP,))
    assert kinds(found) == {
        METADATA_VERSION: (28, "SAFE_DOWNGRADE"),
        GROUP: (0, "SAFE_DOWNGRADE"),
        SHARE: (1, "UPGRADE"),
    }
    down = {"no.such": "1", KRAFT_VERSION: "0", SHARE: "1", TRANSACTION: "0"}
    wrong = goal(cluster, "update", up={METADATA_VERSION: "30", GROUP: "one"}, down=down)
    assert faults(wrong) == [
        ("unknown_level", GROUP), ("irreversible", KRAFT_VERSION),
        ("unstable_level", METADATA_VERSION), ("unknown_feature", "no.such"),
        ("wrong_direction", SHARE),
    ]  # fmt: skip
    assert [stay.text for stay in wrong.stays] == ["transaction.version is not finalized already."]
    assert wrong.faults[0].message == "group.version has no level 'one': expected a number."
    unsafe = goal(cluster, "downgrade", down={METADATA_VERSION: "22"}, unsafe=True)
    assert kinds(unsafe) == {METADATA_VERSION: (22, "UNSAFE_DOWNGRADE")}
    [unknown] = goal(cluster, "upgrade", up={METADATA_VERSION: "4.9"}).faults
    assert "4.2-IV1" in unknown.message
    seven = goal(cluster, "upgrade", up={SHARE: "7"})
    assert faults(seven) == [("unknown_level", SHARE)]
    gone = zookeeper("2.8", {"f": (1, 4)}, {"gone": 2})
    assert goal(gone, "update", up={"f": "3"}, delete=("gone",)).levels == {"f": 3, "gone": 0}


def test_what_is_lost_is_by_the_controllers_release() -> None:
    def lost(release: str, current: int, level: int) -> list[int]:
        move = Move(
            feature=METADATA_VERSION, from_level=current, to_level=level, upgrade_type="DOWN"
        )
        return [note.level for note in losses(CATALOGUE, release, move)]

    assert (lost("3.9.2", 23, 21), lost("4.2", 30, 22), lost("", 30, 22)) == ([22], [23], [30, 23])
    assert lost("4.2", 21, 29) == lost("4.2", 29, 23) == []
