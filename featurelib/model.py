"""A plan as plain values: what would be sent, what must still hold when it is, who has a say.

Steps say what to send; requirements say in which world. The same values are in a plan's file, in
requests, in outcomes and in the journal: their field names are the keys of both files on disk.
"""

from __future__ import annotations

from dataclasses import dataclass


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One UpdateFeatures request; `timeout_ms` is above 0."""

    updates: tuple[Move, ...]
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes that advertise the same ranges of the plan's features: feature → (min, max)."""

    brokers: tuple[int, ...]
    controllers: tuple[int, ...]
    ranges: dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What must be found again before anything is sent.

    `levels` are all finalized levels; a features node's version is required in ZooKeeper mode
    only, because a KRaft broker's epoch moves twice a second on an idle cluster.
    """

    levels: dict[str, int]
    nodes: tuple[NodeGroup, ...]
    features_node_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueChange:
    """What brokers that have the same value have, and what they will have; None = not known."""

    brokers: tuple[int, ...]
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideEffect:
    """What a plan changes besides its levels, as who approves it has to see it.

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
    """Who has a say in whether a plan is applied, as it was decided where the plan was made.

    `managed_by` is who else finalizes features of this cluster, "" = nobody; `managed_features` are
    those features, None = all of them.
    """

    require_signature: bool
    managed_by: str = ""
    managed_features: tuple[str, ...] | None = ()

    def manages(self, feature: str) -> bool:
        """Whether somebody else finalizes this feature."""
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
        """What all steps together move, in the order it is sent."""
        return tuple(move for step in self.steps for move in step.updates)
