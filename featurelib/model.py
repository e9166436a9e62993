"""A plan and its requests as plain values: what is sent, to whom, and what must hold when it is.

Steps say what to send; requirements say in which world. The same values are in a plan's file, in
requests, in outcomes and in the journal: their field names are keys of the files on disk.
"""

from __future__ import annotations

from dataclasses import dataclass

from featurelib.feature import UpgradeType
from featurelib.findings import Advice


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One feature from one finalized level to another (0 = not finalized), in one request.

    `upgrade_type` is the name of a featurelib.feature.UpgradeType. A `to_level` of 0 takes the
    feature out of what is finalized (KIP-584, deletion).
    """

    feature: str
    from_level: int
    to_level: int
    upgrade_type: str

    @property
    def is_upgrade(self) -> bool:
        """True if the level rises."""
        return self.upgrade_type == UpgradeType.UPGRADE.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One UpdateFeatures request; `timeout_ms` is above 0."""

    updates: tuple[Move, ...]
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeGroup:
    """The nodes with the same ranges of the plan's features: feature → (min, max)."""

    brokers: tuple[int, ...]
    controllers: tuple[int, ...]
    ranges: dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """The state that must be the same before anything is sent.

    `levels` are all finalized levels; a features node's version is required in ZooKeeper mode only,
    because a KRaft broker's epoch moves twice a second on an idle cluster.
    """

    levels: dict[str, int]
    nodes: tuple[RangeGroup, ...]
    features_node_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueChange:
    """The value that some brokers share, and the one that they will have; None = not known."""

    brokers: tuple[int, ...]
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideEffect:
    """The change that a plan makes besides its levels, as its approver has to see it.

    `key` is the configuration, "" = none that has a name; `what` happens, what cannot be done
    `afterwards`, and whether going back restores what was, are the catalogue's.
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
    """The conditions for applying a plan, as decided where the plan was made.

    `managed_by` is who else finalizes features of this cluster, "" = nobody; `managed_features` are
    those features, None = all of them.
    """

    require_signature: bool
    managed_by: str = ""
    managed_features: tuple[str, ...] | None = ()

    def manages(self, feature: str) -> bool:
        """Return true if somebody else finalizes this feature."""
        return self.managed_features is None or feature in self.managed_features


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything of a plan that its digest covers: the part `meaning` of its file.

    `dialect` is the policy it was judged by, `own_dialects` those the cluster's controllers may
    speak; `catalogue` is the label of the catalogue, its overlay included. `guards` None = made by
    a release that wrote none: then the settings of whoever applies it are all there is.
    `side_effects` are in the order of the steps.
    """

    cluster: str
    intent: str
    dialect: str
    own_dialects: tuple[str, ...]
    catalogue: str
    steps: tuple[Step, ...]
    requirements: Requirements
    guards: Guards | None = None
    side_effects: tuple[SideEffect, ...] = ()

    @property
    def moves(self) -> tuple[Move, ...]:
        """The moves of all steps, in the order they are sent."""
        return tuple(move for step in self.steps for move in step.updates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason(Advice):
    """One reason against a feature's level; an empty feature is the whole cluster.

    `judge` is goal (what was asked), evidence, strict (the policy), probe (the controller itself)
    or the name of a dialect.
    """

    judge: str
    code: str
    feature: str = ""
    level: int | None = None
    node: str = ""  # as `broker 3`
    supported: tuple[int, int] | None = None  # None: not listed, or no node's reason
    # Of a dialect: the controller would say just this. It says only the first of its reasons, to
    # the others it comes once that is fixed.
    is_answer: bool = False
    # Why and until when conf/audit.toml mutes its finding, where that is asked.
    muted: str | None = None
    muted_until: str | None = None

    @property
    def role(self) -> str | None:
        """Return `broker` or `controller`; None for the whole cluster."""
        return self.node.partition(" ")[0] or None

    @property
    def node_id(self) -> int | None:
        """The node's id; None for the whole cluster."""
        return int(self.node.partition(" ")[2]) if self.node else None


NO_EPOCH = -1  # of a leader: ZooKeeper mode has none, or nobody said it


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """The node that a request was sent to: the active controller, or a broker that forwards it.

    `leader` led the quorum in `leader_epoch` when it was last looked at.
    """

    role: str  # controller, broker
    node: int
    address: str
    leader: int
    leader_epoch: int = NO_EPOCH

    @property
    def title(self) -> str:
        """Return `controller 3`, `broker 1`."""
        return f"{self.role} {self.node}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """Nothing that was sent before can still be carried out, so levels of afterwards count: those
    of a replica that holds the metadata log up to `offset` at least (None: of any look from now
    on). `how` is a sentence without its full stop."""

    how: str
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPassed:
    """A request that was sent may still be carried out: `why`, in words that say what is missing,
    and what helps."""

    why: str
