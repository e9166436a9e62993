"""The catalogue against Kafka's own tables (`kafka-features.sh version-mapping`, as literals)."""

from __future__ import annotations

import numpy as np
import pytest

from featurelib.catalogue import Catalogue, load, with_overlay

ELR = "eligible.leader.replicas.version"

FEATURES = ("transaction.version", "group.version", "eligible.leader.replicas.version")
FEATURES += ("share.version", "streams.version")
# Release → its metadata.version, its name, and the default level of FEATURES in that order.


def ceilings(
    feature: str, *pairs: tuple[int, int], catalogue: Catalogue | None = None
) -> list[int]:
    """The ceiling for each pair of a metadata.version and a finalized level."""
    newest, current = np.array(pairs, dtype=np.int64).T
    return (catalogue or load()).ceiling(feature, newest, current).tolist()


def test_the_ceiling_is_the_default_below_what_moves_only_by_name() -> None:
    assert ceilings("share.version", (27, 0), (28, 0), (30, 1), (33, 0), (33, 2)) == [0, 1, 1, 2, 2]
    assert ceilings("kraft.version", (21, 0), (33, 0), (20, 1), (33, 1)) == [0, 0, 0, 1]
    assert ceilings(ELR, (25, 0), (33, 0), (25, 1), (33, 1)) == [0, 0, 0, 1]
    assert [sorted(load().only_by_name(name)) for name in ("kraft.version", ELR, "group.version")] \
        == [[1], [1], []]  # fmt: skip


def test_a_level_above_one_that_moves_only_by_name_waits_for_it() -> None:
    catalogue = with_overlay(
        load(),
        """
        [[side_effect]]
        feature = "share.version"
        level = 1
        what = "a topic is made"
        restored = true
        """,
        "acme.toml",
    )
    said = ceilings("share.version", (33, 0), (33, 1), (33, 2), catalogue=catalogue)
    assert said == [0, 2, 2]


def test_a_feature_nobody_knows_has_no_ceiling_of_the_catalogue() -> None:
    assert ceilings("made.up", (33, 0)) == [0]
    assert load().newest_known("made.up") == 0


@pytest.mark.parametrize(
    ("supported", "stable"),
    [
        (7, 7),
        (19, 19),
        (20, 20),
        (21, 21),
        (23, 21),
        (25, 25),
        (26, 25),
        (29, 29),
        (30, 30),
        (31, 30),
        (33, 33),
        (34, 33),
    ],
)
def test_a_maximum_that_is_only_ever_unstable_reads_as_the_stable_one(
    supported: int, stable: int
) -> None:
    assert load().stable_up_to()[supported] == stable


@pytest.mark.parametrize(
    ("feature", "level", "name"),
    [
        ("metadata.version", 25, "4.0-IV3"),
        ("metadata.version", 40, "40"),
        ("metadata.version", 0, "0"),
        ("metadata.version", None, "?"),
        ("group.version", 1, "1"),
    ],
)
def test_a_level_is_named_as_people_write_it(feature: str, level: int | None, name: str) -> None:
    assert load().level_name(feature, level) == name


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("4.0-IV3", 25),
        ("3.0-IV1", 1),
        ("UNKNOWN 33", 33),
        ("UNKNOWN [40]", 40),
        ("7", 7),
        ("3.3-IV9", None),
        ("", None),
        ("-", None),
        ("123456", None),
        ("UNKNOWN", None),
    ],
)
def test_the_texts_of_the_tools_are_levels(text: str, level: int | None) -> None:
    assert load().level_of(text) == level


def test_every_feature_with_a_level_is_known() -> None:
    assert load().features == {"metadata.version", "kraft.version", *FEATURES}
