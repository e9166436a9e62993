"""What a ZooKeeper-mode controller sees of its cluster: the features node, and the live brokers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from featurelib.catalogue import Tables
from featurelib.core import joining
from featurelib.core.cluster import Cluster
from featurelib.core.columns import Bool, Int
from featurelib.core.dialect import generation_of, load
from featurelib.core.evidence import Evidence
from featurelib.core.standing import stand
from featurelib.feature import Role

NOBODY = -1


def blind_leaders(evidence: Evidence, zookeeper: Bool) -> Int:
    """By cluster the id of a broker that is the controller, or may be where nobody knows that one,
    and whose newest answer knows no finalized features although a features node was read before;
    -1 = there is none. `zookeeper` are the clusters in ZooKeeper mode.

    A broker that saw the node deleted never sees the next one (FinalizedFeatureChangeListener): as
    controller it writes back what it saw last, and then says that it failed.
    """
    who, levels, clusters = evidence.subjects, evidence.levels, len(evidence.clusters)
    readable = zookeeper & levels.trusted & ~levels.system_off
    broker = readable[who.cluster] & (who.role == Role.BROKER) & ~who.expected_only
    active = broker & (who.node_id == evidence.controller[who.cluster])
    told = np.bincount(who.cluster[active], minlength=clusters) > 0
    leads = np.flatnonzero(np.where(told[who.cluster], active, broker) & (who.listener >= 0))
    full, partial, known = (
        evidence.listeners.field(name)[who.listener[leads]]
        for name in ("full_at", "partial_at", "levels_at")
    )
    cluster = who.cluster[leads]
    blind = np.maximum(full, partial) > np.maximum(known, levels.at[cluster])
    found = np.full(clusters, NOBODY, dtype=np.int64)
    found[cluster[blind][::-1]] = who.node_id[leads][blind][::-1]  # the first of them stays
    return found


def with_ignored(cluster: Cluster, releases: Sequence[str], tables: Tables) -> Cluster:
    """The cluster with those marked whom a controller of each of `releases` leaves out of the live
    brokers (KafkaController.partitionOnFeatureCompatibility)."""
    ignored = np.array([node.registered for node in cluster.nodes], dtype=bool)
    for name in sorted({generation_of(release, "zk") for release in releases}):
        dialect = load(name)
        standing, members = stand([cluster], dialect, tables)
        unguarded = replace(members, guarded=np.zeros(len(cluster.nodes), dtype=bool))
        entry = joining.judge(standing, unguarded, dialect, tables).entry
        ignored &= entry == joining.Entry.IGNORED
    nodes = zip(cluster.nodes, ignored.tolist(), strict=True)
    return replace(cluster, nodes=tuple(replace(node, ignored=out) for node, out in nodes))
