"""The rules: each is one boolean mask over columns that says which rows offend.

No rule knows a release, does I/O or builds a message. A mask must be right alone, whatever other
rules would have caught. This is the only module of featurelib that compares a level with a range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Levels = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRows:
    """One row for each (update, profile of nodes that must answer). All columns int32 or bool.

    A feature that the profile does not list reads 0-0 in `min_version` and `max_version`;
    `lowest` is the lower end of what is asked for: the level itself, or a finalized minimum.
    """

    lowest: Levels
    level: Levels
    min_version: Levels
    max_version: Levels


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRows:
    """One row for each update. All columns int32 or bool.

    `current` 0 = not finalized. `newest_known` and `newest_stable` are -1 where the catalogue does
    not know the feature. `askable` counts the nodes that must answer. `needed` and `proposed` are
    the dependency that is furthest from being met and what the proposed state has there.
    """

    level: Levels
    current: Levels
    newest_known: Levels
    newest_stable: Levels
    askable: Levels
    unregistered_voters: Levels
    needed: Levels
    proposed: Levels
    system_off: Mask
    migrating: Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A named mask with the text it rests on; exactly one of the two masks is there."""

    name: str
    source: str
    of_nodes: Callable[[NodeRows], Mask] | None = None
    of_updates: Callable[[UpdateRows], Mask] | None = None


RULES: dict[str, Rule] = {}


def _of_nodes(source: str) -> Callable[[Callable[[NodeRows], Mask]], Callable[[NodeRows], Mask]]:
    def enter(mask: Callable[[NodeRows], Mask]) -> Callable[[NodeRows], Mask]:
        RULES[mask.__name__] = Rule(name=mask.__name__, source=source, of_nodes=mask)
        return mask

    return enter


def _of_updates(
    source: str,
) -> Callable[[Callable[[UpdateRows], Mask]], Callable[[UpdateRows], Mask]]:
    def enter(mask: Callable[[UpdateRows], Mask]) -> Callable[[UpdateRows], Mask]:
        RULES[mask.__name__] = Rule(name=mask.__name__, source=source, of_updates=mask)
        return mask

    return enter


@_of_nodes("KIP-584, Validations; KIP-778, Upgrades; QuorumFeatures.reasonNotSupported")
def unsupported_by_node(rows: NodeRows) -> Mask:
    """Every node that must answer has to support the level that is asked for."""
    return (rows.level < rows.min_version) | (rows.max_version < rows.level)


@_of_nodes("KIP-584, Feature versions; FinalizedFeatureChangeListener; d.1 and d.3 of the facts")
def incompatible_with_finalized(rows: NodeRows) -> Mask:
    """A node has to support what is finalized already, its minimum included."""
    return (rows.level > 0) & ((rows.lowest < rows.min_version) | unsupported_by_node(rows))


@_of_updates("KIP-584, Goals: features are known by name and level")
def level_newer_than_catalogue(rows: UpdateRows) -> Mask:
    """A level of a known feature that the catalogue has never heard of cannot be vouched for."""
    return (rows.newest_known >= 0) & (rows.level > rows.newest_known)


@_of_updates("KIP-1022, Proposed Changes: only production levels are finalized")
def unstable_level(rows: UpdateRows) -> Mask:
    """A level above what the software that runs there calls stable is not for production."""
    return (rows.newest_stable >= 0) & (rows.level > rows.newest_stable)


@_of_updates("KIP-584: every live broker answers; with none there is nobody to ask")
def no_node_to_ask(rows: UpdateRows) -> Mask:
    """A cluster without nodes passes every rule about nodes, so it is refused here."""
    return (rows.level > rows.current) & (rows.askable == 0)


@_of_updates("QuorumFeatures.reasonNotSupported: a voter has to be registered (KIP-919)")
def voter_not_registered(rows: UpdateRows) -> Mask:
    """A voter that never registered may not support the level, and blocks every update."""
    return (rows.level != rows.current) & (rows.unregistered_voters > 0)


@_of_updates("KIP-1022, Feature dependencies")
def dependency_unmet(rows: UpdateRows) -> Mask:
    """What a level depends on must hold in the whole proposed state."""
    return rows.proposed < rows.needed


@_of_updates("KafkaController.updateFeatures: 'Feature versioning system is disabled.'")
def system_off(rows: UpdateRows) -> Mask:
    """With inter.broker.protocol.version below 2.7 nothing can be finalized."""
    return rows.system_off & (rows.level != rows.current)


@_of_updates("FeatureControlManager: no metadata.version while a ZooKeeper migration runs")
def during_zk_migration(rows: UpdateRows) -> Mask:
    """Nothing moves while a cluster migrates from ZooKeeper."""
    return rows.migrating & (rows.level != rows.current)


def controllers_register(current: Levels, register_from: int) -> Mask:
    """Whether controllers have to be registered at the current metadata.version (KIP-919)."""
    return current >= register_from
