"""Which releases may join each cluster of a batch: now, and once its plan is carried out (M12).

A release may join whose production software supports everything that is finalized. Only KRaft's
releases are in the catalogue, so a cluster in ZooKeeper mode has no answer, and neither has one of
which some level is not known.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from featurelib.catalogue import Catalogue
from featurelib.core.batch import Flags
from featurelib.core.columns import Bool, Int
from featurelib.core.compatibility import advertised, misfits
from featurelib.core.evidence import Evidence
from featurelib.feature import METADATA_VERSION

NAMES = pa.list_(pa.string())
_FIRST = 1  # a KRaft cluster that says nothing of metadata.version is at 3.0-IV1 (KIP-778)


class Joiners:
    """The releases of the catalogue against the clusters of a batch."""

    def __init__(self, evidence: Evidence, catalogue: Catalogue) -> None:
        asked, levels, membership = evidence.questions, evidence.levels, evidence.membership
        self._asked, self._clusters = asked, len(evidence.clusters)
        self._known: Bool = levels.trusted & ~levels.too_old
        self._known &= membership.kraft | ~membership.zookeeper
        self._known[asked.cluster[~asked.known]] = False
        catalogued = [name for name in asked.names if name in catalogue.features]
        names = list(dict.fromkeys((METADATA_VERSION, *catalogued)))  # it counts when absent, too
        self._at = np.array([names.index(n) if n in names else -1 for n in asked.names], dtype=int)
        self._width, self._ranges = len(names), advertised(catalogue, names)

    def rows(self, level: Int, only: Bool | None = None) -> pa.Array:
        """The releases that may join each cluster with its features at `level`, by question;
        oldest first, null where nobody knows or `only` leaves the cluster out."""
        fits = self._fits(level)
        known = self._known if only is None else self._known & only
        fits[~known] = False
        _, release = np.nonzero(fits)
        offsets = np.concatenate(([0], np.cumsum(fits.sum(axis=1)))).astype(np.int32)
        names = pa.array(self._ranges.releases, pa.string()).take(pa.array(release))
        return pa.ListArray.from_arrays(pa.array(offsets), names, mask=pa.array(~known))

    def _fits(self, level: Int) -> Flags:
        """[clusters, releases]. No release supports what the catalogue does not know."""
        asked, column = self._asked, self._at[self._asked.feature]
        levels = np.zeros((self._clusters, self._width), dtype=np.int32)
        known = column >= 0
        levels[asked.cluster[known], column[known]] = level[known]
        levels[:, 0] = np.where(levels[:, 0] == 0, _FIRST, levels[:, 0])
        fits: Flags = np.logical_not(misfits(levels, self._ranges).any(axis=2))
        fits[asked.cluster[~known & (level > 0)]] = False
        return fits
