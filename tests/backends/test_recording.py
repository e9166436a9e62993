"""The recorder on a real controller: what it writes, conformance reads, and finds no difference."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from featurelib.catalogue import load
from featurelib.catalogue.rows import releases_offering
from featurelib.extras.conformance.exchanges import Exchange, read
from featurelib.extras.conformance.replay import replay
from featurelib.feature import Role
from scripts.record_exchanges import Recorder, look
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.kraft import Node

TABLES = load().tables
QUIET = {"metadata.max.idle.interval.ms": "0"}
UP, SAFE = 1, 2


def ask(version: int, *updates: tuple[str, int, int], dry: bool = False) -> dict[str, Any]:
    asked = [
        {"feature": name, "max_version_level": level, "upgrade_type": kind}
        for name, level, kind in updates
    ]
    return {"version": version, "updates": asked, "validate_only": dry}


WALK = [
    ask(1, ("group.version", 1, UP), dry=True),
    ask(1, ("group.version", 1, UP)),
    ask(2, ("group.version", 1, UP), ("transaction.version", 9, UP)),
    ask(2, ("test.feature.version", 0, UP), ("group.version", 0, SAFE)),
    ask(1, ("unit.test.feature.version.7", 0, UP)),
    ask(1, ("unit.test.feature.version.8", 0, UP)),
    ask(1, ("no.such.feature", 0, UP), ("metadata.version", 29, UP)),
    ask(1, ("metadata.version", 29, UP), ("metadata.version", 28, UP)),
    ask(1),
]


def exchanges(lines: list[dict[str, Any]]) -> list[Exchange]:
    return list(read((json.dumps(line).encode() for line in lines), "recorded"))


def recorder_of(cluster: RunningCluster, **words: Any) -> Recorder:
    nodes = cluster.nodes.values()
    return Recorder(
        release=max(node.release for node in nodes),
        brokers={node.id: node.broker for node in nodes if node.broker},
        controllers={node.id: node.controller for node in nodes if node.controller},
        **words,
    )


def test_a_recorded_controller_is_answered_for(
    kraft_cluster: Callable[..., RunningCluster],
) -> None:
    """Kafka's own test features among them: a level 0 of one of them is no unknown name."""
    cluster = kraft_cluster(Node(id=1, properties=QUIET), release_version="4.1")
    recorder = recorder_of(cluster)
    lines = [recorder.exchange(request) for request in WALK]
    assert [line["id"] for line in lines][::8] == ["4.2.1-recorded-001", "4.2.1-recorded-009"]
    assert [line["response"]["error_code"] for line in lines] == [0, 0, 95, 0, 0, 95, 95, 0, 0]
    assert lines[1]["after"]["finalized"]["group.version"] == 1
    assert "group.version" not in lines[3]["after"]["finalized"]
    report = replay(exchanges(lines), TABLES)
    assert (report.exchanges, report.differences) == (len(WALK), [])
    lines[1]["after"]["finalized"]["group.version"] = 2
    assert [found.kind for found in replay(exchanges(lines[1:2]), TABLES).differences] == ["levels"]


def test_both_listeners_of_a_real_node_offer_what_the_catalogue_says(
    kraft_node: RunningCluster,
) -> None:
    node = kraft_node.nodes[1]
    for role, address in ((Role.BROKER, node.broker), (Role.CONTROLLER, node.controller)):
        keys = look(address)["api_keys"]
        offers = tuple(
            sorted((one["api_key"], one["min_version"], one["max_version"]) for one in keys)
        )
        assert releases_offering(role, offers) == (".".join(node.release.split(".")[:2]),)
