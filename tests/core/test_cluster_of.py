"""One cluster of a batch as plain values: what recorded controllers and the audit say of it."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from featurelib.audit.cluster_view import PlainCluster
from featurelib.audit.evidence import Conditions, Evidence, read
from featurelib.core.cluster import Cluster, Node, Request, Update
from featurelib.core.dialect import STRICT, generation_of, load
from featurelib.core.dry_run import answer, refused_by
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role
from featurelib.model import Move
from featurelib.planning.planner import Router
from tests.core import lines as landing
from tests.core import oracle, scale
from tests.core.random_clusters import clusters, with_changes
from tests.core.test_agreement import answer as said_of_levels
from tests.core.test_agreement import zookeeper
from tests.report.samples import CATALOGUE, HOURS_72, judge_samples, read_samples
from tests.rows import some

RECORDED = Path(__file__).parent / "data" / "sample_requests.csv"
BATCH, NAMES = read_samples().batch, read_samples().names
POSITION = {name: i for i, name in enumerate(NAMES.values())}


# The policy lets it pass, the controller does not.
OWN = {"refused_by_own_controller", "fails_after_writing"}
CONDITIONS = Conditions(as_of=read_samples().newest, max_age=HOURS_72)


@cache
def sampled(name: str, told: str = "") -> PlainCluster:
    """A sample as plain values; `told` is the release the inventory names."""
    alone = read(some(BATCH, POSITION[name]), CONDITIONS, absent_metadata=1)
    return PlainCluster(alone, told, CATALOGUE)


def sample(name: str, told: str = "") -> Cluster:
    return sampled(name, told).cluster()


def releases_of(name: str, told: str = "") -> tuple[str, ...]:
    """The releases a sample's controllers may run."""
    return sampled(name, told).releases


def node(cluster: Cluster, role: Role, node_id: int) -> Node:
    return next(n for n in cluster.nodes if (n.role, n.node_id) == (role, node_id))


def first_of(evidence: Evidence) -> Cluster:
    """The first cluster of a batch of which the inventory names no release."""
    return PlainCluster(evidence, "", CATALOGUE).cluster()


def seen(*described: oracle.Cluster) -> Evidence:
    rows = landing.snapshot({c.name: landing.lines_of(c) for c in described})
    return read(rows, landing.conditions(described), absent_metadata=1)


