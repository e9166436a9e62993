"""Which levels of ours wait until the owner of metadata.version has finalized its own."""

from __future__ import annotations

import pytest

from featurelib.catalogue import load
from featurelib.extras.waves.rings import WaveMove, part_moves
from featurelib.feature import METADATA_VERSION
from featurelib.model import Guards, Move, Step
from featurelib.planning.owners import share

CATALOGUE = load()
SHARE, STREAMS, GROUP = "share.version", "streams.version", "group.version"
ELR, TRANSACTION = "eligible.leader.replicas.version", "transaction.version"
STRIMZI = Guards(
    require_signature=False, managed_by="strimzi", managed_features=(METADATA_VERSION,)
)
Ends = tuple[str, int, int]


def moves(*ends: Ends) -> tuple[Move, ...]:
    return tuple(
        Move(
            feature=name,
            from_level=low,
            to_level=high,
            upgrade_type="UPGRADE" if low < high else "SAFE_DOWNGRADE",
        )
        for name, low, high in ends
    )


def shared(metadata: Ends, *others: Ends, guards: Guards = STRIMZI) -> tuple[set[str], ...]:
    """What is ours, the owner's and waits, of a plan with each move in a request of its own."""
    steps = [Step(updates=(move,), timeout_ms=1) for move in moves(metadata, *others)]
    found = share(steps, guards, {METADATA_VERSION: metadata[1]}, CATALOGUE)
    ours = {move.feature for one in found.ours for move in one.updates}
    return ours, {move.feature for move in found.theirs}, {move.feature for move in found.later}


@pytest.mark.parametrize(
    ("metadata", "others", "ours", "later"),
    [
        # 4.2 at 27: share.version 1 is the default from 28, streams.version 1 from 29.
        ((27, 29), [(SHARE, 0, 1), (STREAMS, 0, 1), (GROUP, 0, 1)], {GROUP}, {SHARE, STREAMS}),
        # 4.1 at 7, as in k41-forgotten: the defaults begin at 22 and 24.
        ((7, 27), [(GROUP, 0, 1), (TRANSACTION, 0, 2)], set(), {GROUP, TRANSACTION}),
        ((22, 27), [(GROUP, 0, 1), (TRANSACTION, 0, 2)], {GROUP}, {TRANSACTION}),
        # No metadata.version is finalized: what Kafka takes then is below all defaults.
        ((0, 27), [(GROUP, 0, 1)], set(), {GROUP}),
        # Levels that no metadata.version of the plan makes the default were asked for by name.
        ((27, 29), [(ELR, 0, 1), ("share.version", 0, 2)], {ELR, SHARE}, set()),
        # What goes down waits for no default.
        ((27, 33), [(SHARE, 2, 1)], {SHARE}, set()),
        # Of a feature that no catalogue knows nobody knows a default.
        ((27, 29), [("acme.version", 0, 1)], {"acme.version"}, set()),
    ],
)
def test_a_level_that_is_the_default_only_with_the_owner_s_level_waits_for_the_owner(
    metadata: tuple[int, int], others: list[Ends], ours: set[str], later: set[str]
) -> None:
    found = shared((METADATA_VERSION, *metadata), *others)
    assert found == (ours, {METADATA_VERSION}, later)


def test_nothing_waits_where_metadata_version_is_ours() -> None:
    """It is in the same plan then."""
    guards = Guards(require_signature=False, managed_by="us", managed_features=(SHARE,))
    found = shared(
        (METADATA_VERSION, 27, 29), (SHARE, 0, 1), (STREAMS, 0, 1), (GROUP, 0, 1), guards=guards
    )
    assert found == ({METADATA_VERSION, STREAMS, GROUP}, {SHARE}, set())


@pytest.mark.parametrize("theirs", [frozenset[str](), frozenset({METADATA_VERSION})])
def test_waves_upgrade_no_feature_before_its_level_is_the_default(theirs: frozenset[str]) -> None:
    """group.version 1 is the default at 27; the others go after metadata.version, with a way back
    or without one."""
    wanted = [(METADATA_VERSION, 27, 29), (SHARE, 0, 1), (STREAMS, 0, 1), (GROUP, 0, 1)]
    every = [
        WaveMove(feature=name, from_level=low, to_level=high, way_back=name != METADATA_VERSION)
        for name, low, high in wanted
    ]
    parts = part_moves(every, theirs, {METADATA_VERSION: 27}, CATALOGUE)
    assert parts is not None
    found = [[move.feature for move in some] for _, _, some in parts]
    assert found == [[GROUP], [METADATA_VERSION], [SHARE, STREAMS]]
