"""Read feature levels from a scrape of Kafka's nodes: samples in, keys of `metrics` lines out.

Exporters write a metric of Kafka (KIP-1180, 4.2 and later) under many names, so only its letters
count. Samples with equal labels, except the metric's own labels, belong to one target, which is one
process; other metrics show the node id and roles of the process. All other samples are rejected,
because series of two clusters must never become nodes of one cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec import Raw

from featurelib.feature import Role
from featurelib.landing.fields import (
    INT16_MAX,
    INT32_MAX,
    FilledText,
    Listener,
    NodeId,
    Ranges,
    Timed,
    ordered,
    reader,
)
from featurelib.landing.responses import ShownLevel, SupportedFeature
from featurelib.landing.strict import FaultError, show
from featurelib.words import count, some

KIND = "metrics"  # the kind of landing lines with metrics
SHOWN = 3  # the maximum number of targets in a message
PAGE = "docs/how-to/metrics.md"
_NO_LETTER = re.compile(r"[^a-z0-9]")
# Metric → pattern of the letters in its name and its label `name`.
_METRICS = {
    "most": re.compile(r"nodemetrics.*maximumsupportedlevel"),
    "least": re.compile(r"nodemetrics.*minimumsupportedlevel"),
    "level": re.compile(r"metadataloader.*finalizedlevel"),
    "id": re.compile(r"kafkaserver.*appinfo"),
    "broker": re.compile(r"kafkaserver.*brokerstate"),
    "active": re.compile(r"kafkacontroller.*activecontrollercount"),
}
# The pattern of these names for Prometheus (RE2 syntax).
QUERY = "(?i)kafka_?(server|controller)_?" + "({}).*".format(
    "|".join(
        ("node_?metrics", "metadata_?loader", "app_?info", "kafka_?server", "kafka_?controller")
    )
)
# Labels that belong to the metric; all other labels identify its target.
_OWN = {"id", "clientid", "name", "featurename"}
_LEVELS = ("most", "least", "level")


class Sample(NamedTuple):
    """A sample of one time series. `at`: microseconds."""

    name: str
    labels: Mapping[str, str]
    value: float
    at: int


class ScrapedNode(NamedTuple):
    """A scraped process in one role: the fields of its landing line, and the time."""

    at: int
    keys: dict[str, object]


@lru_cache(maxsize=65536)
def letters(text: str) -> str:
    """Return a name's letters and digits in lower case: `metadataversion`."""
    return _NO_LETTER.sub("", text.lower())


@dataclass(slots=True)
class _Target:
    """A scraped process: its samples and their common labels."""

    labels: Mapping[str, str]
    values: dict[tuple[str, str], int] = field(default_factory=dict)  # (metric, feature) → value
    ids: set[int] = field(default_factory=set)
    times: list[int] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The common labels as text."""
        return show(", ".join(f"{k}={v}" for k, v in sorted(self.labels.items())) or "no labels")

    def add(self, metric: str, sample: Sample) -> None:
        """Add a sample. Raises FaultError for a second value, or a value that is no level."""
        labels = {letters(name): value for name, value in sample.labels.items()}
        if metric == "id":
            for text in (labels.get("id", ""), labels.get("clientid", "")):
                if text.isascii() and text.isdigit() and int(text) <= INT32_MAX:
                    self.ids.add(int(text))
            return
        feature = labels.get("featurename", "")
        if metric in _LEVELS:
            if not feature:
                raise FaultError(f"{sample.name}: the label feature_name is missing")
            self.times.append(sample.at)
        if not (sample.value.is_integer() and 0 <= sample.value <= INT16_MAX):
            actual = f"found {sample.value:g}"
            raise FaultError(f"{sample.name}: expected a whole number up to {INT16_MAX}, {actual}")
        value = int(sample.value)
        if self.values.setdefault((metric, feature), value) != value:
            two = f"both {self.values[metric, feature]} and {value} of {self.text}"
            raise FaultError(f"{sample.name} {show(feature)} has two values: {two}")

    def of(self, metric: str) -> dict[str, int]:
        """Return feature → value of a metric. Features are spelled as in the label."""
        return {name: value for (key, name), value in self.values.items() if key == metric}

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles of the process, by its metrics."""
        role_metrics = (("broker", Role.BROKER), ("active", Role.CONTROLLER))
        return tuple(role for metric, role in role_metrics if (metric, "") in self.values)

    def nodes(self, source: str) -> Iterable[tuple[tuple[int, Role], ScrapedNode]]:
        """Yield ((node id, role), metrics) for each role. Raises FaultError for an unknown id."""
        maximum, minimum = self.of("most"), self.of("least")
        if lone := sorted(maximum.keys() ^ minimum.keys()):
            raise FaultError(
                f"{self.text}: one end of the range of {show(lone[0])} is missing. The scrape was "
                "cut"
            )
        if is_reversed := sorted(name for name in maximum if minimum[name] > maximum[name]):
            raise FaultError(
                f"{self.text}: expected the range of {show(is_reversed[0])} to ascend, found "
                f"{minimum[is_reversed[0]]} to {maximum[is_reversed[0]]}"
            )
        if len(self.ids) != 1 or not self.roles:
            actual = f"{count(len(self.ids), 'id')} and {count(len(self.roles), 'role')}"
            raise FaultError(
                f"{self.text}: the metrics must show one node id (app-info, with its label id) and "
                f"the node's role (BrokerState, ActiveControllerCount), and show {actual}. {PAGE} "
                "has the exporter's rules"
            )
        [node_id] = self.ids
        supported = [
            {"name": name, "min_version": minimum[name], "max_version": maximum[name]}
            for name in sorted(maximum)
        ]
        levels = [
            {"name": name, "level": level} for name, level in sorted(self.of("level").items())
        ]
        for role in self.roles:
            keys: dict[str, object] = {
                "node_id": node_id,
                "role": role.text,
                "endpoint": self.labels.get("instance") or source,
                "supported_features": supported,
                "finalized_features": levels,
            }
            yield (node_id, role), ScrapedNode(min(self.times), keys)


