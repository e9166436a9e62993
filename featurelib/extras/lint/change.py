"""Compare a cluster, or one kind of its nodes, before and after a change of its files.

Without a file before, a setting is `new`. A level is compared with the production levels of the
software in the file, and with all its levels where the file enables unstable ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from featurelib.catalogue import Catalogue, ReleaseCatalogue
from featurelib.extras.lint import declared as of
from featurelib.extras.lint.declared import Scope
from featurelib.feature import METADATA_VERSION
from featurelib.questions.roll import roll
from featurelib.questions.why_not import LevelStatus, why_not
from featurelib.source import Source
from featurelib.words import level_text, range_text

POLICY = "strict"  # the judge whose reasons name every node


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCluster:
    """A cluster with its evidence; without `source` nothing is known of it."""

    source: Source | None
    catalogue: Catalogue

    @property
    def metadata(self) -> int | None:
        """The finalized metadata.version; None if no trusted source says."""
        sight = None if self.source is None else self.source.sight
        levels = sight.cluster.finalized if sight and sight.is_trusted else {}
        return levels.get(METADATA_VERSION, (0, 0))[1] or None

    @property
    def kraft(self) -> int | None:
        """The kraft.version that the quorum uses; None if no trusted source says."""
        if self.source is None or self.metadata is None:
            return None
        return self.source.sight.cluster.raft_level

    def refusals(self, version: str) -> tuple[str, ...] | None:
        """Return the reasons why software of this version cannot register; None: not known."""
        if self.source is None or self.catalogue.release_named(version) is None:
            return None
        answer = roll(self.source.sight, version, self.source.terms)
        if not answer.levels_known:
            return None
        reasons = [
            f"{misfit.feature} is finalized at "
            f"{level_text(self.catalogue, misfit.feature, misfit.level)}, software of "
            f"{answer.release} supports "
            f"{range_text(self.catalogue, misfit.feature, misfit.supported)}."
            for misfit in answer.misfits
        ]
        return (*reasons, *(refusal.message for refusal in answer.refused))

    def blockers(self, level: int) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Return the reasons against a metadata.version, and those of nodes that are off and still
        registered; None: not known."""
        if self.source is None or self.metadata is None:
            return None
        sight = self.source.sight
        answer = why_not(sight, METADATA_VERSION, level, self.catalogue)
        proofs = [proof for proof in answer.proofs if proof.judge == POLICY]
        off = {f"{node.role.text} {node.node_id}" for node in sight.cluster.nodes if node.gone}
        if not proofs and answer.answer is LevelStatus.UNKNOWN:
            return None
        stale = tuple(proof.message for proof in proofs if proof.node in off)
        return tuple(proof.message for proof in proofs), stale


Number = tuple[int, ...]
Meaning = Number | int | str | None
KRAFT_ONLY = (4, 0)  # Kafka 4.0 has no ZooKeeper mode
DYNAMIC_FROM = (4, 1)  # the first release that upgrades kraft.version (KAFKA-16538)
_RELEASE = re.compile(r"\d{1,3}(?:\.\d{1,3}){1,3}")


def number_of(text: str | None, parts: int = 2) -> Number | None:
    """Return (4, 1) for 4.1, 4.1.2 or 4.1-IV0; None for another text."""
    match = _RELEASE.match(text or "")
    return tuple(map(int, match[0].split(".")[:parts])) if match else None


