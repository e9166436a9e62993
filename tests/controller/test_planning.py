"""From a look at a cluster to a plan: upgrade-all is the nightly's, the rest all or nothing."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from featurelib.audit.cluster_view import ClusterView
from featurelib.config.fleet import Fleet
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.core.dry_run import judge_again
from featurelib.feature import METADATA_VERSION
from featurelib.model import Plan
from featurelib.planning import files
from featurelib.planning.goal import Command, Intent
from featurelib.planning.outlook import with_texts
from featurelib.planning.planner import Planned, make_plan, mode_of
from featurelib.planning.requirements import Guarding, features_of, require
from tests.core.lines import (
    AS_OF,
    MAX_AGE,
    judge_clusters,
    lines_of,
    microseconds,
    with_features,
)
from tests.core.oracle import Cluster, Node
from tests.core.random_clusters import RELEASES, kraft, zookeeper
from tests.core.scale import some
from tests.report.samples import CATALOGUE, HOURS_72, SAMPLES, judge_samples, read_samples
from tests.seeing import see

ELR, GROUP, SHARE = "eligible.leader.replicas.version", "group.version", "share.version"
STREAMS, TRANSACTION = "streams.version", "transaction.version"
UPGRADE_ALL = Intent(command=Command.UPGRADE_ALL)
MID_ROLL = SAMPLES.parent / "mid_roll" / "landing.jsonl"
CASES = max(500, some(500))  # fewer draw no cluster that a plan can be made for
NAMES = sorted(path.parent.name for path in SAMPLES.glob("*/landing.jsonl"))
Moves = dict[str, tuple[int, int]]


@cache
def sample(name: str) -> ClusterView:
    """One sample as the nightly sees it."""
    lines = (SAMPLES / name / "landing.jsonl").read_bytes().splitlines()
    newest = read_samples().newest
    return see(lines, catalogue=CATALOGUE, as_of=newest, max_age=HOURS_72)


def plan(name: str, command: Command, **asked: object) -> Planned:
    return make_plan(sample(name), Intent(command=command, **asked), CATALOGUE)  # type: ignore[arg-type]


def meaning_of(planned: Planned) -> Plan:
    assert planned.plan is not None, planned.refusals
    assert files.read_plan(files.write_plan(planned.plan), "x").plan == planned.plan
    return planned.plan


def sent(planned: Planned) -> list[Moves]:
    steps = meaning_of(planned).steps
    return [{u.feature: (u.from_level, u.to_level) for u in step.updates} for step in steps]


def codes(planned: Planned) -> set[tuple[str, str, str]]:
    """Who refuses which feature by what; a refused plan has no meaning and always says why."""
    assert planned.plan is None
    assert all(reason.message and reason.code for reason in planned.refusals)
    return {(reason.judge, reason.feature, reason.code) for reason in planned.refusals}


# --- upgrade-all is the nightly's -----------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_upgrade_all_of_a_sample_is_the_nightly_s_plan(name: str) -> None:
    plans = with_texts(judge_samples(), dialect="strict", catalogue=CATALOGUE)
    texts = dict(zip(plans["cluster"].to_pylist(), plans["plan"].to_pylist(), strict=True))
    text = texts[sample(name).cluster_id]
    planned = make_plan(sample(name), UPGRADE_ALL, CATALOGUE)
    if text is None:
        assert planned.plan is None
    else:
        night = files.read_plan(text, name)
        assert meaning_of(planned) == night.plan
        assert files.digest(meaning_of(planned)) == night.digest


def test_what_somebody_else_finalizes_is_in_neither_plan() -> None:
    ids = [sample(name).cluster_id for name in NAMES]
    entries = {one: Entry(id=one, managed_by="strimzi") for one in ids}
    guarding = Guarding(require_signature=False, managed=entries)
    plans = with_texts(judge_samples(), dialect="strict", catalogue=CATALOGUE, guarding=guarding)
    texts = dict(zip(plans["cluster"].to_pylist(), plans["plan"].to_pylist(), strict=True))
    left = Counter[str]()
    for name in NAMES:
        one = sample(name)
        planned = make_plan(one, UPGRADE_ALL, CATALOGUE, guards=guarding.of(one.cluster_id))
        text = texts[one.cluster_id]
        assert planned.plan == (None if text is None else files.read_plan(text, name).plan)
        moved = {move.feature for move in planned.plan.moves} if planned.plan else set()
        assert "metadata.version" not in moved
        left["theirs"] += len(planned.shares.theirs)
        left["ours"] += planned.plan is not None
        left["theirs alone"] += planned.plan is None and bool(planned.shares.theirs)
    assert min(left.values()) > 0, left


@pytest.mark.no_cover
def test_upgrade_all_of_a_random_cluster_is_the_nightly_s_plan() -> None:
    seen = Counter[str]()

    @settings(max_examples=CASES, derandomize=True, deadline=None, database=None)
    @given(st.one_of(kraft(), zookeeper()))
    def check(cluster: Cluster) -> None:
        lines = lines_of(cluster)
        assume(lines)
        judged = judge_clusters(cluster)
        [night] = with_texts(judged, dialect="strict", catalogue=CATALOGUE)["plan"].to_pylist()
        sight = see(
            lines,
            catalogue=CATALOGUE,
            as_of=microseconds(AS_OF),
            max_age=MAX_AGE,
            fleet=fleet_of(cluster),
        )
        planned = make_plan(sight, UPGRADE_ALL, CATALOGUE)
        if planned.plan is None:
            assert night is None
            seen["refused" if planned.refusals else "nothing to do"] += 1
        else:
            assert planned.plan == files.read_plan(night, "x").plan
            seen["planned"] += 1

    check()
    assert min(seen[what] for what in ("planned", "refused", "nothing to do")) > CASES / 60, seen


@pytest.mark.parametrize(("leader", "spoken"), [(0, "kraft-4.1"), (2, "kraft-4.2")])
def test_in_the_middle_of_a_roll_both_plans_name_the_generation_of_the_active_controller(
    leader: int, spoken: str
) -> None:
    """Controller 2 runs 4.2, all other nodes 4.1. Both generations judge alike; the nightly named
    the newer one, `plan` that of the leader, and their digests differed."""
    text = MID_ROLL.read_text(encoding="utf-8")
    text = text.replace('"leader_id":0', f'"leader_id":{leader}')
    finalized = '"transaction.version","max_version_level":2,"min_version_level":2'
    lines = text.replace(finalized, finalized.replace("2", "1")).encode().splitlines()
    view = see(lines, catalogue=CATALOGUE, as_of=None, max_age=HOURS_72)
    [night] = with_texts(view.judged, dialect="strict", catalogue=CATALOGUE)["plan"].to_pylist()
    assert night is not None
    made = meaning_of(make_plan(view, UPGRADE_ALL, CATALOGUE))
    assert [(move.feature, move.to_level) for move in made.moves] == [(TRANSACTION, 2)]
    assert made.own_dialects == (spoken,)
    assert files.read_plan(night, "x").digest == files.digest(made)


def fleet_of(cluster: Cluster) -> Fleet:
    """The inventory that tests.core.lines.conditions gives a described cluster."""
    entry = Entry(
        id=cluster.name,
        brokers=cluster.expected_brokers,
        registrations_complete=cluster.vouched,
        controllers_complete=cluster.controllers_vouched,
    )
    return Fleet(cluster=(entry,))


def test_every_plan_passes_again_and_requires_what_there_is() -> None:
    for name in NAMES:
        view = sample(name)
        planned = make_plan(view, UPGRADE_ALL, CATALOGUE)
        if planned.plan is None:
            continue
        steps, evidence = planned.plan.steps, view.judged.evidence
        assert evidence is not None
        assert judge_again(view.cluster, view.releases, mode_of(view), steps, CATALOGUE) == ()
        required = require(evidence, 0, features_of(steps), CATALOGUE)
        assert planned.plan.requirements == required


# --- Everybody who may answer is asked ------------------------------------------------------------


def test_any_generation_that_may_answer_can_refuse() -> None:
    """All brokers support geo 4; 2.7 to 3.2 asks for the whole range from its minimum on."""
    assert sample("zk-282-ranges").dialects == ("zk-2.7", "zk-3.3")
    planned = plan("zk-282-ranges", Command.UPGRADE, up={"geo": "4"})
    assert codes(planned) == {("zk-2.7", "geo", "range_unsupported_by_node")}
    told = replace(sample("zk-282-ranges"), releases=("3.9",), dialects=("zk-3.3",))
    alone = make_plan(told, planned.intent, CATALOGUE)
    assert sent(alone) == [{"geo": (0, 4)}]


def test_the_careful_way_is_taken_where_one_of_them_is_not() -> None:
    ranges = RELEASES["4.1"]
    nodes = tuple(
        Node(node_id=node_id, role=role, ranges=ranges, levels={METADATA_VERSION: 20}, epoch=9)
        for node_id, role in ((1, "controller"), (2, "broker"))
    )
    described = Cluster(name="c", nodes=nodes, voters=(1,), stored={METADATA_VERSION: 20})
    own = with_features(f=2)
    view = see(lines_of(described), catalogue=own, as_of=None, max_age=HOURS_72)
    intent = Intent(command=Command.UPGRADE, up={METADATA_VERSION: "21", TRANSACTION: "1"})
    together = {METADATA_VERSION: (20, 21), TRANSACTION: (0, 1)}
    assert sent(make_plan(view, intent, own)) == [together]
    either = replace(view, releases=("4.1", "3.9"), dialects=("kraft-3.9", "kraft-4.1"))
    apart = [{name: ends} for name, ends in together.items()]
    assert sent(make_plan(either, intent, own)) == apart


def test_whom_the_likeliest_generation_stands_for_is_asked_too() -> None:
    """2.7 to 3.2 lower a level under any flag, 3.3 and later under SAFE_DOWNGRADE only."""
    view = sample("zk-roll-282-332")
    wide = replace(view.cluster, finalized={"search.index": (1, 4), "tiering": (1, 2)})
    intent = Intent(command=Command.DOWNGRADE, down={"tiering": "1"}, unsafe=True)
    planned = make_plan(replace(view, cluster=wide), intent, CATALOGUE)
    assert codes(planned) == {("zk-3.3", "tiering", "downgrade_without_safe_type")}


def test_without_a_release_nobody_knows_what_controllers_answer() -> None:
    view = replace(sample("k41-forgotten"), releases=(), dialects=())
    intent = Intent(command=Command.UPGRADE, up={METADATA_VERSION: "21"})
    assert codes(make_plan(view, intent, CATALOGUE)) == {("strict", "", "release_unknown")}


def test_releases_that_map_otherwise_are_told() -> None:
    view = replace(
        sample("k41-forgotten"), releases=("4.1", "4.0"), dialects=("kraft-4.0", "kraft-4.1")
    )
    latest = make_plan(view, Intent(command=Command.UPGRADE), CATALOGUE)
    assert any("4.0 would map them otherwise" in warning for warning in latest.warnings)
    exact = make_plan(view, Intent(command=Command.UPGRADE, up={GROUP: "1"}), CATALOGUE)
    assert not any("map them" in warning for warning in exact.warnings)


# --- What is not known ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (Command.UPGRADE, {"up": {SHARE: "1"}}),
        (Command.DOWNGRADE, {"down": {METADATA_VERSION: "26"}}),
        (Command.DISABLE, {"delete": (GROUP,)}),
        (Command.DOWNGRADE_ALL, {"release_version": "4.0"}),
    ],
)
def test_nothing_is_planned_over_missing_evidence(
    command: Command, asked: dict[str, object]
) -> None:
    planned = plan("rollback-too-late", command, **asked)
    assert codes(planned) == {("evidence", "", "node_not_answering")}
    assert "Controller 1 did not respond" in planned.refusals[0].message
    assert planned.refusals[0].action.startswith("First check the address")


def test_evidence_that_is_too_old_refuses() -> None:
    lines = (SAMPLES / "k42-dynamic" / "landing.jsonl").read_bytes().splitlines()
    later = read_samples().newest + 2 * HOURS_72
    view = see(lines, catalogue=CATALOGUE, as_of=later, max_age=HOURS_72)
    intent = Intent(command=Command.DISABLE, delete=(GROUP,))
    found = codes(make_plan(view, intent, CATALOGUE))
    assert {("evidence", "", "evidence_too_old"), ("evidence", "", "levels_too_old")} <= found


def test_a_metadata_version_that_witnesses_disagree_about_holds_every_level() -> None:
    def other(line: bytes) -> bytes:
        document = json.loads(line)
        if document["kind"] == "api_versions" and document["node_id"] == 3:
            (entry,) = document["finalized_features"]
            entry["max_version_level"] = entry["min_version_level"] = 20
        return json.dumps(document).encode()

    lines = (SAMPLES / "mixed-42-39" / "landing.jsonl").read_bytes().splitlines()
    view = see(map(other, lines), catalogue=CATALOGUE, as_of=None, max_age=HOURS_72)
    unsure = {("evidence", METADATA_VERSION, "witnesses_disagree")}
    # Broker 3 does not know group.version, whatever is finalized.
    refused = {(judge, GROUP, "unsupported_by_node") for judge in ("strict", "kraft-4.2")}
    for intent, told in (
        (Intent(command=Command.UPGRADE, up={GROUP: "1"}), unsure | refused),
        (Intent(command=Command.UPGRADE, up={METADATA_VERSION: "22"}), unsure),
        (Intent(command=Command.DOWNGRADE, down={METADATA_VERSION: "20"}), unsure),
    ):
        planned = make_plan(view, intent, CATALOGUE)
        if planned.goal.moves:
            assert codes(planned) == told
        else:
            assert planned.plan is None
            assert not planned.goal.faults


# --- Each command ---------------------------------------------------------------------------------


def test_a_downgrade_that_loses_metadata_is_refused_in_every_controller_s_words() -> None:
    safe = plan("k42-dynamic", Command.DOWNGRADE, down={METADATA_VERSION: "3.9"})
    assert codes(safe) == {
        ("strict", METADATA_VERSION, "lossy_safe_downgrade"),
        ("strict", METADATA_VERSION, "dependant_broken"),
        ("kraft-4.1", METADATA_VERSION, "lossy_safe_downgrade"),
        ("kraft-4.2", METADATA_VERSION, "lossy_safe_downgrade"),
    }
    assert safe.warnings == (
        "metadata.version 3.9-IV0 may lose what 4.0-IV1 brought: eligible leader replicas "
        "(KIP-966).",
    )
    unsafe = plan("k42-dynamic", Command.DOWNGRADE, down={METADATA_VERSION: "3.9"}, unsafe=True)
    assert ("kraft-4.2", METADATA_VERSION, "lossy_unsafe_downgrade") in codes(unsafe)
