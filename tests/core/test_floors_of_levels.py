"""Downgrade floors and points of no return of every pair of levels, against a plain walk."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from featurelib.catalogue import ReleaseCatalogue
from featurelib.core.cluster import Cluster
from featurelib.core.compatibility import advertised, fits, misfits
from featurelib.core.dialect import generation_of, load
from featurelib.core.floors import (
    Footing,
    downgrade_floor,
    fitting_after_lowering,
    footing_of,
    held,
    never_lowered,
    no_return_of_other,
    point_of_no_return,
)
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role
from tests.core.made_up import CATALOGUE, kraft, node

TABLES = CATALOGUE.tables
RELEASES = [release.name for release in CATALOGUE.releases]
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


def footing(release: str, levels: list[int], nodes: Ends, needed: int = 0) -> Footing:
    count = len(levels)
    return Footing(
        release=np.full(count, TABLES.release_code(release)),
        level=np.array(levels, dtype=np.int32),
        min_version=np.full(count, nodes[0], dtype=np.int32),
        max_version=np.full(count, nodes[1], dtype=np.int32),
        needed_by_others=np.full(count, needed, dtype=np.int32),
    )


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
        found = downgrade_floor(TABLES, footing(release, levels, nodes), can)
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
        where = footing(release, [start for start, _ in pairs], nodes)
        ends = np.array([target for _, target in pairs], dtype=np.int32)
        assert point_of_no_return(TABLES, where, ends, can).tolist() == expected, nodes


def test_well_known_floors() -> None:
    def floor(release: str, level: int) -> int:
        at = np.array([TABLES.release_code(release)])
        where = Footing.alone(TABLES, at, np.array([level], dtype=np.int32))
        can = load(generation_of(release, "kraft")).can
        return int(downgrade_floor(TABLES, where, can)[0])

    assert [floor("4.2", n) for n in (29, 23, 22, 17, 16, 7)] == [23, 23, 17, 17, 15, 7]
    assert [floor("4.2", 30), floor("4.3", 30)] == [23, 30]  # unstable in 4.2, and not lossy there
    assert [floor("3.9", 22), floor("3.9", 21)] == [22, 17]
    assert [floor("3.3", 4), floor("3.3", 3)] == [4, 3]  # nothing is set below 3.3-IV0
    assert [floor("4.2", 33), floor("4.2", 99), floor("4.2", 0)] == [-1, -1, -1]


def test_what_holds_a_level_up_is_named_with_every_reason() -> None:
    where = footing("4.2", [29], (7, 30), needed=25)
    refused = held(TABLES, where, CAN)
    assert downgrade_floor(TABLES, where, CAN).tolist() == [25]
    assert np.flatnonzero(refused["dependant_broken"][0]).tolist() == list(range(25))
    assert np.flatnonzero(refused["lossy_safe_downgrade"][0]).tolist() == list(range(23))
    assert np.flatnonzero(refused["unsupported_by_node"][0]).tolist() == list(range(7))
    assert not any(mask[0, 29:].any() for mask in refused.values())


def test_no_way_is_no_point_of_no_return() -> None:
    where = footing("4.2", [27, 27], (7, 30))
    ends = np.array([27, 20], dtype=np.int32)
    assert point_of_no_return(TABLES, where, ends, CAN).tolist() == [-1, -1]


def test_a_verdict_depends_on_no_other_cluster() -> None:
    levels = list(range(7, 30))
    together = downgrade_floor(TABLES, footing("4.2", levels, (7, 30)), CAN)
    alone = [downgrade_floor(TABLES, footing("4.2", [n], (7, 30)), CAN)[0] for n in levels]
    assert together.tolist() == alone
    back = downgrade_floor(TABLES, footing("4.2", levels[::-1], (7, 30)), CAN)
    assert back[::-1].tolist() == alone


def test_kraft_version_never_goes_back_and_other_features_do() -> None:
    own = CATALOGUE.of("4.2")
    assert no_return_of_other(own, KRAFT_VERSION, 0, 1) == 1
    assert no_return_of_other(own, KRAFT_VERSION, 1, 1) == -1
    assert no_return_of_other(own, "transaction.version", 0, 2) == -1


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
    names = (METADATA_VERSION, KRAFT_VERSION, "group.version")
    states = [(level, raft, 1) for level in own.names for raft in (0, 1)]
    levels = np.array(states, dtype=np.int32)
    nodes = own.oldest, own.newest_unstable
    where = footing(release, [level for level, _, _ in states], nodes)
    fixed = never_lowered(CATALOGUE, names, levels)
    assert fixed.tolist() == [[0, raft, 0] for _, raft, _ in states]
    ranges = advertised(CATALOGUE, names)
    found = fitting_after_lowering(TABLES, where, can, fixed, ranges)
    for (level, raft, _), row in zip(states, found.tolist(), strict=True):
        ways = walked(own, level, can.metadata_floor, nodes)
        expected = [
            any(
                not plain_misfits(to, {METADATA_VERSION: n, KRAFT_VERSION: raft}, unstable=False)
                for n in ways
            )
            for to in RELEASES
        ]
        assert row == expected, (level, raft)


def test_many_clusters_and_releases_at_once() -> None:
    names = (METADATA_VERSION, "f")
    levels = np.array([[21, 0], [25, 0], [0, 0], [21, 2]], dtype=np.int32)
    hit = misfits(levels, advertised(CATALOGUE, names))
    assert hit.shape == (4, len(RELEASES), 2)
    assert hit[:, RELEASES.index("3.9"), 0].tolist() == [False, True, False, False]
    assert not hit[2].any()
    assert hit[3, :, 1].all()
    assert (never_lowered(CATALOGUE, names, levels) == 0).all()


def test_where_a_cluster_stands_is_read_off_its_nodes_and_levels() -> None:
    older = node(20, Role.BROKER, "", {METADATA_VERSION: (9, 25)})
    one = kraft("4.2", {METADATA_VERSION: 25, ELR: 1, "transaction.version": 2}, older)
    plain = kraft("4.2", {METADATA_VERSION: 25})
    silent = kraft("9.9", {}, node(20, Role.BROKER, "", {}), supported={METADATA_VERSION: (1, 7)})
    nobody = Cluster(release="4.2")
    where = footing_of([one, plain, silent, nobody], CATALOGUE)
    assert where.level.tolist() == [25, 25, 1, 1]
    assert where.min_version.tolist() == [9, 7, 1, 0]
    assert where.max_version.tolist() == [25, 29, 1, 0]
    assert where.needed_by_others.tolist() == [23, 0, 0, 0]
    assert [TABLES.releases[code] for code in where.release] == ["4.2", "4.2", "any", "4.2"]
    assert downgrade_floor(TABLES, where, CAN).tolist() == [23, 23, 1, -1]
    other = kraft("4.2", {METADATA_VERSION: 25, "transaction.version": 2})
    assert footing_of([other], CATALOGUE).needed_by_others.tolist() == [4]
    assert len(footing_of([], CATALOGUE).level) == 0
