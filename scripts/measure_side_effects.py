"""Measure on real Kafka the side effects of each feature level, and write the catalogue's rows.

    .venv/bin/python -m scripts.measure_side_effects [--release 4.4 …] [--write]

One cluster a release: a controller without min.insync.replicas of its own, two brokers that have it
as 2, one of them with values set per broker, a cluster default, two topics, a group and quotas. It
is formatted at the lowest metadata.version that the release can format and walks up level by level;
then each other feature from 0 up, and kraft.version last. A second cluster walks the levels in
development. Before and after each step, after the way back and after the step once more all
configurations, topics, groups and quotas are read, what may be set is tried (validate only), and
the metadata log is read between. All differences besides the FeatureLevelRecord are written. It
takes about fifteen minutes on two cores; jars come from Maven Central. docs/side_effects.md has the
results.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError
from kafka.protocol import admin
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from featurelib.catalogue import ReleaseCatalogue, load
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, UpgradeType, release_line
from featurelib.feature import release_number as number
from featurelib.landing.responses import METADATA_TOPIC
from scripts.record_api_keys import releases
from tests.backends.rig.asking import ask
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.jars import class_path
from tests.backends.rig.kraft import NEWEST_TOOLS, Node, start_kraft

TARGET = Path(__file__).parents[1] / "featurelib" / "catalogue" / "measured_steps.csv"
CONTROLLER, BROKERS = 100, (1, 2)
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32  # types of resources (ConfigResource.java)
SET, DELETE = 0, 1  # IncrementalAlterConfigs
QUIET_SECONDS, SETTLE_SECONDS, STEP_SECONDS = 0.4, 20.0, 0.05
KEY = "min.insync.replicas"
# Records that Kafka writes by the clock, without any change.
IDLE = {"NO_OP_RECORD v0"}
ALL_FAILED = (
    "The update failed for all features since the following feature had an error: "  # 4.0 and later
)
OFFSET = re.compile(r"^\|?\s*offset: (\d+) ")
PAYLOAD = re.compile(r"payload: (\{.*\})")
CONTROL = re.compile(r" (SnapshotHeader|SnapshotFooter|KRaftVersion|KRaftVoters|LeaderChange)\b")

API_VERSIONS = ApiVersionsRequest(
    client_software_name="featurelib", client_software_version="1", min_version=3
)
State = dict[str, str]  # name → value, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measurement of one step of one feature on one release: a row of measured_steps.csv."""

    release: str  # the release line
    version: str  # the version that ran
    date: str
    feature: str
    from_level: int
    level: int
    stable: bool
    setting: str  # the changed setting before the step
    reached: str  # "yes", or the controller's message
    records: str  # records besides the level's own, with their number
    changed: str  # configurations, topics, groups, quotas
    # Settings that were accepted before (validate only), and are refused afterwards.
    no_longer_set: str
    newly_set: str
    back: str  # the upgrade type of the successful downgrade, or the controller's message
    back_records: str
    not_restored: str  # differences from the state before the step, after the downgrade


