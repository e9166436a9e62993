"""Why a level cannot be finalized: every proof, what is unknown, and the way out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from featurelib.audit.cluster_view import ClusterView
from featurelib.core.reply import Reply, Result
from featurelib.errors import NoEvidenceError
from featurelib.feature import METADATA_VERSION
from featurelib.landing import Landing, ProbeReply, read
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan
from featurelib.planning.reasons import PROBE, ladder
from featurelib.questions.why_not import LevelStatus, why_not
from tests.cli.commands import run
from tests.core.lines import AS_OF, MAX_AGE, lines_of, microseconds
from tests.core.made_up import catalogue_of
from tests.core.oracle import STALE, Cluster, Node
from tests.core.random_clusters import RELEASES, kraft, zookeeper
from tests.core.scale import some
from tests.core.test_probes import probe
from tests.laboratory import LABORATORY
from tests.questions.nights import CATALOGUE, NAMES, view
from tests.seeing import see
from tests.test_collect import OK, WITH_UPGRADE, Fake, asked, contents, judged

# Rules that refuse a level for being too low: one below READY's target may be refused by them.
TOO_LOW = {"unsupported_by_node", "outside_local_range", "below_local_min", "below_metadata_floor"}
TOO_LOW |= {"range_unsupported_by_node", "unknown_level", "unknown_metadata_version"}


def expect_as_the_audit(one: ClusterView) -> Iterator[LevelStatus]:
    """Nothing stands in the way exactly where the audit says READY at or above the level, and
    where a plan can be made; above the ceiling only the plan tells."""
    keys = ("code", "role", "node_id", "feature")
    rows = one.judged.findings.to_pylist()
    cited = {tuple(row[key] for key in keys): row["line_id"] or 0 for row in rows}
    for row in one.judged.readiness.to_pylist():
        for level in ladder(one.cluster, row["feature"], CATALOGUE):
            if row["finalized_level"] is not None and level <= row["finalized_level"]:
                continue
            found = why_not(one, row["feature"], level, CATALOGUE)
            for proof in (*found.proofs, *found.unknown):  # it cites what its finding cites
                about = proof.code, proof.role, proof.node_id, proof.feature or None
                assert proof.line_id == cited.get(about, proof.line_id), (row, level, proof)
            open_ = found.answer is LevelStatus.NOTHING
            asked = Intent(command=Command.UPGRADE, up={n: str(v) for n, v in found.moves})
            planned = make_plan(one, asked, CATALOGUE)
            assert open_ == (planned.plan is not None), (row, level, found, planned.refusals)
            ready = row["verdict"] == "READY" and level <= row["target"]
            if open_ and level > row["ceiling"]:
                continue
            if ready and not open_:
                assert level < row["target"]
                assert {proof.code for proof in found.proofs} <= TOO_LOW
            else:
                assert open_ == ready, (row, level, found)
            yield found.answer


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_s_answers_are_the_audit_s(name: str) -> None:
    list(expect_as_the_audit(view(name)))


@settings(
    max_examples=some(80), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
@given(cluster=st.one_of(kraft(), kraft(), zookeeper()))
def test_a_random_cluster_s_answers_are_the_audit_s(cluster: Cluster) -> None:
    try:
        one = see(
            lines_of(cluster), catalogue=CATALOGUE, as_of=microseconds(AS_OF), max_age=MAX_AGE
        )
    except NoEvidenceError:
        return
    list(expect_as_the_audit(one))


def cluster_of(*nodes: Node, name: str = "k") -> list[bytes]:
    stored = {METADATA_VERSION: 25}
    return lines_of(
        Cluster(
            name=name,
            registry="fenced",
            nodes=nodes,
            voters=(11,),
            stored=stored,
            controllers_listed=True,
        )
    )


def node(node_id: int, role: str, ranges: dict[str, tuple[int, int]], **more: object) -> Node:
    levels = {METADATA_VERSION: 25}
    said: dict[str, object] = {"listed": True, "answered": 0, "levels": levels, "epoch": 1000}
    return Node(node_id=node_id, role=role, ranges=ranges, **(said | more))  # type: ignore[arg-type]


def test_a_node_nobody_asked_proves_nothing_and_is_named_as_unknown() -> None:
    new = RELEASES["4.2"]
    lines = cluster_of(node(1, "broker", new, answered=None), node(11, "controller", new))
    one = see(lines, catalogue=CATALOGUE, as_of=microseconds(AS_OF), max_age=MAX_AGE)
    found = why_not(one, METADATA_VERSION, 29, CATALOGUE)
    assert (found.answer, found.proofs, found.unlock) == (LevelStatus.UNKNOWN, (), None)
    assert ("node_not_asked", "broker 1") in [(p.code, p.node) for p in found.unknown]


def test_a_ghost_that_was_seen_too_long_ago_keeps_its_way_out(tmp_path: Path) -> None:
    gone = node(2, "broker", RELEASES["4.0"], fenced=True, answered=STALE, failed=0)
    new = RELEASES["4.1"]
    lines = cluster_of(node(1, "broker", new), node(11, "controller", new), gone)
    landed = tmp_path / "k.jsonl"
    landed.write_bytes(b"\n".join(lines))
    code, said, _ = run("why-not", "metadata.version=27", "--capture", str(landed))
    assert code == 0
    assert "evidence_too_old: The supported range of broker 2 was last read on" in said
    assert "kafka-cluster.sh unregister --bootstrap-server HOST:PORT --id 2" in said
    what = (
        "broker 2 is off and still registered: start it or, if it will never run again, "
        "unregister it"
    )
    assert f"{what}, and ask again" in " ".join(said.split())


def test_a_level_of_another_feature_that_it_needs_moves_with_it() -> None:
    catalogue = catalogue_of({("b", 2): {"a": 1}})
    ranges = {METADATA_VERSION: (7, 27), "kraft.version": (0, 1), "a": (0, 3), "b": (0, 3)}
    lines = cluster_of(node(1, "broker", ranges), node(11, "controller", ranges))
    one = see(lines, catalogue=catalogue, as_of=microseconds(AS_OF), max_age=MAX_AGE)
    assert dict(why_not(one, "b", 2, catalogue).moves) == {"a": 1, "b": 2}


REFUSED = Reply(
    code=0, message=None, results=(Result(feature=METADATA_VERSION, code=95, message="ghost 7"),)
)


def probed(reply: Reply) -> tuple[ClusterView, int, int]:
    """The sample with a probe: as it is judged, the level that was asked about, its line's time."""
    (sent, _), lines = asked(WITH_UPGRADE, Fake(reply))
    assert sent is not None
    line = read(sent)
    assert isinstance(line, Landing)
    assert line.observed_at is not None
    levels = {one.feature: one.to_level for one in contents([sent], ProbeReply)[0].answers}
    return judged([*lines, sent]), levels[METADATA_VERSION], line.observed_at


