"""Record UpdateFeatures exchanges of a real KRaft cluster, for `featurelib conformance FILE`.

    .venv/bin/python -m scripts.record_exchanges --release 4.2.1 --broker 1=HOST:PORT \\
        --controller 1=HOST:PORT [--requests FILE] [--apply] > mine.jsonl

Without --apply every request only validates and nothing is written. With --apply use a test
cluster. Without --requests the script requests every level around each feature's range, with every
upgrade type. docs/conformance.md describes the lines.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from featurelib.backends.credentials import Credentials
from featurelib.backends.kafka.connection import Connection
from featurelib.backends.kafka.internals import Api
from featurelib.backends.kafka.protocol import Wire
from featurelib.config.security import Security

Json = dict[str, Any]
PLAINTEXT = Credentials(Security())
TIMEOUT_SECONDS, TIMEOUT_MS = 10.0, 10_000
SETTLE_SECONDS, PAUSE_SECONDS = 10.0, 0.02
UPGRADE_TYPES = (1, 2, 3, 0, 4)
UNKNOWN = "no.such.feature"


@dataclass(kw_only=True)
class Recorder:
    """A cluster to record. `brokers`, `controllers`: node id → address; `down`: the stopped
    nodes."""

    release: str
    brokers: Mapping[int, str]
    controllers: Mapping[int, str]
    scenario: str = "recorded"
    # Releases of nodes that run another one.
    releases: Mapping[int, str] = field(default_factory=dict)
    down: set[int] = field(default_factory=set)
    number: int = 0

    def exchange(self, request: Json) -> Json:
        """Send one request to the active controller, and return the line to write.

        `request` has version, updates and validate_only, as in the line. Raises errors of the
        connection, and TimeoutError if the cluster does not settle.
        """
        active = self._settle()
        request = {
            "timeout_ms": TIMEOUT_MS,
            "validate_only": False,
            "target": {"node_id": active, "role": "controller"},
            **request,
        }
        before = {"nodes": self._nodes(active), **self.state()}
        response = self._send(self.controllers[active], request)
        after = self.state()
        self.number += 1
        return {
            "id": f"{self.release}-{self.scenario}-{self.number:03d}",
            "release": self.release,
            "mode": "kraft",
            "cluster": before,
            "request": request,
            "response": response,
            "after": after,
        }

    def ranges(self) -> dict[str, list[int]]:
        """Return the supported ranges of the first broker."""
        return _ranges(look(self._running(self.brokers)[0]))

    def versions(self) -> range:
        """Return the versions of UpdateFeatures that the first running controller supports."""
        connection = _connect(self._running(self.controllers)[0])
        try:
            low, high = connection.offered[Api.UPDATE_FEATURES]
        finally:
            connection.close()
        return range(low, high + 1)

    def _running(self, addresses: Mapping[int, str]) -> list[str]:
        return [address for node, address in addresses.items() if node not in self.down]

    def _settle(self) -> int:
        """Wait until every broker has applied the whole log; return the active controller's id."""
        end = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < end:
            leader, last = _quorum(self._running(self.brokers)[0])  # it knows the leader
            applied = [_epoch(look(address)) for address in self._running(self.brokers)]
            if leader in self.controllers and min(applied) >= last:
                return leader
            time.sleep(PAUSE_SECONDS)
        raise TimeoutError(
            f"{self.scenario}: expected every broker at offset {last} of the log, found {applied}. "
            "Set metadata.max.idle.interval.ms=0, or name the nodes that are down."
        )

    def state(self) -> Json:
        """Return the finalized levels and the epoch, after every broker has applied the log."""
        self._settle()
        said = look(self._running(self.brokers)[0])
        levels = {each["name"]: each["max_version_level"] for each in said["finalized_features"]}
        return {"finalized": levels, "epoch": _epoch(said)}

    def _nodes(self, active: int) -> list[Json]:
        """Return every node in each of its roles, with its ranges."""
        nodes = []
        for role, addresses in (("broker", self.brokers), ("controller", self.controllers)):
            for node, address in addresses.items():
                said = {"node_id": node, "role": role, "running": node not in self.down}
                said["release"] = self.releases.get(node, self.release)
                said["active"] = role == "controller" and node == active
                if node not in self.down:
                    said["features"] = _ranges(look(self.brokers.get(node, address)))
                nodes.append(said)
        return nodes

    def _send(self, address: str, request: Json) -> Json:
        fields = {
            "timeout_ms": request["timeout_ms"],
            "validate_only": request["validate_only"],
            "feature_updates": request["updates"],
        }
        connection = _connect(address)
        try:
            said = connection.send(Api.UPDATE_FEATURES, request["version"], fields).to_dict()
        finally:
            connection.close()
        results = said.get("results") if request["version"] <= 1 else None
        return {
            "error_code": said["error_code"],
            "error_message": said["error_message"],
            "results": results,
        }


