"""What minimums would become over a fleet, from what landed; and what a plan has to warn of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurelib.audit.audit import Judged
from featurelib.audit.checks import MINIMUM_CODE as CODE
from featurelib.audit.checks import raised_by
from featurelib.audit.cluster_view import ClusterView
from featurelib.config.fleet import Fleet
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.core.cluster import Request, Update, build
from featurelib.core.dialect import GENERATIONS, load
from featurelib.core.judge import decide, judge
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan
from tests.core import scale
from tests.core.lines import AS_OF, MAX_AGE, findings, judge_rows, lines_of, microseconds, snapshot
from tests.core.oracle import BROKER, Cluster, Node
from tests.core.oracle_cases import TABLES
from tests.core.random_clusters import kraft
from tests.facts import first_fact
from tests.report.samples import CATALOGUE
from tests.seeing import see

Told = dict[str, tuple[int, str]]


def minimums(judged: Judged, cluster: str) -> Told:
    """Feature → what its minimum would become, and what would go away."""
    return {
        row["feature"]: (row["level"], first_fact(row))
        for row in findings(judged, CODE, cluster=cluster)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A cluster, and the minimum its features node stores of every feature."""

    cluster: Cluster
    minimum: int

    def lines(self) -> list[bytes]:
        """What landed; tests.core.lines writes 1 as every minimum."""
        written, wanted = (b'min_version_level\\": %d' % low for low in (1, self.minimum))
        return [line.replace(written, wanted) for line in lines_of(self.cluster)]


LEVELS = st.integers(1, 6)
RANGES = st.dictionaries(
    st.sampled_from("fgh"),
    st.tuples(LEVELS, LEVELS).map(lambda ends: (min(ends), max(ends))),
    min_size=2,
)


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    """A ZooKeeper-mode cluster of up to four brokers, some of them with no word on features."""
    low = draw(st.integers(1, 3))
    nodes = [
        Node(
            node_id=i,
            role=BROKER,
            ranges=draw(RANGES),
            listed=draw(st.sampled_from([True, True, True, False])),
            says_nothing=draw(st.sampled_from([False, False, False, True])),
            answered=draw(st.sampled_from([0, None])),
            epoch=5,
        )
        for i in range(1, 1 + draw(st.integers(1, 4)))
    ]
    stored = draw(st.dictionaries(st.sampled_from("fgh"), st.integers(low, 6), min_size=2))
    schema = draw(st.sampled_from([1, 1, 1, 1, 2]))
    off = draw(st.sampled_from([False, False, False, True]))
    cluster = Cluster(
        name="z", zookeeper=True, nodes=tuple(nodes), stored={} if off else stored, schema=schema,
        system_off=off, controller=1,
    )  # fmt: skip
    return Drawn(cluster=cluster, minimum=low)


def by_hand(one: Drawn) -> Told:
    """KIP-584's sentence, one feature and one broker after the other."""
    found: Told = {}
    for feature, level in one.cluster.stored.items() if one.cluster.schema == 1 else ():
        lows = [
            node.ranges[feature][0]
            for node in one.cluster.nodes
            if node.listed and not node.says_nothing and feature in node.ranges
        ]
        least, low = max(lows, default=0), one.minimum
        if low < least <= level:
            lost = f"level {low}" if least == low + 1 else f"levels {low} to {least - 1}"
            found[feature] = least, lost
    return found


@pytest.mark.no_cover
def test_what_is_told_of_random_fleets_is_the_kip_s_sentence() -> None:
    seen = []

    @settings(max_examples=scale.some(200), deadline=None, database=None, derandomize=True)
    @given(st.lists(drawn(), min_size=2, max_size=4), st.lists(kraft(), max_size=1))
    def check(some: list[Drawn], others: list[Cluster]) -> None:
        lines = {f"c{i}": one.lines() for i, one in enumerate(some)}
        judged = judge_rows(snapshot(lines | {"k": lines_of(others[0])} if others else lines))
        for i, one in enumerate(some):
            told = minimums(judged, f"c{i}")
            assert told == by_hand(one), one
            seen.extend(told)
        assert minimums(judged, "k") == {}

    check()
    assert len(seen) > scale.some(100)


def stored(schema: int = 1, **levels: int) -> Cluster:
    """Broker 3 supports f and g from 4 and 2 on, broker 1 from 1 on and leads."""
    lowest = {"f": (1, 6), "g": (1, 4)}
    nodes = [(1, lowest), (2, lowest), (3, {"f": (4, 6), "g": (2, 4)})]
    return Cluster(
        name="z",
        zookeeper=True,
        schema=schema,
        controller=1,
        stored=levels,
        nodes=tuple(
            Node(node_id=i, role=BROKER, ranges=ranges, listed=True, answered=0, epoch=5)
            for i, ranges in nodes
        ),
    )


def look(cluster: Cluster, release: str = "") -> ClusterView:
    entry = Entry(id=cluster.name, release=release)
    return see(
        lines_of(cluster),
        catalogue=CATALOGUE,
        as_of=microseconds(AS_OF),
        max_age=MAX_AGE,
        fleet=Fleet(cluster=(entry,)),
    )


def test_only_generations_that_keep_minimums_are_told_of() -> None:
    assert [name for name in GENERATIONS if load(name).can.stores_min == "local"] == ["zk-2.7"]
    assert minimums(look(stored(f=5), "3.9").judged, "z") == {}
    assert minimums(look(stored(schema=2, f=5), "").judged, "z") == {}
    assert set(minimums(look(stored(f=5), "").judged, "z")) == {"f"}  # either may run there


def raising(release: str) -> ClusterView:
    """Every broker supports f from 3 on, and 1 to 3 is finalized."""
    cluster = stored(f=3)
    nodes = tuple(replace(node, ranges={"f": (3, 6)}) for node in cluster.nodes)
    return look(replace(cluster, nodes=nodes), release)


def test_a_plan_warns_where_an_update_would_raise_a_minimum() -> None:
    upgrade = Intent(command=Command.UPGRADE, up={"f": "5"})
    planned = make_plan(raising("2.8"), upgrade, CATALOGUE)
    assert planned.plan is not None
    assert [text for text in planned.warnings if text.startswith("f: ")] == [
        "f: its finalized minimum would become 3. Check that no client uses levels 1 to 2 of f any "
        "more; the cluster does not know, ask the clients' own metrics."
    ]
    later = make_plan(raising("3.9"), upgrade, CATALOGUE)
    assert later.plan is not None
    assert not [text for text in later.warnings if text.startswith("f: ")]


def test_requests_in_a_row_raise_a_minimum_once() -> None:
    requests = [Request(updates=(Update(feature="f", level=level),), version=0) for level in (4, 5)]
    cluster = replace(raising("2.8").cluster, release="2.8.2")
    (needed,) = raised_by(cluster, requests, load("zk-2.7"), TABLES)
    assert (needed.feature, needed.first_lost, needed.last_lost) == ("f", 1, 2)
    batch = build([(cluster, requests[0])], load("zk-2.7"), TABLES)
    outcome = decide(batch, load("zk-2.7"), judge(batch, load("zk-2.7"), TABLES))
    assert outcome.after_min[0, batch.names.index("f")] == 3
    assert raised_by(cluster, requests, load("zk-3.3"), TABLES) == ()
