"""What a newly elected controller makes of the features node (ZooKeeper mode only).

The broker's protocol version and what stands in the node decide, its release says how. KIP-584,
Controller: ZK node bootstrap with default values, as KafkaController.enableFeatureVersioning and
disableFeatureVersioning do it. The inter.broker.protocol.versions there are stand here as well: a
release knows its own and all older ones, and a broker does not start with another. KRaft has none:
there metadata.version stands in its place (KIP-778).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from featurelib.core.cluster import Features
from featurelib.core.compatibility import range_refused
from featurelib.core.dialect import Dialect, is_before
from featurelib.core.features_znode import DecodedNode, Generation, Reading, decode

DISABLED, ENABLED = 0, 1  # status of the node
Entries = tuple[tuple[str, int, int], ...]  # name, minimum, level; by name


class ZnodeChange(StrEnum):
    """What the election does to the node."""

    CREATED = "created"  # its data version is 0
    REWRITTEN = "rewritten"  # its data version is one more
    UNCHANGED = "unchanged"
    NOBODY = "nobody"  # this broker cannot become controller; the node stays as it is


class ZnodeReason(StrEnum):
    """Why a node is written, or nobody elected."""

    ABSENT = "absent"
    ENABLED = "enabled"  # it was Disabled, and the protocol version is 2.7 or above
    DISABLED = "disabled"  # it was Enabled, and the protocol version is below 2.7
    EMPTIED = "emptied"  # it was Disabled and held features all the same
    SCHEMA_UP = "schema_up"  # minimums are dropped
    SCHEMA_DOWN = "schema_down"  # every minimum becomes the level
    UNDECODABLE = "undecodable"  # the election fails, over and over
    WRONG_TYPE = "wrong_type"  # the broker does not even start
    INCOMPATIBLE = "incompatible"  # the broker ends over what is finalized


@dataclass(frozen=True, slots=True, kw_only=True)
class ZnodeContent:
    """What stands in the node, as the brokers of one generation read it."""

    schema_version: int
    status: int
    levels: Entries = ()

    @property
    def text(self) -> str:
        """JSON as a controller writes it; compare what it says, never its bytes."""
        with_minimum = self.schema_version == 1
        features = {
            name: {
                "max_version_level": level,
                **({"min_version_level": low} if with_minimum else {}),
            }
            for name, low, level in self.levels
        }
        node = {"features": features, "version": self.schema_version, "status": self.status}
        return json.dumps(node, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionResult:
    """What follows when one broker becomes controller."""

    change: ZnodeChange
    reasons: tuple[ZnodeReason, ...] = ()
    text: str | None = None  # what stands in the node afterwards
    content: ZnodeContent | None = None  # the same as it is read; None where nobody is elected
    lost: Entries = ()  # finalized before, not afterwards
    fault: str | None = None  # of the text that was there, for a person
    unfit: tuple[str, ...] = ()  # features this broker cannot live with

    def version(self, before: int | None) -> int | None:
        """The node's data version afterwards; it is the epoch. `before`: None = absent."""
        if self.change is ZnodeChange.CREATED:
            return 0
        return before + 1 if before is not None and self.change is ZnodeChange.REWRITTEN else before


def elect(
    text: str | None, protocol_version: str, supported: Features | None, dialect: Dialect
) -> ElectionResult:
    """What a broker of `dialect`'s generation, elected controller, does to the node.

    `text` is what stands there, None if it does not exist; `protocol_version` its
    inter.broker.protocol.version; `supported` the ranges it advertises. None: as if it supported
    every level of the node; where there is no node, what only its broker knows is left out.
    """
    table = dialect.election
    on = not is_before(protocol_version, table.system_from)
    second = bool(table.schema_2_from) and not is_before(protocol_version, table.schema_2_from)
    schema, status = 2 if second else 1, ENABLED if on else DISABLED
    if text is None:
        # Everything this broker supports is finalized, whatever the others support.
        ranges, whole = (supported or {}) if on else {}, table.creates_range
        levels = [(name, low if whole else high, high) for name, (low, high) in ranges.items()]
        made = ZnodeContent(schema_version=schema, status=status, levels=tuple(sorted(levels)))
        return ElectionResult(
            change=ZnodeChange.CREATED, reasons=(ZnodeReason.ABSENT,), text=made.text, content=made
        )
    node = decode(text, Generation(dialect.name))
    if node.reading in (Reading.UNDECODABLE, Reading.WRONG_TYPE):
        return _nobody(text, ZnodeReason(node.reading.value), node.fault)
    found = _rewrite(text, node, ZnodeContent(schema_version=schema, status=status), dialect)
    assert found.content is not None
    names = () if supported is None else incompatible(found.content.levels, supported, dialect)
    return unfit_for(found, text, names) if names else found


