"""Laws of judging and folding, as properties over random clusters."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from featurelib.audit.audit import Judged
from featurelib.audit.findings import wordings
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load as load_dialect
from featurelib.rows import TableRows
from featurelib.snapshot import ClusterState, begin, snapshot_rows
from featurelib.snapshot.state import freeze
from tests.core import scale
from tests.core.lines import (
    DEPENDING,
    answer_line,
    judge_clusters,
    judge_rows,
    landings,
    line_of,
    lines_of,
    snapshot,
)
from tests.core.oracle import METADATA, Cluster, Node
from tests.core.random_clusters import RELEASES, clusters, kraft, with_changes
from tests.core.test_replay import checkpoint, dump, log

TABLES = ("findings", "incompatible", "readiness", "plans")
FEW = settings(max_examples=scale.some(40), derandomize=True, deadline=None, database=None)
SOME = settings(max_examples=scale.some(70), derandomize=True, deadline=None, database=None)
# Findings that say something is missing, and yet change nothing that is already known: the
# catalogue's own limit stands only in the way of what lies beyond it.
HARMLESS = {"level_newer_than_catalogue"}


def rows(judged: Judged, table: str, cluster: str) -> list[str]:
    """Rows of a cluster without the checksum of its snapshot, in which lines have an order."""
    found = getattr(judged, table).to_pylist()
    mine = (row for row in found if row["cluster"] == cluster)
    return sorted(repr({**row, "checksum": None}) for row in mine)


@FEW
@given(clusters())
def test_a_verdict_never_depends_on_the_other_clusters(some: list[Cluster]) -> None:
    together = judge_clusters(*some)
    for cluster in some:
        alone = judge_clusters(cluster)
        for table in TABLES:
            assert rows(alone, table, cluster.name) == rows(together, table, cluster.name)


@FEW
@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_of_clusters_and_lines_changes_nothing(
    some: list[Cluster], chance: random.Random
) -> None:
    lines = {cluster.name: [*lines_of(cluster), *earlier_answers(cluster)] for cluster in some}
    batch = snapshot(lines)
    for mine in lines.values():
        chance.shuffle(mine)
        mine += mine[: len(mine) // 2]  # and some come again
    assert known(snapshot(lines)) == known(batch)
    chance.shuffle(some)
    other = snapshot({cluster.name: lines[cluster.name] for cluster in some})
    one, two = judge_rows(batch, some), judge_rows(other, some)
    for cluster in some:
        for table in TABLES:
            assert rows(one, table, cluster.name) == rows(two, table, cluster.name)


def earlier_answers(cluster: Cluster) -> list[bytes]:
    """What the nodes said two days ago, with other software."""
    old = {"ranges": RELEASES["3.6"], "answered": 50, "epoch": 5, "levels": {METADATA: 1}}
    return [
        answer_line(cluster.name, with_changes(node, **old))
        for node in cluster.nodes
        if node.answered is not None
    ]


@FEW
@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_features_changes_nothing(
    some: list[Cluster], chance: random.Random
) -> None:
    mixed = [shuffled(cluster, chance) for cluster in some]
    before, after = judge_clusters(*some), judge_clusters(*mixed)
    for cluster in some:
        for table in ("readiness", "plans"):
            assert rows(before, table, cluster.name) == rows(after, table, cluster.name)
        assert said(before, cluster.name) == said(after, cluster.name)


def shuffled(cluster: Cluster, chance: random.Random) -> Cluster:
    nodes = []
    for node in cluster.nodes:
        names = chance.sample(list(node.ranges), len(node.ranges))
        nodes.append(with_changes(node, ranges={name: node.ranges[name] for name in names}))
    chance.shuffle(nodes)
    return with_changes(cluster, nodes=tuple(nodes))


def said(judged: Judged, cluster: str) -> list[tuple[object, ...]]:
    """Findings without the line they stand in: its bytes are other ones."""
    return sorted(
        (f["code"], str(f["role"]), f["node_id"] or 0, str(f["feature"]), f["level"] or 0)
        for f in judged.findings.to_pylist()
        if f["cluster"] == cluster
    )


def folded(*nights: list[bytes]) -> TableRows:
    """The snapshot row after these nights, each fold starting from what the last one stored."""
    stored = None
    for night in nights:
        fold = begin(stored, load_catalogue())
        for landing, line_id in landings(night):
            fold.add(landing, line_id)
        fold.close_run()
        stored = freeze(fold.finish())
    collected: list[tuple[str, ClusterState]] = []
    collected.append(("c", begin(stored, load_catalogue()).finish()))
    return snapshot_rows(collected)


def known(batch: TableRows) -> list[dict[str, object]]:
    """Snapshot rows without the bytes that only the next fold reads."""
    return [{k: v for k, v in row.items() if k != "state"} for row in batch.to_pylist()]


def parts(lines: list[bytes], chance: random.Random) -> list[list[bytes]]:
    nights: list[list[bytes]] = [[], [], []]
    for line in lines:
        nights[chance.randrange(3)].append(line)
    return nights


@SOME
@given(clusters(2), st.randoms(use_true_random=False))
def test_folding_in_parts_is_folding_once(some: list[Cluster], chance: random.Random) -> None:
    for cluster in some:
        # A dump of the log is one file: only its lines' order and time of arrival may vary.
        dumps = [line for line in lines_of(cluster) if b'"metadata_log"' in line]
        others = [line for line in lines_of(cluster) if line not in dumps]
        nights = parts(others, chance)
        nights[chance.randrange(3)] += chance.sample(dumps, len(dumps))
        assert known(folded(*nights)) == known(folded([*others, *dumps]))
        assert known(folded(*nights, *nights)) == known(folded([*others, *dumps]))


PIECES = [
    dump(7, log(0, "MV25", "B1", "C1", "B2")),
    dump(6, log(0, "MV25", "B1")),
    dump(5, log(4, "FENCE2", "MV27", "B3", "IDLE")),
    dump(4, log(8, "UNREGISTER3", "BEGIN", "MV29")),
    dump(3, log(11, "G1", "END", "KRAFT1", "B1")),
    dump(2, checkpoint(9, "MV27", "B1", "B2", "C1")),
    dump(1, checkpoint(6, "MV27", "B1", "C1", "B2")),
]


@settings(max_examples=scale.some(120), derandomize=True, deadline=None, database=None)
@given(st.permutations(range(len(PIECES))), st.integers(0, len(PIECES)), st.integers(0, 3))
def test_pieces_of_the_log_may_come_in_any_order_and_late(
    order: list[int], cut: int, again: int
) -> None:
    pieces = [PIECES[i] for i in order]
    nights = [pieces[:cut], pieces[cut:], pieces[again : again + 2]]
    bytes_of = [[line for piece in night for line in piece] for night in nights]
    late = folded(*bytes_of)
    once = folded([line for piece in PIECES for line in piece])
    assert known(late) == known(once)


@SOME
@given(clusters())
def test_every_verdict_rests_on_what_is_known_and_is_explained(some: list[Cluster]) -> None:
    judged = judge_clusters(*some)
    rows, findings = judged.readiness.to_pylist(), judged.findings.to_pylist()
    plans = judged.plans.to_pylist()
    for row in rows:
        mine = [f for f in findings if f["cluster"] == row["cluster"]]
        expect_explained(row, mine)
    ready = [row for row in rows if row["verdict"] == "READY"]
    moves = {(r["cluster"], r["feature"], r["finalized_level"], r["target"]) for r in ready}
    steps = [(plan["cluster"], step) for plan in plans for step in plan["steps"]]
    assert all(step["from_level"] < step["to_level"] for _, step in steps)
    assert all(step["timeout_ms"] > 0 for _, step in steps)
    assert moves == {(c, s["feature"], s["from_level"], s["to_level"]) for c, s in steps}
    # READY rests on a metadata.version and on a controller that are known.
    nobody_says = {
        row["cluster"]
        for row in rows
        if row["feature"] == METADATA and row["finalized_level"] is None
    }
    asked = {plan["cluster"] for plan in plans if plan["dialects"]}
    blind = {f["cluster"] for f in findings if f["code"] == "fails_after_writing"}
    assert {row["cluster"] for row in ready} <= asked - nobody_says - blind


def expect_explained(row: dict[str, Any], findings: list[dict[str, Any]]) -> None:
    """No level is lowered, nothing is missing for READY, and findings say why it is not."""
    feature, verdict, current = row["feature"], row["verdict"], row["finalized_level"] or 0
    assert current <= row["ceiling"]
    if row["target"] is not None:
        assert verdict == "READY"
        assert current < row["target"] <= row["ceiling"]
    said: dict[str, list[dict[str, Any]]] = {"unknown": [], "critical": [], "blocker": []}
    for found in findings:
        said.setdefault(found["severity"], []).append(found)
    if verdict == "READY":
        missing = [f for f in said["unknown"] if f["code"] not in HARMLESS]
        assert not {f["feature"] for f in missing} & {feature, None}, row
    elif verdict == "BLOCKED":
        blockers = [f for f in said["blocker"] if f["feature"] == feature]
        assert row["blockers"] == len(blockers) > 0, row
    elif verdict == "UNKNOWN":
        # What a feature depends on explains it too; that a node does not fit is known.
        near = [
            f["code"]
            for f in (*said["unknown"], *said["critical"])
            if f["feature"] in (None, feature, METADATA)
        ]
        assert set(near) - {"incompatible_with_finalized"}, row


@SOME
@given(st.lists(kraft(), min_size=2, max_size=4))
def test_after_an_upgrade_all_plan_there_is_nothing_left_to_plan(some: list[Cluster]) -> None:
    named = [with_changes(cluster, name=f"cluster-{i}") for i, cluster in enumerate(some)]
    before = judge_clusters(*named)
    steps = {
        plan["cluster"]: {step["feature"]: step["to_level"] for step in plan["steps"]}
        for plan in before.plans.to_pylist()
    }
    after = judge_clusters(*[finalized(cluster, steps[cluster.name]) for cluster in named])
    for plan in after.plans.to_pylist():
        assert plan["steps"] == [], plan
    done = {(name, feature): level for name, of in steps.items() for feature, level in of.items()}
    for row in after.readiness.to_pylist():
        key = (row["cluster"], row["feature"])
        if key in done:
            assert row["finalized_level"] == done[key]
            assert row["verdict"] in ("UP_TO_DATE", "BLOCKED", "UNKNOWN")
    unfit = [r for r in after.incompatible.to_pylist() if (r["cluster"], r["feature"]) in done]
    assert unfit == []


def finalized(cluster: Cluster, levels: dict[str, int]) -> Cluster:
    """The cluster after a plan's steps: all who spoke of levels say the new ones."""
    nodes = tuple(
        node if node.epoch < 0 else with_changes(node, levels={**(node.levels or {}), **levels})
        for node in cluster.nodes
    )
    return with_changes(cluster, nodes=nodes, stored={**cluster.stored, **levels})


