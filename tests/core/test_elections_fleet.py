"""What elections make of the features nodes of a fleet: by hand, and cluster by cluster."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load
from featurelib.core.election import Change, Election, Entries, Reason, elect
from featurelib.core.elections import (
    ANYBODY,
    UNKNOWN_RANGE,
    Doubt,
    Elections,
    elections_of_fleet,
)
from featurelib.core.evidence import Conditions, Evidence, Expected, read
from featurelib.core.features_node import Generation
from featurelib.core.own_dialect import OwnDialects
from featurelib.snapshot.unpacked import UNPACKED, unpack
from tests.core.controllers.election import elect as elect_by_oracle
from tests.core.lines import AS_OF, MAX_AGE, lines_of, microseconds, snapshot
from tests.core.oracle import BROKER, Cluster, Node
from tests.core.random_clusters import kraft
from tests.core.test_cluster_of import BATCH, CONDITIONS, POSITION, sample

CATALOGUE = load_catalogue()
VERSIONS = ("2.6", "2.7", "3.2", "3.3", "3.9")
GENERATIONS = {"2.8.2": Generation.ZK_2_7, "3.9": Generation.ZK_3_9}
RELEASE = {"zk-2.7": "2.8.2", "zk-3.3": "3.9.2"}  # of the oracle, for each dialect
After = tuple[bool, int, bool, Entries]  # written, schema, enabled, levels


def asked(
    rows: pa.RecordBatch, version: str, told: list[str], conditions: Conditions
) -> tuple[Elections, Evidence]:
    evidence = read(rows, conditions, absent_metadata=1)
    own = OwnDialects(evidence, told, CATALOGUE)
    return elections_of_fleet(rows, evidence, own, version), evidence


def ids(evidence: Evidence, profile: int) -> set[int]:
    """The brokers behind an answering profile."""
    mine = evidence.answering.of_subject == profile
    return set(evidence.subjects.node_id[mine].tolist())


def after(found: Election) -> After | None:
    if found.content is None:
        return None
    written = found.change in (Change.CREATED, Change.REWRITTEN)
    content = found.content
    return written, content.schema_version, content.status == 1, content.levels


@cache
def samples(version: str) -> tuple[Elections, Evidence]:
    return asked(BATCH, version, [""] * BATCH.num_rows, CONDITIONS)


def rows_of(found: Elections, position: int) -> list[int]:
    return [k for k, where in enumerate(found.cluster.tolist()) if where == position]


def of_sample(name: str, version: str) -> dict[str, Election]:
    found, _ = samples(version)
    return {found.dialect[k]: found.found[k] for k in rows_of(found, POSITION[name])}


ZOOKEEPER = [name for name in POSITION if name.startswith("zk-")]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_sample_s_election_in_a_fleet_is_that_of_each_of_its_brokers_alone(version: str) -> None:
    found, evidence = samples(version)
    for name in ZOOKEEPER:
        text = BATCH.column("features_node")[POSITION[name]].as_py()
        for k in rows_of(found, POSITION[name]):
            dialect = load(found.dialect[k])
            stops = {
                node_id
                for profile, row in zip(found.misfit_profile, found.misfit, strict=True)
                for node_id in ids(evidence, profile)
                if row == k
            }
            for node in sample(name).nodes:
                if not node.registered or (name, node.node_id) == ("zk-282-ignored-broker", 2):
                    continue
                alone = elect(text, version, node.supported, dialect)
                if alone.unfit:
                    assert node.node_id in stops, (name, node)
                    continue
                assert alone == found.found[k], (name, node)
                assert alone.version(evidence.levels.epoch[POSITION[name]]) == found.version[k]
                assert node.node_id not in stops


def test_at_2_6_every_finalized_level_is_lost() -> None:
    found, evidence = samples("2.6")
    for name in ZOOKEEPER:
        position = POSITION[name]
        for k in rows_of(found, position):
            one = found.found[k]
            said = {n: level for n, _, level in one.lost}
            mine = evidence.levels.entry_cluster == position
            names = evidence.levels.names.filter(pa.array(mine)).to_pylist()
            assert set(said) == set(names), name
            assert bool(found.loses[k]) == bool(names)
            assert one.content is not None
            assert (one.content.status, one.content.levels) == (0, ())
    ranges = of_sample("zk-282-ranges", "2.6")
    assert {name: one.lost for name, one in ranges.items()} == {
        "zk-2.7": (("search.index", 1, 3), ("tiering", 1, 1)),
        "zk-3.3": (("search.index", 3, 3), ("tiering", 1, 1)),
    }
    assert {one.reasons for one in ranges.values()} == {(Reason.DISABLED,)}
    assert of_sample("zk-282-disabled", "2.6")["zk-2.7"].change is Change.UNCHANGED
    stock = of_sample("zk-392-stock", "2.6")
    assert set(stock) == {"zk-3.3"}  # older brokers do not write its schema
    assert stock["zk-3.3"].reasons == (Reason.DISABLED, Reason.SCHEMA_DOWN)


def test_a_protocol_version_that_no_release_of_a_dialect_knows_elects_nobody_there() -> None:
    assert set(of_sample("zk-282-ranges", "3.2")) == {"zk-2.7", "zk-3.3"}
    assert set(of_sample("zk-282-ranges", "3.3")) == {"zk-3.3"}
    told = ["2.8.2" if i == POSITION["zk-282-ranges"] else "" for i in range(BATCH.num_rows)]
    found, _ = asked(BATCH, "3.3", told, CONDITIONS)
    assert (POSITION["zk-282-ranges"], Doubt.NO_DIALECT) in found.doubts


def test_nothing_is_said_of_a_quorum() -> None:
    found, _ = samples("2.6")
    others = {i for name, i in POSITION.items() if not name.startswith("zk-")}
    assert dict(found.doubts) == dict.fromkeys(others, Doubt.NOT_ZOOKEEPER)


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
        """Who is registered; where no registration landed, who answered."""
        nodes = self.cluster.nodes
        listed = [node for node in nodes if node.listed]
        return listed or [node for node in nodes if node.answered is not None]

    def known(self, node: Node) -> bool:
        """Whether the broker's software has said what it supports."""
        if not (node.listed and node.says_nothing):
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
        features_node=content != "absent", controller=1,
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