def unfit_for(foreseen: ElectionResult, text: str, names: tuple[str, ...]) -> ElectionResult:
    """What becomes of it where a broker cannot live with the features `names` of the node."""
    return _nobody(text, ZnodeReason.INCOMPATIBLE, foreseen.fault, names)


def incompatible(levels: Entries, supported: Features, dialect: Dialect) -> tuple[str, ...]:
    """The features of an enabled node over which a broker of that range ends, by name."""
    rows = [(low, level, *supported.get(name, (0, 0))) for name, low, level in levels]
    minimum, level, low, high = np.array(rows, dtype=np.int32).reshape(-1, 4).T
    silent = np.array([name not in supported for name, _, _ in levels], dtype=bool)
    hit = range_refused(dialect.protection.brokers, minimum, level, low, high, silent)
    return tuple(name for (name, _, _), bad in zip(levels, hit, strict=True) if bad)


def _nobody(
    text: str, reason: ZnodeReason, fault: str | None, names: tuple[str, ...] = ()
) -> ElectionResult:
    return ElectionResult(
        change=ZnodeChange.NOBODY, reasons=(reason,), text=text, fault=fault, unfit=names
    )


def _rewrite(
    text: str, node: DecodedNode, wanted: ZnodeContent, dialect: Dialect
) -> ElectionResult:
    was_on, holds_ignored = node.status == ENABLED, node.fault is not None
    schema = node.schema_version or wanted.schema_version
    reasons = []
    if was_on != (wanted.status == ENABLED):
        reasons.append(ZnodeReason.DISABLED if was_on else ZnodeReason.ENABLED)
    if not was_on and holds_ignored:
        reasons.append(ZnodeReason.EMPTIED)
    if dialect.election.schema_2_from and schema != wanted.schema_version:
        up = wanted.schema_version > schema
        reasons.append(ZnodeReason.SCHEMA_UP if up else ZnodeReason.SCHEMA_DOWN)
    kept = node.levels if wanted.status == ENABLED else ()
    content = ZnodeContent(
        schema_version=wanted.schema_version if reasons else schema,
        status=wanted.status,
        levels=kept,
    )
    return ElectionResult(
        change=ZnodeChange.REWRITTEN if reasons else ZnodeChange.UNCHANGED,
        reasons=tuple(reasons),
        text=content.text if reasons else text,
        content=content,
        lost=tuple(entry for entry in node.levels if entry not in kept),
        fault=node.fault,
    )


# --- Protocol versions ----------------------------------------------------------------------------

# Release → how many steps (-IV0, -IV1 …) it has; 0 = the release alone. Source: ApiVersion.scala of
# 2.8, MetadataVersion.java of 3.9.
STEPS: Final = {
    "0.8.0": 0, "0.8.1": 0, "0.8.2": 0, "0.9.0": 0,
    "0.10.0": 2, "0.10.1": 3, "0.10.2": 1, "0.11.0": 3,
    "1.0": 1, "1.1": 1,
    "2.0": 2, "2.1": 3, "2.2": 2, "2.3": 2, "2.4": 2, "2.5": 1, "2.6": 1, "2.7": 3, "2.8": 2,
    "3.0": 2, "3.1": 1, "3.2": 1, "3.3": 4, "3.4": 1, "3.5": 3, "3.6": 3, "3.7": 5, "3.8": 1,
    "3.9": 1,
}  # fmt: skip
_SHAPE: Final = re.compile(r"(0\.\d+\.\d+|[1-9]\d*\.\d+)((?:\.\d+)*)(?:-IV(\d+))?")


def is_protocol_version(text: str) -> bool:
    """Whether brokers of some release in ZooKeeper mode start with it: `2.6`, `2.7-IV2`, `2.8.1`.

    Source: ApiVersion.apply, MetadataVersion.fromVersionString: what follows the release is cut
    off, but a step (-IV2) must be one there is.
    """
    found = _SHAPE.fullmatch(text)
    if found is None or found[1] not in STEPS:
        return False
    return found[3] is None or bool(found[2]) or int(found[3]) < STEPS[found[1]]


def knows(dialect: Dialect, protocol_version: str) -> bool:
    """Whether software of some release of a dialect starts with that protocol version."""
    return any(not is_before(release, protocol_version) for release in dialect.releases)
