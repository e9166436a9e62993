"""A cluster described as KIP-584's Admin describes one, but by all of its nodes.

FeatureMetadata has what one broker said. Here every node's range is kept with whose it is, and what
is finalized is what the witness says who is believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from featurelib.api.clusters import AnyCluster, choose
from featurelib.api.shown import Readable
from featurelib.cli.describe_text import describe_lines
from featurelib.describing import describe
from featurelib.description import Description


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalized:
    """What is finalized of one feature. `min_version_level` is above 1 in ZooKeeper mode only."""

    min_version_level: int
    max_version_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Supported:
    """One range of a feature, and the nodes that support it, as `broker 2`."""

    min_version: int
    max_version: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Described(Readable):
    """One cluster. `finalized` None = nobody trustworthy says; a feature that is not in it is not
    finalized. `finalized_features_epoch` None = no witness knows one (-1 on the wire). `supported`
    has every range of a feature that some node has; nodes that do not list it are in none.
    `description` has all there is: nodes, who is silent, who contradicts, findings."""

    cluster_id: str
    finalized: Mapping[str, Finalized] | None
    finalized_features_epoch: int | None
    supported: Mapping[str, tuple[Supported, ...]]
    description: Description
    text: str

    def __str__(self) -> str:
        return self.text


def describe_features(cluster: AnyCluster) -> Described:
    """What every node of a cluster supports, and what is finalized (KIP-584, describeFeatures).

        describe_features("payments-eu").finalized["metadata.version"].max_version_level
        describe_features(connect(bootstrap="kafka-1:9092"))

    Kafka's own asks one broker; here every listener is asked, controllers too. `print` it, or let
    a notebook show it, and it is what `featurelib describe` says. Nothing is changed. Raises
    ConfigError (it cannot be reached), UnreachableError (nobody answers), NoEvidenceError.
    """
    chosen = choose(cluster)
    source = chosen.source()
    said = describe(source.sight, chosen.catalogue)
    trusted = all(level.level is not None for level in said.levels) and any(
        witness.is_believed for witness in said.witnesses
    )
    finalized = {
        level.feature: Finalized(
            min_version_level=level.min_level or 0, max_version_level=level.level
        )
        for level in said.levels
        if level.level
    }
    return Described(
        cluster_id=said.cluster_id,
        finalized=finalized if trusted else None,
        finalized_features_epoch=epoch_of(said),
        supported=dict(_supported(said)),
        description=said,
        text="\n".join(describe_lines(said, source.entry, source.made_from)),
    )


def epoch_of(said: Description) -> int | None:
    """The epoch of the witness that is believed; -1 says that it does not know."""
    epochs = [witness.epoch for witness in said.witnesses if witness.is_believed]
    return epochs[0] if epochs and epochs[0] >= 0 else None


def _supported(said: Description) -> Iterator[tuple[str, tuple[Supported, ...]]]:
    for feature in sorted({name for profile in said.profiles for name in profile}):
        nodes: dict[tuple[int, int], list[str]] = {}
        for node in said.nodes:
            ends = None if node.profile is None else said.profiles[node.profile].get(feature)
            if ends is not None:
                nodes.setdefault(ends, []).append(f"{node.role} {node.node_id}")
        yield (
            feature,
            tuple(
                Supported(min_version=low, max_version=high, nodes=tuple(mine))
                for (low, high), mine in sorted(nodes.items())
            ),
        )
