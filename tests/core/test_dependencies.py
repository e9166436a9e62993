"""Dependencies of finalized levels, seen from the other end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from featurelib.audit.audit import judge
from featurelib.audit.checks import DEPENDENCY_CODE as CODE
from featurelib.audit.evidence import Expected
from featurelib.audit.findings import wordings
from featurelib.core.dialect import STRICT, load
from featurelib.feature import METADATA_VERSION, Severity
from tests.core.lines import conditions, judge_rows, lines_of, snapshot
from tests.core.made_up import CATALOGUE
from tests.core.oracle import CONTROLLER, Cluster, Node, Range
from tests.core.random_clusters import ELR, GROUP, KRAFT, RELEASES

Said = list[tuple[str, str, str]]


def kraft(
    release: str, levels: dict[str, int], name: str = "k", also: dict[str, Range] | None = None
) -> Cluster:
    ranges = RELEASES[release] | (also or {})
    nodes = (
        Node(node_id=1, ranges=ranges, levels=levels, epoch=900),
        Node(node_id=1, role=CONTROLLER, ranges=ranges),
    )
    return Cluster(name=name, nodes=nodes, voters=(1,), stored=levels)


def unmet(*some: Cluster, told: str = "") -> Said:
    """Cluster, feature and detail of each such finding."""
    rows = snapshot({cluster.name: lines_of(cluster) for cluster in some})
    inventory = {cluster.name: Expected(release=told) for cluster in some}
    terms = replace(conditions(some), inventory=inventory)
    judged = judge(rows, terms, CATALOGUE, load(STRICT))
    found = [f for f in judged.findings.to_pylist() if f["code"] == CODE]
    assert all(f["severity"] == "warning" and f["finalized_level"] > 0 for f in found)
    return [(f["cluster"], f["feature"], f["detail"]) for f in found]


def needs(least: int, there: int) -> str:
    return f"{METADATA_VERSION} {least}, and {METADATA_VERSION} {there} is finalized"


def test_a_declared_dependency_that_was_lowered_is_found() -> None:
    low = kraft("4.1", {METADATA_VERSION: 22, ELR: 1})
    assert unmet(low) == [("k", ELR, needs(23, 22))]
    assert unmet(kraft("4.1", {METADATA_VERSION: 23, ELR: 1})) == []
    assert unmet(kraft("4.1", {METADATA_VERSION: 22})) == []


def test_what_the_newest_software_declares_counts_whoever_runs_there() -> None:
    """3.9 asks for no dependency; the policy does."""
    odd = kraft("3.9", {METADATA_VERSION: 21, ELR: 1}, also={ELR: (0, 1)})
    assert unmet(odd) == [("k", ELR, needs(23, 21))]


def test_kraft_version_needs_metadata_version_21_where_its_controllers_ask_for_it() -> None:
    """Recorded: 4.0.1 lowers metadata.version under kraft.version 1, and then refuses
    kraft.version 1 itself. 3.9 asks only when it formats, and 4.1 needs it no more."""
    levels = {METADATA_VERSION: 17, KRAFT: 1}
    assert unmet(kraft("4.0", levels)) == [("k", KRAFT, needs(21, 17))]
    assert unmet(kraft("4.0", levels | {METADATA_VERSION: 21})) == []
    assert unmet(kraft("3.9", levels)) == []
    assert unmet(kraft("4.1", levels)) == []


def test_of_look_alikes_the_one_that_is_told_counts() -> None:
    """Nothing can go up here, and the dialects are worked out all the same."""
    levels = {METADATA_VERSION: 17, KRAFT: 1}
    assert unmet(kraft("4.0", levels), told="4.0.1") == [("k", KRAFT, needs(21, 17))]
    assert unmet(kraft("4.1", levels), told="4.0.1") == [("k", KRAFT, needs(21, 17))]


@pytest.mark.parametrize(
    ("release", "level", "least"), [("4.2", 6, 7), ("4.0", 4, 7), ("3.9", 3, 4), ("3.9", 5, 0)]
)
def test_a_level_needs_a_metadata_version_that_can_store_it(
    release: str, level: int, least: int
) -> None:
    """3.3-IV0 by KIP-1022, 3.3-IV3 by controllers from 4.0 on; kraft.version stands elsewhere."""
    also = {GROUP: (0, 1)} if release == "3.9" else {}
    levels = {METADATA_VERSION: level, GROUP: 1, KRAFT: 1}
    said = unmet(kraft(release, levels, also=also))
    assert [row for row in said if row[1] == GROUP] == (
        [("k", GROUP, needs(least, level))] if least else []
    )
    assert ("k", KRAFT, needs(least, level)) not in said


def test_metadata_version_that_nobody_finalized_is_the_first() -> None:
    none = kraft("3.9", {GROUP: 1}, also={GROUP: (0, 1)})
    assert unmet(none) == [("k", GROUP, needs(4, 1))]


def test_what_is_not_known_is_no_fault_and_zookeeper_mode_has_none() -> None:
    for one, another in ((22, 23), (23, 22)):
        low = kraft("4.1", {METADATA_VERSION: one, ELR: 1})
        other = replace(low.nodes[0], node_id=9, levels={METADATA_VERSION: another, ELR: 1})
        assert unmet(replace(low, registry="fenced", nodes=(*low.nodes, other))) == []
    broker = Node(node_id=1, ranges={"f": (1, 3)})
    assert unmet(Cluster(name="z", zookeeper=True, nodes=(broker,), stored={"f": 1})) == []


def test_no_verdict_depends_on_it() -> None:
    levels = {METADATA_VERSION: 22, ELR: 1}
    judged = judge_rows(snapshot({"k": lines_of(kraft("4.1", levels))}))
    assert CODE in judged.findings["code"].to_pylist()
    assert judged.plans["verdict"].to_pylist() == ["READY"]
    assert wordings(load(STRICT))[CODE].severity is Severity.WARNING
