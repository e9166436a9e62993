"""Turns snapshot rows into the columns the rules look at; absence gets its value here, once.

A feature a node does not list reads 0-0, `metadata.version` on KRaft 1-1; a feature nobody
finalized is at level 0. No mask ever meets a null. What cannot be known is said in flags beside
the columns, so that a missing value never decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from featurelib.core.columns import Bool, Flat, Int, distinct, find, pick
from featurelib.core.features_node import Generation
from featurelib.core.levels import Levels, read_levels
from featurelib.core.nodes import Membership, Subjects, read_nodes
from featurelib.core.profiles import Profiles
from featurelib.feature import METADATA_VERSION, Witness


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the inventory says of one cluster."""

    brokers: tuple[int, ...] = ()
    controllers: tuple[int, ...] = ()
    vouched: bool = False  # the owner stands for the registrations being complete
    generation: Generation | None = None  # of a ZooKeeper-mode cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What judging depends on beside the evidence: time and the inventory. Microseconds."""

    as_of: int
    max_age: int
    inventory: dict[str, Expected] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """One row for each (cluster, feature) anybody supports or finalized, sorted by both.

    `current` 0 = not finalized. Pairs (rows of `pair_…`) are (question, distinct profile that must
    answer); those of one question lie together from `pair_first`.
    """

    cluster: Int
    feature: Int  # position in names
    names: list[str]
    current: Int
    finalized_min: Int
    known: Bool  # whether a trustworthy witness says what is finalized
    pair_first: Int
    pair_count: Int
    pair_question: Int
    pair_profile: Int  # row of Answering
    pair_min: Int
    pair_max: Int
    pair_listed: Bool
    pair_unclear: Bool  # not listed, in an answer that may leave features out


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """The distinct (cluster, profile) that must answer, and which subjects stand behind each."""

    cluster: Int
    first: Int  # of each cluster
    count: Int
    of_subject: Int  # -1 = the subject's range is not known, or too old to count
    subject_order: Int  # subjects by answering profile
    subject_first: Int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A batch of clusters, ready to be judged."""

    clusters: list[str]
    landed: Bool
    oddities: list[list[str]]
    subjects: Subjects
    membership: Membership
    levels: Levels
    answering: Answering
    questions: Questions
    observers: Flat
    listener_errors: pa.Array

    def errors(self, listener: int) -> str:
        """Why a listener did not answer, in the collector's words."""
        return self.listener_errors[listener].as_py() or "no reason given"

    def expand(self, pairs: Int) -> tuple[Int, Int]:
        """Every subject behind the given pairs: (pair, subject), one row each."""
        answering = self.answering
        profile = self.questions.pair_profile[pairs]
        count = answering.subject_first[profile + 1] - answering.subject_first[profile]
        pair = np.repeat(pairs, count)
        begin = np.repeat(answering.subject_first[profile] - (np.cumsum(count) - count), count)
        return pair, answering.subject_order[begin + np.arange(len(pair))]


def read(batch: pa.RecordBatch, conditions: Conditions, absent_metadata: int) -> Evidence:
    """Evidence from rows of featurelib.schema.SNAPSHOT (`state` is not needed)."""
    names: list[str] = batch.column("cluster").to_pylist()
    inventory = conditions.inventory
    known = {i: inventory[name] for i, name in enumerate(names) if name in inventory}
    profiles = Profiles(batch.column("profiles"))
    vouched = np.zeros(len(names), dtype=bool)
    vouched[[i for i, entry in known.items() if entry.vouched]] = True
    levels = read_levels(
        batch,
        as_of=conditions.as_of,
        max_age=conditions.max_age,
        generations={i: e.generation for i, e in known.items() if e.generation is not None},
    )
    subjects, membership = read_nodes(
        batch,
        profiles,
        as_of=conditions.as_of,
        max_age=conditions.max_age,
        expected=_expected_keys(known),
        vouched=vouched,
        system_off=levels.system_off,
    )
    oddities: list[list[str]] = batch.column("oddities").to_pylist()
    for i, entries in enumerate(oddities):
        believed = Witness(int(levels.kind[i])).name.lower() if levels.kind[i] >= 0 else ""
        odd = f"epoch_went_back:{believed} "
        levels.went_back[i] = any(entry.startswith(odd) for entry in entries or ())
    answering, profile = _answering(subjects, len(names))
    questions = _ask(profiles, levels, membership, answering, profile, subjects, absent_metadata)
    landed = batch.column("observed_at").is_valid().to_numpy(zero_copy_only=False)
    return Evidence(
        clusters=names,
        landed=landed,
        oddities=oddities,
        subjects=subjects,
        membership=membership,
        levels=levels,
        answering=answering,
        questions=questions,
        observers=Flat(batch.column("observers")),
        listener_errors=Flat(batch.column("listeners")).child("error"),
    )


def _expected_keys(known: dict[int, Expected]) -> Int:
    keys = [(i << 32) | node for i, entry in known.items() for node in entry.brokers]
    keys += [(i << 32) | 1 << 31 | node for i, entry in known.items() for node in entry.controllers]
    return np.array(sorted(keys), dtype=np.int64)