@cache
def codes_over_random_clusters() -> Counter[str]:
    drawn: list[Cluster] = []

    @settings(
        max_examples=300 if scale.WHOLE else 240,  # rare codes come after 128
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
    )
    @given(clusters())
    def collect(some: list[Cluster]) -> None:
        drawn.extend(with_changes(c, name=f"drawn-{len(drawn) + i}") for i, c in enumerate(some))

    collect()
    return Counter(judge_clusters(*drawn, catalogue=DEPENDING).findings["code"].to_pylist())


# What no audit can be refused for: it raises levels, under one type, of features that have a name,
# and where it is not known whether voters are ready that is no reason.
NEVER = {
    "empty_name", "unknown_upgrade_type", "negative_level", "downgrade_without_intent",
    "upgrade_under_downgrade_type", "raft_voters_not_ready", "change_under_downgrade_type",
    "lossy_safe_downgrade",
    "during_zk_migration",  # drawn are migrations of which no controller says a level
}  # fmt: skip


def test_every_rule_that_an_audit_asks_fires_or_cannot() -> None:
    strict = load_dialect("strict")
    asked = {row.code for row in strict.in_audits.rules}
    assert {row.code for row in strict.rules} - asked == {"dependant_broken"}
    assert asked & codes_over_random_clusters().keys() == asked - NEVER


def test_every_code_that_is_found_has_words() -> None:
    assert set(codes_over_random_clusters()) <= set(wordings(load_dialect("strict")))


@pytest.mark.parametrize(
    "order", [[0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 2, 1], [1, 2, 0], [2, 0, 1]]
)
def test_a_features_node_is_recreated_or_not_whatever_came_first(order: list[int]) -> None:
    content = '{"version":2,"status":1,"features":{}}'
    reads = [("/features", 10, 3), ("/feature", 20, 2), ("/features", 30, 1)]
    lines = [
        line_of("znode", "c", age, path=path, version=0, czxid=czxid, data=content)
        for path, czxid, age in reads
    ]
    assert known(folded([lines[i] for i in order])) == known(folded(lines))


def test_equal_knowledge_is_stored_as_equal_bytes() -> None:
    cluster = Cluster(name="c", zookeeper=True, nodes=(Node(node_id=1, ranges={"f": (1, 2)}),))
    lines = lines_of(cluster)
    assert folded(lines).to_pylist() == folded(lines[::-1]).to_pylist()
