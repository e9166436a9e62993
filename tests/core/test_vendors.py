"""Vendors' builds are never taken for Apache's: a feature of KRaft without a row, and its cluster,
are UNKNOWN until an overlay describes the build."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from featurelib.audit.cluster_view import ClusterView
from featurelib.catalogue import Catalogue, load, with_overlay
from featurelib.config.files import open_catalogue
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.errors import ConfigError
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan
from featurelib.questions.why_not import why_not
from tests.core.lines import codes, findings, judge_clusters, judge_lines, listing, log_lines
from tests.core.oracle import CONTROLLER, METADATA, Cluster, Node
from tests.core.test_every_finding import TOOL_S_NAME
from tests.core.test_registrations import ALONE, LEVELS, answer, node, quorum
from tests.facts import first_fact
from tests.laboratory import LABORATORY
from tests.seeing import see

ROOT = Path(__file__).parents[2]
AUTOMQ = ROOT / "conf" / "overlays" / "automq.toml"
CONFLUENT = ROOT / "conf" / "overlays" / "confluent.toml"


def with_feature(sample: str, name: str, low: int, high: int, level: int) -> list[bytes]:
    """A sample without its log, whose nodes list one feature more, finalized at `level`."""
    found = []
    for text in (LABORATORY / sample / "landing.jsonl").read_bytes().splitlines():
        line = json.loads(text)
        if line["kind"] == "api_versions" and "supported_features" in line:
            entry = {"name": name, "min_version": low, "max_version": high}
            line["supported_features"].append(entry)
            shown = {"name": name, "max_version_level": level, "min_version_level": level}
            line["finalized_features"] += [shown] if level else []
        if line["kind"] != "metadata_log":
            found.append(json.dumps(line).encode())
    return found


def view(lines: list[bytes], catalogue: Catalogue | None = None) -> ClusterView:
    return see(lines, catalogue=catalogue or load(), as_of=None, max_age=10**12)


def verdicts(seen: ClusterView) -> dict[str, str]:
    return {row["feature"]: row["verdict"] for row in seen.judged.readiness.to_pylist()}


def test_a_feature_that_no_catalogue_knows_is_unknown_and_never_planned() -> None:
    seen = view(with_feature("k42-dynamic", "acme.tiering.version", 0, 2, 1))
    assert verdicts(seen)["acme.tiering.version"] == "UNKNOWN"
    [said] = findings(seen.judged, "feature_not_catalogued")
    assert (said["feature"], said["level"], said["severity"]) == (
        "acme.tiering.version",
        2,
        "unknown",
    )
    assert seen.judged.plans.to_pylist()[0]["steps"] == []
    assert seen.judged.plans.to_pylist()[0]["may_join"] is None
    assert seen.dialects == ()
    for intent in (
        Intent(command=Command.UPGRADE_ALL),
        Intent(command=Command.UPGRADE, up={"acme.tiering.version": "2"}),
    ):
        planned = make_plan(seen, intent, load())
        assert planned.plan is None
        assert "feature_not_catalogued" in {reason.code for reason in planned.refusals}


@pytest.mark.parametrize("overlay", [False, True])
def test_a_cluster_of_a_vendor_s_shape_moves_nothing(overlay: bool) -> None:
    """Confluent Platform finalizes confluent.metadata.version, and no metadata.version. A row of
    its feature without a release that has it does not make its build Apache's."""
    catalogue = with_overlay(load(), CONFLUENT.read_bytes(), str(CONFLUENT)) if overlay else load()
    lines = with_feature("k41-forgotten", "confluent.metadata.version", 1, 130, 128)
    plain = b'{"name": "metadata.version", "max_version_level": 7, "min_version_level": 7}, '
    lines = [line.replace(plain, b"") for line in lines]
    assert not any(b'"max_version_level": 7' in line for line in lines)
    seen = view(lines, catalogue)
    found = verdicts(seen)
    assert {found["confluent.metadata.version"], found["metadata.version"]} == {"UNKNOWN"}
    assert "READY" not in found.values()
    assert {"feature_not_catalogued", "release_unknown"} <= {*codes(seen.judged)}
    # Its remedy would change a level of a cluster whose levels nobody here knows.
    # What its feature depends on is unknown, too.
    unfounded = {"metadata_version_not_recorded", "finalized_dependency_unmet"}
    assert not unfounded & {*codes(seen.judged)}
    assert make_plan(seen, Intent(command=Command.UPGRADE_ALL), catalogue).plan is None


@pytest.mark.parametrize(
    ("sample", "feature"),
    [("k41-forgotten", "group.version"), ("k40-fresh", "eligible.leader.replicas.version")],
)
def test_a_vendor_s_controllers_are_described_in_an_overlay_and_not_in_the_inventory(
    sample: str, feature: str
) -> None:
    """In k40-fresh everything is at its target, so the audit itself asks no controller."""
    seen = view(with_feature(sample, "acme.version", 0, 1, 0))
    assert ("release_unknown" in codes(seen.judged)) is (sample == "k41-forgotten")
    asked = Intent(command=Command.UPGRADE, up={feature: "1"})
    planned = make_plan(seen, asked, load()).refusals
    proofs = why_not(seen, feature, 1, load()).unknown
    for reason in (*planned, *proofs):
        assert reason.code == "release_unknown"
        assert "a vendor's build, describe it in an overlay" in reason.action
    assert (len(planned), len(proofs)) == (1, 1)