def fates(
    found: Elections, evidence: Evidence, position: int, dialect: str
) -> tuple[set[After], dict[After, set[int]]]:
    left, ends = set[After](), dict[After, set[int]]()
    for k in rows_of(found, position):
        said = after(found.found[k])
        if found.dialect[k] != dialect or said is None or found.elected[k] == UNKNOWN_RANGE:
            continue
        left.add(said)
        stops = ends.setdefault(said, set())
        for row, profile in zip(found.misfit.tolist(), found.misfit_profile.tolist(), strict=True):
            stops |= ids(evidence, profile) if row == k else set()
    return left, ends


def test_random_fleets_end_as_each_broker_s_election_by_hand() -> None:
    seen = set[object]()

    @settings(max_examples=120, deadline=None, database=None, derandomize=True)
    @given(
        st.lists(drawn(), min_size=2, max_size=4),
        st.lists(kraft(), max_size=1),
        st.sampled_from(VERSIONS),
    )
    def check(some: list[Drawn], others: list[Cluster], version: str) -> None:
        lines = {f"c{i}": one.lines() for i, one in enumerate(some)}
        rows = snapshot(lines | {f"k{i}": lines_of(one) for i, one in enumerate(others)})
        told = [one.told for one in some] + [""] * len(others)
        expected = {f"c{i}": Expected(generation=GENERATIONS[t]) for i, t in enumerate(told) if t}
        found, evidence = asked(rows, version, told, conditions(**expected))
        for i, one in enumerate(some):
            there = one.there
            able = {d for d in one.dialects if d == "zk-3.3" or version < "3.3"}
            if not (able and there):
                assert dict(found.doubts)[i] in (Doubt.NO_BROKER, Doubt.NO_DIALECT)
                seen.add(dict(found.doubts)[i])
                continue
            assert {found.dialect[k] for k in rows_of(found, i)} == able, one
            sure = all(one.known(node) for node in there)
            for dialect in able:
                mine = [k for k in rows_of(found, i) if found.dialect[k] == dialect]
                left, ends = fates(found, evidence, i, dialect)
                left_by_hand, stopping = by_hand(one, dialect, version)
                doubtful = bool(found.doubtful[mine].any())
                assert sure or doubtful or not any(said[2] and said[3] for said in left)
                assert not (sure and doubtful), one
                if sure or left_by_hand:
                    assert (left, ends) == (left_by_hand, stopping), one
                changes = {found.found[k].change for k in mine}
                assert not sure or (Change.NOBODY in changes) == (not left_by_hand)
                seen.update(changes, (doubtful,), [bool(s) for s in ends.values()])
                seen.add((len(left),))
                partly = one.text is not None and any(ends.values())
                seen.update(("some end over the node that is there",) if partly else ())
        assert {i for i, doubt in found.doubts if doubt is Doubt.NOT_ZOOKEEPER} >= {
            len(some) + i for i in range(len(others))
        } - {i for i, _ in found.doubts if _ is not Doubt.NOT_ZOOKEEPER}

    check()
    assert {*Change, Doubt.NO_BROKER, Doubt.NO_DIALECT, True, False, (2,)} <= seen
    assert "some end over the node that is there" in seen


