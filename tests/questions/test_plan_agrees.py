"""A plan and the nightly audit never disagree about what is READY, BLOCKED or UNKNOWN.

The audit judges snapshot rows, many at once; a plan judges plain values of one cluster. Whatever
landed, both must say the same of every feature.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from featurelib.audit.cluster_view import ClusterView, Inputs
from featurelib.audit.findings import wordings
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.core.dialect import STRICT, load
from featurelib.extras.predictions.rolling import roll
from featurelib.feature import METADATA_VERSION, Severity, Verdict
from featurelib.planning.goal import GOAL, Command, Intent
from featurelib.planning.planner import Planned, make_plan
from featurelib.planning.reasons import EVIDENCE, Reason, ladder
from featurelib.questions.why_not import why_not
from featurelib.snapshot import ClusterState, fold_lines, snapshot_rows
from tests import rows as of_rows
from tests.core.lines import AS_OF, MAX_AGE, landings, lines_of, microseconds
from tests.core.oracle import BROKER, CONTROLLER, Cluster, Node
from tests.core.random_clusters import RELEASES, kraft, zookeeper
from tests.core.scale import WHOLE, some
from tests.core.test_agreement import SCENES
from tests.core.test_target import PAIRS, mixed
from tests.laboratory import LABORATORY
from tests.questions.nights import NAMES, TERMS, view
from tests.report.samples import CATALOGUE, HOURS_72, read_samples
from tests.seeing import see

CASES = some(100)  # a fifth of a second each
UNSURE = {
    code for code, said in wordings(load(STRICT)).items() if said.severity is Severity.UNKNOWN
}
CLUSTERS = st.one_of(kraft(), kraft(), zookeeper())


def is_unknown(reason: Reason) -> bool:
    return reason.judge == EVIDENCE or reason.code in UNSURE


def outcome(planned: Planned) -> Verdict | None:
    """What came of asking for a level above the finalized one; None: it was asked for wrongly."""
    if planned.plan is not None:
        return Verdict.READY
    assert planned.refusals
    if {reason.judge for reason in planned.refusals} == {GOAL}:
        return None
    known = [reason for reason in planned.refusals if not is_unknown(reason)]
    return Verdict.BLOCKED if known else Verdict.UNKNOWN


def asked(one: ClusterView, feature: str, level: int) -> Verdict | None:
    """The best that a plan says of one level, asked for alone, and with all that it depends on."""
    moves = dict(why_not(one, feature, level, CATALOGUE).moves)
    found = set()
    for levels in ({feature: level}, moves):
        intent = Intent(
            command=Command.UPGRADE, up={name: str(level) for name, level in levels.items()}
        )
        found.add(outcome(make_plan(one, intent, CATALOGUE)))
    best = (v for v in (Verdict.READY, Verdict.UNKNOWN, Verdict.BLOCKED) if v in found)
    return next(best, None)


def expect_agreement(one: ClusterView) -> Counter[str]:
    """By feature: a READY target is planned, and all above it is refused by somebody known, as is
    all that is BLOCKED; of what is UNKNOWN some level is refused only for what is missing."""
    seen = Counter[str]()
    for row in one.judged.readiness.to_pylist():
        verdict, feature, ceiling = row["verdict"], row["feature"], row["ceiling"]
        current, target = row["finalized_level"], row["target"]
        rungs = {*ladder(one.cluster, feature, CATALOGUE), ceiling, target} - {None}
        levels = [level for level in rungs if (current or 0) < level <= ceiling]
        said = {level: asked(one, feature, level) for level in levels}
        where = row, said
        if verdict == Verdict.READY:
            assert said[target] == Verdict.READY, where
            assert all(v in (Verdict.BLOCKED, None) for n, v in said.items() if n > target), where
        elif verdict == Verdict.BLOCKED:
            assert set(said.values()) <= {Verdict.BLOCKED, None}, where
        elif verdict == Verdict.UNKNOWN:
            assert Verdict.READY not in said.values(), where
            if current is not None and set(said.values()) - {None}:
                assert Verdict.UNKNOWN in said.values(), where
        seen[verdict] += 1
    return seen


def see_lines(cluster: Cluster) -> ClusterView:
    return see(lines_of(cluster), catalogue=CATALOGUE, as_of=microseconds(AS_OF), max_age=MAX_AGE)


@pytest.mark.no_cover
def test_a_random_cluster_s_plans_are_as_the_audit_says() -> None:
    seen = Counter[str]()

    @settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(cluster=CLUSTERS)
    def check(cluster: Cluster) -> None:
        assume(lines_of(cluster))
        seen.update(expect_agreement(see_lines(cluster)))

    check()
    assert not WHOLE or all(seen[verdict] for verdict in Verdict), seen


@pytest.mark.no_cover
def test_a_stored_row_s_plans_are_those_of_its_lines() -> None:
    @settings(max_examples=CASES // 3, deadline=None, database=None, derandomize=True)
    @given(cluster=CLUSTERS)
    def check(cluster: Cluster) -> None:
        assume(lines_of(cluster))
        rows: list[tuple[str, ClusterState]] = []
        rows.append((cluster.name, fold_lines(landings(lines_of(cluster)), CATALOGUE)))
        stored = Inputs(catalogue=CATALOGUE, as_of=microseconds(AS_OF), max_age=MAX_AGE).see(
            snapshot_rows(rows)
        )
        live = see_lines(cluster)
        for row in live.judged.readiness.to_pylist():
            level = row["target"] or row["ceiling"]
            intent = Intent(command=Command.UPGRADE, up={row["feature"]: str(level)})
            now, then = (make_plan(one, intent, CATALOGUE) for one in (live, stored))
            assert (now.plan, now.refusals) == (then.plan, then.refusals)

    check()


@pytest.mark.parametrize("row", range(len(read_samples().batch)))
def test_a_sample_s_plans_are_as_the_audit_says(row: int) -> None:
    one = of_rows.some(read_samples().batch, row)
    expect_agreement(Inputs(catalogue=CATALOGUE, as_of=None, max_age=HOURS_72).see(one))


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_s_plans_are_as_the_audit_says(name: str) -> None:
    lines, release = SCENES[name]
    said = Fleet(cluster=(FleetEntry(id="c", release=release),))
    until = microseconds(AS_OF)
    expect_agreement(see(lines, catalogue=CATALOGUE, as_of=until, max_age=MAX_AGE, fleet=said))


def led_by(voters: tuple[int, ...], *controllers: Node) -> ClusterView:
    """A cluster of one broker, led by node 1 (as tests.core.lines writes DescribeQuorum)."""
    broker = node(2, "broker")
    levels = {METADATA_VERSION: 25}
    return see_lines(
        Cluster(
            name="k",
            registry="fenced",
            nodes=(broker, *controllers),
            voters=voters,
            stored=levels,
            controllers_listed=True,
        )
    )


def node(node_id: int, role: str, **more: object) -> Node:
    said: dict[str, object] = {
        "ranges": RELEASES["4.2"],
        "listed": True,
        "answered": 0,
        "levels": {METADATA_VERSION: 25},
        "epoch": 1000,
    }
    return Node(node_id=node_id, role=role, **(said | more))  # type: ignore[arg-type]


def test_a_leader_that_never_registered_blocks_a_plan_as_it_blocks_the_audit() -> None:
    one = led_by((1,), node(1, "controller", listed=False))
    (row,) = [r for r in one.judged.readiness.to_pylist() if r["feature"] == METADATA_VERSION]
    assert row["verdict"] == Verdict.BLOCKED
    intent = Intent(command=Command.UPGRADE, up={METADATA_VERSION: "29"})
    planned = make_plan(one, intent, CATALOGUE)
    assert ("strict", "voter_not_registered") in {(r.judge, r.code) for r in planned.refusals}
    assert outcome(planned) == Verdict.BLOCKED


def test_a_known_refusal_is_told_beside_what_is_missing() -> None:
    old = node(3, "broker", ranges=RELEASES["4.0"])
    silent = node(4, "broker", answered=None)
    one = led_by((1,), node(1, "controller"), old, silent)
    planned = make_plan(
        one, Intent(command=Command.UPGRADE, up={METADATA_VERSION: "29"}), CATALOGUE
    )
    told = {(r.judge, r.code, r.node) for r in planned.refusals}
    assert ("strict", "unsupported_by_node", "broker 3") in told
    assert ("evidence", "node_not_asked", "broker 4") in told
    assert "broker 4" not in {r.node for r in planned.refusals if r.judge == "strict"}
    assert expect_agreement(one)[Verdict.BLOCKED] > 0


def test_controllers_register_by_themselves_once_a_step_lets_them() -> None:
    """Below metadata.version 15 no controller registers, so none is missing afterwards."""
    ranges = {METADATA_VERSION: (1, 21), "kraft.version": (0, 1)}
    levels = {METADATA_VERSION: 1}
    nodes = [node(i, "controller", ranges=ranges, listed=False, levels=levels) for i in (11, 12)]
    one = see_lines(
        Cluster(name="k", registry="log", nodes=tuple(nodes), voters=(11, 12), stored={})
    )
    ready = {r["feature"]: r["target"] for r in one.judged.readiness.to_pylist() if r["target"]}
    assert ready == {METADATA_VERSION: 21}
    planned = make_plan(one, Intent(command=Command.UPGRADE_ALL), CATALOGUE)
    assert planned.plan is not None
    sent = [[u.feature for u in step.updates] for step in planned.plan.steps]
    assert sent == [[METADATA_VERSION]]


def test_without_a_release_the_policy_s_refusal_is_told_all_the_same() -> None:
    """No node lists metadata.version, so nothing tells which release its controllers run."""
    nodes = [
        node(i, "broker", ranges={"kraft.version": (0, 1)} | more, levels={METADATA_VERSION: 1})
        for i, more in ((1, {"f": (1, 5)}), (2, {"g": (4, 9)}))
    ]
    one = see_lines(Cluster(name="k", voters=(), nodes=tuple(nodes), stored={}))
    planned = make_plan(one, Intent(command=Command.UPGRADE, up={"f": "5"}), CATALOGUE)
    assert [reason.code for reason in planned.refusals] == [
        "unsupported_by_node",
        "feature_not_catalogued",
    ]
    assert expect_agreement(one)[Verdict.BLOCKED] == 0


@pytest.mark.parametrize("role", [BROKER, CONTROLLER])
@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_plans_in_the_middle_of_a_rolling_upgrade_are_as_the_audit_says(
    old: str, new: str, role: str
) -> None:
    """In a cluster of 4.1 and 4.4 all nodes support share.version 1, which is a preview there."""
    for level in (0, 7):
        one = see_lines(mixed(old, new, role, level))
        expect_agreement(one)
        if (old, new) == ("4.1", "4.4"):
            [row] = [r for r in one.judged.readiness.to_pylist() if r["feature"] == "share.version"]
            assert (row["verdict"], row["ceiling"]) == (Verdict.UP_TO_DATE, 0)


def test_ranges_of_one_release_alone_tell_which_level_is_unstable() -> None:
    """Only 3.8 with unstable levels lists metadata.version 1 to 21 and nothing else: 21 is in
    development there, whether or not the requests of the nodes were seen."""
    said = {"ranges": {METADATA_VERSION: (1, 21)}, "levels": {METADATA_VERSION: 19}}
    nodes = (node(2, "broker", **said), node(1, "controller", **said))
    one = see_lines(
        Cluster(name="k", registry="log", nodes=nodes, voters=(1,), stored={METADATA_VERSION: 19})
    )
    [row] = [r for r in one.judged.readiness.to_pylist() if r["feature"] == METADATA_VERSION]
    assert (row["verdict"], row["target"]) == (Verdict.READY, 20)
    assert expect_agreement(one)[Verdict.READY] == 1


def test_a_level_that_each_possible_release_calls_unstable_is_not_ready() -> None:
    """No release ends at 28; a node that does, and lists what 4.1 lists, may run only 4.1."""
    text = (LABORATORY / "k42-dynamic" / "landing.jsonl").read_bytes()
    text = text.replace(b'"max_version":29', b'"max_version":28').replace(
        b'_level":29', b'_level":27'
    )
    said = [line for line in text.splitlines() if b'"metadata_log"' not in line]
    one = TERMS.see_lines(said, None)
    [row] = [r for r in one.judged.readiness.to_pylist() if r["feature"] == METADATA_VERSION]
    assert (row["finalized_level"], row["ceiling"]) == (27, 27)
    assert expect_agreement(one)[Verdict.READY] == 0


def test_what_runs_there_and_fits_may_join_again() -> None:
    """The policy and the controllers agree about the release of every sample's controllers."""
    checked = set()
    for name in set(NAMES) - {"k43-unstable", "refused-metadata"}:
        one = view(name)
        if one.dialects[0].startswith("kraft") and not len(one.judged.incompatible):
            found = roll(one, one.releases[0], TERMS)
            assert found.may_join == (not found.misfits), name
            assert found.may_join or name == "rollback-too-late"
            checked.add(name)
    assert len(checked) >= 12
