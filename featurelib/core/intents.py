"""What a person asks of a cluster, as a value: a command, its canonical text, its goal.

A value that contradicts itself cannot be made. Levels stay as they were written until a cluster's
own release says what they mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from featurelib.catalogue import Catalogue
from featurelib.core.cluster import Cluster
from featurelib.core.goals import downgrade_all, explicit, release_version, upgrade_all
from featurelib.core.moves import Direction, Fault, Goal, level_of, software_of
from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION


class Command(StrEnum):
    """The commands of KIP-584 (…-all, update), KIP-778 and KIP-1022."""

    UPGRADE_ALL = "upgrade-all"
    DOWNGRADE_ALL = "downgrade-all"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLE = "disable"
    UPDATE = "update"


_LOWERS = (Command.DOWNGRADE, Command.DISABLE, Command.UPDATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What is asked for. Levels are numbers or names, as text; `delete` are levels of 0.

    Raises ConfigError for what no command takes.
    """

    command: Command
    release_version: str | None = None
    up: Mapping[str, str] = field(default_factory=dict)
    down: Mapping[str, str] = field(default_factory=dict)
    delete: tuple[str, ...] = ()
    unsafe: bool = False  # UNSAFE_DOWNGRADE: what is lost is lost
    stepwise: bool = False  # metadata.version one level at a time

    def __post_init__(self) -> None:
        if fault := next(self._faults(), None):
            raise ConfigError(f"{self.command}: {fault}")

    @property
    def text(self) -> str:
        """The command as it is written into a plan; equal for equal intents."""
        words = [str(self.command)]
        if self.release_version is not None:
            words += ["--release-version", self.release_version]
        if self.command is Command.UPDATE:
            words += [w for n, to in sorted(self.up.items()) for w in ("--upgrade", f"{n}:{to}")]
            words += [
                w for n, to in sorted(self.down.items()) for w in ("--downgrade", f"{n}:{to}")
            ]
            words += [w for name in sorted(self.delete) for w in ("--delete", name)]
        else:
            named = sorted([*self.up.items(), *self.down.items()])
            words += [w for name, level in named for w in ("--feature", f"{name}={level}")]
            words += [w for name in sorted(self.delete) for w in ("--feature", name)]
        words += ["--unsafe"] if self.unsafe else []
        words += ["--stepwise"] if self.stepwise else []
        return " ".join(words)

    @property
    def _named(self) -> list[str]:
        return [*self.up, *self.down, *self.delete]

    def _faults(self) -> Iterator[str]:
        named, command = self._named, self.command
        if self.release_version is not None and named:
            yield "expected --release-version or features by name, found both. Leave one out."
        if command is Command.DOWNGRADE_ALL and self.release_version is None:
            yield "expected --release-version RELEASE, the software to go back to, found none."
        if command is Command.DOWNGRADE and self.release_version is None and not named:
            yield "expected --release-version, --metadata or --feature, found none of them."
        if command in (Command.DISABLE, Command.UPDATE) and not named:
            yield "expected a feature, found none."
        if self.unsafe and command not in _LOWERS:
            yield "--unsafe is for what goes down. Leave it out."
        if "" in named or any(not name.strip() for name in named):
            yield "expected a feature's name, found an empty one."
        if twice := sorted({name for name in named if named.count(name) > 1}):
            yield f"expected {twice[0]} once, found it twice. Keep one of them."


def goal_of(intent: Intent, cluster: Cluster, catalogue: Catalogue) -> Goal:
    """The wanted levels and every fault of the asking, on one cluster; nothing is judged."""
    if intent.command is Command.UPGRADE_ALL:
        return upgrade_all(cluster, catalogue)
    if intent.command is Command.DOWNGRADE_ALL:
        return downgrade_all(cluster, intent.release_version or "", catalogue)
    up = intent.command is Command.UPGRADE
    if intent.command in (Command.UPGRADE, Command.DOWNGRADE) and not (intent.up or intent.down):
        way = Direction.UP if up else Direction.DOWN
        return release_version(
            cluster, intent.release_version, way, catalogue, unsafe=intent.unsafe
        )
    gone = dict.fromkeys(intent.delete, "0")
    goals = [
        _by_name(intent.up, Direction.UP, cluster, catalogue, unsafe=False),
        _by_name(intent.down, Direction.DOWN, cluster, catalogue, unsafe=intent.unsafe),
        _by_name(gone, Direction.DOWN, cluster, catalogue, unsafe=intent.unsafe),
    ]
    ways = {Command.UPGRADE: Direction.UP, Command.UPDATE: Direction.EITHER}
    return Goal(
        direction=ways.get(intent.command, Direction.DOWN),
        moves=tuple(sorted((m for g in goals for m in g.moves), key=lambda move: move.feature)),
        faults=tuple(sorted((f for g in goals for f in g.faults), key=lambda f: f.feature)),
        stays=tuple(sorted((s for g in goals for s in g.stays), key=lambda stay: stay.feature)),
        warnings=tuple(warning for goal in goals for warning in goal.warnings),
    )


def _by_name(
    texts: Mapping[str, str],
    direction: Direction,
    cluster: Cluster,
    catalogue: Catalogue,
    *,
    unsafe: bool,
) -> Goal:
    levels, faults = dict[str, int](), list[Fault]()
    for name, text in texts.items():
        if (level := read_level(name, text, cluster, catalogue)) is not None:
            levels[name] = level
            continue
        said = f"{name} has no level {text!r}: expected a number"
        if name == METADATA_VERSION:
            software = software_of(cluster, catalogue)
            names = (software.names if software else catalogue.names).values()
            said += f", a release, or one of {', '.join(names)}"
        current = level_of(cluster, name)
        faults.append(
            Fault(code="unknown_level", feature=name, current=current, level=0, text=f"{said}.")
        )
    goal = explicit(cluster, levels, direction, catalogue, unsafe=unsafe)
    return replace(goal, faults=(*goal.faults, *faults))


def read_level(name: str, text: str, cluster: Cluster, catalogue: Catalogue) -> int | None:
    """The level a text means: a number or, for metadata.version, a name or release as the active
    controller's software knows it (3.3-IV3, 3.9); None where it means none."""
    if text.isascii() and text.isdigit():
        return int(text)
    if name != METADATA_VERSION:
        return None
    software = software_of(cluster, catalogue)
    if software is not None and (level := software.level_of(text)) is not None:
        return level
    return next((number for number, known in catalogue.names.items() if known == text), None)
