"""A goal: what moves under which upgrade type, what stays and why, and every fault of the asking.

Nothing stops at the first fault. Whether nodes and controller agree is for the plan to find out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from featurelib.catalogue import Catalogue, ReleaseCatalogue
from featurelib.core.cluster import Cluster
from featurelib.feature import METADATA_VERSION, UpgradeType


class Direction(StrEnum):
    """The command a person used; each of the two words refuses what goes the other way."""

    UP = "upgrade"
    DOWN = "downgrade"
    EITHER = "update"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A metadata.version that is left downwards, and what it brought that may be lost."""

    level: int
    name: str
    purpose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One feature from the level it is at (0: not finalized) to the wanted one."""

    feature: str
    current: int
    level: int
    kind: UpgradeType
    losses: tuple[Loss, ...] = ()
    irreversible: bool = False  # nothing takes this back


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong with what was asked."""

    code: str
    feature: str
    current: int
    level: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A feature that is not moved, the level it could have had, and why it stays."""

    code: str
    feature: str
    current: int
    level: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What was asked for: with a fault it is not to be planned. Everything by feature name."""

    direction: Direction
    moves: tuple[Move, ...] = ()
    faults: tuple[Fault, ...] = ()
    stays: tuple[Stay, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def levels(self) -> dict[str, int]:
        """The wanted level of each feature that moves."""
        return {move.feature: move.level for move in self.moves}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """One question under way: what is said about each feature is collected here."""

    cluster: Cluster
    catalogue: Catalogue
    direction: Direction
    unsafe: bool = False
    moves: list[Move] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    stays: list[Stay] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def features(self) -> list[str]:
        """Every feature that is finalized or that a node lists."""
        listed = {name for node in self.cluster.nodes for name in node.supported}
        return sorted(listed | set(self.cluster.finalized))

    def goal(self) -> Goal:
        return Goal(
            direction=self.direction,
            moves=tuple(sorted(self.moves, key=lambda move: move.feature)),
            faults=tuple(sorted(self.faults, key=lambda fault: fault.feature)),
            stays=tuple(sorted(self.stays, key=lambda stay: stay.feature)),
            warnings=tuple(self.warnings),
        )

    def name(self, feature: str, level: int) -> str:
        return self.catalogue.level_name(feature, level)

    def fault(self, code: str, feature: str, level: int, text: str) -> None:
        current = level_of(self.cluster, feature)
        self.faults.append(
            Fault(code=code, feature=feature, current=current, level=level, text=text)
        )

    def stay(self, code: str, feature: str, level: int, text: str) -> None:
        current = level_of(self.cluster, feature)
        self.stays.append(Stay(code=code, feature=feature, current=current, level=level, text=text))

    def want(self, feature: str, level: int) -> None:
        """Move the feature, or say why the command does not do that."""
        current = level_of(self.cluster, feature)
        here, there = self.name(feature, current), self.name(feature, level)
        if level == current:
            text = f"{feature} is at {here} already."
            if level == 0:
                text = f"{feature} is not finalized, as asked."
            self.stay("at_level", feature, level, text)
        elif level > current and self.direction is Direction.DOWN:
            text = f"{feature} is at {here} and would go up to {there}: that is no downgrade."
            self.fault("wrong_direction", feature, level, text)
        elif level < current and self.direction is Direction.UP:
            text = f"{feature} is at {here} and would go down to {there}: that is no upgrade."
            self.fault("wrong_direction", feature, level, text)
        else:
            self.moves.append(self._move(feature, current, level))

    def _move(self, feature: str, current: int, level: int) -> Move:
        down = UpgradeType.UNSAFE_DOWNGRADE if self.unsafe else UpgradeType.SAFE_DOWNGRADE
        return Move(
            feature=feature,
            current=current,
            level=level,
            kind=UpgradeType.UPGRADE if level > current else down,
            losses=losses(self.catalogue, self.cluster.release, current, level)
            if feature == METADATA_VERSION
            else (),
            irreversible=level > current and level in self.catalogue.irreversible(feature),
        )


def level_of(cluster: Cluster, feature: str) -> int:
    """The finalized level of `feature`; 0 where none is."""
    return cluster.finalized.get(feature, (0, 0))[1]


def software_of(cluster: Cluster, catalogue: Catalogue) -> ReleaseCatalogue | None:
    """What the active controller's own release knows; None for one the catalogue has not."""
    release = catalogue.release_named(cluster.release)
    return None if release is None else catalogue.of(release)


def losses(catalogue: Catalogue, release: str, current: int, level: int) -> tuple[Loss, ...]:
    """What going down from `current` to `level` may lose, newest first, by the controller's
    release (KIP-778, Downgrades; MetadataVersion.checkIfMetadataChanged)."""
    own = catalogue.release_named(release)
    lossy = (
        catalogue.loses_metadata_below if own is None else catalogue.of(own).loses_metadata_below
    )
    return tuple(
        Loss(level=row.level, name=row.name, purpose=row.purpose)
        for row in sorted(catalogue.rows.metadata_version, key=lambda row: -row.level)
        if row.level in lossy and level < row.level <= current
    )
