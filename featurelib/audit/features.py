"""List the questions that rules answer: every feature of every cluster, with the ranges that count.

Nodes advertise maps feature → range. Each distinct map of a cluster stands once, as a *profile*;
nodes point to it, and rules read profiles. A *question* is a (cluster, feature) that any node
supports or that is finalized; a *pair* is a question and a profile of the cluster that must answer
it. Two clusters with three profiles:

    cluster  node           profile                                finalized
    east     broker 1       0: f 1-5, metadata.version 7-25        f 2, metadata.version 20
    east     broker 2       1: f 2-3, metadata.version 7-22
    east     controller 11  0
    west     broker 1       2: f 1-5                               f 1

    question  cluster  feature           current      pair  question  profile  min  max
    0         east     f                 2            0     0         0        1    5
                                                      1     0         1        2    3
    1         east     metadata.version  20           2     1         0        7    25
                                                      3     1         1        7    22
    2         west     f                 1            4     2         2        1    5

So `pair_first` is 0, 2, 4, `pair_count` is 2, 2, 1, and of two numbers the pair of a question and a
profile is `pair_first[question] + profile - answering.first[cluster]`. Columns go to the engine by
fleet.py; core/judge.py follows the example to the mask.

This module gives a value to features that a profile does not list: 0-0, and for `metadata.version`
on KRaft the value in the policy's table. A response that may leave out features makes a pair
`unclear`, and such a pair refuses nothing. Two traps: a pair is not a node, and the level of a
question may be unknown (`known`). A new column of Questions needs no other change. A new order of
pairs needs a change in fleet.py, which finds pairs by the sum above.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from featurelib.audit.columns import marked, positions
from featurelib.audit.finalized import Levels
from featurelib.audit.profiles import Profiles
from featurelib.audit.registrations import Membership, Subjects
from featurelib.core.rules import incompatible_with_finalized
from featurelib.feature import METADATA_VERSION
from featurelib.rows import NONE, Bool, Int, Texts, spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The (cluster, feature) pairs of a batch, sorted; called questions in the code.

    `current`: the finalized level, 0 = not finalized. `pair_…`: columns of (question, distinct
    profile that must support the level); those of a question begin at `pair_first`."""

    cluster: Int
    feature: Int  # the feature's position in `names`
    names: list[str]
    current: Int
    finalized_min: Int
    known: Bool  # true if a trusted source reports the finalized level
    pair_first: Int
    pair_count: Int
    pair_question: Int
    pair_profile: Int  # the row of the node's profile in Answering
    pair_min: Int
    pair_max: Int
    pair_listed: Bool
    pair_unclear: Bool  # true if the profile lacks the feature because the response may be partial
    pair_unfit: Bool  # true if the node does not support the finalized level or its minimum

    def of_feature(self, name: str) -> Bool:
        """Return a mask of the (cluster, feature) pairs with the feature `name`."""
        return self.feature == (self.names.index(name) if name in self.names else -1)

    def listed(self, ends: Int, pair: Int) -> Int:
        """Return one range end of each (profile, feature) pair; NONE if it is missing."""
        return np.where(self.pair_listed[pair], ends[pair], NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """The distinct range maps (profiles) that must support a level, and the nodes of each map."""

    cluster: Int
    partial: Bool  # true if the response may omit features with minimum 0
    first: Int  # by cluster: the row of its first profile
    count: Int
    of_subject: Int  # by node: the row of its profile here; -1 = no recent range
    subject_order: Int  # the nodes, sorted by their profile here
    subject_first: Int


def answer(subjects: Subjects, profiles: Profiles) -> tuple[Answering, Int]:
    """Return (distinct profiles per cluster, their range maps) of nodes with a usable range."""
    counts = (subjects.profile >= 0) & ~subjects.too_old & ~subjects.expected_only
    # Each cluster has a number for each of its profiles, and another for the empty profile.
    clusters = len(profiles.first)
    begin = profiles.first + np.arange(clusters)
    owner, profile = subjects.cluster[counts], subjects.profile[counts]
    local = profile - profiles.first[owner]
    local = np.where(profile == profiles.empty, profiles.count[owner], local)
    places, inverse = positions(
        (begin[owner] + local) << 1 | subjects.partial[counts], (profiles.empty + clusters) << 1
    )
    of_subject = np.full(len(subjects.cluster), -1, dtype=np.int64)
    of_subject[counts] = inverse
    question = places >> 1
    cluster = np.searchsorted(begin, question, side="right") - 1
    local = question - begin[cluster]
    profile = np.where(
        local == profiles.count[cluster], profiles.empty, profiles.first[cluster] + local
    )
    per_cluster = np.bincount(cluster, minlength=clusters)
    answering = Answering(
        cluster=cluster,
        partial=(places & 1) > 0,
        first=np.cumsum(per_cluster) - per_cluster,
        count=per_cluster,
        of_subject=of_subject,
        subject_order=np.flatnonzero(counts)[np.argsort(inverse, kind="stable")],
        subject_first=np.concatenate(([0], np.cumsum(np.bincount(inverse, minlength=len(places))))),
    )
    return answering, profile


def ask(
    profiles: Profiles,
    levels: Levels,
    membership: Membership,
    answering: Answering,
    profile: Int,
    absent_metadata: int,
) -> Questions:
    """Return the (cluster, feature) pairs and the (profile, feature) pairs of a batch. `profile`:
    the range map of each answering profile; `absent_metadata`: the level of a KRaft node that does
    not list metadata.version."""
    # Every (answering profile, feature in its map), and every (cluster, finalized feature).
    owner, entry = spread(profiles.start[profile], profiles.size[profile])
    of_entry, of_level, names = _feature_codes(profiles, levels.names)
    width = max(len(names), 1)
    keys_asked = answering.cluster[owner] * width + of_entry[entry]
    finalized = levels.entry_cluster * width + of_level
    keys, at = positions(np.concatenate((keys_asked, finalized)), len(answering.first) * width)
    at_asked, at_finalized = at[: len(keys_asked)], at[len(keys_asked) :]
    cluster, feature = keys // width, keys % width

    pair_count = answering.count[cluster]
    pair_first = np.cumsum(pair_count) - pair_count
    pair_question, pair_profile = spread(answering.first[cluster], pair_count)
    metadata = names.index(METADATA_VERSION) if METADATA_VERSION in names else -1
    on_kraft = ~membership.on_zookeeper[cluster]
    absent = np.where((feature == metadata) & on_kraft, absent_metadata, 0)
    pair_min = absent[pair_question]
    pair_max = pair_min.copy()
    pair = pair_first[at_asked] + owner - answering.first[answering.cluster[owner]]
    pair_min[pair], pair_max[pair] = profiles.entry_min[entry], profiles.entry_max[entry]
    listed = marked(len(pair_question), pair)

    current, minimum = np.zeros((2, len(keys)), dtype=np.int64)
    current[at_finalized], minimum[at_finalized] = levels.entry_level, levels.entry_min
    disputed = [c * width + names.index(name) for c, name, _ in levels.disputed if name in names]
    is_known = levels.believed[cluster] & (current >= 0) & ~np.isin(keys, disputed)
    current, minimum = np.maximum(current, 0), np.maximum(minimum, 0)
    unclear = ~listed & answering.partial[pair_profile]
    # A finalized minimum counts only if the znode stores minimums; otherwise the value is 0 or the
    # level.
    lowest = np.where(minimum > 0, minimum, current)
    ends = (lowest[pair_question], current[pair_question], pair_min, pair_max)
    unfit = incompatible_with_finalized(*(end.astype(np.int32) for end in ends))
    return Questions(
        cluster=cluster,
        feature=feature,
        names=names,
        current=current,
        finalized_min=minimum,
        known=is_known,
        pair_first=pair_first,
        pair_count=pair_count,
        pair_question=pair_question,
        pair_profile=pair_profile,
        pair_min=pair_min,
        pair_max=pair_max,
        pair_listed=listed,
        pair_unclear=unclear,
        pair_unfit=unfit & is_known[pair_question] & ~unclear,
    )


def _feature_codes(profiles: Profiles, finalized: Texts) -> tuple[Int, Int, list[str]]:
    """Return (positions of supported features, positions of finalized features, sorted names)."""
    used, of_entry = positions(profiles.entry_feature, len(profiles.names))
    of_profiles = [profiles.names[code] for code in used.tolist()]
    finalized_used, at = positions(finalized.codes, len(finalized.words))
    of_levels = [finalized.words[code] for code in finalized_used.tolist()]
    names = sorted({*of_profiles, *of_levels})
    rank = {name: code for code, name in enumerate(names)}
    entries, levels = (
        np.array([rank[name] for name in of], dtype=np.int64) for of in (of_profiles, of_levels)
    )
    return entries[of_entry], levels[at], names
