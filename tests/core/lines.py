"""Writes a described cluster as landing lines, and lines as snapshot rows: the whole way in.

Everything goes through featurelib.landing and featurelib.snapshot, so a test that compares the
core's answer with the oracle's tests the whole chain.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions, Expected
from featurelib.catalogue import Catalogue, with_overlay
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load as load_dialect
from featurelib.landing import Landing, read
from featurelib.rows import TableRows
from featurelib.snapshot import fold_lines, snapshot_rows
from tests.core.oracle import CONTROLLER, Cluster, Node, visible
from tests.facts import first_fact

AS_OF = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = 3_600_000_000
MAX_AGE = 72 * HOUR


def at(age: int, seconds: int = 0) -> str:
    """The time `age` hours before the audit and some seconds after, as landing lines write it."""
    time = AS_OF - timedelta(hours=age) + timedelta(seconds=seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def microseconds(time: datetime) -> int:
    return int(time.timestamp()) * 1_000_000 + time.microsecond


NOW = microseconds(AS_OF)


def line_of(kind: str, cluster: str, age: int, **keys: object) -> bytes:
    """One landing line; nodes are asked one after the other, by their ids."""
    node = keys.get("node_id", 0)
    time = at(age, node if isinstance(node, int) else 0)
    return json.dumps({"kind": kind, "cluster_id": cluster, "observed_at": time, **keys}).encode()


def ranges_json(ranges: dict[str, tuple[int, int]]) -> list[dict[str, object]]:
    return [{"name": n, "min_version": a, "max_version": b} for n, (a, b) in ranges.items()]


def log_features(node: Node) -> str:
    return json.dumps(
        [
            {"name": n, "minSupportedVersion": a, "maxSupportedVersion": b}
            for n, (a, b) in node.ranges.items()
        ]
    )


def answer_line(cluster: str, node: Node) -> bytes:
    levels = (node.levels or {}).items() if node.epoch >= 0 else ()
    return line_of(
        "api_versions",
        cluster,
        node.answered or 0,
        node_id=node.node_id,
        role=node.role,
        endpoint=f"127.0.0.1:{9000 + node.node_id}",
        asked_version=node.asked_version,
        answered_version=node.asked_version,
        error_code=0,
        supported_features=ranges_json(visible(node)),
        finalized_features_epoch=node.epoch,
        finalized_features=[
            {"name": n, "max_version_level": v, "min_version_level": v} for n, v in levels if v
        ],
    )


def metrics_line(
    node_id: int,
    role: str = "broker",
    *,
    seconds: int = 60,
    most: int = 27,
    levels: dict[str, int] | None = None,
    **more: tuple[int, int],
) -> bytes:
    """What a process shows by its metrics `seconds` after the audit began, features as its labels
    spell them; of metadata.version 7 to `most`."""
    ranges = {"metadata-version": (7, most)} | {n.replace("_", "-"): of for n, of in more.items()}
    shown = {"metadataVersion": 25} if levels is None else levels
    return line_of(
        "metrics",
        "c",
        0,
        node_id=node_id,
        role=role,
        observed_at=at(0, seconds),
        endpoint="h:9404",
        supported_features=ranges_json(ranges),
        finalized_features=[{"name": name, "level": level} for name, level in shown.items()],
    )


def configs_line(
    node_id: int,
    role: str,
    resources: dict[str, dict[str, tuple[str | None, int]]],
    *,
    age: int = 1,
    cluster: str = "c",
) -> bytes:
    """What a node is configured with: resource → key → (value, source)."""
    results = [
        {
            "error_code": 0,
            "error_message": None,
            "resource_type": 4,
            "resource_name": resource,
            "configs": [
                {
                    "name": key,
                    "value": value,
                    "read_only": True,
                    "config_source": source,
                    "is_sensitive": False,
                    "synonyms": [],
                }
                for key, (value, source) in values.items()
            ],
        }
        for resource, values in resources.items()
    ]
    return line_of(
        "describe_configs",
        cluster,
        age,
        asked_node=node_id,
        role=role,
        endpoint=f"127.0.0.1:{9000 + node_id}",
        version=4,
        answer={"throttle_time_ms": 0, "results": results},
    )


def strimzi_line(
    nodes: str = "b1 c9", *, age: int = 0, cluster: str = "c", **changes: Any
) -> bytes:
    """Strimzi's resources of a cluster; `nodes` as b1 for a broker and c9 for a controller."""
    roles = {"b": "broker", "c": CONTROLLER}
    said: dict[str, Any] = {
        "resource": "kafka/orders",
        "version": "4.1.2",
        "metadata_version": "4.0-IV3",
        "status_version": "4.1.2",
        "status_metadata_version": "4.0-IV3",
        "paused": False,
        "nodes_complete": True,
        "nodes": [{"node_id": int(one[1:]), "role": roles[one[0]]} for one in nodes.split()],
    }
    return line_of("strimzi", cluster, age, **said | changes)


