"""What a cluster's own controller would answer to the levels the strict policy lets pass.

READY needs both. Which releases a node may run is told by the requests it offers in ApiVersions
(catalogue/rows.py), which tell release lines apart, by its ranges, which do not where unstable
features are on, and by its owner's word, which wins among those that fit. Where several fit, each
is asked, and any refusal counts; where one name has to stand for all, it is the likeliest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt

from featurelib.audit.columns import Bool, Int, find, node_key, pick
from featurelib.audit.evidence import Evidence
from featurelib.audit.fleet import FleetColumns, Proposed
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import GENERATIONS, generation_of, load, possible_releases
from featurelib.feature import METADATA_VERSION, Role

Flags = npt.NDArray[np.bool_]
_UNTOLD = -1


class Software:
    """`runs` [subjects, releases of the catalogue]: which releases each node may run; none where
    nobody knows its range."""

    def __init__(self, evidence: Evidence, told: list[str], catalogue: Catalogue) -> None:
        """`told` is the release the inventory names for each cluster, "" where it names none."""
        self._evidence, self._catalogue, self._tables = evidence, catalogue, catalogue.tables
        profile = evidence.answering.of_subject
        counts = profile >= 0
        self.runs: Flags = np.zeros((len(profile), len(self._tables.releases)), dtype=bool)
        self.runs[counts] = self._by_ranges()[profile[counts]]
        offers, offered_at = self._by_requests()
        both = self.runs & offers
        agree = both.any(axis=1)
        self.runs[agree] = both[agree]
        # What no release that offers such requests advertises: a vendor's feature, or a node that
        # registered with other software since.
        vendors = counts & ~agree & offers.any(axis=1) & (offered_at >= evidence.subjects.at)
        self.runs[vendors] = offers[vendors]
        self._sure = agree | vendors
        self._narrow(told)

    def with_stable_ends(self) -> Evidence:
        """The evidence with each node's newest stable metadata.version as the release says that its
        requests tell, or its owner: a range goes further where unstable features are on."""
        stable = self._tables.newest_stable[:, 0].astype(np.int64)
        high = np.where(self.runs, stable, -1).max(axis=1)
        low = np.where(self.runs, stable, np.iinfo(np.int16).max).min(axis=1)
        known = self._sure & (high == low)
        who = self._evidence.subjects
        ends = np.where(known, high, who.stable_metadata)
        return replace(self._evidence, subjects=replace(who, stable_metadata=ends))

    def _by_ranges(self) -> Flags:
        """[answering profiles, releases] which releases may advertise each."""
        evidence, tables = self._evidence, self._tables
        ranges = FleetColumns(evidence, tables).ranges
        shape = len(evidence.answering.cluster), len(tables.features)
        low, high = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
        names = evidence.questions.names
        for code, feature in enumerate(tables.features):
            if feature in names:
                low[:, code] = ranges.min_version[: shape[0], names.index(feature)]
                high[:, code] = ranges.max_version[: shape[0], names.index(feature)]
        counts = evidence.answering.of_subject >= 0
        partial = np.zeros(shape[0], dtype=bool)
        partial[evidence.answering.of_subject[counts]] = evidence.subjects.partial[counts]
        return possible_releases(low, high, partial, tables)

    def _by_requests(self) -> tuple[Flags, Int]:
        """[subjects, releases] which releases offer what each node's listener does, and when it was
        asked; none where it said nothing of requests, or offers what no release does."""
        listeners, who = self._evidence.listeners, self._evidence.subjects
        told = np.flatnonzero(listeners.field("releases") >= 0)
        code, told_at = listeners.field("releases")[told], listeners.field("releases_at")[told]
        offers = np.zeros((len(who.cluster), len(self._tables.releases)), dtype=bool)
        offered_at = np.zeros(len(who.cluster), dtype=np.int64)
        keys = node_key(listeners.row, listeners.field("role"), listeners.field("node_id"))
        at = find(node_key(who.cluster, who.role, who.node_id), keys[told])
        for one, first in zip(*np.unique(code, return_index=True), strict=True):
            mine = (code == one) & (at >= 0)
            text = listeners.text("releases", int(told[first])) or ""
            offers[at[mine]] = self._named(text.split(";"))
            offered_at[at[mine]] = told_at[mine]
        return offers, offered_at

    def _named(self, lines: list[str]) -> Flags:
        """The releases that are of these lines: a vendor's are what they are based on."""
        based = [self._catalogue.of(release).based_on for release in self._tables.releases]
        return np.array([line in lines for line in based], dtype=bool)

    def _narrow(self, told: list[str]) -> None:
        """The owner's word decides for each node that may run what it names."""
        named = {text: self._catalogue.release_named(text) or "" for text in set(told)}
        codes = {text: self._tables.release_code(name) for text, name in named.items()}
        of_cluster: Int = np.array([codes[text] for text in told], dtype=np.int64)
        code = pick(of_cluster, self._evidence.subjects.cluster, _UNTOLD)
        fits = np.flatnonzero(code >= 0)
        fits = fits[self.runs[fits, code[fits]]]
        self.runs[fits] = False
        self.runs[fits, code[fits]] = True
        self._sure[fits] = True