def upgrade(level: int) -> Intent:
    return Intent(command=Command.UPGRADE, up={METADATA_VERSION: str(level)})


def test_a_refusal_of_the_controller_is_proof_with_its_words_and_its_line() -> None:
    view, level, when = probed(REFUSED)
    found = why_not(view, METADATA_VERSION, level, CATALOGUE)
    assert (found.answer, found.agreed) == (LevelStatus.BLOCKED, None)
    [proof] = found.proofs
    assert (proof.judge, proof.code, proof.level) == (PROBE, "probe_refused", level)
    assert "error 95: ghost 7" in proof.message
    assert (proof.seen_at, proof.line_id != 0) == (when, True)


def test_a_level_that_was_not_asked_about_is_judged_as_ever() -> None:
    view, level, _ = probed(REFUSED)
    lower = why_not(view, METADATA_VERSION, level - 1, CATALOGUE)
    assert (lower.answer, lower.proofs, lower.agreed) == (LevelStatus.NOTHING, (), None)


def test_an_agreement_is_said_with_when_it_was_given() -> None:
    view, level, when = probed(OK)
    found = why_not(view, METADATA_VERSION, level, CATALOGUE)
    assert found.answer is LevelStatus.NOTHING
    assert found.agreed is not None
    assert (found.agreed.code, found.agreed.seen_at) == ("probe_agreed", when)
    assert f"{METADATA_VERSION} {level}" in found.agreed.message
    assert why_not(view, METADATA_VERSION, level - 1, CATALOGUE).agreed is None