def failure_line(cluster: str, node: Node) -> bytes:
    return line_of(
        "api_versions",
        cluster,
        node.failed or 0,
        node_id=node.node_id,
        role=node.role,
        endpoint=f"127.0.0.1:{9000 + node.node_id}",
        asked_version=4,
        error="connection refused",
    )


def not_reached_line(cluster: str, age: int, seconds: int = 0) -> bytes:
    """One look that reached nobody, `seconds` after that age."""
    reason = "h:9092: expected at least one node to answer, found: connection refused."
    return line_of("not_reached", cluster, age, observed_at=at(age, seconds), error=reason)


def record(offset: int, kind: str, data: str) -> str:
    return (
        f"| offset: {offset} CreateTime: 1795240165804 keySize: -1 valueSize: 24 sequence: -1 "
        f'headerKeys: [] payload: {{"type":"{kind}","version":0,"data":{data}}}'
    )


def control_record(offset: int, text: str) -> str:
    return (
        f"| offset: {offset} CreateTime: 1795240165804 keySize: 4 valueSize: 5 sequence: -1 "
        f"headerKeys: [] {text}"
    )


def batch(base: int, *, control: bool) -> str:
    return (
        f"baseOffset: {base} lastOffset: {base} count: 1 baseSequence: -1 lastSequence: -1 "
        "producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 1 isTransactional: false "
        f"isControl: {str(control).lower()} deleteHorizonMs: OptionalLong.empty position: 91 "
        "CreateTime: 1795240165440 size: 91 magic: 2 compresscodec: none crc: 1 isvalid: true"
    )


LOG_END = 2000


def log_texts(cluster: Cluster) -> list[str]:
    """The whole metadata log of a described KRaft cluster, as kafka-dump-log prints it."""
    bodies: list[tuple[str, str]] = []
    for name, level in cluster.stored.items():
        if name != "kraft.version":
            data = json.dumps({"name": name, "featureLevel": level})
            bodies.append(("FEATURE_LEVEL_RECORD", data))
    for node in cluster.nodes:
        if not node.listed:
            continue
        said = log_features(node)
        if node.role == CONTROLLER:
            data = f'{{"controllerId":{node.node_id},"features":{said}}}'
            bodies.append(("REGISTER_CONTROLLER_RECORD", data))
        else:
            data = f'{{"brokerId":{node.node_id},"features":{said},"fenced":true}}'
            bodies.append(("REGISTER_BROKER_RECORD", data))
            if not node.fenced:
                data = f'{{"brokerId":{node.node_id},"fenced":-1}}'
                bodies.append(("BROKER_REGISTRATION_CHANGE_RECORD", data))
    texts = ["Dumping logs/__cluster_metadata-0/00000000000000000000.log", "Log starting offset: 0"]
    texts.append(control_record(0, 'LeaderChange: {"version":0,"leaderId":1}'))
    kraft = cluster.stored.get("kraft.version", 0)
    shown = control_record(1, f'KRaftVersion {{"version":0,"kRaftVersion":{kraft}}}')
    # --skip-record-metadata prints the batch of a control record and leaves the record out.
    texts += [shown] if kraft >= 0 else [batch(1, control=True), batch(2, control=False)]
    texts += [record(2 + i, kind, data) for i, (kind, data) in enumerate(bodies)]
    # Brokers are at offsets of up to 1,000, and a log that ends before is cut.
    end = 2 + len(bodies)
    return [*texts, f"featurelib: left out {LOG_END - end} lines, offsets {end} to {LOG_END - 1}."]


