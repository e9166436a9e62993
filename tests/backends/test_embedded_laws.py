"""The law of the embedded cluster: it passes what the core passes."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from featurelib.backends.embedded import IN_MEMORY
from featurelib.conformance.exchanges import Exchange
from featurelib.core.batch import NOT_HERE
from featurelib.core.cluster import Request, Update, build
from featurelib.core.dialect import GENERATIONS, generation_of
from featurelib.core.dialect import load as load_dialect
from featurelib.core.judge import judge
from featurelib.feature import KRAFT_VERSION
from tests.backends.clusters import TABLES
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
    if judged.door[0] != NOT_HERE or (dialect.can.atomic and offending):
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
