"""The verdicts if nodes ran other software, were gone or came, or levels were others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from featurelib.audit.cluster_view import ClusterView
from featurelib.config.fleet import Fleet
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.errors import ConfigError, NoEvidenceError
from featurelib.extras.predictions.what_if import Changes, WhatIf, what_if
from featurelib.feature import METADATA_VERSION
from tests.core.lines import AS_OF, MAX_AGE, lines_of, microseconds
from tests.core.oracle import Cluster, Node
from tests.core.random_clusters import RELEASES, kraft, zookeeper
from tests.core.test_software import lines_of as recorded
from tests.core.test_software import look
from tests.questions.nights import CATALOGUE, NAMES, TERMS, view
from tests.seeing import see


def ask(name: str, changes: Changes) -> WhatIf:
    return what_if(view(name), changes, TERMS)


def verdicts(found: WhatIf, feature: str) -> tuple[object, ...]:
    row = next(r for r in found.after.judged.readiness.to_pylist() if r["feature"] == feature)
    return row["verdict"], row["finalized_level"], row["target"]


def codes(rows: tuple[dict[str, object], ...]) -> list[tuple[object, ...]]:
    return sorted((row["code"], row["node_id"] or 0, row["feature"] or "") for row in rows)


def test_the_inventory_s_word_is_as_its_owner_would_write_it_then() -> None:
    one = view("ghost-broker")
    entry = Entry(id=one.cluster_id, release="4.1", brokers=(1, 2))
    inputs = replace(TERMS, fleet=Fleet(cluster=(entry,)))
    before = inputs.see(one.rows)
    found = what_if(before, Changes(removed=(2,)), inputs)
    assert "expected_node_missing" not in {row["code"] for row in found.new}
    rolled = what_if(before, Changes(release="4.2", removed=(2,)), inputs)
    assert rolled.after.releases[0] == "4.2"


def test_a_node_that_only_the_inventory_has_runs_nothing_and_can_come() -> None:
    one = view("ghost-broker")
    entry = Entry(id=one.cluster_id, brokers=(1, 2, 7))
    inputs = replace(TERMS, fleet=Fleet(cluster=(entry,)))
    before = inputs.see(one.rows)
    with pytest.raises(ConfigError, match=r"is not registered.*--add 7=RELEASE"):
        what_if(before, Changes(nodes={7: "4.1"}), inputs)
    came = what_if(before, Changes(added={7: "4.1"}), inputs)
    missing = ("expected_node_missing", 7, "")
    assert (came.joined, missing in codes(came.resolved)) == ((7,), True)
    assert missing in codes(what_if(before, Changes(removed=(7,)), inputs).resolved)


@pytest.mark.parametrize("name", NAMES)
def test_no_change_changes_nothing_of_a_sample(name: str) -> None:
    found = ask(name, Changes())
    assert (found.turns, found.new, found.resolved) == ((), (), ())
    for table in ("findings", "incompatible", "readiness", "plans"):
        was, now = getattr(found.before.judged, table), getattr(found.after.judged, table)
        assert was.to_pylist() == now.to_pylist()


@settings(
    max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
@given(cluster=st.one_of(kraft(), zookeeper()))
def test_no_change_changes_nothing_of_a_random_cluster(cluster: Cluster) -> None:
    inputs = replace(TERMS, as_of=microseconds(AS_OF), max_age=MAX_AGE)
    try:
        one = see(lines_of(cluster), catalogue=CATALOGUE, as_of=inputs.as_of, max_age=MAX_AGE)
    except NoEvidenceError:
        return
    found = what_if(one, Changes(), inputs)
    before, after = found.before.judged, found.after.judged
    assert before.findings.to_pylist() == after.findings.to_pylist()
    assert before.readiness.to_pylist() == after.readiness.to_pylist()


Ranges = dict[str, tuple[int, int]]


def listed(
    registry: str, level: int = 21, leads: Ranges | None = None, **brokers: Ranges
) -> ClusterView:
    """A cluster of one controller and brokers 1, 2 …, known by the log or by DescribeCluster."""
    levels = {METADATA_VERSION: level}
    said: dict[str, object] = {"listed": True, "answered": 0, "levels": levels, "epoch": 1000}
    nodes = [
        Node(node_id=number, role="broker", ranges=ranges, **said)  # type: ignore[arg-type]
        for number, ranges in enumerate(brokers.values(), start=1)
    ]
    last = leads or NEW
    nodes.append(Node(node_id=11, role="controller", ranges=last, **said))  # type: ignore[arg-type]
    cluster = Cluster(
        name="k", registry=registry, nodes=tuple(nodes), voters=(11,), stored=levels,
        controllers_listed=True,
    )  # fmt: skip
    lines = lines_of(cluster)
    return see(lines, catalogue=CATALOGUE, as_of=microseconds(AS_OF), max_age=MAX_AGE)


NEW, OLD = RELEASES["4.2"], RELEASES["3.9"]
POSSIBLE = ("side_effect_by_name", 0, "eligible.leader.replicas.version")  # by name only
THEN = replace(TERMS, as_of=microseconds(AS_OF), max_age=MAX_AGE)


@pytest.mark.parametrize("registry", ["log", "fenced"])
def test_a_removed_node_is_gone_by_whatever_it_was_known(registry: str) -> None:
    one = listed(registry, a=NEW, b=OLD)
    found = what_if(one, Changes(removed=(2,)), THEN)
    assert {node.node_id for node in found.after.cluster.nodes} == {1, 11}
    assert verdicts(found, METADATA_VERSION) == ("READY", 21, 29)
    assert codes(found.new) == [POSSIBLE]


@pytest.mark.parametrize("registry", ["log", "fenced"])
def test_new_software_is_seen_by_whatever_the_node_was_known(registry: str) -> None:
    one = listed(registry, a=NEW, b=OLD)
    found = what_if(one, Changes(nodes={2: "4.2"}), THEN)
    assert found.joined == (2,)
    assert verdicts(found, METADATA_VERSION) == ("READY", 21, 29)
    assert codes(found.new) == [POSSIBLE]


@pytest.mark.parametrize("registry", ["log", "fenced"])
def test_a_node_kept_out_is_fenced_and_not_merely_silent(registry: str) -> None:
    found = what_if(listed(registry, a=NEW, b=NEW), Changes(nodes={2: "3.5"}), THEN)
    assert {one.node_id for one in found.refused} == {2}
    assert codes(found.new) == [("ghost_broker", 2, "")]
    back = what_if(found.after, Changes(nodes={2: "4.2"}), THEN)
    assert [node.fenced for node in back.after.cluster.nodes] == [False] * 3
    assert codes(back.resolved) == [("ghost_broker", 2, "")]


def test_a_controller_that_reads_a_level_it_does_not_support_ends() -> None:
    """That it answers shows that it supports what is finalized now, and no more."""
    one = listed("fenced", leads=OLD, a=NEW)
    found = what_if(one, Changes(finalized={METADATA_VERSION: 29}), THEN)
    assert {(one.role.text, one.node_id, one.entry) for one in found.refused} == {
        ("controller", 11, "stops")
    }
    ends = {("incompatible_with_finalized", 11, METADATA_VERSION), ("node_not_answering", 11, "")}
    assert ends <= set(codes(found.new))
    assert verdicts(found, METADATA_VERSION)[0] == "UNKNOWN"
    fits = what_if(listed("fenced", a=NEW), Changes(finalized={METADATA_VERSION: 29}), THEN)
    assert (fits.refused, verdicts(fits, METADATA_VERSION)[0]) == ((), "UP_TO_DATE")


def test_new_software_is_not_taken_for_the_old_with_unstable_features() -> None:
    """4.2 with unstable features supports what 4.3 does, and its requests say that it is 4.2."""
    found = what_if(look(recorded("stock42")), Changes(release="4.3"), TERMS)
    assert found.joined
    assert {"unstable_level", "unstable_features_enabled"}.isdisjoint(
        row["code"] for row in found.new
    )


def test_what_is_critical_before_and_after_is_said_and_who_runs_is_not_gone() -> None:
    one = listed("fenced", level=25, a=NEW, b=OLD)
    unfit = [("incompatible_with_finalized", 2, METADATA_VERSION)]
    for level in (25, 29):
        found = what_if(one, Changes(finalized={METADATA_VERSION: level}), THEN)
        assert (codes(found.critical), codes(found.new)) == (unfit, [])
    found = what_if(one, Changes(removed=(2,)), THEN)
    assert (found.critical, found.runs) == ((), (2,))
    off = what_if(view("ghost-broker"), Changes(removed=(2,)), TERMS)
    assert off.runs == ()
