"""Where a server of the rig listens and what it is told: free ports, none of them twice in one test
run; properties files; and the settings that keep a server small."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

HOST = "127.0.0.1"
_given: set[int] = set()
SMALL = {
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
}


def free_address() -> str:
    """A "host:port" on which nobody listens now.

    Servers start at once after this; another program may still take the port first, and then the
    server's log says so.
    """
    while True:
        with socket.socket() as taken:
            taken.bind((HOST, 0))
            port = int(taken.getsockname()[1])
        if port not in _given:
            _given.add(port)
            return f"{HOST}:{port}"


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    """Writes a Java properties file, and the folder it lies in; gives its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path
