"""What a person asks of a cluster, as a value (Intent), and what that comes to there (Goal).

An intent is a command of the KIPs with its levels as they were written; one that contradicts itself
cannot be made. On a cluster, whose own release says what a level's name means, it becomes a goal:
what moves under which upgrade type, what stays and why, and every fault of what was asked. Nothing
stops at the first fault. Whether nodes and controllers agree is for the plan to find out.
upgrade-all has no goal of its own: it does what the audit calls READY.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from featurelib.audit.side_effects import say_more
from featurelib.catalogue import Catalogue, ReleaseCatalogue
from featurelib.core.cluster import Cluster
from featurelib.core.dialect import load
from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION, UpgradeType, release_line
from featurelib.model import Move, Reason

GOAL = "goal"  # who refuses what was asked wrongly
_NO_CATALOGUE = "zk-2.7"  # the generation whose software knows no feature of its own


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
            for option, levels in (("--upgrade", self.up), ("--downgrade", self.down)):
                words += [w for n, to in sorted(levels.items()) for w in (option, f"{n}:{to}")]
            words += [w for name in sorted(self.delete) for w in ("--delete", name)]
        else:
            named = sorted([*self.up.items(), *self.down.items()])
            words += [w for name, level in named for w in ("--feature", f"{name}={level}")]
            words += [w for name in sorted(self.delete) for w in ("--feature", name)]
        words += ["--unsafe"] if self.unsafe else []
        words += ["--stepwise"] if self.stepwise else []
        return " ".join(words)

    def _faults(self) -> Iterator[str]:
        named, command = [*self.up, *self.down, *self.delete], self.command
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
        if any(not name.strip() for name in named):
            yield "expected a feature's name, found an empty one."
        if twice := sorted({name for name in named if named.count(name) > 1}):
            yield f"expected {twice[0]} once, found it twice. Keep one of them."


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

    moves: tuple[Move, ...] = ()
    faults: tuple[Reason, ...] = ()
    stays: tuple[Stay, ...] = ()

    @property
    def levels(self) -> dict[str, int]:
        """The wanted level of each feature that moves."""
        return {move.feature: move.to_level for move in self.moves}


def goal_of(intent: Intent, cluster: Cluster, catalogue: Catalogue) -> Goal:
    """The wanted levels and every fault of what was asked, on one cluster; nothing is judged."""
    making = _Making(cluster, catalogue, unsafe=intent.unsafe)
    is_named = intent.up or intent.down or intent.delete
    if intent.command is Command.DOWNGRADE_ALL:
        making.downgrade_all(intent.release_version or "")
    elif intent.command in (Command.UPGRADE, Command.DOWNGRADE) and not is_named:
        making.release_version(intent.release_version, up=intent.command is Command.UPGRADE)
    for texts, up in (
        (intent.up, True),
        (intent.down, False),
        (dict.fromkeys(intent.delete, "0"), False),
    ):
        for name, text in texts.items():
            making.by_name(name, text, up=up)
    return making.goal()


class _Making:
    """A goal under way: what is said about each feature is collected here."""

    def __init__(self, cluster: Cluster, catalogue: Catalogue, *, unsafe: bool) -> None:
        self._cluster, self._catalogue, self._unsafe = cluster, catalogue, unsafe
        self._software = software_of(cluster, catalogue)
        self._moves, self._faults, self._stays = list[Move](), list[Reason](), list[Stay]()

    def goal(self) -> Goal:
        return Goal(
            moves=tuple(sorted(self._moves, key=lambda move: move.feature)),
            faults=tuple(sorted(self._faults, key=lambda fault: fault.feature)),
            stays=tuple(sorted(self._stays, key=lambda stay: stay.feature)),
        )

    def downgrade_all(self, release: str) -> None:
        """Every finalized feature down to the highest level `release` has for production.

        What the release does not know is taken away; nothing is raised (KIP-584, emergency
        downgrade: the tool of the release to go back to is used). A tool of 2.7 to 3.2 knows no
        feature at all and would take everything away: that is refused, whoever wants it names them.
        """
        named = self._catalogue.release_named(release)
        if named is None:
            gone = ", ".join(sorted(self._cluster.finalized)) or "nothing is finalized"
            if release_line(release) in load(_NO_CATALOGUE).releases:
                text = (
                    f"Software of {release} knows no feature, so all would be deleted: {gone}. "
                    "Name those that shall go: update --delete FEATURE."
                )
                self._fault("empty_catalogue", "", 0, text)
            else:
                self._fault("unknown_release", "", 0, f"The catalogue has no release {release}.")
            return
        software = self._catalogue.of(named)
        known = (METADATA_VERSION, *software.features)
        for name in sorted(self._cluster.finalized):
            levels = software.known_levels(name, unstable=False) if name in known else ()
            level = max(levels, default=0)
            if self._level(name) <= level:
                there = self._name(name, level)
                text = f"{release} knows {name} up to {there}: nothing is raised."
                self._stay("no_higher", name, level, text)
            elif text := self._kept(name, level):
                self._stay("irreversible", name, level, text)
            else:
                self._want(name, level, up=False)

    def release_version(self, text: str | None, *, up: bool) -> None:
        """Every feature to the level that the active controller's release maps a release version
        to (KIP-1022); without `text` its newest production level.

        Whatever would go the other way is a fault, each by name. Levels that nobody takes back or
        that change more than themselves stay, although Kafka's own tool sends them (kraft.version
        1; eligible.leader.replicas.version 1).
        """
        software = self._software
        if software is None:
            release = self._cluster.release or "unknown"
            self._fault("unknown_release", "", 0, f"The catalogue has no release {release}.")
            return
        version = software.newest_stable if text is None else software.level_of(text)
        if version is None:
            known = ", ".join(software.names.values())
            why = f"{software.release} knows no release version {text}. It knows {known}."
            self._fault("unknown_level", METADATA_VERSION, 0, why)
            return
        for name, level in software.defaults(version).items():
            if not self._is_known(name, level):
                continue
            if why := self._kept(name, level):
                self._stay("irreversible", name, level, why)
            elif code := only_by_name(self._catalogue, name, self._level(name), level):
                self._stay(code, name, level, self._only_by_name(code, name, level, up=up))
            else:
                self._want(name, level, up=up)

    def _only_by_name(self, code: str, name: str, level: int, *, up: bool) -> str:
        there = f"{name} {self._name(name, level)}"
        if not up:
            current = self._level(name)
            here = f"at {self._name(name, current)}" if current else "not finalized"
            return f"{name} is {here}, and a downgrade raises nothing."
        if code == "side_effect":
            more = say_more(self._catalogue, name, level)
            return f"{there} moves only when asked for by name: {more}."
        return f"{there} is never taken back, so it moves only when asked for by name."

    def by_name(self, name: str, text: str, *, up: bool) -> None:
        """One level by name (`--feature NAME=LEVEL`; 0 takes it away: disable, --delete)."""
        cluster, software = self._cluster, self._software
        level = read_level(name, text, cluster, self._catalogue)
        listed = {feature for node in cluster.nodes for feature in node.supported}
        known = listed | cluster.finalized.keys() | set(software.features if software else ())
        if level is None:
            why = f"{name} has no level {text!r}: expected a number"
            if name == METADATA_VERSION:
                names = (software.names if software else self._catalogue.names).values()
                why += f", a release, or one of {', '.join(names)}"
            self._fault("unknown_level", name, 0, f"{why}.")
        elif name not in known | {METADATA_VERSION}:
            why = f"Nobody knows a feature {name}: no node, and not the controller's release."
            self._fault("unknown_feature", name, level, why)
        elif self._is_known(name, level):
            if not up and (why := self._kept(name, level)):
                self._fault("irreversible", name, level, why)
            else:
                self._want(name, level, up=up)

    def _is_known(self, name: str, level: int) -> bool:
        """Whether the controller's release has that level for production; it is a fault if not."""
        software = self._software
        if software is None or name not in (METADATA_VERSION, *software.features):
            return True
        there = self._name(name, level)
        if not software.knows(name, level):
            text = f"{software.release} knows no level {there} of {name}."
            self._fault("unknown_level", name, level, text)
        elif not software.knows(name, level, unstable=False):
            text = f"{name} {there} is not stable in {software.release}."
            self._fault("unstable_level", name, level, text)
        else:
            return True
        return False

    def _kept(self, name: str, level: int) -> str:
        """Why the feature stays, where a level between cannot be taken back; "" if it can."""
        current = self._level(name)
        if not any(level < never <= current for never in self._catalogue.irreversible(name)):
            return ""
        return (
            f"{name} never goes back from {self._name(name, current)} to {self._name(name, level)}."
        )

    def _want(self, name: str, level: int, *, up: bool) -> None:
        """Move the feature, or say why the command does not do that."""
        current = self._level(name)
        here, there = self._name(name, current), self._name(name, level)
        if level == current:
            text = f"{name} is at {here} already."
            self._stay(
                "at_level", name, level, text if level else f"{name} is not finalized, as asked."
            )
        elif (level > current) != up:
            way, noun = ("down", "upgrade") if up else ("up", "downgrade")
            text = f"{name} is at {here} and would go {way} to {there}: that is no {noun}."
            self._fault("wrong_direction", name, level, text)
        else:
            down = UpgradeType.UNSAFE_DOWNGRADE if self._unsafe else UpgradeType.SAFE_DOWNGRADE
            kind = UpgradeType.UPGRADE if up else down
            move = Move(feature=name, from_level=current, to_level=level, upgrade_type=kind.name)
            self._moves.append(move)

    def _fault(self, code: str, feature: str, level: int, text: str) -> None:
        reason = Reason(judge=GOAL, code=code, feature=feature, level=level, message=text)
        self._faults.append(reason)

    def _stay(self, code: str, feature: str, level: int, text: str) -> None:
        current = self._level(feature)
        self._stays.append(
            Stay(code=code, feature=feature, current=current, level=level, text=text)
        )

    def _level(self, feature: str) -> int:
        return level_of(self._cluster, feature)

    def _name(self, feature: str, level: int) -> str:
        return self._catalogue.level_name(feature, level)


