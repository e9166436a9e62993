"""Small clusters and catalogues that no release has: features a to e, beside the real ones."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from featurelib.catalogue import Catalogue
from featurelib.catalogue import load as load_catalogue
from featurelib.catalogue.catalogue import build
from featurelib.catalogue.rows import LevelRow, ReleaseFeatureRow, read_rows
from featurelib.core.cluster import Cluster, Features, Node
from featurelib.feature import KRAFT_VERSION, Role

CATALOGUE = load_catalogue()
TOP = 3  # the highest level of a made-up feature
Needs = Mapping[tuple[str, int], Mapping[str, int]]  # (feature, level) → other → least


def catalogue_of(needs: Needs, names: str = "abcde") -> Catalogue:
    """The real releases, with made-up features instead of theirs; kraft.version stays."""
    rows = read_rows()
    levels = [
        LevelRow(feature=name, level=n, default_from="3.0-IV1", stable_since="3.9")
        for name in names
        for n in range(TOP + 1)
    ]
    levels += [row for row in rows.feature_level if row.feature == KRAFT_VERSION]
    ends = [
        ReleaseFeatureRow(release=release, feature=name, newest_stable=top, newest_unstable=top)
        for release in ("3.9", "4.1")
        for name, top in [*((name, TOP) for name in names), (KRAFT_VERSION, 1)]
    ]
    told = tuple(
        structs.replace(
            row, dependency=";".join(f"{other}={least}" for other, least in wanted.items())
        )
        if (wanted := needs.get((row.feature, row.level)))
        else row
        for row in levels
    )
    return build(
        structs.replace(
            rows, feature_level=told, release_feature=tuple(ends), release_difference=()
        )
    )


def software(release: str) -> Features:
    """What production software of a real release advertises."""
    return CATALOGUE.of(release).ranges()


def node(node_id: int, role: Role, release: str, supported: Features | None = None) -> Node:
    return Node(
        node_id=node_id,
        role=role,
        release=release,
        supported=software(release) if supported is None else supported,
        voter=role is Role.CONTROLLER,
    )


def kraft(
    release: str, levels: Mapping[str, int], *more: Node, supported: Features | None = None
) -> Cluster:
    """Three controllers, two brokers, and `more`."""
    nodes = [node(i, Role.CONTROLLER, release, supported) for i in range(3)]
    nodes += [node(10 + i, Role.BROKER, release, supported) for i in range(2)]
    finalized = {name: (level, level) for name, level in levels.items() if level}
    return Cluster(release=release, nodes=(*nodes, *more), active=0, finalized=finalized)


def zookeeper(release: str, supported: Features, levels: Mapping[str, int], *more: Node) -> Cluster:
    """Three brokers of which the first is the controller."""
    nodes = [node(i, Role.BROKER, release, supported) for i in range(3)]
    finalized = {name: (1, level) for name, level in levels.items() if level}
    return Cluster(release=release, nodes=(*nodes, *more), active=0, finalized=finalized)


def levels_of(cluster: Cluster) -> dict[str, int]:
    return {name: level for name, (_, level) in cluster.finalized.items()}
