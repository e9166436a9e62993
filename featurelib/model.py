"""A plan and its requests as plain values: the requests, their receiver, and their requirements.

Steps are the requests; requirements are the state of the cluster. The same values are in a plan's
file, in requests, in outcomes and in the journal: their field names are keys of the files on disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeVar

from msgspec import Meta

from featurelib.feature import HIGHEST_INT32, HIGHEST_LEVEL, Level, Name, NodeId, UpgradeType
from featurelib.findings import Advice

_T = TypeVar("_T")
Filled = Annotated[tuple[_T, ...], Meta(min_length=1)]  # checked when a plan is read or applied


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A change of one feature's finalized level in one request; 0 if not finalized.

    `upgrade_type` is the name of a featurelib.feature.UpgradeType. A `to_level` of 0 takes the
    feature out of what is finalized (KIP-584, deletion).
    """

    feature: Name
    from_level: Level
    to_level: Level
    upgrade_type: str

    @property
    def is_upgrade(self) -> bool:
        """True if the level increases."""
        return self.upgrade_type == UpgradeType.UPGRADE.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An UpdateFeatures request. `timeout_ms`: above 0."""

    updates: Filled[Move]
    timeout_ms: Annotated[int, Meta(ge=1, le=HIGHEST_INT32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeGroup:
    """A group of nodes with equal ranges. `ranges`: feature → (min, max)."""

    brokers: tuple[NodeId, ...]
    controllers: tuple[NodeId, ...]
    ranges: dict[Name, tuple[Level, Level]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """The state of the cluster that must be unchanged when `apply` sends a request.

    `levels` are all finalized levels. Only ZooKeeper mode requires the version of `/feature`,
    because in KRaft mode that epoch rises twice a second on an idle cluster.
    """

    levels: dict[Name, Annotated[int, Meta(ge=1, le=HIGHEST_LEVEL)]]
    nodes: Filled[RangeGroup]
    features_node_version: Annotated[int, Meta(ge=0, le=HIGHEST_INT32)] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueChange:
    """The value of a configuration key on some brokers, before and after; None = unknown."""

    brokers: tuple[int, ...]
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideEffect:
    """A change besides the levels of a plan. The approver sees it.

    `key` is the changed configuration, or "". The catalogue gives the other texts: the change
    (`what`), the impossible operations (`afterwards`), and whether a downgrade restores the value.
    """

    feature: str
    level: int
    key: str
    what: str
    afterwards: str
    restored: bool
    values: tuple[ValueChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The conditions for applying a plan, fixed when the plan is made.

    `managed_by` is the other system that finalizes levels, or "". `managed_features` are its
    features; None means all features.
    """

    require_signature: bool
    managed_by: str = ""
    managed_features: tuple[str, ...] | None = ()

    def manages(self, feature: str) -> bool:
        """Return true if the cluster's manager finalizes this feature."""
        return self.managed_features is None or feature in self.managed_features


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The part `meaning` of a plan file, which the digest covers.

    `dialect` is the policy, `own_dialects` are the rule sets of the cluster's possible controllers.
    `catalogue` is the label of the catalogue with its overlay. `guards` is None in plans of earlier
    releases: then `apply` uses only its settings. `side_effects` are in the order of the steps.
    """

    cluster: str
    intent: str
    dialect: str
    own_dialects: tuple[str, ...]
    catalogue: str
    steps: Filled[Step]
    requirements: Requirements
    guards: Guards | None = None
    side_effects: tuple[SideEffect, ...] = ()

    @property
    def moves(self) -> tuple[Move, ...]:
        """The level changes of all steps, in sending order."""
        return tuple(move for step in self.steps for move in step.updates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason(Advice):
    """A reason against a feature's level. An empty `feature` means the whole cluster.

    `judge` is goal (the request itself), evidence, strict (the policy), probe (the controller
    itself) or the name of a dialect.
    """

    judge: str
    code: str
    feature: str = ""
    level: int | None = None
    node: str = ""  # the node's title, such as `broker 3`
    supported: tuple[int, int] | None = None  # None: not listed, or no node
    # True if the controller would return this reason. A controller returns only its first reason.
    is_answer: bool = False
    # The reason and the last day of a mute of the finding.
    muted: str | None = None
    muted_until: str | None = None

    @property
    def role(self) -> str | None:
        """The role of the node: `broker` or `controller`; None = the whole cluster."""
        return self.node.partition(" ")[0] or None

    @property
    def node_id(self) -> int | None:
        """The id of the node; None = the whole cluster."""
        return int(self.node.partition(" ")[2]) if self.node else None


NO_EPOCH = -1  # an unknown epoch, or ZooKeeper mode, where leaders have no epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """The node that received a request: the active controller, or a broker that forwards it.

    `leader` led the quorum in `leader_epoch` at the last query.
    """

    role: str  # the node's role: controller or broker
    node: int
    address: str
    leader: int
    leader_epoch: int = NO_EPOCH

    @property
    def title(self) -> str:
        """The role and the id as text: `controller 3`, `broker 1`."""
        return f"{self.role} {self.node}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """The proof that no earlier request can still be applied.

    With an `offset`, featurelib uses levels of a replica that has the metadata log up to it;
    otherwise levels of any later query. `how`: a sentence without full stop.
    """

    how: str
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPassed:
    """The result that an earlier request may still be applied. `why`: the missing data, and the
    next step."""

    why: str
