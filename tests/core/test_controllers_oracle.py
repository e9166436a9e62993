"""The plain oracle of controllers against everything that was recorded of real ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.core.controllers import transcripts
from tests.core.controllers.draw import draw
from tests.core.controllers.java import ids_in_map_order, ids_in_table_order, names_in_map_order
from tests.core.controllers.model import ANSWERS, answer, generation_of
from tests.core.controllers.words import (
    CONTROLLER,
    ELR,
    KRAFT,
    METADATA,
    Cluster,
    Node,
    Request,
    Update,
)

AGAIN, RAFT = "nodes registered again", "kraft.version wrote control records"
# Lines of each file, and those whose epoch moved for another reason than the request.
LINES = {
    "3.3.2": (164, {}),
    "3.4.1": (113, {}),
    "3.5.2": (197, {}),
    "3.6.2": (110, {}),
    "3.7.2": (249, {AGAIN: 1}),
    "3.8.1": (250, {AGAIN: 3}),
    "3.9.2": (392, {AGAIN: 4}),
    "4.0.1": (491, {AGAIN: 2}),
    "4.1.2": (538, {AGAIN: 2}),
    "4.2.1": (569, {AGAIN: 2}),
    "4.3.1": (576, {AGAIN: 2}),
    "4.4.0": (558, {AGAIN: 4, RAFT: 1}),
    "zk-2.7.2": (119, {}),
    "zk-2.8.2": (127, {}),
    "zk-3.2.3": (119, {}),
    "zk-3.3.2": (329, {}),
    "zk-3.5.2": (330, {}),
    "zk-3.9.2": (337, {}),
}


def test_no_transcript_is_left_out() -> None:
    assert transcripts.releases() == sorted(LINES)
    assert sum(lines for lines, _ in LINES.values()) == 5568


@pytest.mark.parametrize("name", sorted(LINES))
def test_the_oracle_answers_like_the_real_controller(name: str) -> None:
    wrong, noise, lines = {}, Counter[str](), 0
    for exchange in transcripts.exchanges(name):
        generation = generation_of(exchange.cluster.mode, exchange.cluster.release)
        verdict = transcripts.compare(
            exchange, answer(generation, exchange.cluster, exchange.request)
        )
        lines += 1
        noise.update(verdict.noise)
        if verdict.differences:
            wrong[exchange.id] = verdict.differences
    assert wrong == {}
    assert (lines, dict(noise)) == LINES[name]


def test_a_wrong_answer_is_noticed() -> None:
    """The comparison is no yes-man: another generation's answers differ."""
    others = {"3.6.2": "3.7.2", "4.1.2": "4.2.1", "zk-3.2.3": "3.3.2"}
    for name, other in others.items():
        found = [
            transcripts.compare(
                exchange,
                answer(
                    generation_of(exchange.cluster.mode, other),
                    replace(exchange.cluster, release=other),
                    exchange.request,
                ),
            )
            for exchange in transcripts.exchanges(name)
        ]
        assert sum(bool(verdict.differences) for verdict in found) > 10, name


def test_orders_of_java() -> None:
    known = [METADATA, KRAFT, "transaction.version", "group.version", ELR, "share.version"]
    ordered = ["group.version", KRAFT, METADATA, "share.version", "streams.version"]
    ordered += ["transaction.version", ELR]
    assert names_in_map_order([*known, "streams.version"]) == ordered
    assert names_in_map_order(["BB", "Aa"]) == ["BB", "Aa"]  # the same hash
    assert ids_in_map_order([17, 3, 2]) == [17, 2, 3]
    assert sorted(ids_in_table_order(range(1, 41))) == list(range(1, 41))
    assert ids_in_table_order([1, 2, 3]) == [2, 1, 3]


def kraft(release: str, levels: dict[str, int], *nodes: Node) -> Cluster:
    finalized = {name: (level, level) for name, level in levels.items()}
    return Cluster(release=release, mode="kraft", nodes=nodes, finalized=finalized)


def test_a_refused_request_moves_kraft_version() -> None:
    """`kafka-features upgrade --release-version 4.2` against 4.2.1 with one 4.0.1 broker."""
    new = {METADATA: (7, 29), KRAFT: (0, 1), "group.version": (0, 1)}
    old = {METADATA: (7, 25), KRAFT: (0, 1), "group.version": (0, 1)}
    at = kraft(
        "4.2.1",
        {METADATA: 25, "group.version": 1},
        Node(node_id=1, role=CONTROLLER, release="4.2.1", supported=new, active=True),
        Node(node_id=1, release="4.2.1", supported=new),
        Node(node_id=2, release="4.0.1", supported=old),
    )
    asked = (Update(METADATA, 29), Update(KRAFT, 1), Update("group.version", 1))
    for dry in (True, False):
        request = Request(version=1, updates=asked, sent_to=1, validate_only=dry)
        found = answer("kraft-4.2", at, request)
        assert found.code == 95
        assert str(found.message).endswith("Broker 2 only supports versions 7-25")
        assert ((found.after or {}).get(KRAFT) == (1, 1)) == (not dry)


@pytest.mark.parametrize("generation", sorted(ANSWERS))
def test_drawn_requests_are_answered(generation: str) -> None:
    codes = Counter[int]()
    for seed in range(400):
        drawn = draw(seed, generation)
        assert draw(seed, generation) == drawn
        cluster, request = drawn.cluster, drawn.request
        found = answer(generation, cluster, request)
        codes[found.code] += 1
        codes.update(result.code for result in found.results or [])
        for result in found.results or []:
            assert result.code in (0, 42, 95, 96)
        assert (found.results is None) == (request.version == 2 and generation != "kip")
        honoured = request.validate_only and not generation.startswith("zk")
        if honoured or found.code in (31, 41):
            assert (found.after, found.epoch_moved, found.steps) == (cluster.finalized, False, 0)
        assert bool(found.epoch_moved) == (found.steps > 0)
    assert min(codes[0], codes[31], codes[41]) > 0
    assert codes[42] + codes[95] > 100
