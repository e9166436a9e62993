"""A release that the catalogue has is known everywhere: no place falls back to its neighbour; and
what the catalogue says of its levels its own classes say: nothing of it is typed.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from featurelib.catalogue import load
from featurelib.feature import METADATA_VERSION
from scripts.absorb_release import Row, Tables, add_rows, known_by
from scripts.check_release import missing
from scripts.record_api_keys import releases
from tests.backends.rig.jars import UnavailableError, class_path

RELEASES = [release.release for release in load().releases]


@pytest.mark.parametrize("release", RELEASES)
def test_every_place_knows_every_release_of_the_catalogue(release: str) -> None:
    assert list(missing(release)) == []


def test_every_place_that_lacks_a_release_is_named() -> None:
    places = [line.partition(":")[0] for line in missing("9.9")]
    assert len(places) == len(set(places)) == 8


NEWEST = releases()[-1]
KEPT = (
    "metadata_versions", "feature_levels", "releases", "release_features", "release_differences",
)  # fmt: skip
WORDS = {"source", "purpose"}  # for people


def facts(rows: list[Row]) -> list[tuple[str, ...]]:
    return [tuple(text for name, text in row.items() if name not in WORDS) for row in rows]


def before(release: str) -> Tables:
    """The catalogue as it was before this release, the newest one."""
    whole, then = Tables(), Tables()
    for name in ("releases", "release_features", "release_differences"):
        then.of[name] = [dict(row) for row in whole[name] if row["release"] != release]
    newest = {row["feature"]: int(row["newest_unstable"]) for row in then["release_features"]}
    newest[METADATA_VERSION] = int(then["releases"][-1]["newest_unstable"])
    for name in ("feature_levels", "metadata_versions"):
        then.of[name] = [
            dict(row)
            for row in whole[name]
            if int(row["level"]) <= newest.get(row.get("feature", METADATA_VERSION), -1)
        ]
    return then


def test_the_newest_release_is_absorbed_from_its_jars_alone() -> None:
    then, whole = before(RELEASES[-1]), Tables()
    assert facts(then["feature_levels"]) != facts(whole["feature_levels"])
    try:
        known = known_by(NEWEST, class_path(NEWEST))
    except UnavailableError as error:
        pytest.skip(str(error))
    add_rows(then, known)
    for name in KEPT:
        assert facts(then[name]) == facts(whole[name]), name
    with pytest.raises(SystemExit, match=rf"{RELEASES[-1]}: the catalogue has it already"):
        add_rows(whole, known)
    # What a later release says of a level that is known is today's row, and a difference before.
    level = ["group.version", "1", "4.0-IV0"]
    levels = [
        [*row[:3], "metadata.version=22"] if row[:3] == level else row for row in known.levels
    ]
    assert levels != known.levels
    add_rows(then, replace(known, version="9.9.0", levels=levels))
    row = next(row for row in then["feature_levels"] if [*row.values()][:2] == level[:2])
    assert row["dependency"] == "metadata.version=22"
    kept = [row for row in then["release_differences"] if row["feature"] == level[0]]
    knew = [row["release"] for row in whole["release_features"] if row["feature"] == level[0]]
    assert [row["release"] for row in kept if row["what"] == "dependency"] == knew
