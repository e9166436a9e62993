"""Witnesses that contradict each other: what they disagree about is not known.

A witness that spoke before the believed one may only be behind the times; one that spoke no
earlier and says otherwise, or at the same epoch, disputes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from featurelib.core.columns import Flat, Int
from featurelib.feature import Witness

TOOL = int(Witness.TOOL)
UNSEEN = -1  # a level this witness cannot see

Rows = list[tuple[str, int, int]]  # (feature, minimum level, level)
Dispute = tuple[int, str, str]  # (cluster, feature, who says what)


class Believed(NamedTuple):
    """The witness believed in each cluster: its kind, epoch and time."""

    kind: Int
    epoch: Int
    at: Int


class Maps:
    """Every distinct map feature → level of the batch, flat."""

    def __init__(self, column: pa.Array) -> None:
        outer = Flat(column)
        self.inner = Flat(outer.values)
        self.first = outer.start
        self.names = self.inner.child("feature")
        self.minimum = self.inner.field("min_level")
        self.level = self.inner.field("level")

    def rows(self, cluster: int, local: int) -> Rows:
        at = int(self.first[cluster]) + local
        start = int(self.inner.start[at])
        stop = start + int(self.inner.lengths[at])
        return list(
            zip(
                self.names[start:stop].to_pylist(),
                self.minimum[start:stop].tolist(),
                self.level[start:stop].tolist(),
                strict=True,
            )
        )


def _differences(one: Rows, other: Rows) -> list[tuple[str, int, int]]:
    """Features two witnesses give different levels (0 = not finalized)."""
    left = {name: level for name, _, level in one}
    right = {name: level for name, _, level in other}
    return [
        (name, left.get(name, 0), right.get(name, 0))
        for name in sorted({*left, *right})
        if left.get(name, 0) != right.get(name, 0)
        and UNSEEN not in (left.get(name, 0), right.get(name, 0))
    ]


def between_kinds(
    believed: Believed, maps: Maps, witnesses: Flat, chosen: Int
) -> Iterator[Dispute]:
    """A witness of another kind that spoke no earlier and says otherwise."""
    kind, at, local = (witnesses.field(name) for name in ("kind", "at", "levels"))
    cluster = witnesses.row
    later = (kind != TOOL) & (kind != believed.kind[cluster]) & (at >= believed.at[cluster])
    later &= (chosen[cluster] >= 0) & (local != chosen[cluster])
    for i in np.flatnonzero(later).tolist():
        where = int(cluster[i])
        mine, theirs = Witness(int(believed.kind[where])), Witness(int(kind[i]))
        for name, one, other in _differences(
            maps.rows(where, int(chosen[where])), maps.rows(where, int(local[i]))
        ):
            detail = f"{_says(mine)} {one}, {_says(theirs)} {other} (0 = not finalized)"
            yield where, name, detail


def between_nodes(
    believed: Believed, maps: Maps, listeners: Flat, chosen: Int
) -> Iterator[Dispute]:
    """Two nodes of the believed kind that say different things at the same, highest epoch."""
    local, epoch, cluster = listeners.field("levels"), listeners.field("epoch"), listeners.row
    other = np.flatnonzero((local != chosen[cluster]) & (local >= 0))
    is_broker = listeners.field("role")[other] == 0
    kind = np.where(is_broker, int(Witness.BROKER), int(Witness.CONTROLLER))
    split = (chosen[cluster[other]] >= 0) & (kind == believed.kind[cluster[other]])
    split &= epoch[other] == believed.epoch[cluster[other]]
    node = listeners.field("node_id")
    for i in other[split].tolist():
        where = int(cluster[i])
        for name, one, another in _differences(
            maps.rows(where, int(chosen[where])), maps.rows(where, int(local[i]))
        ):
            detail = f"at epoch {epoch[i]} one node says {one}, node {node[i]} says {another}"
            yield where, name, detail


def _says(witness: Witness) -> str:
    return witness.name.lower().replace("_", " ") + " says"
