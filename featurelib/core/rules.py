"""Define the rules: each is one boolean mask over columns that marks offending rows.

No rule knows a release or builds a message. Each mask is correct by itself and does not rely on
other rules. Only this module compares a level with a range. A rule is a function whose arguments
are columns: the name of an argument is the name of a column. An unknown name fails at import.
Scopes, at the end, are also masks: they select the updates to which a dialect applies a rule (its
`where`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from featurelib.feature import UpgradeType

Mask = npt.NDArray[np.bool_]
Level = npt.NDArray[np.int32]
Function = Callable[..., Mask]

# One row for each update: the number of such nodes in its group.
GROUP_COLUMNS = {
    "asked": "how many nodes must answer",
    "refusing": "how many of them do not support the level",
    "unregistered": "how many of them never registered",
}
# One row for each request, before its updates are read.
REQUEST_COLUMNS = ("off", "migrating", "unauthorized", "elsewhere")
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
    **GROUP_COLUMNS,
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
    """A named mask, the columns it reads, and its source (text or class)."""

    name: str
    about_nodes: bool
    columns: tuple[str, ...]
    source: str
    sentence: str
    mask: Function

    @property
    def about_groups(self) -> bool:
        """True if the rule counts nodes of the group in its row."""
        return not self.about_nodes and any(name in GROUP_COLUMNS for name in self.columns)

    def ask(self, rows: object) -> Mask:
        """Return the mask of offending `rows`, which have the rule's columns as attributes."""
        return self.mask(*[getattr(rows, name) for name in self.columns])


RULES: dict[str, Rule] = {}
SCOPES: dict[str, Rule] = {}


def of_nodes(source: str) -> Callable[[Function], Function]:
    """Register a mask over NODE_COLUMNS as a rule."""
    return partial(_enter, RULES, NODE_COLUMNS, source)


def of_updates(source: str) -> Callable[[Function], Function]:
    """Register a mask over UPDATE_COLUMNS as a rule."""
    return partial(_enter, RULES, UPDATE_COLUMNS, source)


def scope(mask: Function) -> Function:
    """Register a mask over UPDATE_COLUMNS as a scope."""
    return _enter(SCOPES, UPDATE_COLUMNS, "", mask)


def _enter(
    registry: dict[str, Rule], known: dict[str, str], source: str, mask: Function
) -> Function:
    columns = tuple(inspect.signature(mask).parameters)
    if unknown := [name for name in columns if name not in known]:
        raise TypeError(f"rule {mask.__name__}: no such column: {', '.join(unknown)}")
    registry[mask.__name__] = Rule(
        name=mask.__name__,
        about_nodes=known is NODE_COLUMNS,
        columns=columns,
        source=source,
        sentence=mask.__doc__ or "",
        mask=mask,
    )
    return mask


_UPGRADE, _SAFE, _UNSAFE = UpgradeType


@of_nodes("KIP-584, Validations; KIP-778, Upgrades; QuorumFeatures.reasonNotSupported")
def unsupported_by_node(level: Level, min_version: Level, max_version: Level, silent: Mask) -> Mask:
    """Every node that counts must support the requested level."""
    return (level < min_version) | (max_version < level) | silent


@of_nodes("KafkaController.validateFeatureUpdate of 2.7: [own minimum, level] fits every broker")
def range_unsupported_by_node(
    lowest: Level, level: Level, min_version: Level, max_version: Level, silent: Mask
) -> Mask:
    """Every broker must support the whole range that the update would finalize."""
    return (lowest < min_version) | unsupported_by_node(level, min_version, max_version, silent)


@of_nodes("KIP-584, Feature versions; FinalizedFeatureChangeListener; ClusterControlManager")
def incompatible_with_finalized(
    lowest: Level, level: Level, min_version: Level, max_version: Level
) -> Mask:
    """A node must support the finalized level, and the finalized minimum."""
    return (level > 0) & ((np.minimum(lowest, level) < min_version) | (max_version < level))


@of_updates("KafkaController.validateFeatureUpdate: the controller's own features come first")
def absent_from_local(local_lists: Mask) -> Mask:
    """The controller itself does not list the feature."""
    return ~local_lists


@of_updates("KafkaController.validateFeatureUpdate of 2.7")
def below_local_min(level: Level, local_min: Level) -> Mask:
    """The level is below the controller's own minimum."""
    return level < local_min


@of_updates("KafkaController.validateFeatureUpdate of 3.3: the text speaks of the minimum only")
def outside_local_range(level: Level, local_min: Level, local_max: Level) -> Mask:
    """The level is outside the controller's own range."""
    return (level < local_min) | (local_max < level)


