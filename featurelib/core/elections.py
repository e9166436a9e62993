"""What elections make of the features nodes of a fleet: question (d) of the core, for a batch.

Every broker that may become controller counts, in every dialect its cluster may speak, and each
distinct text is read once a dialect. What a broker must live with afterwards is asked of the rules.
Where the node or a broker's range is not known, neither is the outcome: it says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa

from featurelib.core.batch import Flags, Ints
from featurelib.core.cluster import Features
from featurelib.core.dialect import Dialect, load
from featurelib.core.election import ENABLED, Election, created, demands, foresee, unfit_for
from featurelib.core.evidence import Evidence
from featurelib.core.living_with import Wanted, brokers_of, misfits
from featurelib.core.own_dialect import OwnDialects
from featurelib.core.protocol_versions import knows
from featurelib.feature import Witness

ANYBODY, UNKNOWN_RANGE = -1, -2  # in place of an answering profile


class Doubt(StrEnum):
    """Why nobody can say what an election does."""

    MALFORMED = "malformed"  # its snapshot row
    NOT_ZOOKEEPER = "not_zookeeper"  # no controller of ZooKeeper mode is elected there
    NOT_READ = "not_read"  # whether there is a features node
    TOO_OLD = "too_old"  # the reading of the node
    NO_DIALECT = "no_dialect"  # no release that may run there knows the protocol version
    NO_BROKER = "no_broker"  # nobody is there to be elected


@dataclass(frozen=True, slots=True, kw_only=True)
class Elections:
    """K outcomes: one a cluster and dialect; where there is no node, one a profile of brokers.

    `found` is the election of whoever can live with the node, and NOBODY where no broker can.
    A misfit (rows of `misfit_…`) is a profile that cannot live with what stands there afterwards.
    """

    doubts: tuple[tuple[int, Doubt], ...]  # clusters of which nothing is said
    cluster: Ints  # [K]
    dialect: tuple[str, ...]  # [K]
    elected: Ints  # [K] the answering profile of who is elected; ANYBODY, UNKNOWN_RANGE
    found: tuple[Election, ...]  # [K]
    version: Ints  # [K] of the node afterwards: the epoch
    doubtful: Flags  # [K] a range that is not known could change it, or who stops over it
    misfit: Ints  # outcome
    misfit_profile: Ints  # row of Answering
    misfit_feature: tuple[str, ...]

    @property
    def loses(self) -> Flags:
        """[K] whether a finalized level is lost."""
        return np.array([bool(one.lost) for one in self.found], dtype=bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    cluster: int
    dialect: Dialect
    elected: int
    found: Election


def elections_of_fleet(
    batch: pa.RecordBatch, evidence: Evidence, own: OwnDialects, protocol_version: str
) -> Elections:
    """The next election of each cluster in ZooKeeper mode, with every broker at one
    inter.broker.protocol.version. `batch` are the rows that `evidence` was read from."""
    return _Fleet(batch, evidence, own, protocol_version).ask()


class _Fleet:
    def __init__(
        self, batch: pa.RecordBatch, evidence: Evidence, own: OwnDialects, version: str
    ) -> None:
        self._evidence, self._own, self._version = evidence, own, version
        self._texts = batch.column("features_node")
        self._brokers = brokers_of(evidence)
        self._known: dict[tuple[str | None, str], Election] = {}

    def ask(self) -> Elections:
        able = {name: d for name, d in self._dialects().items() if knows(d, self._version)}
        outcomes, doubts = list[_Outcome](), list[tuple[int, Doubt]]()
        for position in range(len(self._evidence.clusters)):
            spoken = {n for (n, _), which in self._own.spoken.items() if which[position]}
            mine = sorted(spoken & able.keys())
            doubt = self._doubt(position, mine)
            if doubt is not None:
                doubts.append((position, doubt))
            for name in () if doubt is not None else mine:
                outcomes += self._outcomes(position, able[name])
        return self._judged(outcomes, doubts)

    def _dialects(self) -> dict[str, Dialect]:
        return {name: load(name) for name, _ in self._own.spoken}

    def _doubt(self, position: int, able: list[str]) -> Doubt | None:
        levels = self._evidence.levels
        if position in self._evidence.malformed:
            return Doubt.MALFORMED
        if not self._own.zookeeper[position]:
            return Doubt.NOT_ZOOKEEPER
        if levels.kind[position] != Witness.FEATURES_NODE:
            return Doubt.NOT_READ
        if levels.too_old[position]:
            return Doubt.TOO_OLD
        if not able:
            return Doubt.NO_DIALECT
        return None if self._brokers.number[position] else Doubt.NO_BROKER

    def _outcomes(self, position: int, dialect: Dialect) -> Iterator[_Outcome]:
        """What comes of the node: by broker only where none is there, so that one makes it."""
        text: str | None = self._texts[position].as_py()
        foreseen = self._foresee(text, dialect)
        content = foreseen.content
        if text is not None or content is None or content.status != ENABLED:
            yield _Outcome(cluster=position, dialect=dialect, elected=ANYBODY, found=foreseen)
            return
        answering = self._evidence.answering
        first, count = int(answering.first[position]), int(answering.count[position])
        for profile in range(first, first + count):
            if self._brokers.counts[profile]:
                found = created(foreseen, self._supported(profile), dialect)
                yield _Outcome(cluster=position, dialect=dialect, elected=profile, found=found)
        if self._brokers.silent[position]:
            yield _Outcome(cluster=position, dialect=dialect, elected=UNKNOWN_RANGE, found=foreseen)

    def _foresee(self, text: str | None, dialect: Dialect) -> Election:
        """Read once, however many clusters hold the same text."""
        key = text, dialect.name
        if key not in self._known:
            self._known[key] = foresee(text, self._version, dialect)
        return self._known[key]

    def _supported(self, profile: int) -> Features:
        """What a profile lists, by name."""
        asked, answering = self._evidence.questions, self._evidence.answering
        position = int(answering.cluster[profile])
        begin, end = np.searchsorted(asked.cluster, (position, position + 1)).tolist()
        pairs = asked.pair_first[begin:end] + profile - answering.first[position]
        listed = asked.pair_listed[pairs]
        names = [asked.names[code] for code in asked.feature[begin:end][listed].tolist()]
        low, high = (ends[pairs][listed].tolist() for ends in (asked.pair_min, asked.pair_max))
        return {name: (a, b) for name, a, b in zip(names, low, high, strict=True)}

    def _judged(self, outcomes: list[_Outcome], doubts: list[tuple[int, Doubt]]) -> Elections:
        """The outcomes, and every profile of its cluster that cannot live with each."""
        cluster = np.array([one.cluster for one in outcomes], dtype=np.int64)
        elected = np.array([one.elected for one in outcomes], dtype=np.int64)
        of, wanted = self._wanted(outcomes)
        missed = misfits(self._evidence, self._brokers, wanted)
        doubtful = elected == UNKNOWN_RANGE
        doubtful[of[self._brokers.silent[wanted.cluster]]] = True
        misfit, profile = of[missed.wanted], missed.profile
        names = tuple(wanted.names[i] for i in missed.wanted.tolist())
        found = [one.found for one in outcomes]
        unfit: dict[int, set[str]] = {}
        for k, name in zip(misfit.tolist(), names, strict=True):
            unfit.setdefault(k, set()).add(name)
        for k in self._nobody_fits(cluster, elected, misfit, profile, doubtful):
            text: str = self._texts[int(cluster[k])].as_py()
            found[k] = unfit_for(found[k], text, tuple(sorted(unfit[k])))
        epoch = self._evidence.levels.epoch[cluster].tolist()
        version = [one.version(before) for one, before in zip(found, epoch, strict=True)]
        return Elections(
            doubts=tuple(doubts),
            cluster=cluster,
            dialect=tuple(one.dialect.name for one in outcomes),
            elected=elected,
            found=tuple(found),
            version=np.array(version, dtype=np.int64),
            doubtful=doubtful,
            misfit=misfit,
            misfit_profile=profile,
            misfit_feature=names,
        )

    def _wanted(self, outcomes: list[_Outcome]) -> tuple[Ints, Wanted]:
        """Every level that stands in an enabled node afterwards, and of which outcome it is."""
        rows = [
            (k, *demand)
            for k, one in enumerate(outcomes)
            if one.found.content is not None and one.found.content.status == ENABLED
            for demand in demands(one.found.content.levels, one.dialect)
        ]
        columns = [(k, outcomes[k].cluster, low, level) for k, _, low, level in rows]
        of, cluster, lowest, level = np.array(columns, dtype=np.int64).reshape(-1, 4).T
        names = [name for _, name, _, _ in rows]
        return of, Wanted(cluster=cluster, names=names, lowest=lowest, level=level)

    def _nobody_fits(
        self, cluster: Ints, elected: Ints, misfit: Ints, profile: Ints, doubtful: Flags
    ) -> list[int]:
        """The outcomes with a node that surely no broker of their cluster can live with."""
        pairs = np.unique(np.stack((misfit, profile)), axis=1)
        unfit = np.bincount(pairs[0], minlength=len(cluster))
        of_cluster = self._evidence.answering.cluster[self._brokers.counts]
        count = np.bincount(of_cluster, minlength=len(self._evidence.clusters))
        none = (elected == ANYBODY) & ~doubtful & (unfit > 0) & (unfit == count[cluster])
        return [int(k) for k in np.flatnonzero(none)]