def listing(
    *nodes: tuple[int, bool],
    kind: int = 1,
    version: int = 2,
    shown: bool | None = None,
    age: int = 1,
    cluster: str = "c",
) -> bytes:
    """A DescribeCluster answer, 1 = brokers, 2 = controllers: ids and whether they are fenced.

    Below version 2 brokers that are fenced are left out, and nobody is said to be.
    """
    shown = version >= 2 if shown is None else shown
    listed = [(i, fenced) for i, fenced in nodes if kind == 2 or shown or not fenced]
    brokers = [{"broker_id": i, **({"is_fenced": f} if shown else {})} for i, f in listed]
    return line_of(
        "describe_cluster",
        cluster,
        age,
        asked_node=1,
        listener="controller" if kind == 2 else "broker",
        version=version,
        endpoint_type=kind,
        include_fenced_brokers=shown,
        answer={"error_code": 0, "controller_id": 1, "brokers": brokers},
    )


def list_line(cluster: Cluster, kind: int) -> bytes:
    """What a described cluster answers to DescribeCluster: 1 = brokers, 2 = controllers."""
    shown = cluster.registry == "fenced"
    mine = (n for n in cluster.nodes if n.listed and (n.role == CONTROLLER) == (kind == 2))
    return listing(
        *((node.node_id, node.fenced) for node in mine),
        kind=kind,
        version=2 if shown or kind == 2 else 0,
        shown=shown,
        age=cluster.registry_age,
        cluster=cluster.name,
    )


LEADER = 1_795_000_000_000  # its time of a DescribeQuorum answer, milliseconds
Replica = int | tuple[int, int]  # its id, and how many seconds ago it fetched


def quorum_line(
    cluster: str,
    voters: Iterable[Replica],
    observers: Iterable[Replica] = (),
    age: int = 1,
    end: int = 900,
) -> bytes:
    def replicas(some: Iterable[Replica]) -> list[dict[str, int]]:
        return [
            {"replica_id": one}
            if isinstance(one, int)
            else {"replica_id": one[0], "last_fetch_timestamp": LEADER - one[1] * 1000}
            for one in some
        ]

    partition = {"partition_index": 0, "error_code": 0, "leader_id": 1, "leader_epoch": 3}
    partition |= {"high_watermark": end, "current_voters": replicas(voters)}
    partition |= {"observers": replicas(observers)}
    topics = [{"topic_name": "__cluster_metadata", "partitions": [partition]}]
    answer = {"error_code": 0, "topics": topics}
    keys = {"asked_node": 1, "listener": "broker", "version": 2, "answer": answer}
    return line_of("describe_quorum", cluster, age, **keys)


def refusal_line(
    cluster: str, age: int = 0, kind: str = "describe_quorum", **keys: object
) -> bytes:
    """A request that was refused for want of a right, as the collector writes it down."""
    said: dict[str, object] = {"asked_node": 1, "listener": "broker", "error_code": 31}
    return line_of(kind, cluster, age, **said | {"error": "it is not authorized"} | keys)


def znode_lines(cluster: Cluster) -> list[bytes]:
    def znode(path: str, data: object | None) -> bytes:
        stored = None if data is None else json.dumps(data)
        version = None if data is None else 5
        keys = {"path": path, "version": version, "czxid": version, "data": stored}
        return line_of("znode", cluster.name, cluster.registry_age, **keys)

    lines = []
    for node in cluster.nodes:
        if node.listed:
            data: dict[str, object] = {"version": 4 if node.says_nothing else 5}
            if not node.says_nothing:
                data["features"] = {
                    n: {"min_version": a, "max_version": b} for n, (a, b) in node.ranges.items()
                }
            lines.append(znode(f"/brokers/ids/{node.node_id}", data))
    least = {"min_version_level": 1} if cluster.schema == 1 else {}
    features = {n: least | {"max_version_level": v} for n, v in cluster.stored.items() if v}
    content = {
        "version": cluster.schema,
        "status": 0 if cluster.system_off else 1,
        "features": features,
    }
    lines.append(znode("/feature", content if cluster.features_node else None))
    if cluster.controller is not None:
        lines.append(znode("/controller", {"version": 1, "brokerid": cluster.controller}))
    lines.append(znode("/cluster/id", {"version": "1", "id": cluster.name}))
    return lines


