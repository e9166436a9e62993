"""What the next election leaves, broker by broker: random clusters against the plain oracle."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurelib.audit.cluster_view import ClusterView
from featurelib.config.fleet import Fleet
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.core.features_znode import Entries, ZnodeChange
from featurelib.extras.elections.foresee import (
    Doubt,
    Foreseen,
    foresee_election,
    is_protocol_version,
)
from tests.core.controllers.election import elect as elect_by_oracle
from tests.core.lines import AS_OF, MAX_AGE, lines_of, microseconds
from tests.core.oracle import BROKER, Cluster, Node
from tests.questions.nights import CATALOGUE
from tests.seeing import see

VERSIONS = ("2.6", "2.7", "3.2", "3.3", "3.9")
RELEASE = {"zk-2.7": "2.8.2", "zk-3.3": "3.9.2"}  # of the oracle, for each dialect
After = tuple[bool, int, bool, Entries]  # written, schema, enabled, levels
Left = tuple[bool, int, bool, tuple[tuple[str, int], ...]]  # the same without minimums


def seen(lines: list[bytes], told: str = "") -> ClusterView:
    fleet = Fleet(cluster=(Entry(id="z", release=told),))
    at = microseconds(AS_OF)
    return see(lines, catalogue=CATALOGUE, as_of=at, max_age=MAX_AGE, fleet=fleet)


LEVELS = st.integers(1, 5)
SPANS = st.tuples(LEVELS, LEVELS).map(lambda ends: (min(ends), max(ends)))
RANGES = st.dictionaries(st.sampled_from("fgh"), SPANS, min_size=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A cluster, the minimum stored of every feature, and the release the inventory names."""

    cluster: Cluster
    minimum: int
    told: str

    def lines(self) -> list[bytes]:
        """What landed; tests.core.lines writes 1 as every minimum."""
        written, wanted = (b'min_version_level\\": %d' % low for low in (1, self.minimum))
        return [line.replace(written, wanted) for line in lines_of(self.cluster)]

    @property
    def text(self) -> str | None:
        (line,) = (line for line in self.lines() if b'"/feature"' in line)
        text: str | None = json.loads(line)["data"]
        return text

    @property
    def dialects(self) -> set[str]:
        if self.told:
            return {"zk-2.7" if self.told == "2.8.2" else "zk-3.3"}
        there = self.cluster.features_node
        modern = there and self.cluster.schema == 2
        return {"zk-3.3"} if modern else {"zk-2.7", "zk-3.3"}

    @property
    def there(self) -> list[Node]:
        """Who is registered, or answered since registrations were read."""
        return [node for node in self.cluster.nodes if node.listed or node.answered is not None]

    def known(self, node: Node) -> bool:
        """Whether the broker's software has said what it supports."""
        if not node.listed:
            return not any(other.listed for other in self.cluster.nodes)
        if not node.says_nothing:
            return True
        return self.cluster.system_off and self.cluster.features_node and node.answered is not None


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    """A ZooKeeper-mode cluster of up to four brokers, on, off, or without a features node."""
    low, wide = draw(st.integers(1, 2)), dict.fromkeys("fgh", (1, 6))
    nodes = [
        Node(
            node_id=i,
            role=BROKER,
            ranges=draw(st.one_of(RANGES, st.just(wide), st.just(wide))),
            listed=draw(st.sampled_from([True, True, True, False])),
            says_nothing=draw(st.sampled_from([False, False, False, False, True])),
            answered=draw(st.sampled_from([0, None])),
            epoch=-1,
        )
        for i in range(1, 1 + draw(st.integers(0, 5)))
    ]
    stored = draw(st.dictionaries(st.sampled_from("fgh"), st.integers(low, 6)))
    content = draw(st.sampled_from(["on", "on", "on", "off", "absent"]))
    cluster = Cluster(
        name="z", zookeeper=True, nodes=tuple(nodes), stored={} if content == "absent" else stored,
        schema=draw(st.sampled_from([1, 1, 2])), system_off=content == "off",
        features_node=content != "absent",
        controller=min((node.node_id for node in nodes if node.listed), default=1),
    )  # fmt: skip
    return Drawn(cluster=cluster, minimum=low, told=draw(st.sampled_from(["", "", "2.8.2", "3.9"])))


def lives_with(node: Node, said: After, dialect: str) -> bool:
    for name, low, level in said[3] if said[2] else ():
        least, most = node.ranges.get(name, (0, 0))
        below = low if dialect == "zk-2.7" else level
        if name not in node.ranges or below < least or most < level:
            return False
    return True


