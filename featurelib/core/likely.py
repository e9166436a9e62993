"""Which release a node, or the active controller, runs: the likeliest of those its ranges fit.

Which releases fit is featurelib.core.generations' word, and every one of them is asked before
anything is called READY; here they are put in order, where one name has to stand for all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from featurelib.catalogue import Catalogue
from featurelib.core.columns import Bool, Int
from featurelib.core.dialect import generation_of
from featurelib.core.evidence import Evidence
from featurelib.core.own_dialect import OwnDialects
from featurelib.feature import METADATA_VERSION, Role

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