@dataclass(kw_only=True)
class Lab:
    """A running cluster, with the catalogue of its release."""

    cluster: RunningCluster
    own: ReleaseCatalogue
    version: str

    def broker(self, node: int = BROKERS[0]) -> str:
        return self.cluster.nodes[node].broker

    @property
    def controller(self) -> str:
        return self.cluster.nodes[CONTROLLER].controller

    def levels(self) -> dict[str, int]:
        """Return the finalized levels, from a broker."""
        said = ask(self.broker(), API_VERSIONS).to_dict()
        return {f["name"]: f["max_version_level"] for f in said["finalized_features"] or ()}

    def update(self, feature: str, level: int, kind: UpgradeType) -> str:
        """Send an update, and wait until the log stops growing. Return "" or the controller's
        message."""
        update = admin.UpdateFeaturesRequest.FeatureUpdateKey(
            feature=feature, max_version_level=level, upgrade_type=int(kind), allow_downgrade=True
        )
        request = admin.UpdateFeaturesRequest(
            timeout_ms=10_000, feature_updates=[update], validate_only=False, min_version=1
        )
        said = ask(self.controller, request).to_dict()
        faults = [said, *(said.get("results") or ())]
        words = [
            str(f["error_message"]).removeprefix(ALL_FAILED) for f in faults if f["error_code"]
        ]
        self.settle()
        return words[0] if words else ""

    def settle(self) -> int:
        """Wait until the log stops growing and both brokers have read it; return its end offset."""
        until, quiet_at, end = time.monotonic() + SETTLE_SECONDS, time.monotonic(), -1
        while time.monotonic() < until:
            now = self.end()
            if now != end or not all(self._applied(node) >= end - 1 for node in BROKERS):
                end, quiet_at = now, time.monotonic()
            elif time.monotonic() - quiet_at >= QUIET_SECONDS:
                return end
            time.sleep(STEP_SECONDS)
        raise TimeoutError(f"{self.version}: the log still grows, or a broker lags, at {end}")

    def end(self) -> int:
        topic = admin.DescribeQuorumRequest.TopicData
        asked = topic(
            topic_name=METADATA_TOPIC, partitions=[topic.PartitionData(partition_index=0)]
        )
        said: Any = ask(self.controller, admin.DescribeQuorumRequest(topics=[asked])).to_dict()
        return int(said["topics"][0]["partitions"][0]["high_watermark"])

    def _applied(self, node: int) -> int:
        said = ask(self.broker(node), API_VERSIONS).to_dict()
        return int(said["finalized_features_epoch"])

    def records(self) -> dict[int, str]:
        """Return offset → type of every record, printed by the release's own DumpLogSegments."""
        java, main = self.cluster.java, "kafka.tools.DumpLogSegments"
        if number(self.own.release) >= (4, 3):
            main = "org.apache.kafka.tools.DumpLogSegments"
        if not java.has_tools:  # Maven Central has none of 4.4; what fails is the end
            tools = next(jar for jar in class_path(NEWEST_TOOLS) if "-tools-" in jar.name)
            java = replace(java, jars=(*java.jars, tools))
        folder = self.cluster.nodes[CONTROLLER].process.home / "data" / f"{METADATA_TOPIC}-0"
        files = ",".join(map(str, sorted(folder.glob("*.log"))))
        done = java.run(main, "--cluster-metadata-decoder", "--files", files)
        found = {}
        for line in done.stdout.splitlines():
            if place := OFFSET.match(line):
                if payload := PAYLOAD.search(line):
                    found[int(place[1])] = _kind(json.loads(payload[1]))
                elif control := CONTROL.search(line):
                    found[int(place[1])] = control[1]
        if not found:
            raise ValueError(f"{main} of {self.version} shows no record: {done.stderr}")
        return found


def versions() -> dict[str, str]:
    """Return release → version in the test rig, oldest first."""
    return {release_line(version): version for version in releases()}


def _kind(record: Mapping[str, Any]) -> str:
    data = record["data"]
    if record["type"] == "FEATURE_LEVEL_RECORD":
        return f"FEATURE_LEVEL_RECORD {data['name']}"
    if record["type"] == "CONFIG_RECORD":
        name = f"{data['resourceType']}:{data['resourceName']!r}"
        return f"CONFIG_RECORD {name} {data['name']}={data['value']}"
    return f"{record['type']} v{record['version']}"


def start(release: str, home: Path, *, unstable: bool) -> Lab:
    """Start a cluster for measurements, with configurations that levels could change."""
    own, version = load().of(release), versions()[release]
    first = own.newest_stable if unstable else max(own.oldest, own.oldest_bootstrap)
    properties = {"metadata.max.idle.interval.ms": "0"}
    if unstable and release == "3.7":
        properties["unstable.metadata.versions.enable"] = "true"
    elif unstable:
        properties["unstable.feature.versions.enable"] = "true"
    of_brokers = {KEY: "2", "offsets.topic.replication.factor": "2"}
    small = ("-Xmx192m",)
    nodes = [
        Node(id=CONTROLLER, release=version, roles="controller", properties=properties,
             java_options=small),
        *(Node(id=node, release=version, roles="broker", properties={**properties, **of_brokers},
               java_options=small) for node in BROKERS),
    ]  # fmt: skip
    cluster = start_kraft(home, nodes, release_version=own.names[first])
    lab = Lab(cluster=cluster, own=own, version=version)
    try:
        prepare(lab)
    except BaseException:
        cluster.stop()
        raise
    return lab


