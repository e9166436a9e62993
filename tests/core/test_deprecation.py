"""What minimums become: by the text, and by what controllers of 2.7 to 3.2 do."""

from __future__ import annotations

import numpy as np

from featurelib.audit.checks import Minimums, minimums_by_update, requirements
from featurelib.core.cluster import Cluster, Node, Range, Request, Update
from featurelib.core.dialect import load
from featurelib.core.judge import decide, judge
from featurelib.core.single import build
from featurelib.feature import Role
from tests.core.controllers import transcripts
from tests.core.controllers.deprecation import minimum_after_update
from tests.core.controllers.draw import draw
from tests.core.oracle_cases import TABLES, cluster_of, request_of


def zookeeper(*own: dict[str, Range], **finalized: Range) -> Cluster:
    nodes = [
        Node(node_id=i, role=Role.BROKER, release="2.8.2", supported=ranges)
        for i, ranges in enumerate(own, start=1)
    ]
    return Cluster(release="2.8.2", nodes=tuple(nodes), active=1, finalized=finalized)


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
    for seed in range(400):
        drawn = draw(seed, "zk-2.7")
        at = cluster_of(drawn.cluster)
        names, found = updated("zk-2.7", at, request_of(drawn))
        for i in np.flatnonzero(found.after[0] != found.before[0]).tolist():
            least = minimum_after_update(drawn.cluster, names[i])
            assert found.after[0, i] in (0, least), seed
