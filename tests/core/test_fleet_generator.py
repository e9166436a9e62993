"""The made-up fleets of the benchmarks: the same bytes every time, good lines, what was planted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks.builds import catalogue_of
from benchmarks.built_rows import build_rows
from benchmarks.facts import Facts, Shape, draw
from benchmarks.fleet_lines import write_lines
from benchmarks.fleet_rows import fold_rows
from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions
from featurelib.core.dialect import load as load_dialect
from featurelib.feature import METADATA_VERSION
from featurelib.landing import Landing, Quarantined, read
from featurelib.rows import join_rows
from featurelib.schema import SNAPSHOT

BAD = Shape(
    clusters=20,
    nodes=9,
    features=12,
    offenders=0.06,
    ghosts=0.04,
    disagreeing=0.2,
    behind=0.3,
    rolling=0.15,
)
KEPT = [name for name in SNAPSHOT.names if name != "state"]
MANY = Shape(clusters=6, nodes=9, features=12, profiles="many", ghosts=0.1)


@pytest.fixture(scope="module")
def facts() -> Facts:
    return draw(BAD)


@pytest.fixture(scope="module")
def judged(facts: Facts) -> Judged:
    (batch,) = fold_rows(facts)
    conditions = Conditions(as_of=facts.as_of, max_age=24 * 3_600_000_000)
    catalogue = catalogue_of(BAD.features)
    return judge(batch, conditions, catalogue, load_dialect("strict"))


def landed(facts: Facts) -> Iterator[Landing]:
    for text in write_lines(facts):
        for raw in text.splitlines():
            line = read(raw)
            assert not isinstance(line, Quarantined), line.reason
            yield line


@pytest.mark.parametrize("shape", [BAD, MANY, Shape(clusters=3, nodes=4, features=1)])
@pytest.mark.parametrize("night", [0, 40])
def test_every_line_is_accepted(shape: Shape, night: int) -> None:
    kinds = Counter(line.kind for line in landed(draw(shape, night)))
    assert kinds == {
        "api_versions": shape.clusters * shape.listeners,
        "describe_cluster": shape.clusters * 2,
        "describe_quorum": shape.clusters,
    }


@pytest.mark.parametrize("shape", [BAD, MANY, Shape(clusters=3, nodes=4, features=1)])
@pytest.mark.parametrize("night", [0, 40])
def test_built_rows_are_the_folded_ones(shape: Shape, night: int) -> None:
    facts = draw(shape, night)
    folded, built = (join_rows(list(rows(facts))).select(KEPT) for rows in (fold_rows, build_rows))
    assert built.to_pylist() == folded.to_pylist()


def test_the_core_finds_the_planted_offenders(facts: Facts, judged: Judged) -> None:
    builds = facts.builds
    planted = {
        (facts.ids[cluster], "broker", node + 1, builds.names[column])
        for cluster, node in np.argwhere(facts.offender).tolist()
        for column in range(len(builds.names))
        if builds.maximum[facts.software[cluster, node], column]
        < builds.levels[facts.finalized[cluster], column]
        and not (facts.dissenter[cluster] >= 0 and builds.names[column] == METADATA_VERSION)
    }
    assert len(planted) >= facts.offender.sum() > 0
    table = judged.incompatible.select(["cluster", "role", "node_id", "feature"])
    assert {tuple(row.values()) for row in table.to_pylist()} == planted
    assert len(table) == len(planted)


@pytest.mark.parametrize("code", ["ghost_broker", "range_unknown"])
def test_the_core_finds_the_planted_ghosts(facts: Facts, judged: Judged, code: str) -> None:
    planted = [(facts.ids[c], node + 1) for c, node in np.argwhere(facts.ghost).tolist()]
    assert planted
    assert sorted(found(judged, code, "node_id")) == sorted(planted)


def test_the_core_finds_the_planted_disagreements(facts: Facts, judged: Judged) -> None:
    planted = [(facts.ids[c], METADATA_VERSION) for c in np.flatnonzero(facts.dissenter >= 0)]
    assert planted
    assert sorted(found(judged, "witnesses_disagree", "feature")) == sorted(planted)


def test_the_core_finds_nothing_that_was_not_planted(judged: Judged) -> None:
    assert set(judged.findings["code"].to_pylist()) <= {
        "generation_ambiguous",  # 4.2 may be 4.1 with unstable features
        "incompatible_with_finalized",
        "unsupported_by_node",
        "dependency_unmet",
        "ghost_broker",
        "range_unknown",
        "refused_by_own_controller",  # where controllers still run the build before
        "witnesses_disagree",
    }


def found(judged: Judged, code: str, column: str) -> list[tuple[str, object]]:
    findings = judged.findings
    table = findings.take(np.flatnonzero(findings.texts("code").equal(code)))
    return list(zip(table["cluster"].to_pylist(), table[column].to_pylist(), strict=True))