def prepare(lab: Lab) -> None:
    """Set configurations of every type in the cluster: broker, default, topic, group, quotas."""
    topic = admin.CreateTopicsRequest.CreatableTopic
    config = topic.CreatableTopicConfig
    topics = [
        topic(name="plain", num_partitions=2, replication_factor=2, assignments=[], configs=[]),
        topic(name="own", num_partitions=1, replication_factor=2, assignments=[],
              configs=[config(name=KEY, value="2"), config(name="retention.ms", value="3600000")]),
    ]  # fmt: skip
    said = _at_controller(lab, admin.CreateTopicsRequest(topics=topics, timeout_ms=10_000))
    _expect_done(said["topics"])
    alter(lab, BROKER, "1", {KEY: "2", "max.connections.per.ip": "500"})
    alter(lab, BROKER, "", {"message.max.bytes": "2000000"})
    quota = admin.AlterClientQuotasRequest
    entry = quota.EntryData
    entries = [
        entry(entity=[entry.EntityData(entity_type=kind, entity_name=name)],
              ops=[entry.OpData(key=key, value=value, remove=False)])
        for kind, name, key, value in (
            ("user", "ann", "producer_byte_rate", 1e6),
            ("client-id", None, "request_percentage", 80.0),
        )
    ]  # fmt: skip
    _expect_done(_at_controller(lab, quota(entries=entries, validate_only=False))["entries"])
    consumer = KafkaConsumer(bootstrap_servers=lab.broker(), group_id="g")
    part = TopicPartition("plain", 0)
    consumer.assign([part])
    consumer.commit({part: OffsetAndMetadata(0, "", -1)})
    consumer.close()
    lab.settle()


def _at_controller(lab: Lab, request: Any) -> Any:
    return ask(lab.broker(), request).to_dict()


def _expect_done(results: Iterable[Mapping[str, Any]]) -> None:
    for result in results:
        if result["error_code"]:
            raise ValueError(f"the lab could not be prepared: {result}")


def alter(
    lab: Lab, kind: int, name: str, values: Mapping[str, str | None], *, validate: bool = False
) -> str:
    """Set configurations, or delete those with value None. Return "" or the controller's
    message."""
    resource = admin.IncrementalAlterConfigsRequest.AlterConfigsResource
    request = admin.IncrementalAlterConfigsRequest(
        validate_only=validate,
        resources=[
            resource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    resource.AlterableConfig(
                        name=key, config_operation=DELETE if value is None else SET, value=value
                    )
                    for key, value in values.items()
                ],
            )
        ],
    )
    address = lab.broker(int(name)) if kind == BROKER and name else lab.broker()
    said: Any = ask(address, request).to_dict()
    [result] = said["responses"]
    return f"{result['error_code']} {result['error_message']}" if result["error_code"] else ""


def configurations(lab: Lab) -> State:
    """Return every configuration key of every resource, with the sources of its value."""
    found = {}
    brokers = [(lab.broker(node), "broker", BROKER, str(node)) for node in BROKERS]
    others = [
        (lab.broker(), "broker", kind, name)
        for kind, name in ((BROKER, ""), (TOPIC, "plain"), (TOPIC, "own"), (GROUP, "g"))
    ]
    controllers = [(lab.controller, "controller", BROKER, name) for name in (str(CONTROLLER), "")]
    nouns = {BROKER: "broker", TOPIC: "topic", GROUP: "group"}
    for address, role, kind, name in (*brokers, *others, *controllers):
        resource = admin.DescribeConfigsRequest.DescribeConfigsResource
        asked = resource(resource_type=kind, resource_name=name, configuration_keys=None)
        request = admin.DescribeConfigsRequest(resources=[asked], include_synonyms=True)
        try:
            [result] = ask(address, request).to_dict()["results"]  # type: ignore[misc]
        except KafkaError:  # a controller before 3.7
            continue
        if result["error_code"]:  # no groups before 3.8
            continue
        for config in result["configs"]:
            places = [f"{s['value']} ({s['source']})" for s in config["synonyms"] or ()]
            where = f"{nouns[kind]} {name!r} by {role}: {config['name']}"
            value = f"{config['value']} from {config['config_source']}"
            found[where] = f"{value}, of {'; '.join(places) or 'nowhere'}"
    return found


def surroundings(lab: Lab) -> State:
    """Return the topics, partitions, groups, quotas and finalized levels of the cluster."""
    found: State = {f"finalized {name}": str(level) for name, level in lab.levels().items()}
    for topic in ask(lab.broker(), MetadataRequest(topics=None)).to_dict()["topics"]:
        for part in topic["partitions"]:
            where = f"partition {topic['name']}-{part['partition_index']}"
            found[where] = (
                f"{part['leader_id']} {part['replica_nodes']} {sorted(part['isr_nodes'])}"
            )
    for node in BROKERS:
        for group in ask(lab.broker(node), admin.ListGroupsRequest()).to_dict()["groups"]:
            found[f"group {group['group_id']}"] = str(sorted(group.items()))
    for entry in ask(lab.broker(), admin.DescribeClientQuotasRequest(components=[], strict=False)
                     ).to_dict()["entries"] or ():  # fmt: skip
        who = [f"{e['entity_type']} {e['entity_name']}" for e in entry["entity"]]
        found[f"quota of {who}"] = str(entry["values"])
    return found


