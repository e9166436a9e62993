"""One cluster, or one kind of its nodes, before and after a change: its levels and its quorum.

Without a file before, a setting is `new`. A level is compared with the production levels of the
software in the file, and with all its levels where the file enables unstable ones. Most functions
return a word of the fact that they are for ([facts] of rules.toml).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from featurelib.catalogue import ReleaseCatalogue
from featurelib.extras.lint import declared as of
from featurelib.extras.lint.declared import Scope
from featurelib.extras.lint.known import KnownCluster
from featurelib.feature import METADATA_VERSION

Number = tuple[int, ...]
# Kafka 4.0 knows no ZooKeeper mode; its upgrade notes ask for software of 3.3 or later.
KRAFT_ONLY, BRIDGE_BELOW = (4, 0), (3, 3)
ON_ZOOKEEPER = ("zookeeper", "migrating")
MOVES = {
    ("zookeeper", "kraft"): "direct",
    ("zookeeper", "migrating"): "starts",
    ("migrating", "kraft"): "ends",
    ("migrating", "zookeeper"): "back",
    ("kraft", "zookeeper"): "from_kraft",
    ("kraft", "migrating"): "from_kraft",
}
_RELEASE = re.compile(r"\d{1,3}(?:\.\d{1,3}){1,3}")


def number_of(text: str | None, parts: int = 2) -> Number | None:
    """Return (4, 1) for 4.1, 4.1.2 or 4.1-IV0; None for another text."""
    match = _RELEASE.match(text or "")
    return tuple(map(int, match[0].split(".")[:parts])) if match else None


@dataclass(frozen=True)
class FileChange:
    """A scope before and after; `before` None: there is none to compare with."""

    before: Scope | None
    after: Scope
    cluster: KnownCluster

    # --- Settings ---------------------------------------------------------------------------------

    def value(self, key: str) -> str | None:
        """Return the value of a setting after the change, if it is known."""
        return self.after.known(key)

    def value_before(self, key: str) -> str | None:
        """Return the value of a setting before the change, if it is known."""
        return self.before.known(key) if self.before is not None else None

    def turn(self, key: str, now: Number | int | None, then: Number | int | None) -> str:
        """Return the change of a setting, whose value means `now`, and meant `then`."""
        if key not in self.after.settings:
            had = self.before is not None and key in self.before.settings
            return "removed" if had else "unset"
        if self.value(key) is None:
            return "template"
        if now is None or then is None:
            return "strange" if now is None else "new"
        return "same" if now == then else "raised" if now > then else "lowered"  # type: ignore[operator]

    @property
    def turn_of_version(self) -> str:
        """The change of the software."""
        numbers = (number_of(of_(of.VERSION), 4) for of_ in (self.value, self.value_before))
        return self.turn(of.VERSION, *numbers)

    def software(self, scope: Scope | None) -> ReleaseCatalogue | None:
        """Return the catalogue of the software that a scope names."""
        catalogue = self.cluster.catalogue
        if scope is None or of.VENDOR in scope.settings:
            return None
        release = catalogue.release_named(scope.known(of.VERSION) or "")
        return None if release is None else catalogue.of(release)

    @cached_property
    def own(self) -> ReleaseCatalogue | None:
        """The catalogue of the software after the change."""
        return self.software(self.after)

    # --- Levels -----------------------------------------------------------------------------------

    def asked(self, scope: Scope | None) -> int | None:
        """Return the metadata.version that a scope asks for."""
        text = scope.known(of.METADATA) if scope is not None else None
        return None if text is None else self.cluster.catalogue.whole.level_of(text)

    @cached_property
    def finalized(self) -> tuple[int | None, str]:
        """The finalized metadata.version, and the source that says so."""
        if (level := self.cluster.metadata) is not None:
            return level, "cluster"
        if (level := self.asked(self.before)) is not None:
            return level, "file"
        before = self.software(self.before)
        if before is not None and self.is_chosen(self.before):
            return before.newest_stable, "default"
        return None, "none"

    @cached_property
    def next_level(self) -> int | None:
        """The metadata.version that follows from the file; None if nothing in it moves one."""
        if of.METADATA in self.after.settings:
            return self.asked(self.after)
        return self.own.newest_stable if self.own and self.is_chosen(self.after) else None

    def is_chosen(self, scope: Scope | None) -> bool:
        """Return true if an operator chooses the level, where the file does not."""
        return scope is not None and scope.kind == "strimzi" and mode_of(scope) == "kraft"

    def fits(self, level: int | None) -> str:
        """Return whether the software of the file supports a metadata.version."""
        if level is None or self.own is None:
            return "unknown"
        is_unstable = self.value(of.UNSTABLE) == "true"
        levels = self.own.known_levels(METADATA_VERSION, unstable=is_unstable)
        return "above" if level > levels[-1] else "below" if level < levels[0] else "fits"

    @cached_property
    def no_return(self) -> int | None:
        """The first level between the finalized and the next one that cannot be left again without
        loss."""
        start, end = self.finalized[0], self.next_level
        if start is None or end is None:
            return None
        losing = (self.own or self.cluster.catalogue.whole).loses_metadata_below
        low, high = sorted((start, end))
        return min((level for level in losing if low < level <= high), default=None)

    @property
    def way_back(self) -> str:
        """The answer: can the next level be left again without loss?"""
        if self.finalized[0] is None or self.next_level is None:
            return "unknown"
        return "open" if self.no_return is None else "closed"

    @property
    def by_itself(self) -> str:
        """The change that the operator makes without a level in the file."""
        start, end = self.finalized[0], self.next_level
        if of.METADATA in self.after.settings or start is None or end is None:
            return "unknown"
        return "rises" if end > start else "stays"

    @cached_property
    def refusals(self) -> tuple[str, ...] | None:
        """The reasons why the new software cannot register."""
        return self.cluster.refusals(self.value(of.VERSION) or "") if self.own else None

    @cached_property
    def blockers(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """The reasons against the next level, and those of nodes that are off."""
        start, end = self.finalized[0], self.next_level
        is_up = start is not None and end is not None and end > start
        return self.cluster.blockers(end) if is_up and end is not None else None

    @property
    def request(self) -> str:
        """The response of controllers to the next level. Running nodes get new software first, if
        the file raises its version."""
        every, stale = self.blockers or ((), ())
        if stale:
            return "stale"
        is_blocked = every and self.turn_of_version != "raised"
        return "unknown" if self.blockers is None else "blocked" if is_blocked else "free"

    # --- Quorum -----------------------------------------------------------------------------------

    @property
    def kraft(self) -> str:
        """The kraft.version of the cluster, or the one that a chart is told."""
        known = self.cluster.kraft
        word = self.value_before(of.KRAFT) if known is None else str(known)
        return word if word in ("0", "1") else "unknown"

    @property
    def steps(self) -> str:
        """The step that is missing between the old software and the new one."""
        now, then = (number_of(of_(of.VERSION)) for of_ in (self.value, self.value_before))
        if now is None or now < KRAFT_ONLY:
            return "fine"
        # The migration ends on 3.9, and then comes the software.
        is_next = mode_of(self.before) in ON_ZOOKEEPER and then and then < KRAFT_ONLY
        if is_next or mode_of(self.after) in ON_ZOOKEEPER:
            return "needs_kraft"
        return "needs_bridge" if then and then < BRIDGE_BELOW else "fine"

    @property
    def quorum(self) -> str:
        """The properties that name the quorum, or how a change replaces them."""
        then, now = named(self.before), named(self.after)
        if then in ("voters", "both") and now == "servers":
            return "replaced"
        if then == "servers" and now in ("voters", "both"):
            return "returned"
        return "dropped" if then != "none" and now == "none" else now

    @cached_property
    def voter_ids(self) -> tuple[set[int], set[int]] | None:
        """The ids of voters that the change removes, and those that it adds; None: not known."""
        then, now = voters_of(self.before), voters_of(self.after)
        return None if then is None or now is None else (then - now, now - then)

    @property
    def voters(self) -> str:
        """The change of controller.quorum.voters."""
        removed, added = self.voter_ids or (set(), set())
        if removed:
            return "exchanged" if added else "removed"
        return "unknown" if self.voter_ids is None else "added" if added else "same"

    @property
    def controllers(self) -> str:
        """The change of the number of controllers. None at all is not known: their pool or group
        may stand in another file."""
        now, then = self.value(of.CONTROLLERS), self.value_before(of.CONTROLLERS)
        if now is None or then is None:
            return "unknown"
        return "same" if now == then else "fewer" if int(now) < int(then) else "more"

    @property
    def roles(self) -> str:
        """The change of process.roles; that of the controller first."""
        then, now = roles_of(self.before), roles_of(self.after)
        for role in ("controller", "broker") if then and now else ():
            if role in then ^ now:
                return f"{role}_removed" if role in then else f"{role}_added"
        return "same"

    @property
    def node(self) -> str:
        """The roles of a node of the file."""
        roles = roles_of(self.after)
        return "both" if len(roles) > 1 else next(iter(roles), self.after.node or "unknown")

    @property
    def conflict(self) -> str:
        """The contradiction between roles and voters of a node: with one it does not start
        (KafkaConfig.validateValues)."""
        node_id = self.value("node.id") or self.value("broker.id") or ""
        roles, voters = roles_of(self.after), voters_of(self.after)
        if not (node_id.isdecimal() and roles and voters):
            return "none"
        if "controller" in roles:
            return "none" if int(node_id) in voters else "role_without_vote"
        return "voter_without_role" if int(node_id) in voters else "none"

    @property
    def protocol_fits(self) -> str:
        """The place of inter.broker.protocol.version among those that the software knows."""
        protocol, software = (number_of(self.value(key)) for key in (of.PROTOCOL, of.VERSION))
        if protocol is None or software is None:
            return "unknown"
        return "above" if protocol > software else "fits"


def mode_of(scope: Scope | None) -> str:
    """Return where the metadata of a scope is kept."""
    if scope is None:
        return "unknown"
    has, word = scope.settings.keys(), scope.known(of.MIGRATION)
    if word in ("migration", "rollback") or scope.known(of.MIGRATES) == "true":
        return "migrating"
    if word == "enabled" or (of.ROLES in has and of.CONNECT not in has):
        return "kraft"
    if {of.CONNECT, of.ZOOKEEPER} & has:
        return "zookeeper"
    return "kraft" if scope.kind == "strimzi" and of.VERSION in has else "unknown"


def named(scope: Scope | None) -> str:
    """Return which properties name the quorum."""
    has = scope.settings.keys() if scope is not None else set[str]()
    if of.VOTERS in has:
        return "both" if of.SERVERS in has else "voters"
    return "servers" if of.SERVERS in has else "none"


def roles_of(scope: Scope | None) -> set[str]:
    """Return the roles of process.roles; none: not known, or ZooKeeper mode."""
    text = scope.known(of.ROLES) if scope is not None else None
    return {part.strip() for part in (text or "").split(",")} & {"broker", "controller"}


def voters_of(scope: Scope | None) -> set[int] | None:
    """Return the ids in controller.quorum.voters; None where they cannot be read."""
    text = scope.known(of.VOTERS) if scope is not None else None
    pairs = [part.strip().partition("@") for part in (text or "").split(",")]
    is_read = all(node.isdecimal() and at for node, at, _ in pairs)
    return {int(node) for node, _, _ in pairs} if is_read else None
