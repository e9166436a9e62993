"""Which releases each node may run: by the requests it offers, by its ranges, by its owner's word.

The requests of ApiVersions tell release lines apart (featurelib.catalogue.api_keys); ranges do not,
where unstable features are on. Lines without requests are read by their ranges alone. The release
that the inventory names wins among those that fit a node.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from featurelib.catalogue import Catalogue
from featurelib.core.columns import Int, find, node_key, pick
from featurelib.core.evidence import Evidence
from featurelib.core.fleet_batch import FleetEdge
from featurelib.core.generations import possible_releases

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
        ranges = FleetEdge(evidence, tables).ranges
        shape = len(evidence.answering.cluster), len(tables.features)
        low, high = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
        names = evidence.questions.names
        for code, feature in enumerate(tables.features):
            if feature in names:
                low[:, code] = ranges.min_version[:-1, names.index(feature)]
                high[:, code] = ranges.max_version[:-1, names.index(feature)]
        counts = evidence.answering.of_subject >= 0
        partial = np.zeros(shape[0], dtype=bool)
        partial[evidence.answering.of_subject[counts]] = evidence.subjects.partial[counts]
        return possible_releases(low, high, partial, tables)

    def _by_requests(self) -> tuple[Flags, Int]:
        """[subjects, releases] which releases offer what each node's listener does, and when it was
        asked; none where it said nothing of requests, or offers what no release does."""
        said, who = self._evidence.software, self._evidence.subjects
        offers = np.zeros((len(who.cluster), len(self._tables.releases)), dtype=bool)
        offered_at = np.zeros(len(who.cluster), dtype=np.int64)
        texts = said.child("releases")
        at = find(
            node_key(who.cluster, who.role, who.node_id),
            node_key(said.row, said.field("role"), said.field("node_id")),
        )
        for text in pc.unique(texts).to_pylist():
            mine = pc.equal(texts, text).to_numpy(zero_copy_only=False) & (at >= 0)
            offers[at[mine]] = self._named(text.split(";"))
            offered_at[at[mine]] = said.field("at")[mine]
        return offers, offered_at

    def _named(self, lines: list[str]) -> Flags:
        """The releases that are of these lines: a vendor's are what they are based on."""
        based = [self._catalogue.of(release).based_on for release in self._tables.releases]
        return np.array([line in lines for line in based], dtype=bool)

    def _narrow(self, told: list[str]) -> None:
        """The owner's word decides for each node that may run what it names."""
        named = [self._catalogue.release_named(text) or "" for text in told]
        codes: Int = np.array([self._tables.release_code(name) for name in named], dtype=np.int64)
        code = pick(codes, self._evidence.subjects.cluster, _UNTOLD)
        fits = np.flatnonzero(code >= 0)
        fits = fits[self.runs[fits, code[fits]]]
        self.runs[fits] = False
        self.runs[fits, code[fits]] = True
        self._sure[fits] = True
