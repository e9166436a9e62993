"""Turn a person's request (Intent) into the changes on one cluster (Goal).

An intent is a command of the KIPs with its levels as written; a contradictory intent raises an
error. The cluster's own release defines the names of levels. A goal has the changes with their
upgrade types, the features that stay and the reasons, and every fault of the request. The planner
checks nodes and controllers. upgrade-all has no goal: it plans the READY levels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from featurelib.audit.side_effects import effects_clause
from featurelib.catalogue import Catalogue, ReleaseCatalogue
from featurelib.config import nearest
from featurelib.core.cluster import Cluster
from featurelib.core.dialect import load
from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION, UpgradeType, release_line
from featurelib.model import Move, Reason

GOAL = "goal"  # the judge of a request that is invalid by itself
_NO_CATALOGUE = "zk-2.7"  # a generation whose software knows no feature
_NO_RELEASE = "The active controller's release is unknown, and with it the levels that it maps to."


class Command(StrEnum):
    """The commands of `plan` (KIP-584, KIP-778, KIP-1022)."""

    UPGRADE_ALL = "upgrade-all"
    DOWNGRADE_ALL = "downgrade-all"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLE = "disable"
    UPDATE = "update"


_LOWERS = (Command.DOWNGRADE, Command.DISABLE, Command.UPDATE)
_NAMES, _RELEASE = "names", "release"
_NO_FEATURE = "The feature is missing. Name a feature."
_NEEDS = {  # command → the options of which it needs at least one, and the error without any
    Command.DOWNGRADE_ALL: (
        {_RELEASE},
        "--release-version is missing. Add --release-version RELEASE, the older software.",
    ),
    Command.DOWNGRADE: (
        {_NAMES, _RELEASE},
        "The level is missing. Add --release-version, --metadata or --feature.",
    ),
    Command.DISABLE: ({_NAMES}, _NO_FEATURE),
    Command.UPDATE: ({_NAMES}, _NO_FEATURE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedLevels:
    """The requested levels: of a release, or per feature as number or name. `delete`: level 0."""

    release_version: str | None = None
    up: Mapping[str, int | str] = field(default_factory=dict)
    down: Mapping[str, int | str] = field(default_factory=dict)
    delete: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent(RequestedLevels):
    """The command and the levels that a user requests. Raises ConfigError if they do not fit
    together."""

    command: Command
    unsafe: bool = False  # UNSAFE_DOWNGRADE: lost metadata cannot be restored
    stepwise: bool = False  # upgrade metadata.version one level at a time

    def __post_init__(self) -> None:
        if fault := next(self._faults(), None):
            raise ConfigError(f"{self.command}: {fault}")

    @property
    def text(self) -> str:
        """The command as text. Equal intents have equal texts."""
        parts = [str(self.command)]
        if self.release_version is not None:
            parts += ["--release-version", self.release_version]
        if self.command is Command.UPDATE:
            for option, levels in (("--upgrade", self.up), ("--downgrade", self.down)):
                parts += [w for n, to in sorted(levels.items()) for w in (option, f"{n}:{to}")]
            parts += [w for name in sorted(self.delete) for w in ("--delete", name)]
        else:
            feature_lists = sorted([*self.up.items(), *self.down.items()])
            parts += [w for name, level in feature_lists for w in ("--feature", f"{name}={level}")]
            parts += [w for name in sorted(self.delete) for w in ("--feature", name)]
        parts += ["--unsafe"] if self.unsafe else []
        parts += ["--stepwise"] if self.stepwise else []
        return " ".join(parts)

    @property
    def named(self) -> tuple[str, ...]:
        """The requested features in their order."""
        return (*self.up, *self.down, *self.delete)

    def _faults(self) -> Iterator[str]:
        features, release = self.named, self.release_version
        options = {
            kind
            for kind, is_given in ((_NAMES, features), (_RELEASE, release is not None))
            if is_given
        }
        if len(options) > 1:
            yield "--release-version excludes features by name. Leave one of them out."
        needs, fault = _NEEDS.get(self.command, (options, ""))
        if options.isdisjoint(needs) and fault:
            yield fault
        if self.unsafe and self.command not in _LOWERS:
            yield "--unsafe is for downgrades only. Leave --unsafe out."
        if not all(map(str.strip, features)):
            yield "The name of a feature is empty."
        if repeated := sorted({name for name in features if features.count(name) > 1}):
            yield f"{repeated[0]} is given twice. Remove one of the two."


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A feature that a request leaves unchanged: current level, possible level, and reason."""

    code: str
    feature: str
    current: int
    level: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The changes that a request makes on one cluster. `faults`: changes that cannot be planned."""

    moves: tuple[Move, ...] = ()
    faults: tuple[Reason, ...] = ()
    stays: tuple[Stay, ...] = ()

    @property
    def levels(self) -> dict[str, int]:
        """The requested level of each changed feature."""
        return {move.feature: move.to_level for move in self.moves}


Part = Move | Reason | Stay  # the result for one feature, or for the whole request


def goal_of(intent: Intent, cluster: Cluster, catalogue: Catalogue) -> Goal:
    """Return the changes and the faults of a request on one cluster. Rules are not evaluated."""
    goals = _ClusterOfRequest(cluster=cluster, catalogue=catalogue, unsafe=intent.unsafe)
    parts = list[Part]()
    if intent.command is Command.DOWNGRADE_ALL:
        parts += goals.downgrade_all(intent.release_version or "")
    elif intent.command in (Command.UPGRADE, Command.DOWNGRADE) and not intent.named:
        parts += goals.release_version(intent.release_version, up=intent.command is Command.UPGRADE)
    parts += [goals.by_name(name, str(level), up=True) for name, level in intent.up.items()]
    parts += [goals.by_name(name, str(level), up=False) for name, level in intent.down.items()]
    parts += [goals.by_name(name, "0", up=False) for name in intent.delete]
    parts.sort(key=lambda part: part.feature)
    return Goal(
        moves=tuple(part for part in parts if isinstance(part, Move)),
        faults=tuple(part for part in parts if isinstance(part, Reason)),
        stays=tuple(part for part in parts if isinstance(part, Stay)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClusterOfRequest:
    """The cluster of a request, and the catalogue with its levels."""

    cluster: Cluster
    catalogue: Catalogue
    unsafe: bool

    @property
    def software(self) -> ReleaseCatalogue | None:
        return software_of(self.cluster, self.catalogue)

    def downgrade_all(self, release: str) -> Iterator[Part]:
        """Yield a downgrade of each finalized feature to the highest production level of `release`;
        features that it lacks are deleted. A tool of 2.7 to 3.2 would delete every feature, so that
        those releases are rejected."""
        release_name = self.catalogue.release_named(release)
        if release_name is None and release_line(release) in load(_NO_CATALOGUE).releases:
            names = ", ".join(sorted(self.cluster.finalized)) or "nothing is finalized"
            text = (
                f"Software of {release} knows no feature, so all would be deleted: {names}. "
                "Name the features to delete: update --delete FEATURE."
            )
            yield _fault("empty_catalogue", "", 0, text)
        elif release_name is None:
            yield _fault("unknown_release", "", 0, f"The catalogue has no release {release}.")
        else:
            software = self.catalogue.of(release_name)
            features = (METADATA_VERSION, *software.features)
            for name in sorted(self.cluster.finalized):
                levels = software.known_levels(name, unstable=False) if name in features else ()
                level = max(levels, default=0)
                if self.cluster.level(name) <= level:
                    top = self.name(name, level)
                    text = f"{release} knows {name} up to {top}: nothing is raised."
                    yield self.stay("no_higher", name, level, text)
                else:
                    yield self.kept(name, level) or self.moved(name, level, up=False)

    def release_version(self, text: str | None, *, up: bool) -> Iterator[Part]:
        """Yield a change for every feature, to its level in the release version `text` by the
        active controller's release (KIP-1022). Without `text` the newest production version counts.

        Each change in the other direction is a fault with the feature's name. Irreversible levels
        and levels with side effects stay, although Kafka's own tool sends them (kraft.version 1;
        eligible.leader.replicas.version 1).
        """
        software, metadata = self.software, METADATA_VERSION
        if software is None:
            release = self.cluster.release
            text = f"The catalogue has no release {release}." if release else _NO_RELEASE
            yield _fault("unknown_release", "", 0, text)
            return
        version = software.newest_stable if text is None else software.level_of(text)
        if version is None:
            names = ", ".join(software.names.values())
            text_of = f"{software.release} knows no release version {text}. It knows {names}."
            levels = (r.level_of(text or "", unstable=False) for r in self.catalogue.releases)
            yield self.later_level(
                "unknown_level", metadata, next(filter(None, levels), 0), text_of
            )
            return
        for name, level in software.defaults(version).items():
            if part := self.unknown(name, level) or self.kept(name, level):
                yield part
            elif code := only_by_name(self.catalogue, name, self.cluster.level(name), level):
                yield self.stay(code, name, level, self.why_by_name(code, name, level, up=up))
            else:
                yield self.moved(name, level, up=up)

    def why_by_name(self, code: str, name: str, level: int, *, up: bool) -> str:
        if not up:
            current = self.cluster.level(name)
            state = f"at {self.name(name, current)}" if current else "not finalized"
            return f"{name} is {state}, and a downgrade raises nothing."
        target = f"{name} {self.name(name, level)}"
        if code == "side_effect":
            effects = effects_clause(self.catalogue, name, level)
            return f"{target} changes only if you name it: {effects}."
        return f"{target} can never be downgraded, so it changes only if you name it."

    def by_name(self, name: str, text: str, *, up: bool) -> Part:
        """Return the change of one feature to a level (`--feature NAME=LEVEL`); level 0 deletes the
        feature."""
        cluster, software = self.cluster, self.software
        level = read_level(name, text, cluster, self.catalogue)
        if level is None:
            fault = f"{name} has no level {text!r}: expected a number"
            if name == METADATA_VERSION:
                names = (software.names if software else self.catalogue.names).values()
                fault += f", a release, or one of {', '.join(names)}"
            return _fault("unknown_level", name, 0, f"{fault}.")
        listed = {feature for node in cluster.nodes for feature in node.supported}
        listed |= {METADATA_VERSION, *cluster.finalized, *(software.features if software else ())}
        if name not in listed and cluster.nodes:  # without a node, the feature may exist
            fault = f"No node and no release of the controller supports a feature {name}."
            if name not in self.catalogue.features:
                fault += f" {nearest(name, self.catalogue.features)}"
            return _fault("unknown_feature", name, level, fault)
        if unknown := self.unknown(name, level):
            return unknown
        if not up and (irreversible := self.kept(name, level)):
            return _fault(irreversible.code, name, level, irreversible.text)
        return self.moved(name, level, up=up)

    def unknown(self, name: str, level: int) -> Reason | None:
        """Return the fault of a level that the controller's release lacks; None if known."""
        software, target = self.software, self.name(name, level)
        if software is None or name not in (METADATA_VERSION, *software.features):
            return None
        if not software.knows(name, level):
            text = f"{software.release} knows no level {target} of {name}."
            return self.later_level("unknown_level", name, level, text)
        if not software.knows(name, level, unstable=False):
            text = f"{name} {target} is not stable in {software.release}."
            return self.later_level("unstable_level", name, level, text)
        return None

    def later_level(self, code: str, name: str, level: int, text: str) -> Reason:
        """Return the fault of a level that only later software supports in production."""
        software = (r for r in self.catalogue.releases if r.knows(name, level, unstable=False))
        release = next((catalogue.release for catalogue in software), "")
        action = f"Install Kafka {release} or later on every node first." if release else ""
        return replace(_fault(code, name, level, text), action=action)

    def kept(self, name: str, level: int) -> Stay | None:
        """Return the reason why a feature is not downgraded: the downgrade would pass an
        irreversible level. None if it is possible."""
        current = self.cluster.level(name)
        if not any(level < never <= current for never in self.catalogue.irreversible(name)):
            return None
        now, target = self.name(name, current), self.name(name, level)
        return self.stay(
            "irreversible", name, level, f"Kafka never downgrades {name} from {now} to {target}."
        )

    def moved(self, name: str, level: int, *, up: bool) -> Part:
        """Return the level change of a feature, or the reason why it stays."""
        current = self.cluster.level(name)
        now, target = self.name(name, current), self.name(name, level)
        if level == current:
            text = f"{name} is at {now} already." if level else f"{name} is not finalized already."
            return self.stay("at_level", name, level, text)
        if (level > current) != up:
            direction, noun = ("down", "upgrade") if up else ("up", "downgrade")
            text = f"{name} is at {now} and would go {direction} to {target}: that is no {noun}."
            return _fault("wrong_direction", name, level, text)
        is_downgrade = UpgradeType.UNSAFE_DOWNGRADE if self.unsafe else UpgradeType.SAFE_DOWNGRADE
        kind = UpgradeType.UPGRADE if up else is_downgrade
        return Move(feature=name, from_level=current, to_level=level, upgrade_type=kind.name)

    def stay(self, code: str, name: str, level: int, text: str) -> Stay:
        current = self.cluster.level(name)
        return Stay(code=code, feature=name, current=current, level=level, text=text)

    def name(self, feature: str, level: int) -> str:
        return self.catalogue.level_name(feature, level)


