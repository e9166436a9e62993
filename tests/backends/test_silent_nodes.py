"""Nodes that let the whole time limit pass: a look takes one limit, and nobody is skipped."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import islice
from typing import Any

import msgspec
import pytest

from featurelib import connect
from featurelib.backends.base import Backend, Say
from featurelib.backends.kafka.backend import open_kafka
from featurelib.backends.kafka.discover import PAUSE_SECONDS
from featurelib.backends.kafka.internals import Api
from featurelib.config.fleet import FleetEntry
from featurelib.extras.watch import watch
from featurelib.extras.watch.command import LEAST_PAUSE_SECONDS, NODE_SECONDS
from featurelib.extras.watch.watching import NodeState
from tests.backends.rig.cluster import RunningCluster
from tests.backends.speaking import Listener, listing, node

LIMIT = 2.0  # seconds
OVERHEAD = 0.9  # of a busy machine; far below a second limit
AGAIN = 1.0
OFFERED = {Api.API_VERSIONS: (0, 4), Api.DESCRIBE_CLUSTER: (0, 1), Api.UPDATE_FEATURES: (0, 1)}
Lines = dict[tuple[str, int], dict[str, Any]]


@contextmanager
def silent() -> Iterator[socket.socket]:
    """A listener whose process has stopped: connections are made, and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def at(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def live_beside(*addresses: str) -> AbstractContextManager[Listener]:
    """A broker that lists itself, and others at these addresses as 2, 3, …"""
    others = [(number, *a.split(":")) for number, a in enumerate(addresses, start=2)]
    rest = [(number, host, int(port)) for number, host, port in others]
    return node(OFFERED, describe_cluster=lambda mine: listing(mine, *rest))


def looked(backend: Backend, say: Say = lambda text: None) -> tuple[float, Lines]:
    """Seconds that a look took, and its ApiVersions lines by role and node."""
    began = time.monotonic()
    lines = backend.describe(say)
    took = time.monotonic() - began
    found = [line for line in map(msgspec.json.decode, lines) if line["kind"] == "api_versions"]
    return took, {(line["role"], line["node_id"]): line for line in found}


def test_a_look_takes_one_time_limit_however_many_are_silent() -> None:
    with ExitStack() as stack:
        first, second, broker, one, two = (at(stack.enter_context(silent())) for _ in range(5))
        live = stack.enter_context(live_beside(broker))
        entry = FleetEntry(
            id="c",
            bootstrap=(first, second, live.address),
            controller_bootstrap=(one, two, f"9@{two}"),
        )
        backend = open_kafka(entry, timeout=LIMIT)
        told: list[str] = []
        took, lines = looked(backend, told.append)
        again, lines_again = looked(backend)
    # Two of the brokers that were given are silent: the third is asked after two pauses.
    assert LIMIT <= took < LIMIT + 2 * PAUSE_SECONDS + OVERHEAD
    assert AGAIN <= again < AGAIN + 2 * PAUSE_SECONDS + OVERHEAD
    for found, limit in ((lines, LIMIT), (lines_again, AGAIN)):
        assert set(found) == {("broker", 1), ("broker", 2), ("controller", 9)}
        assert "error" not in found["broker", 1]
        for key in (("broker", 2), ("controller", 9)):
            assert found[key]["error"].endswith(f"no answer within {limit:g} s")
    for address in (first, second, one, two):
        assert f"{address}: no answer within {LIMIT:g} s" in told


def test_a_node_that_was_silent_is_asked_in_every_look_and_heard_when_it_is_back() -> None:
    with silent() as server, live_beside(at(server)) as live:
        entry = FleetEntry(id="c", bootstrap=(live.address,))
        backend = open_kafka(entry, timeout=LIMIT)
        assert "error" in looked(backend)[1]["broker", 2]
        took, lines = looked(backend)
        assert took >= AGAIN  # it was asked, not skipped
        assert "error" in lines["broker", 2]
        back = Listener(live.answers, at(server))
        thread = threading.Thread(target=back.serve, args=(server,), daemon=True)
        thread.start()
        took, lines = looked(backend)
        assert took < AGAIN
        assert "error" not in lines["broker", 2]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        server.close()
        with socket.create_server(("127.0.0.1", int(back.address.split(":")[1]))):
            took, lines = looked(backend)
    assert took >= LIMIT  # it had answered since, so it is given the whole limit
    assert "error" in lines["broker", 2]


def test_a_watch_shows_within_5_seconds_who_is_back_while_another_node_hangs() -> None:
    """By the second look after it at the latest: the first one had asked it already, and a node
    that was silent before is given half of the time."""
    assert NODE_SECONDS + LEAST_PAUSE_SECONDS + NODE_SECONDS / 2 < 5

    def newer(version: int) -> Any:
        answer = older(version)
        answer.supported_features[0].max_version = 4
        return answer

    with silent() as server, live_beside(at(server)) as live:
        seen = watch(connect(bootstrap=live.address, timeout=LIMIT), until="f=4", every=0.1)
        assert [node.lacks for node in next(seen).value.nodes] == [{"f": 4}, {}]
        answers: Any = live.answers
        older, answers[Api.API_VERSIONS] = answers[Api.API_VERSIONS], newer
        looks = [look.value for look in islice(seen, 2)]
        seen.close()
    shown = [[(node.state, node.lacks) for node in look.nodes] for look in looks]
    assert [(NodeState.RUNNING, {}), (NodeState.SILENT, {})] in shown


def test_a_controller_written_as_node_id_and_ipv6_address_is_asked_there() -> None:
    with live_beside() as live:
        entry = FleetEntry(id="c", bootstrap=(live.address,), controller_bootstrap=("7@[::1]:1",))
        _, lines = looked(open_kafka(entry, timeout=LIMIT))
    assert lines["controller", 7]["endpoint"] == "[::1]:1"
    assert lines["controller", 7]["error"].startswith("[::1]:1: ")


def test_brokers_of_two_clusters_are_refused_whoever_is_faster() -> None:
    other = node(OFFERED, describe_cluster=lambda mine: listing(cluster="d"))
    with other as stranger, live_beside(stranger.address) as live:
        backend = open_kafka(FleetEntry(id="", bootstrap=(live.address,)), timeout=LIMIT)
        with pytest.raises(Exception, match="nodes of one cluster, found some of c and some of d"):
            looked(backend)


def test_silent_controllers_of_a_real_quorum_cost_one_limit_together(
    cluster_without_a_controller: RunningCluster,
) -> None:
    cluster = cluster_without_a_controller
    with silent() as first, silent() as second, silent() as third:
        entry = FleetEntry(
            id=cluster.cluster_id,
            bootstrap=(at(first), *cluster.bootstrap.split(",")),
            controller_bootstrap=(at(second), at(third), *cluster.controller_bootstrap.split(",")),
        )
        backend = open_kafka(entry, timeout=LIMIT)
        took, lines = looked(backend)
        again, _ = looked(backend)
    assert LIMIT <= took < LIMIT + PAUSE_SECONDS + OVERHEAD
    assert AGAIN <= again < AGAIN + PAUSE_SECONDS + OVERHEAD
    answered = {key for key, line in lines.items() if "error" not in line}
    assert answered == {("controller", 1), ("controller", 2), ("broker", 1)}
    assert "connection refused" in lines["controller", 3]["error"]
