"""A validate-only probe: agreement proves that no registration blocks, a refusal is never READY."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from featurelib.audit.audit import Judged, judge
from featurelib.audit.columns import SKEW
from featurelib.audit.evidence import Conditions
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load as load_dialect
from featurelib.landing import Landing, ProbeAnswer, ProbeReply, Quarantined, read
from featurelib.snapshot import fold_lines
from featurelib.snapshot.state import freeze, thaw
from tests.core.lines import (
    AS_OF,
    HOUR,
    MAX_AGE,
    at,
    judge_rows,
    landings,
    line_of,
    lines_of,
    microseconds,
    snapshot,
)
from tests.core.oracle import METADATA, Cluster, Node

RANGES = {METADATA: (7, 19), "f": (1, 3)}
SAID: dict[str, Any] = {"levels": {METADATA: 14, "f": 1}, "epoch": 900}
NODES = (
    Node(node_id=1, ranges=RANGES, **SAID),
    Node(node_id=9, role="controller", ranges=RANGES, **SAID),
)
UNPROVEN = Cluster(name="c", registry="live", nodes=NODES, voters=(9,))
PROVEN = Cluster(name="c", registry="log", nodes=NODES, voters=(9,), stored=SAID["levels"])
BOTH = {METADATA: (14, 19), "f": (1, 3)}
OK, REFUSED = {"error_code": 0}, {"error_code": 95, "error_message": "Broker 7 does not"}


def probe(
    moves: dict[str, tuple[int, int]] = BOTH, *, age: int = 0, seconds: int = 60, **keys: object
) -> bytes:
    """The line of a probe, by default agreed to and the newest of all lines."""
    updates = [
        {"feature": name, "from_level": low, "to_level": high}
        for name, (low, high) in moves.items()
    ]
    said: dict[str, object] = {"updates": updates} | (keys or {"answer": OK})
    head = {"kind": "probe", "cluster_id": "c", "observed_at": at(age, seconds)}
    return json.dumps(head | said).encode()


def judged(cluster: Cluster, *more: bytes) -> Judged:
    return judge_rows(snapshot({"c": [*lines_of(cluster), *more]}), [cluster])


def verdicts(said: Judged) -> dict[str, str]:
    return {row["feature"]: row["verdict"] for row in said.readiness.to_pylist()}


def found(said: Judged) -> dict[str, dict[str, Any]]:
    return {row["code"]: row for row in said.findings.to_pylist()}


def test_registrations_that_nobody_lists_are_proven_by_a_controller_that_agrees() -> None:
    before = judged(UNPROVEN)
    assert set(verdicts(before).values()) == {"UNKNOWN"}
    assert "registrations_unproven" in found(before)
    line = probe()
    said = judged(UNPROVEN, line)
    assert verdicts(said) == {METADATA: "READY", "f": "READY"}
    assert said.readiness["unknowns"].to_pylist() == [0, 0]
    assert "registrations_unproven" not in found(said)
    row = found(said)["probe_agreed"]
    assert sorted(row["detail"].split(", ")) == ["f 3", f"{METADATA} 19"]
    assert (row["severity"], row["line_id"]) == ("info", landings([line])[0][1])


@pytest.mark.parametrize(
    "line",
    [
        probe({METADATA: (14, 19)}),  # it was asked about one of two
        probe({METADATA: (14, 18), "f": (1, 3)}),  # about another level
        probe({METADATA: (13, 19), "f": (1, 3)}),  # from another level
        probe(error="no answer within 10 s"),
        probe(answer={"error_code": 31, "error_message": "Cluster authorization failed."}),
        probe(answer={"error_code": 0, "results": [{"feature": "f", "error_code": 0}]}),
        probe(age=1, seconds=0),  # something newer landed
    ],
    ids=["less", "lower", "from", "silent", "right", "unmentioned", "older"],
)
def test_anything_less_proves_nothing(line: bytes) -> None:
    said = judged(UNPROVEN, line)
    assert set(verdicts(said).values()) == {"UNKNOWN"}
    assert "registrations_unproven" in found(said)


def test_a_probe_of_a_clock_that_is_too_far_ahead_counts_for_nothing() -> None:
    far = SKEW // 1_000_000
    for ahead, codes in ((far, {"probe_refused"}), (far + 1, set())):
        said = judged(PROVEN, probe(seconds=ahead, answer=REFUSED))
        assert {"probe_refused"} & set(found(said)) == codes
        assert set(verdicts(said).values()) == ({"BLOCKED"} if codes else {"READY"})


def test_a_probe_as_old_as_other_evidence_may_not_be_proves_nothing() -> None:
    batch = snapshot({"c": [*lines_of(UNPROVEN), probe()]})
    when = microseconds(AS_OF) + MAX_AGE + 2 * HOUR
    conditions = Conditions(as_of=when, max_age=MAX_AGE)
    said = judge(batch, conditions, load_catalogue(), load_dialect("strict"))
    assert set(verdicts(said).values()) == {"UNKNOWN"}
    assert "probe_agreed" not in found(said)


def test_what_the_controller_refuses_is_never_ready() -> None:
    assert verdicts(judged(PROVEN)) == {METADATA: "READY", "f": "READY"}
    refused = {"error_code": 0, "results": [
        {"feature": METADATA, **REFUSED}, {"feature": "f", "error_code": 0},
    ]}  # fmt: skip
    said = judged(PROVEN, probe(answer=refused))
    assert verdicts(said) == {METADATA: "BLOCKED", "f": "READY"}
    row = found(said)["probe_refused"]
    assert (row["feature"], row["finalized_level"], row["level"]) == (METADATA, 14, 19)
    assert (row["detail"], row["severity"]) == ("error 95: Broker 7 does not", "blocker")
    blocked = next(r for r in said.readiness.to_pylist() if r["feature"] == METADATA)
    assert (blocked["target"], blocked["blockers"]) == (None, 1)
    steps = said.plans.to_pylist()[0]["steps"]
    assert [step["feature"] for step in steps] == ["f"]


def test_a_request_that_is_refused_as_a_whole_leaves_nothing_ready() -> None:
    for cluster in (PROVEN, UNPROVEN):
        said = judged(cluster, probe(answer=REFUSED))
        assert set(verdicts(said).values()) == {"BLOCKED"}
        assert said.plans["steps"].to_pylist() == [[]]


def test_an_agreement_does_not_stand_in_for_other_evidence() -> None:
    cases = {
        "voters_unknown": Cluster(name="c", registry="live", nodes=NODES),
        "node_not_asked": Cluster(name="c", registry="live", nodes=NODES, voters=(9, 19)),
    }
    for code, cluster in cases.items():
        said = judged(cluster, probe())
        assert set(verdicts(said).values()) == {"UNKNOWN"}
        assert code in found(said)


def test_a_probe_of_a_cluster_that_migrates_counts_for_nothing() -> None:
    znode = line_of("znode", "c", 1, path="/controller", version=1, data='{"brokerid":1}')
    assert judged(PROVEN, znode).findings.equals(judged(PROVEN, znode, probe()).findings)


def test_a_probe_of_zookeeper_mode_counts_for_nothing() -> None:
    brokers = (Node(node_id=1, ranges={"f": (1, 3)}, levels={"f": 1}, epoch=5),)
    cluster = Cluster(name="c", zookeeper=True, nodes=brokers, stored={"f": 1}, controller=1)
    said = judged(cluster, probe({"f": (1, 3)}, answer=REFUSED))
    assert verdicts(said) == {"f": "READY"}
    assert not {"probe_agreed", "probe_refused"} & set(found(said))


def test_a_missing_right_to_alter_is_a_finding_that_keeps_nothing() -> None:
    said = judged(PROVEN, probe(answer={"error_code": 31}))
    assert set(verdicts(said).values()) == {"READY"}
    assert found(said)["right_withheld"]["detail"].startswith(
        "ALTER on CLUSTER; UpdateFeatures was refused to whoever collects by the active controller"
    )
    again = [probe(answer={"error_code": 31}), probe(seconds=120)]
    assert "right_withheld" not in found(judged(PROVEN, *again))


def test_probes_fold_the_same_in_any_order() -> None:
    lines = [
        *lines_of(UNPROVEN)[:1],
        probe(age=2),
        probe(answer=REFUSED),
        probe(age=1, answer={"error_code": 31}),
        probe(error="lost", age=3),
    ]
    states = {
        freeze(fold_lines(landings(some), load_catalogue()))
        for some in itertools.permutations(lines)
    }
    assert len(states) == 1
    [state] = states
    kept = thaw(state).probe
    assert kept is not None
    assert {answer[3] for answer in kept.answers} == {95}


def test_a_line_is_read_update_by_update() -> None:
    said = read(probe({"f": (1, 2)}, answer=REFUSED | {"results": None}))
    assert isinstance(said, Landing)
    assert said.content == ProbeReply((ProbeAnswer("f", 1, 2, 95, "Broker 7 does not"),), 95)
    lost = read(probe({"f": (1, 2)}, error="no answer"))
    assert isinstance(lost, Landing)
    assert lost.content == ProbeReply((ProbeAnswer("f", 1, 2, None, ""),), None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (probe({}), "updates: expected a list of at least one update, found []"),
        (probe(answer=OK, error="both"), "expected either an answer or an error"),
        (probe(answer=None), "expected either an answer or an error"),
        (probe(error=""), "error: expected a text that is not empty"),
        (probe({"f": (1, 99999)}), "updates[0].to_level: expected a whole number from 0 to 32767"),
        (probe(answer={}), "answer.error_code is missing: expected a whole number"),
        (line_of("probe", "c", 0), "updates is missing: expected a list of at least one update"),
        (
            probe({"f": (1, 2)}).replace(b'[{"feature"', b'[{"feature":"f","from_level":1,'
            b'"to_level":3},{"feature"'),
            "updates: expected each feature once",
        ),
    ],
)  # fmt: skip
def test_a_malformed_line_is_quarantined_with_its_reason(line: bytes, reason: str) -> None:
    said = read(line)
    assert isinstance(said, Quarantined)
    assert reason in said.reason
    assert said.kind == "probe"


PRESENT = {METADATA: (19, 19)}
TOP: dict[str, Any] = {"levels": {METADATA: 19}, "epoch": 900}


def at_its_ceiling(*more: Node, level: int = 19, **keys: Any) -> Cluster:
    said = {"levels": {METADATA: level}, "epoch": 900}
    ranges = {METADATA: (7, level)}
    nodes = (
        Node(node_id=1, ranges=ranges, **said),
        Node(node_id=9, role="controller", ranges=ranges, **said),
    )
    told: dict[str, Any] = {"registry": "live", "voters": (9,)}
    return Cluster(name="c", nodes=(*nodes, *more), **told | keys)


def test_that_it_agrees_to_the_present_level_proves_a_cluster_up_to_date() -> None:
    before = judged(at_its_ceiling())
    assert verdicts(before) == {METADATA: "UNKNOWN"}
    said = judged(at_its_ceiling(), probe(PRESENT))
    assert verdicts(said) == {METADATA: "UP_TO_DATE"}
    assert found(said)["probe_agreed"]["detail"] == f"{METADATA} 19"


def test_a_refusal_of_the_present_level_leaves_a_cluster_unknown() -> None:
    said = judged(at_its_ceiling(), probe(PRESENT, answer=REFUSED))
    assert verdicts(said) == {METADATA: "UNKNOWN"}
    assert "probe_refused" in found(said)


SILENT = Node(node_id=10, role="controller", ranges={}, answered=None, failed=1)
GHOST = Node(node_id=2, ranges={}, answered=None, failed=1, fenced=True)


def test_a_registered_node_nobody_could_ask_is_covered_by_its_controller() -> None:
    cluster = at_its_ceiling(
        SILENT, GHOST, registry="fenced", controllers_listed=True, voters=(9, 10)
    )
    before = judged(cluster)
    assert verdicts(before) == {METADATA: "UNKNOWN"}
    assert {"node_not_answering", "range_unknown"} <= set(found(before))
    said = judged(cluster, probe(PRESENT))
    assert verdicts(said) == {METADATA: "UP_TO_DATE"}
    assert not {"node_not_answering", "range_unknown"} & set(found(said))
    rows = [row for row in said.findings.to_pylist() if row["code"] == "node_probed"]
    assert sorted((row["role"], row["node_id"]) for row in rows) == [
        ("broker", 2),
        ("controller", 10),
    ]
    assert "ghost_broker" in found(said)


def test_below_15_no_controller_answers_for_another() -> None:
    """KIP-919: controllers register from metadata.version 15 on; before that none is asked."""
    cluster = at_its_ceiling(
        SILENT, level=14, registry="fenced", controllers_listed=True, voters=(9, 10)
    )
    said = judged(cluster, probe({METADATA: (14, 14)}))
    assert verdicts(said) == {METADATA: "UNKNOWN"}
    assert "node_not_answering" in found(said)
