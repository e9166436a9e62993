"""Which release runs where: by the requests that real nodes offer, their ranges, the owner's word.

data/software.jsonl.xz is what `featurelib collect` read of six real clusters on 2026-11-22:
`stock42` is 4.2.1 as it comes; `unstable42` 4.2.1 with unstable features on every node,
`unstablebrokers42` on the broker alone; `roll4143` and `midroll4042` are half rolled, led by the
older release; `apis41` has a broker of 4.2.1 and a controller of 4.1.2 with unstable *requests*.
"""

from __future__ import annotations

import json
import lzma
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from featurelib.audit.cluster_view import ClusterView, PlainCluster
from featurelib.catalogue import load
from featurelib.catalogue.rows import ApiKeys, releases_offering
from featurelib.catalogue.rows import read_release_apis as read_rows
from featurelib.config.fleet import Fleet
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.feature import METADATA_VERSION, Role
from featurelib.questions.describe import describe
from featurelib.questions.why_not import LevelStatus, why_not
from featurelib.view.report import report_run, summarize
from tests.core.lines import MAX_AGE
from tests.laboratory import LABORATORY
from tests.seeing import see

CATALOGUE = load()
RECORDED = Path(__file__).parent / "data" / "software.jsonl.xz"
NO_FLEET = Fleet()
Line = dict[str, Any]


@cache
def recorded() -> tuple[Line, ...]:
    return tuple(json.loads(line) for line in lzma.decompress(RECORDED.read_bytes()).splitlines())


def lines_of(name: str, without: str = "") -> list[Line]:
    """The landing lines of a cluster, perhaps without one of their keys."""
    mine = [line for line in recorded() if line["cluster_id"] == name]
    return [{key: value for key, value in line.items() if key != without} for line in mine]


def look(lines: list[Line], fleet: Fleet = NO_FLEET) -> ClusterView:
    texts = (json.dumps(line).encode() for line in lines)
    return see(texts, catalogue=CATALOGUE, as_of=None, max_age=MAX_AGE, fleet=fleet)


def releases(view: ClusterView, told: str = "") -> dict[str, str]:
    """The release of each node half."""
    assert view.judged.evidence is not None
    plain = PlainCluster(view.judged.evidence, told, CATALOGUE).cluster()
    return {f"{node.role.text} {node.node_id}": node.release for node in plain.nodes}


def metadata_version(view: ClusterView) -> tuple[str, int]:
    """Verdict and ceiling."""
    rows = view.judged.readiness.to_pylist()
    (row,) = (row for row in rows if row["feature"] == METADATA_VERSION)
    return row["verdict"], row["ceiling"]


@pytest.mark.parametrize(
    ("name", "runs", "verdict"),
    [
        ("stock42", {"broker 1": "4.2", "controller 1": "4.2"}, ("READY", 29)),
        ("unstable42", {"broker 1": "4.2", "controller 100": "4.2"}, ("UP_TO_DATE", 29)),
        ("unstablebrokers42", {"broker 1": "4.2", "controller 100": "4.2"}, ("READY", 29)),
        (
            "roll4143",
            {"broker 10": "4.3", "broker 11": "4.1"}
            | {"controller 2": "4.1", "controller 3": "4.3", "controller 4": "4.3"},
            ("BLOCKED", 30),
        ),
        (
            "midroll4042",
            {f"{role} {i}": r for role in ("broker", "controller") for i, r in
             ((1, "4.0"), (2, "4.2"), (3, "4.2"))},
            ("BLOCKED", 29),
        ),
        ("apis41", {"broker 1": "4.2", "controller 100": "4.1"}, ("BLOCKED", 29)),
    ],
)  # fmt: skip
def test_each_node_is_of_the_release_that_really_ran(
    name: str, runs: dict[str, str], verdict: tuple[str, int]
) -> None:
    view = look(lines_of(name))
    assert releases(view) == runs
    assert set(view.releases) == {r for who, r in runs.items() if who.startswith("controller")}
    assert metadata_version(view) == verdict


def test_a_line_without_requests_is_read_by_its_ranges_as_before() -> None:
    view = look(lines_of("stock42", without="api_keys"))
    assert view.releases == ("4.2", "4.1")
    unstable = look(lines_of("unstablebrokers42", without="api_keys"))
    assert releases(unstable)["broker 1"] == "4.3"
    assert metadata_version(unstable)[1] == 30


