"""Laws of the embedded cluster: it passes what the core passes, and no unfit node runs on."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from featurelib.core.batch import NOT_HERE
from featurelib.core.cluster import Cluster, Features, Node, Request, Update, build
from featurelib.core.compatibility import Effect, stopped
from featurelib.core.dialect import GENERATIONS, generation_of
from featurelib.core.dialect import load as load_dialect
from featurelib.core.judge import judge
from featurelib.errors import InputError
from featurelib.extras.conformance.exchanges import Exchange
from featurelib.feature import KRAFT_VERSION, Role
from tests.backends.clusters import IN_MEMORY, TABLES
from tests.backends.simulator import Simulated
from tests.core import recordings

SLOW = [HealthCheck.too_slow]


@cache
def recorded(generation: str) -> tuple[Exchange, ...]:
    """The recorded exchanges of one generation: clusters as they really were."""
    return tuple(
        exchange
        for exchange in recordings.every()
        if generation_of(exchange.cluster.release, exchange.mode) == generation
    )


UPDATES = st.lists(
    st.builds(
        lambda feature, level, kind: Update(feature=feature, level=level, kind=kind),
        st.sampled_from(["metadata.version", "kraft.version", "group.version", "f", "g", "none"]),
        st.sampled_from([-1, 0, 1, 2, 3, 4, 8, 14, 15, 20, 21, 25, 29, 99]),
        st.sampled_from([1, 1, 2, 3, 4]),
    ),
    max_size=4,
    unique_by=lambda update: update.feature,  # of a name that stands twice one result is told
)


@pytest.mark.parametrize("generation", GENERATIONS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_it_accepts_exactly_what_the_core_passes(generation: str, data: st.DataObject) -> None:
    """What no rule of the dialect refuses is answered as good and applied; nothing else is."""
    exchange = data.draw(st.sampled_from(recorded(generation)))
    dialect, before = load_dialect(generation), exchange.cluster
    request = Request(
        updates=tuple(data.draw(UPDATES)),
        validate_only=data.draw(st.booleans()),
        version=min(1, max(dialect.can.wire_versions)),
    )
    batch = build([(before, request)], dialect, TABLES)
    judged = judge(batch, dialect, TABLES)
    offending = {
        batch.names[feature]
        for feature, bad in zip(batch.updates.feature, judged.offends.any(axis=0), strict=True)
        if bad
    }
    with Simulated(IN_MEMORY, TABLES, mode=exchange.mode) as cluster:
        cluster.put(before, 5)
        answered = cluster.update_features(request).answered
        after, epoch = cluster.cluster.finalized, cluster.epoch
    reply, told = answered.reply, {refusal.feature for refusal in answered.refusals}
    assert told - {""} == offending  # "": of the request as a whole
    if judged.rejecting_check[0] != NOT_HERE or (dialect.can.atomic and offending):
        assert reply.code != 0
        assert (after == before.finalized and epoch == 5) or answered.unsure
        return
    waited = dialect.can.after_failed_wait
    refused = {r.feature for r in reply.results or () if r.code not in (0, waited)}
    assert (reply.code, refused) == (0, offending)
    good = [u for u in request.updates if u.feature not in offending]
    dry = request.validate_only and dialect.can.validate_only == "honoured"
    if dry or not good:
        assert (after, epoch) == (before.finalized, 5)
    elif not before.node_missing:
        plain = [u for u in good if u.feature != KRAFT_VERSION]
        assert {u.feature: max(u.level, 0) for u in plain} == {
            u.feature: after.get(u.feature, (0, 0))[1] for u in plain
        }


# Whatever happens

RELEASES = {
    "zk": ("2.8.2", "3.3.2", "3.9.2"),
    "kraft": ("3.3.2", "3.5.2", "3.7.2", "3.8.1", "3.9.2", "4.0.1", "4.1.2", "4.2.1"),
}
LEVELS = {"zk": st.integers(0, 6), "kraft": st.sampled_from([0, 1, 2, 7, 11, 14, 16, 19, 21, 25])}
NAMES = {"zk": ("f", "g"), "kraft": ("metadata.version", "group.version", "f")}


@st.composite
def nodes(draw: st.DrawFn, mode: str, node_id: int) -> Node:
    role = draw(st.sampled_from(Role)) if mode == "kraft" else Role.BROKER
    supported: Features = {}
    for name in NAMES[mode]:
        if name == "metadata.version":
            supported[name] = (1, draw(st.sampled_from([7, 14, 21, 25])))
        elif draw(st.booleans()):
            low = draw(st.integers(mode == "zk", 2))
            supported[name] = (low, low + draw(st.integers(0, 4)))
    return Node(
        node_id=node_id,
        role=role,
        supported=supported,
        release=draw(st.sampled_from((*RELEASES[mode], ""))),
        voter=role is Role.CONTROLLER,
    )


def requests(mode: str, version: int) -> st.SearchStrategy[Request]:
    update = st.builds(
        Update,
        feature=st.sampled_from(NAMES[mode]),
        level=LEVELS[mode],
        kind=st.integers(1, 3),
        allow_downgrade=st.booleans(),
    )
    some = st.lists(update, min_size=1, max_size=2, unique_by=lambda u: u.feature)
    return st.builds(lambda updates: Request(updates=tuple(updates), version=version), some)


def act(cluster: Simulated, data: st.DataObject) -> None:
    """One thing that may happen to a cluster; nodes of ZooKeeper mode are all there at first."""
    node_id, what = data.draw(st.integers(1, 4)), ["update", "update", "fence", "stop", "elect"]
    what += ["unregister", "settle", *["register"] * 2 * (cluster.mode == "kraft")]
    name = data.draw(st.sampled_from(what))
    if name == "update":
        request = data.draw(requests(cluster.mode, min(cluster.dialect().can.wire_versions)))
        cluster.update_features(request, lagging=data.draw(st.booleans()))
    elif name == "register":
        cluster.register(data.draw(nodes(cluster.mode, node_id)))
    else:
        getattr(cluster, name)(*(() if name == "settle" else (node_id,)))


@pytest.mark.parametrize("generation", GENERATIONS)
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_no_node_runs_that_cannot_live_with_what_is_finalized(
    generation: str, data: st.DataObject
) -> None:
    """Whatever happened, once all nodes have applied it; who follows no longer is left out."""
    mode = generation.split("-")[0]
    kraft = mode == "kraft"
    release = next(r for r in RELEASES[mode] if generation_of(r, mode) == generation)
    levels: Features = {"metadata.version": (7, 7)} if kraft else {}
    role = Role.CONTROLLER if kraft else Role.BROKER
    own: Features = {"metadata.version": (1, 25)} if kraft else {"f": (1, 6), "g": (1, 6)}
    first = Node(node_id=1, role=role, supported=own, release=release, voter=kraft)
    others = [] if kraft else [data.draw(nodes(mode, node_id)) for node_id in (2, 3, 4)]
    with Simulated(IN_MEMORY, TABLES, mode=mode) as cluster:
        start = Cluster(release=release, nodes=(first, *others), active=1, finalized=levels)
        cluster.put(start, 5)
        for _ in range(data.draw(st.integers(1, 8))):
            epoch, before = cluster.epoch, cluster.cluster
            try:
                act(cluster, data)
            except InputError:
                assert (cluster.epoch, cluster.cluster) == (epoch, before)
        cluster.settle()
        check(cluster)


def check(cluster: Simulated) -> None:
    """Every running node, held against what it shows to be finalized."""
    now, dialect = cluster.cluster, cluster.dialect()
    running = [node for node in now.nodes if node.running]
    assert now.active in {-1, *(node.node_id for node in running)}
    for node in running:
        shows = {
            e["name"]: (e["min_version_level"], e["max_version_level"])
            for e in cluster.describe(node.node_id, role=node.role)["finalized_features"]
        }
        alone = tuple(n for n in now.nodes if n.node_id == node.node_id)
        held = replace(now, nodes=alone, finalized=shows, off=False)
        assert all(item.effect is not Effect.EXITS for item in stopped(held, dialect, TABLES))
        if cluster.mode == "kraft" and node.role is Role.CONTROLLER:
            real = replace(held, finalized=now.finalized)
            assert all(item.effect is not Effect.EXITS for item in stopped(real, dialect, TABLES))
