"""The cluster that a file belongs to, by its evidence: its levels, and what it would refuse.

Without evidence a cluster is unknown: then rules say so, and warn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from featurelib.catalogue import Catalogue
from featurelib.feature import METADATA_VERSION
from featurelib.model import Reason
from featurelib.questions.roll import roll
from featurelib.questions.why_not import LevelStatus, why_not
from featurelib.source import Source
from featurelib.words import level_text, range_text

POLICY = "strict"  # the judge whose reasons name every node
MOST = 3  # reasons that a finding repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCluster:
    """A cluster by its evidence; without `source` nothing is known of it."""

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
        return _first([*reasons, *(refusal.message for refusal in answer.refused)])

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
        return _messages(proofs), _messages(proof for proof in proofs if proof.node in off)


def _messages(proofs: Iterable[Reason]) -> tuple[str, ...]:
    return _first([proof.message for proof in proofs])


def _first(reasons: list[str]) -> tuple[str, ...]:
    """Return the reasons, each once; of many the first and their number."""
    known = list(dict.fromkeys(reasons))
    tail = [f"And {len(known) - MOST} more."] if len(known) > MOST else []
    return (*known[:MOST], *tail)