def recorded() -> list[dict[str, str]]:
    return list(csv.DictReader(RECORDED.read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize("row", recorded(), ids=lambda row: f"{row['sample']} {row['level']}")
def test_the_plain_value_answers_as_the_recorded_controller(row: dict[str, str]) -> None:
    update = Update(feature=row["feature"], level=int(row["level"]), kind=int(row["kind"]))
    request = Request(updates=(update,), version=1, validate_only=True)
    releases = releases_of(row["sample"])
    assert releases[0] == sample(row["sample"]).release
    for release in releases:
        cluster = replace(sample(row["sample"]), release=release)
        own = load(generation_of(release, "kraft"))
        reply = answer(cluster, request, own, CATALOGUE.tables).reply
        said = [(str(r.code), str(r.message or "null")) for r in reply.results or ()]
        told = [(row["result_code"], row["result_message"])] if row["result_code"] else []
        message = "null" if reply.message is None else reply.message
        assert (str(reply.code), message, said) == (row["code"], row["message"], told)


def test_the_request_that_moved_kraft_version_is_refused_as_recorded_and_moves_it() -> None:
    """`kafka-features upgrade --release-version 4.2` of 4.2.1, with one 4.0.1 broker."""
    after = sample("kraft-moved-by-refused-cli")
    assert after.finalized[KRAFT_VERSION] == (1, 1)
    levels = {n: ends for n, ends in after.finalized.items() if n != KRAFT_VERSION}
    before = replace(after, finalized=levels, raft_level=0)
    wanted = CATALOGUE.of("4.2").defaults(29)
    request = Request(
        version=2, updates=tuple(Update(feature=n, level=level) for n, level in wanted.items())
    )
    found = answer(before, request, load("kraft-4.2"), CATALOGUE.tables)
    assert found.reply.message == (
        "The update failed for all features since the following feature had an error: Invalid "
        "update version 29 for feature metadata.version. Broker 2 only supports versions 7-25"
    )
    assert (found.after.finalized, found.writes) == (after.finalized, False)
    dry = answer(before, replace(request, validate_only=True), load("kraft-4.2"), CATALOGUE.tables)
    assert (dry.reply.message, dry.after.finalized) == (found.reply.message, levels)


def test_where_two_releases_look_alike_the_stable_one_is_likelier_unless_it_is_told() -> None:
    assert releases_of("k42-dynamic") == ("4.2", "4.1")
    assert releases_of("k42-dynamic", "4.1.2") == ("4.1.2",)
    told = sample("k42-dynamic", "4.1.2")
    assert (told.release, told.nodes[0].release) == ("4.1.2", "4.1.2")
    # A release that the ranges do not fit is one candidate more, and the last one.
    assert releases_of("k42-dynamic", "3.9") == ("4.2", "4.1", "3.9")
    # In ZooKeeper mode a release stands for its generation; one without that mode says nothing.
    assert releases_of("zk-282-ranges") == releases_of("zk-282-ranges", "4.1") == ("3.2", "3.9")
    assert releases_of("zk-282-ranges", "2.8.2") == ("2.8.2",)


def test_zookeeper_mode_keeps_minimums_and_says_who_is_ignored_and_whether_it_is_off() -> None:
    assert sample("zk-282-min-above-one").finalized == {"quiet": (4, 6), "ranked": (2, 5)}
    ignored = sample("zk-282-ignored-broker")
    assert [(n.node_id, n.ignored, n.supported) for n in ignored.nodes] == [
        (1, False, {"search.index": (1, 3)}),
        (2, True, {}),
    ]
    off = sample("zk-282-disabled")
    assert (off.off, off.finalized, off.cached) == (True, {}, {})
    assert (ignored.off, ignored.cached, ignored.node_missing) == (False, None, False)


def test_a_features_node_that_is_gone_is_said_to_be_missing() -> None:
    build = {"f": (1, 3)}
    brokers = tuple(oracle.Node(node_id=n, role="broker", ranges=build) for n in (1, 2))
    gone = oracle.Cluster(name="z", zookeeper=True, nodes=brokers, stored={}, features_node=False)
    cluster = first_of(seen(gone))
    assert (cluster.node_missing, cluster.cached, cluster.finalized) == (True, {}, {})


@pytest.mark.parametrize(
    ("epoch", "age", "status", "blind", "cached"),
    [(-1, 0, 1, True, {}), (3, 0, 1, False, None), (-1, 2, 1, False, None), (-1, 0, 0, False, {})],
)
def test_a_controller_that_knows_no_features_after_their_node_was_read_is_blind(
    epoch: int, age: int, status: int, blind: bool, cached: dict[str, int] | None
) -> None:
    """Not where the system is off: then nobody sees any."""
    lines = zookeeper([{"f": (1, 3)}], 1, said_of_levels(1, epoch=epoch, age=age), status=status)
    rows = landing.snapshot({"z": [line.replace(b'"c"', b'"z"') for line in lines]})
    cluster = first_of(read(rows, landing.conditions([]), absent_metadata=1))
    assert (cluster.active, cluster.off) == (1, status == 0)
    assert (cluster.blind, cluster.cached) == (blind, cached)


NEW = {METADATA_VERSION: (7, 27), KRAFT_VERSION: (0, 1)}


def quorum(**changes: object) -> oracle.Cluster:
    nodes = (
        oracle.Node(node_id=1, role="broker", ranges=NEW, levels={METADATA_VERSION: 25}, epoch=9),
        oracle.Node(node_id=11, role="controller", ranges=NEW),
        oracle.Node(node_id=12, role="controller", ranges=NEW),
    )
    cluster = oracle.Cluster(name="k", nodes=nodes, stored={METADATA_VERSION: 25}, voters=(11, 12))
    return with_changes(cluster, **changes)


def test_a_node_whose_range_nobody_knows_supports_nothing() -> None:
    silent = oracle.Node(
        node_id=2, role="broker", ranges=NEW, answered=None, failed=0, listed=False
    )
    cluster = first_of(seen(quorum(registry="live", nodes=(*quorum().nodes, silent))))
    unknown = node(cluster, Role.BROKER, 2)
    assert (unknown.supported, unknown.running, unknown.release) == ({}, False, "")


@pytest.mark.parametrize(("metadata", "blocks"), [(14, False), (15, True), (21, True)])
def test_no_word_of_an_owner_stands_for_a_voter_that_has_to_be_registered(
    metadata: int, blocks: bool
) -> None:
    """The audit says BLOCKED from 3.7-IV0 on; a plan that left the voter out would be refused."""
    stored = {METADATA_VERSION: metadata}
    broker, controller, _ = quorum().nodes
    nodes = (with_changes(broker, levels=stored), controller)
    described = quorum(nodes=nodes, stored=stored, controllers_vouched=True)
    judged = landing.judge_clusters(described)
    assert judged.evidence is not None
    found = {row["code"] for row in judged.findings.to_pylist()}
    assert "controller_vouched" in found
    assert ("voter_not_registered" in found) == blocks
    ids = {n.node_id for n in first_of(judged.evidence).nodes if n.role is Role.CONTROLLER}
    assert ids == ({11, 12} if blocks else {11})


def test_nobody_is_held_to_a_list_of_controllers_that_was_never_read() -> None:
    unread = first_of(seen(quorum(registry="fenced")))
    assert {n.registered for n in unread.nodes} == {True}
    nodes = [with_changes(n, listed=n.node_id != 12) for n in quorum().nodes]
    listed = first_of(seen(quorum(nodes=tuple(nodes))))
    assert node(listed, Role.CONTROLLER, 12).registered is False
    assert node(listed, Role.CONTROLLER, 11).registered is True


def test_a_feature_that_a_partial_answer_may_have_left_out_is_not_listed() -> None:
    nodes = [with_changes(n, asked_version=3, listed=False) for n in quorum().nodes]
    cluster = first_of(seen(quorum(nodes=tuple(nodes), registry="none")))
    assert node(cluster, Role.BROKER, 1).supported == {METADATA_VERSION: (7, 27)}


def test_a_level_of_kraft_version_that_the_log_disputes_is_only_a_record() -> None:
    """3.9 reports a record of its own; the raft layer of a static quorum stays at 0."""
    said = {METADATA_VERSION: 25, KRAFT_VERSION: 1}
    broker, *controllers = quorum().nodes
    nodes = (with_changes(broker, levels=said, answered=2), *controllers)
    cluster = first_of(seen(quorum(nodes=nodes)))
    assert (cluster.finalized[KRAFT_VERSION], cluster.kraft_record, cluster.raft_level) == (
        (1, 1), 1, 0,
    )  # fmt: skip
    cluster = first_of(seen(quorum(nodes=nodes, stored=said)))
    assert (cluster.kraft_record, cluster.raft_level) == (0, 1)


def test_routes_from_the_plain_value_reach_what_the_audit_calls_ready() -> None:
    rows = judge_samples().readiness.to_pylist()
    for name in POSITION:
        cluster = sample(name)
        moves = [
            Move(
                feature=row["feature"],
                from_level=cluster.level(row["feature"]),
                to_level=row["target"],
                upgrade_type="UPGRADE",
            )
            for row in rows
            if NAMES[row["cluster"]] == name and row["verdict"] == "READY"
        ]
        for own in sampled(name).dialects:
            router = Router(cluster=cluster, dialect=load(own), catalogue=CATALOGUE)
            after = router.route(moves).after
            assert {m.feature: after.level(m.feature) for m in moves} == {
                move.feature: move.to_level for move in moves
            }, (name, own)


@settings(max_examples=scale.some(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(clusters())
def test_the_policy_says_of_the_plain_value_what_the_audit_says_of_the_batch(
    some: list[oracle.Cluster],
) -> None:
    judged = landing.judge_clusters(*some)
    for described in some:
        cluster = first_of(seen(described))
        rows = [r for r in judged.readiness.to_pylist() if r["cluster"] == described.name]
        if any(row["verdict"] == "UNKNOWN" for row in rows):
            continue  # an unknown range supports nothing here; the audit leaves it open
        own = {f["feature"] for f in judged.findings.to_pylist() if f["code"] in OWN}
        ready = {r["feature"]: r["target"] for r in rows if r["verdict"] == "READY"}
        held = [
            ready | {r["feature"]: r["ceiling"]}
            for r in rows
            if r["verdict"] == "BLOCKED" and r["feature"] not in own
        ]
        asked = [levels for levels in (ready, *held) if levels]
        cases = [
            (cluster, Request(updates=tuple(Update(feature=n, level=v) for n, v in one.items())))
            for one in asked
        ]
        if not cases:
            continue
        refused = [bool(codes) for codes in refused_by(cases, load(STRICT), CATALOGUE.tables)]
        assert refused == [levels is not ready for levels in asked], cluster
