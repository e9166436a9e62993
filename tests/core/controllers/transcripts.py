"""Recorded exchanges as the oracle's objects, and an answer compared with what was recorded."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.core.controllers.words import (
    BROKER,
    CONTROLLER,
    ELR,
    KRAFT,
    METADATA,
    Answer,
    Cluster,
    Node,
    Range,
    Request,
    Update,
)

HERE = Path(__file__).parents[2] / "data" / "transcripts"
# Nodes say again what they are, a record each, once metadata.version has passed one of these.
SAY_AGAIN = {15: CONTROLLER, 17: BROKER, 30: BROKER}
# So many lines later such a record was seen at most.
LATE = 10


@dataclass(frozen=True)
class Exchange:
    """One line: the cluster, what was asked, and the raw line with what was answered."""

    cluster: Cluster
    request: Request
    raw: dict[str, Any]
    owed: int  # records of nodes that may still come after a step of metadata.version

    @property
    def id(self) -> str:
        return str(self.raw["id"])


@dataclass(frozen=True)
class Verdict:
    """What differs, and the noise that was set aside instead."""

    differences: list[str]
    noise: list[str]


def releases() -> list[str]:
    return sorted(path.name.removesuffix(".jsonl.xz") for path in HERE.glob("*.jsonl.xz"))


def exchanges(name: str) -> Iterator[Exchange]:
    """All lines of one file, in its order."""
    scenarios: dict[str, Scenario] = {}
    with lzma.open(HERE / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            raw = json.loads(line)
            if raw["mode"] == "zk":
                yield Exchange(zookeeper_cluster(raw), request_of(raw), raw, 0)
            else:
                key = raw["id"].split("-")[1]
                yield scenarios.setdefault(key, Scenario()).next(raw)


class Scenario:
    """What no single line shows, remembered from line to line."""

    def __init__(self) -> None:
        self.record = 0  # 3.9: the kraft.version record a raft layer above 0 hides
        self.elr_default = False
        self.owed: list[int] = []  # numbers of the lines by which those records must have come
        self.metadata: int | None = None

    def next(self, raw: dict[str, Any]) -> Exchange:
        was, now = raw["cluster"]["finalized"], raw["after"]["finalized"]
        number = int(raw["id"].split("-")[2])
        cluster = kraft_cluster(raw, self.record, self.elr_default or was.get(ELR, 0) > 0)
        # Some lines were not recorded: the step may lie between this line and the one before.
        start = was[METADATA] if self.metadata is None else min(self.metadata, was[METADATA])
        for level, role in SAY_AGAIN.items():
            if start < level <= now[METADATA]:
                again = [n for n in cluster.nodes if n.role == role and n.running]
                self.owed += [number + LATE] * len(again)
        self.owed = [until for until in self.owed if until >= number]
        exchange = Exchange(cluster, request_of(raw), raw, len(self.owed))
        self.record = hidden_record(raw, cluster)
        self.elr_default = cluster.elr_default or now.get(ELR, 0) > 0
        self.metadata = now[METADATA]
        return exchange


def hidden_record(raw: dict[str, Any], cluster: Cluster) -> int:
    """3.9: its own kraft.version record after the exchange."""
    good = {r["feature"] for r in raw["response"]["results"] or [] if r["error_code"] == 0}
    record = cluster.kraft_record
    for update in raw["request"]["updates"]:
        asked = update["feature"] == KRAFT and KRAFT in good
        if asked and not raw["request"].get("validate_only"):
            record = update["max_version_level"]
    return record


def zookeeper_cluster(raw: dict[str, Any]) -> Cluster:
    said = raw["cluster"]
    flags = said["flags"]
    nodes = [
        Node(
            node_id=node["node_id"],
            release=raw["release"],
            supported=ranges(node["features"]),
            active=node["node_id"] == said["controller_id"],
        )
        for node in said["nodes"]
    ]
    return Cluster(
        release=raw["release"],
        mode="zk",
        nodes=tuple(nodes),
        finalized=None if said["finalized"] is None else ranges(said["finalized"]),
        epoch=said["epoch"],
        ibp=flags["inter_broker_protocol"],
        status=said["status"],
        sees_node=flags.get("caches_noticed_the_new_node", True),
    )


def kraft_cluster(raw: dict[str, Any], record: int, elr_default: bool) -> Cluster:
    said = raw["cluster"]
    finalized: dict[str, int] = said["finalized"]
    nodes = [
        Node(
            node_id=node["node_id"],
            role=node["role"],
            release=node["release"],
            supported=ranges(node["features"] or {}),
            registered=node.get("registered", True),
            running=node.get("running", True),
            fenced=node.get("fenced", False),
            active=node.get("active", False),
        )
        for node in said["nodes"]
    ]
    raft = finalized.get(KRAFT, 0)
    if raw["release"].startswith("3.9"):
        raft = 1 if said["flags"]["dynamic_quorum"] else 0
        record = record if raft else finalized.get(KRAFT, 0)
    return Cluster(
        release=raw["release"],
        mode="kraft",
        nodes=tuple(nodes),
        finalized={name: (level, level) for name, level in finalized.items()},
        epoch=said["epoch"],
        raft=raft,
        kraft_record=record,
        elr_default=elr_default,
    )


def ranges(features: dict[str, list[int]]) -> dict[str, Range]:
    return {name: (low, high) for name, (low, high) in features.items()}


def request_of(raw: dict[str, Any]) -> Request:
    asked = raw["request"]
    target = asked.get("target") or {"node_id": raw["cluster"]["flags"]["sent_to"], "role": BROKER}
    updates = [
        Update(
            u["feature"],
            u["max_version_level"],
            u.get("upgrade_type", 1),
            u.get("allow_downgrade", False),
        )
        for u in asked["updates"]
    ]
    return Request(
        version=asked["version"],
        updates=tuple(updates),
        validate_only=asked.get("validate_only", False),
        timeout_ms=asked["timeout_ms"],
        sent_to=target["node_id"],
        listener=CONTROLLER if target["role"] == CONTROLLER else BROKER,
    )


def compare(exchange: Exchange, answer: Answer) -> Verdict:
    raw, said = exchange.raw, exchange.raw["response"]
    wrong = []
    if (answer.code, answer.message) != (said["error_code"], said["error_message"]):
        wrong.append(f"top: {answer.code} {answer.message!r}")
    results = said["results"]
    if results is not None:
        results = [(r["feature"], r["error_code"], r["error_message"]) for r in results]
    ours = None if answer.results is None else [result[:3] for result in answer.results]
    if raw["mode"] == "zk" and results is not None:  # in the order of some hash map
        results = sorted(results)
        ours = sorted(ours or [])
    if results != ours:
        wrong.append(f"results: {ours}")
    after = raw["after"]
    if levels_after(raw) != answer.after:
        wrong.append(f"after: {answer.after}")
    if raw["mode"] == "zk" and after["status"] != answer.status:
        wrong.append(f"status: {answer.status}")
    noise = []
    if moved(raw) != answer.steps:
        excuse = why_moved(exchange, answer)
        if excuse is None:
            wrong.append(f"epoch: {answer.steps}, not {moved(raw)}")
        else:
            noise.append(excuse)
    return Verdict(wrong, noise)


def levels_after(raw: dict[str, Any]) -> dict[str, Range] | None:
    after = raw["after"]["finalized"]
    if after is None:
        return None
    if raw["mode"] == "zk":
        return ranges(after)
    return {name: (level, level) for name, level in after.items()}


def moved(raw: dict[str, Any]) -> int:
    before, after = raw["cluster"]["epoch"], raw["after"]["epoch"]
    return 0 if before is None or after is None else after - before


def why_moved(exchange: Exchange, answer: Answer) -> str | None:
    """Records that something else than the request may have written; only ever more of them."""
    extra = moved(exchange.raw) - answer.steps
    if exchange.raw["mode"] == "zk" or extra < 0:
        return None
    if answer.epoch_moved is None:
        return "kraft.version wrote control records"
    if extra <= exchange.owed:
        return "nodes registered again"
    return None
