"""How far back each feature goes once a plan is applied, of one plan and of many at once."""

from __future__ import annotations

import pytest

from featurelib.catalogue import load
from featurelib.core.downgrade import Return, lowest_metadata, returns_of
from featurelib.model import Move, Plan, RangeGroup, Requirements, Step

CATALOGUE = load()
METADATA, GROUP = "metadata.version", "group.version"
WIDE = {METADATA: (1, 29), GROUP: (0, 1)}


def up(feature: str, low: int, high: int) -> Move:
    return Move(feature=feature, from_level=low, to_level=high, upgrade_type="UPGRADE")


def planned(
    *updates: Move,
    levels: dict[str, int],
    own: tuple[str, ...] = ("kraft-4.2",),
    ranges: dict[str, tuple[int, int]] = WIDE,
) -> Plan:
    group = RangeGroup(brokers=(1,), controllers=(1,), ranges=ranges)
    required = Requirements(levels=levels, nodes=(group,), features_node_version=None)
    return Plan(
        cluster="c",
        intent="upgrade-all",
        dialect="strict",
        own_dialects=own,
        catalogue=CATALOGUE.label,
        steps=tuple(Step(updates=(update,), timeout_ms=60_000) for update in updates),
        requirements=required,
    )


def said(*found: tuple[str, int, int]) -> tuple[Return, ...]:
    return tuple(Return(feature=name, floor=low, no_return=point) for name, low, point in found)


# From 3.5-IV2 (11) to 3.7-IV4 (19): 3.6-IV1 (13) and 3.7-IV2 (17) changed metadata. A level that is
# stored as a record needs 3.3-IV0 at least, and group.version 1 needs 4.0-IV0 (22).
PLANS = {
    "the floor rises with the plan": (
        planned(up(METADATA, 11, 19), levels={METADATA: 11}),
        said((METADATA, 17, 13)),
    ),
    "what stays counts as it is": (
        planned(up(GROUP, 0, 1), levels={METADATA: 25}),
        said((GROUP, 0, -1), (METADATA, 23, -1)),
    ),
    "nodes that start later hold the floor up": (
        planned(up(METADATA, 24, 25), levels={METADATA: 24}, ranges={METADATA: (24, 25)}),
        said((METADATA, 24, -1)),
    ),
    "nothing takes kraft.version back": (
        planned(up("kraft.version", 0, 1), levels={METADATA: 25}),
        said(("kraft.version", 1, 1), (METADATA, 23, -1)),
    ),
    "nobody knows a vendor's feature": (
        planned(up("acme", 1, 2), levels={"acme": 1}),
        said(("acme", -1, -1)),
    ),
    "in ZooKeeper mode metadata.version means nothing": (
        planned(up("acme", 1, 2), levels={"acme": 1, METADATA: 11}, own=("zk-3.3",)),
        said(("acme", -1, -1), (METADATA, -1, -1)),
    ),
    "a plan that names no dialect is asked of the strict policy": (
        planned(up(METADATA, 11, 19), levels={METADATA: 11}, own=()),
        said((METADATA, 17, 13)),
    ),
    "what may be in ZooKeeper mode may be in KRaft mode": (
        planned(up(METADATA, 11, 19), levels={METADATA: 11}, own=("zk-3.3", "kraft-3.7")),
        said((METADATA, 17, 13)),
    ),
    "the worst of several dialects counts": (
        planned(up(METADATA, 1, 2), levels={METADATA: 1}, own=("kraft-4.0", "kraft-4.2")),
        said((METADATA, 2, 2)),
    ),
    "in whichever order they stand": (
        planned(up(METADATA, 1, 2), levels={METADATA: 1}, own=("kraft-4.2", "kraft-4.0")),
        said((METADATA, 2, 2)),
    ),
}


@pytest.mark.parametrize("case", PLANS)
def test_a_plan_leaves_each_feature_its_way_back(case: str) -> None:
    plan, expected = PLANS[case]
    assert returns_of([plan], CATALOGUE) == [expected]


def test_without_a_metadata_version_there_is_no_floor() -> None:
    plan = planned(up(GROUP, 0, 1), levels={})
    assert lowest_metadata([(plan, {GROUP: 1}), (plan, {METADATA: 19})], CATALOGUE)[0] == -1
