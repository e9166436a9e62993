"""Which brokers of a fleet could live with levels that would stand in their features node (M7).

ZooKeeper mode: a broker ends over any level that it does not support, and over a feature it does
not list.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from featurelib.core.batch import Flags, Ints
from featurelib.core.columns import find, pick
from featurelib.core.election import cannot_live_with
from featurelib.core.evidence import Evidence
from featurelib.feature import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """The brokers of a fleet that may be alive, by answering profile P and by cluster C."""

    counts: Flags  # [P] some broker stands behind the profile
    number: Ints  # [C]
    silent: Flags  # [C] of some broker nobody knows the range


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """E levels that would stand there."""

    cluster: Ints
    names: list[str]
    lowest: Ints
    level: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfits:
    """M pairs (one of the levels wanted, answering profile) that do not fit."""

    wanted: Ints
    profile: Ints


def brokers_of(evidence: Evidence) -> Brokers:
    """Who may be alive: what only the inventory speaks of is left out."""
    who, answering = evidence.subjects, evidence.answering
    clusters, profiles = len(evidence.clusters), len(answering.cluster)
    broker = (who.role == Role.BROKER) & ~who.expected_only
    asked = broker & (answering.of_subject >= 0) & ~mute(evidence)
    counts = np.zeros(profiles, dtype=bool)
    counts[answering.of_subject[asked]] = True
    unknown = who.cluster[broker & ~asked]
    return Brokers(
        counts=counts,
        number=np.bincount(who.cluster[broker], minlength=clusters),
        silent=np.bincount(unknown, minlength=clusters) > 0,
    )


def mute(evidence: Evidence) -> Flags:
    """[subjects] whose software's ranges nobody knows though something was registered.

    A registration without features is the word of a protocol version below 2.7, and not of the
    software: only the broker's own answer tells that, where the system is off and it counts.
    """
    who = evidence.subjects
    off = evidence.levels.system_off[who.cluster]
    return who.listed_nothing & ~(off & (who.answered_at > 0))


def misfits(evidence: Evidence, brokers: Brokers, wanted: Wanted) -> Misfits:
    """Every profile of each cluster that cannot live with a level wanted there."""
    asked, answering = evidence.questions, evidence.answering
    count = answering.count[wanted.cluster]
    at = np.repeat(np.arange(len(count)), count)
    within = np.arange(len(at)) - np.repeat(np.cumsum(count) - count, count)
    profile = answering.first[wanted.cluster][at] + within
    counts = brokers.counts[profile]
    at, profile, within = at[counts], profile[counts], within[counts]
    width = max(len(asked.names), 1)
    code = {name: i for i, name in enumerate(asked.names)}
    feature = np.array([code.get(name, -1) for name in wanted.names], dtype=np.int64)
    key = np.where(feature >= 0, wanted.cluster * width + feature, -1)
    question = find(asked.cluster * width + asked.feature, key)[at]
    pair = np.where(question >= 0, pick(asked.pair_first, question, 0) + within, -1)
    listed = pick(asked.pair_listed.astype(np.int64), pair, 0) == 1
    low, high = (pick(ends, pair, 0).astype(np.int32) for ends in (asked.pair_min, asked.pair_max))
    hit = cannot_live_with(
        wanted.lowest[at].astype(np.int32), wanted.level[at].astype(np.int32), low, high, ~listed
    )
    return Misfits(wanted=at[hit], profile=profile[hit])
