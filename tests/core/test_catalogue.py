"""The catalogue against Kafka's own tables, tools and nodes; its arrays against itself.

KIP-1022, Test Plan: every release's defaults, and every level of a feature with the others at
their defaults.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from featurelib.catalogue import ANY, Catalogue, Dependency, ReleaseCatalogue, load, with_overlay
from featurelib.extras.initial_levels.storage_format import FormatRequest, initial_levels
from tests.core.lines import judge_lines, line_of
from tests.core.recorded import mappings, table

CATALOGUE = load()
TABLES = CATALOGUE.tables
MV = "metadata.version"
ELR = "eligible.leader.replicas.version"

FEATURES = ("transaction.version", "group.version", "eligible.leader.replicas.version")
FEATURES += ("share.version", "streams.version")


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


def test_a_maximum_that_is_only_ever_unstable_reads_as_the_stable_one() -> None:
    stable = {7: 7, 19: 19, 20: 20, 21: 21, 23: 21, 25: 25, 26: 25, 29: 29, 30: 30, 31: 30, 33: 33}
    stable[34] = 33
    assert {level: int(load().stable_up_to()[level]) for level in stable} == stable


def test_levels_are_written_as_people_write_them_and_read_as_the_tools_write_them() -> None:
    names = {25: "4.0-IV3", 40: "40", 0: "0", None: "?"}
    assert {level: load().level_name(MV, level) for level in names} == names
    assert load().level_name("group.version", 1) == "1"
    levels = {"4.0-IV3": 25, "3.0-IV1": 1, "UNKNOWN 33": 33, "UNKNOWN [40]": 40, "7": 7}
    levels |= dict.fromkeys(("3.3-IV9", "", "-", "123456", "UNKNOWN"))
    assert {text: load().level_of(text) for text in levels} == levels


def test_every_feature_with_a_level_is_known() -> None:
    assert load().features == {"metadata.version", "kraft.version", *FEATURES}


def own(software: str) -> ReleaseCatalogue:
    """The catalogue of the release a tool or node is of."""
    release = load().release_named(software)
    assert release is not None
    return load().of(release)


ALL = [own(release.release) for release in load().releases]
LEVELS = [
    (catalogue, feature, level)
    for catalogue in ALL
    for feature in (MV, *catalogue.features)
    for level in catalogue.known_levels(feature)
]


@pytest.mark.parametrize("level", [32767, 32768, 65536, 99999])
def test_a_printed_level_beyond_a_short_is_not_known_and_ends_no_audit(level: int) -> None:
    line = "Feature: transaction.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 2\t"
    line += f"FinalizedVersionLevel: {level}\tEpoch: 9"
    judged = judge_lines([line_of("features_describe", "c", 1, line_number=1, line=line)])
    [row] = judged.readiness.to_pylist()
    assert row["verdict"] == "UNKNOWN"
    assert load().level_of(str(level)) == (level if level == 32767 else None)


def test_every_version_maps_as_in_the_real_tool_of_each_release() -> None:
    compared = 0
    for tool, asked, levels in mappings():
        catalogue = own(tool)
        level = catalogue.level_of(asked) if asked else catalogue.newest_stable
        found = None if level is None else catalogue.defaults(level)
        assert (tool, asked, found) == (tool, asked, levels)
        # The tool prints them in this order.
        assert list(found or ()) == list(levels or ())
        compared += 1
    assert compared == 265


def test_every_level_is_known_and_depends_as_in_the_real_tool_of_each_release() -> None:
    rows = table("feature_dependencies.csv")
    for row in rows:
        catalogue, feature, level = own(row["tool"]), row["feature"], int(row["level"])
        if catalogue.knows(feature, level):
            found = ";".join(f"{d.other}={d.least}" for d in catalogue.needs(feature, level))
        else:
            found = "unknown"
        assert {**row, "needs": found} == row
    assert len(rows) == 345


def test_the_names_a_tool_offers_are_the_names_it_knows() -> None:
    for row in table("supported_names.csv"):
        assert ", ".join(own(row["tool"]).names.values()) == row["names"]


def test_every_node_advertises_what_its_release_knows() -> None:
    seen: dict[tuple[str, bool], dict[str, tuple[int, int]]] = {}
    for row in table("ranges.csv"):
        ranges = seen.setdefault((row["node"], row["unstable"] == "true"), {})
        ranges[row["feature"]] = (int(row["oldest"]), int(row["newest"]))
    for (node, unstable), ranges in seen.items():
        catalogue, known = own(node), {}
        for feature in (MV, *catalogue.features):
            levels = catalogue.known_levels(feature, unstable=unstable)
            # A feature whose maximum would be 0 is not advertised.
            if max(levels) > 0:
                known[feature] = (min(levels), max(levels))
        assert (node, unstable, known) == (node, unstable, ranges)
    assert len(seen) == 20


def test_a_downgrade_loses_metadata_where_the_real_controller_of_each_release_said_so() -> None:
    tables = load().tables
    rows = table("safe_downgrades.csv")
    for row in rows:
        catalogue, high, low = own(row["controller"]), int(row["from"]), int(row["to"])
        lossy = row["loses_metadata"] == "true"
        code = tables.release_code(catalogue.release)
        found = tables.lossy(code, high, low), tables.lossy(code, low, high)
        assert (row, *found) == (row, lossy, lossy)
    assert len(rows) == 331


def test_every_level_goes_with_the_other_features_at_their_defaults() -> None:
    for catalogue, feature, level in LEVELS:
        version = level if feature == MV else catalogue.newest_stable
        levels = {**catalogue.defaults(version), feature: level}
        if (catalogue.release, feature) in {("3.9", MV), ("4.0", MV)}:
            levels["kraft.version"] = 0  # there it needs 3.9-IV0, and new clusters start without it
        allowed = version >= 4 or not any(levels[f] for f in catalogue.features)
        assert (catalogue.unmet(levels) == ()) == allowed, (catalogue.release, feature, level)


def test_a_cluster_can_be_formatted_with_every_stable_level() -> None:
    for catalogue, feature, level in LEVELS:
        stable = catalogue.knows(feature, level, unstable=False)
        request = FormatRequest(
            release_version=catalogue.names[level] if feature == MV else None,
            features={} if feature == MV else {feature: level},
            dynamic_quorum=feature == "kraft.version" and level > 0,
        )
        initial = initial_levels(catalogue, request)
        old = feature == MV and level < catalogue.oldest_bootstrap
        where = catalogue.release, feature, level
        assert (initial.refusals == ()) == (stable and not old), where
        assert not initial.levels or initial.levels.get(feature, 0) == level, where


def test_every_level_above_zero_needs_a_metadata_version_that_can_write_it() -> None:
    levels = {MV: 3, "kraft.version": 0, "transaction.version": 2}
    assert own("3.9").unmet(levels) == (
        Dependency(feature="transaction.version", level=2, other=MV, least=4),
    )
    levels[MV] = 6
    assert [needed.least for needed in own("4.2").unmet(levels)] == [7]


def test_a_release_version_is_read_as_the_tools_read_it() -> None:
    read = {
        "3.3": {"3.0": 1},
        "3.6": {"3.6": 14},
        "3.9": {"3.9.1": 21, "4.0": None, "4.0-IV1": 23},
        "4.0": {"3.2": None},
        "4.4": {"4.5": None, "4.5-IV0": 34, "0.10.2.1": None, "": None},
    }
    assert {one: {text: own(one).level_of(text) for text in read[one]} for one in read} == read


def test_only_releases_of_the_catalogue_have_one() -> None:
    assert load().release_named("4.1.2") == "4.1"
    assert load().release_named("2.8") is None
    assert load().release_named("4") is None
    with pytest.raises(KeyError):
        load().of("2.8")


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


def test_what_is_not_there_has_no_code_and_no_ceiling() -> None:
    assert ceilings("made.up", (33, 0)) == [0]
    assert load().newest_known("made.up") == 0
    assert (TABLES.release_code("2.8"), TABLES.feature_code("made.up")) == (-1, -1)
    assert TABLES.feature_code("metadata.version") == 0


def test_a_catalogue_can_be_sent_to_a_worker() -> None:
    assert pickle.loads(pickle.dumps(CATALOGUE)) == CATALOGUE
