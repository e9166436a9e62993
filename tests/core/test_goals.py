"""What was asked for becomes wanted levels; whatever is wrong with it is all named."""

from __future__ import annotations

import pytest

from featurelib.catalogue import with_overlay
from featurelib.core.cluster import Cluster
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role, UpgradeType
from featurelib.planning.goal import (
    Direction,
    Goal,
    downgrade_all,
    explicit,
    losses,
    release_version,
    upgrade_all,
)
from tests.core.made_up import CATALOGUE, kraft, node, software, zookeeper

ELR, GROUP, SHARE = "eligible.leader.replicas.version", "group.version", "share.version"
TRANSACTION, STREAMS = "transaction.version", "streams.version"
UP, DOWN, EITHER = Direction.UP, Direction.DOWN, Direction.EITHER


def faults(goal: Goal) -> list[tuple[str, str]]:
    return [(fault.code, fault.feature) for fault in goal.faults]


def stays(goal: Goal) -> dict[str, str]:
    return {stay.feature: stay.code for stay in goal.stays}


def test_upgrade_all_goes_to_the_defaults_of_the_newest_software() -> None:
    newer = node(20, Role.BROKER, "4.2")
    goal = upgrade_all(kraft("3.9", {METADATA_VERSION: 21}, newer), CATALOGUE)
    assert goal.levels == {METADATA_VERSION: 29, TRANSACTION: 2, GROUP: 1, SHARE: 1, STREAMS: 1}
    assert stays(goal) == {KRAFT_VERSION: "irreversible", ELR: "side_effect"}
    assert {stay.text for stay in goal.stays} == {
        "kraft.version could go up to 1, but never back: ask for it by name.",
        "eligible.leader.replicas.version could go up to 1, but it changes min.insync.replicas "
        "too, and going back does not restore that: ask for it by name.",
    }
    assert {move.kind for move in goal.moves} == {UpgradeType.UPGRADE}
    assert (goal.faults, goal.warnings) == ((), ())


def test_a_vendors_level_that_changes_something_without_a_name_moves_only_by_name() -> None:
    overlay = '[[side_effect]]\nfeature = "group.version"\nlevel = 1\nwhat = "x"\nrestored = true'
    catalogue = with_overlay(CATALOGUE, overlay, "acme.toml")
    goal = upgrade_all(kraft("4.0", {METADATA_VERSION: 25, TRANSACTION: 2, ELR: 1}), catalogue)
    assert stays(goal)[GROUP] == "side_effect"
    [text] = [stay.text for stay in goal.stays if stay.feature == GROUP]
    assert text.endswith("1, but it changes more than its level too: ask for it by name.")


def test_upgrade_all_moves_what_cannot_go_back_or_is_no_default_only_by_name() -> None:
    cluster = kraft("4.1", {METADATA_VERSION: 27, GROUP: 1, TRANSACTION: 2, ELR: 1})
    plain = upgrade_all(cluster, CATALOGUE)
    assert plain.levels == {}
    assert stays(plain) == {
        KRAFT_VERSION: "irreversible", SHARE: "beyond_default", METADATA_VERSION: "at_ceiling",
        GROUP: "at_ceiling", TRANSACTION: "at_ceiling", ELR: "at_ceiling",
    }  # fmt: skip
    named = upgrade_all(cluster, CATALOGUE, by_name=[KRAFT_VERSION, SHARE, "no.such"])
    assert named.levels == {KRAFT_VERSION: 1, SHARE: 1}
    assert [move.feature for move in named.moves if move.irreversible] == [KRAFT_VERSION]
    assert faults(named) == [("unknown_feature", "no.such")]


def test_upgrade_all_never_lowers_and_reads_unstable_ends_as_stable_ones() -> None:
    unstable = software("4.2") | {METADATA_VERSION: (7, 30)}
    told = kraft("4.2", {METADATA_VERSION: 30, SHARE: 1}, supported=unstable)
    assert METADATA_VERSION not in upgrade_all(told, CATALOGUE).levels
    below = kraft("4.2", {METADATA_VERSION: 29}, supported=unstable)
    assert METADATA_VERSION not in upgrade_all(below, CATALOGUE).levels
    nameless = kraft("9.9", {METADATA_VERSION: 7}, supported=software("3.9"))
    assert upgrade_all(nameless, CATALOGUE).levels == {METADATA_VERSION: 21}
    assert stays(upgrade_all(nameless, CATALOGUE)) == {KRAFT_VERSION: "irreversible"}