def lines_of(cluster: Cluster) -> list[bytes]:
    """Everything that landed of a described cluster."""
    answers, lines = list[bytes](), list[bytes]()
    for node in cluster.nodes:
        if node.answered is not None:
            answers.append(answer_line(cluster.name, node))
        if node.failed is not None:
            answers.append(failure_line(cluster.name, node))
    if cluster.zookeeper:
        lines += znode_lines(cluster)
    elif cluster.log:
        lines += log_lines(cluster, cluster.registry_age)
    elif cluster.registry in ("fenced", "live"):
        lines.append(list_line(cluster, 1))
    if cluster.controllers_listed:
        lines.append(list_line(cluster, 2))
    if cluster.voters is not None:
        lines.append(quorum_line(cluster.name, cluster.voters))
    if cluster.configured is not None:
        entries = ",".join(f"{node_id}@h:9093" for node_id in cluster.configured)
        said: dict[str, tuple[str | None, int]] = {"controller.quorum.voters": (entries, 4)}
        lines.append(configs_line(1, "controller", {"1": said}, cluster=cluster.name))
    if cluster.refused:
        lines.append(refusal_line(cluster.name))
    if cluster.tool:
        text = (
            "Feature: metadata.version\tSupportedMinVersion: 3.3-IV3\tSupportedMaxVersion: "
            "4.1-IV1\tFinalizedVersionLevel: 4.0-IV3\tEpoch: 57"
        )
        keys = {"line_number": 2, "line": text}
        lines.append(line_of("features_describe", cluster.name, 0, **keys))
    # Kafka lists nodes in one look with who answered last, a minute before.
    before = at(0, -60)
    return answers + [line.replace(at(1).encode(), before.encode()) for line in lines]


def log_lines(cluster: Cluster, age: int) -> list[bytes]:
    """The whole metadata log of a described cluster, as it landed."""
    return [
        line_of("metadata_log", cluster.name, age, line_number=number, line=text)
        for number, text in enumerate(log_texts(cluster), start=2)
    ]


def landings(lines: Iterable[bytes]) -> list[tuple[Landing, int]]:
    """Lines as the fold takes them; a line that is quarantined fails the test."""
    read_lines = []
    for raw in lines:
        landing = read(raw)
        assert isinstance(landing, Landing), landing
        line_id = int.from_bytes(hashlib.sha256(raw).digest()[:8], "big", signed=True)
        read_lines.append((landing, line_id))
    return read_lines


def snapshot(clusters: dict[str, list[bytes]]) -> TableRows:
    """Snapshot rows of some clusters' lines."""
    catalogue = load_catalogue()
    return snapshot_rows(
        (name, fold_lines(landings(lines), catalogue)) for name, lines in clusters.items()
    )


def conditions(clusters: Iterable[Cluster]) -> Conditions:
    inventory = {
        cluster.name: Expected(
            brokers=cluster.expected_brokers,
            vouched=cluster.vouched,
            controllers_vouched=cluster.controllers_vouched,
        )
        for cluster in clusters
    }
    return Conditions(as_of=microseconds(AS_OF), max_age=MAX_AGE, inventory=inventory)


# A default that depends on something, as none of Kafka's own that moves unasked does.
DEPENDING = with_overlay(
    load_catalogue(),
    """
    [[feature_level]]
    feature = "group.version"
    level = 1
    default_from = "4.0-IV1"
    dependency = "metadata.version=23"
    stable_since = "4.0"
    """,
    "depending.toml",
)


