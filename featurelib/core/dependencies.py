"""Dependencies of levels that are finalized already, seen from the other end (N4).

Kafka asks what a level depends on only when that level itself moves, so lowering the other feature
breaks it unseen. Asked for here: what the newest software declares, and what the cluster's own
controllers would say if the level were finalized again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace

import numpy as np

from featurelib.catalogue import Tables
from featurelib.catalogue.releases import ANY, FEATURE_RECORDS_FROM
from featurelib.core.columns import Int
from featurelib.core.dialect import GENERATIONS, load
from featurelib.core.evidence import Evidence
from featurelib.core.findings import Findings
from featurelib.core.own_dialect import OwnDialects
from featurelib.core.rules import RULES
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION

CODE = "finalized_dependency_unmet"
DECLARED, STORED = "dependency_unmet", "metadata_version_unmet"
_FIRST = 1  # a KRaft cluster that says nothing of metadata.version is at 3.0-IV1 (KIP-778)
_ENOUGH = np.iinfo(np.int16).max  # where it is not known what is finalized, nothing is missing


def report_unmet(
    evidence: Evidence, own: Callable[[], OwnDialects], tables: Tables, said: Findings
) -> None:
    """A finding for each finalized level whose dependency the finalized levels do not meet
    (KIP-1022, Feature dependencies; Feature.validateVersion).

    `own` gives the dialects of the batch; it is called only where some release may complain.
    """
    state = _State(evidence)
    declared = [(row, state.unmet(tables, row)) for row in range(len(tables.dependency_level))]
    declared = [(row, questions) for row, questions in declared if len(questions)]
    stored = state.below(max(_needed(name) for name in GENERATIONS))
    if not declared and len(stored) == 0:
        return
    found = defaultdict[int, set[tuple[str, int]]](set)
    spoken = own().spoken
    for row, questions in declared:
        release = tables.releases[tables.dependency_release[row]]
        asking = [which for (name, by), which in spoken.items() if by == release and _asks(name)]
        what = tables.features[tables.dependency_other[row]], int(tables.dependency_least[row])
        for question in questions.tolist():
            if release == ANY or any(which[state.cluster[question]] for which in asking):
                found[question].add(what)
    for question in stored.tolist():
        cluster = state.cluster[question]
        names = [name for (name, _), which in spoken.items() if which[cluster]]
        least = max([FEATURE_RECORDS_FROM, *map(_needed, names)])
        if question in state.below(least):
            found[question].add((METADATA_VERSION, least))
    state.say(found, said)


@cache
def _needed(dialect: str) -> int:
    """The metadata.version that controllers of a dialect want for a level of any other feature."""
    own = load(dialect)
    return own.can.metadata_needed if STORED in {row.code for row in own.rules} else 0


@cache
def _asks(dialect: str) -> bool:
    """Whether controllers of a dialect ask for the dependencies their release declares."""
    return DECLARED in {row.code for row in load(dialect).rules}


class _State:
    """What is finalized in each cluster of a batch, and what of it asks for something else."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence, self._asked = evidence, evidence.questions
        self.cluster, self._levels = self._asked.cluster, dict[str, Int]()

    def unmet(self, tables: Tables, row: int) -> Int:
        """The questions at the level of one dependency of the catalogue that do not have it."""
        asked, name = self._asked, tables.features[tables.dependency_feature[row]]
        if name not in asked.names:
            return np.zeros(0, dtype=np.int64)
        level = int(tables.dependency_level[row])
        mine = (asked.current == level) & (asked.feature == asked.names.index(name)) & asked.known
        questions = np.flatnonzero(mine)
        there = self._of(tables.features[tables.dependency_other[row]])[self.cluster[questions]]
        rows = SimpleNamespace(proposed=there, needed=tables.dependency_least[row])
        return questions[RULES[DECLARED].ask(rows)]

    def below(self, least: int) -> Int:
        """Finalized features whose level has no metadata.version of `least` to stand in; the level
        of kraft.version stands in the raft layer."""
        asked, membership = self._asked, self._evidence.membership
        names = (METADATA_VERSION, KRAFT_VERSION)
        apart = [asked.names.index(name) for name in names if name in asked.names]
        rows = SimpleNamespace(
            level=np.where(asked.known, asked.current, 0),
            metadata_proposed=self._of(METADATA_VERSION)[self.cluster],
            metadata_needed=np.int32(least),
        )
        hit = RULES[STORED].ask(rows) & membership.kraft[self.cluster]
        return np.flatnonzero(hit & ~np.isin(asked.feature, apart))

    def say(self, found: dict[int, set[tuple[str, int]]], said: Findings) -> None:
        questions = np.array(sorted(found), dtype=np.int64)
        levels, cluster = self._evidence.levels, self.cluster[questions]
        said.add(
            CODE,
            cluster,
            feature=self._evidence.features(questions),
            finalized_level=self._asked.current[questions],
            at=levels.at[cluster],
            line=levels.line[cluster],
            detail=[
                "; ".join(
                    f"{other} {least}, and {other} {self._of(other)[where]} is finalized"
                    for other, least in sorted(found[question])
                )
                for question, where in zip(questions.tolist(), cluster.tolist(), strict=True)
            ],
        )

    def _of(self, name: str) -> Int:
        """The finalized level of one feature by cluster."""
        if name not in self._levels:
            asked = self._asked
            code = asked.names.index(name) if name in asked.names else -1
            mine, least = asked.feature == code, _FIRST if name == METADATA_VERSION else 0
            levels = np.full(len(self._evidence.clusters), least)
            levels[asked.cluster[mine]] = np.maximum(asked.current[mine], least)
            levels[asked.cluster[mine & ~asked.known]] = _ENOUGH
            untrusted = ~self._evidence.levels.trusted | self._evidence.levels.too_old
            levels[untrusted] = _ENOUGH
            self._levels[name] = levels
        return self._levels[name]
