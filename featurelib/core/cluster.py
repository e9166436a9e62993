"""One cluster and one request as plain values: what the controller, a backend or a person holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from featurelib.core.dialect import Dialect
from featurelib.feature import METADATA_VERSION, SILENT_METADATA_VERSION, Role, UpgradeType

Range = tuple[int, int]
Features = dict[str, Range]  # a profile: feature → supported range


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A broker or a controller: half of a process where it is both."""

    node_id: int
    role: Role
    supported: Features = field(default_factory=dict)
    release: str = ""
    registered: bool = True
    fenced: bool = False
    running: bool = True  # it answers now
    gone: bool = False  # Kafka itself calls it fenced, or does not see it in the quorum
    voter: bool = False
    ignored: bool = False  # registered, and left out of the live brokers (ZooKeeper mode)

    def range_of(self, feature: str) -> Range:
        """What it supports of `feature` as the policy reads silence: 3.0-IV1 of metadata.version,
        of all others nothing (KIP-778)."""
        silent = SILENT_METADATA_VERSION if feature == METADATA_VERSION else 0
        return self.supported.get(feature, (silent, silent))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What is true of one cluster; `finalized` maps a feature to (minimum, level)."""

    release: str  # of the active controller
    nodes: tuple[Node, ...] = ()
    active: int = -1
    finalized: dict[str, Range] = field(default_factory=dict)
    cached: dict[str, Range] | None = None  # None: the controller's cache is up to date
    kraft_record: int = 0
    raft_level: int = 0
    # The ids in the active controller's own controller.quorum.voters, in that order; None = as is
    # usual: the voters of a static quorum, nobody in a dynamic one.
    configured_voters: tuple[int, ...] | None = None
    off: bool = False
    migrating: bool = False
    node_missing: bool = False
    blind: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One entry of an UpdateFeatures request. `kind` is the wire's UpgradeType code."""

    feature: str
    level: int
    kind: int = UpgradeType.UPGRADE
    allow_downgrade: bool = False  # wire version 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One UpdateFeatures request, and to whom it goes."""

    updates: tuple[Update, ...]
    version: int = 1  # of the wire protocol
    validate_only: bool = False
    timeout_ms: int = 60_000
    to_active: bool = True
    authorized: bool = True


Case = tuple[Cluster, Request]


def counted(updates: Sequence[Update], duplicates: str) -> list[Update]:
    """The updates that count where a name stands more than once; each keeps its first place."""
    if duplicates == "each":
        return list(updates)
    kept: dict[str, Update] = {}
    for update in updates:
        if duplicates == "last" or update.feature not in kept:
            kept[update.feature] = update
    return list(kept.values())


def kind_of(update: Update, version: int, dialect: Dialect) -> int:
    """The upgrade type a controller reads: wire version 0 has a flag instead."""
    if version > 0:
        return update.kind
    flag = dialect.can.upgrade_type_v0 == "allow_downgrade" and update.allow_downgrade
    return UpgradeType.SAFE_DOWNGRADE if flag else UpgradeType.UPGRADE


# ----------------------------------------
# The orders in which Java walks its maps, so that the first offender is the one Kafka names.
#
# Only names in messages depend on them. Sources: java.util.HashMap, java.lang.String.hashCode,
# org.apache.kafka.timeline.BaseHashTable.

_INT = 1 << 32
_LONG = 1 << 64
_MULTIPLIER = -7046029254386353131  # BaseHashTable spreads the bits of a hash with it


def string_hash(text: str) -> int:
    """String.hashCode as an unsigned 32-bit number; a character is a UTF-16 code unit."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(data), 2):
        value = (31 * value + (data[i] << 8 | data[i + 1])) % _INT
    return value


def hash_order(hashes: Iterable[int], least: int = 16) -> list[int]:
    """Positions of distinct keys with these hashes, as java.util.HashMap walks them.

    `least` is its first size: 16, or smaller where it was made for as many as there are.
    """
    keys = list(hashes)
    size = least
    while len(keys) > 0.75 * size:
        size *= 2
    return sorted(range(len(keys)), key=lambda i: ((keys[i] ^ keys[i] >> 16) & (size - 1), i))


def name_order(names: Iterable[str]) -> list[int]:
    """Positions of distinct names, as a HashMap with String keys walks them."""
    return hash_order(string_hash(name) for name in names)


def table_order(ids: Iterable[int]) -> list[int]:
    """Positions of node ids in a timeline hash table: by slot, later insertions first."""
    keys = list(ids)
    size = 2
    for count in range(len(keys)):
        while (count + 1) * 0.75 > size:
            size *= 2
    bits = size.bit_length() - 1
    slot = [((key * _MULTIPLIER) % _LONG) >> (64 - bits) for key in keys]
    return sorted(range(len(keys)), key=lambda i: (slot[i], -i))
