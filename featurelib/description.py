"""One cluster described, as values: every node, what each supports, who says what is finalized."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

Ranges = dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShown:
    """One half of a process. `profile` is a position in the description's profiles; None = its
    ranges are not known; `seen_at` is when they were seen. `is_voter` None = no quorum was seen.
    `epoch` is what it says its finalized features are of."""

    role: str
    node_id: int
    state: str
    is_active: bool
    is_voter: bool | None
    is_fenced: bool | None
    is_unregistered_voter: bool
    release: str
    profile: int | None
    is_partial: bool
    epoch: int | None
    error: str
    seen_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelShown:
    """One feature. `level` None = no trustworthy witness; 0 = not finalized."""

    feature: str
    level: int | None
    min_level: int | None
    text: str  # with its name
    is_disputed: bool
    offended: tuple[int, ...]  # profiles of nodes that do not support it


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessShown:
    """One kind of witness of what is finalized, at its highest epoch."""

    witness: str
    epoch: int
    seen_at: datetime
    is_believed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingShown:
    """One finding in words."""

    code: str
    severity: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """One cluster. `controller` None = nothing says who is the active one. `configured_voters`: the
    ids in its own controller.quorum.voters, where they are known and not those who vote."""

    cluster_id: str
    mode: str
    seen_at: datetime
    controller: int | None
    configured_voters: tuple[int, ...] | None
    releases: tuple[str, ...]
    nodes: tuple[NodeShown, ...]
    profiles: tuple[Ranges, ...]
    levels: tuple[LevelShown, ...]
    witnesses: tuple[WitnessShown, ...]
    findings: tuple[FindingShown, ...]

    @property
    def answered(self) -> bool:
        """Whether anything is known but that nodes did not answer."""
        return any(node.profile is not None for node in self.nodes) or bool(self.witnesses)
