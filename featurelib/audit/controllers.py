"""Predict the responses of a cluster's own controllers to levels that the strict policy accepts.

READY needs both. A node's release follows from the requests it offers in ApiVersions
(catalogue/rows.py), from its ranges unless unstable features are on, and from the inventory, which
decides among matching releases. Every matching release is evaluated, and any refusal counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property

import numpy as np

from featurelib.audit.columns import find, marked, positions
from featurelib.audit.evidence import Evidence
from featurelib.audit.fleet import FleetColumns, Proposed
from featurelib.audit.profiles import NOBODY
from featurelib.audit.registrations import record_keys
from featurelib.catalogue import Catalogue
from featurelib.core.batch import Flags
from featurelib.core.dialect import GENERATIONS, generation_of, load, possible_releases
from featurelib.feature import METADATA_VERSION, Role, release_line
from featurelib.rows import Bool, Int, Texts, pick

# One release for each generation of ZooKeeper mode, in which brokers advertise no range.
ZOOKEEPER_RELEASES = ("3.2", "3.9")
RULED_OUT = 8  # a number of contradictions that no possible release reaches


class Software:
    """The possible releases of all nodes in a batch, and the dialects of their controllers.

    A set of possible releases is stored once: `_kinds` [sets, releases] has the distinct sets,
    `_kind` the set of each node."""

    def __init__(self, evidence: Evidence, texts: Sequence[str], catalogue: Catalogue) -> None:
        """Read the nodes' releases. `texts`: per cluster, the release in the inventory or ""."""
        self._evidence, self._catalogue, self._tables = evidence, catalogue, catalogue.tables
        self._told, self.fleet = texts, FleetColumns(evidence, catalogue.tables)
        # A node that lists an uncatalogued feature, or whose cluster finalized it, runs a vendor's
        # build. No source shows which Apache release such a build equals, not even the inventory.
        query, foreign = evidence.questions, evidence.uncatalogued(catalogue)
        # A node above its vendor's newest level in the overlay is a build that no row describes.
        newest = np.array([*map(catalogue.newest_of_vendor, query.names)], dtype=np.int64)
        of, above = query.pair_question, query.pair_max > newest[query.feature[query.pair_question]]
        pairs = query.pair_listed & (foreign[of] | above)
        of_profile = marked(len(evidence.answering.cluster) + 1, query.pair_profile[pairs])
        # By subject: true if the node runs a vendor's build.
        self.foreign: Bool = of_profile[evidence.answering.of_subject]
        self.foreign |= evidence.finalized_by_vendor(catalogue)[evidence.subjects.cluster]
        clusters = marked(len(evidence.clusters), evidence.subjects.cluster[self.foreign])
        self._told = ["" if of else text for text, of in zip(texts, clusters.tolist(), strict=True)]
        self._bits: Int = 1 << np.arange(len(self._tables.releases))
        profile = evidence.answering.of_subject
        of_ranges, is_exact = self._by_ranges()
        sets = pick(of_ranges @ self._bits, profile, 0)
        sets[self.inferred] = 0
        apis, offered_at = self._by_requests()
        agree = (sets & apis) != 0
        # No release that offers these requests advertises this range. So the feature is a vendor's,
        # or the node registered with other software since then.
        vendors = (profile >= 0) & ~agree & (apis != 0) & (offered_at >= evidence.subjects.at)
        sets = np.where(agree, sets & apis, np.where(vendors, apis, sets))
        sets[self.foreign] = 0
        # The inventory's release decides for each node that may run it.
        code = pick(self._inventory_codes(), evidence.subjects.cluster, NOBODY)
        releases = pick(self._bits, code, 0)
        may_run = (sets & releases) != 0
        self._sets: Int = np.where(may_run, releases, sets)
        # Without known requests, a range map that equals a release's complete map identifies the
        # release.
        on_zookeeper = evidence.membership.on_zookeeper[evidence.subjects.cluster]
        is_only = pick(is_exact.astype(np.int64), profile, 0) > 0
        self._sure = agree | vendors | may_run | (is_only & (apis == 0) & ~on_zookeeper)
        bits, self._kind = positions(self._sets, 1 << len(self._bits))
        self._kinds: Flags = (bits[:, None] & self._bits) > 0

    @property
    def runs(self) -> Flags:
        """The possible releases of each node: a mask [nodes, releases of the catalogue]."""
        return self._kinds[self._kind]

    @cached_property
    def beyond(self) -> Bool:
        """A mask of the nodes whose maximum metadata.version is above all known releases."""
        names, profile = self._evidence.questions.names, self._evidence.answering.of_subject
        if METADATA_VERSION not in names:
            return np.zeros(len(profile), dtype=bool)
        ends = self.fleet.ranges.max_version[profile, names.index(METADATA_VERSION)]
        return (profile >= 0) & (ends > 0) & ~np.isin(ends, [*self._catalogue.names])

    def with_stable_ends(self) -> Evidence:
        """Return the evidence with the newest stable metadata.version of each node, by ApiVersions
        or inventory. A node with unstable features advertises higher levels."""
        stable = self._tables.newest_stable[:, 0].astype(np.int64)
        high = np.where(self._kinds, stable, -1).max(axis=1)
        low = np.where(self._kinds, stable, np.iinfo(np.int16).max).min(axis=1)
        node = self._evidence.subjects
        is_known = self._sure & (high == low)[self._kind]
        # A level is unstable if any release that the node may run calls it unstable, whatever the
        # node's range is.
        is_known |= (node.stable_metadata > high[self._kind]) & (high >= 0)[self._kind]
        ends = np.where(is_known, high[self._kind], node.stable_metadata)
        return replace(self._evidence, subjects=replace(node, stable_metadata=ends))

    @cached_property
    def inferred(self) -> Bool:
        """Return a mask of migrating brokers in ZooKeeper mode that registered one level of
        metadata.version. Their real range is unknown and must be inferred."""
        evidence, names = self._evidence, self._evidence.questions.names
        node = evidence.subjects
        mask = (node.role == Role.BROKER) & (node.profile >= 0)
        migrating = evidence.membership.migrating[node.cluster] & mask
        if not migrating.any() or METADATA_VERSION not in names:
            return migrating
        ranges, column = self.fleet.ranges, names.index(METADATA_VERSION)
        is_single = ranges.min_version[:, column] == ranges.max_version[:, column]
        return migrating & (pick(is_single.astype(np.int64), evidence.answering.of_subject, 0) > 0)

    def _by_ranges(self) -> tuple[Flags, Flags]:
        """Return (possible releases [profiles, releases], mask of the profiles that a release
        advertises exactly)."""
        answering, names = self._evidence.answering, self._evidence.questions.names
        ranges, features = self.fleet.ranges, self._tables.features
        low, high = np.zeros((2, len(answering.cluster), len(features)), dtype=np.int32)
        codes = [code for code, name in enumerate(features) if name in names]
        at = [names.index(features[code]) for code in codes]
        low[:, codes] = ranges.min_version[: len(low), at]
        high[:, codes] = ranges.max_version[: len(low), at]
        return possible_releases(low, high, answering.partial, self._tables)

    def _by_requests(self) -> tuple[Int, Int]:
        """Return per node (the releases whose ApiVersions response offers the same requests, as
        bits; time of the response). 0 = no response or no such release."""
        listeners, node = self._evidence.listeners, self._evidence.subjects
        rows = np.flatnonzero(listeners.field("releases") >= 0)
        code, responded_at = listeners.field("releases")[rows], listeners.field("releases_at")[rows]
        apis, offered_at = np.zeros((2, len(node.key)), dtype=np.int64)
        at = find(node.key, record_keys(listeners)[rows])
        # A vendor's release counts as the Kafka release that it is based on.
        base_releases = [self._catalogue.of(release).based_on for release in self._tables.releases]
        for kind, first_offer in zip(*np.unique(code, return_index=True), strict=True):
            mask = (code == kind) & (at >= 0)
            lines = (listeners.text("releases", int(rows[first_offer])) or "").split(";")
            apis[at[mask]] = self._bits[[line in lines for line in base_releases]].sum()
            offered_at[at[mask]] = responded_at[mask]
        return apis, offered_at

    def _inventory_codes(self) -> Int:
        """Return per cluster the catalogue position of the release in the inventory, or -1."""
        codes = {text: self._tables.release_code(text) for text in set(self._told)}
        return np.array([codes[text] for text in self._told], dtype=np.int64)

    def weigh(self, subjects: Int) -> Int:
        """Return the evidence against each release, [subjects, releases]: the higher the number,
        the less likely the release. RULED_OUT = impossible, or nothing is known about the node."""
        node, stable = self._evidence.subjects, self._tables.newest_stable[:, 0]
        names = self._evidence.questions.names
        weight = np.where(self._kinds, np.int8(0), np.int8(RULED_OUT))[self._kind[subjects]]
        if METADATA_VERSION in names:
            profile = self._evidence.answering.of_subject[subjects]
            newest = self.fleet.ranges.max_version[profile, names.index(METADATA_VERSION)]
            weight += newest.astype(np.int16)[:, None] != stable
        stable_end = node.stable_metadata[subjects].astype(np.int16)
        weight += np.int8(2) * ((stable_end[:, None] != stable) & (stable_end > 0)[:, None])
        codes = pick(self._inventory_codes(), node.cluster[subjects], NOBODY)
        rows = np.flatnonzero(codes >= 0)
        weight += np.int8(4)
        weight[rows, codes[rows]] -= 4
        on_zookeeper = self._evidence.membership.on_zookeeper[node.cluster[subjects]]
        weight[self.beyond[subjects] | on_zookeeper] = RULED_OUT
        return weight.astype(np.int64)

    def releases_of(self, subjects: Int) -> Texts:
        """Return the release of each node, null if unknown. Of equally likely releases the oldest
        is chosen, because it knows the fewest features."""
        return Texts(words=self._tables.releases, codes=self._release[subjects])

    @cached_property
    def _release(self) -> Int:
        """The catalogue position of each node's release; -1 if unknown."""
        evidence, kind = self._evidence, self._kind
        size, release = self._kinds.sum(axis=1)[kind], self._kinds.argmax(axis=1)[kind]
        is_ambiguous = np.flatnonzero(size > 1)
        release[is_ambiguous] = self.weigh(is_ambiguous).argmin(axis=1)
        is_unknown = evidence.membership.on_zookeeper[evidence.subjects.cluster]
        release[is_unknown | self.beyond | (size == 0)] = NOBODY
        return release

    def span(self) -> tuple[Texts, Texts]:
        """Return per cluster the oldest and the newest release of the running nodes; without
        running nodes, the release in the inventory. Null = unknown."""
        node, nodes = self._evidence.subjects, np.flatnonzero(self._evidence.subjects.runs)
        release = self.releases_of(nodes).codes
        nodes, release = nodes[release >= 0], release[release >= 0]
        releases = [*self._tables.releases, *map(release_line, self._told)]
        codes = np.arange(len(releases) - len(self._told), len(releases))
        codes[[not text for text in self._told]] = NOBODY
        oldest, newest = np.full((2, len(codes)), len(releases)) * [[1], [-1]]
        np.minimum.at(oldest, node.cluster[nodes], release)
        np.maximum.at(newest, node.cluster[nodes], release)
        mask = marked(len(codes), node.cluster[nodes])
        ends = (Texts(words=releases, codes=np.where(mask, end, codes)) for end in (oldest, newest))
        return next(ends), next(ends)

    @cached_property
    def spoken(self) -> dict[tuple[str, str], Bool]:
        """Return (dialect, release) → mask of clusters whose controllers may run it."""
        zookeeper = self._evidence.membership.on_zookeeper
        possible = self._possible() & ~zookeeper[:, None]
        newest = GENERATIONS[-1]  # the dialect of releases newer than the catalogue
        dialects = {
            (generation_of(self._catalogue.of(release).based_on, "kraft", newest), release): mask
            for release, mask in zip(self._tables.releases, possible.T, strict=True)
            if mask.any()
        }
        # A release that never had ZooKeeper mode is a wrong entry of the inventory: use the
        # evidence.
        generations = [generation_of(text, "zk", "") for text in self._told]
        for release in ZOOKEEPER_RELEASES:
            name = generation_of(release, "zk")
            mask = zookeeper & np.array([line in ("", name) for line in generations], dtype=bool)
            if release == ZOOKEEPER_RELEASES[0]:  # this software is too old to have these levels
                mask[self._evidence.levels.modern] = False
            if mask.any():
                dialects[name, release] = mask
        return dialects

    def dialects_in(self, cluster: int, release_code: str | None = None) -> list[str]:
        """Return the possible dialects of a cluster's controllers. `release_code`: only dialects of
        this release."""
        pairs = (pair for pair, clusters in self.spoken.items() if clusters[cluster])
        return [name for name, release in pairs if release_code in (None, release)]

    @cached_property
    def active(self) -> Int:
        """Return per cluster the active controller's position in the nodes; NOBODY = unknown."""
        leaders = np.flatnonzero(self._evidence.may_lead(~self._evidence.subjects.expected_only))
        cluster = self._evidence.subjects.cluster[leaders]
        active = np.full(len(self._told), NOBODY)
        active[cluster] = leaders
        active[np.bincount(cluster, minlength=len(active)) != 1] = NOBODY
        return active

    def likeliest(self, subjects: Int) -> Int:
        """Return per node the catalogue position of the likeliest release. NOBODY = no data, or no
        single release is likeliest."""
        weight = self.weigh(subjects)
        least = weight.min(axis=1, keepdims=True, initial=RULED_OUT)
        is_known = (least < RULED_OUT)[:, 0] & ((weight == least).sum(axis=1) == 1)
        return np.where(is_known, weight.argmin(axis=1), NOBODY)

    @cached_property
    def _leading(self) -> Int:
        """Return per cluster the position of the active controller's release; NOBODY = unknown."""
        releases, clusters = np.full_like(self.active, NOBODY), np.flatnonzero(self.active >= 0)
        releases[clusters] = self.likeliest(self.active[clusters])
        return releases

    def dialects(self, cluster: int) -> list[str]:
        """Return the sorted dialects that the controllers of one cluster may use. Of dialects with
        equal results only one is returned."""
        pairs = [pair for pair, clusters in self.spoken.items() if clusters[cluster]]
        first = self._tables.releases[leads] if (leads := self._leading[cluster]) >= 0 else ""
        names = (name for name, release in pairs if release == first)
        return list(_distinct_dialects((*sorted({name for name, _ in pairs}), *names)))

    def propose(self, fleet: FleetColumns, level: Int) -> Iterator[Proposed]:
        """Evaluate the raised levels with each dialect that the controllers may use. Yield one
        result per dialect."""
        query = self._evidence.questions
        is_rising = query.known & (level > query.current)
        for (name, release), clusters in self.spoken.items():
            questions = np.flatnonzero(is_rising & clusters[query.cluster])
            if len(questions):
                yield fleet.propose(questions, level, load(name), release=release)

    def _possible(self) -> Flags:
        """Return the possible releases of the KRaft controllers, as a mask [clusters, releases]."""
        evidence, node = self._evidence, self._evidence.subjects
        counts = evidence.answering.of_subject >= 0
        controllers = counts & (node.role == Role.CONTROLLER)
        has_any = marked(len(evidence.clusters), node.cluster[controllers])
        speaks = np.where(has_any[node.cluster], controllers, counts)
        sets = np.zeros(len(evidence.clusters), dtype=np.int64)
        np.bitwise_or.at(sets, node.cluster[speaks], self._sets[speaks])
        # The responses of a vendor's controller are unknown, even if other controllers run.
        sets[node.cluster[speaks & self.foreign]] = 0
        possible = (sets[:, None] & self._bits) > 0
        # The inventory decides between candidates, or adds a candidate.
        codes = self._inventory_codes()
        rows = np.flatnonzero(codes >= 0)
        possible[rows] &= ~possible[rows, codes[rows]][:, None]
        possible[rows, codes[rows]] = True
        return possible


