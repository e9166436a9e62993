"""What a newly elected controller makes of the features node: question (d) of the core (M3, M10).

ZooKeeper mode only, and one text at a time: the broker's protocol version and what stands in the
node decide, its release says how. KIP-584, Controller: ZK node bootstrap with default values, as
KafkaController.enableFeatureVersioning and disableFeatureVersioning do it. Of a fleet:
featurelib.core.elections.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from featurelib.core.batch import Flags, Levels
from featurelib.core.cluster import Features
from featurelib.core.dialect import Dialect
from featurelib.core.features_node import FeaturesNode, Generation, Reading, decode
from featurelib.core.rows import NodeRows
from featurelib.core.rules import RULES
from featurelib.core.sections import Guard, is_before

DISABLED, ENABLED = 0, 1  # status of the node
Entries = tuple[tuple[str, int, int], ...]  # name, minimum, level; by name


class Change(StrEnum):
    """What the election does to the node."""

    CREATED = "created"  # its data version is 0
    REWRITTEN = "rewritten"  # its data version is one more
    UNCHANGED = "unchanged"
    NOBODY = "nobody"  # this broker cannot become controller; the node stays as it is


class Reason(StrEnum):
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
class Content:
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
class Election:
    """What follows when one broker becomes controller."""

    change: Change
    reasons: tuple[Reason, ...] = ()
    text: str | None = None  # what stands in the node afterwards
    content: Content | None = None  # the same as it is read; None where nobody is elected
    lost: Entries = ()  # finalized before, not afterwards
    fault: str | None = None  # of the text that was there, for a person
    unfit: tuple[str, ...] = ()  # features this broker cannot live with

    def version(self, before: int | None) -> int | None:
        """The node's data version afterwards; it is the epoch. `before`: None = absent."""
        if self.change is Change.CREATED:
            return 0
        return before + 1 if before is not None and self.change is Change.REWRITTEN else before


def elect(
    text: str | None, protocol_version: str, supported: Features, dialect: Dialect
) -> Election:
    """What a broker of `dialect`'s generation, elected controller, does to the node.

    `text` is what stands there, None if it does not exist; `protocol_version` its
    inter.broker.protocol.version; `supported` the ranges it advertises.
    """
    found = foresee(text, protocol_version, dialect)
    if found.content is None or found.content.status == DISABLED:
        return found
    if text is None:
        return created(found, supported, dialect)
    names = _unfit(found.content.levels, supported, dialect)
    return unfit_for(found, text, names) if names else found


def foresee(text: str | None, protocol_version: str, dialect: Dialect) -> Election:
    """The same, whoever is elected: as if the broker could live with every level of the node.

    Where there is no node, the levels that only its broker knows are left out: see `created`.
    """
    table = dialect.election
    on = not is_before(protocol_version, table.system_from)
    second = bool(table.schema_2_from) and not is_before(protocol_version, table.schema_2_from)
    wanted = Content(schema_version=2 if second else 1, status=ENABLED if on else DISABLED)
    if text is None:
        return Election(
            change=Change.CREATED, reasons=(Reason.ABSENT,), text=wanted.text, content=wanted
        )
    node = decode(text, Generation(dialect.name))
    if node.reading is Reading.UNDECODABLE:
        return _nobody(text, Reason.UNDECODABLE, node.fault)
    if node.reading is Reading.WRONG_TYPE:
        return _nobody(text, Reason.WRONG_TYPE, node.fault)
    return _rewrite(text, node, wanted, dialect)


def created(foreseen: Election, supported: Features, dialect: Dialect) -> Election:
    """Without a node everything this broker supports is finalized, whatever the others support.

    `foreseen` is what `foresee` says of no node.
    """
    assert foreseen.content is not None
    whole = dialect.election.creates_range
    levels = [(name, low if whole else high, high) for name, (low, high) in supported.items()]
    content = replace(foreseen.content, levels=tuple(sorted(levels)))
    return replace(foreseen, text=content.text, content=content)


def unfit_for(foreseen: Election, text: str, names: tuple[str, ...]) -> Election:
    """What becomes of it where a broker cannot live with the features `names` of the node."""
    return _nobody(text, Reason.INCOMPATIBLE, foreseen.fault, names)


def _nobody(text: str, reason: Reason, fault: str | None, names: tuple[str, ...] = ()) -> Election:
    return Election(change=Change.NOBODY, reasons=(reason,), text=text, fault=fault, unfit=names)


def _rewrite(text: str, node: FeaturesNode, wanted: Content, dialect: Dialect) -> Election:
    was_on, holds_ignored = node.status == ENABLED, node.fault is not None
    schema = node.schema_version or wanted.schema_version
    reasons = []
    if was_on != (wanted.status == ENABLED):
        reasons.append(Reason.DISABLED if was_on else Reason.ENABLED)
    if not was_on and holds_ignored:
        reasons.append(Reason.EMPTIED)
    if dialect.election.schema_2_from and schema != wanted.schema_version:
        up = wanted.schema_version > schema
        reasons.append(Reason.SCHEMA_UP if up else Reason.SCHEMA_DOWN)
    kept = node.levels if wanted.status == ENABLED else ()
    content = Content(
        schema_version=wanted.schema_version if reasons else schema,
        status=wanted.status,
        levels=kept,
    )
    return Election(
        change=Change.REWRITTEN if reasons else Change.UNCHANGED,
        reasons=tuple(reasons),
        text=content.text if reasons else text,
        content=content,
        lost=tuple(entry for entry in node.levels if entry not in kept),
        fault=node.fault,
    )


def _unfit(levels: Entries, supported: Features, dialect: Dialect) -> tuple[str, ...]:
    """What the broker does not accept of an enabled node: it ends before it can be elected."""
    wanted = demands(levels, dialect)
    names = [name for name, _, _ in wanted]
    level = np.array([ends for _, *ends in wanted], np.int32).reshape(-1, 2)
    own = np.array([supported.get(name, (0, 0)) for name in names], np.int32).reshape(-1, 2)
    silent = np.array([name not in supported for name in names], dtype=bool)
    mask = cannot_live_with(level[:, 0], level[:, 1], own[:, 0], own[:, 1], silent)
    return tuple(name for name, hit in zip(names, mask, strict=True) if hit)


def demands(levels: Entries, dialect: Dialect) -> Entries:
    """Feature, lowest and highest level that a broker has to support: 2.7 to 3.2 look at the
    finalized minimum as well."""
    whole = dialect.protection.brokers is Guard.RANGE
    return tuple((name, low if whole else level, level) for name, low, level in levels)


def cannot_live_with(
    lowest: Levels, level: Levels, min_version: Levels, max_version: Levels, silent: Flags
) -> Flags:
    """[N] which demands a broker of that range does not meet; `silent`: it lists no such feature.

    Source: BrokerFeatures.hasIncompatibleFeatures.
    """
    rows = NodeRows(
        lowest=lowest,
        level=level,
        min_version=min_version,
        max_version=max_version,
        silent=silent,
    )
    return RULES["range_unsupported_by_node"].ask(rows)