def settable(lab: Lab, state: Mapping[str, str]) -> State:
    """Return, per key of each resource, if it can be set and deleted. The requests only
    validate."""
    found = {}
    for where, value in state.items():
        match = re.match(r"(broker|topic|group) '(.*)' by broker: (.*)", where)
        if not match or match[2] in ("2", "own") or match[3] not in KEYS:
            continue
        kind = {"broker": BROKER, "topic": TOPIC, "group": GROUP}[match[1]]
        plain = value.partition(" from ")[0]
        for word, wanted in (("set", plain), ("delete", None)):
            said = alter(lab, kind, match[2], {match[3]: wanted}, validate=True)
            found[f"{word} {match[3]} of {match[1]} {match[2]!r}"] = said or "accepted"
    for key, value in KEYS.items():  # the cluster default has no key that is not set
        for word, wanted in (("set", value), ("delete", None)):
            said = alter(lab, BROKER, "", {key: wanted}, validate=True)
            found[f"{word} {key} of broker ''"] = said or "accepted"
    return found


# Keys tried one by one, with a value that the cluster default may have.
KEYS = {
    KEY: "2", "unclean.leader.election.enable": "false", "message.max.bytes": "2000000",
    "log.retention.ms": "3600000", "retention.ms": "3600000", "max.connections.per.ip": "500",
    "compression.type": "producer", "num.replica.fetchers": "1", "log.message.timestamp.type":
    "CreateTime", "consumer.session.timeout.ms": "45000", "share.session.timeout.ms": "45000",
}  # fmt: skip


def look(lab: Lab) -> tuple[State, State]:
    state = {**configurations(lab), **surroundings(lab)}
    return state, settable(lab, state)


def difference(before: Mapping[str, str], after: Mapping[str, str], feature: str) -> list[str]:
    """Return the differences as texts, without the feature's own level."""
    lines = []
    for where in sorted({*before, *after} - {f"finalized {feature}"}):
        old, new = before.get(where, "–"), after.get(where, "–")
        if old != new:
            lines.append(f"{where}: {old} → {new}")
    return lines


@dataclass(kw_only=True)
class Step:
    """A measured step whose log records are not read yet."""

    feature: str
    low: int
    level: int
    reached: str
    setting: str = ""
    span: tuple[int, int] = (0, 0)
    back: str = ""
    back_span: tuple[int, int] = (0, 0)
    looks: list[tuple[State, State]] = field(default_factory=list)


def gone(lab: Lab, feature: str, low: int, level: int) -> Step:
    """Upgrade, downgrade and upgrade a feature; read the state of the cluster after each change."""
    looks, begin = [look(lab)], lab.settle()
    said = lab.update(feature, level, UpgradeType.UPGRADE)
    step = Step(feature=feature, low=low, level=level, reached=said or "yes")
    if said:
        return step
    step.span = (begin, lab.settle())
    looks.append(look(lab))
    words = []
    for kind in (UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE):
        said = lab.update(feature, low, kind)
        if not said:
            step.back, step.back_span = kind.name, (step.span[1], lab.settle())
            looks.append(look(lab))
            again = lab.update(feature, level, UpgradeType.UPGRADE)
            if again:
                raise ValueError(f"{lab.version}: {feature} {level} is refused again: {again}")
            break
        words.append(f"{kind.name}: {said}")
    else:
        step.back = "; ".join(words)
    step.looks = looks
    return step


def walk(lab: Lab, *, unstable: bool) -> Iterator[Step]:
    """Measure every step to a level that the nodes support, from the lowest on. `unstable`: only
    levels in development."""
    own = lab.own
    names = [METADATA_VERSION, *(n for n in own.features if n != KRAFT_VERSION)]
    names += [n for n in own.features if n == KRAFT_VERSION]
    for feature in names:
        for level in own.known_levels(feature, unstable=unstable):
            low = lab.levels().get(feature, 0)
            if level <= low or (unstable and own.knows(feature, level, unstable=False)):
                continue
            yield (step := gone(lab, feature, low, level))
            if len(step.looks) > 1 and any(KEY in where for where in differing(*step.looks[:2])):
                yield from settled_otherwise(lab, step)


def differing(before: tuple[State, State], after: tuple[State, State]) -> set[str]:
    return {where for where, value in after[0].items() if before[0].get(where) != value}


