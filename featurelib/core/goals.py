"""What a person can ask for, as wanted levels: all up, all down, a release version, levels by name.

Each function is one command of the KIPs, and gives a goal: see moves.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from featurelib.catalogue import Catalogue, ReleaseCatalogue
from featurelib.core.cluster import Cluster
from featurelib.core.dialect import load
from featurelib.core.effects import say_more
from featurelib.core.moves import Asking, Direction, Goal, level_of, software_of
from featurelib.feature import METADATA_VERSION

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
    if named is None and _short(release) in early:
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


def _short(release: str) -> str:
    return ".".join(release.split(".")[:2])


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
