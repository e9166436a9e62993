"""Makes embedded clusters: as the software of a release formats one, or as a capture shows one."""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass
from pathlib import Path

from featurelib.audit.cluster_view import see
from featurelib.backends.embedded import EmbeddedCluster
from featurelib.catalogue import Catalogue, ReleaseCatalogue
from featurelib.collect import landing_lines
from featurelib.core.cluster import Cluster, Node
from featurelib.core.compatibility import advertised
from featurelib.core.storage_format import Request, initial_levels
from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION, Role

FIRST_CONTROLLER = 100  # its node id; brokers begin at 1
ANY_AGE = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatted:
    """A KRaft cluster as kafka-storage.sh format of `own` leaves it: `metadata` is its release
    version, None = the newest there is."""

    own: ReleaseCatalogue
    metadata: str | None = None
    brokers: int = 3
    controllers: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What is in the file now."""

    mode: str  # kraft, zk
    cluster_id: str
    cluster: Cluster


def make_embedded(file: str, like: Formatted | str, catalogue: Catalogue) -> Made:
    """A new embedded cluster in `file`; `like` a text is that of the landing lines there, in a file
    or folder. Raises ConfigError, and for the lines LandingError and NoEvidenceError."""
    if Path(file).exists():
        raise ConfigError(f"{file}: expected no file there, found one. Name another.")
    made = _captured(like, catalogue) if isinstance(like, str) else _formatted(like, catalogue)
    with EmbeddedCluster(
        file, catalogue.tables, mode=made.mode, cluster_id=made.cluster_id
    ) as embedded:
        embedded.put(made.cluster, len(made.cluster.nodes))
    return made


def _formatted(like: Formatted, catalogue: Catalogue) -> Made:
    own, metadata = like.own, like.metadata
    initial = initial_levels(own, Request(release_version=metadata))
    if initial.refusals:
        said = "; ".join(refusal.text for refusal in initial.refusals)
        raise ConfigError(f"--metadata {metadata}: kafka-storage.sh of {own.release} says: {said}")
    names = (METADATA_VERSION, *own.features)
    ranges = advertised(catalogue, names)
    at = ranges.releases.index(own.release)
    rows = zip(names, ranges.min_version[at].tolist(), ranges.max_version[at].tolist(), strict=True)
    supported = {name: (low, high) for name, low, high in rows if high > 0}
    leaders = range(FIRST_CONTROLLER, FIRST_CONTROLLER + like.controllers)
    nodes = [
        Node(node_id=i, role=Role.CONTROLLER, supported=supported, release=own.release, voter=True)
        for i in leaders
    ]
    nodes += [
        Node(node_id=i, role=Role.BROKER, supported=supported, release=own.release)
        for i in range(1, like.brokers + 1)
    ]
    finalized = {name: (level, level) for name, level in initial.levels.items() if level}
    cluster = Cluster(
        release=own.release, nodes=tuple(nodes), active=leaders[0], finalized=finalized
    )
    made_up = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]
    return Made(mode="kraft", cluster_id=made_up, cluster=cluster)


def _captured(path: str, catalogue: Catalogue) -> Made:
    lines = landing_lines("--capture", path)
    one = "Keep the lines of one of them in a file of their own."
    if Path(path).is_dir():
        one = f"Name the file or the sub-folder of one of them: --capture {Path(path) / 'NAME'}."
    sight = see(lines, catalogue=catalogue, as_of=None, max_age=ANY_AGE, choosing=one)
    mode = sight.dialects[0].partition("-")[0] if sight.dialects else ""
    if not mode or not sight.releases:
        raise ConfigError(
            f"--capture {path}: expected a cluster whose controllers' release shows, found none. "
            "Collect the controllers too."
        )
    return Made(mode=mode, cluster_id=sight.cluster_id, cluster=sight.cluster)
