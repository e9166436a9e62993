"""Sections of a dialect's table beside its rules: who may join, who stops, what an election writes.

Only values: compatibility.py and election.py say what follows from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Absence(StrEnum):
    """What it means that a node does not list a feature."""

    ZERO = "zero"  # it supports 0-0
    REFUSE = "refuse"  # it supports no level, not even 0
    SKIP = "skip"  # nothing is compared


class Guard(StrEnum):
    """What a node of its own accord compares with its own software."""

    NOTHING = "nothing"
    LEVEL = "level"  # every finalized level
    RANGE = "range"  # the finalized minimum as well
    METADATA_VERSION = "metadata_version"  # only whether it knows that level


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """How controllers judge a node that registers (KIP-778; ClusterControlManager)."""

    absence: Absence = Absence.SKIP  # a finalized feature the broker does not list: skip or zero
    not_finalized: Absence = Absence.SKIP  # a listed feature that is not finalized
    absent_metadata_version: tuple[int, int] = (0, 0)  # the range of a broker that lists none
    code: int = 35  # UNSUPPORTED_VERSION
    says: str = ""
    says_controller: str = ""  # to a controller that registers too early
    directories_from: int = 0  # metadata.version from which brokers name log directories; 0: never
    directories_code: int = 119  # INVALID_REGISTRATION; brokers before 3.7 read it as -1
    says_directories: str = ""
    at_start: bool = False  # a broker judges itself when it starts (ZooKeeper mode)
    says_ignored: str = ""  # of a broker that is left out of the live ones (ZooKeeper mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """What nodes do by themselves about levels they do not support (KIP-584, KIP-778)."""

    brokers: Guard = Guard.NOTHING
    controllers: Guard = Guard.NOTHING
    broker_exits: bool = False  # else it logs a fault, and follows the metadata no longer
    zero_counts: bool = False  # a stored level of 0 or less is a finalized one (ZooKeeper mode)
    says_broker: str = ""
    says_broker_absent: str = ""
    says_broker_prefix: str = ""  # where a node names all its incompatible features
    says_controller: str = ""
    race: str = ""  # what this protection leaves open, for a person


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """What a newly elected controller writes to the features node (KafkaController)."""

    system_from: str = ""  # inter.broker.protocol.version; empty: there is no features node
    schema_2_from: str = ""  # inter.broker.protocol.version; empty: schema 1 for ever
    creates_range: bool = False  # without a node its whole range is finalized, not the level alone


def is_before(version: str, first: str) -> bool:
    """Whether a release or inter.broker.protocol.version (`2.6`, `2.7-IV2`) is older than a
    release; one that is not known is not. Source: MetadataVersion.isLessThan, by releases."""
    number = _release(version)
    return bool(number and first) and number < _release(first)


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("-")[0].split(".")[:2] if part.isdigit())