def nodes_of(samples: Iterable[Sample], source: str) -> list[ScrapedNode]:
    """Return the nodes in the samples of one cluster, by id and role. `source`: the address if no
    label has an address.

    Raises FaultError if the samples have no levels, or belong to several clusters.
    """
    targets: dict[frozenset[tuple[str, str]], _Target] = {}
    number = 0
    for sample in samples:
        number += 1
        metric = metric_of(sample)
        if metric is not None:
            common_labels = {k: v for k, v in sample.labels.items() if letters(k) not in _OWN}
            key = frozenset(common_labels.items())
            targets.setdefault(key, _Target(common_labels)).add(metric, sample)
    targets_with_levels = [target for target in targets.values() if target.times]
    if not targets_with_levels:
        kind = ", of Kafka without levels" if targets else ", none of Kafka" if number else ""
        raise FaultError(
            "the metrics of levels (node-metrics and MetadataLoader, KIP-1180) are missing among "
            f"{count(number, 'sample')}{kind}. They need Kafka 4.2 or later, and an exporter whose "
            f"rules keep them: see {PAGE}"
        )
    leading = [target.text for target in targets_with_levels if any(target.of("active").values())]
    if len(leading) > 1:
        raise FaultError(
            f"expected one active controller, found {len(leading)}: {some(leading, SHOWN)}. The "
            "scrape mixes two clusters, or an election just took place: then collect again"
        )
    nodes: dict[tuple[int, Role], tuple[str, ScrapedNode]] = {}
    for target in targets_with_levels:
        for half, node in target.nodes(source):
            if half in nodes:
                raise FaultError(
                    f"{half[1].text} {half[0]} is there twice: {nodes[half][0]} and {target.text}. "
                    "The scrape mixes two clusters, or two Prometheus servers scrape the node"
                )
            nodes[half] = target.text, node
    return [node for _, (_, node) in sorted(nodes.items(), key=lambda item: item[0])]


def metric_of(sample: Sample) -> str | None:
    """Return the key of a sample's metric in `_METRICS`; None for other metrics."""
    text = letters(sample.name + sample.labels.get("name", ""))
    return next((name for name, pattern in _METRICS.items() if pattern.search(text)), None)


# --- As a landing line ----------------------------------------------------------------------------


def _as_ranges(levels: Iterable[tuple[str, int]], source: str) -> Ranges:
    return ordered(((name, level, level) for name, level in levels), source)


_supported = reader("supported_features", SupportedFeature, ordered)
_levels = reader("finalized_features", ShownLevel, _as_ranges)
ABSENT = Raw(b"")


class NodeMetrics(msgspec.Struct, frozen=True, gc=False):
    """The metrics of a process in one role (KIP-1180). `supported`: (feature, min, max);
    `finalized`: (feature, level, level); () = no such metric."""

    node_id: int
    role: Role
    endpoint: str
    supported: Ranges
    finalized: Ranges


class MetricsLine(Timed, tag="metrics", frozen=True, gc=False, kw_only=True):
    """The scraped metrics of a process in one role. Features are spelled as in the metrics'
    labels."""

    node_id: NodeId
    role: Listener
    endpoint: FilledText
    supported_features: Raw = ABSENT
    finalized_features: Raw = ABSENT

    def content(self) -> NodeMetrics:
        supported = _supported(bytes(self.supported_features)) if self.supported_features else ()
        levels = _levels(bytes(self.finalized_features)) if self.finalized_features else ()
        if not supported and not levels:
            raise FaultError("supported_features and finalized_features are both missing")
        return NodeMetrics(self.node_id, Role[self.role.upper()], self.endpoint, supported, levels)
