"""What waits for the owner of metadata.version, and which releases never register again."""

from __future__ import annotations

import pytest

from featurelib.catalogue import load
from featurelib.feature import METADATA_VERSION
from featurelib.model import Guards, Move, Step
from featurelib.planning.outlook import NONE, StepOutlook
from featurelib.planning.owners import share

CATALOGUE = load()
SHARE, STREAMS, GROUP = "share.version", "streams.version", "group.version"


def step(*moves: tuple[str, int, int]) -> Step:
    updates = tuple(
        Move(feature=name, from_level=low, to_level=high, upgrade_type="UPGRADE")
        for name, low, high in moves
    )
    return Step(updates=updates, timeout_ms=1)


def test_a_level_that_is_the_default_only_with_the_owner_s_level_waits_for_the_owner() -> None:
    """4.2 at metadata.version 27: share.version 1 is the default from 28, streams.version 1 from
    29, and group.version 1 is the default already."""
    steps = [step((METADATA_VERSION, 27, 29), (SHARE, 0, 1), (STREAMS, 0, 1), (GROUP, 0, 1))]
    guards = Guards(
        require_signature=False, managed_by="strimzi", managed_features=(METADATA_VERSION,)
    )
    shares = share(steps, guards, {METADATA_VERSION: 27}, CATALOGUE)
    assert [move.feature for step in shares.ours for move in step.updates] == [GROUP]
    assert [move.feature for move in shares.theirs] == [METADATA_VERSION]
    assert {move.feature for move in shares.later} == {SHARE, STREAMS}


def test_a_level_that_no_metadata_version_makes_the_default_does_not_wait() -> None:
    """Somebody asked for it by name."""
    steps = [step((METADATA_VERSION, 27, 29), ("eligible.leader.replicas.version", 0, 1))]
    guards = Guards(
        require_signature=False, managed_by="strimzi", managed_features=(METADATA_VERSION,)
    )
    shares = share(steps, guards, {METADATA_VERSION: 27}, CATALOGUE)
    assert len(shares.ours) == 1


@pytest.mark.parametrize(
    ("levels", "floor", "no_more", "never"),
    [
        ({METADATA_VERSION: 29}, 23, ("3.9", "4.0", "4.1"), ("3.9",)),
        ({METADATA_VERSION: 27, "kraft.version": 1}, 23, ("3.9", "4.0"), ("3.9",)),
        ({METADATA_VERSION: 21, "kraft.version": 1}, 21, ("3.8",), ("3.8",)),
        ({METADATA_VERSION: 21, "kraft.version": 1}, 19, ("3.7", "3.8"), ("3.7", "3.8")),
        ({METADATA_VERSION: 29}, NONE, ("3.9",), ()),
    ],
)
def test_a_release_never_registers_again_if_no_safe_downgrade_brings_it_back(
    levels: dict[str, int], floor: int, no_more: tuple[str, ...], never: tuple[str, ...]
) -> None:
    """Kafka lowers metadata.version down to the floor only, and kraft.version 1 never."""
    outlook = StepOutlook(
        changes=(),
        timeout_ms=1,
        levels=levels,
        floor=floor,
        joins=(),
        joins_no_more=no_more,
        joins_newly=(),
    )
    assert outlook.never_again(CATALOGUE) == never
