"""Record which of several blocking nodes a real controller names, for tests and `conformance FILE`.

    .venv/bin/python -m scripts.record_offenders RELEASE [--seed N] [--clusters N] > FILE
    .venv/bin/python -m scripts.record_offenders RELEASE --voters 2,3,17 --active 3 \\
        --format 3.4-IV0 [--older RELEASE] [--down 9,18] [--unstable] > FILE

One real node is the active controller and a broker; the other brokers and controllers register with
it by requests, as nodes do at their start: with any ids, order and ranges. With --voters they are
real nodes: of an older release, never started, or without the unstable levels of the active
controller. Requests for each higher level only validate. Then the cluster is deleted.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import struct
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from featurelib.catalogue import load
from scripts.record_exchanges import Json, Recorder
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.kraft import Node, start_kraft

BROKER_REGISTRATION, CONTROLLER_REGISTRATION = 62, 70
BROKER, CONTROLLER = "broker", "controller"
REGISTER_FROM = (3, 7)  # controllers register from this release on (KIP-919)
ELECTION = "controller.quorum.election.timeout.ms"
PROPERTIES = {"metadata.max.idle.interval.ms": "0"}
TIMEOUT_SECONDS = 20.0
KRAFT = "kraft.version"
Ranges = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registrar:
    """A client that registers nodes with one active controller."""

    address: str
    cluster_id: str
    broker_version: int

    def register(self, role: str, node_id: int, ranges: Ranges) -> None:
        """Register one node. Raises ValueError if the controller refuses the registration."""
        listeners = _array([_text("L") + _text("localhost") + b"\x23\x84\0\0\0"])
        features = _array(
            [_text(name) + struct.pack(">hh", *ends) + b"\0" for name, ends in ranges.items()]
        )
        if role == BROKER:
            key, version = BROKER_REGISTRATION, self.broker_version
            body = struct.pack(">i", node_id) + _text(self.cluster_id) + uuid.uuid4().bytes
            body += listeners + features + b"\0"  # no rack
            body += b"\0" * (version >= 1)  # does not migrate
            body += _array([uuid.uuid4().bytes]) * (version >= 2)  # directories
            body += struct.pack(">q", -1) * (version >= 3)  # no epoch before
        else:
            key, version = CONTROLLER_REGISTRATION, 0
            body = struct.pack(">i", node_id) + uuid.uuid4().bytes + b"\0" + listeners + features
        answer = _exchange(self.address, key, version, body + b"\0")
        code = struct.unpack_from(">h", answer, 9)[0]  # correlation, no tags, throttle time
        if code:
            raise ValueError(f"{role} {node_id} could not register: error {code}, {answer!r}")


def _text(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def _array(items: Sequence[bytes]) -> bytes:
    return bytes([len(items) + 1]) + b"".join(items)


def _exchange(address: str, key: int, version: int, body: bytes) -> bytes:
    host, _, port = address.rpartition(":")
    request = struct.pack(">hhih", key, version, 1, -1) + b"\0" + body
    with socket.create_connection((host, int(port)), TIMEOUT_SECONDS) as client:
        client.sendall(struct.pack(">i", len(request)) + request)
        with client.makefile("rb") as answer:
            return answer.read(struct.unpack(">i", answer.read(4))[0])


def registrar_of(cluster: RunningCluster, active: int) -> Registrar:
    """Return the client that registers nodes with node `active`."""
    short = _short(cluster.nodes[active].release)
    version = 0 if short < (3, 4) else 1 if short < (3, 7) else 3
    address = cluster.nodes[active].controller
    return Registrar(address=address, cluster_id=cluster.cluster_id, broker_version=version)


def _short(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".")[:2])


def draw(dice: random.Random, ranges: Ranges, finalized: Mapping[str, int]) -> dict[str, list[int]]:
    """Return random ranges for one node. Each contains the finalized level."""
    found = {}
    for name, (low, high) in ranges.items():
        top = dice.randint(finalized.get(name, 0), high)
        if top > 0:
            found[name] = [low, top]
    return found


def record(release: str, number: int, dice: random.Random, home: Path) -> Iterator[Json]:
    """Record the exchanges of a cluster with random node ids and a random registration order."""
    own = dice.choice([1, 2, 3, 17, 100])
    version = _format_at(release)
    unstable = _short(release) >= (3, 8)  # more levels to ask for
    node = Node(id=own, release=release, unstable=unstable, properties=PROPERTIES)
    cluster = start_kraft(home, [node], release_version=version)
    try:
        scenario = f"offenders{number}"
        recorder = Recorder(
            release=release,
            brokers={own: cluster.nodes[own].broker},
            controllers={own: cluster.nodes[own].controller},
            scenario=scenario,
        )
        ranges, registrar = recorder.ranges(), registrar_of(cluster, own)
        finalized = recorder.state()["finalized"]
        top = dice.choice([20, 40, 100, 1000])
        roles = [BROKER, CONTROLLER] if _short(release) >= REGISTER_FROM else [BROKER]
        more: list[Json] = []
        offends = dice.choice(roles)
        for role in roles:
            ids = dice.sample([i for i in range(1, top) if i != own], dice.choice([1, 2, 3, 6, 11]))
            for node_id in ids:
                supports = dict(ranges)
                if role == offends:
                    supports = draw(dice, ranges, finalized)
                registrar.register(role, node_id, supports)
                said = {"node_id": node_id, "role": role, "running": False, "active": False}
                said |= {"release": release, "features": supports, "fenced": role == BROKER}
                more.append(said)
        for request in _every_level_above(finalized, ranges):
            line = recorder.exchange(request)
            line["cluster"]["nodes"] += more
            line["cluster"]["flags"] = {"voters": [own]}
            yield line
    finally:
        cluster.stop()


def _every_level_above(finalized: Mapping[str, int], ranges: Ranges) -> Iterator[Json]:
    for name, (_, high) in ranges.items():
        for level in range(finalized.get(name, 0) + 1, high + 2):
            update = {"feature": name, "max_version_level": level, "upgrade_type": 1}
            yield {"version": 1, "updates": [update], "validate_only": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """A quorum of real voters. The active controller has `release`, the others have `older`."""

    release: str
    voters: Sequence[int]
    active: int
    formatted: str
    older: str
    down: frozenset[int]  # voters that are never started, so they never register
    unstable: bool  # the active controller supports levels in development

    def nodes(self) -> list[Node]:
        """Return the voters. The one that must be active starts an election before the others."""
        return [
            Node(
                id=node,
                release=self.release if node == self.active else self.older,
                roles="broker,controller" if node == self.active else "controller",
                started=node not in self.down,
                unstable=self.unstable and node == self.active,
                properties=PROPERTIES | {ELECTION: "300" if node == self.active else "30000"},
            )
            for node in self.voters
        ]

    def record(self, home: Path) -> Iterator[Json]:
        """Record an exchange for every level above the finalized level."""
        cluster = start_kraft(home, self.nodes(), release_version=self.formatted)
        try:
            recorder = Recorder(
                release=self.release,
                brokers={self.active: cluster.nodes[self.active].broker},
                controllers={i: cluster.nodes[i].controller for i in self.voters},
                releases={i: self.older for i in self.voters if i != self.active},
                scenario="quorum",
                down=set(self.down),
            )
            finalized = recorder.state()["finalized"]
            # Voters report their range of kraft.version to the raft leader after some seconds.
            ranges = {name: ends for name, ends in recorder.ranges().items() if name != KRAFT}
            for request in _every_level_above(finalized, ranges):
                line = recorder.exchange(request)
                for node in line["cluster"]["nodes"]:
                    if node["node_id"] in self.down:
                        node |= {"registered": False, "features": None}
                yield line
        finally:
            cluster.stop()


def _format_at(release: str) -> str:
    """Return the lowest metadata.version at which controllers of `release` start and register."""
    known = load().of(".".join(release.split(".")[:2]))
    least = 15 if _short(release) >= REGISTER_FROM else 4
    return known.names[max(least, known.oldest_bootstrap)]


def _ids(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Record several random clusters to standard output."""
    parser = argparse.ArgumentParser(prog="record_offenders", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("release")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clusters", type=int, default=1)
    parser.add_argument("--voters", type=_ids, help="ids of a real quorum, as 1,2,3")
    parser.add_argument("--active", type=int, help="the voter that is to be the active controller")
    parser.add_argument("--format", help="the metadata.version to begin with, as 3.9-IV0")
    parser.add_argument("--older", help="the release of the other voters")
    parser.add_argument("--down", type=_ids, default=[], help="voters that are never started")
    parser.add_argument("--unstable", action="store_true", help="the active one has all levels")
    asked = parser.parse_args()
    if asked.voters:
        quorum = Quorum(
            release=asked.release,
            voters=asked.voters,
            active=asked.active,
            formatted=asked.format,
            older=asked.older or asked.release,
            down=frozenset(asked.down),
            unstable=asked.unstable,
        )
        with tempfile.TemporaryDirectory() as home:
            for line in quorum.record(Path(home)):
                print(json.dumps(line, ensure_ascii=False), flush=True)
        return
    for number in range(1, asked.clusters + 1):
        dice = random.Random(f"{asked.release} {asked.seed} {number}")
        with tempfile.TemporaryDirectory() as home:
            for line in record(asked.release, number, dice, Path(home)):
                print(json.dumps(line, ensure_ascii=False), flush=True)
        print(f"{asked.release}: cluster {number}", file=sys.stderr)


if __name__ == "__main__":
    main()