def _fault(code: str, feature: str, level: int, text: str) -> Reason:
    return Reason(judge=GOAL, code=code, feature=feature, level=level, message=text)


def stay_at_ceiling(cluster: Cluster, catalogue: Catalogue, name: str, ceiling: int) -> Stay:
    """Return the reason why upgrade-all does not raise a feature above `ceiling`: no higher level,
    or only opt-in levels."""
    current, available = cluster.level(name), ceiling
    if name != METADATA_VERSION and name in catalogue.features:
        available = _highest_stable(cluster, catalogue, name)
    if current >= available:
        code, level = "at_ceiling", ceiling
        text = f"{name} is at {catalogue.level_name(name, current)}; that is its ceiling."
    else:
        code, level = only_by_name(catalogue, name, current, available), available
        exception = {"irreversible": "never back", "": "that level is no default"}.get(code)
        exception = exception or effects_clause(catalogue, name, available)
        top, code = catalogue.level_name(name, available), code or "beyond_default"
        text = f"{name} could go up to {top}, but {exception}: ask for it by name."
    return Stay(code=code, feature=name, current=current, level=level, text=text)


def _highest_stable(cluster: Cluster, catalogue: Catalogue, name: str) -> int:
    """Return the highest production level of a feature that a node supports and the cluster's
    releases know."""
    maximum = max((n.supported[name][1] for n in cluster.nodes if name in n.supported), default=0)
    texts = {cluster.release, *(node.release for node in cluster.nodes)}
    named = set(map(catalogue.release_named, texts)) - {None}
    own = [catalogue.of(release).known_levels(name, unstable=False) for release in named if release]
    levels = {version.level for version in catalogue.levels if version.feature == name}
    stable = levels & set().union(*own) if named else levels
    return max((n for n in stable if n <= maximum), default=0)