def settled_otherwise(lab: Lab, step: Step) -> Iterator[Step]:
    """Repeat a step that changes min.insync.replicas with other sources of its value."""

    def back() -> None:
        lab.update(step.feature, step.low, UpgradeType.SAFE_DOWNGRADE)

    back()
    _expect(alter(lab, BROKER, "", {KEY: "2"}))
    _expect(alter(lab, BROKER, "1", {KEY: "2"}))
    lab.settle()
    yield replace(gone(lab, step.feature, step.low, step.level), setting="cluster default 2")
    back()
    _expect(alter(lab, BROKER, "", {KEY: None}))
    _expect(alter(lab, BROKER, "1", {KEY: "2"}))
    lab.cluster.stop_node(CONTROLLER)
    conf = lab.cluster.nodes[CONTROLLER].process.home / "server.properties"
    conf.write_text(f"{conf.read_text()}{KEY}=3\n")
    lab.cluster.start_node(CONTROLLER)
    lab.settle()
    yield replace(gone(lab, step.feature, step.low, step.level), setting="the controller has 3")


def _expect(refused: str) -> None:
    if refused:
        raise ValueError(f"a value could not be set: {refused}")


def kinds(records: Mapping[int, str], span: tuple[int, int], feature: str) -> str:
    """Return the types of the log records that the step wrote, without its own level record."""
    found = Counter(records[n] for n in range(*span) if n in records and records[n] not in IDLE)
    del found[f"FEATURE_LEVEL_RECORD {feature}"]
    return "; ".join(f"{kind} × {count}" for kind, count in sorted(found.items()))


def rows(lab: Lab, steps: Sequence[Step], date: str) -> Iterator[Measured]:
    records = lab.records()
    for step in steps:
        looks = step.looks
        changed = difference(looks[0][0], looks[1][0], step.feature) if looks else []
        allowed = difference(looks[0][1], looks[1][1], step.feature) if looks else []
        left = difference(looks[0][0], looks[2][0], step.feature) if len(looks) > 2 else []
        left += difference(looks[0][1], looks[2][1], step.feature) if len(looks) > 2 else []
        yield Measured(
            release=lab.own.release,
            version=lab.version,
            date=date,
            feature=step.feature,
            from_level=step.low,
            level=step.level,
            stable=lab.own.knows(step.feature, step.level, unstable=False),
            setting=step.setting,
            reached=step.reached,
            records=kinds(records, step.span, step.feature),
            changed=" | ".join(changed),
            no_longer_set=" | ".join(a for a in allowed if not a.endswith("accepted")),
            newly_set=" | ".join(a for a in allowed if a.endswith("accepted")),
            back=step.back,
            back_records=kinds(records, step.back_span, step.feature),
            not_restored=" | ".join(left),
        )


def measure(release: str, date: str) -> list[Measured]:
    """Return the measurements of all steps of one release."""
    own, found = load().of(release), list[Measured]()
    more = any(
        own.known_levels(name) != own.known_levels(name, unstable=False)
        for name in (METADATA_VERSION, *own.features)
    )
    for unstable in (False, True) if more else (False,):
        with tempfile.TemporaryDirectory(prefix="featurelib-effects-") as home:
            lab = start(release, Path(home), unstable=unstable)
            try:
                found += rows(lab, list(walk(lab, unstable=unstable)), date)
            finally:
                lab.cluster.stop()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    parser.add_argument("--release", action="append", choices=list(versions()))
    parser.add_argument("--write", action="store_true", help="replace these releases' rows")
    chosen = parser.parse_args()
    wanted = chosen.release or list(versions())
    found: list[Measured] = []
    for release in wanted:
        began = time.monotonic()
        found += (mine := measure(release, time.strftime("%Y-%m-%d", time.gmtime())))
        print(f"{release}: {len(mine)} steps, {time.monotonic() - began:.0f} s", file=sys.stderr)
    write(found, wanted, TARGET if chosen.write else None)
    return 0


def write(found: Iterable[Measured], wanted: Sequence[str], target: Path | None) -> None:
    """Write the measurements to `target`, where they replace those of the releases `wanted`;
    without `target` print them."""
    columns = [column.name for column in fields(Measured)]
    kept: list[dict[str, object]] = []
    if target is not None and target.exists():
        with target.open(encoding="utf-8") as file:
            kept = [row for row in csv.DictReader(file) if row["release"] not in wanted]
    both = kept + [{**asdict(row), "stable": str(row.stable).lower()} for row in found]
    both.sort(key=lambda row: list(versions()).index(str(row["release"])))
    with target.open("w", newline="", encoding="utf-8") if target else sys.stdout as out:
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(both)


if __name__ == "__main__":
    sys.exit(main())