def stay_at_ceiling(cluster: Cluster, catalogue: Catalogue, name: str, ceiling: int) -> Stay:
    """Why upgrade-all leaves a feature that is at its ceiling where it is: nothing is above it, or
    what is there for production is no default, never goes back, or changes more than its level."""
    current, available = level_of(cluster, name), ceiling
    if name != METADATA_VERSION and name in catalogue.features:
        seen = max((n.supported[name][1] for n in cluster.nodes if name in n.supported), default=0)
        texts = {cluster.release, *(node.release for node in cluster.nodes)}
        named = {release for text in texts if (release := catalogue.release_named(text))}
        own = [catalogue.of(release).known_levels(name, unstable=False) for release in named]
        known = {v.level for v in catalogue.levels if v.feature == name}
        stable = known & {n for levels in own for n in levels} if named else known
        available = max((n for n in stable if n <= seen), default=0)
    if current >= available:
        text = f"{name} is at {catalogue.level_name(name, current)}; its ceiling is no higher."
        return Stay(code="at_ceiling", feature=name, current=current, level=ceiling, text=text)
    code = only_by_name(catalogue, name, current, available) or "beyond_default"
    but = {
        "irreversible": "never back",
        "side_effect": say_more(catalogue, name, available),
        "beyond_default": "that is no default",
    }[code]
    there = catalogue.level_name(name, available)
    text = f"{name} could go up to {there}, but {but}: ask for it by name."
    return Stay(code=code, feature=name, current=current, level=available, text=text)


