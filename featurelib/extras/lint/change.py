"""Compare a cluster, or one kind of its nodes, before and after a change of its files.

Without an earlier file, a setting is `new`. A level is compared with the production levels of the
software in the file, and with all its levels if the file enables unstable levels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from featurelib.catalogue import Catalogue, ReleaseCatalogue
from featurelib.extras.lint import declared as of
from featurelib.extras.lint.declared import Scope
from featurelib.extras.predictions.rolling import roll
from featurelib.feature import METADATA_VERSION, Role
from featurelib.questions.why_not import LevelStatus, why_not
from featurelib.source import Source
from featurelib.words import level_text, range_text


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """A cluster with its data. `source`: None if no data is available."""

    source: Source | None
    catalogue: Catalogue

    @property
    def metadata(self) -> int | None:
        """The finalized metadata.version; None without a trusted source."""
        view = None if self.source is None else self.source.view
        levels = view.cluster.finalized if view and view.is_trusted else {}
        return levels.get(METADATA_VERSION, (0, 0))[1] or None

    @property
    def kraft(self) -> int | None:
        """The kraft.version of the quorum; None without a trusted source."""
        is_known = self.source is not None and self.metadata is not None
        return self.source.view.cluster.raft_level if self.source and is_known else None

    @property
    def controllers(self) -> tuple[set[int], set[int]] | None:
        """The ids of (all controllers, controllers that are not stale); None without data."""
        nodes = self.source.view.cluster.nodes if self.source and self.metadata is not None else ()
        controllers = [node for node in nodes if node.role is Role.CONTROLLER]
        running = {node.node_id for node in controllers if not node.gone}
        return ({node.node_id for node in controllers}, running) if running else None

    def refusals(self, version: str) -> tuple[str, ...] | None:
        """Return the reasons why software of this version cannot register; None if unknown."""
        if self.source is None or self.catalogue.release_named(version) is None:
            return None
        answer = roll(self.source.view, version, self.source.inputs)
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
        """Return (reasons against a level, reasons about stale nodes); None if unknown."""
        if self.source is None or self.metadata is None:
            return None
        view = self.source.view
        answer = why_not(view, METADATA_VERSION, level, self.catalogue)
        proofs = [proof for proof in answer.proofs if proof.judge == "strict"]
        node_keys = {f"{node.role.text} {node.node_id}" for node in view.cluster.nodes if node.gone}
        if not proofs and answer.answer is LevelStatus.UNKNOWN:
            return None
        stale = tuple(proof.message for proof in proofs if proof.node in node_keys)
        return tuple(proof.message for proof in proofs), stale


Meaning = of.Number | int | str | None
LAST_MINORS = {0: 11, 1: 1, 2: 8, 3: 9}  # major version → last minor release before Kafka 4.0


@dataclass(frozen=True)
class FileChange:
    """The settings of a scope (a cluster, or one type of its nodes) before and after a change.
    `before` is empty for a new file. `is_removed`: the files no longer contain the scope."""

    before: Scope
    after: Scope
    cluster: KnownCluster
    is_removed: bool = False

    def turn(self, key: str, meaning: Callable[[Scope], Meaning] | None = None) -> str:
        """Return the change of a setting as a word such as raised or new. `meaning`: converts a
        scope to a comparable value."""
        scopes = (self.after, self.before)
        new_value, then = (meaning(scope) if meaning else scope.known(key) for scope in scopes)
        if key not in self.after.settings:
            return "removed" if key in self.before.settings else "unset"
        if self.after.known(key) is None:
            return "template"
        if new_value is None or then is None:
            return "strange" if new_value is None else "new"
        return "same" if new_value == then else "raised" if new_value > then else "lowered"  # type: ignore[operator]

    def software(self, scope: Scope) -> ReleaseCatalogue | None:
        """Return the catalogue of the release that a scope names; None if unknown."""
        release = self.cluster.catalogue.release_named(scope.known(of.VERSION) or "")
        is_known = release is not None and of.VENDOR not in scope.settings
        return self.cluster.catalogue.of(release) if release and is_known else None

    def asked(self, scope: Scope) -> int | None:
        """Return the metadata.version that a scope requests; None if unknown."""
        return self.cluster.catalogue.whole.level_of(scope.known(of.METADATA) or "")

    def protocol(self, scope: Scope) -> of.Number | None:
        """Return the inter.broker.protocol.version of a scope; None if missing or invalid."""
        number, text = scope.number(of.PROTOCOL), scope.known(of.PROTOCOL) or ""
        if number is None or number[1] > LAST_MINORS.get(number[0], number[1]):
            return None
        is_level = self.cluster.catalogue.whole.level_of(text) is not None
        return number if is_level or "-IV" not in text or number < (3, 0) else None

    def finalized(self) -> tuple[int | None, str]:
        """Return (metadata.version or None, its source: cluster, file or default)."""
        if (level := self.cluster.metadata) is not None:
            return level, "cluster"
        if (level := self.asked(self.before)) is not None:
            return level, "file"
        before = self.software(self.before) if is_chosen(self.before) else None
        return (before.newest_stable, "default") if before else (None, "none")


def is_chosen(scope: Scope) -> bool:
    """Return true if Strimzi's operator chooses the metadata.version by itself."""
    return scope.kind == "strimzi" and scope.mode == "kraft"
