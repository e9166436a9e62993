"""Real clusters as fixtures; what they hold is described in tests/backends/rig/__init__.py.

Shared ones live as long as the run and are looked at, not changed; a test that moves levels takes
`kraft_cluster`. Where Java, the jars or the network are missing, a test is skipped and says why.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import ACLOperation

from tests.backends.judged import until, validated
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.jars import UnavailableError
from tests.backends.rig.kraft import Node, start_kraft
from tests.backends.rig.security import make_security, may
from tests.backends.rig.zookeeper import ZooKeeperBroker, start_zookeeper_mode

REAL = {"kraft_cluster", "kraft_node", "secured_node", "zookeeper_cluster"}
REAL |= {"cluster_without_a_controller"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if REAL & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kafka)


@contextmanager
def running(start: Callable[[], RunningCluster]) -> Iterator[RunningCluster]:
    """Ends the cluster whatever the test did."""
    try:
        cluster = start()
    except UnavailableError as missing:
        pytest.skip(f"real Kafka: {missing}")
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def kraft_cluster(tmp_path: Path) -> Iterator[Callable[..., RunningCluster]]:
    """A factory with the arguments of start_kraft after `home`; its clusters end with the test."""
    with ExitStack() as stack:
        made = itertools.count()

        def make(*nodes: Node, **words: Any) -> RunningCluster:
            home = tmp_path / f"cluster-{next(made)}"
            start = partial(start_kraft, home, nodes or (Node(id=1),), **words)
            return stack.enter_context(running(start))

        yield make


@pytest.fixture(scope="session")
def kraft_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """One 4.2.1 node, broker and controller, static quorum, finalized at 4.1.

    Shared: only look, validate, or be refused.
    """
    home = tmp_path_factory.mktemp("kraft-node")
    with running(lambda: start_kraft(home, release_version="4.1")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster_without_a_controller(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningCluster]:
    """A static quorum of three 4.2.1 controllers, 1 (broker too), 2 and 3; 3 was killed.

    Finalized at 4.1. Shared: only look, validate, or be refused. A controller registers some time
    after it is ready, and one that never did is refused for: 3 is killed once it is registered.
    """
    home = tmp_path_factory.mktemp("quorum")
    nodes = (Node(id=1), Node(id=2, roles="controller"), Node(id=3, roles="controller"))
    with running(lambda: start_kraft(home, nodes, release_version="4.1")) as cluster:
        until(lambda: not validated(cluster, 29))
        cluster.stop_node(3, kill=True)
        yield cluster


@pytest.fixture(scope="session")
def secured_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """One 4.2.1 node finalized at 4.1, SASL_SSL on both listeners; viewer may DESCRIBE the cluster,
    not ALTER it. Shared."""
    home = tmp_path_factory.mktemp("secured")

    def start() -> RunningCluster:
        security = make_security(home)
        return start_kraft(home / "node", (Node(id=1),), release_version="4.1", security=security)

    with running(start) as cluster:
        assert cluster.security is not None
        with cluster.security.admin(cluster.bootstrap) as client:
            assert not client.create_acls([may("viewer", ACLOperation.DESCRIBE)])["failed"]
        yield cluster


@pytest.fixture(scope="module")
def zookeeper_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """ZooKeeper mode 3.9.2: broker 1, the controller, advertises f 1-5, broker 2 f 1-3, both g 1-2.

    Finalized are f and g at 1 when the tests of a module begin, which share it: f can go to 3, and
    broker 2 is in the way of more.
    """
    home = tmp_path_factory.mktemp("zookeeper")
    brokers = (
        ZooKeeperBroker(id=1, features={"f": (1, 5), "g": (1, 2)}),
        ZooKeeperBroker(id=2, features={"f": (1, 3), "g": (1, 2)}),
    )
    with running(lambda: start_zookeeper_mode(home, brokers, {"f": 1, "g": 1})) as cluster:
        yield cluster
