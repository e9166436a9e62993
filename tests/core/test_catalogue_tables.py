"""The arrays say of every release, feature and level what its own catalogue says."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from featurelib.catalogue import load
from featurelib.catalogue.releases import ANY

CATALOGUE = load()
TABLES = CATALOGUE.tables


def test_every_cell_is_what_the_release_s_catalogue_says() -> None:
    for i, release in enumerate(TABLES.releases):
        own = CATALOGUE.of(release)
        for j, feature in enumerate(TABLES.features):
            levels = own.known_levels(feature)
            production = own.known_levels(feature, unstable=False)
            assert np.flatnonzero(TABLES.level_known[i, j]).tolist() == list(levels)
            assert np.flatnonzero(TABLES.level_stable[i, j]).tolist() == list(production)
            ends = (TABLES.oldest, TABLES.newest_stable, TABLES.newest_unstable)
            expected = (levels[0], production[-1], levels[-1]) if levels else (-1, -1, -1)
            assert tuple(int(end[i, j]) for end in ends) == expected
            defaults = [own.default(feature, n) for n in range(TABLES.width)]
            assert TABLES.defaults[i, j].tolist() == defaults


def test_the_shapes_are_release_feature_level() -> None:
    assert TABLES.level_known.shape == (13, 7, 64)
    assert TABLES.changes.shape == (13, 65)
    assert TABLES.changes.dtype == TABLES.defaults.dtype == np.int16


def test_lossy_steps_are_judged_by_each_release_in_one_call() -> None:
    releases = np.array([TABLES.release_code(r) for r in ("4.2", "4.3", "3.8", "3.9")])
    high, low = np.array([30, 30, 21, 21], np.int16), np.array([29, 29, 20, 20], np.int16)
    assert TABLES.lossy(releases, high, low).tolist() == [False, True, True, False]


def test_dependencies_are_rows_of_every_release() -> None:
    found = {
        (TABLES.releases[r], TABLES.features[f], level, TABLES.features[o], least)
        for r, f, level, o, least in zip(
            TABLES.dependency_release.tolist(),
            TABLES.dependency_feature.tolist(),
            TABLES.dependency_level.tolist(),
            TABLES.dependency_other.tolist(),
            TABLES.dependency_least.tolist(),
            strict=True,
        )
    }
    assert found == {
        (release, d.feature, d.level, d.other, d.least)
        for release in TABLES.releases
        for d in CATALOGUE.of(release).dependencies
    }
    assert len(found) == 8


def test_what_any_release_knows_is_a_release_of_its_own() -> None:
    whole, newest = CATALOGUE.of(ANY), CATALOGUE.of("4.4")
    assert whole.names == CATALOGUE.names
    assert whole.loses_metadata_below == CATALOGUE.loses_metadata_below
    assert (whole.levels, whole.dependencies) == (newest.levels, newest.dependencies)
    assert TABLES.releases[-1] == ANY
    assert ANY not in [release.name for release in CATALOGUE.releases]
    assert CATALOGUE.release_named(ANY) is None


def test_what_is_not_there_has_no_code() -> None:
    assert (TABLES.release_code("2.8"), TABLES.feature_code("made.up")) == (-1, -1)
    assert TABLES.feature_code("metadata.version") == 0


def test_nobody_can_change_a_table() -> None:
    with pytest.raises(ValueError, match="read-only"):
        TABLES.changes[0, 0] = 1


def test_a_catalogue_can_be_sent_to_a_worker() -> None:
    assert pickle.loads(pickle.dumps(CATALOGUE)) == CATALOGUE