@cache
def _distinct_dialects(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sorted dialects without duplicates: of dialects with equal rules only the last."""
    return tuple(sorted({load(name).judges_by: name for name in names}.values()))


def blind_leaders(evidence: Evidence) -> Int:
    """Return per cluster a broker that is or may be the controller and does not see `/feature`; -1
    = none. Only in ZooKeeper mode.

    The broker saw the znode deleted, so it never sees a new znode (FinalizedFeatureChangeListener).
    As controller it writes its old levels, and reports a failure."""
    node, levels = evidence.subjects, evidence.levels
    readable = evidence.membership.on_zookeeper & levels.trusted & ~levels.system_off
    leads = np.flatnonzero(
        evidence.may_lead(~node.expected_only) & readable[node.cluster] & (node.listener >= 0)
    )
    full, partial, is_known = (
        evidence.listeners.field(name)[node.listener[leads]]
        for name in ("full_at", "partial_at", "levels_at")
    )
    cluster = node.cluster[leads]
    is_blind = np.maximum(full, partial) > np.maximum(is_known, levels.at[cluster])
    leaders = np.full(len(evidence.clusters), NOBODY)
    # The order is reversed, so the first leader stays.
    leaders[cluster[is_blind][::-1]] = node.node_id[leads][is_blind][::-1]
    return leaders