@of_updates("KIP-584: every live broker answers; with none there is nobody to ask")
def no_node_to_ask(asked: Level) -> Mask:
    """A cluster without nodes passes every rule about nodes, so it is refused here."""
    return asked == 0


@of_updates("KIP-778, Upgrades: a majority of the quorum supports the new metadata.version")
def no_quorum_majority(asked: Level, refusing: Level) -> Mask:
    """Fewer than a majority of the controllers support the level."""
    return (asked > 0) & (2 * (asked - refusing) <= asked)


@of_updates("QuorumFeatures.reasonNotSupported: a voter has to be registered (KIP-919)")
def voter_not_registered(unregistered: Level) -> Mask:
    """A voter that never registered may not support the level, so it blocks every update."""
    return unregistered > 0


@of_updates("QuorumFeatures.quorumNodeIds: its own controller.quorum.voters, not the raft voters")
def configured_voter_not_registered(unregistered: Level) -> Mask:
    """A controller in the active controller's configuration is gone, so it blocks every update."""
    return unregistered > 0


@of_updates("RaftClient.upgradeKRaftVersion: every voter has told the leader (KAFKA-16538)")
def raft_voters_not_ready(level: Level, current: Level, raft_ready: Mask) -> Mask:
    """A voter is missing, or too old to report its range of kraft.version to the leader."""
    return (level > current) & ~raft_ready


@of_updates("KIP-584, UpdateFeaturesRequest: a name is needed")
def empty_name(nameless: Mask) -> Mask:
    """The update names no feature."""
    return nameless


@of_updates("KIP-778, UpdateFeaturesRequest: upgrade types 1, 2 and 3")
def unknown_upgrade_type(kind: Level) -> Mask:
    """The upgrade type is none of UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE."""
    return (kind < _UPGRADE) | (kind > _UNSAFE)


@of_updates("FeatureControlManager.updateFeature: 0 takes the level away, less means nothing")
def negative_level(level: Level) -> Mask:
    """A level cannot be below 0."""
    return level < 0


@of_updates("KIP-584, Validations: a level below 1 is a delete and needs its flag")
def delete_without_intent(level: Level, kind: Level) -> Mask:
    """A finalized level would be deleted without a downgrade type."""
    return (level < 1) & (kind == _UPGRADE)


@of_updates("KafkaController.validateFeatureUpdate: nothing is there to delete")
def delete_of_absent(level: Level, current: Level) -> Mask:
    """A feature that is not finalized cannot be deleted."""
    return (level < 1) & (current == 0)


@of_updates("KIP-584, Validations: Y is above X, or below X; so Y = X is no update")
def same_level(level: Level, current: Level) -> Mask:
    """The feature is at that level already."""
    return level == current


@of_updates("KIP-584, Validations; KIP-778, Downgrades")
def downgrade_without_intent(level: Level, current: Level, kind: Level) -> Mask:
    """A level would be downgraded without a downgrade type."""
    return (level < current) & (kind == _UPGRADE)


@of_updates("KafkaController.validateFeatureUpdate of 3.3: only SAFE lowers, UNSAFE does not")
def downgrade_without_safe_type(level: Level, current: Level, kind: Level) -> Mask:
    """A level would be downgraded with another type than SAFE_DOWNGRADE."""
    return (level < current) & (kind != _SAFE)


@of_updates("KIP-778, Downgrades: a downgrade type says that the level goes down")
def upgrade_under_downgrade_type(level: Level, current: Level, kind: Level) -> Mask:
    """A level would be upgraded with a downgrade type."""
    return (level > current) & ((kind == _SAFE) | (kind == _UNSAFE))


@of_updates("KRaftVersion: the raft layer's version never decreases (KAFKA-16538)")
def change_under_downgrade_type(level: Level, current: Level, kind: Level) -> Mask:
    """kraft.version would change with a downgrade type."""
    return (level != current) & ((kind == _SAFE) | (kind == _UNSAFE))


@of_updates("KafkaController.validateFeatureUpdate of 2.7: not below the finalized minimum")
def below_finalized_min(level: Level, finalized_min: Level) -> Mask:
    """The level is below the finalized minimum, so its range would be empty."""
    return level < finalized_min


@of_updates("FeatureControlManager.updateMetadataVersion: MetadataVersion.fromFeatureLevel")
def unknown_metadata_version(known_level: Mask) -> Mask:
    """The controller's release has no such metadata.version."""
    return ~known_level


@of_updates("FeatureControlManager.updateMetadataVersion: not below MINIMUM_KRAFT_VERSION")
def below_metadata_floor(level: Level, metadata_floor: Level) -> Mask:
    """Below 3.3-IV0 there is no record that holds a feature's level."""
    return level < metadata_floor


