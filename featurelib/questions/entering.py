"""Whether software of a release may join a cluster, node by node, whoever leads it.

A broker registers, and the controller judges it; a controller reads what is finalized, and ends
over what it does not support. Every generation that may answer is asked; any refusal counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from featurelib.catalogue import Catalogue
from featurelib.core.again import dialect_of
from featurelib.core.cluster import Cluster, Features, Node
from featurelib.core.compatibility import Effect, Entry, Newcomer, advertised, join, stopped
from featurelib.core.dialect import GENERATIONS, Dialect, generation_of, load
from featurelib.errors import ConfigError
from featurelib.feature import Role

ZOOKEEPER = "zk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why one node may not come: who says so, what becomes of it, over which features, and in
    Kafka's words. `entry` is refused, stops or ignored."""

    role: Role
    node_id: int
    dialect: str
    entry: str
    features: tuple[str, ...]
    message: str


def release_of(text: str, mode: str, catalogue: Catalogue, option: str) -> str:
    """The release a version means, one with the mode of the cluster. Raises ConfigError."""
    short = ".".join(text.split(".")[:2])
    if mode == ZOOKEEPER:
        known = [name for d in GENERATIONS for name in load(d).releases if load(d).mode == mode]
        if short in known:
            return short
        raise ConfigError(
            f"{option} {text}: expected a release with ZooKeeper mode ({', '.join(known)}), found "
            "none such. From 4.0 on there is none: migrate the cluster to KRaft first."
        )
    named = catalogue.release_named(text)
    if named is None:
        known = [release.name for release in catalogue.releases]
        raise ConfigError(
            f"{option} {text}: expected a release of the catalogue of {catalogue.label} "
            f"({', '.join(known)}), found none such. Name one of them, or add it with --overlay "
            "FILE."
        )
    return named


def software_of_release(
    release: str, mode: str, catalogue: Catalogue, *, unstable: bool = False
) -> Features:
    """What production software of a release advertises; in ZooKeeper mode nothing at all."""
    if mode == ZOOKEEPER:
        return {}
    names = sorted(catalogue.features)
    ends = advertised(catalogue, names, unstable=unstable)
    at = ends.releases.index(release)
    rows = zip(names, ends.min_version[at].tolist(), ends.max_version[at].tolist(), strict=True)
    return {name: (low, high) for name, low, high in rows if high > 0}


def refusals_of(
    cluster: Cluster,
    nodes: Sequence[Node],
    releases: Sequence[str],
    mode: str,
    catalogue: Catalogue,
) -> Iterator[Refused]:
    """Every reason why one of `nodes` may not come, for every generation that may lead.

    Source: ClusterControlManager.registerBroker, FeatureControlManager.replay; KIP-584, Broker
    protections.
    """
    told: set[tuple[Role, int, str]] = set()
    for release in releases:
        own = dialect_of(release, mode, catalogue)
        for node in nodes:
            key = (node.role, node.node_id, own.name)
            if key in told:
                continue
            told.add(key)
            yield from _refused(cluster, node, own, catalogue)


def _refused(cluster: Cluster, node: Node, own: Dialect, catalogue: Catalogue) -> Iterator[Refused]:
    if node.role is Role.CONTROLLER:
        alone = replace(cluster, nodes=(replace(node, running=True),))
        for stop in stopped(alone, own, catalogue.tables):
            if stop.effect is not Effect.GOES_ON:
                yield Refused(
                    role=node.role,
                    node_id=node.node_id,
                    dialect=own.name,
                    entry=Entry.STOPS.name.lower(),
                    features=tuple(one.feature for one in stop.unfit),
                    message="; ".join(one.text for one in stop.unfit),
                )
        return
    joined = join(cluster, Newcomer(node=node), own, catalogue.tables)
    if joined.entry in (Entry.REFUSED, Entry.STOPS, Entry.IGNORED):
        yield Refused(
            role=node.role,
            node_id=node.node_id,
            dialect=own.name,
            entry=joined.entry.name.lower(),
            features=tuple(one.feature for one in joined.unfit),
            message=joined.message or "",
        )


def speaks(release: str, mode: str) -> str:
    """The dialect of controllers of a release; of one newer than all, the newest there is."""
    try:
        return generation_of(release, mode)
    except KeyError:
        return GENERATIONS[-1]
