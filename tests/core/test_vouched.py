"""The owner's word for controllers nobody can ask: it stands in place of UNKNOWN, and is shown."""

from __future__ import annotations

import json
from pathlib import Path

from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions, Expected
from featurelib.catalogue import load as catalogue
from featurelib.core.dialect import load
from tests.core.lines import AS_OF, MAX_AGE, lines_of, microseconds, snapshot
from tests.core.oracle import CONTROLLER, METADATA, Cluster, Node

CAPTURE = Path(__file__).parents[2] / "data" / "samples" / "k41-forgotten" / "landing.jsonl"
WORD = Expected(controllers_vouched=True, vouched=True)
NO_WORD = Expected(vouched=True)


def lines(*left_out: str, role: str = "controller") -> list[bytes]:
    """The capture without lines of these kinds; of `api_versions` those of one role."""
    kept = []
    for raw in CAPTURE.read_bytes().splitlines():
        line = json.loads(raw)
        is_role = line["kind"] != "api_versions" or line["role"] == role
        if line["kind"] not in left_out or not is_role:
            kept.append(raw)
    return kept


def failing() -> list[bytes]:
    """The capture, its controllers' listeners not answering."""
    kept = []
    for raw in lines("metadata_log"):
        line = json.loads(raw)
        if line["kind"] == "api_versions" and line["role"] == "controller":
            who = ("kind", "cluster_id", "observed_at", "node_id", "role", "endpoint")
            asked = {key: line[key] for key in (*who, "asked_version")}
            raw = json.dumps(asked | {"error": "no route to host"}).encode()
        kept.append(raw)
    return kept


def judged(raw: list[bytes], expected: Expected) -> Judged:
    cluster = json.loads(raw[0])["cluster_id"]
    batch = snapshot({cluster: raw})
    newest = batch.column("observed_at").cast("int64")[0].as_py()
    conditions = Conditions(as_of=newest, max_age=MAX_AGE, inventory={cluster: expected})
    return judge(batch, conditions, catalogue(), load("strict"))


def verdict(said: Judged, feature: str = "metadata.version") -> str:
    rows = said.readiness.to_pylist()
    return str(next(row["verdict"] for row in rows if row["feature"] == feature))


def codes(said: Judged) -> set[str]:
    return {row["code"] for row in said.findings.to_pylist()}


UNKNOWNS = {"voters_unknown", "mode_unknown", "node_not_asked", "node_not_answering"}


def test_controllers_nobody_asked_make_unknown_until_their_owner_vouches() -> None:
    raw = lines("api_versions", "metadata_log")
    assert verdict(judged(raw, NO_WORD)) == "UNKNOWN"
    assert "node_not_asked" in codes(judged(raw, NO_WORD))
    vouched = judged(raw, WORD)
    assert verdict(vouched) == "READY"
    assert "controller_vouched" in codes(vouched)
    assert not codes(vouched) & UNKNOWNS


def test_controllers_that_do_not_answer_can_be_vouched_for() -> None:
    assert "node_not_answering" in codes(judged(failing(), NO_WORD))
    vouched = judged(failing(), WORD)
    assert (verdict(vouched), codes(vouched) & UNKNOWNS) == ("READY", set())
    assert "controller_vouched" in codes(vouched)


def test_where_not_even_the_voters_are_known_the_owner_s_word_stands_for_them() -> None:
    raw = lines("api_versions", "metadata_log", "describe_quorum")
    assert verdict(judged(raw, NO_WORD)) == "UNKNOWN"
    vouched = judged(raw, WORD)
    assert (verdict(vouched), codes(vouched) & UNKNOWNS) == ("READY", set())
    assert "voters_vouched" in codes(vouched)


def test_an_expected_controller_that_nothing_shows_is_vouched_for_with_the_others() -> None:
    raw = lines("metadata_log")
    missing = judged(raw, Expected(controllers=(77,), vouched=True))
    assert (verdict(missing), "expected_node_missing" in codes(missing)) == ("UNKNOWN", True)
    vouched = judged(raw, Expected(controllers=(77,), vouched=True, controllers_vouched=True))
    assert (verdict(vouched), "expected_node_missing" in codes(vouched)) == ("READY", False)
    shown = [row for row in vouched.findings.to_pylist() if row["code"] == "controller_vouched"]
    assert [(row["node_id"], row["severity"]) for row in shown] == [(77, "info")]


def test_a_broker_nobody_asked_stays_unknown() -> None:
    raw = lines("api_versions", "metadata_log", role="broker")
    assert verdict(judged(raw, WORD)) == "UNKNOWN"


def test_the_word_does_not_silence_a_controller_known_to_be_unfit() -> None:
    """A range that was seen counts: the owner vouches for what nobody can see."""
    fit, unfit = {METADATA: (7, 25)}, {METADATA: (7, 20)}
    said_once = Node(node_id=11, role=CONTROLLER, ranges=unfit, answered=3, failed=1)
    cluster = Cluster(
        name="one",
        registry="fenced",
        nodes=(Node(node_id=1, ranges=fit, levels={METADATA: 20}, epoch=9), said_once),
        stored={METADATA: 20},
        voters=(11,),
    )
    batch = snapshot({"one": lines_of(cluster)})
    conditions = Conditions(as_of=microseconds(AS_OF), max_age=MAX_AGE, inventory={"one": WORD})
    said = judge(batch, conditions, catalogue(), load("strict"))
    assert verdict(said) == "BLOCKED"
    assert {"unsupported_by_node", "controller_vouched"} <= codes(said)