def test_the_release_of_the_inventory_wins_where_the_evidence_leaves_it_open() -> None:
    without = lines_of("unstablebrokers42", without="api_keys")
    assert releases(look(without), "4.2.1") == {"broker 1": "4.2.1", "controller 100": "4.2.1"}
    owned = Fleet(cluster=(Entry(id="unstablebrokers42", release="4.2.1"),))
    assert metadata_version(look(without, owned)) == ("READY", 29)
    assert look(without, owned).releases == ("4.2.1",)


def test_a_controller_uses_what_it_was_started_with_and_not_what_its_listener_shows() -> None:
    """The real controllers: 4.1.2 with unstable requests alone refuses 29, and 4.2.1 with unstable
    features accepts 30, though their listeners show 7-29 both."""
    refused = why_not(look(lines_of("apis41")), METADATA_VERSION, 29, CATALOGUE)
    assert refused.answer is LevelStatus.BLOCKED
    said = [proof.message for proof in refused.proofs if proof.is_answer]
    assert said == [
        "Invalid update version 29 for feature metadata.version. Local controller 100 only "
        "supports versions 7-27"
    ]
    accepted = look(lines_of("unstable42"))
    own = why_not(accepted, METADATA_VERSION, 30, CATALOGUE)
    assert {proof.code for proof in own.proofs} == {"unstable_level"}
    (broker,) = (n for n in accepted.cluster.nodes if n.role is Role.BROKER)
    (controller,) = (n for n in accepted.cluster.nodes if n.role is Role.CONTROLLER)
    assert controller.supported == broker.supported


def test_nothing_is_read_into_a_controller_whose_configuration_or_ranges_are_not_known() -> None:
    silent = [line for line in lines_of("apis41") if line["kind"] != "describe_configs"]
    assert metadata_version(look(silent)) == ("BLOCKED", 29)
    vendors = lines_of("unstable42")
    for line in vendors:
        if line["kind"] == "api_versions":
            own = {"name": "acme.version", "min_version": 1, "max_version": 1}
            line["supported_features"] = [*line["supported_features"], own]
    nodes = look(vendors).cluster.nodes
    assert {node.supported[METADATA_VERSION] for node in nodes} == {(7, 29), (7, 30)}
    assert {node.release for node in nodes} == {""}  # a vendor's build, so of no release


def test_a_newer_answer_without_requests_is_read_by_its_ranges() -> None:
    lines = lines_of("stock42")
    (answer,) = (
        one for one in lines if (one["kind"], one.get("role")) == ("api_versions", "broker")
    )
    later = datetime.fromisoformat(answer["observed_at"]) + timedelta(seconds=2)
    lines.append(
        {
            "kind": "api_versions", "cluster_id": "stock42", "node_id": 1, "role": "broker",
            "observed_at": later.isoformat(), "endpoint": answer["endpoint"],
            "asked_version": 4, "answered_version": 4, "error_code": 0,
            "supported_features": [
                {**f, "max_version": 25} if f["name"] == METADATA_VERSION else f
                for f in answer["supported_features"] if f["name"] not in ("share.version",
                                                                         "streams.version")
            ],
            "finalized_features_epoch": answer["finalized_features_epoch"] + 1,
            "finalized_features": answer["finalized_features"],
        }
    )  # fmt: skip
    assert releases(look(lines))["broker 1"] == "4.0"


def test_the_answer_that_is_quoted_is_the_first_reason_of_who_leads() -> None:
    """4.1.2 and 4.0.1 lead: real controllers said `Local controller 2` and `Local controller 1`."""
    begins = "Invalid update version 30 for feature metadata.version."
    found = why_not(look(lines_of("roll4143")), METADATA_VERSION, 30, CATALOGUE)
    assert {proof.judge: proof.message for proof in found.proofs if proof.is_answer} == {
        "kraft-4.1": f"{begins} Local controller 2 only supports versions 7-27"
    }
    assert found.dialects == ("kraft-4.1",)
    later = [proof for proof in found.proofs if proof.code == "unknown_metadata_version"]
    assert [(proof.judge, proof.is_answer) for proof in later] == [("kraft-4.1", False)]
    begins = "Invalid update version 29 for feature metadata.version."
    found = why_not(look(lines_of("midroll4042")), METADATA_VERSION, 29, CATALOGUE)
    said = {proof.judge: proof.message for proof in found.proofs if proof.is_answer}
    assert said["kraft-4.0"] == f"{begins} Local controller 1 only supports versions 7-25"