def test_the_inventory_s_word_does_not_make_a_vendor_s_build_apache() -> None:
    lines = with_feature("k41-forgotten", "acme.version", 0, 1, 0)
    entry = FleetEntry(id="4Imaql6QRMyinfQbQ1eyVA", release="4.1", registrations_complete=True)
    fleet = Fleet(cluster=(entry,))
    seen = see(lines, catalogue=load(), as_of=None, max_age=10**12, fleet=fleet)
    assert "READY" not in verdicts(seen).values()


def test_in_zookeeper_mode_features_are_the_owner_s() -> None:
    text = (LABORATORY / "zk-332-ranges" / "landing.jsonl").read_bytes()
    assert "feature_not_catalogued" not in codes(view(text.splitlines()).judged)


def test_our_overlays_are_named_without_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a checkout they are in conf/overlays, in an install in the package; a file goes first."""
    monkeypatch.chdir(ROOT)
    told = list[str]()
    assert "automq.version" in open_catalogue("automq", told.append).features
    assert told[0].startswith("catalogue 2026-11-21 + overlay automq (")
    with pytest.raises(ConfigError, match="--overlay other: featurelib cannot read this file"):
        open_catalogue("other")
    monkeypatch.chdir(tmp_path)
    assert "automq.version" in open_catalogue("automq").features
    (tmp_path / "automq").write_text("no table")
    with pytest.raises(ConfigError, match="automq"):
        open_catalogue("automq")


@pytest.mark.parametrize("overlay", [False, True])
def test_the_overlay_of_automq_makes_its_build_known(overlay: bool) -> None:
    catalogue = with_overlay(load(), AUTOMQ.read_bytes(), str(AUTOMQ)) if overlay else load()
    seen = view(with_feature("k39-static", "automq.version", 1, 5, 3), catalogue)
    assert ("feature_not_catalogued" in codes(seen.judged)) is not overlay
    assert ("kraft-3.9" in seen.dialects) is overlay
    row = next(r for r in seen.judged.readiness.to_pylist() if r["feature"] == "automq.version")
    assert row["target"] is None  # no level of it is planned unasked
    assert row["available"] == (5 if overlay else None)


@pytest.mark.parametrize("newest", [5, 6])
def test_a_build_above_the_levels_of_its_overlay_has_no_known_release(newest: int) -> None:
    catalogue = with_overlay(load(), AUTOMQ.read_bytes(), str(AUTOMQ))
    seen = view(with_feature("k39-static", "automq.version", 1, newest, 3), catalogue)
    assert bool(seen.dialects) is (newest <= 5)


def test_one_vendor_s_controller_among_stock_ones_makes_the_answer_unknown() -> None:
    """It may lead next, and nobody knows what it would answer."""
    ranges = load().of("4.1").ranges()
    nodes = [Node(node_id=1, ranges=ranges, levels={METADATA: 25}, epoch=9)]
    nodes += [
        Node(node_id=11, ranges=ranges, role=CONTROLLER),
        Node(node_id=12, ranges=ranges | {"acme.version": (0, 1)}, role=CONTROLLER),
    ]
    cluster = Cluster(
        name="c",
        nodes=tuple(nodes),
        voters=(11, 12),
        stored={METADATA: 25},
        controllers_listed=True,
    )
    judged = judge_clusters(cluster)
    assert "READY" not in {row["verdict"] for row in judged.readiness.to_pylist()}
    stock = replace(cluster, nodes=(*nodes[:2], replace(nodes[2], ranges=ranges)))
    ready = {r["feature"] for r in judge_clusters(stock).readiness.to_pylist() if r["target"]}
    assert METADATA in ready


ACME = LEVELS | {"acme.version": 3}
LISTS = [answer(1), quorum([(1, 0)]), ALONE]
STOCK = [*LISTS, answer(1, CONTROLLER)]
LOGGED = Cluster(name="c", nodes=(node(1), node(1, CONTROLLER)), stored=ACME)


@pytest.mark.parametrize(
    "lines",
    [
        [*LISTS, answer(1, CONTROLLER, levels=ACME)],
        [*LISTS, answer(1, CONTROLLER, levels=ACME, epoch=5)],
        [*STOCK, answer(2, levels=ACME, epoch=5), listing((1, False), (2, False))],
        [*STOCK, *log_lines(LOGGED, 20)],
    ],
    ids=["controllers alone", "at an older epoch", "one broker", "the log of another day"],
)
def test_a_vendor_s_level_counts_whoever_shows_it(lines: list[bytes]) -> None:
    assert verdicts(view(STOCK)) == {METADATA: "READY"}
    seen = view(lines)
    assert verdicts(seen)[METADATA] == "UNKNOWN"
    assert "release_unknown" in codes(seen.judged)


def test_a_level_name_that_the_catalogue_lacks_is_quoted() -> None:
    judged = judge_lines([TOOL_S_NAME])
    [row] = [row for row in judged.findings.to_pylist() if row["code"] == "level_name_unknown"]
    assert (row["feature"], first_fact(row)) == ("confluent.metadata.version", "CP-8.1-IV1A")