def only_by_name(catalogue: Catalogue, name: str, current: int, level: int) -> str:
    """Why the way up to `level` is gone only when it is asked for by name; "" if it is not so."""
    on_the_way = [n for n in catalogue.only_by_name(name) if current < n <= level]
    if any(n in catalogue.irreversible(name) for n in on_the_way):
        return "irreversible"
    return "side_effect" if on_the_way else ""


def level_of(cluster: Cluster, feature: str) -> int:
    """The finalized level of `feature`; 0 where none is."""
    return cluster.finalized.get(feature, (0, 0))[1]


def software_of(cluster: Cluster, catalogue: Catalogue) -> ReleaseCatalogue | None:
    """What the active controller's own release knows; None for one the catalogue has not."""
    release = catalogue.release_named(cluster.release)
    return None if release is None else catalogue.of(release)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A metadata.version and what it brought."""

    level: int
    name: str
    purpose: str


def losses(catalogue: Catalogue, release: str, move: Move) -> tuple[Note, ...]:
    """What going down in metadata.version may lose, newest first, by the controller's release
    (KIP-778, Downgrades; MetadataVersion.checkIfMetadataChanged)."""
    if move.feature != METADATA_VERSION:
        return ()
    own = catalogue.release_named(release)
    lossy = (catalogue if own is None else catalogue.of(own)).loses_metadata_below
    return tuple(
        Note(level=row.level, name=row.name, purpose=row.purpose)
        for row in sorted(catalogue.rows.metadata_version, key=lambda row: -row.level)
        if row.level in lossy and move.to_level < row.level <= move.from_level
    )
