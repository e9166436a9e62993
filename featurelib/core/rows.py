"""The columns rules are written in, and the registry of rules and scopes.

A rule is a function whose arguments are columns; the name of an argument is the name of the
column. A name that is no column fails when the rule is entered, at import.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Level = npt.NDArray[np.int32]
Function = Callable[..., Mask]

# One row for each (update, profile of nodes that must answer).
NODE_COLUMNS = {
    "lowest": "the lower end of what is asked for: the level itself, or a minimum",
    "level": "the level that is asked for",
    "min_version": "the lower end of what the profile supports; 0 where it does not list it",
    "max_version": "the upper end of what the profile supports; 0 where it does not list it",
    "silent": "the profile does not list the feature, and silence is a refusal",
}
# One row for each update.
UPDATE_COLUMNS = {
    "level": "the level that is asked for",
    "current": "the level the update is compared with; 0 = not finalized",
    "kind": "the upgrade type: 1 UPGRADE, 2 SAFE_DOWNGRADE, 3 UNSAFE_DOWNGRADE",
    "nameless": "the feature's name is empty",
    "is_metadata_version": "the feature is metadata.version",
    "is_kraft_version": "the feature is kraft.version",
    "finalized_min": "the finalized minimum; 0 where none is stored",
    "metadata_version": "the current metadata.version of the cluster",
    "metadata_proposed": "the metadata.version the cluster would have after the request",
    "proposed": "what the proposed state has of the feature that is furthest from being enough",
    "needed": "what the level needs of that feature",
    "needed_by_others": "what the other proposed levels need of this feature; 0 = nothing",
    "asked": "how many nodes must answer",
    "refusing": "how many of them do not support the level",
    "unregistered_voters": "how many of the voters that must answer never registered",
    "unregistered_configured": "how many the active controller is configured to ask, which neither "
    "vote nor are registered",
    "raft_ready": "every voter has told the raft leader that it supports kraft.version",
    "local_lists": "the active controller, or each that may be it, lists the feature",
    "local_min": "the lower end of what it supports; the lowest, where several may be it",
    "local_max": "the upper end of what it supports; the lowest, where several may be it",
    "known_feature": "the controller's release knows the feature",
    "known_level": "the controller's release knows the level",
    "newest_known": "the highest level the catalogue knows; -1 = not a catalogued feature",
    "newest_stable": "the highest level that is stable in what runs there; -1 = does not apply",
    "loses": "a level between the two changed what metadata holds",
    "metadata_floor": "the lowest metadata.version this generation sets",
    "metadata_needed": "the metadata.version that levels of other features need",
    "register_from": "the metadata.version from which controllers register",
    "migrating": "the cluster migrates from ZooKeeper",
    "off": "the feature system is off",
    "unauthorized": "the caller may not alter the cluster",
    "elsewhere": "another node is the active controller",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A named mask, the columns it reads, and the text or class it rests on."""

    name: str
    about_nodes: bool
    columns: tuple[str, ...]
    source: str
    sentence: str
    mask: Function

    def readable(self, rows: object) -> bool:
        """Whether `rows` have the columns of this rule."""
        return all(hasattr(rows, name) for name in self.columns)

    def ask(self, rows: object) -> Mask:
        """Which of `rows` offend; `rows` has every column of the rule as an attribute."""
        return self.mask(*[getattr(rows, name) for name in self.columns])


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRows:
    """Columns about nodes, as the audit fills them: see NODE_COLUMNS."""

    lowest: Level
    level: Level
    min_version: Level
    max_version: Level
    silent: Mask | np.bool_ = np.False_


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRows:
    """Columns about updates, as the audit fills them: see UPDATE_COLUMNS."""

    level: Level
    current: Level
    newest_known: Level
    newest_stable: Level
    asked: Level
    unregistered_voters: Level
    unregistered_configured: Level
    needed: Level
    proposed: Level
    metadata_version: Level
    register_from: Level
    off: Mask
    migrating: Mask


RULES: dict[str, Rule] = {}
SCOPES: dict[str, Rule] = {}


def of_nodes(source: str) -> Callable[[Function], Function]:
    """Enter a mask over NODE_COLUMNS as a rule."""
    return _enter(RULES, NODE_COLUMNS, source, about_nodes=True)


def of_updates(source: str) -> Callable[[Function], Function]:
    """Enter a mask over UPDATE_COLUMNS as a rule."""
    return _enter(RULES, UPDATE_COLUMNS, source, about_nodes=False)


def scope(mask: Function) -> Function:
    """Enter a mask over UPDATE_COLUMNS as a scope."""
    return _enter(SCOPES, UPDATE_COLUMNS, "", about_nodes=False)(mask)


def _enter(
    registry: dict[str, Rule], known: dict[str, str], source: str, *, about_nodes: bool
) -> Callable[[Function], Function]:
    def enter(mask: Function) -> Function:
        columns = tuple(inspect.signature(mask).parameters)
        if unknown := [name for name in columns if name not in known]:
            raise TypeError(f"rule {mask.__name__}: no such column: {', '.join(unknown)}")
        registry[mask.__name__] = Rule(
            name=mask.__name__,
            about_nodes=about_nodes,
            columns=columns,
            source=source,
            sentence=(mask.__doc__ or "").split("\n")[0],
            mask=mask,
        )
        return mask

    return enter