def offered(release: str, listener: str, *, unstable: bool) -> ApiKeys:
    """What a listener of a release offers, by the table itself."""
    found: dict[int, tuple[int, int]] = {}
    order = [row.release for row in CATALOGUE.releases]
    for row in read_rows():
        if row.listener == listener and order.index(row.release) <= order.index(release):
            high = row.newest_unstable if unstable else row.max_version
            found[row.api_key] = row.min_version, high
    return tuple(sorted((key, low, high) for key, (low, high) in found.items() if high >= 0))


@pytest.mark.parametrize("unstable", [False, True])
@pytest.mark.parametrize("role", [Role.BROKER, Role.CONTROLLER])
def test_from_3_9_on_the_requests_alone_name_the_release(role: Role, unstable: bool) -> None:
    found = {
        release.release: releases_offering(
            role, offered(release.release, role.text, unstable=unstable)
        )
        for release in CATALOGUE.releases
    }
    assert all(release in said for release, said in found.items())
    alone = [release for release, said in found.items() if said == (release,)]
    assert alone[-6:] == ["3.9", "4.0", "4.1", "4.2", "4.3", "4.4"]
    assert {said for said in found.values() if len(said) > 1} <= {("3.3", "3.4"), ("3.7", "3.8")}


def test_a_broker_offers_no_more_of_what_it_forwards_than_its_controller_does() -> None:
    keys = offered("4.4", "broker", unstable=False)
    create, fetch = 19, 1
    older = tuple((k, low, high - 1 if k == create else high) for k, low, high in keys)
    assert releases_offering(Role.BROKER, older) == ("4.4",)
    without = tuple(entry for entry in keys if entry[0] != create)
    assert releases_offering(Role.BROKER, without) == ("4.4",)
    other = tuple((k, low, high - 1 if k == fetch else high) for k, low, high in keys)
    assert releases_offering(Role.BROKER, other) == ()
    assert releases_offering(Role.BROKER, tuple(e for e in keys if e[0] != fetch)) == ()
    assert releases_offering(Role.BROKER, (*keys, (999, 0, 0))) == ()
    assert releases_offering(Role.CONTROLLER, keys) == ()
    assert releases_offering(Role.BROKER, ()) == ()


def test_a_cluster_runs_from_the_oldest_to_the_newest_release_of_its_nodes() -> None:
    told = {"roll4143": ("4.1", "4.3"), "midroll4042": ("4.0", "4.2"), "unstable42": ("4.2", "4.2")}
    for name, ends in told.items():
        [row] = look(lines_of(name)).judged.plans.to_pylist()
        assert (row["release"], row["newest_release"], row["mode"]) == (*ends, "KRaft"), name


def test_where_no_node_tells_its_release_the_inventory_does() -> None:
    folder = LABORATORY / "zk-282-ranges"
    lines = [json.loads(line) for line in (folder / "landing.jsonl").read_text().splitlines()]
    fleet = Fleet(cluster=(Entry(id=lines[0]["cluster_id"], release="2.8.2"),))
    rows = [look(lines, known).judged.plans.to_pylist() for known in (NO_FLEET, fleet)]
    assert [(row["release"], row["newest_release"]) for [row] in rows] == [
        (None, None),
        ("2.8",) * 2,
    ]
    assert {row["mode"] for [row] in rows} == {"ZooKeeper mode"}


def test_software_that_goes_further_than_the_catalogue_is_called_newer_and_no_release() -> None:
    text = json.dumps(lines_of("stock42")).replace('"max_version": 29', '"max_version": 99')
    view = look(json.loads(text))
    [row] = view.judged.plans.to_pylist()
    assert (row["release"], row["newest_release"]) == (None, None)
    newer = f"newer than {CATALOGUE.releases[-1].release}"
    assert {node.release for node in describe(view, CATALOGUE).nodes} == {newer}
    [shown] = summarize(view.judged, report_run(CATALOGUE, 1, 0), CATALOGUE).clusters
    assert (shown.release, shown.newest_release) == (None, newer)
