"""The rules: each is one boolean mask over columns that says which rows offend.

No rule knows a release or builds a message, and a mask is right alone, whatever others would have
caught. Only this module compares a level with a range. Arguments are columns: see rows.py.
"""

from __future__ import annotations

import numpy as np

from featurelib.core.rows import RULES, Level, Mask, of_nodes, of_updates
from featurelib.feature import UpgradeType

__all__ = ["RULES"]
_UPGRADE, _SAFE, _UNSAFE = UpgradeType

# --- What nodes support ---------------------------------------------------------------------------


@of_nodes("KIP-584, Validations; KIP-778, Upgrades; QuorumFeatures.reasonNotSupported")
def unsupported_by_node(level: Level, min_version: Level, max_version: Level, silent: Mask) -> Mask:
    """Every node that must answer has to support the level that is asked for."""
    return (level < min_version) | (max_version < level) | silent


@of_nodes("KafkaController.validateFeatureUpdate of 2.7: [own minimum, level] fits every broker")
def range_unsupported_by_node(
    lowest: Level, level: Level, min_version: Level, max_version: Level, silent: Mask
) -> Mask:
    """Every broker has to support the whole range that would be finalized."""
    return (lowest < min_version) | unsupported_by_node(level, min_version, max_version, silent)


@of_nodes("KIP-584, Feature versions; FinalizedFeatureChangeListener; ClusterControlManager")
def incompatible_with_finalized(
    lowest: Level, level: Level, min_version: Level, max_version: Level
) -> Mask:
    """A node has to support what is finalized already, its minimum included."""
    return (level > 0) & ((np.minimum(lowest, level) < min_version) | (max_version < level))


@of_updates("KafkaController.validateFeatureUpdate: the controller's own features come first")
def absent_from_local(local_lists: Mask) -> Mask:
    """The controller itself does not list the feature."""
    return ~local_lists


@of_updates("KafkaController.validateFeatureUpdate of 2.7")
def below_local_min(level: Level, local_min: Level) -> Mask:
    """The level is below what the controller itself supports."""
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
def voter_not_registered(unregistered_voters: Level) -> Mask:
    """A voter that never registered may not support the level, and blocks every update."""
    return unregistered_voters > 0


@of_updates("QuorumFeatures.quorumNodeIds: its own controller.quorum.voters, not the raft voters")
def configured_voter_not_registered(unregistered_configured: Level) -> Mask:
    """A controller that the active one is configured to ask is gone, and blocks every update."""
    return unregistered_configured > 0


@of_updates("RaftClient.upgradeKRaftVersion: every voter has told the leader (KAFKA-16538)")
def raft_voters_not_ready(level: Level, current: Level, raft_ready: Mask) -> Mask:
    """A voter is missing, or too old to tell the leader which kraft.version it supports."""
    return (level > current) & ~raft_ready


# --- Directions and upgrade types -----------------------------------------------------------------


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
    """A finalized level would be taken away without a type that says so."""
    return (level < 1) & (kind == _UPGRADE)


@of_updates("KafkaController.validateFeatureUpdate: nothing is there to delete")
def delete_of_absent(level: Level, current: Level) -> Mask:
    """What is not finalized cannot be taken away."""
    return (level < 1) & (current == 0)


@of_updates("KIP-584, Validations: Y is above X, or below X; so Y = X is no update")
def same_level(level: Level, current: Level) -> Mask:
    """The feature is at that level already."""
    return level == current


@of_updates("KIP-584, Validations; KIP-778, Downgrades")
def downgrade_without_intent(level: Level, current: Level, kind: Level) -> Mask:
    """A level would go down without a type that says so."""
    return (level < current) & (kind == _UPGRADE)


@of_updates("KafkaController.validateFeatureUpdate of 3.3: only SAFE lowers, UNSAFE does not")
def downgrade_without_safe_type(level: Level, current: Level, kind: Level) -> Mask:
    """A level would go down under another type than SAFE_DOWNGRADE."""
    return (level < current) & (kind != _SAFE)


@of_updates("KIP-778, Downgrades: a downgrade type says that the level goes down")
def upgrade_under_downgrade_type(level: Level, current: Level, kind: Level) -> Mask:
    """A level would go up under a type that says down."""
    return (level > current) & ((kind == _SAFE) | (kind == _UNSAFE))


@of_updates("KRaftVersion: the raft layer's version never goes back (KAFKA-16538)")
def change_under_downgrade_type(level: Level, current: Level, kind: Level) -> Mask:
    """kraft.version would move under a downgrade type."""
    return (level != current) & ((kind == _SAFE) | (kind == _UNSAFE))


@of_updates("KafkaController.validateFeatureUpdate of 2.7: not below the finalized minimum")
def below_finalized_min(level: Level, finalized_min: Level) -> Mask:
    """The level is below the finalized minimum, so its range would be empty."""
    return level < finalized_min


# --- metadata.version -----------------------------------------------------------------------------


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
    """Nothing moves while a cluster migrates from ZooKeeper."""
    return migrating


@of_updates("KIP-778, Downgrades; MetadataVersion.checkIfMetadataChanged; KAFKA-13896")
def lossy_unsafe_downgrade(level: Level, current: Level, kind: Level, loses: Mask) -> Mask:
    """A downgrade that loses metadata, asked for as such; no release has ever allowed it."""
    return (level < current) & (kind == _UNSAFE) & loses


@of_updates("KIP-778, Downgrades; MetadataVersion.checkIfMetadataChanged")
def lossy_safe_downgrade(level: Level, current: Level, kind: Level, loses: Mask) -> Mask:
    """A downgrade that would lose metadata under the type that promises not to."""
    return (level < current) & (kind == _SAFE) & loses


# --- The catalogue --------------------------------------------------------------------------------


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
    """A level of a known feature that the catalogue has never heard of cannot be vouched for."""
    return (newest_known >= 0) & (level > newest_known)


@of_updates("KIP-1022, Proposed Changes: only production levels are finalized")
def unstable_level(level: Level, newest_stable: Level) -> Mask:
    """A level above what the software that runs there calls stable is not for production."""
    return (newest_stable >= 0) & (level > newest_stable)


@of_updates("Feature.validateVersion: a level of 1 or more needs a record to stand in")
def metadata_version_unmet(level: Level, metadata_proposed: Level, metadata_needed: Level) -> Mask:
    """Any other feature needs a metadata.version that can store its level."""
    return (level >= 1) & (metadata_proposed < metadata_needed)


@of_updates("KIP-1022, Feature dependencies; Feature.validateVersion")
def dependency_unmet(proposed: Level, needed: Level) -> Mask:
    """What a level depends on must hold in the whole proposed state."""
    return proposed < needed


@of_updates("KIP-1022, Feature dependencies: they hold when the other feature moves, too")
def dependant_broken(level: Level, needed_by_others: Level) -> Mask:
    """Another level of the proposed state depends on more than this one would leave."""
    return np.maximum(level, 0) < needed_by_others


# --- The request as a whole ----------------------------------------------------------------------


@of_updates("KafkaApis.handleUpdateFeatures: ALTER on the cluster")
def not_authorized(unauthorized: Mask) -> Mask:
    """Whoever asks may not alter the cluster."""
    return unauthorized


@of_updates("KafkaController.updateFeatures; QuorumController: only the active one answers")
def not_controller(elsewhere: Mask) -> Mask:
    """Somebody else is the active controller."""
    return elsewhere


@of_updates("KafkaController.updateFeatures: 'Feature versioning system is disabled.'")
def system_off(off: Mask) -> Mask:
    """With inter.broker.protocol.version below 2.7 nothing can be finalized."""
    return off
