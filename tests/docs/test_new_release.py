"""A release that the catalogue has is known everywhere: no place falls back to its neighbour; and
what the catalogue says of its levels its own classes say: nothing of it is typed.
"""

from __future__ import annotations

import pytest

from featurelib.catalogue import load
from scripts.absorb_release import Row, Tables, add_rows, known_by
from scripts.check_release import missing
from tests.backends.rig.jars import UnavailableError, class_path

RELEASES = [release.release for release in load().releases]


@pytest.mark.parametrize("release", RELEASES)
def test_every_place_knows_every_release_of_the_catalogue(release: str) -> None:
    assert list(missing(release)) == []


def test_every_place_that_lacks_a_release_is_named() -> None:
    places = [line.partition(":")[0] for line in missing("9.9")]
    assert len(places) == len(set(places)) == 8


KEPT = ("metadata_versions", "feature_levels", "releases", "release_features")
SINCE = ("4.1.2", "4.2.1", "4.3.1", "4.4.0")
WORDS = {"source", "purpose"}  # for people


def facts(rows: list[Row]) -> list[tuple[str, ...]]:
    return [tuple(text for name, text in row.items() if name not in WORDS) for row in rows]


def until_4_0() -> Tables:
    """The catalogue as it was before 4.1: levels that came later, or were another thing then."""
    whole, then = Tables(), Tables()
    old = ("3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0")
    for name in ("releases", "release_features", "release_differences"):
        then.of[name] = [dict(row) for row in whole[name] if row["release"] in old]
    newest = {row["feature"]: int(row["newest_unstable"]) for row in then["release_features"]}
    then.of["feature_levels"] = [
        dict(row)
        for row in whole["feature_levels"]
        if int(row["level"]) <= newest.get(row["feature"], -1)
    ]
    top = int(then["releases"][-1]["newest_unstable"])
    then.of["metadata_versions"] = [
        dict(row) for row in whole["metadata_versions"] if int(row["level"]) <= top
    ]
    # 4.1 takes a dependency of kraft.version away, which makes it a difference of those before.
    kraft = [row for row in then["release_differences"] if row["feature"] == "kraft.version"]
    assert {row["value"] for row in kraft} == {"metadata.version=21"}
    then.of["release_differences"] = [
        row for row in then["release_differences"] if row not in kraft
    ]
    for row in then["feature_levels"]:
        if (row["feature"], row["level"]) == ("kraft.version", "1"):
            row["dependency"] = "metadata.version=21"
    return then


def test_releases_since_4_1_are_absorbed_from_their_jars_alone() -> None:
    then, whole = until_4_0(), Tables()
    for version in SINCE:
        try:
            jars = class_path(version)
        except UnavailableError as error:
            pytest.skip(str(error))
        add_rows(then, known := known_by(version, jars))
    for name in KEPT:
        assert facts(then[name]) == facts(whole[name]), name
    assert sorted(facts(then["release_differences"])) == sorted(facts(whole["release_differences"]))
    with pytest.raises(SystemExit, match=r"4\.4: the catalogue has it already"):
        add_rows(whole, known)
