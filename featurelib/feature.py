"""Define the terms of the domain as types: roles, witnesses, verdicts, phases, severities.

An enum has the codes of Kafka's protocol or of a column, so no other module defines them.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Annotated

import msgspec

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
# KIP-1312: the first level at which controllers can be unregistered (MetadataVersion 4.4-IV2).
UNREGISTERS_CONTROLLERS_FROM = 33
HIGHEST_LEVEL = 2**15 - 1  # an int16 in Kafka's protocol
HIGHEST_INT32 = 2**31 - 1  # the highest node id, timeout or znode version
# The types of values in files from people and other programs.
Level = Annotated[int, msgspec.Meta(ge=0, le=HIGHEST_LEVEL)]
NodeId = Annotated[int, msgspec.Meta(ge=0, le=HIGHEST_INT32)]
Name = Annotated[str, msgspec.Meta(min_length=1)]
# 3.0-IV1: the level of a KRaft cluster without metadata.version. A node that does not list
# metadata.version supports only this level (KIP-778; QuorumController).
SILENT_METADATA_VERSION = 1
# Features of Kafka's own tests (Feature.java); no node supports them.
TEST_FEATURES = frozenset(
    ("test.feature.version", *(f"unit.test.feature.version.{i}" for i in range(8)))
)


def release_line(release: str) -> str:
    """Return the first two numbers of a release: `4.1` for `4.1.2`."""
    return ".".join(release.split(".")[:2])


def release_number(version: str) -> tuple[int, ...]:
    """Return (4, 1) for `4.1.2` or `4.1-IV0`; () for another text; a higher number for `newer than
    4.1`."""
    newer, _, release = version.rpartition(" ")
    number = (int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    return (*number, *[1] * bool(newer))


class Role(IntEnum):
    """The role of a node. A combined node has both roles."""

    BROKER = 0
    CONTROLLER = 1

    @property
    def text(self) -> str:
        return self.name.lower()


class Witness(IntEnum):
    """The types of sources of finalized levels; a smaller number has priority. Epochs of two types
    are never compared."""

    FEATURES_NODE = 0  # the znode /feature; epoch = data version of the znode
    BROKER = 1  # epoch = last applied offset, in ZooKeeper mode the znode's version
    METADATA_LOG = 2  # the epoch is the log's offset
    CONTROLLER = 3  # ApiVersions of a controller; epoch = offset of its last feature record
    TOOL = 4  # kafka-features.sh describe: it names no node, so its output is only a hint
    SCRAPE = 5  # metrics of nodes (KIP-1180): feature names are changed, and there is no epoch


class UpgradeType(IntEnum):
    """The upgrade type in UpdateFeatures (KIP-778)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Verdict(StrEnum):
    """The verdict on one feature of one cluster."""

    UNKNOWN = "UNKNOWN"
    BLOCKED = "BLOCKED"
    READY = "READY"
    UP_TO_DATE = "UP_TO_DATE"


class Phase(StrEnum):
    """The phase of a cluster between its software's rolling upgrade and the finalized levels."""

    MIXED = "mixed software"
    SOAKING = "rolled, soaking"  # the software runs for less than min_ready_days
    ROLLED_NOT_FINALIZED = "rolled, not finalized"
    FINALIZED = "finalized"
    SYSTEM_OFF = "system off"
    UNKNOWN = "unknown"


class ClusterMode(StrEnum):
    """The system that stores a cluster's metadata: KRaft or ZooKeeper."""

    UNKNOWN = "mode not known"
    KRAFT = "KRaft"
    ZOOKEEPER = "ZooKeeper mode"
    MIGRATING = "migrating from ZooKeeper to KRaft"


class Severity(StrEnum):
    """The severity of a finding, worst first."""

    CRITICAL = "critical"  # a cluster is broken, or will be at the next restart
    BLOCKER = "blocker"  # a level cannot be finalized
    UNKNOWN = "unknown"  # evidence for a verdict is missing
    WARNING = "warning"  # a person should check it
    INFO = "info"