@of_updates("FeatureControlManager: no metadata.version while a ZooKeeper migration runs")
def during_zk_migration(migrating: Mask) -> Mask:
    """No level can change while a cluster migrates from ZooKeeper."""
    return migrating


@of_updates("KIP-778, Downgrades; MetadataVersion.checkIfMetadataChanged; KAFKA-13896")
def lossy_unsafe_downgrade(level: Level, current: Level, kind: Level, loses: Mask) -> Mask:
    """The request is an UNSAFE_DOWNGRADE that loses metadata; no release has ever allowed one."""
    return (level < current) & (kind == _UNSAFE) & loses


@of_updates("KIP-778, Downgrades; MetadataVersion.checkIfMetadataChanged")
def lossy_safe_downgrade(level: Level, current: Level, kind: Level, loses: Mask) -> Mask:
    """A SAFE_DOWNGRADE would lose metadata."""
    return (level < current) & (kind == _SAFE) & loses


@of_updates("Feature.validateVersion: Feature not found")
def unknown_feature(known_feature: Mask) -> Mask:
    """The controller's release knows no feature of that name."""
    return ~known_feature


@of_updates("Feature.validateVersion: No feature with feature level")
def unknown_level(level: Level, known_feature: Mask, known_level: Mask) -> Mask:
    """The controller's release knows the feature, but not that level."""
    return (level > 0) & known_feature & ~known_level


@of_updates("KIP-584, Goals: features are known by name and level")
def level_newer_than_catalogue(level: Level, newest_known: Level) -> Mask:
    """The catalogue knows the feature, but not this level."""
    return (newest_known >= 0) & (level > newest_known)


@of_updates("KIP-1022, Proposed Changes: only production levels are finalized")
def unstable_level(level: Level, newest_stable: Level) -> Mask:
    """The level is above the stable levels of the running software."""
    return (newest_stable >= 0) & (level > newest_stable)


@of_updates("Feature.validateVersion: a level of 1 or more needs a record to stand in")
def metadata_version_unmet(level: Level, metadata_proposed: Level, metadata_needed: Level) -> Mask:
    """The metadata.version cannot store levels of other features."""
    return (level >= 1) & (metadata_proposed < metadata_needed)


@of_updates("KIP-1022, Feature dependencies; Feature.validateVersion")
def dependency_unmet(proposed: Level, needed: Level) -> Mask:
    """The dependencies of the level must be met in the whole proposed state."""
    return proposed < needed


@of_updates("KIP-1022, Feature dependencies: they hold when the other feature moves, too")
def dependant_broken(level: Level, needed_by_others: Level) -> Mask:
    """Another level of the proposed state depends on a higher level than this one."""
    return np.maximum(level, 0) < needed_by_others


@of_updates("KafkaApis.handleUpdateFeatures: ALTER on the cluster")
def not_authorized(unauthorized: Mask) -> Mask:
    """The user has no permission to alter the cluster."""
    return unauthorized


@of_updates("KafkaController.updateFeatures; QuorumController: only the active one answers")
def not_controller(elsewhere: Mask) -> Mask:
    """Another node is the active controller."""
    return elsewhere


@of_updates("KafkaController.updateFeatures: 'Feature versioning system is disabled.'")
def system_off(off: Mask) -> Mask:
    """With inter.broker.protocol.version below 2.7 no level can be finalized."""
    return off


@scope
def sets(level: Level) -> Mask:
    """The update sets a level and does not delete it."""
    return level >= 1


@scope
def raises(level: Level, current: Level) -> Mask:
    """The level goes up."""
    return level > current


@scope
def changes(level: Level, current: Level) -> Mask:
    """The level changes."""
    return level != current


@scope
def finalized(current: Level) -> Mask:
    """The feature is finalized."""
    return current > 0


@scope
def of_metadata_version(is_metadata_version: Mask) -> Mask:
    """The update is about metadata.version."""
    return is_metadata_version


@scope
def of_kraft_version(is_kraft_version: Mask) -> Mask:
    """The update is about kraft.version."""
    return is_kraft_version


@scope
def of_other_features(is_metadata_version: Mask) -> Mask:
    """The update is about anything but metadata.version."""
    return ~is_metadata_version


@scope
def of_ordinary_features(is_metadata_version: Mask, is_kraft_version: Mask) -> Mask:
    """The update is neither about metadata.version nor about kraft.version."""
    return ~is_metadata_version & ~is_kraft_version


@scope
def controllers_register(metadata_version: Level, register_from: Level) -> Mask:
    """At the current metadata.version controllers must be registered (KIP-919)."""
    return metadata_version >= register_from
