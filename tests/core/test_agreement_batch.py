"""What own controllers refuse in a batch: how far a level is lowered, and what is said of it."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import pytest

from featurelib.audit import evidence as facts
from featurelib.audit.controllers import OwnDialects
from featurelib.audit.evidence import Conditions
from featurelib.audit.findings import Findings, wordings
from featurelib.audit.target import Agreed, Judge, agree, bounds
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load as load_dialect
from tests.core.lines import AS_OF, MAX_AGE, line_of, lines_of, microseconds, snapshot
from tests.core.oracle import CONTROLLER, METADATA, Cluster, Node
from tests.core.random_clusters import GROUP, RELEASES, TRANSACTION

EVEN = {1: {"f": (1, 5)}, 2: {"f": (1, 5)}}
UNEVEN = {1: {"f": (1, 5), "g": (1, 3)}, 2: {"f": (2, 5), "g": (1, 3)}}


def zookeeper(name: str, brokers: dict[int, dict[str, tuple[int, int]]], level: int) -> list[bytes]:
    def znode(path: str, data: dict[str, Any], version: int = 0) -> bytes:
        keys = {"path": path, "version": version, "data": json.dumps(data), "czxid": 7}
        return line_of("znode", name, 1, **keys)

    stored = {"f": {"min_version_level": 1, "max_version_level": level}} if level else {}
    lines = [znode("/feature", {"version": 1, "status": 1, "features": stored}, 3)]
    for node_id, ranges in brokers.items():
        features = {n: {"min_version": a, "max_version": b} for n, (a, b) in ranges.items()}
        lines.append(znode(f"/brokers/ids/{node_id}", {"version": 5, "features": features}))
    return lines


def kraft(name: str, release: str = "4.0", metadata: int = 17) -> list[bytes]:
    levels = {METADATA: metadata}
    nodes = (
        Node(node_id=1, ranges=RELEASES[release], levels=levels, epoch=900),
        Node(node_id=11, role=CONTROLLER, ranges=RELEASES[release]),
    )
    return lines_of(Cluster(name=name, nodes=nodes, voters=(11,), stored=levels))


def agreed(
    told: dict[str, str], **batch: list[bytes]
) -> tuple[Judge, Agreed, list[dict[str, Any]]]:
    """What is agreed on in a batch, and what was said of it."""
    conditions = Conditions(as_of=microseconds(AS_OF), max_age=MAX_AGE)
    evidence, catalogue = facts.read(snapshot(batch), conditions, 1), load_catalogue()
    limits = bounds(evidence, catalogue)
    judge = Judge(evidence, limits, load_dialect("strict"), catalogue)
    usual = {code: words.severity for code, words in wordings(judge.dialect).items()}
    said = Findings(evidence.clusters, usual)
    releases = [told.get(name, "") for name in evidence.clusters]
    own = partial(OwnDialects, evidence, releases, catalogue)
    result = agree(judge, own, limits.ceiling.copy(), said)
    return judge, result, said.table().to_pylist()


def of(judge: Judge, values: np.ndarray, cluster: str, feature: str) -> int:
    asked = judge.asked
    at = asked.cluster == judge.evidence.clusters.index(cluster)
    [found] = np.flatnonzero(at & (asked.feature == asked.names.index(feature)))
    return int(values[found])


def test_a_level_is_lowered_until_the_own_controllers_take_it() -> None:
    judge, result, said = agreed(
        {"named": "3.9.1"},
        other=zookeeper("other", EVEN, 5),
        named=kraft("named"),
        free=kraft("free"),
    )
    assert of(judge, result.target, "named", METADATA) == 23  # the last that 3.9 has heard of
    assert of(judge, result.target, "free", METADATA) == 25
    for feature in (GROUP, TRANSACTION):
        ceiling = of(judge, judge.bounds.ceiling, "named", feature)
        assert of(judge, result.target, "named", feature) == ceiling > 0
    assert of(judge, result.refusals, "named", METADATA) == 1
    assert result.refusals.sum() == 1
    finding, ambiguous = said
    line = judge.evidence.levels.line[1]
    assert (ambiguous["code"], ambiguous["cluster"]) == ("generation_ambiguous", "named")
    assert (finding["code"], finding["cluster"]) == ("refused_by_own_controller", "named")
    assert (finding["feature"], finding["finalized_level"], finding["level"]) == (METADATA, 17, 25)
    assert finding["detail"] == f"unknown_metadata_version of {load_dialect('kraft-3.9').title}"
    assert finding["line_id"] == line
    assert result.dialects == {1: ["kraft-3.9", "kraft-4.0"], 2: ["kraft-4.0"]}


def test_every_level_on_the_way_down_is_asked() -> None:
    judge, result, _ = agreed({"named": "3.7"}, named=kraft("named"))
    assert of(judge, judge.bounds.ceiling, "named", METADATA) == 25
    assert of(judge, result.target, "named", METADATA) == 20  # the last that 3.7 has heard of


@pytest.mark.parametrize(
    ("first", "second", "third", "found"),
    [
        ((2, 5), (1, 5), (1, 6), "node 1 supports 2-5"),
        ((1, 5), (2, 5), (1, 6), "node 2 supports 2-5"),
        ((1, 5), (1, 6), (2, 5), "node 3 supports 2-5"),
    ],
)
def test_the_node_behind_a_refusal_is_named_wherever_it_stands(
    first: tuple[int, int], second: tuple[int, int], third: tuple[int, int], found: str
) -> None:
    brokers = {i: {"a": (1, 1), "f": f} for i, f in enumerate((first, second, third), start=1)}
    _, _, said = agreed({"z": "2.8"}, z=zookeeper("z", brokers, 0))
    why = f"range_unsupported_by_node of {load_dialect('zk-2.7').title}"
    assert {f["detail"] for f in said} == {f"{why}: {found}, and must support 1-5"}


def test_no_own_dialect_is_made_where_nothing_can_go_up() -> None:
    conditions = Conditions(as_of=microseconds(AS_OF), max_age=MAX_AGE)
    full = snapshot({"z": zookeeper("z", EVEN, 5)})
    evidence, catalogue = facts.read(full, conditions, 1), load_catalogue()
    limits = bounds(evidence, catalogue)
    judge = Judge(evidence, limits, load_dialect("strict"), catalogue)

    def never() -> OwnDialects:
        pytest.fail("nothing can go up, so nobody has to answer")

    result = agree(judge, never, limits.ceiling.copy(), Findings(evidence.clusters, {}))
    assert result.unanswered.tolist() == [False]


def test_a_level_never_falls_below_the_one_that_is_finalized() -> None:
    judge, result, said = agreed(
        {"z": "2.8"}, a=kraft("a", metadata=25), z=zookeeper("z", UNEVEN, 2)
    )
    assert of(judge, result.target, "z", "f") == 2
    assert of(judge, result.target, "z", "g") == 3
    assert [(f["feature"], f["finalized_level"], f["level"]) for f in said] == [("f", 2, 5)]
    assert of(judge, result.refusals, "z", "f") == 1


def test_several_dialects_that_fit_are_told_with_their_cluster() -> None:
    judge, result, said = agreed(
        {"b": "3.9"}, a=kraft("a"), b=zookeeper("b", EVEN, 1), c=zookeeper("c", EVEN, 1)
    )
    titles = [load_dialect(name).title for name in ("zk-2.7", "zk-3.3")]
    [finding] = said
    assert (finding["code"], finding["cluster"]) == ("generation_ambiguous", "c")
    assert finding["detail"] == ", ".join(titles)
    assert finding["line_id"] == judge.evidence.levels.line[2]
    assert result.dialects == {0: ["kraft-4.0"], 1: ["zk-3.3"], 2: ["zk-2.7", "zk-3.3"]}
    assert result.refusals.tolist() == [0] * len(result.refusals)


@pytest.mark.parametrize("brokers", [EVEN, UNEVEN])
def test_where_nothing_is_asked_nobody_is(brokers: dict[int, dict[str, tuple[int, int]]]) -> None:
    full = {node: {"f": ranges["f"]} for node, ranges in brokers.items()}
    judge, result, said = agreed({}, z=zookeeper("z", full, 5))
    assert result.target.tolist() == judge.asked.current.tolist() == [5]
    assert (result.dialects, said, result.refusals.tolist()) == ({}, [], [0])


def test_what_is_not_known_is_not_put_to_own_controllers() -> None:
    told = [line for line in zookeeper("z", UNEVEN, 1) if b"/feature" not in line]
    judge, result, said = agreed({}, z=told, a=kraft("a"))
    assert not judge.asked.known[judge.asked.cluster == 0].any()
    assert result.dialects == {1: ["kraft-4.0"]}
    assert said == []
    assert of(judge, result.target, "z", "f") == 5


def test_a_batch_without_an_answer_has_no_dialects() -> None:
    silent = Node(node_id=1, ranges={}, listed=False, answered=None, failed=0)
    cluster = Cluster(name="c", nodes=(silent,), registry="none")
    conditions = Conditions(as_of=microseconds(AS_OF), max_age=MAX_AGE)
    evidence = facts.read(snapshot({"c": lines_of(cluster)}), conditions, 1)
    assert evidence.answering.count.tolist() == [0]
    assert OwnDialects(evidence, [""], load_catalogue()).dialects(0) == []
