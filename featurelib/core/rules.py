"""Define the rules: each is one boolean mask over columns that marks offending rows.

No rule knows a release or builds a message. Each mask is correct by itself and does not rely on
other rules. Only this module compares a level with a range. A rule is a function whose arguments
are columns: the name of an argument is the name of a column. An unknown name fails at import.
Scopes, at the end, are also masks: they select the updates to which a dialect applies a rule (its
`where`).
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Final

import numpy as np
import numpy.typing as npt

from featurelib.feature import UpgradeType

Mask = npt.NDArray[np.bool_]
Level = npt.NDArray[np.int32]
Function = Callable[..., Mask]

_COLUMNS = tomllib.loads(files(__package__).joinpath("columns.toml").read_text(encoding="utf-8"))
GROUP_COLUMNS: Final[dict[str, str]] = _COLUMNS["group"]
NODE_COLUMNS: Final[dict[str, str]] = _COLUMNS["node"]
UPDATE_COLUMNS: Final[dict[str, str]] = _COLUMNS["update"] | GROUP_COLUMNS
# The columns that the controller checks before it reads the updates of a request.
REQUEST_COLUMNS = ("off", "migrating", "unauthorized", "elsewhere")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: its name, the columns it reads, its source (KIP or class), and its mask function."""

    name: str
    about_nodes: bool
    columns: tuple[str, ...]
    source: str
    sentence: str
    mask: Function

    @property
    def about_groups(self) -> bool:
        """True if the rule counts the nodes that it checks."""
        return not self.about_nodes and any(name in GROUP_COLUMNS for name in self.columns)

    def ask(self, rows: object) -> Mask:
        """Return the mask of offending `rows`; the columns are attributes of `rows`."""
        return self.mask(*[getattr(rows, name) for name in self.columns])


RULES: dict[str, Rule] = {}
SCOPES: dict[str, Rule] = {}


def of_nodes(source: str) -> Callable[[Function], Function]:
    """Register a function over NODE_COLUMNS as a rule; `source`: the text or class it follows."""
    return partial(_add_rule, RULES, NODE_COLUMNS, source)


def of_updates(source: str) -> Callable[[Function], Function]:
    """Register a function over UPDATE_COLUMNS as a rule; `source`: the text or class it follows."""
    return partial(_add_rule, RULES, UPDATE_COLUMNS, source)


def scope(mask: Function) -> Function:
    """Register a function over UPDATE_COLUMNS as a scope: it selects updates for a rule."""
    return _add_rule(SCOPES, UPDATE_COLUMNS, "", mask)


