"""What bounds each feature: the ceiling to reach, what is known, stable, seen and common.

The ceiling comes from the catalogue for the features it knows, and from the nodes for all others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from featurelib.catalogue import Catalogue
from featurelib.core.columns import Int
from featurelib.core.evidence import Evidence
from featurelib.core.questions import Questions
from featurelib.feature import METADATA_VERSION

UNLIMITED = -1  # the catalogue does not know the feature, so it sets no bound
UNCLEAR = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the catalogue says about each question. int64; UNLIMITED where it knows nothing."""

    ceiling: Int
    newest_known: Int
    newest_stable: Int
    seen: Int  # the highest level any node supports
    common: Int  # the lowest of the nodes' highest levels


def bounds(evidence: Evidence, catalogue: Catalogue) -> Bounds:
    """The ceiling of each question: the production default at the newest stable
    metadata.version any node supports, below what moves only by name, or, for unknown features, the
    highest level seen."""
    asked = evidence.questions
    seen = _reduce(np.maximum, asked, asked.pair_max)
    # A node whose answer may leave the feature out says nothing of it, least of all 0.
    common = _reduce(np.minimum, asked, np.where(asked.pair_unclear, UNCLEAR, asked.pair_max))
    ceiling = seen.copy()
    newest_known = np.full(len(seen), UNLIMITED, dtype=np.int64)
    newest_stable = newest_known.copy()
    newest, stable = (ends[asked.cluster] for ends in _stable_ends(evidence, catalogue))
    for code, name in enumerate(asked.names):
        if name not in catalogue.features:
            continue
        mine = asked.feature == code
        newest_known[mine] = catalogue.newest_known(name)
        if name == METADATA_VERSION:
            newest_stable[mine], ceiling[mine] = stable[mine], newest[mine]
        else:
            ceiling[mine] = catalogue.ceiling(name, newest[mine], asked.current[mine])
    return Bounds(
        ceiling=np.maximum(ceiling, asked.current),
        newest_known=newest_known,
        newest_stable=newest_stable,
        seen=seen,
        common=np.minimum(common, seen),
    )


def _reduce(by: np.ufunc, asked: Questions, values: Int) -> Int:
    result = np.zeros(len(asked.cluster), dtype=np.int64)
    some = asked.pair_count > 0
    if some.any():
        result[some] = by.reduceat(values, asked.pair_first[some])
    return result


def _stable_ends(evidence: Evidence, catalogue: Catalogue) -> tuple[Int, Int]:
    """The newest stable metadata.version that any node of each cluster supports, and the one above
    which some node's own software calls a level it supports unstable."""
    asked, subjects, answering = evidence.questions, evidence.subjects, evidence.answering
    newest = np.zeros(len(evidence.clusters), dtype=np.int64)
    if METADATA_VERSION not in asked.names:
        return newest, newest
    by_profile = np.zeros(len(answering.cluster), dtype=np.int64)
    mine = asked.feature[asked.pair_question] == asked.names.index(METADATA_VERSION)
    by_profile[asked.pair_profile[mine]] = asked.pair_max[mine]
    table = catalogue.stable_up_to().astype(np.int64)
    counts = answering.of_subject >= 0
    supported = by_profile[answering.of_subject[counts]]
    stable = table[np.minimum(supported, len(table) - 1)]
    own = subjects.stable_metadata[counts]
    stable = np.where(own > 0, np.minimum(stable, own), stable)
    cluster, more = subjects.cluster[counts], stable < supported
    np.maximum.at(newest, cluster, stable)
    lowest = newest.copy()
    np.minimum.at(lowest, cluster[more], stable[more])
    return newest, lowest
