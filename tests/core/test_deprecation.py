"""What minimums become: by the text, and by what controllers of 2.7 to 3.2 do."""

from __future__ import annotations

import numpy as np
import pytest

from featurelib.core.answer import decide, judge
from featurelib.core.cluster import Cluster, Node, Range, Request, Update
from featurelib.core.deprecation import (
    CHECK_CLIENTS,
    Minimums,
    minimums_by_text,
    minimums_by_update,
    requirements,
)
from featurelib.core.dialect import load
from featurelib.core.single import build
from featurelib.core.standing import stand
from featurelib.feature import Role
from tests.core.controllers import transcripts
from tests.core.controllers.deprecation import deprecated_by_the_text, minimum_after_update
from tests.core.controllers.draw import draw
from tests.core.oracle_cases import TABLES, cluster_of, request_of


def zookeeper(*own: dict[str, Range], **finalized: Range) -> Cluster:
    nodes = [
        Node(node_id=i, role=Role.BROKER, release="2.8.2", supported=ranges)
        for i, ranges in enumerate(own, start=1)
    ]
    return Cluster(release="2.8.2", nodes=tuple(nodes), active=1, finalized=finalized)


def by_text(cluster: Cluster) -> tuple[tuple[str, ...], Minimums]:
    standing, members = stand([cluster], load("zk-2.7"), TABLES)
    return standing.names, minimums_by_text(standing, members)


def test_the_text_finalizes_the_highest_minimum_of_any_live_broker() -> None:
    at = zookeeper(
        {"f": (1, 6), "g": (1, 4), "h": (5, 6)}, {"f": (4, 6), "g": (1, 4)},
        f=(1, 5), g=(2, 3), h=(1, 4), i=(1, 1),
    )  # fmt: skip
    names, found = by_text(at)
    after = dict(zip(names, found.after[0].tolist(), strict=True))
    assert (after["f"], after["g"], after["i"]) == (4, 2, 1)
    assert after["h"] == 1  # 5 is above the finalized level: nothing would be left
    assert [names[i] for i in np.flatnonzero(found.impossible[0])] == ["h"]


def test_rising_minimums_need_a_person_who_asks_the_clients() -> None:
    names, found = by_text(zookeeper({"f": (4, 6), "g": (2, 4)}, f=(1, 5), g=(1, 3)))
    first, second = requirements(found, names, 0)
    assert (first.code, first.feature, first.first_lost, first.last_lost) == (
        CHECK_CLIENTS, "f", 1, 3,
    )  # fmt: skip
    assert first.text.startswith("Check that no client uses levels 1 to 3 of f any more;")
    assert second.text.startswith("Check that no client uses level 1 of g any more;")
    assert first.source.startswith("KIP-584")
    assert requirements(by_text(zookeeper({"f": (1, 6)}, f=(1, 5)))[1], names, 0) == ()


def updated(name: str, cluster: Cluster, request: Request) -> tuple[tuple[str, ...], Minimums]:
    dialect = load(name)
    batch = build([(cluster, request)], dialect, TABLES)
    outcome = decide(batch, dialect, judge(batch, dialect, TABLES))
    return batch.names, minimums_by_update(batch, outcome, dialect)


def test_an_update_stores_the_controllers_own_minimum() -> None:
    at = zookeeper({"f": (2, 6), "g": (1, 4)}, {"f": (1, 6), "g": (1, 4)}, f=(3, 3), g=(1, 3))
    names, found = updated(
        "zk-2.7", at, Request(updates=(Update(feature="f", level=5),), version=0)
    )
    f, g = names.index("f"), names.index("g")
    assert (found.before[0, f], found.after[0, f]) == (3, 2)
    assert found.after[0, g] == 1
    assert requirements(found, names, 0) == ()


def test_an_update_under_a_controller_that_outgrew_the_minimum_would_raise_it() -> None:
    """No such controller lives long: it is incompatible itself. But its answer is this."""
    at = zookeeper({"f": (3, 6)}, f=(1, 3))
    request = Request(updates=(Update(feature="f", level=5),), version=0)
    names, found = updated("zk-2.7", at, request)
    (needed,) = requirements(found, names, 0)
    assert (needed.first_lost, needed.last_lost) == (1, 2)
    names, found = updated("zk-3.3", at, request)  # the schema has no minimums any more
    assert requirements(found, names, 0) == ()


def test_every_recorded_update_of_a_minimum_is_told() -> None:
    moved = 0
    for release in ("zk-2.7.2", "zk-2.8.2", "zk-3.2.3"):
        for exchange in transcripts.exchanges(release):
            drawn = exchange.cluster
            after = exchange.raw["after"]["finalized"]
            if drawn.finalized is None or after is None or drawn.status != "Enabled":
                continue
            if drawn.ibp.startswith("2.6") or not drawn.sees_node:
                continue
            names, found = updated("zk-2.7", cluster_of(drawn), request_of_line(exchange))
            told = {
                name: low for name, low in zip(names, found.after[0].tolist(), strict=True) if low
            }
            assert told == {name: low for name, (low, _) in after.items()}, exchange.id
            moved += bool((found.before != found.after).any())
    assert moved > 20


def request_of_line(exchange: transcripts.Exchange) -> Request:
    updates = [
        Update(
            feature=u.feature, level=u.level, kind=u.upgrade_type, allow_downgrade=u.allow_downgrade
        )
        for u in exchange.request.updates
    ]
    asked = exchange.request
    active = exchange.cluster.active()
    return Request(
        updates=tuple(updates),
        version=asked.version,
        timeout_ms=asked.timeout_ms,
        to_active=active is not None and active.node_id == asked.sent_to,
    )


def test_random_clusters_have_the_minimums_the_oracle_says() -> None:
    raised = 0
    for seed in range(400):
        drawn = draw(seed, "zk-2.7")
        at = cluster_of(drawn.cluster)
        names, found = by_text(at)
        told = dict(zip(names, found.after[0].tolist(), strict=True))
        said = {name: low for name, (low, _) in deprecated_by_the_text(drawn.cluster).items()}
        assert {name: told[name] for name in said} == said, seed
        raised += int(found.check_clients.sum())
        names, found = updated("zk-2.7", at, request_of(drawn))
        for i in np.flatnonzero(found.after[0] != found.before[0]).tolist():
            least = minimum_after_update(drawn.cluster, names[i])
            assert found.after[0, i] in (0, least), seed
    assert raised > 50


@pytest.mark.parametrize("count", [1, 60])
def test_many_clusters_at_once_are_as_each_alone(count: int) -> None:
    clusters = [cluster_of(draw(seed, "zk-2.7").cluster) for seed in range(count)]
    standing, members = stand(clusters, load("zk-2.7"), TABLES)
    found = minimums_by_text(standing, members)
    for row, cluster in enumerate(clusters):
        names, alone = by_text(cluster)
        for i, name in enumerate(names):
            assert found.after[row, standing.code(name)] == alone.after[0, i]
