"""A list that lacks a registered broker: its broker hung, or the other lacks the listener."""

from __future__ import annotations

from pathlib import Path
from threading import Timer

import pytest

from featurelib.landing import ClusterDescription, Landing, read
from tests.backends.judged import collected, findings, judged, verdict
from tests.backends.rig.jars import UnavailableError
from tests.backends.rig.kraft import Node
from tests.backends.rig.layout import free_address
from tests.walk.returning import SERVES
from tests.walk.world import World

pytestmark = pytest.mark.kafka


def compared(lines: list[bytes]) -> list[ClusterDescription]:
    """The lists whose broker was compared with the quorum."""
    read_lines = [line.content for line in map(read, lines) if isinstance(line, Landing)]
    lists = [of for of in read_lines if isinstance(of, ClusterDescription)]
    return [of for of in lists if of.end >= 0]


NODES = [
    Node(id=1, release="4.2.1", roles="controller"), Node(id=4, release="4.2.1", roles="broker")
]  # fmt: skip


def started(home: Path) -> World:
    try:
        return World.start(home, NODES, release_version="4.1", features={}, dynamic=False)
    except UnavailableError as missing:
        pytest.skip(f"real Kafka: {missing}")


def test_a_list_over_a_listener_that_a_broker_lacks_makes_nothing_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    world = started(tmp_path / "nodes")
    try:
        _, controllers = world.addresses
        lister, client = world.members[4], free_address()
        world.stop(lister, kill=False)
        both = {
            "listeners": f"BROKER://{world.node(4).broker},CLIENT://{client}",
            "listener.security.protocol.map": ",".join(
                f"{name}:PLAINTEXT" for name in ("BROKER", "CLIENT", "CONTROLLER")
            ),
        }
        assert world.launch(lister, properties={**lister.node.properties, **both}) == SERVES
        to_controllers = ("--controllers", controllers[0], "--timeout", "20")
        lines, _ = collected(tmp_path / "alone", "--bootstrap", client, *to_controllers)
        assert [of.may_lack_brokers for of in compared(lines)] == [True]
        assert verdict(judged(lines)) == "READY"

        assert world.launch(world.join(Node(id=7, release="4.1.2", roles="broker"))) == SERVES
        lines, _ = collected(tmp_path / "client", "--bootstrap", client, *to_controllers)
        assert 7 not in dict(compared(lines)[0].members)
        assert findings(judged(lines))["registrations_unproven", None, None]["facts"]
        assert verdict(judged(lines)) == "UNKNOWN"

        between_brokers = world.node(4).broker
        lines, _ = collected(tmp_path / "all", "--bootstrap", between_brokers, *to_controllers)
        assert [of.may_lack_brokers for of in compared(lines)] == [False]
        assert findings(judged(lines))["unsupported_by_node", "broker", 7]
        assert verdict(judged(lines)) == "BLOCKED"
    finally:
        world.stop_all()


def test_a_broker_that_hung_while_another_registered_makes_nothing_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    world = started(tmp_path / "nodes")
    try:
        brokers, controllers = world.addresses
        reach = ("--bootstrap", brokers[0], "--controllers", controllers[0], "--timeout", "20")
        lines, _ = collected(tmp_path / "before", *reach)
        assert [of.end > 1 for of in compared(lines)] == [True]
        assert verdict(judged(lines)) == "READY"

        hung = next(member for member in world.serving if member.id == 4)
        world.freeze(hung)
        assert world.launch(world.join(Node(id=7, release="4.1.2", roles="broker"))) == SERVES
        wakes_up = Timer(2.5, world.thaw, [hung])
        wakes_up.start()
        lines, _ = collected(tmp_path / "meanwhile", *reach)
        wakes_up.join()
        assert verdict(judged(lines)) != "READY"
        assert [of.end > 1 for of in compared(lines)] == [True]
        assert 7 in dict(compared(lines)[0].members)

        lines, _ = collected(tmp_path / "after", *reach)
        assert findings(judged(lines))["unsupported_by_node", "broker", 7]
        assert verdict(judged(lines)) == "BLOCKED"
    finally:
        world.stop_all()
