"""How an embedded cluster behaves, in KRaft mode and in both: as a real cluster does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from featurelib.backends.embedded import EmbeddedCluster
from featurelib.core.cluster import Cluster, Range
from featurelib.core.compatibility import Effect, Entry
from featurelib.errors import InputError, UnreachableError
from featurelib.feature import Role
from tests.backends.clusters import (
    DOWN,
    KRAFT,
    ZK,
    broker,
    controller,
    finalized,
    node_of,
    opened,
    to,
    zk_broker,
)

OLD: dict[str, Range] = {"metadata.version": (7, 25), "group.version": (0, 1)}


@pytest.fixture
def kraft() -> Iterator[EmbeddedCluster]:
    with opened(KRAFT, 100) as cluster:
        yield cluster


def test_an_update_moves_level_and_epoch(kraft: EmbeddedCluster) -> None:
    outcome = kraft.update_features(to(26))
    assert (outcome.answered.reply.code, outcome.stopped) == (0, ())
    assert finalized(kraft) == ({"metadata.version": 26}, 101)


def test_a_refused_update_and_a_dry_run_move_nothing(kraft: EmbeddedCluster) -> None:
    assert kraft.update_features(to(24)).answered.reply.code == 95
    assert kraft.update_features(replace(to(26), validate_only=True)).answered.reply.code == 0
    assert finalized(kraft) == ({"metadata.version": 25}, 100)


def test_a_dry_run_is_applied_in_zookeeper_mode() -> None:
    with opened(ZK, 7, "zk") as cluster:
        cluster.update_features(replace(to(2, feature="f"), validate_only=True))
        assert finalized(cluster, 1) == ({"f": 2, "g": 1}, 8)


def test_a_node_that_lags_shows_the_state_before_until_it_settles(kraft: EmbeddedCluster) -> None:
    kraft.update_features(to(26), lagging=True)
    kraft.update_features(to(27), lagging=True)
    assert finalized(kraft) == ({"metadata.version": 25}, 100)
    assert kraft.epoch == 102
    assert kraft.settle() == ()
    assert finalized(kraft) == ({"metadata.version": 27}, 102)


def test_a_node_that_starts_while_others_lag_has_everything(kraft: EmbeddedCluster) -> None:
    kraft.update_features(to(26), lagging=True)
    kraft.stop(4)
    kraft.start(4)
    assert finalized(kraft, 4) == ({"metadata.version": 26}, kraft.epoch)
    assert finalized(kraft, 3) == ({"metadata.version": 25}, 100)


# --- Who joins ------------------------------------------------------------------------------------


def test_who_is_registered_is_asked_fenced_or_not(kraft: EmbeddedCluster) -> None:
    assert kraft.register(broker(5, supported=OLD)).entry is Entry.ACCEPTED
    kraft.fence(5)
    refused = kraft.update_features(to(26)).answered.reply
    assert "Broker 5 only supports versions 7-25" in str(refused.message)
    kraft.stop(5)
    assert kraft.update_features(to(26)).answered.reply.code == 95
    kraft.unregister(5)
    assert kraft.update_features(to(26)).answered.reply.code == 0
    assert kraft.epoch == 105  # every registration is a record


def test_an_unfit_broker_is_refused_in_words_and_does_not_join(kraft: EmbeddedCluster) -> None:
    kraft.update_features(to(27))
    refused = kraft.register(broker(5, release="4.0.1", supported=OLD))
    assert (refused.entry, refused.code) == (Entry.REFUSED, 35)
    assert refused.message == (
        "Unable to register because the broker does not support finalized version 27 of "
        "metadata.version. The broker wants a version between 7 and 25, inclusive."
    )
    assert node_of(kraft, 5) is None
    assert kraft.epoch == 101


def test_a_broker_that_comes_back_unfit_leaves_a_fenced_registration(
    kraft: EmbeddedCluster,
) -> None:
    kraft.update_features(to(27))
    kraft.register(broker(4, release="4.0.1", supported=OLD))
    old = node_of(kraft, 4)
    assert old == broker(4, running=False, fenced=True)


def test_a_node_that_registers_again_replaces_itself(kraft: EmbeddedCluster) -> None:
    kraft.register(broker(4, supported=OLD))
    kraft.register(broker(4))
    assert [n.node_id for n in kraft.cluster.nodes] == [1, 2, 3, 4]
    assert node_of(kraft, 4) == broker(4)


def test_the_leader_that_is_replaced_leads_no_longer(kraft: EmbeddedCluster) -> None:
    kraft.register(controller(1))
    assert kraft.cluster.active == -1
    kraft.register(controller(2))
    kraft.elect(2)
    assert kraft.cluster.active == 2


def test_an_unfit_controller_ends_before_it_registers(kraft: EmbeddedCluster) -> None:
    kraft.update_features(to(27))
    ended = kraft.register(controller(5, release="4.0.1", supported=OLD))
    assert ended.entry is Entry.STOPS
    assert "but this controller only supports versions 7-25" in str(ended.message)
    assert node_of(kraft, 5, Role.CONTROLLER) is None


def test_a_controller_that_comes_too_early_registers_once_the_level_allows() -> None:
    """Controllers register from metadata.version 15 on (KIP-919)."""
    own = {"metadata.version": (1, 21), "kraft.version": (0, 1)}
    one = controller(1, release="3.9.2", supported=own, registered=False)
    start = Cluster(
        release="3.9.2", nodes=(one,), active=1, finalized={"metadata.version": (14, 14)}
    )
    with opened(start) as cluster:
        early = cluster.register(replace(one, node_id=2))
        assert (early.entry, early.code) == (Entry.REFUSED, 35)
        assert [n.registered for n in cluster.cluster.nodes] == [False, False]
        assert [n.running for n in cluster.cluster.nodes] == [True, True]
        assert cluster.update_features(to(16)).answered.reply.code == 0
        assert [n.registered for n in cluster.cluster.nodes] == [True, True]


def test_registrations_do_not_move_the_features_node() -> None:
    with opened(ZK, 7, "zk") as cluster:
        assert cluster.register(zk_broker(2, f=(1, 9), g=(1, 1))).entry is Entry.ACCEPTED
        assert cluster.epoch == 7


# --- Who stops, and starts ------------------------------------------------------------------------


def test_a_stopped_node_does_not_answer_and_comes_back(kraft: EmbeddedCluster) -> None:
    kraft.stop(3)
    assert node_of(kraft, 3) == broker(3, running=False, fenced=True)
    with pytest.raises(UnreachableError, match="node 3 does not run"):
        kraft.describe(3)
    (joined,) = kraft.start(3)
    assert joined.entry is Entry.ACCEPTED
    assert finalized(kraft)[0] == {"metadata.version": 25}
    assert node_of(kraft, 3) == broker(3)


def test_without_a_leader_nothing_is_updated_until_one_is_elected(kraft: EmbeddedCluster) -> None:
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
        with pytest.raises(InputError, match="one of the running voters 1, found 2"):
            cluster.elect(2)
        (again,) = cluster.start(2)
        assert again.entry is Entry.STOPS
        assert cluster.cluster.active == 1


def test_who_lags_stops_once_it_applies_the_update() -> None:
    with opened(below_15(), 50) as cluster:
        assert cluster.update_features(to(17), lagging=True).stopped == ()
        assert finalized(cluster, 2)[0] == {"metadata.version": 11}
        assert [item.node.node_id for item in cluster.settle()] == [2]
        assert cluster.settle() == ()


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
        cluster.stop(3)
        (refused,) = cluster.start(3)
        assert (refused.entry, refused.code) == (Entry.REFUSED, 119)
        assert cluster.register(replace(blind, release="3.9.2")).entry is Entry.ACCEPTED
        assert finalized(cluster, 3) == ({"metadata.version": 18}, cluster.epoch)


def test_a_process_of_two_halves_stops_and_starts_as_one(kraft: EmbeddedCluster) -> None:
    kraft.register(broker(2))
    kraft.stop(2)
    assert [n.running for n in kraft.cluster.nodes if n.node_id == 2] == [False, False]
    assert [joined.entry for joined in kraft.start(2)] == [Entry.ACCEPTED, Entry.ACCEPTED]
    kraft.stop(2)
    kraft.put(replace(kraft.cluster, finalized={"metadata.version": (30, 30)}), 200)
    assert [joined.entry for joined in kraft.start(2)] == [Entry.STOPS]


# --- Who leads, and what is not there -------------------------------------------------------------


def test_the_elected_controller_answers_as_its_release_does(kraft: EmbeddedCluster) -> None:
    old = controller(5, supported={"metadata.version": (1, 25)}, release="3.9.2")
    kraft.register(old)
    kraft.elect(5)
    assert kraft.dialect.name == "kraft-3.9"
    reply = kraft.update_features(to(26)).answered.reply
    assert (reply.code, [r.code for r in reply.results or ()]) == (0, [95])  # not all or nothing


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda c: c.fence(9), "one of the running brokers 3, 4, found 9"),
        (lambda c: c.stop(9), "one of the nodes 1, 2, 3, 4, found 9"),
        (lambda c: c.start(3), "one of the nodes that do not run none, found 3"),
        (lambda c: c.describe(9), "one of the nodes 1, 2, 3, 4, found 9"),
        (lambda c: c.describe(1, role=Role.BROKER), "one of the brokers 3, 4, found 1"),
        (lambda c: c.unregister(1), "one of the brokers 3, 4, found 1"),
        (lambda c: c.elect(3), "one of the running voters 1, 2, found 3"),
        (lambda c: c.write_features_node(""), "in ZooKeeper mode, found KRaft mode"),
        (lambda c: c.put(replace(KRAFT, release="9.9")), "no dialect for release 9.9"),
    ],
)
def test_what_is_not_there_is_named_and_nothing_moves(
    kraft: EmbeddedCluster, act: Any, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        act(kraft)
    assert (kraft.cluster, kraft.epoch) == (KRAFT, 100)


def test_a_stopped_controller_is_not_elected(kraft: EmbeddedCluster) -> None:
    kraft.stop(2)
    with pytest.raises(InputError, match="one of the running voters 1, found 2"):
        kraft.elect(2)


def test_who_lags_meets_the_record_of_a_level_that_is_gone_again() -> None:
    """A controller that does not support 0 ends over the record that takes a feature away."""
    one, two = below_15().nodes
    one = replace(one, supported={"metadata.version": (1, 21), "f": (0, 3)})
    two = replace(two, supported={"metadata.version": (1, 14), "f": (1, 3)})
    levels = {"metadata.version": (11, 11), "f": (1, 1)}
    with opened(below_15(nodes=(one, two), finalized=levels)) as cluster:
        outcome = cluster.update_features(to(0, DOWN, "f"), lagging=True)
        assert "f" not in outcome.answered.after.finalized
        assert [item.node.node_id for item in cluster.settle()] == [2]