def _answering(subjects: Subjects, clusters: int) -> tuple[Answering, Int]:
    """Distinct (cluster, profile, partial) of the subjects that count, and their profiles."""
    counts = (subjects.profile >= 0) & ~subjects.too_old & ~subjects.expected_only
    key = (subjects.cluster << 33) | (subjects.profile << 1) | subjects.partial
    profiles_of, inverse = _positions(key[counts])
    of_subject = np.full(len(key), -1, dtype=np.int64)
    of_subject[counts] = inverse
    cluster = profiles_of >> 33
    order = np.flatnonzero(counts)[np.argsort(inverse, kind="stable")]
    per_profile = np.bincount(inverse, minlength=len(profiles_of))
    per_cluster = np.bincount(cluster, minlength=clusters)
    answering = Answering(
        cluster=cluster,
        first=np.cumsum(per_cluster) - per_cluster,
        count=per_cluster,
        of_subject=of_subject,
        subject_order=order,
        subject_first=np.concatenate(([0], np.cumsum(per_profile))),
    )
    return answering, (profiles_of >> 1) & 0xFFFFFFFF


def _positions(keys: Int) -> tuple[Int, Int]:
    """The distinct keys, ascending, and the position of each key among them."""
    found = distinct(keys)
    return found, np.searchsorted(found, keys)


def _ask(
    profiles: Profiles,
    levels: Levels,
    membership: Membership,
    answering: Answering,
    profile: Int,
    subjects: Subjects,
    absent_metadata: int,
) -> Questions:
    # Every (answering profile, entry of its map).
    entries = np.bincount(profiles.entry_profile, minlength=profiles.empty + 1)
    first_entry = np.cumsum(entries) - entries
    lengths = entries[profile]
    owner = np.repeat(np.arange(len(profile)), lengths)
    begin = np.repeat(first_entry[profile] - (np.cumsum(lengths) - lengths), lengths)
    entry = begin + np.arange(len(owner))

    code, names = _feature_codes(profiles.names, levels.names)
    of_entry, of_level = code[: len(profiles.names)][entry], code[len(profiles.names) :]
    width = max(len(names), 1)
    asked = answering.cluster[owner] * width + of_entry
    finalized = levels.entry_cluster * width + of_level
    keys = distinct(np.concatenate((asked, finalized)))
    cluster, feature = keys // width, keys % width

    pair_count = answering.count[cluster]
    pair_first = np.cumsum(pair_count) - pair_count
    pair_question = np.repeat(np.arange(len(keys)), pair_count)
    within = np.arange(len(pair_question)) - np.repeat(pair_first, pair_count)
    pair_profile = answering.first[cluster][pair_question] + within

    metadata = names.index(METADATA_VERSION) if METADATA_VERSION in names else -1
    on_kraft = membership.kraft | ~membership.zookeeper
    absent = np.where((feature == metadata) & on_kraft[cluster], absent_metadata, 0)
    pair_min = absent[pair_question].copy()
    pair_max = pair_min.copy()
    listed = np.zeros(len(pair_question), dtype=bool)
    at = find(keys, asked)
    pair = pair_first[at] + owner - answering.first[answering.cluster[owner]]
    pair_min[pair], pair_max[pair] = profiles.entry_min[entry], profiles.entry_max[entry]
    listed[pair] = True

    current = np.zeros(len(keys), dtype=np.int64)
    minimum = np.zeros(len(keys), dtype=np.int64)
    at = find(keys, finalized)
    current[at], minimum[at] = levels.entry_level, levels.entry_min
    known = levels.trusted[cluster] & ~levels.too_old[cluster] & (current >= 0)
    known &= ~levels.went_back[cluster]
    disputed = [c * width + names.index(name) for c, name, _ in levels.disputed if name in names]
    known[np.isin(keys, disputed)] = False
    partial = np.zeros(len(profile), dtype=bool)
    counts = answering.of_subject >= 0
    partial[answering.of_subject[counts]] = subjects.partial[counts]
    return Questions(
        cluster=cluster,
        feature=feature,
        names=names,
        current=np.maximum(current, 0),
        finalized_min=np.maximum(minimum, 0),
        known=known,
        pair_first=pair_first,
        pair_count=pair_count,
        pair_question=pair_question,
        pair_profile=pair_profile,
        pair_min=pair_min,
        pair_max=pair_max,
        pair_listed=listed,
        pair_unclear=~listed & pick(partial.astype(np.int64), pair_profile, 0).astype(bool),
    )


def _feature_codes(*columns: pa.Array) -> tuple[Int, list[str]]:
    """The rank of each name among all distinct names, and these in order."""
    joined = pa.concat_arrays(list(columns)).dictionary_encode()
    names: list[str] = joined.dictionary.to_pylist()
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    codes = joined.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return (rank[codes] if len(codes) else codes), [names[i] for i in order]
