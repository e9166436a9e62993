"""A release that the catalogue has is known everywhere: no place falls back to its neighbour."""

from __future__ import annotations

import pytest

from featurelib.catalogue import load
from scripts.check_release import missing

RELEASES = [release.release for release in load().releases]


@pytest.mark.parametrize("release", RELEASES)
def test_every_place_knows_every_release_of_the_catalogue(release: str) -> None:
    assert list(missing(release)) == []


def test_every_place_that_lacks_a_release_is_named() -> None:
    places = [line.partition(":")[0] for line in missing("9.9")]
    assert len(places) == len(set(places)) == 8
