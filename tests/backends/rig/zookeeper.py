"""ZooKeeper and brokers of ZooKeeper mode that advertise features.

Stock brokers advertise nothing, so FeatureBroker.java, compiled here, sets the ranges on the real
server. Kafka lives under a chroot, as in production it often does.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kazoo.client import KazooClient

from tests.backends.rig.cluster import RunningCluster, RunningNode, start_all
from tests.backends.rig.jars import cache_folder, class_path
from tests.backends.rig.java import Java, find
from tests.backends.rig.layout import SMALL, free_address, write_properties
from tests.backends.rig.process import Process
from tests.backends.rig.zookeeper_tls import MAIN, Guard

RELEASE = "3.9.2"
SOURCE = Path(__file__).with_name("FeatureBroker.java")
CHROOT = "/kafka"
READY = "FeatureBroker serves"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperBroker:
    """One broker to be, and the ranges it advertises."""

    id: int
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


def start_zookeeper_mode(
    home: Path,
    brokers: Sequence[ZooKeeperBroker],
    finalized: Mapping[str, int] | None = None,
    guard: Guard | None = None,
) -> RunningCluster:
    """Starts ZooKeeper, then the brokers, the first as controller; the caller stops the cluster.
    With a `guard` ZooKeeper is spoken to by TLS as well; the brokers keep to its plain port.

    `finalized`: levels of an earlier time, written before any broker; without them the broker that
    is elected finalizes its own maxima, and one with lower maxima ends (KIP-584 says it so).
    Raises UnavailableError without jars, Java or javac, NotReadyError where one does not start.
    """
    java, address = Java.of(RELEASE, _feature_broker()), free_address()
    nodes = {item.id: _broker(home, item, address + CHROOT, java) for item in brokers}
    ensemble = _zookeeper(home / "zookeeper", address, guard)
    cluster = RunningCluster(
        bootstrap=",".join(node.broker for node in nodes.values()),
        controller_bootstrap="",
        cluster_id="",
        nodes=nodes,
        java=java,
        zookeeper=address + CHROOT,
        _more=[ensemble],
    )
    try:
        ensemble.wait()
        if finalized:
            _write_finalized(address + CHROOT, finalized)
        for node in nodes.values():
            start_all([node])  # one after the other: the first is the controller
    except BaseException:
        cluster.stop()
        raise
    return cluster


def _write_finalized(zookeeper: str, levels: Mapping[str, int]) -> None:
    """Writes /feature as a controller of 3.3 to 3.9 does: schema 2, status 1 (enabled)."""
    features = {name: {"max_version_level": level} for name, level in levels.items()}
    content = {"version": 2, "status": 1, "features": features}
    address, chroot = zookeeper.split("/", 1)
    client = KazooClient(address)
    client.start(timeout=10)
    try:
        client.create(f"/{chroot}/feature", json.dumps(content).encode(), makepath=True)
    finally:
        client.stop()
        client.close()


def _feature_broker() -> Path:
    """Compiles FeatureBroker.java once for this source and release; gives its jar."""
    digest = hashlib.sha256(SOURCE.read_bytes() + RELEASE.encode()).hexdigest()[:16]
    made = cache_folder() / f"feature-broker-{digest}.jar"
    if made.is_file():
        return made
    path = ":".join(map(str, class_path(RELEASE)))
    with tempfile.TemporaryDirectory() as folder:
        command = [find("javac"), "-nowarn", "-cp", path, "-d", folder, str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            raise ValueError(f"{SOURCE.name} does not compile:\n{done.stderr}")
        part = made.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(part, "w") as jar:
            for compiled in Path(folder).iterdir():
                jar.write(compiled, compiled.name)
    part.replace(made)
    return made


def _zookeeper(home: Path, address: str, guard: Guard | None) -> Process:
    host, port = address.split(":")
    more = guard.properties if guard is not None else {}
    conf = write_properties(
        home / "zoo.cfg",
        {"tickTime": "500", "dataDir": str(home / "data"), "clientPort": port,
         "clientPortAddress": host, "admin.enableServer": "false", "maxClientCnxns": "0",
         "4lw.commands.whitelist": "srvr,envi", **more},
    )  # fmt: skip
    process = Process(name="zookeeper", home=home, ready=lambda _: _answers(host, int(port)))
    java = Java.of(RELEASE, *(guard.jars if guard is not None else (_feature_broker(),)))
    options = guard.options if guard is not None else ()
    process.launch(java.command(MAIN, str(conf), more=options))
    return process


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), 1) as connection:
            connection.sendall(b"srvr")
            return b"Mode:" in connection.recv(4096)
    except OSError:
        return False


def _broker(home: Path, item: ZooKeeperBroker, zookeeper: str, java: Java) -> RunningNode:
    address, folder = free_address(), home / f"broker-{item.id}"
    properties = {
        "broker.id": str(item.id),
        "zookeeper.connect": zookeeper,
        "listeners": f"PLAINTEXT://{address}",
        "log.dirs": str(folder / "data"),
        "controlled.shutdown.enable": "false",
        **SMALL,
        **item.properties,
    }
    conf = write_properties(folder / "server.properties", properties)
    ranges = [f"{name}={low}-{high}" for name, (low, high) in item.features.items()]
    process = Process(name=f"kafka-{item.id}", home=folder, ready=lambda text: READY in text)
    return RunningNode(
        id=item.id,
        release=java.release,
        broker=address,
        controller="",
        process=process,
        launch=partial(java.serve, process, "FeatureBroker", str(conf), *ranges),
    )
