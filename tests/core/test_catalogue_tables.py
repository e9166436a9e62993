"""The arrays say of every release, feature and level what its own catalogue says."""

from __future__ import annotations

import pickle

import numpy as np

from featurelib.catalogue import ANY, load

CATALOGUE = load()
TABLES = CATALOGUE.tables


def test_every_cell_is_what_the_release_s_catalogue_says() -> None:
    for i, release in enumerate(TABLES.releases):
        own = CATALOGUE.of(release)
        for j, feature in enumerate(TABLES.features):
            levels = own.known_levels(feature)
            production = own.known_levels(feature, unstable=False)
            assert np.flatnonzero(TABLES.level_known[i, j]).tolist() == list(levels)
            ends = (TABLES.oldest, TABLES.newest_stable, TABLES.newest_unstable)
            expected = (levels[0], production[-1], levels[-1]) if levels else (-1, -1, -1)
            assert tuple(int(end[i, j]) for end in ends) == expected


def test_dependencies_are_rows_of_every_release() -> None:
    found = {
        (TABLES.releases[r], TABLES.features[f], level, TABLES.features[o], least)
        for r, f, level, o, least in TABLES.dependencies.tolist()
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
    assert ANY not in [release.release for release in CATALOGUE.releases]
    assert CATALOGUE.release_named(ANY) is None


def test_what_is_not_there_has_no_code() -> None:
    assert (TABLES.release_code("2.8"), TABLES.feature_code("made.up")) == (-1, -1)
    assert TABLES.feature_code("metadata.version") == 0


def test_a_catalogue_can_be_sent_to_a_worker() -> None:
    assert pickle.loads(pickle.dumps(CATALOGUE)) == CATALOGUE
