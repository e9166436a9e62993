"""READY needs the strict policy and the cluster's own dialect, whichever it may be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions, Expected
from featurelib.catalogue import load as load_catalogue
from featurelib.catalogue import with_overlay
from featurelib.core.dialect import load as load_dialect
from tests.core.lines import (
    AS_OF,
    MAX_AGE,
    judge_clusters,
    line_of,
    lines_of,
    microseconds,
    snapshot,
)
from tests.core.oracle import METADATA, Cluster, Node
from tests.core.random_clusters import RELEASES

NAME = "zk-cluster"
# One broker starts at 1, the other at 2: only 3.3 and later ask for the level alone.
UNEVEN = {1: {"f": (1, 5)}, 2: {"f": (2, 5)}}


def znode(path: str, data: dict[str, Any] | None, version: int = 0) -> bytes:
    text = None if data is None else json.dumps(data)
    keys = {"path": path, "version": version, "data": text, "czxid": 7}
    return line_of("znode", NAME, 1, **keys)


def zookeeper(
    brokers: dict[int, dict[str, tuple[int, int]]], *, controller: int | None, schema: int = 1
) -> list[bytes]:
    lines = [znode("/feature", {"version": schema, "status": 1, "features": {}}, 3)]
    for node_id, ranges in brokers.items():
        features = {n: {"min_version": a, "max_version": b} for n, (a, b) in ranges.items()}
        lines.append(znode(f"/brokers/ids/{node_id}", {"version": 5, "features": features}))
    if controller is not None:
        lines.append(znode("/controller", {"version": 1, "brokerid": controller}))
    return lines


def audit(lines: list[bytes], release: str = "") -> Judged:
    conditions = Conditions(
        as_of=microseconds(AS_OF),
        max_age=MAX_AGE,
        inventory={NAME: Expected(release=release)},
    )
    batch = snapshot({NAME: lines})
    return judge(batch, conditions, load_catalogue(), load_dialect("strict"))


def verdict(judged: Judged, feature: str = "f") -> tuple[str, int | None]:
    [row] = [row for row in judged.readiness.to_pylist() if row["feature"] == feature]
    return row["verdict"], row["target"]


def codes(judged: Judged) -> set[str]:
    return set(judged.findings["code"].to_pylist())


def test_the_worst_answer_of_all_generations_that_fit_counts() -> None:
    judged = audit(zookeeper(UNEVEN, controller=1))
    assert verdict(judged) == ("BLOCKED", None)
    assert codes(judged) == {"refused_by_own_controller", "generation_ambiguous"}
    [row] = judged.readiness.to_pylist()
    assert row["blockers"] == 1


@pytest.mark.parametrize(
    ("release", "expected"), [("2.8", ("BLOCKED", None)), ("3.9.2", ("READY", 5))]
)
def test_a_release_the_owner_names_settles_it(
    release: str, expected: tuple[str, int | None]
) -> None:
    judged = audit(zookeeper(UNEVEN, controller=1), release)
    assert verdict(judged) == expected
    assert "generation_ambiguous" not in codes(judged)


def test_only_3_3_and_later_write_schema_2() -> None:
    judged = audit(zookeeper(UNEVEN, controller=1, schema=2))
    assert verdict(judged) == ("READY", 5)
    assert codes(judged) == set()


@pytest.mark.parametrize(
    ("controller", "expected"),
    [(2, ("READY", 5)), (None, ("BLOCKED", None)), (9, ("BLOCKED", None))],
)
def test_the_active_controller_alone_is_asked_where_it_is_known(
    controller: int | None, expected: tuple[str, int | None]
) -> None:
    assert verdict(audit(zookeeper(UNEVEN, controller=controller), "2.8")) == expected


def answer(node_id: int, *, epoch: int, age: int = 0) -> bytes:
    keys = {"role": "broker", "endpoint": f"127.0.0.1:{9000 + node_id}", "error_code": 0}
    keys |= {"asked_version": 3, "answered_version": 3, "supported_features": []}
    keys |= {"finalized_features_epoch": epoch, "finalized_features": []}
    return line_of("api_versions", NAME, age, node_id=node_id, **keys)


EVEN = {1: {"f": (1, 5)}, 2: {"f": (1, 5)}}


@pytest.mark.parametrize(
    ("controller", "blind", "age", "expected"),
    [
        (1, 1, 0, "BLOCKED"),
        (1, 2, 0, "READY"),  # it would never see the new level, and it asks nobody
        (None, 2, 0, "BLOCKED"),  # it may be the controller
        (9, 2, 0, "BLOCKED"),
        (1, 1, 2, "READY"),  # it answered before the node was read
    ],
)
def test_a_controller_that_does_not_see_the_features_node_may_not_be_asked(
    controller: int | None, blind: int, age: int, expected: str
) -> None:
    """It writes back what it saw last, and then answers 96."""
    answers = [answer(n, epoch=-1 if n == blind else 5, age=age) for n in EVEN]
    judged = audit([*zookeeper(EVEN, controller=controller), *answers])
    assert verdict(judged) == (expected, 5 if expected == "READY" else None)
    found = [f for f in judged.findings.to_pylist() if f["code"] == "fails_after_writing"]
    [plan] = judged.plans.to_pylist()
    [row] = judged.readiness.to_pylist()
    if expected == "READY":
        assert found == []
    else:
        [finding] = found
        assert (finding["role"], finding["node_id"]) == ("broker", blind)
        assert (finding["feature"], finding["level"], finding["finalized_level"]) == ("f", 5, 0)
        assert (row["blockers"], plan["steps"]) == (1, [])


def test_what_only_the_system_s_being_off_hides_is_no_blindness() -> None:
    lines = zookeeper(EVEN, controller=1)[1:]
    lines.append(znode("/feature", {"version": 1, "status": 0, "features": {}}, 3))
    judged = audit([*lines, answer(1, epoch=-1)])
    assert "fails_after_writing" not in codes(judged)
    assert verdict(judged) == ("BLOCKED", None)


@pytest.mark.parametrize(("release", "expected"), [("", "UNKNOWN"), ("3.9", "READY")])
def test_a_cluster_whose_release_nothing_tells_is_never_ready(release: str, expected: str) -> None:
    """No release ends at metadata.version 6."""
    node = Node(node_id=1, ranges={METADATA: (1, 6), "f": (1, 3)}, levels={METADATA: 6}, epoch=9)
    controller = Node(node_id=11, role="controller", ranges=node.ranges)
    cluster = Cluster(name=NAME, nodes=(node, controller), voters=(11,), stored={METADATA: 6})
    judged = audit(lines_of(cluster), release)
    assert verdict(judged)[0] == expected
    assert verdict(judged, METADATA)[0] == "UP_TO_DATE"
    assert ("release_unknown" in codes(judged)) == (expected == "UNKNOWN")
    [plan] = judged.plans.to_pylist()
    assert (plan["steps"] == []) == (plan["dialects"] == []) == (expected == "UNKNOWN")
    rows = {row["feature"]: row["unknowns"] for row in judged.readiness.to_pylist()}
    assert rows == {"f": 1 if expected == "UNKNOWN" else 0, METADATA: 0}


@pytest.mark.parametrize(
    ("release", "target"),
    [("3.9.1", 23), ("3.7", 20), ("", 25)],  # the last levels that they have heard of
)
def test_a_level_is_lowered_until_whoever_may_answer_takes_it(release: str, target: int) -> None:
    node = Node(node_id=1, ranges=RELEASES["4.0"], levels={METADATA: 17}, epoch=900)
    controller = Node(node_id=11, role="controller", ranges=node.ranges)
    cluster = Cluster(name=NAME, nodes=(node, controller), voters=(11,), stored={METADATA: 17})
    judged = audit(lines_of(cluster), release)
    assert verdict(judged, METADATA) == ("READY", target)
    assert ("refused_by_own_controller" in codes(judged)) == bool(release)


@pytest.mark.parametrize(
    ("release", "dialect", "requests"), [("4.2", "kraft-4.2", [1, 1, 1]), ("3.9", "kraft-3.9", [1])]
)
def test_what_is_all_or_nothing_goes_in_one_request(
    release: str, dialect: str, requests: list[int]
) -> None:
    ranges = RELEASES[release]
    nodes = (
        Node(node_id=1, ranges=ranges, levels={METADATA: 17}, epoch=900),
        Node(node_id=11, role="controller", ranges=ranges),
    )
    stored = {METADATA: 17}
    judged = judge_clusters(Cluster(name="c", nodes=nodes, voters=(11,), stored=stored))
    [plan] = judged.plans.to_pylist()
    assert dialect in plan["dialects"]
    assert [step["request"] for step in plan["steps"]][: len(requests)] == requests


def test_where_older_controllers_may_answer_each_feature_goes_alone() -> None:
    even = {1: {"f": (1, 5), "g": (1, 3)}, 2: {"f": (1, 5), "g": (1, 3)}}
    [plan] = audit(zookeeper(even, controller=1), "3.9").plans.to_pylist()
    assert plan["dialects"] == ["zk-3.3"]
    assert [step["request"] for step in plan["steps"]] == [1, 2]


ACME = """
[[release]]
release = "4.1-acme"
based_on = "4.1"
oldest_metadata_version = 7
oldest_bootstrap = 7
newest_stable = 27
newest_unstable = 29
[[feature_level]]
feature = "acme.version"
level = 0
default_from = "3.3-IV3"
stable_since = "4.1-acme"
[[feature_level]]
feature = "acme.version"
level = 1
default_from = "4.1-IV1"
dependency = "metadata.version=26"
stable_since = "4.1-acme"
[[release_feature]]
release = "4.1-acme"
feature = "acme.version"
newest_stable = 1
newest_unstable = 1
"""


def test_a_vendor_s_build_answers_as_the_release_it_is_made_from() -> None:
    catalogue = with_overlay(load_catalogue(), ACME, "acme.toml")
    ranges = {METADATA: (7, 27), "acme.version": (0, 1)}
    nodes = (
        Node(node_id=1, ranges=ranges, levels={METADATA: 25}, epoch=900),
        Node(node_id=11, role="controller", ranges=ranges),
    )
    cluster = Cluster(name="c", nodes=nodes, voters=(11,), stored={METADATA: 25})
    conditions = Conditions(
        as_of=microseconds(AS_OF),
        max_age=MAX_AGE,
        inventory={"c": Expected(release="4.1-acme")},
    )
    batch = snapshot({"c": lines_of(cluster)})
    judged = judge(batch, conditions, catalogue, load_dialect("strict"))
    [plan] = judged.plans.to_pylist()
    assert "kraft-4.1" in plan["dialects"]
    assert {(s["request"], s["feature"], s["to_level"]) for s in plan["steps"]} == {
        (1, METADATA, 27),
        (1, "acme.version", 1),
    }


def test_the_finding_names_the_rule_and_the_nodes_behind_it() -> None:
    uneven = {1: {"f": (1, 5)}, 2: {"f": (2, 5)}, 3: {"f": (2, 5)}}
    judged = audit(zookeeper(uneven, controller=1), "2.8")
    [row] = [r for r in judged.findings.to_pylist() if r["code"] == "refused_by_own_controller"][:1]
    title = load_dialect("zk-2.7").title
    who = "nodes 2, 3 support 2-5, and must support 1-5"
    assert row["detail"] == f"range_unsupported_by_node of {title}: {who}"


NEWER = """
[[metadata_version]]
level = 35
name = "4.5-IV1"
release = "4.5"
loses_metadata_below = false
[[release]]
release = "4.5"
oldest_metadata_version = 7
oldest_bootstrap = 7
newest_stable = 35
newest_unstable = 35
"""


def test_a_release_newer_than_every_table_is_asked_as_the_newest() -> None:
    catalogue = with_overlay(load_catalogue(), NEWER, "newer.toml")
    ranges = {METADATA: (7, 35)}
    nodes = (
        Node(node_id=1, ranges=ranges, levels={METADATA: 33}, epoch=900),
        Node(node_id=11, role="controller", ranges=ranges),
    )
    cluster = Cluster(name="c", nodes=nodes, voters=(11,), stored={METADATA: 33})
    conditions = Conditions(as_of=microseconds(AS_OF), max_age=MAX_AGE)
    batch = snapshot({"c": lines_of(cluster)})
    [plan] = judge(batch, conditions, catalogue, load_dialect("strict")).plans.to_pylist()
    assert plan["dialects"] == ["kraft-4.2"]
    assert [step["to_level"] for step in plan["steps"]] == [35]