def _connect(address: str) -> Connection:
    return Connection(address, PLAINTEXT, round(TIMEOUT_SECONDS * 1000))


def look(address: str) -> Json:
    """Return the ApiVersions response of one listener."""
    with Wire(PLAINTEXT, TIMEOUT_SECONDS).connect(address) as client:
        return dict(client.api_versions().body)


def _quorum(address: str) -> tuple[int, int]:
    """Return the id of the active controller, and the last committed offset."""
    with Wire(PLAINTEXT, TIMEOUT_SECONDS).connect(address) as client:
        body: Any = client.describe_quorum().body
    partition = body["topics"][0]["partitions"][0]
    return partition["leader_id"], partition["high_watermark"] - 1


def _ranges(said: Json) -> dict[str, list[int]]:
    return {
        each["name"]: [each["min_version"], each["max_version"]]
        for each in said["supported_features"]
    }


def _epoch(said: Json) -> int:
    return int(said["finalized_features_epoch"])


def every_request(ranges: Mapping[str, Sequence[int]], versions: Iterable[int]) -> Iterator[Json]:
    """Yield requests for all levels around each range, for a repeated name and for an invalid
    name."""
    for version in versions:
        if version == 0:  # version 0 has no validate_only
            continue
        for name, (low, high) in {**ranges, UNKNOWN: (0, 1)}.items():
            for level in sorted({-1, 0, low - 1, low, low + 1, high - 1, high, high + 1}):
                for kind in UPGRADE_TYPES:
                    yield _request(version, (name, level, kind))
        for name, (low, high) in ranges.items():
            yield _request(version, (name, low, 1), (name, high, 1))
            yield _request(version, (name, high, 1), (UNKNOWN, 1, 1))


def _request(version: int, *updates: tuple[str, int, int]) -> Json:
    asked = [
        {"feature": name, "max_version_level": level, "upgrade_type": kind}
        for name, level, kind in updates
    ]
    return {"version": version, "updates": asked, "validate_only": True}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="record_exchanges", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--release", required=True, help="the Kafka release it is built from")
    for role in ("broker", "controller"):
        parser.add_argument(f"--{role}", required=True, action="append", metavar="ID=HOST:PORT")
    parser.add_argument("--node-release", action="append", default=[], metavar="ID=RELEASE")
    parser.add_argument("--scenario", default="recorded", help="the second part of every id")
    parser.add_argument("--requests", type=Path, help="JSON lines of version, updates")
    parser.add_argument("--apply", action="store_true", help="send --requests as they are")
    return parser.parse_args()


def _by_id(words: Sequence[str]) -> dict[int, str]:
    return {int(word.partition("=")[0]): word.partition("=")[2] for word in words}


def main() -> None:
    """Record the requests; print one line per request."""
    asked = _arguments()
    recorder = Recorder(
        release=asked.release,
        brokers=_by_id(asked.broker),
        controllers=_by_id(asked.controller),
        releases=_by_id(asked.node_release),
        scenario=asked.scenario,
    )
    if asked.requests:
        requests = [json.loads(line) for line in asked.requests.read_text().splitlines() if line]
    else:
        requests = list(every_request(recorder.ranges(), recorder.versions()))
    for request in requests:
        if not asked.apply:
            if request["version"] == 0:
                sys.exit("version 0 has no validate_only: it would be applied. Give --apply.")
            request["validate_only"] = True
        print(json.dumps(recorder.exchange(request), ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