def _add_rule(
    registry: dict[str, Rule], sources: dict[str, str], source: str, mask: Function
) -> Function:
    columns = tuple(inspect.signature(mask).parameters)
    if unknown := [name for name in columns if name not in sources]:
        raise TypeError(f"rule {mask.__name__}: no such column: {', '.join(unknown)}")
    registry[mask.__name__] = Rule(
        name=mask.__name__,
        about_nodes=sources is NODE_COLUMNS,
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


@of_nodes("KafkaController.validateFeatureUpdate of 2.7 checks [own minimum, level] on brokers")
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


@of_updates("KafkaController.validateFeatureUpdate checks the features of the controller first")
def absent_from_local(local_lists: Mask) -> Mask:
    """The controller itself does not list the feature."""
    return ~local_lists


@of_updates("KafkaController.validateFeatureUpdate of 2.7")
def below_local_min(level: Level, local_min: Level) -> Mask:
    """The level is below the controller's own minimum."""
    return level < local_min


@of_updates("KafkaController.validateFeatureUpdate of 3.3, with a message about the minimum only")
def outside_local_range(level: Level, local_min: Level, local_max: Level) -> Mask:
    """The level is outside the controller's own range."""
    return (level < local_min) | (local_max < level)


@of_updates("KIP-584: every live broker must support the level, so a live broker is needed")
def no_node_to_ask(asked: Level) -> Mask:
    """A cluster without nodes would pass every rule about nodes, so this rule rejects it."""
    return asked == 0


@of_updates("KIP-778, Upgrades: a majority of the quorum supports the new metadata.version")
def no_quorum_majority(asked: Level, refusing: Level) -> Mask:
    """Fewer than a majority of the controllers support the level."""
    return (asked > 0) & (2 * (asked - refusing) <= asked)


@of_updates("QuorumFeatures.reasonNotSupported requires that a voter is registered (KIP-919)")
def voter_not_registered(unregistered: Level) -> Mask:
    """A voter that never registered may not support the level, so it blocks every update."""
    return unregistered > 0


@of_updates("QuorumFeatures.quorumNodeIds reads the controller's own controller.quorum.voters")
def configured_voter_not_registered(unregistered: Level) -> Mask:
    """A controller in the active controller's configuration is missing, and blocks updates."""
    return unregistered > 0


@of_updates("RaftClient.upgradeKRaftVersion needs a report of every voter (KAFKA-16538)")
def raft_voters_not_ready(level: Level, current: Level, raft_ready: Mask) -> Mask:
    """A voter does not report its range of kraft.version to the leader: missing, or too old."""
    return (level > current) & ~raft_ready


@of_updates("KIP-584, UpdateFeaturesRequest: an update names its feature")
def empty_name(nameless: Mask) -> Mask:
    """The update names no feature."""
    return nameless


@of_updates("KIP-778, UpdateFeaturesRequest: the upgrade types are 1, 2 and 3")
def unknown_upgrade_type(kind: Level) -> Mask:
    """The upgrade type is none of UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE."""
    return (kind < _UPGRADE) | (kind > _UNSAFE)


@of_updates("FeatureControlManager.updateFeature: 0 deletes the level; less is not valid")
def negative_level(level: Level) -> Mask:
    """A level cannot be below 0."""
    return level < 0


@of_updates("KIP-584, Validations: a level below 1 deletes the feature and needs a flag")
def delete_without_intent(level: Level, kind: Level) -> Mask:
    """A finalized level would be deleted without a downgrade type."""
    return (level < 1) & (kind == _UPGRADE)


@of_updates("KafkaController.validateFeatureUpdate rejects the deletion of a missing level")
def delete_of_absent(level: Level, current: Level) -> Mask:
    """A feature that is not finalized cannot be deleted."""
    return (level < 1) & (current == 0)


@of_updates("KIP-584, Validations: an update goes from X to a higher or lower Y, never to X")
def same_level(level: Level, current: Level) -> Mask:
    """The feature is already finalized at the requested level."""
    return level == current


@of_updates("KIP-584, Validations; KIP-778, Downgrades")
def downgrade_without_intent(level: Level, current: Level, kind: Level) -> Mask:
    """A level would be downgraded without a downgrade type."""
    return (level < current) & (kind == _UPGRADE)


@of_updates("KafkaController.validateFeatureUpdate of 3.3 downgrades with SAFE_DOWNGRADE only")
def downgrade_without_safe_type(level: Level, current: Level, kind: Level) -> Mask:
    """A level would be downgraded, and the type is not SAFE_DOWNGRADE."""
    return (level < current) & (kind != _SAFE)


@of_updates("KIP-778, Downgrades: a downgrade type is for a lower level only")
def upgrade_under_downgrade_type(level: Level, current: Level, kind: Level) -> Mask:
    """A level would be upgraded with a downgrade type."""
    return (level > current) & ((kind == _SAFE) | (kind == _UNSAFE))


@of_updates("KRaftVersion: the raft layer's version never decreases (KAFKA-16538)")
def change_under_downgrade_type(level: Level, current: Level, kind: Level) -> Mask:
    """kraft.version would change with a downgrade type."""
    return (level != current) & ((kind == _SAFE) | (kind == _UNSAFE))


@of_updates("KafkaController.validateFeatureUpdate of 2.7 rejects less than the finalized minimum")
def below_finalized_min(level: Level, finalized_min: Level) -> Mask:
    """The level is below the finalized minimum, so the feature's finalized range would be empty."""
    return level < finalized_min


@of_updates("FeatureControlManager.updateMetadataVersion: MetadataVersion.fromFeatureLevel")
def unknown_metadata_version(known_level: Mask) -> Mask:
    """The controller's release has no such metadata.version."""
    return ~known_level


@of_updates("FeatureControlManager.updateMetadataVersion rejects less than MINIMUM_KRAFT_VERSION")
def below_metadata_floor(level: Level, metadata_floor: Level) -> Mask:
    """Below 3.3-IV0 the metadata log has no record for a feature's level."""
    return level < metadata_floor


@of_updates("FeatureControlManager rejects a new metadata.version during a ZooKeeper migration")
def during_zk_migration(migrating: Mask) -> Mask:
    """No level can change while a cluster migrates from ZooKeeper."""
    return migrating


@of_updates("KIP-778, Downgrades; MetadataVersion.checkIfMetadataChanged; KAFKA-13896")
def lossy_unsafe_downgrade(level: Level, current: Level, kind: Level, loses: Mask) -> Mask:
    """An UNSAFE_DOWNGRADE would lose metadata; no release has ever accepted one."""
    return (level < current) & (kind == _UNSAFE) & loses


@of_updates("KIP-778, Downgrades; MetadataVersion.checkIfMetadataChanged")
def lossy_safe_downgrade(level: Level, current: Level, kind: Level, loses: Mask) -> Mask:
    """A SAFE_DOWNGRADE would lose metadata."""
    return (level < current) & (kind == _SAFE) & loses


@of_updates('Feature.validateVersion, with the message "Feature not found"')
def unknown_feature(known_feature: Mask) -> Mask:
    """The controller's release knows no feature with the requested name."""
    return ~known_feature


@of_updates('Feature.validateVersion, with the message "No feature with feature level"')
def unknown_level(level: Level, known_feature: Mask, known_level: Mask) -> Mask:
    """The controller's release knows the feature, but not the requested level."""
    return (level > 0) & known_feature & ~known_level


@of_updates("KIP-584, Goals: a feature is identified by its name and level")
def level_newer_than_catalogue(level: Level, newest_known: Level) -> Mask:
    """The catalogue knows the feature, but not the requested level."""
    return (newest_known >= 0) & (level > newest_known)


@of_updates("KIP-1022, Proposed Changes: only production levels can be finalized")
def unstable_level(level: Level, newest_stable: Level) -> Mask:
    """The level is above the stable levels of the running software."""
    return (newest_stable >= 0) & (level > newest_stable)


@of_updates("Feature.validateVersion: a level of 1 or more needs a record in the metadata log")
def metadata_version_unmet(level: Level, metadata_proposed: Level, metadata_needed: Level) -> Mask:
    """The metadata.version is too low to store levels of other features."""
    return (level >= 1) & (metadata_proposed < metadata_needed)


@of_updates("KIP-1022, Feature dependencies; Feature.validateVersion")
def dependency_unmet(proposed: Level, needed: Level) -> Mask:
    """A level that the requested level depends on is too low in the proposed state."""
    return proposed < needed


@of_updates("KIP-1022, Feature dependencies: Kafka also checks one when the other feature changes")
def dependant_broken(level: Level, needed_by_others: Level) -> Mask:
    """Another level of the proposed state depends on a higher level than the requested one."""
    return np.maximum(level, 0) < needed_by_others


@of_updates("KafkaApis.handleUpdateFeatures: ALTER on the cluster")
def not_authorized(unauthorized: Mask) -> Mask:
    """The user has no permission to alter the cluster."""
    return unauthorized


@of_updates("KafkaController.updateFeatures; QuorumController: only the active controller answers")
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
