"""What a cluster's own controller would answer to the levels the strict policy lets pass.

READY needs both. Which release the controllers run is read from the ranges they advertise, or told
by the inventory; where several fit, each is asked, and any refusal counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from featurelib.catalogue import Catalogue
from featurelib.core.answer import judge
from featurelib.core.columns import Bool, Int
from featurelib.core.dialect import GENERATIONS, Dialect, RuleRow, generation_of, load
from featurelib.core.evidence import Evidence
from featurelib.core.fleet_batch import FleetEdge
from featurelib.core.software import Software
from featurelib.feature import Role

# Both generations of ZooKeeper mode, by a release of each: brokers there advertise no range.
ZOOKEEPER_RELEASES = ("3.2", "3.9")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A rule of one generation that refuses some of the questions' levels."""

    dialect: Dialect
    row: RuleRow
    questions: Int
    profiles: Int  # of each question the first answering profile that offends; -1 = no node does
    lowest: Int  # the lower end of what the rule asks for; 0 = it asks for the level alone


class OwnDialects:
    """The dialects the clusters of a batch may speak, and their answers."""

    def __init__(self, evidence: Evidence, told: list[str], catalogue: Catalogue) -> None:
        """`told` is the release the inventory names for each cluster, "" where it names none."""
        self._evidence, self._catalogue, self._tables = evidence, catalogue, catalogue.tables
        self._edge = FleetEdge(evidence, catalogue.tables)
        self.zookeeper = self._edge.zookeeper
        self.runs = Software(evidence, told, catalogue).runs
        self.spoken: dict[tuple[str, str], Bool] = self._spoken(told)

    def dialects(self, cluster: int, first: str = "") -> list[str]:
        """The dialects that one cluster's controllers may speak, sorted; of those that judge alike
        one: that of the release `first`, if it is there."""
        spoken = {pair: which for pair, which in self.spoken.items() if which[cluster]}
        names = {name for name, _ in spoken}
        own = next((name for name, release in spoken if release == first), "")
        return list(_unlike(tuple(sorted(names)), own))

    def refusals(self, level: Int) -> Iterator[Refusal]:
        """Every rule of an own dialect that refuses a question's `level`, above the current one."""
        asked = self._evidence.questions
        wanted = asked.known & (level > asked.current)
        for (name, release), which in self.spoken.items():
            questions = np.flatnonzero(wanted & which[asked.cluster])
            if len(questions) == 0:
                continue
            dialect = load(name)
            code = self._tables.release_code(release)
            batch = self._edge.batch(questions, level, code, dialect)
            judged = judge(batch, dialect, self._tables)
            for row, hit, pair in zip(dialect.rules, judged.offends, judged.named, strict=True):
                if hit.any():
                    found = pair[hit]
                    if row.asks is not None:
                        found = np.where(found >= 0, batch.groups[row.asks].profile[found], -1)
                    lowest = np.zeros(len(found), dtype=np.int64)
                    if "lowest" in row.rule.columns:
                        lowest += judged.columns.local_min[hit]
                    yield Refusal(
                        dialect=dialect,
                        row=row,
                        questions=questions[hit],
                        profiles=found,
                        lowest=lowest,
                    )

    def _spoken(self, told: list[str]) -> dict[tuple[str, str], Bool]:
        possible = self._possible(told)
        spoken: dict[tuple[str, str], Bool] = {}
        for code, release in enumerate(self._tables.releases):
            if possible[:, code].any():
                spoken[_generation(self._catalogue.of(release).based_on), release] = possible[
                    :, code
                ]
        for release in ZOOKEEPER_RELEASES:
            name = generation_of(release, "zk")
            others = np.array([not _may_be(t, name) for t in told], dtype=bool)
            if release == ZOOKEEPER_RELEASES[0]:  # what its controllers cannot have written
                others[self._evidence.levels.modern] = True
            which = self.zookeeper & ~others
            if which.any():
                spoken[name, release] = which
        return spoken

    def _possible(self, told: list[str]) -> npt.NDArray[np.bool_]:
        """[clusters, releases] which releases the controllers of KRaft clusters may run."""
        evidence, tables, subjects = self._evidence, self._tables, self._evidence.subjects
        counts = evidence.answering.of_subject >= 0
        controllers = counts & (subjects.role == Role.CONTROLLER)
        shown = np.zeros(len(evidence.clusters), dtype=bool)
        shown[subjects.cluster[controllers]] = True
        speaks = np.where(shown[subjects.cluster], controllers, counts)
        possible = np.zeros((len(evidence.clusters), len(tables.releases)), dtype=bool)
        np.logical_or.at(possible, subjects.cluster[speaks], self.runs[speaks])
        for i, release in ((i, release) for i, release in enumerate(told) if release):
            code = tables.release_code(self._catalogue.release_named(release) or "")
            if code >= 0:  # the owner's word decides between look-alikes, or is one candidate more
                possible[i] &= ~possible[i, code]
                possible[i, code] = True
        return possible & ~self.zookeeper[:, None]


@cache
def _generation(release: str) -> str:
    """The dialect of KRaft controllers of a release; of one newer than all, the newest there is."""
    try:
        return generation_of(release, "kraft")
    except KeyError:
        return GENERATIONS[-1]


@cache
def _unlike(names: tuple[str, ...], first: str) -> tuple[str, ...]:
    alike = {load(name).judges_by: name for name in names}
    if first:
        alike[load(first).judges_by] = first
    return tuple(sorted(alike.values()))


def _may_be(told: str, generation: str) -> bool:
    """Whether the release the inventory names is of a generation of ZooKeeper mode, or silent."""
    try:
        return not told or generation_of(told, "zk") == generation
    except KeyError:  # no release that has a ZooKeeper mode: the evidence counts
        return True
