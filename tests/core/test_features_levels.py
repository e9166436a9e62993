"""What the features node's text does to a verdict, and what the histories keep of a line."""

from __future__ import annotations

import json

import pytest

from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions, Expected
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load as load_dialect
from featurelib.core.features_znode import Generation
from tests.core.lines import AS_OF, MAX_AGE, line_of, lines_of, microseconds, snapshot
from tests.core.oracle import Cluster, Node

ZOOKEEPER = Cluster(
    name="z", zookeeper=True, nodes=(Node(node_id=1, ranges={"f": (1, 3)}, epoch=5),)
)
SCHEMA_3 = '{"version":3,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":2}}}'


def judged_with(content: str, generation: Generation | None) -> Judged:
    lines = [line for line in lines_of(ZOOKEEPER) if b'"/feature"' not in line]
    keys = {"path": "/feature", "version": 3, "czxid": 3, "data": content}
    lines.append(line_of("znode", "z", 1, **keys))
    inventory = {"z": Expected(generation=generation)}
    conditions = Conditions(as_of=microseconds(AS_OF), max_age=MAX_AGE, inventory=inventory)
    batch = snapshot({"z": lines})
    return judge(batch, conditions, load_catalogue(), load_dialect("strict"))


@pytest.mark.parametrize("generation", [None, *Generation])
def test_a_damaged_features_node_makes_everything_unknown_and_says_what_brokers_do(
    generation: Generation | None,
) -> None:
    judged = judged_with("{", generation)
    assert [r["verdict"] for r in judged.readiness.to_pylist()] == ["UNKNOWN"]
    found = {f["code"]: f["detail"] for f in judged.findings.to_pylist()}
    assert "What brokers do: " in found["features_node_damaged"]


def test_a_features_node_that_releases_read_differently_is_ambiguous_until_one_is_named() -> None:
    unsaid = judged_with(SCHEMA_3, None)
    assert unsaid.findings["code"].to_pylist() == ["features_node_ambiguous"]
    assert "fleet.toml" in unsaid.findings["detail"][0].as_py()
    old = judged_with(SCHEMA_3, Generation.ZK_2_7)
    assert [r["finalized_level"] for r in old.readiness.to_pylist()] == [2]
    new = judged_with(SCHEMA_3, Generation.ZK_3_9)
    assert new.findings["code"].to_pylist() == ["features_node_damaged"]


GENERATIONS = [None, *Generation]
OLD, NEW = Generation.ZK_2_7, Generation.ZK_3_9


def content(schema: int, level: int, least: int = 1) -> str:
    minimum = {"min_version_level": least} if schema == 1 else {}
    features = {"f": {**minimum, "max_version_level": level}}
    return json.dumps({"version": schema, "status": 1, "features": features})


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("schema", [1, 2])
@pytest.mark.parametrize(("level", "cut"), [(65536, 0), (32768, -32768), (2147483647, -1)])
def test_a_level_that_16_bits_leave_below_1_is_damage(
    level: int, cut: int, schema: int, generation: Generation | None
) -> None:
    """Recorded with 3.3.2 and 3.9.2: every broker stops with exit status 1."""
    judged = judged_with(content(schema, level), generation)
    [row] = judged.readiness.to_pylist()
    assert (row["verdict"], row["finalized_level"], row["target"]) == ("UNKNOWN", None, None)
    [plan] = judged.plans.to_pylist()
    assert plan["steps"] == []
    found = {f["code"]: f["detail"] for f in judged.findings.to_pylist()}
    said = found["features_node_damaged"]
    if generation is not OLD:
        assert f"cut to 16 bits and read as {cut}." in said
        assert "exit status 1" in said
    if generation in (OLD, None):  # they cut first, so the range rule sees it
        assert "epoch -1" in said
    if generation is None:
        assert said.endswith(
            "2.7 to 3.2: caches are cleared (epoch -1), the next update loses all other levels, "
            "and from the next election on there is no controller; 3.3 to 3.9: every broker that "
            "does not support the level stops, exit status 1."
        )


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(("level", "cut"), [(65537, 1), (65539, 3), (-65533, 3)])
def test_a_level_is_what_16_bits_leave_of_it(
    level: int, cut: int, generation: Generation | None
) -> None:
    judged = judged_with(content(1, level), generation)
    [row] = judged.readiness.to_pylist()
    if level > 0:
        assert row["finalized_level"] == cut
        assert row["verdict"] == ("UP_TO_DATE" if cut == 3 else "READY")
    elif generation is OLD:  # 3.3 and later look before they cut
        assert row["finalized_level"] == cut
    else:
        assert row["verdict"] == "UNKNOWN"


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(("least", "level"), [(3, 65537), (65536, 3), (2, 1), (0, 3)])
def test_a_minimum_level_counts_as_each_generation_reads_it(
    least: int, level: int, generation: Generation | None
) -> None:
    [row] = judged_with(content(1, level, least), generation).readiness.to_pylist()
    # 2.7 to 3.2 cut both and then compare them; 3.3 and later compare first.
    if generation in (None, OLD) or least > level or least < 1:
        assert (row["verdict"], row["finalized_level"]) == ("UNKNOWN", None)
    else:
        assert row["finalized_level"] == 1


@pytest.mark.parametrize("schema", [1, 2])
def test_what_a_node_that_is_off_holds_is_not_looked_at(schema: int) -> None:
    text = content(schema, 65536).replace('"status": 1', '"status": 0')
    judged = judged_with(text, NEW)
    assert "system_off" in judged.findings["code"].to_pylist()
    assert [row["verdict"] for row in judged.readiness.to_pylist()] == ["BLOCKED"]


def test_an_expected_cluster_of_which_nothing_landed_is_unknown() -> None:
    batch = snapshot({"z": []})
    conditions = Conditions(as_of=microseconds(AS_OF), max_age=MAX_AGE)
    judged = judge(batch, conditions, load_catalogue(), load_dialect("strict"))
    assert judged.findings["code"].to_pylist() == ["cluster_not_landed"]
    assert judged.plans["verdict"].to_pylist() == ["UNKNOWN"]
