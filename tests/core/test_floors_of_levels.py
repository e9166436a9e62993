"""Downgrade floors and points of no return of every pair of levels, against a plain walk."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from featurelib.catalogue import ReleaseCatalogue
from featurelib.core.compatibility import fits
from featurelib.core.dialect import generation_of, load
from featurelib.core.downgrade import (
    Position,
    fitting_after_lowering,
    floors,
    no_returns,
    of_other_feature,
    position,
)
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION
from tests.core.made_up import CATALOGUE

TABLES = CATALOGUE.tables
RELEASES = [release.release for release in CATALOGUE.releases]
ELR = "eligible.leader.replicas.version"
CAN = load("kraft-4.2").can
Ends = tuple[int, int]


def steps_from(own: ReleaseCatalogue, level: int, lowest: int, nodes: Ends) -> Iterator[int]:
    """The levels one SAFE_DOWNGRADE away, as MetadataVersion and QuorumFeatures decide it."""
    for there in own.names:
        crossed = range(there + 1, level + 1)
        lossless = not any(n in own.loses_metadata_below for n in crossed)
        if there < level and lossless and there >= lowest and nodes[0] <= there <= nodes[1]:
            yield there


def walked(own: ReleaseCatalogue, level: int, lowest: int, nodes: Ends) -> set[int]:
    """Every level that any walk of safe downgrades reaches."""
    reached, waiting = {level}, [level]
    while waiting:
        for there in steps_from(own, waiting.pop(), lowest, nodes):
            if there not in reached:
                reached.add(there)
                waiting.append(there)
    return reached


def at(levels: list[int], nodes: Ends) -> Position:
    return position([({METADATA_VERSION: level}, [nodes]) for level in levels], CATALOGUE)


def ends_to_try(own: ReleaseCatalogue) -> list[Ends]:
    whole = own.oldest, own.newest_unstable
    return [whole, (max(own.oldest, 6), whole[1]), (whole[0], own.newest_stable - 1), (15, 20)]


@pytest.mark.parametrize("release", RELEASES)
def test_the_floor_of_every_level_is_where_the_lowest_walk_ends(release: str) -> None:
    own, can = CATALOGUE.of(release), load(generation_of(release, "kraft")).can
    for nodes in ends_to_try(own):
        levels = list(own.names)
        lowest = can.metadata_floor
        expected = [min(walked(own, level, lowest, nodes)) for level in levels]
        found = floors(TABLES, TABLES.release_code(release), at(levels, nodes), can)
        assert found.tolist() == expected, nodes


@pytest.mark.parametrize("release", RELEASES)
def test_the_point_of_no_return_of_every_pair_is_where_the_way_back_ends(release: str) -> None:
    own, can = CATALOGUE.of(release), load(generation_of(release, "kraft")).can
    pairs = [(a, b) for a in own.names for b in own.names if a < b]
    for nodes in ends_to_try(own):
        expected = []
        for start, target in pairs:
            way = [level for level in own.names if start < level <= target]
            gone = [n for n in way if start not in walked(own, n, can.metadata_floor, nodes)]
            expected.append(gone[0] if gone else -1)
        where, code = at([start for start, _ in pairs], nodes), TABLES.release_code(release)
        ends = np.array([target for _, target in pairs])
        assert no_returns(TABLES, code, where, ends, can).tolist() == expected, nodes


def test_well_known_floors() -> None:
    def floor(release: str, level: int) -> int:
        own, can = CATALOGUE.of(release), load(generation_of(release, "kraft")).can
        where = at([level], (own.oldest, own.newest_unstable))
        return int(floors(TABLES, TABLES.release_code(release), where, can)[0])

    assert [floor("4.2", n) for n in (29, 23, 22, 17, 16, 7)] == [23, 23, 17, 17, 15, 7]
    assert [floor("4.2", 30), floor("4.3", 30)] == [23, 30]  # unstable in 4.2, and not lossy there
    assert [floor("3.9", 22), floor("3.9", 21)] == [22, 17]
    assert [floor("3.3", 4), floor("3.3", 3)] == [4, 3]  # nothing is set below 3.3-IV0
    assert [floor("4.2", 33), floor("4.2", 99), floor("4.2", 0)] == [-1, -1, -1]


def test_no_way_is_no_point_of_no_return() -> None:
    code, ends = TABLES.release_code("4.2"), np.array([27, 20])
    assert no_returns(TABLES, code, at([27, 27], (7, 30)), ends, CAN).tolist() == [-1, -1]


def test_kraft_version_never_goes_back_and_other_features_do() -> None:
    current, target = np.array([0, 1]), np.array([1, 1])
    raft = of_other_feature(CATALOGUE, KRAFT_VERSION, current, target)
    assert (raft.floor.tolist(), raft.no_return.tolist()) == ([0, 1], [1, -1])
    other = of_other_feature(CATALOGUE, "transaction.version", current, target + 1)
    assert (other.floor.tolist(), other.no_return.tolist()) == ([0, 0], [-1, -1])


# --- Software -------------------------------------------------------------------------------------


def plain_misfits(release: str, levels: dict[str, int], *, unstable: bool) -> set[str]:
    own, bad = CATALOGUE.of(release), set()
    for name, level in levels.items():
        known = own.known_levels(name, unstable=unstable)
        if level > 0 and (level not in known or max(known) == 0):
            bad.add(name)
    return bad


@pytest.mark.parametrize("level", range(1, 36))
def test_a_release_joins_when_it_has_every_finalized_level(level: int) -> None:
    levels = {METADATA_VERSION: level, ELR: level % 2, KRAFT_VERSION: level // 20, "f": level // 30}
    found = fits(levels, CATALOGUE)
    assert [fit.release for fit in found] == RELEASES
    for fit in found:
        assert set(fit.misfits) == plain_misfits(fit.release, levels, unstable=False)
        assert set(fit.misfits_unstable) == plain_misfits(fit.release, levels, unstable=True)
        assert fit.joins == (not fit.misfits)


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_may_be_rolled_to_once_levels_are_lowered_as_far_as_it_needs(
    release: str,
) -> None:
    own, can = CATALOGUE.of(release), load(generation_of(release, "kraft")).can
    nodes = own.oldest, own.newest_unstable
    for level in own.names:
        ways = walked(own, level, can.metadata_floor, nodes)
        for raft in (0, 1):
            levels = {METADATA_VERSION: level, KRAFT_VERSION: raft}
            found = fitting_after_lowering(levels, at([level], nodes), release, can, CATALOGUE)
            expected = {
                to: any(
                    not plain_misfits(
                        to, {METADATA_VERSION: n, KRAFT_VERSION: raft}, unstable=False
                    )
                    for n in ways
                )
                for to in RELEASES
            }
            assert found == expected, levels