def test_an_agreement_to_one_level_proves_no_registration_for_another() -> None:
    """A registration that nobody saw blocks other features as well (seen on real 4.0 with 3.9)."""
    ranges = {METADATA_VERSION: (7, 25), "group.version": (0, 1)}
    levels = {METADATA_VERSION: 21}
    one, two = (
        Node(node_id=n, role=role, ranges=ranges, levels=levels, epoch=900)
        for n, role in ((1, "broker"), (9, "controller"))
    )
    cluster = Cluster(name="c", registry="live", nodes=(one, two), voters=(9,))
    agreed = probe({METADATA_VERSION: (21, 25), "group.version": (0, 1)})
    inputs = {"catalogue": CATALOGUE, "as_of": microseconds(AS_OF), "max_age": MAX_AGE}
    asked_of = see([*lines_of(cluster), agreed], **inputs)
    for level, answer in ((25, LevelStatus.NOTHING), (24, LevelStatus.UNKNOWN)):
        found = why_not(asked_of, METADATA_VERSION, level, CATALOGUE)
        assert found.answer is answer, level
        assert [one.code for one in found.unknown] == ["registrations_unproven"] * (level == 24)
    refused = make_plan(asked_of, upgrade(24), CATALOGUE)
    assert [one.code for one in refused.refusals] == ["registrations_unproven"]
    assert make_plan(asked_of, upgrade(25), CATALOGUE).plan is not None


def test_a_printed_refusal_stands_in_the_way_although_nobody_says_the_level(tmp_path: Path) -> None:
    """Only texts of Kafka's tools: neither the level nor the controllers' release is known."""
    of, landing = ("--cluster", "c", "--out", str(tmp_path / "landing")), str(tmp_path / "landing")
    ends = "\tSupportedMinVersion: 3.3-IV3\tSupportedMaxVersion: 4.1-IV1\t"
    shown, refused = tmp_path / "features.txt", tmp_path / "refused.txt"
    shown.write_text(f"Feature: {METADATA_VERSION}{ends}FinalizedVersionLevel: 4.0-IV3\tEpoch: 9\n")
    words = "Invalid update version 27 for feature metadata.version. Broker 2 only supports "
    refused.write_text(f"Could not upgrade {METADATA_VERSION} to 27. {words}versions 7-25\n")
    for path, kind in ((shown, "features_describe"), (refused, "probe")):
        assert run("collect", "--from", str(path), "--kind", kind, *of)[0] == 0
    out = run("why-not", f"{METADATA_VERSION}=27", "--capture", landing)[1]
    assert out.startswith(f"c: {METADATA_VERSION} 27 (4.1-IV1): BLOCKED\n")
    assert words in " ".join(out.split())
    out = run("why-not", f"{METADATA_VERSION}=26", "--capture", landing)[1]
    assert out.startswith(f"c: {METADATA_VERSION} 26 (4.1-IV0): UNKNOWN\n")


def test_no_plan_is_made_of_what_the_controller_refused() -> None:
    view, level, _ = probed(REFUSED)
    refused = make_plan(view, upgrade(level), CATALOGUE)
    assert refused.plan is None
    assert [reason.code for reason in refused.refusals] == ["probe_refused"]
    assert make_plan(view, upgrade(level - 1), CATALOGUE).plan is not None
    everything = make_plan(view, Intent(command=Command.UPGRADE_ALL), CATALOGUE)
    moved = {move.feature for move in everything.goal.moves}
    assert METADATA_VERSION not in moved
    assert "probe_refused" in [reason.code for reason in everything.refusals]
    agreed, level, _ = probed(OK)
    assert make_plan(agreed, upgrade(level), CATALOGUE).plan is not None


def test_a_features_node_that_is_gone_makes_a_level_unknown_and_refuses_none(
    tmp_path: Path,
) -> None:
    """What a controller would answer without the node (96) is no rule that anything could meet."""
    broker = Node(node_id=1, ranges={"f": (1, 4)}, epoch=-1)
    gone = Cluster(name="z", zookeeper=True, nodes=(broker,), features_node=False, controller=1)
    one = see(lines_of(gone), catalogue=CATALOGUE, as_of=microseconds(AS_OF), max_age=MAX_AGE)
    found = why_not(one, "f", 4, CATALOGUE)
    assert (found.answer, found.current, found.proofs) == (LevelStatus.UNKNOWN, None, ())
    assert [proof.code for proof in found.unknown] == ["features_node_deleted"]
    landed = tmp_path / "z.jsonl"
    landed.write_bytes(b"\n".join(lines_of(gone)))
    _, said, _ = run("why-not", "f=4", "--capture", str(landed))
    assert "fix critical findings first" in said
    assert "nothing that is known stands in the way" not in said


def test_what_a_controller_would_refuse_is_explained_by_its_command() -> None:
    folder = str(LABORATORY / "zk-282-ranges")
    evidence = ("--capture", folder, "--as-of", "newest")
    refused = run("plan", "upgrade-all", *evidence, "--out", "-")
    printed = "".join(map(str, refused))
    assert "featurelib why-not CLUSTER geo=4" in printed, printed
    code, said, _ = run("why-not", "geo=4", *evidence)
    assert code == 0
    assert "only the controllers' own rule is against it" in said