def only_by_name(catalogue: Catalogue, name: str, current: int, level: int) -> str:
    """Return the reason why upgrade-all omits `level`: `irreversible` or `side_effect`; "" if it
    does not."""
    on_the_way = [n for n in catalogue.only_by_name(name) if current < n <= level]
    if any(n in catalogue.irreversible(name) for n in on_the_way):
        return "irreversible"
    return "side_effect" if on_the_way else ""


def software_of(cluster: Cluster, catalogue: Catalogue) -> ReleaseCatalogue | None:
    """Return the catalogue of the active controller's release; None if unknown."""
    release = catalogue.release_named(cluster.release)
    return None if release is None else catalogue.of(release)


def read_level(name: str, text: str, cluster: Cluster, catalogue: Catalogue) -> int | None:
    """Return the level of a text: a number or, for metadata.version, a name or release such as
    3.3-IV3 or 3.9 of the active controller's software. None for another text."""
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
    """A level of metadata.version and its purpose."""

    level: int
    name: str
    purpose: str


def losses(catalogue: Catalogue, release: str, move: Move) -> tuple[Note, ...]:
    """Return the metadata.versions whose metadata a downgrade loses, newest first, by the
    controller's release (KIP-778, Downgrades)."""
    if move.feature != METADATA_VERSION:
        return ()
    software = catalogue.release_named(release)
    lossy = (catalogue if software is None else catalogue.of(software)).loses_metadata_below
    return tuple(
        Note(level=row.level, name=row.name, purpose=row.purpose)
        for row in sorted(catalogue.rows.metadata_version, key=lambda row: -row.level)
        if row.level in lossy and move.to_level < row.level <= move.from_level
    )
