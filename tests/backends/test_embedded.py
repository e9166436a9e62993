"""How an embedded cluster behaves, in KRaft mode and in both: as a real cluster does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from featurelib.core.cluster import Cluster, Range
from featurelib.core.compatibility import Admission, Effect
from featurelib.feature import Role
from tests.backends.clusters import (
    KRAFT,
    ZK,
    broker,
    controller,
    finalized,
    node_of,
    opened,
    to,
)
from tests.backends.simulator import Simulated

OLD: dict[str, Range] = {"metadata.version": (7, 25), "group.version": (0, 1)}


@pytest.fixture
def kraft() -> Iterator[Simulated]:
    with opened(KRAFT, 100) as cluster:
        yield cluster


def test_an_update_moves_level_and_epoch(kraft: Simulated) -> None:
    outcome = kraft.update_features(to(26))
    assert (outcome.answered.reply.code, outcome.stopped) == (0, ())
    assert finalized(kraft) == ({"metadata.version": 26}, 101)


def test_a_refused_update_and_a_dry_run_move_nothing(kraft: Simulated) -> None:
    assert kraft.update_features(to(24)).answered.reply.code == 95
    assert kraft.update_features(replace(to(26), validate_only=True)).answered.reply.code == 0
    assert finalized(kraft) == ({"metadata.version": 25}, 100)


def test_a_dry_run_is_applied_in_zookeeper_mode() -> None:
    with opened(ZK, 7, "zk") as cluster:
        cluster.update_features(replace(to(2, feature="f"), validate_only=True))
        assert finalized(cluster, 1) == ({"f": 2, "g": 1}, 8)


# --- Who joins ------------------------------------------------------------------------------------


def test_who_is_registered_is_asked_fenced_or_not(kraft: Simulated) -> None:
    assert kraft.register(broker(5, supported=OLD)).entry is Admission.ACCEPTED
    kraft.fence(5)
    refused = kraft.update_features(to(26)).answered.reply
    assert "Broker 5 only supports versions 7-25" in str(refused.message)
    kraft.stop(5)
    assert kraft.update_features(to(26)).answered.reply.code == 95
    kraft.unregister(5)
    assert kraft.update_features(to(26)).answered.reply.code == 0
    assert kraft.epoch == 105  # every registration is a record


def test_a_controller_that_comes_too_early_registers_once_the_level_allows() -> None:
    """Controllers register from metadata.version 15 on (KIP-919)."""
    own = {"metadata.version": (1, 21), "kraft.version": (0, 1)}
    one = controller(1, release="3.9.2", supported=own, registered=False)
    start = Cluster(
        release="3.9.2", nodes=(one,), active=1, finalized={"metadata.version": (14, 14)}
    )
    with opened(start) as cluster:
        early = cluster.register(replace(one, node_id=2))
        assert (early.entry, early.code) == (Admission.REFUSED, 35)
        assert [n.registered for n in cluster.cluster.nodes] == [False, False]
        assert [n.running for n in cluster.cluster.nodes] == [True, True]
        assert cluster.update_features(to(16)).answered.reply.code == 0
        assert [n.registered for n in cluster.cluster.nodes] == [True, True]


# --- Who stops, and starts ------------------------------------------------------------------------


def test_without_a_leader_nothing_is_updated_until_one_is_elected(kraft: Simulated) -> None:
    kraft.stop(1)
    assert kraft.cluster.active == -1
    assert kraft.update_features(to(26)).answered.reply.code == 41
    kraft.elect(2)
    assert kraft.update_features(to(26)).answered.reply.code == 0


def below_15(**change: Any) -> Cluster:
    """3.9 controllers, of which the second knows no metadata.version above 14."""
    one = controller(1, release="3.9.2", supported={"metadata.version": (1, 21)})
    two = replace(one, node_id=2, release="3.6.2", supported={"metadata.version": (1, 14)})
    levels = {"metadata.version": (11, 11)}
    start = Cluster(release="3.9.2", nodes=(one, two), active=1, finalized=levels)
    return replace(start, **change)


def test_an_update_ends_the_controllers_that_nobody_asked() -> None:
    """Below metadata.version 15 other controllers are not registered, so they are not asked."""
    with opened(below_15(), 50) as cluster:
        outcome = cluster.update_features(to(17))
        assert outcome.answered.reply.code == 0
        (stopped,) = outcome.stopped
        assert (stopped.node.node_id, stopped.effect) == (2, Effect.EXITS)
        assert "only supports versions 1-14" in stopped.unfit[0].text
        ended = node_of(cluster, 2, Role.CONTROLLER)
        assert ended is not None
        assert (ended.running, ended.registered) == (False, True)


def test_a_broker_that_cannot_read_a_record_goes_on_blind() -> None:
    """Restored with a broker of 3.6 in it: nobody refused it, and it follows no longer."""
    blind = broker(3, release="3.6.2", supported={"metadata.version": (1, 21)})
    one = controller(1, release="3.9.2", supported={"metadata.version": (1, 21)})
    levels = {"metadata.version": (14, 14)}
    start = Cluster(release="3.9.2", nodes=(one, blind), active=1, finalized=levels)
    with opened(start, 5) as cluster:
        assert cluster.update_features(to(17)).stopped == ()
        assert finalized(cluster, 3) == ({"metadata.version": 14}, 5)
        assert cluster.settle() == ()
        assert cluster.update_features(to(18)).answered.reply.code == 0
        assert finalized(cluster, 3) == ({"metadata.version": 14}, 5)
        assert cluster.register(replace(blind, release="3.9.2")).entry is Admission.ACCEPTED
        assert finalized(cluster, 3) == ({"metadata.version": 18}, cluster.epoch)


# --- Who leads, and what is not there -------------------------------------------------------------