def by_hand(one: Drawn, dialect: str, version: str) -> tuple[set[After], dict[After, set[int]]]:
    """Broker by broker: what each one elected leaves, and who cannot live with that."""
    there = one.there
    known = [n for n in there if one.known(n)]
    left = set[After]()
    for node in known:
        said = elect_by_oracle(RELEASE[dialect], version, one.text, node.ranges)
        if said.node is None:
            continue
        levels = said.node.features if said.node.enabled else {}
        entries = tuple(sorted((name, *ends) for name, ends in levels.items()))
        outcome = said.written, said.node.schema, said.node.enabled, entries
        if one.text is None or lives_with(node, outcome, dialect):
            left.add(outcome)
    ends = {said: {n.node_id for n in known if not lives_with(n, said, dialect)} for said in left}
    return left, ends


def fates(found: Foreseen, dialect: str) -> dict[Left, set[int]]:
    """What is left in one dialect, and who ends over it."""
    left = dict[Left, set[int]]()
    for one in found.outcomes:
        content = one.election.content
        if dialect in one.dialects and content is not None and one.certain:
            written = one.election.change in (ZnodeChange.CREATED, ZnodeChange.REWRITTEN)
            # Dialects that leave the same text are one outcome, read as the first of them does.
            levels = tuple((name, level) for name, _, level in content.levels)
            said = written, content.schema_version, content.status == 1, levels
            left.setdefault(said, set()).update(one.ends)
    return left


@pytest.mark.no_cover
def test_random_elections_end_as_each_broker_s_by_hand() -> None:
    marks = set[object]()

    @settings(max_examples=250, deadline=None, database=None, derandomize=True)
    @given(drawn(), st.sampled_from(VERSIONS))
    def check(one: Drawn, version: str) -> None:
        there = one.there
        able = {d for d in one.dialects if d == "zk-3.3" or version < "3.3"}
        found = foresee_election(seen(one.lines(), one.told), version)
        if not (able and there):
            assert found.doubt in (Doubt.NO_BROKER, Doubt.NO_DIALECT)
            marks.add(found.doubt)
            return
        assert {name for some in found.outcomes for name in some.dialects} == able, one
        assert set(found.silent) == {n.node_id for n in there if not one.known(n)}
        for dialect in able:
            left, ends = by_hand(one, dialect, version)
            if not found.silent or left:
                assert fates(found, dialect) == {
                    (*said[:3], tuple((name, level) for name, _, level in said[3])): gone
                    for said, gone in ends.items()
                }, one
            changes = {o.election.change for o in found.outcomes if dialect in o.dialects}
            assert found.silent or (ZnodeChange.NOBODY in changes) == (not left)
            marks.update(changes, (bool(found.silent), (len(left),)))
            marks.update(["some end over it"] if one.text and any(ends.values()) else [])

    check()
    assert {*ZnodeChange, Doubt.NO_BROKER, Doubt.NO_DIALECT, True, False, (2,)} <= marks
    assert "some end over it" in marks


PLAIN = Cluster(
    name="z", zookeeper=True, schema=1, stored={"f": 2}, controller=1,
    nodes=(Node(node_id=1, ranges={"f": (1, 3)}, epoch=-1),),
)  # fmt: skip


def test_a_node_that_was_read_too_long_ago_leaves_the_election_open() -> None:
    assert foresee_election(seen(lines_of(PLAIN)), "2.6").doubt is None
    old = foresee_election(seen(lines_of(replace(PLAIN, registry_age=100))), "2.6")
    assert (old.doubt, old.outcomes) == (Doubt.TOO_OLD, ())


def test_a_broker_of_which_nobody_knows_the_range_may_be_elected_where_all_others_end() -> None:
    silent = Node(node_id=2, ranges={}, says_nothing=True, answered=None, epoch=-1)
    some = replace(PLAIN, stored={"f": 4}, nodes=(*PLAIN.nodes, silent))
    found = foresee_election(seen(lines_of(some), "2.8"), "2.8")
    assert [(one.election.change, one.ends) for one in found.outcomes] == [
        (ZnodeChange.UNCHANGED, {1: ("f",)})
    ]


def test_what_metadata_version_of_3_9_0_makes_of_it() -> None:
    """Recorded: MetadataVersion.fromVersionString of kafka-server-common 3.9.0. What follows the
    release is cut off in 2.7.1-IV9."""
    there = ["2.6", "2.7.1", "2.7-IV2", "2.7.1-IV9", "0.10.0", "0.10.0-IV1", "0.8.2.1", "1.0-IV0"]
    there += ["3.9-IV0"]
    none = ["2.7-IV3", "2.7-IV9", "0.8.2-IV0", "0.9", "3.9-IV1", "4.0", "2.10", "2", "2.6."]
    none += [" 2.6", "2.6\n", ""]
    assert [text for text in there + none if is_protocol_version(text)] == there