def with_features(**ends: int) -> Catalogue:
    """The catalogue, and features of somebody's own that every release knows up to these levels: in
    KRaft nothing is said of a feature without rows."""
    known = load_catalogue()
    rows = [
        f'[[feature_level]]\nfeature = "{name}"\nlevel = {level}\ndefault_from = "3.3-IV3"\n'
        f'stable_since = "3.3"\n'
        for name, most in ends.items()
        for level in range(most + 1)
    ]
    rows += [
        f'[[release_feature]]\nrelease = "{release.release}"\nfeature = "{name}"\n'
        f"newest_stable = {most}\nnewest_unstable = {most}\n"
        for name, most in ends.items()
        for release in known.releases
    ]
    return with_overlay(known, "\n".join(rows), "features.toml")


def judge_rows(
    batch: TableRows, clusters: Iterable[Cluster] = (), catalogue: Catalogue | None = None
) -> Judged:
    known = catalogue or load_catalogue()
    return judge(batch, conditions(clusters), known, load_dialect("strict"))


def judge_clusters(*clusters: Cluster, catalogue: Catalogue | None = None) -> Judged:
    """What the core says of described clusters, in one batch."""
    return judge_rows(snapshot({c.name: lines_of(c) for c in clusters}), clusters, catalogue)


def judge_lines(
    lines: Iterable[bytes],
    expected: Expected | None = None,
    *,
    name: str = "c",
    catalogue: Catalogue | None = None,
    **under: Any,
) -> Judged:
    """What the core says of one cluster's lines, of which the inventory says what is expected;
    `under`: other conditions than those of all tests."""
    inventory = {} if expected is None else {name: expected}
    inputs = Conditions(**{"as_of": NOW, "max_age": MAX_AGE, "inventory": inventory} | under)
    known, rows = catalogue or load_catalogue(), snapshot({name: list(lines)})
    return judge(rows, inputs, known, load_dialect("strict"))


# --- Readers of what is judged: tests look at its tables by these, as rows -----------------------

Row = dict[str, Any]


def rows_of(judged: Judged, table: str, **like: object) -> list[Row]:
    """The rows of a table whose columns are `like` that."""
    rows: list[Row] = getattr(judged, table).to_pylist()
    return [row for row in rows if all(row[key] == value for key, value in like.items())]


def findings(judged: Judged, *codes: str, **like: object) -> list[Row]:
    """The findings, perhaps of some codes only."""
    found = rows_of(judged, "findings", **like)
    return [row for row in found if not codes or row["code"] in codes]


def codes(judged: Judged) -> set[str]:
    return {row["code"] for row in findings(judged)}


def verdicts(judged: Judged) -> dict[str, str]:
    """Feature → verdict, of one cluster."""
    return {row["feature"]: row["verdict"] for row in rows_of(judged, "readiness")}


def readiness(judged: Judged, feature: str) -> Row:
    """The row of a feature, of one cluster."""
    [row] = rows_of(judged, "readiness", feature=feature)
    return row


def steps(judged: Judged) -> list[Row]:
    """The steps of the plan, of one cluster."""
    [plan] = rows_of(judged, "plans")
    found: list[Row] = plan["steps"]
    return found


def told(judged: Judged) -> str:
    """Verdicts and findings of one cluster as a text, a line each."""
    said = [
        f"{row['feature']} {row['verdict']}: {row['finalized_level']} to {row['target']}"
        for row in rows_of(judged, "readiness")
    ]
    for row in findings(judged):
        who = f" {row['role'] or 'node'} {row['node_id']}" if row["node_id"] is not None else ""
        what = f" {row['feature']}" if row["feature"] else ""
        level = "" if row["level"] is None else f" {row['level']}"
        said.append(f"  {row['code']}{who}{what}{level}: {first_fact(row) or ''}".rstrip(": "))
    return "\n".join(said) or "nothing"


ANOMALIES = (
    "epoch_went_back",
    "features_node_recreated",
    "metadata_log_ambiguous",
    "metadata_log_gap",
    "registration_gone",
)


def anomalies(batch: TableRows) -> list[str]:
    """What the audit says against what was collected, as `code:detail`."""
    return [
        f"{row['code']}:{first_fact(row) or ''}" for row in findings(judge_rows(batch), *ANOMALIES)
    ]
