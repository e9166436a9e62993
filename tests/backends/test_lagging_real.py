"""A broker that hung lists the nodes of before, until it has read the metadata log again."""

from __future__ import annotations

from pathlib import Path
from threading import Timer

import pytest

from featurelib.landing import ClusterDescription, Landing, read
from tests.backends.judged import collected, findings, judged, verdict
from tests.backends.rig.jars import UnavailableError
from tests.backends.rig.kraft import Node
from tests.walk.returning import SERVES
from tests.walk.world import World

pytestmark = pytest.mark.kafka


def compared(lines: list[bytes]) -> list[ClusterDescription]:
    """The lists whose broker was compared with the quorum."""
    read_lines = [line.content for line in map(read, lines) if isinstance(line, Landing)]
    lists = [of for of in read_lines if isinstance(of, ClusterDescription)]
    return [of for of in lists if of.end >= 0]


def test_a_broker_that_hung_while_another_registered_makes_nothing_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [Node(id=1, release="4.2.1", roles="controller"),
             Node(id=4, release="4.2.1", roles="broker")]  # fmt: skip
    try:
        world = World.start(
            tmp_path / "nodes", nodes, release_version="4.1", features={}, dynamic=False
        )
    except UnavailableError as missing:
        pytest.skip(f"real Kafka: {missing}")
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