# Both generations of ZooKeeper mode, by a release of each: brokers there advertise no range.
ZOOKEEPER_RELEASES = ("3.2", "3.9")


class OwnDialects:
    """The dialects the clusters of a batch may speak, and their answers."""

    def __init__(
        self,
        evidence: Evidence,
        told: list[str],
        catalogue: Catalogue,
        fleet: FleetColumns | None = None,
        runs: Flags | None = None,
    ) -> None:
        """`told` is the release the inventory names for each cluster, "" where it names none;
        `fleet` and `runs` (Software) are of the same evidence, where they are at hand."""
        self._evidence, self._catalogue, self._tables = evidence, catalogue, catalogue.tables
        self.fleet = fleet or FleetColumns(evidence, catalogue.tables)
        self.zookeeper = self.fleet.zookeeper
        self.runs = Software(evidence, told, catalogue).runs if runs is None else runs
        self.spoken: dict[tuple[str, str], Bool] = self._spoken(told)

    def dialects(self, cluster: int, first: str = "") -> list[str]:
        """The dialects that one cluster's controllers may speak, sorted; of those that judge alike
        one: that of the release `first`, if it is there."""
        spoken = {pair: which for pair, which in self.spoken.items() if which[cluster]}
        names = {name for name, _ in spoken}
        own = next((name for name, release in spoken if release == first), "")
        return list(_unlike(tuple(sorted(names)), own))

    def propose(self, level: Int) -> Iterator[Proposed]:
        """Put every question's `level` above the current one to each dialect that may be spoken
        there."""
        asked = self._evidence.questions
        wanted = asked.known & (level > asked.current)
        for (name, release), which in self.spoken.items():
            questions = np.flatnonzero(wanted & which[asked.cluster])
            if len(questions):
                yield self.fleet.propose(questions, level, load(name), release=release)

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
            may_be = {text: _may_be(text, name) for text in set(told)}
            others = np.array([not may_be[text] for text in told], dtype=bool)
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


NOBODY = -1
_Weight = tuple[bool, bool, bool]  # what speaks against a release, the weightiest first


