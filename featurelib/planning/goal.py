"""What a person can ask for, as wanted levels: all up, all down, a release version, levels by name.

Each function is one command of the KIPs, and gives a goal: see moves.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from featurelib.audit.side_effects import say_more
from featurelib.catalogue import Catalogue, ReleaseCatalogue
from featurelib.core.cluster import Cluster
from featurelib.core.dialect import load
from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION, UpgradeType, release_line

# ----------------------------------------
# A goal: what moves under which upgrade type, what stays and why, and every fault of the asking.
#
# Nothing stops at the first fault. Whether nodes and controller agree is for the plan to find out.


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


# ----------------------------------------

_NO_CATALOGUE = "zk-2.7"  # the generation whose software knows no feature of its own


def upgrade_all(cluster: Cluster, catalogue: Catalogue, by_name: Collection[str] = ()) -> Goal:
    """Every feature to its ceiling (KIP-584, Basic CLI tool usage; KIP-1022, no arguments).

    The ceiling is the production default at the newest metadata.version any node supports; for a
    feature no release knows, the highest level any node supports. Nothing is lowered. What is
    supported beyond the default, what nothing takes back, and what changes more than its level
    moves only when `by_name` names it.
    """
    asking = Asking(cluster=cluster, catalogue=catalogue, direction=Direction.UP)
    newest = _newest_stable(cluster, catalogue)
    for name in asking.features:
        seen = max((n.supported[name][1] for n in cluster.nodes if name in n.supported), default=0)
        ceiling = available = seen
        if name == METADATA_VERSION:
            ceiling = available = newest
        elif name in catalogue.features:
            current = np.array([level_of(cluster, name)])
            ceiling = int(catalogue.ceiling(name, np.array([newest]), current)[0])
            known = {v.level for v in catalogue.levels if v.feature == name}
            available = max(known & _stable_levels(cluster, catalogue, name, seen), default=0)
        _ask_up(asking, name, available if name in by_name else ceiling, available)
    for name in sorted(set(by_name) - set(asking.features)):
        asking.fault("unknown_feature", name, 0, f"No node knows a feature {name}.")
    return asking.goal()


def _ask_up(asking: Asking, name: str, ceiling: int, available: int) -> None:
    current = level_of(asking.cluster, name)
    if current < ceiling:
        asking.want(name, ceiling)
    elif current < available:
        code = _only_by_name(asking, name, available) or "beyond_default"
        but = {
            "irreversible": "never back",
            "side_effect": say_more(asking.catalogue, name, available),
            "beyond_default": "that is no default",
        }[code]
        text = f"{name} could go up to {asking.name(name, available)}, but {but}"
        asking.stay(code, name, available, f"{text}: ask for it by name.")
    else:
        text = f"{name} is at {asking.name(name, current)}; its ceiling is no higher."
        asking.stay("at_ceiling", name, ceiling, text)


def _only_by_name(asking: Asking, name: str, level: int) -> str:
    """Why the way up to `level` is gone only when it is asked for by name; "" if it is not so."""
    current, catalogue = level_of(asking.cluster, name), asking.catalogue
    on_the_way = [n for n in catalogue.only_by_name(name) if current < n <= level]
    if any(n in catalogue.irreversible(name) for n in on_the_way):
        return "irreversible"
    return "side_effect" if on_the_way else ""


def _stable_levels(cluster: Cluster, catalogue: Catalogue, name: str, seen: int) -> frozenset[int]:
    """The levels up to `seen` that are for production in some release at work there."""
    own = {catalogue.release_named(text) for text in _releases(cluster)} - {None}
    told = [catalogue.of(release) for release in own if release is not None]
    levels = {n for software in told for n in software.known_levels(name, unstable=False)}
    return frozenset(n for n in (levels if told else range(seen + 1)) if n <= seen)


def _releases(cluster: Cluster) -> set[str]:
    return {cluster.release, *(node.release for node in cluster.nodes)}


def _newest_stable(cluster: Cluster, catalogue: Catalogue) -> int:
    """The newest stable metadata.version any node supports; 0 where none lists it."""
    table = catalogue.stable_up_to()
    newest = 0
    for node in cluster.nodes:
        seen = node.supported.get(METADATA_VERSION, (0, 0))[1]
        stable = int(table[min(seen, len(table) - 1)])
        if release := catalogue.release_named(node.release):
            stable = min(stable, catalogue.of(release).newest_stable)
        newest = max(newest, stable)
    return newest


def downgrade_all(cluster: Cluster, release: str, catalogue: Catalogue) -> Goal:
    """Every finalized feature down to the highest level `release` has for production.

    What the release does not know is taken away; nothing is raised (KIP-584, emergency downgrade:
    the tool of the release to go back to is used). A tool of 2.7 to 3.2 knows no feature at all and
    would take everything away: an empty catalogue is refused, whoever wants that names them.
    """
    asking = Asking(cluster=cluster, catalogue=catalogue, direction=Direction.DOWN)
    named = catalogue.release_named(release)
    early = load(_NO_CATALOGUE).releases
    if named is None and release_line(release) in early:
        gone = ", ".join(sorted(cluster.finalized)) or "nothing is finalized"
        text = (
            f"Software of {release} knows no feature, so all would be deleted: {gone}. "
            "Name those that shall go: update --delete FEATURE."
        )
        asking.fault("empty_catalogue", "", 0, text)
    elif named is None:
        asking.fault("unknown_release", "", 0, f"The catalogue has no release {release}.")
    if named is None:
        return asking.goal()
    highest = _highest(catalogue.of(named))
    for name in sorted(cluster.finalized):
        level = highest.get(name, 0)
        if level_of(cluster, name) <= level:
            text = f"{release} knows {name} up to {asking.name(name, level)}: nothing is raised."
            asking.stay("no_higher", name, level, text)
        elif not _kept(asking, name, level):
            asking.want(name, level)
    return asking.goal()


def _highest(software: ReleaseCatalogue) -> dict[str, int]:
    """Each feature's highest production level in one release."""
    names = (METADATA_VERSION, *software.features)
    return {n: max(software.known_levels(n, unstable=False), default=0) for n in names}