def test_upgrade_all_takes_features_no_release_knows_to_the_highest_any_node_supports() -> None:
    newer = node(9, Role.BROKER, "2.8", {"f": (1, 5), "h": (1, 1)})
    cluster = zookeeper("2.8", {"f": (1, 4), "g": (1, 2)}, {"g": 2, "gone": 1}, newer)
    goal = upgrade_all(cluster, CATALOGUE)
    assert goal.levels == {"f": 5, "h": 1}
    assert stays(goal) == {"g": "at_ceiling", "gone": "at_ceiling"}


def test_downgrade_all_goes_to_what_the_release_has_and_deletes_what_it_does_not_know() -> None:
    levels = {METADATA_VERSION: 29, TRANSACTION: 2, SHARE: 1, KRAFT_VERSION: 1, GROUP: 1}
    goal = downgrade_all(kraft("4.2", levels), "4.0.1", CATALOGUE)
    assert goal.levels == {METADATA_VERSION: 25, SHARE: 0}
    assert stays(goal) == {
        KRAFT_VERSION: "no_higher", TRANSACTION: "no_higher", GROUP: "no_higher"
    }  # fmt: skip
    assert {move.kind for move in goal.moves} == {UpgradeType.SAFE_DOWNGRADE}
    older = downgrade_all(kraft("4.2", levels), "3.8", CATALOGUE)
    assert older.levels == {METADATA_VERSION: 20, SHARE: 0, TRANSACTION: 0, GROUP: 0}
    assert stays(older) == {KRAFT_VERSION: "irreversible"}
    lost = next(move for move in older.moves if move.feature == METADATA_VERSION).losses
    assert [(loss.level, loss.name) for loss in lost] == [(23, "4.0-IV1")]
    assert "KIP-966" in lost[0].purpose


@pytest.mark.parametrize("release", ["2.7.2", "2.8.2", "3.2"])
def test_the_empty_catalogue_of_an_early_release_is_refused(release: str) -> None:
    cluster = zookeeper("3.3", {"f": (1, 4)}, {"f": 3, "g": 1})
    goal = downgrade_all(cluster, release, CATALOGUE)
    assert (faults(goal), goal.moves) == ([("empty_catalogue", "")], ())
    assert "all would be deleted: f, g" in goal.faults[0].text
    nothing = downgrade_all(zookeeper("3.3", {}, {}), release, CATALOGUE)
    assert "nothing is finalized" in nothing.faults[0].text


def test_downgrade_all_to_a_release_nobody_knows_is_a_fault() -> None:
    goal = downgrade_all(kraft("4.2", {METADATA_VERSION: 29}), "9.9", CATALOGUE)
    assert (faults(goal), goal.moves) == ([("unknown_release", "")], ())


def test_a_release_version_gives_every_feature_its_mapped_level() -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 21})
    up = release_version(cluster, "4.1", UP, CATALOGUE)
    assert up.levels == {METADATA_VERSION: 27, TRANSACTION: 2, GROUP: 1}
    assert stays(up) == {
        KRAFT_VERSION: "irreversible", ELR: "side_effect", SHARE: "at_level", STREAMS: "at_level"
    }  # fmt: skip
    assert [stay.text for stay in up.stays if stay.feature == ELR] == [
        "eligible.leader.replicas.version 1 moves only when asked for by name: it changes "
        "min.insync.replicas too, and going back does not restore that."
    ]
    latest = release_version(cluster, None, UP, CATALOGUE)
    assert latest.levels[METADATA_VERSION] == 29
    mapped = {METADATA_VERSION: 27, TRANSACTION: 2, GROUP: 1, ELR: 1, KRAFT_VERSION: 1}
    down = release_version(kraft("4.2", mapped), "4.0-IV0", DOWN, CATALOGUE)
    assert down.levels == {METADATA_VERSION: 22, TRANSACTION: 0, ELR: 0}
    assert stays(down)[KRAFT_VERSION] == "at_level"
    assert [loss.level for loss in down.moves[1].losses] == [23]
    before_kraft = release_version(kraft("4.2", mapped), "3.8-IV0", DOWN, CATALOGUE)
    assert stays(before_kraft)[KRAFT_VERSION] == "irreversible"
    assert KRAFT_VERSION not in before_kraft.levels


