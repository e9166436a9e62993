"""A validate-only probe: agreement proves that no registration blocks, a refusal is never READY."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from featurelib.audit.cluster_view import Inputs
from featurelib.audit.columns import SKEW
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import GENERATIONS, load
from featurelib.core.reply import read_refusal
from featurelib.feature import Role
from featurelib.landing import Landing, ProbeAnswer, ProbeReply, Quarantined, read
from featurelib.planning.reasons import refusing
from featurelib.snapshot import fold_lines
from featurelib.snapshot.state import freeze, thaw
from tests.core.frozen import expect_frozen
from tests.core.lines import (
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
    readiness,
    rows_of,
    snapshot,
    steps,
    told,
    verdicts,
    with_features,
)
from tests.core.oracle import METADATA, Cluster, Node

OWN = with_features(f=3, e=1, z=1)
RANGES = {METADATA: (7, 19), "f": (1, 3)}
SAID: dict[str, Any] = {"levels": {METADATA: 14, "f": 1}, "epoch": 900}
VOTER = Node(node_id=9, role="controller", ranges=RANGES, **SAID)
NODES = Node(node_id=1, ranges=RANGES, **SAID), VOTER
UNPROVEN = Cluster(name="c", registry="live", nodes=NODES, voters=(9,))
PROVEN = Cluster(name="c", registry="log", nodes=NODES, voters=(9,), stored=SAID["levels"])
BOTH = {METADATA: (14, 19), "f": (1, 3)}
OK, REFUSED = {"error_code": 0}, {"error_code": 95, "error_message": "Broker 7 does not"}
NO_RIGHT = {"error_code": 31, "error_message": "Cluster authorization failed."}


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


def its_ceiling(*more: Node, level: int = 19, beside: int = 0, **keys: Any) -> Cluster:
    """A cluster that is finalized at all that its nodes support; `beside`: and at that level
    features on either side of metadata.version."""
    ranges = {METADATA: (7, level)} | dict.fromkeys("ez" if beside else "", (1, beside))
    levels = {name: most for name, (_, most) in ranges.items()}
    said = {"ranges": ranges, "levels": levels, "epoch": 900}
    nodes = Node(node_id=1, **said), Node(node_id=9, role="controller", **said)  # type: ignore[arg-type]
    return Cluster(name="c", nodes=(*nodes, *more), **{"registry": "live", "voters": (9,)} | keys)


PRESENT = {METADATA: (19, 19)}
SILENT = Node(node_id=10, role="controller", ranges={}, answered=None, failed=1)
GHOST = Node(node_id=2, ranges={}, answered=None, failed=1, fenced=True)
LISTED: dict[str, Any] = {"registry": "fenced", "controllers_listed": True, "voters": (9, 10)}
F = {"of.zookeeper": (1, 3)}
ZOOKEEPER = Cluster(
    name="c", zookeeper=True,
    nodes=(Node(node_id=1, ranges=F, levels={"of.zookeeper": 1}, epoch=5),),
    stored={"of.zookeeper": 1}, controller=1,
)  # fmt: skip
MIGRATES = line_of("znode", "c", 0, path="/brokers/ids/1", version=1, data='{"features":{}}')
ONE_REFUSED = {"error_code": 0, "results": [
    {"feature": METADATA, **REFUSED}, {"feature": "f", "error_code": 0},
]}  # fmt: skip
# 4.1.2 and 4.3.1 refuse a request so, for one of its updates (tests/backends/test_probe_real.py).
OF_ONE = "The update failed for all features since the following feature had an error: "
OF_ONE += f"Invalid update version 19 for feature {METADATA}. Broker 7 only supports versions 7-14"
REFUSED_FOR_ONE = {"error_code": 95, "error_message": OF_ONE}
UNMENTIONED = {"error_code": 0, "results": [{"feature": "f", "error_code": 0}]}
FAR = SKEW // 1_000_000
READY, UNKNOWN, BLOCKED = {"READY"}, {"UNKNOWN"}, {"BLOCKED"}

# A cluster and more lines → its verdicts; what is found of each: data/frozen/probes.txt.
SCENES: dict[str, tuple[Cluster, Iterable[bytes], set[str]]] = {
    "registrations that nobody lists": (UNPROVEN, (), UNKNOWN),
    "are proven by a controller that agrees": (UNPROVEN, [probe()], READY),
    "not where it was asked about one of two": (UNPROVEN, [probe({METADATA: (14, 19)})], UNKNOWN),
    "nor about another level": (UNPROVEN, [probe(BOTH | {METADATA: (14, 18)})], UNKNOWN),
    "nor from another level": (UNPROVEN, [probe(BOTH | {METADATA: (13, 19)})], UNKNOWN),
    "nor where it is silent": (UNPROVEN, [probe(error="no answer within 10 s")], UNKNOWN),
    "nor where a right is missing": (UNPROVEN, [probe(answer=NO_RIGHT)], UNKNOWN),
    "nor where it mentions one of two": (UNPROVEN, [probe(answer=UNMENTIONED)], UNKNOWN),
    "nor where something newer landed": (UNPROVEN, [probe(age=1, seconds=0)], UNKNOWN),
    "it does not stand in for who votes": (replace(UNPROVEN, voters=None), [probe()], UNKNOWN),
    "nor for a voter": (replace(UNPROVEN, voters=(9, 19)), [probe()], UNKNOWN),
    "a refusal of a clock that is a little ahead counts": (
        PROVEN, [probe(seconds=FAR, answer=REFUSED)], BLOCKED),
    "of one too far ahead it counts for nothing": (
        PROVEN, [probe(seconds=FAR + 1, answer=REFUSED)], READY),
    "what the controller refuses is never ready": (
        PROVEN, [probe(answer=ONE_REFUSED)], BLOCKED | READY),
    "a request refused as a whole leaves nothing ready": (
        PROVEN, [probe(answer=REFUSED)], BLOCKED),
    "what is refused for another feature may be accepted alone": (
        PROVEN, [probe(answer=REFUSED_FOR_ONE)], BLOCKED | UNKNOWN),
    "where a registration is missing, a lower level may be accepted": (
        UNPROVEN, [probe(answer=REFUSED)], UNKNOWN),
    "also by the node that the refusal names": (
        UNPROVEN, [probe(answer=REFUSED_FOR_ONE | {"error_message": OF_ONE[:-1] + "7"})], UNKNOWN),
    "a missing right to alter keeps nothing": (PROVEN, [probe(answer={"error_code": 31})], READY),
    "nor is it said once it was given": (
        PROVEN, [probe(answer={"error_code": 31}), probe(seconds=120)], READY),
    "in ZooKeeper mode a probe counts for nothing": (
        ZOOKEEPER, [probe({"of.zookeeper": (1, 3)}, answer=REFUSED)], READY),
    "a cluster at its ceiling needs no proof": (its_ceiling(), (), {"UP_TO_DATE"}),
    "it has one by agreement to its present level": (
        its_ceiling(), [probe(PRESENT)], {"UP_TO_DATE"}),
    "and is unknown where that is refused": (
        its_ceiling(), [probe(PRESENT, answer=REFUSED)], UNKNOWN),
    "registered nodes that nobody could ask": (its_ceiling(SILENT, GHOST, **LISTED), (), UNKNOWN),
    "are covered by their controller": (
        its_ceiling(SILENT, GHOST, **LISTED), [probe(PRESENT)], {"UP_TO_DATE"}),
    # KIP-919: controllers register from metadata.version 15 on; before that none is asked.
    "below 15 no controller answers for another": (
        its_ceiling(SILENT, level=14, **LISTED), [probe({METADATA: (14, 14)})], UNKNOWN),
    "whatever the levels of other features are": (
        its_ceiling(SILENT, level=14, beside=19, **LISTED),
        [probe({METADATA: (14, 14), "e": (19, 19), "z": (19, 19)})], UNKNOWN),
    "and from 15 on it does": (
        its_ceiling(SILENT, beside=1, **LISTED),
        [probe(PRESENT | {"e": (1, 1), "z": (1, 1)})], {"UP_TO_DATE"}),
}  # fmt: skip


def judged(cluster: Cluster, *more: bytes) -> Any:
    return judge_rows(snapshot({"c": [*lines_of(cluster), *more]}), [cluster], OWN)


def test_what_a_controller_validates_stands_for_what_nobody_could_see() -> None:
    said = {}
    for name, (cluster, lines, expected) in SCENES.items():
        found = judged(cluster, *lines)
        assert set(verdicts(found).values()) == expected, name
        ready = {n for n, verdict in verdicts(found).items() if verdict == "READY"}
        assert {step["feature"] for step in steps(found)} == ready, name
        said[name] = told(found)
    expect_frozen("probes", said)


def test_a_finding_about_a_probe_says_what_was_asked_and_in_which_line() -> None:
    line = probe()
    [row] = findings(judged(UNPROVEN, line), "probe_agreed")
    assert (row["severity"], row["line_id"]) == ("info", landings([line])[0][1])
    said = judged(PROVEN, probe(answer=ONE_REFUSED))
    [row] = findings(said, "probe_refused")
    assert (row["finalized_level"], row["severity"]) == (14, "blocker")
    assert readiness(said, METADATA)["blockers"] == 1


def test_a_refusal_of_a_whole_request_blocks_the_feature_that_it_names() -> None:
    said = judged(UNPROVEN, probe(answer=REFUSED_FOR_ONE))
    assert verdicts(said) == {METADATA: "BLOCKED", "f": "UNKNOWN"}
    assert [row["feature"] for row in findings(said, "probe_refused")] == [METADATA]
    assert [row["feature"] for row in findings(said, "probe_unsettled")] == ["f"]
    alone = judged(UNPROVEN, probe({"f": (1, 3)}, answer=OK | {"results": None}))
    assert verdicts(alone)["f"] != "BLOCKED"


def test_a_probe_as_old_as_other_evidence_may_not_be_proves_nothing() -> None:
    lines = [*lines_of(UNPROVEN), probe()]
    said = judge_lines(lines, as_of=NOW + MAX_AGE + 2 * HOUR)
    assert set(verdicts(said).values()) == UNKNOWN
    assert "probe_agreed" not in codes(said)


def test_a_probe_of_a_cluster_that_migrates_counts_for_nothing() -> None:
    one, other = judged(PROVEN, MIGRATES), judged(PROVEN, MIGRATES, probe())
    assert rows_of(one, "findings") == rows_of(other, "findings")


def test_probes_fold_the_same_in_any_order() -> None:
    lines = [
        *lines_of(UNPROVEN)[:1], probe(age=2), probe(answer=REFUSED),
        probe(age=1, answer={"error_code": 31}), probe(error="lost", age=3),
    ]  # fmt: skip
    folds = (fold_lines(landings(some), load_catalogue()) for some in itertools.permutations(lines))
    [state] = {freeze(fold) for fold in folds}
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


TWICE = probe({"f": (1, 2)}).replace(
    b'[{"feature"', b'[{"feature":"f","from_level":1,"to_level":3},{"feature"'
)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (probe({}), "updates: expected a list of at least one update, found []"),
        (probe(answer=OK, error="both"), "the line needs either answer or error"),
        (probe(answer=None), "the line needs either answer or error"),
        (probe(error=""), "error: expected a text that is not empty"),
        (probe({"f": (1, 99999)}), "updates[0].to_level: expected a whole number from 0 to 32767"),
        (probe(answer={}), "answer.error_code is missing: expected a whole number"),
        (line_of("probe", "c", 0), "updates is missing: expected a list of at least one update"),
        (TWICE, "updates: a feature is in the list more than once"),
    ],
)
def test_a_malformed_line_is_quarantined_with_its_reason(line: bytes, reason: str) -> None:
    said = read(line)
    assert isinstance(said, Quarantined)
    assert reason in said.reason
    assert said.kind == "probe"


UNSEEN = Node(node_id=10, role="controller", ranges={}, answered=None, failed=None)
HIDDEN: dict[str, Any] = {"registry": "fenced", "controllers_listed": True, "voters": (9,)}


@pytest.mark.parametrize(
    ("ghost", "level", "expected"),
    [(GHOST, 19, True), (UNSEEN, 19, True), (GHOST, 14, True), (UNSEEN, 14, False)],
    ids=["a broker", "a controller", "a broker below 15", "no controller below 15"],
)
def test_the_controller_decides_about_a_ghost_whose_range_was_never_seen(
    ghost: Node, level: int, expected: bool
) -> None:
    """It asks every registered broker; controllers from metadata.version 15 on (KIP-919)."""
    lines = lines_of(its_ceiling(ghost, level=level, **HIDDEN))
    inputs = Inputs(catalogue=OWN, as_of=None, max_age=MAX_AGE)
    seen, decided = (
        replace(inputs, controller_decides=decides).see_lines(lines) for decides in (False, True)
    )
    found = [set(one.judged.findings["code"].to_pylist()) for one in (seen, decided)]
    assert ["range_unknown" in some for some in found] == [True, not expected]
    [node] = [n for n in decided.cluster.nodes if n.node_id == ghost.node_id]
    assert bool(refusing([node], METADATA, 21)) != expected


def refused(words: str) -> dict[str, object]:
    return {"error_code": 95, "error_message": f"Invalid update version 20 for feature {words}"}


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        (f"{METADATA}. Broker 2 only supports versions 7-18", (7, 18)),
        (f"{METADATA}. Broker 2 only supports versions 19", (19, 19)),
        (f"{METADATA}. Broker 2 does not support the given version. It supports 7 to 18.", (7, 18)),
        (f"{METADATA}. Broker 2 does not support this feature.", (None, None)),
    ],
)
def test_a_refusal_names_the_ghost_and_its_range(words: str, ends: tuple[int | None, ...]) -> None:
    own = its_ceiling(GHOST, level=19, **HIDDEN)
    can = {METADATA: (7, 20)}
    nodes = tuple(replace(n, ranges=can) if n.ranges else n for n in own.nodes)
    line = probe({METADATA: (19, 20)}, answer=refused(words))
    [row] = findings(judged(replace(own, nodes=nodes), line), "unsupported_by_node")
    assert (row["role"], row["node_id"], row["level"]) == ("broker", 2, 20)
    assert (row["min_version"], row["max_version"]) == ends
    assert (row["feature"], row["line_id"]) == (METADATA, landings([line])[0][1])


@pytest.mark.parametrize(
    "words",
    [
        "f. Broker 2 only supports versions 7-18",  # of another feature
        f"{METADATA}. Broker 3 only supports versions 7-18",  # of a node that nobody knows
        f"{METADATA}. Broker 1 only supports versions 7-18",  # it says itself what it supports
        f"{METADATA}. controller 2 has not registered, and may not support this feature",
    ],
)
def test_a_refusal_says_no_range_of_another_node_or_feature(words: str) -> None:
    own = its_ceiling(GHOST, level=19, **HIDDEN)
    nodes = tuple(replace(n, ranges={METADATA: (7, 20)}) if n.ranges else n for n in own.nodes)
    said = judged(replace(own, nodes=nodes), probe({METADATA: (19, 20)}, answer=refused(words)))
    assert "probe_refused" in codes(said)
    assert "unsupported_by_node" not in codes(said)


def test_a_refusal_is_read_as_every_generation_writes_it() -> None:
    """By the words of the dialects' own rules, for whoever they name."""
    cases = [
        (row, says)
        for dialect in map(load, GENERATIONS)
        if dialect.mode == "kraft"
        for row in dialect.rules
        if row.code == "unsupported_by_node" and row.asks is not None
        for says in (row.says, row.says_absent)
    ]
    assert len(cases) > 20
    for row, says in cases:
        values = {"feature": "f", "level": 9, "node": 12, "node_min": 1, "node_max": 4}
        words = says.format_map(values | {"node_range": "1-4"})
        ends = None if says == row.says_absent else (1, 4)
        role = Role.BROKER if "roker 12" in words else Role.CONTROLLER
        assert read_refusal(words, "f") == (role, 12, ends), words
        assert read_refusal(words, "g") is None
    open_end = read_refusal("for feature f. Broker 1 only supports versions 1+", "f")
    assert open_end == (Role.BROKER, 1, (1, 32767))
    assert read_refusal(None, "f") is None