def conditions(**told: Expected) -> Conditions:
    return Conditions(as_of=microseconds(AS_OF), max_age=MAX_AGE, inventory=told)


PLAIN = Cluster(
    name="z", zookeeper=True, schema=1, stored={"f": 2}, controller=1,
    nodes=(Node(node_id=1, ranges={"f": (1, 3)}, epoch=-1),),
)  # fmt: skip


def doubts_of(lines: list[bytes]) -> dict[int, Doubt]:
    found, _ = asked(snapshot({"z": lines}), "2.6", [""], conditions())
    return dict(found.doubts)


def test_a_node_that_was_not_read_or_too_long_ago_leaves_the_election_open() -> None:
    lines = lines_of(PLAIN)
    assert doubts_of(lines) == {}
    assert doubts_of([x for x in lines if b'"/feature"' not in x]) == {0: Doubt.NOT_READ}
    assert doubts_of(lines_of(replace(PLAIN, registry_age=100))) == {0: Doubt.TOO_OLD}


def test_a_malformed_row_is_left_open_and_changes_nothing_of_the_others() -> None:
    rows = unpack(BATCH).to_pylist()
    where = POSITION["zk-282-ranges"]
    rows[where]["witnesses"][0]["levels"] = 99
    broken = pa.RecordBatch.from_pylist(rows, schema=UNPACKED)
    found, _ = asked(broken, "2.6", [""] * len(rows), CONDITIONS)
    assert dict(found.doubts)[where] is Doubt.MALFORMED
    whole, _ = samples("2.6")
    others = [k for k, at in enumerate(whole.cluster.tolist()) if at != where]
    assert found.found == tuple(whole.found[k] for k in others)


def test_where_no_broker_can_live_with_the_node_nobody_is_elected() -> None:
    rows = snapshot({"z": lines_of(replace(PLAIN, stored={"f": 4, "g": 1}))})
    found, _ = asked(rows, "2.8", ["2.8.2"], conditions())
    (one,) = found.found
    assert (one.change, one.reasons, one.unfit) == (
        Change.NOBODY, (Reason.INCOMPATIBLE,), ("f", "g"),
    )  # fmt: skip
    assert (found.version.tolist(), found.elected.tolist()) == ([5], [ANYBODY])