def test_every_wrong_direction_is_named() -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 29, SHARE: 1, GROUP: 1, TRANSACTION: 1})
    up = release_version(cluster, "4.1", UP, CATALOGUE)
    assert faults(up) == [("wrong_direction", METADATA_VERSION), ("wrong_direction", SHARE)]
    assert up.faults[0].text == (
        "metadata.version is at 4.2-IV1 and would go down to 4.1-IV1: that is no upgrade."
    )
    down = release_version(cluster, "4.1", DOWN, CATALOGUE)
    assert faults(down) == [("wrong_direction", TRANSACTION)]
    assert (down.faults[0].current, down.faults[0].level) == (1, 2)
    assert "that is no downgrade" in down.faults[0].text
    [stay] = [stay for stay in down.stays if stay.feature == ELR]
    assert stay.text == f"{ELR} is not finalized, and a downgrade raises nothing."
    both = explicit(cluster, {METADATA_VERSION: 30 - 2, GROUP: 0, SHARE: 1}, UP, CATALOGUE)
    assert faults(both) == [("wrong_direction", GROUP), ("wrong_direction", METADATA_VERSION)]
    assert stays(both) == {SHARE: "at_level"}


def test_a_release_version_of_another_tool_of_none_and_of_an_unstable_level() -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 21})
    other = release_version(cluster, None, UP, CATALOGUE, CATALOGUE.of("4.0"))
    assert other.levels[METADATA_VERSION] == 25
    unknown = release_version(cluster, "4.9", UP, CATALOGUE)
    assert faults(unknown) == [("unknown_level", METADATA_VERSION)]
    assert unknown.faults[0].text.startswith("4.2 knows no release version 4.9. It knows 3.3-IV3,")
    unstable = release_version(cluster, "4.3-IV0", UP, CATALOGUE)
    assert faults(unstable) == [("unstable_level", METADATA_VERSION)]
    for release in ("", "9.9"):
        nobody = kraft(release, {METADATA_VERSION: 21}, supported=software("4.2"))
        assert faults(release_version(nobody, "4.2", UP, CATALOGUE)) == [("unknown_release", "")]


def test_levels_by_name_go_where_they_are_told_and_every_fault_is_named() -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 29, GROUP: 1, KRAFT_VERSION: 1})
    goal = explicit(cluster, {METADATA_VERSION: 28, SHARE: 1, GROUP: 0}, EITHER, CATALOGUE)
    assert {m.feature: (m.level, m.kind) for m in goal.moves} == {
        METADATA_VERSION: (28, UpgradeType.SAFE_DOWNGRADE),
        GROUP: (0, UpgradeType.SAFE_DOWNGRADE),
        SHARE: (1, UpgradeType.UPGRADE),
    }
    wrong = {"no.such": 1, GROUP: -1, SHARE: 7, METADATA_VERSION: 30, KRAFT_VERSION: 0}
    assert faults(explicit(cluster, wrong, EITHER, CATALOGUE)) == [
        ("negative_level", GROUP), ("irreversible", KRAFT_VERSION),
        ("unstable_level", METADATA_VERSION), ("unknown_feature", "no.such"),
        ("unknown_level", SHARE),
    ]  # fmt: skip
    unsafe = explicit(cluster, {METADATA_VERSION: 22}, DOWN, CATALOGUE, unsafe=True)
    assert unsafe.moves[0].kind is UpgradeType.UNSAFE_DOWNGRADE
    assert [loss.level for loss in unsafe.moves[0].losses] == [23]


def test_levels_by_name_of_features_only_nodes_know() -> None:
    cluster = zookeeper("2.8", {"f": (1, 4)}, {"gone": 2})
    goal = explicit(cluster, {"f": 3, "gone": 0, METADATA_VERSION: 7}, EITHER, CATALOGUE)
    assert goal.levels == {"f": 3, "gone": 0, METADATA_VERSION: 7}
    assert goal.faults == ()


def test_what_is_lost_is_by_the_controllers_release() -> None:
    assert [loss.level for loss in losses(CATALOGUE, "3.9.2", 23, 21)] == [22]
    assert [loss.level for loss in losses(CATALOGUE, "4.2", 30, 22)] == [23]
    assert [loss.level for loss in losses(CATALOGUE, "", 30, 22)] == [30, 23]
    assert losses(CATALOGUE, "4.2", 21, 29) == losses(CATALOGUE, "4.2", 29, 23) == ()


def shuffled(cluster: Cluster) -> Cluster:
    finalized = dict(reversed(cluster.finalized.items()))
    return Cluster(
        release=cluster.release, active=0, finalized=finalized, nodes=cluster.nodes[::-1]
    )


def test_order_of_nodes_and_features_changes_no_goal() -> None:
    cluster = kraft("4.1", {METADATA_VERSION: 21, GROUP: 1}, node(20, Role.BROKER, "4.2"))
    asks = [
        lambda one: upgrade_all(one, CATALOGUE, by_name=[KRAFT_VERSION]),
        lambda one: downgrade_all(one, "3.9", CATALOGUE),
        lambda one: release_version(one, "4.0", UP, CATALOGUE),
    ]
    for ask in asks:
        assert ask(cluster) == ask(shuffled(cluster))
