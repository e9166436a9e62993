"""Each release's own catalogue against what that release's real tools and nodes said.

KIP-1022, Test Plan: every release's defaults, and every level of a feature with the others at
their defaults.
"""

from __future__ import annotations

import pytest

from featurelib.catalogue import Dependency, ReleaseCatalogue, load
from featurelib.core.storage_format import FormatRequest, initial_levels
from tests.core.recorded import mappings, table

MV = "metadata.version"


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


def name_of(value: object) -> str:
    return value.release if isinstance(value, ReleaseCatalogue) else str(value)


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


@pytest.mark.parametrize(("catalogue", "feature", "level"), LEVELS, ids=name_of)
def test_every_level_goes_with_the_other_features_at_their_defaults(
    catalogue: ReleaseCatalogue, feature: str, level: int
) -> None:
    version = level if feature == MV else catalogue.newest_stable
    levels = {**catalogue.defaults(version), feature: level}
    if (catalogue.release, feature) in {("3.9", MV), ("4.0", MV)}:
        levels["kraft.version"] = 0  # there it needs 3.9-IV0, and new clusters start without it
    allowed = version >= 4 or not any(levels[f] for f in catalogue.features)
    assert (catalogue.unmet(levels) == ()) == allowed


@pytest.mark.parametrize(("catalogue", "feature", "level"), LEVELS, ids=name_of)
def test_a_cluster_can_be_formatted_with_every_stable_level(
    catalogue: ReleaseCatalogue, feature: str, level: int
) -> None:
    stable = catalogue.knows(feature, level, unstable=False)
    dynamic = feature == "kraft.version" and level > 0
    request = FormatRequest(
        release_version=catalogue.names[level] if feature == MV else None,
        features={} if feature == MV else {feature: level},
        dynamic_quorum=dynamic,
    )
    initial = initial_levels(catalogue, request)
    old = feature == MV and level < catalogue.oldest_bootstrap
    assert (initial.refusals == ()) == (stable and not old)
    if initial.levels:
        assert initial.levels.get(feature, 0) == level


def test_every_level_above_zero_needs_a_metadata_version_that_can_write_it() -> None:
    levels = {MV: 3, "kraft.version": 0, "transaction.version": 2}
    assert own("3.9").unmet(levels) == (
        Dependency(feature="transaction.version", level=2, other=MV, least=4),
    )
    levels[MV] = 6
    assert [needed.least for needed in own("4.2").unmet(levels)] == [7]


@pytest.mark.parametrize(
    ("software", "text", "level"),
    [
        ("3.3", "3.0", 1),
        ("3.6", "3.6", 14),
        ("3.9", "3.9.1", 21),
        ("3.9", "4.0", None),
        ("3.9", "4.0-IV1", 23),
        ("4.0", "3.2", None),
        ("4.4", "4.5", None),
        ("4.4", "4.5-IV0", 34),
        ("4.4", "0.10.2.1", None),
        ("4.4", "", None),
    ],
)
def test_a_release_version_is_read_as_the_tools_read_it(
    software: str, text: str, level: int | None
) -> None:
    assert own(software).level_of(text) == level


def test_only_releases_of_the_catalogue_have_one() -> None:
    assert load().release_named("4.1.2") == "4.1"
    assert load().release_named("2.8") is None
    assert load().release_named("4") is None
    with pytest.raises(KeyError):
        load().of("2.8")