@dataclass(frozen=True)
class FileChange:
    """A scope before and after a change; `before` None: there was none. `is_removed`: the files no
    longer declare it."""

    before: Scope | None
    after: Scope
    cluster: KnownCluster
    is_removed: bool = False

    def value(self, key: str) -> str | None:
        """Return the value of a setting after the change, if it is known."""
        return self.after.known(key)

    def value_before(self, key: str) -> str | None:
        """Return the value of a setting before the change, if it is known."""
        return self.before.known(key) if self.before is not None else None

    def numbers(self, key: str, parts: int = 2) -> tuple[Number | None, Number | None]:
        """Return the version in a setting after the change, and before it."""
        return number_of(self.value(key), parts), number_of(self.value_before(key), parts)

    def turn(self, key: str, now: Meaning, then: Meaning) -> str:
        """Return the change of a setting whose value now means `now`, and before `then`."""
        if key not in self.after.settings:
            had = self.before is not None and key in self.before.settings
            return "removed" if had else "unset"
        if self.value(key) is None:
            return "template"
        if now is None or then is None:
            return "strange" if now is None else "new"
        return "same" if now == then else "raised" if now > then else "lowered"  # type: ignore[operator]

    def software(self, scope: Scope | None) -> ReleaseCatalogue | None:
        """Return the catalogue of the software that a scope names."""
        if scope is None or of.VENDOR in scope.settings:
            return None
        release = self.cluster.catalogue.release_named(scope.known(of.VERSION) or "")
        return None if release is None else self.cluster.catalogue.of(release)

    @cached_property
    def own(self) -> ReleaseCatalogue | None:
        """The catalogue of the software after the change."""
        return self.software(self.after)

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
        is_known = before is not None and is_chosen(self.before)
        return (before.newest_stable, "default") if before and is_known else (None, "none")

    @cached_property
    def next_level(self) -> int | None:
        """The metadata.version that follows from the file; None if nothing in it moves one."""
        if of.METADATA in self.after.settings:
            return self.asked(self.after)
        return self.own.newest_stable if self.own and is_chosen(self.after) else None

    def fits(self, level: int | None) -> str:
        """Return whether the software of the file supports a metadata.version."""
        if level is None or self.own is None:
            return "unknown"
        is_unstable = self.value(of.UNSTABLE) == "true"
        levels = self.own.known_levels(METADATA_VERSION, unstable=is_unstable)
        return "above" if level > levels[-1] else "below" if level < levels[0] else "fits"

    @cached_property
    def ends(self) -> tuple[int, int] | None:
        """The finalized level and the next one; None if one of them is not known."""
        start, end = self.finalized[0], self.next_level
        return None if start is None or end is None else (start, end)

    @cached_property
    def no_return(self) -> int | None:
        """The first level between these without a lossless downgrade."""
        low, high = sorted(self.ends or (0, 0))
        losing = (self.own or self.cluster.catalogue.whole).loses_metadata_below
        return min((level for level in losing if low < level <= high), default=None)

    @cached_property
    def refusals(self) -> tuple[str, ...] | None:
        """The reasons why the new software cannot register; None: not known."""
        return self.cluster.refusals(self.value(of.VERSION) or "") if self.own else None

    @cached_property
    def blockers(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """The reasons against the next level, and those of nodes that are off; None: not known."""
        is_up = self.ends is not None and self.ends[0] < self.ends[1]
        return self.cluster.blockers(self.next_level or 0) if is_up else None

    @cached_property
    def node_ids(self) -> tuple[str, str]:
        """The ids of a node before and now: of the first that gets another one, if there is any."""
        keys = (key for key in self.after.settings if key.startswith(of.NODE_ID))
        pairs = ((self.value_before(key), self.value(key)) for key in keys)
        changed = ((then, now) for then, now in pairs if then and now and then != now)
        return next(changed, (self.before.node_id if self.before else "", self.after.node_id))

    @property
    def log_dirs(self) -> tuple[str, str]:
        """The folder of the metadata, before and now; "" where it is not known."""
        return self.before.log_dir if self.before else "", self.after.log_dir

    @cached_property
    def voter_ids(self) -> tuple[set[int], set[int]] | None:
        """The ids of voters that the change removes, and those that it adds; None: not known."""
        then, now = voters_of(self.before), voters_of(self.after)
        return None if then is None or now is None else (then - now, now - then)


def is_chosen(scope: Scope | None) -> bool:
    """Return true if an operator chooses metadata.version because the file does not."""
    return scope is not None and scope.kind == "strimzi" and mode_of(scope) == "kraft"


def mode_of(scope: Scope | None) -> str:
    """Return where the metadata of a scope is kept."""
    if scope is None:
        return "unknown"
    has, word = scope.settings.keys(), (scope.known(of.MIGRATION) or "").lower()
    if word in ("migration", "rollback") or scope.known(of.MIGRATES) == "true":
        return "migrating"
    if word == "enabled" or (of.ROLES in has and of.CONNECT not in has):
        return "kraft"
    is_old = (number_of(scope.known(of.VERSION)) or KRAFT_ONLY) < KRAFT_ONLY
    if {of.CONNECT, of.ZOOKEEPER} & has or (word == "disabled" and is_old):
        return "zookeeper"
    return "kraft" if scope.kind == "strimzi" and of.VERSION in has else "unknown"


def voters_of(scope: Scope | None) -> set[int] | None:
    """Return the ids in controller.quorum.voters; None where they cannot be read."""
    text = scope.known(of.VOTERS) if scope is not None else None
    pairs = [part.strip().partition("@") for part in (text or "").split(",")]
    is_read = all(node.isdecimal() and at for node, at, _ in pairs)
    return {int(node) for node, _, _ in pairs} if is_read else None