class Likely:
    """The releases of the nodes and controllers of one batch of evidence."""

    def __init__(self, evidence: Evidence, told: Sequence[str], catalogue: Catalogue) -> None:
        """`told` is the release the inventory names for each cluster, "" where it names none."""
        self.own = OwnDialects(evidence, list(told), catalogue)
        self._evidence, self._tables, self._told = evidence, catalogue.tables, list(told)
        self._named = [catalogue.release_named(text) for text in told]
        self._newest = self._newest_metadata_versions()
        self._known: dict[tuple[int, int, str | None, bytes], dict[str, _Weight]] = {}

    def of_node(self, subject: int) -> str:
        """The release of one node; "" where it cannot be told, as in ZooKeeper mode."""
        weighed = self._weighed(subject)
        least = min(weighed.values(), default=None)
        best = [name for name, weight in weighed.items() if weight == least]
        position = int(self._evidence.subjects.cluster[subject])
        return self._as_told(best[0], position) if len(best) == 1 else ""

    def of_cluster(self, position: int, may_lead: Sequence[int]) -> tuple[str, ...]:
        """The releases a cluster's controllers may run, those of the subjects `may_lead` first.

        () = nothing tells. In ZooKeeper mode a release stands for its generation. A release is
        likelier if the inventory names it, if its newest stable metadata.version is what the node's
        controller listener shows, if the node advertises its stable levels; and of two alike the
        older one, which knows less.
        """
        spoken = {
            release: dialect
            for (dialect, release), which in self.own.spoken.items()
            if which[position]
        }
        weighed: dict[str, _Weight] = {}
        for subject in may_lead:
            for name, weight in self._weighed(subject).items():
                weighed[name] = min(weight, weighed.get(name, weight))
        order = sorted(weighed.keys() & spoken, key=lambda name: (weighed[name], self._age(name)))
        order += sorted(spoken.keys() - weighed.keys(), key=self._age)
        return tuple(self._as_told(name, position, spoken[name]) for name in order)

    def _weighed(self, subject: int) -> dict[str, _Weight]:
        """The releases that may advertise what one node does, and what speaks against each."""
        evidence = self._evidence
        profile = int(evidence.answering.of_subject[subject])
        position = int(evidence.subjects.cluster[subject])
        if profile < 0 or self.own.zookeeper[position]:
            return {}
        shown, named = int(evidence.subjects.stable_metadata[subject]), self._named[position]
        runs = self.own.runs[subject]
        key = profile, shown, named, runs.tobytes()
        if key not in self._known:
            codes = np.flatnonzero(runs).tolist()
            newest = int(self._newest[profile])
            stable = {code: int(self._tables.newest_stable[code, 0]) for code in codes}
            self._known[key] = {
                self._tables.releases[code]: (
                    self._tables.releases[code] != named,
                    0 < shown != stable[code],
                    newest != stable[code],
                )
                for code in codes
            }
        return self._known[key]

    def _newest_metadata_versions(self) -> Int:
        """The highest metadata.version of each answering profile; 0 where it lists none."""
        asked = self._evidence.questions
        newest = np.zeros(len(self._evidence.answering.cluster), dtype=np.int64)
        if METADATA_VERSION in asked.names:
            code = asked.names.index(METADATA_VERSION)
            mine = (asked.feature[asked.pair_question] == code) & asked.pair_listed
            newest[asked.pair_profile[mine]] = asked.pair_max[mine]
        return newest

    def _age(self, release: str) -> tuple[int, ...]:
        """The older a release, the less."""
        code = self._tables.release_code(release)
        return (code, *(int(part) for part in release.split(".") if part.isdigit()))

    def _as_told(self, release: str, position: int, dialect: str = "") -> str:
        """The release as the inventory writes it (4.1.2 for 4.1), where it means the same."""
        told = self._told[position]
        if not self.own.zookeeper[position]:
            return told if self._named[position] == release else release
        return told if _is_of(told, dialect) else release


def _is_of(told: str, dialect: str) -> bool:
    try:
        return bool(told) and generation_of(told, "zk") == dialect
    except KeyError:
        return False


def blind_leaders(evidence: Evidence, zookeeper: Bool) -> Int:
    """By cluster the id of a broker that is the controller, or may be where nobody knows that one,
    and whose newest answer knows no finalized features although a features node was read before;
    -1 = there is none. `zookeeper` are the clusters in ZooKeeper mode.

    A broker that saw the node deleted never sees the next one (FinalizedFeatureChangeListener): as
    controller it writes back what it saw last, and then says that it failed.
    """
    who, levels, clusters = evidence.subjects, evidence.levels, len(evidence.clusters)
    readable = zookeeper & levels.trusted & ~levels.system_off
    broker = readable[who.cluster] & (who.role == Role.BROKER) & ~who.expected_only
    active = broker & (who.node_id == evidence.controller[who.cluster])
    told = np.bincount(who.cluster[active], minlength=clusters) > 0
    leads = np.flatnonzero(np.where(told[who.cluster], active, broker) & (who.listener >= 0))
    full, partial, known = (
        evidence.listeners.field(name)[who.listener[leads]]
        for name in ("full_at", "partial_at", "levels_at")
    )
    cluster = who.cluster[leads]
    blind = np.maximum(full, partial) > np.maximum(known, levels.at[cluster])
    found = np.full(clusters, NOBODY, dtype=np.int64)
    found[cluster[blind][::-1]] = who.node_id[leads][blind][::-1]  # the first of them stays
    return found
