"""Features that nothing in a batch mentions, though rules and dependencies speak of them."""

from __future__ import annotations

import numpy as np
import pytest

from featurelib.audit import evidence as facts
from featurelib.audit.evidence import Evidence
from featurelib.audit.fleet import FleetColumns
from featurelib.audit.target import Judge, bounds
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load as load_dialect
from tests.core.lines import conditions, lines_of, snapshot
from tests.core.oracle import Cluster, Node

ELR = "eligible.leader.replicas.version"


def cluster(feature: str, level: int, highest: int) -> Cluster:
    """A cluster whose nodes and levels mention one feature and no metadata.version."""
    nodes = (
        Node(node_id=1, ranges={feature: (0, highest)}, levels={feature: level}, epoch=40),
        Node(node_id=11, role="controller", ranges={feature: (0, highest)}),
    )
    return Cluster(name="c", nodes=nodes, registry="fenced", voters=(11,))


def evidence_of(described: Cluster) -> Evidence:
    batch = snapshot({described.name: lines_of(described)})
    return facts.read(batch, conditions([described]), absent_metadata=1)


def test_what_a_level_depends_on_is_missing_where_nothing_mentions_it() -> None:
    evidence, catalogue = evidence_of(cluster(ELR, 0, 1)), load_catalogue()
    judge = Judge(evidence, bounds(evidence, catalogue), load_dialect("strict"), catalogue)
    assert judge.asked.names == [ELR]
    columns = judge.propose(np.array([1]), np.array([True])).judged.columns
    assert (columns.needed.tolist(), columns.proposed.tolist()) == ([23], [1])


@pytest.mark.parametrize("level", [0, 30])
def test_another_features_level_is_not_taken_for_metadata_version(level: int) -> None:
    fleet = FleetColumns(evidence_of(cluster("vendor.f", level, 40)), load_catalogue().tables)
    dialect = load_dialect("kraft-4.2")
    columns = fleet.propose(np.array([0]), np.array([31]), dialect, release="4.2").judged.columns
    assert columns.metadata_version.tolist() == [1]
    assert columns.metadata_proposed.tolist() == [1]
