"""A look that reached nobody is evidence of its cluster, and of no node: what landed before it is
no verdict any more, until somebody answers."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import msgspec
import pytest

from featurelib.audit.audit import Judged
from featurelib.audit.cluster_view import ClusterView, Inputs
from featurelib.audit.evidence import Expected
from featurelib.audit.findings import FindingWords
from featurelib.errors import NoEvidenceError
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan
from featurelib.questions.describe import describe
from featurelib.snapshot import begin, fold_lines, snapshot_rows
from featurelib.snapshot.state import freeze
from featurelib.words import share_reasons
from tests.core.lines import (
    AS_OF,
    HOUR,
    MAX_AGE,
    NOW,
    at,
    codes,
    findings,
    judge_lines,
    judge_rows,
    landings,
    line_of,
    lines_of,
    metrics_line,
    not_reached_line,
    quorum_line,
    snapshot,
    strimzi_line,
    verdicts,
)
from tests.core.oracle import CONTROLLER, METADATA, Cluster, Node
from tests.core.random_clusters import with_changes
from tests.facts import first_fact
from tests.report.samples import CATALOGUE
from tests.seeing import see

LEVELS: dict[str, Any] = {"levels": {METADATA: 25}, "epoch": 900}
BROKER = Node(node_id=1, ranges={METADATA: (7, 27)}, **LEVELS)
VOTER = Node(node_id=9, role=CONTROLLER, ranges={METADATA: (7, 27)}, **LEVELS)
GOOD = Cluster(name="c", nodes=(BROKER, VOTER), stored={METADATA: 25}, voters=(9,))
ZOOKEEPER = Cluster(
    name="c",
    zookeeper=True,
    nodes=(Node(node_id=1, ranges={"f": (1, 3)}, levels={"f": 1}, epoch=5),),
    stored={"f": 1},
    controller=1,
)
CODE = "cluster_not_reached"
LOST = not_reached_line("c", 0, 60)
BEFORE = not_reached_line("c", 30)
NEVER = line_of("describe_cluster", "c", -1, asked_node=1, listener="broker", error="timed out")
NOT_LEADER = quorum_line("c", (9,), age=-1).replace(b'"error_code": 0', b'"error_code": 6')
SINCE = NEVER.replace(at(-1).encode(), at(0, 60).encode())
READY, UNKNOWN = {METADATA: "READY"}, {METADATA: "UNKNOWN"}


def judged(*more: bytes, of: Cluster = GOOD, **under: Any) -> Judged:
    return judge_lines([*lines_of(of), *more], **under)


def view(*lines: bytes, as_of: int | None = None) -> ClusterView:
    return see(lines, catalogue=CATALOGUE, as_of=as_of, max_age=MAX_AGE)


def test_what_landed_before_is_no_verdict_and_no_node_is_said_not_to_answer() -> None:
    assert (verdicts(judged()), codes(judged())) == (READY, set())
    found = judged(LOST)
    assert (verdicts(found), codes(found)) == (UNKNOWN, {CODE})
    [row] = findings(found, CODE)
    assert (row["severity"], row["role"], row["node_id"], row["feature"]) == (
        "unknown",
        *[None] * 3,
    )
    assert first_fact(row) == "h:9092: connection refused."
    [(_, line_id)] = landings([LOST])
    assert (row["line_id"], row["observed_at"]) == (line_id, AS_OF.replace(minute=1))
    [plan] = found.plans.to_pylist()
    assert (plan["verdict"], plan["steps"]) == ("UNKNOWN", [])
    assert plan["newest_line"] == judged().plans.to_pylist()[0]["newest_line"]  # of evidence


def test_a_login_that_was_refused_is_renewed_first_and_each_reason_is_said_once() -> None:
    whole = 'authentication failed: {"status":"invalid_token"}. Check [cluster.security]'
    said = " · ".join(f"{host}:9092: {whole}" for host in "ab")
    lost = LOST.replace(
        json.dumps("h:9092: expected at least one node to answer, found: connection refused.")[
            1:-1
        ].encode(),
        json.dumps(f"expected at least one node to answer, found: {said}.")[1:-1].encode(),
    )
    [row] = findings(judged(lost), CODE)
    words = FindingWords(CATALOGUE)
    assert first_fact(row) == f"a:9092, b:9092: {whole}."
    assert words.of(row).action.startswith("Renew the token, password or ticket of the collector")
    [row] = findings(judged(LOST), CODE)
    assert words.of(row).action.startswith("Check the address first")


@pytest.mark.parametrize(
    ("text", "once"),
    [
        ("a:1: no · b:1: no · a:1: no", "a:1, b:1: no"),
        ("a:1: no · broker 2: closed: x · b:1: no", "a:1, b:1: no · broker 2: closed: x"),
        ("found: [::1]:9: no · no address · no address", "found: [::1]:9: no · no address"),
    ],
)
def test_who_share_a_reason_are_named_together(text: str, once: str) -> None:
    assert share_reasons(text) == once


def test_a_cluster_in_zookeeper_mode_is_unknown_as_well() -> None:
    assert verdicts(judged(of=ZOOKEEPER)) == {"f": "READY"}
    found = judged(LOST, of=ZOOKEEPER)
    assert (verdicts(found)["f"], codes(found) - codes(judged(of=ZOOKEEPER))) == ("UNKNOWN", {CODE})


def test_a_known_node_that_says_no_blocks_all_the_same() -> None:
    old = Node(node_id=2, ranges={METADATA: (7, 25)}, **LEVELS)
    blocked = with_changes(GOOD, nodes=(BROKER, old, VOTER))
    assert verdicts(judged(LOST, of=blocked)) == {METADATA: "BLOCKED"}


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ((LOST, LOST), UNKNOWN),
        ((LOST, BEFORE), UNKNOWN),
        ((BEFORE,), READY),  # somebody answered since
        ((LOST, metrics_line(1, seconds=30)), READY),  # its processes run: it is one look
        ((LOST, metrics_line(1, seconds=-600)), UNKNOWN),
        ((NEVER,), UNKNOWN),  # one node did not describe the cluster, and nobody answered since
        ((NEVER.replace(b"cluster", b"quorum", 1), LOST), UNKNOWN),
        ((NOT_LEADER,), UNKNOWN),
        ((SINCE,), READY),  # in the look in which others answered
        ((SINCE, LOST), UNKNOWN),
        ((LOST, strimzi_line(age=-1)), UNKNOWN),  # it is Kubernetes that answered
    ],
)
def test_lines_may_come_in_any_order_and_by_night(
    more: tuple[bytes, ...], verdict: dict[str, str]
) -> None:
    lines = lines_of(GOOD)
    halves = (lines[:2], lines[2:], more)
    states = set()
    for nights in permutations(halves):
        state = None
        for night in nights:
            fold = begin(state, CATALOGUE)
            for landing, line_id in landings(night):
                fold.add(landing, line_id)
            fold.close_run()
            known = fold.finish()
            state = freeze(known)
        states.add(state)
        assert verdicts(judge_rows(snapshot_rows([("c", known)]))) == verdict
    assert len(states) == 1


def test_it_counts_from_its_time_on() -> None:
    """As of a time before it, it decides nothing, as any line from the future."""
    later, lines = not_reached_line("c", -2), lines_of(GOOD)
    found = view(*lines, later, as_of=NOW)
    assert verdicts(found.judged) == READY
    assert codes(found.judged) == {"evidence_from_the_future"}
    assert verdicts(view(*lines, later, as_of=NOW + 2 * HOUR).judged) == UNKNOWN
    newest = view(*lines, later)  # as of the newest line, which it is
    assert (newest.newest, verdicts(newest.judged)) == (NOW + 2 * HOUR, UNKNOWN)
    assert describe(newest, CATALOGUE).seen_at == describe(view(*lines), CATALOGUE).seen_at
    known = fold_lines(landings([*lines, later]), CATALOGUE)
    inputs = Inputs(catalogue=CATALOGUE, as_of=NOW, max_age=MAX_AGE)
    assert verdicts(inputs.see(snapshot_rows([("c", known)])).judged) == UNKNOWN  # folded further


def test_no_plan_is_made_of_what_landed_before() -> None:
    up = Intent(command=Command.UPGRADE, up={METADATA: "27"})
    assert make_plan(view(*lines_of(GOOD)), up, CATALOGUE).plan is not None
    planned = make_plan(view(*lines_of(GOOD), LOST), up, CATALOGUE)
    assert planned.plan is None
    assert [reason.code for reason in planned.refusals] == [CODE]


def test_a_cluster_that_never_landed_has_the_reason_beside_it() -> None:
    found = judge_lines([LOST], Expected(brokers=(1,)))
    assert codes(found) == {"cluster_not_landed", CODE}
    [plan] = found.plans.to_pylist()
    assert (plan["verdict"], plan["newest_line"]) == ("UNKNOWN", None)
    with pytest.raises(NoEvidenceError, match="no data was ever collected from this cluster"):
        view(LOST)


def test_it_is_of_its_own_cluster_alone() -> None:
    both = snapshot({"c": [*lines_of(GOOD), LOST], "d": lines_of(with_changes(GOOD, name="d"))})
    rows = {row["cluster"]: row["verdict"] for row in judge_rows(both).readiness.to_pylist()}
    assert rows == {"c": "UNKNOWN", "d": "READY"}


def test_a_state_of_before_is_taken_up() -> None:
    known = fold_lines(landings(lines_of(GOOD)), CATALOGUE)
    older = msgspec.msgpack.encode(msgspec.msgpack.decode(freeze(known))[:-4])
    taken = begin(older, CATALOGUE).finish()  # of a release that kept no levels of before
    assert freeze(taken) == freeze(
        msgspec.structs.replace(known, levels_seen={}, statements=[], quorums=[])
    )


def test_a_description_that_nobody_answered_is_no_evidence_of_the_cluster() -> None:
    """It may be a second after the look that reached nobody, and makes nothing newer."""
    asked = {"asked_node": 1, "listener": "broker", "observed_at": at(0, 61)}
    silence = line_of("describe_cluster", "c", 0, error="timed out", **asked)
    found = judged(LOST, silence)
    assert (verdicts(found), codes(found)) == (UNKNOWN, {CODE})
    refused = line_of("describe_quorum", "c", 0, error="refused", error_code=31, **asked)
    assert CODE not in codes(judged(LOST, refused))  # a code is an answer
