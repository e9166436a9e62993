"""The core equals a slow plain validator that was written from the texts."""

from __future__ import annotations

from hypothesis import given, settings

from featurelib.audit.audit import Judged
from tests.core.lines import DEPENDING, judge_clusters
from tests.core.oracle import Answer, Cluster, Judgement, Node, judge
from tests.core.random_clusters import clusters

# What is missing, as finding codes whose place is a node, a feature, or the whole cluster.
OF_CLUSTERS = {"mode_unknown", "voters_unknown", "registrations_unproven", "levels_too_old"}
OF_CLUSTERS |= {"no_trustworthy_witness", "no_node_to_ask", "release_unknown", "right_missing"}
OF_CLUSTERS |= {"features_node_damaged", "features_node_ambiguous", "configured_voters_unknown"}
OF_CLUSTERS |= {"features_node_deleted", "features_node_absent"}
OF_NODES = {"node_not_asked", "node_not_answering", "range_unknown", "evidence_too_old"}
OF_NODES |= {"expected_node_missing"}
OF_FEATURES = {"witnesses_disagree", "level_newer_than_catalogue", "level_unknown"}
OF_FEATURES |= {"feature_not_catalogued"}


def said_by_core(judged: Judged, cluster: Cluster) -> Judgement:
    """What the judged tables say of one cluster, in the oracle's words."""
    rows = [r for r in judged.readiness.to_pylist() if r["cluster"] == cluster.name]
    found = [f for f in judged.findings.to_pylist() if f["cluster"] == cluster.name]
    unfit = [r for r in judged.incompatible.to_pylist() if r["cluster"] == cluster.name]
    features = {}
    for row in rows:
        name = row["feature"]
        features[name] = Answer(
            verdict=row["verdict"],
            level=row["finalized_level"],
            target=row["target"],
            ceiling=row["ceiling"],
            available=row["available"],
            offenders=frozenset(
                (f["role"], f["node_id"])
                for f in found
                if f["code"] == "unsupported_by_node" and f["feature"] == name
            ),
            incompatible=frozenset(
                (r["role"], r["node_id"]) for r in unfit if r["feature"] == name
            ),
        )
    unknown: set[tuple[str, object]] = set()
    for finding in found:
        code, who = finding["code"], (finding["role"], finding["node_id"])
        if code in OF_CLUSTERS:
            unknown.add((code, ""))
        elif code in OF_NODES:
            unknown.add((code, who))
        elif code in OF_FEATURES:
            unknown.add((code, finding["feature"]))
        elif code == "partial_answer":
            unknown.add((code, (who, finding["feature"])))
    return Judgement(features=features, unknown=frozenset(unknown))


@settings(max_examples=150, derandomize=True, deadline=None, database=None)
@given(clusters())
def test_the_core_says_what_the_oracle_says(some: list[Cluster]) -> None:
    judged = judge_clusters(*some, catalogue=DEPENDING)
    for cluster in some:
        core, oracle = said_by_core(judged, cluster), judge(cluster)
        if cluster.zookeeper and cluster.kraft:  # what counts of a migration: test_migration.py
            assert all(answer.verdict != "READY" for answer in core.features.values())
            continue
        assert core.unknown == oracle.unknown, cluster
        assert core.features == oracle.features, cluster


def test_a_broker_without_features_that_lists_none_later_keeps_its_range() -> None:
    """Its registration of two hours ago and its newest response say the same."""
    broker = Node(node_id=1, ranges={}, says_nothing=True)
    cluster = Cluster(name="old", zookeeper=True, registry_age=2, nodes=(broker,), stored={"f": 1})
    assert ("range_unknown", broker.who) not in judge(cluster).unknown
    judged = judge_clusters(cluster, catalogue=DEPENDING)
    assert said_by_core(judged, cluster) == judge(cluster)