def _kept(asking: Asking, name: str, level: int) -> bool:
    """Whether a level between cannot be taken back, so that the feature stays; it is said why."""
    current = level_of(asking.cluster, name)
    if not any(level < never <= current for never in asking.catalogue.irreversible(name)):
        return False
    here, there = asking.name(name, current), asking.name(name, level)
    asking.stay("irreversible", name, level, f"{name} never goes back from {here} to {there}.")
    return True


def release_version(
    cluster: Cluster,
    text: str | None,
    direction: Direction,
    catalogue: Catalogue,
    software: ReleaseCatalogue | None = None,
    *,
    unsafe: bool = False,
) -> Goal:
    """Every feature to the level that `software` maps a release version to (KIP-1022).

    `software` is the release whose tool maps, by default the active controller's; without `text`
    its newest production level. Whatever would go against `direction` is a fault, each by name.
    Levels that nobody takes back or that change more than themselves stay, although Kafka's own
    tool sends them (kraft.version 1; eligible.leader.replicas.version 1).
    """
    asking = Asking(cluster=cluster, catalogue=catalogue, direction=direction, unsafe=unsafe)
    software = software or software_of(cluster, catalogue)
    if software is None:
        release = cluster.release or "unknown"
        asking.fault("unknown_release", "", 0, f"The catalogue has no release {release}.")
        return asking.goal()
    version = software.newest_stable if text is None else software.level_of(text)
    if version is None:
        known = ", ".join(software.names.values())
        asking.fault(
            "unknown_level", METADATA_VERSION, 0,
            f"{software.release} knows no release version {text}. It knows {known}.",
        )  # fmt: skip
        return asking.goal()
    for name, level in software.defaults(version).items():
        if not _checked(asking, software, name, level) or _kept(asking, name, level):
            continue
        if code := _only_by_name(asking, name, level):
            there = f"{name} {asking.name(name, level)}"
            told = f"{there} is never taken back, so it moves only when asked for by name."
            if code == "side_effect":
                more = say_more(catalogue, name, level)
                told = f"{there} moves only when asked for by name: {more}."
            if direction is Direction.DOWN:
                told = f"{name} is {_at(asking, name)}, and a downgrade raises nothing."
            asking.stay(code, name, level, told)
        else:
            asking.want(name, level)
    return asking.goal()


def _at(asking: Asking, name: str) -> str:
    current = level_of(asking.cluster, name)
    return f"at {asking.name(name, current)}" if current else "not finalized"


def explicit(
    cluster: Cluster,
    levels: Mapping[str, int],
    direction: Direction,
    catalogue: Catalogue,
    *,
    unsafe: bool = False,
) -> Goal:
    """These levels by name (`--feature NAME=LEVEL`; 0 takes the level away: disable, --delete)."""
    asking = Asking(cluster=cluster, catalogue=catalogue, direction=direction, unsafe=unsafe)
    software = software_of(cluster, catalogue)
    known = set(asking.features) | set(software.features if software else ())
    for name, level in sorted(levels.items()):
        if name not in known | {METADATA_VERSION}:
            text = f"Nobody knows a feature {name}: no node, and not the controller's release."
            asking.fault("unknown_feature", name, level, text)
        elif level < 0:
            asking.fault("negative_level", name, level, f"{name} has no level {level}.")
        elif _checked(asking, software, name, level):
            _want_by_name(asking, name, level)
    return asking.goal()


def _want_by_name(asking: Asking, name: str, level: int) -> None:
    """As `want`, but what cannot go back is a fault of who asks for it by name."""
    if asking.direction is Direction.UP or not _kept(asking, name, level):
        asking.want(name, level)
    else:
        stay = asking.stays.pop()
        asking.fault(stay.code, name, level, stay.text)


def _checked(asking: Asking, software: ReleaseCatalogue | None, name: str, level: int) -> bool:
    """Whether the controller's release has that level for production; the fault is said if not."""
    if software is None or name not in (METADATA_VERSION, *software.features):
        return True
    if not software.knows(name, level):
        text = f"{software.release} knows no level {asking.name(name, level)} of {name}."
        asking.fault("unknown_level", name, level, text)
    elif not software.knows(name, level, unstable=False):
        text = f"{name} {asking.name(name, level)} is not stable in {software.release}."
        asking.fault("unstable_level", name, level, text)
    else:
        return True
    return False


# ----------------------------------------
# What a person asks of a cluster, as a value: a command, its canonical text, its goal.
#
# A value that contradicts itself cannot be made. Levels stay as they were written until a
# cluster's
# own release says what they mean.


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
