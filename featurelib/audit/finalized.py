"""What is finalized, and whether anybody can be trusted to say so.

In ZooKeeper mode the features node says it. On KRaft the first kind of witness in the order of
featurelib.feature.Witness that is not too old does, at its highest epoch; the tool names no
witness and proves nothing. Levels that equally fresh witnesses disagree about are not known: a
witness that spoke before the believed one may only be behind the times; one that spoke no earlier
and shows something else, or at the same epoch, disputes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from featurelib.audit.columns import Bool, Int, is_fresh
from featurelib.core.features_znode import (
    DecodedNode,
    Generation,
    Reading,
    behaviour,
    behaviour_anywhere,
    behaviour_row,
    decode,
)
from featurelib.feature import Role, Witness
from featurelib.snapshot.records import Records, Snapshots

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

    def __init__(self, rows: Snapshots) -> None:
        maps, entries = rows["level_maps"], rows["levels"]
        self.first = maps.start
        self.lengths = maps.field("size")
        self.start = np.cumsum(self.lengths) - self.lengths
        self.names = rows.names
        self.feature = entries.field("feature")  # position in names
        self.minimum = entries.field("min_level")
        self.level = entries.field("level")

    def rows(self, cluster: int, local: int) -> Rows:
        at = int(self.first[cluster]) + local
        start = int(self.start[at])
        stop = start + int(self.lengths[at])
        return list(
            zip(
                [self.names[code] for code in self.feature[start:stop].tolist()],
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
    believed: Believed, maps: Maps, witnesses: Records, chosen: Int
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
    believed: Believed, maps: Maps, listeners: Records, chosen: Int
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


@dataclass(slots=True, kw_only=True)
class Levels:
    """Finalized levels of a batch.

    `kind` is the witness believed (featurelib.feature.Witness, -1 = none); `trusted` whether it is
    trustworthy. Entries (`entry_…`, `names`) are (cluster, feature, minimum, level). `disputed`
    holds (cluster, feature, detail); the other lists are (cluster, detail).
    """

    kind: Int
    epoch: Int
    at: Int
    line: Int
    trusted: np.ndarray[tuple[int], np.dtype[np.bool_]]
    too_old: np.ndarray[tuple[int], np.dtype[np.bool_]]
    system_off: np.ndarray[tuple[int], np.dtype[np.bool_]]
    went_back: np.ndarray[tuple[int], np.dtype[np.bool_]]  # its epoch
    entry_cluster: Int = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    entry_min: Int = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    entry_level: Int = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    names: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    disputed: list[tuple[int, str, str]] = field(default_factory=list)
    damaged: list[tuple[int, str]] = field(default_factory=list)
    ambiguous: list[tuple[int, str]] = field(default_factory=list)
    absent: list[int] = field(default_factory=list)
    modern: list[int] = field(default_factory=list)  # clusters whose node only 3.3 and later write

    @property
    def believed(self) -> Bool:
        """Clusters with a trustworthy witness whose word still counts."""
        return self.trusted & ~self.too_old & ~self.went_back

    def place(self, cluster: Int) -> dict[str, Int]:
        """Where what is believed of these clusters was seen, as a finding has it."""
        return {"epoch": self.epoch[cluster], "at": self.at[cluster], "line": self.line[cluster]}


def read_levels(
    snapshots: Snapshots, *, as_of: int, max_age: int, generations: dict[int, Generation]
) -> Levels:
    """The finalized levels of each cluster; `generations` by cluster where it is known."""
    clusters = len(snapshots)
    maps = Maps(snapshots)
    witnesses = snapshots["witnesses"]
    kind, at = witnesses.field("kind"), witnesses.field("at")
    too_old = ~is_fresh(at, as_of, max_age)
    order = np.lexsort((kind, too_old, kind == TOOL, witnesses.row))
    first = order[np.concatenate(([True], np.diff(witnesses.row[order]) != 0))[: len(order)]]
    row = witnesses.row[first]
    empty = np.zeros(clusters, dtype=np.int64)
    levels = Levels(
        kind=empty - 1,
        epoch=empty - 1,
        at=empty.copy(),
        line=empty.copy(),
        trusted=np.zeros(clusters, dtype=bool),
        too_old=np.zeros(clusters, dtype=bool),
        system_off=np.zeros(clusters, dtype=bool),
        went_back=np.zeros(clusters, dtype=bool),
    )
    for name in ("kind", "epoch", "at", "line"):
        getattr(levels, name)[row] = witnesses.field(name)[first]
    levels.too_old[row] = too_old[first]
    levels.trusted = (levels.kind >= 0) & (levels.kind != TOOL)
    chosen = np.full(clusters, -1, dtype=np.int64)
    chosen[row] = witnesses.field("levels")[first]
    rows: dict[int, Rows] = {}
    _read_features_nodes(snapshots, levels, rows, generations, _Age(as_of, max_age))
    chosen[list(rows)] = -1
    believed = Believed(levels.kind, levels.epoch, levels.at)
    listeners = snapshots["listeners"]
    back = epochs_back(snapshots)
    is_broker = listeners.field("role")[back] == int(Role.BROKER)
    kind = np.where(is_broker, int(Witness.BROKER), int(Witness.CONTROLLER))
    levels.went_back[listeners.row[back[kind == levels.kind[listeners.row[back]]]]] = True
    levels.disputed += between_kinds(believed, maps, witnesses, chosen)
    levels.disputed += between_nodes(believed, maps, listeners, chosen)
    _enter(levels, maps, chosen, rows)
    return levels


def epochs_back(snapshots: Snapshots) -> Int:
    """The listeners whose epoch is lower than it was, where the highest epoch of all rests on one
    that such a node gave before. Another node may lag a record behind at any moment, so only a
    node's own epochs are compared."""
    listeners, witnesses = snapshots["listeners"], snapshots["witnesses"]
    highest = listeners.field("highest_epoch")
    lower = np.flatnonzero(listeners.field("epoch") < highest)
    if len(lower) == 0:
        return lower
    of_nodes = np.isin(witnesses.field("kind"), (int(Witness.BROKER), int(Witness.CONTROLLER)))
    epochs = witnesses.field("epoch")
    relied = set(zip(witnesses.row[of_nodes].tolist(), epochs[of_nodes].tolist(), strict=True))
    pairs = zip(listeners.row[lower].tolist(), highest[lower].tolist(), strict=True)
    return lower[np.array([pair in relied for pair in pairs], dtype=bool)]


class _Age(NamedTuple):
    as_of: int
    longest: int


@lru_cache(maxsize=4096)
def _readings(text: str, known: Generation | None) -> tuple[DecodedNode, ...]:
    """How the generations that may run there read the node."""
    generations = tuple(Generation) if known is None else (known,)
    readings = [_as_taken(decode(text, generation)) for generation in generations]
    if known is None and any(node.schema_version == 2 and _is_good(node) for node in readings[1:]):
        # Only 3.3 and later write schema 2, so nobody older runs there.
        readings = readings[1:]
    return tuple(readings)


def _as_taken(node: DecodedNode) -> DecodedNode:
    """The reading as brokers take it: a level that 16 bits leave below 1 stops every one of them.

    3.3 and later look at the number first and cut it then (class C: 65536 reads as 0).
    """
    for name, _, level in node.levels:
        if level < 1:
            fault = (
                f"Features node, features[{json.dumps(name)}]: expected a level of 1 or above, "
                f"found one that brokers cut to 16 bits and read as {level}."
            )
            return DecodedNode(reading=Reading.INCOMPATIBLE, fault=fault)
    return node


def _meaning(node: DecodedNode) -> tuple[Reading, tuple[tuple[str, int], ...]]:
    """What counts of a reading: 3.3 and later do not keep the minimum levels of schema 1."""
    return node.reading, tuple((name, level) for name, _, level in node.levels)


def _is_good(node: DecodedNode) -> bool:
    return node.reading in (Reading.ACCEPTED, Reading.DISABLED)


def _read_features_nodes(
    snapshots: Snapshots,
    levels: Levels,
    rows: dict[int, Rows],
    generations: dict[int, Generation],
    age: _Age,
) -> None:
    read_at = snapshots.scalar("features_node_at")
    version = snapshots.scalar("features_node_version")
    line = snapshots.scalar("features_node_line")
    texts = snapshots.features_node
    for cluster in np.flatnonzero(read_at > 0).tolist():
        levels.kind[cluster] = int(Witness.FEATURES_NODE)
        levels.at[cluster], levels.line[cluster] = read_at[cluster], line[cluster]
        levels.epoch[cluster] = version[cluster]
        levels.too_old[cluster] = not is_fresh(read_at[cluster], age.as_of, age.longest)
        rows[cluster] = []
        text: str | None = texts[cluster].as_py()
        levels.trusted[cluster] = text is not None
        if text is None:
            levels.absent.append(cluster)
            continue
        known = generations.get(cluster)
        readings = _readings(text, known)
        if known is None and len(readings) < len(Generation):
            levels.modern.append(cluster)
        good = [node for node in readings if _is_good(node)]
        if not good:
            levels.trusted[cluster] = False
            levels.damaged.append((cluster, _damage(readings, known)))
        elif len(good) < len(readings) or len({_meaning(node) for node in good}) > 1:
            levels.trusted[cluster] = False
            levels.ambiguous.append((cluster, _ambiguity(readings)))
        else:
            rows[cluster] = list(good[0].levels)
            levels.system_off[cluster] = good[0].reading == Reading.DISABLED


def _damage(readings: tuple[DecodedNode, ...], known: Generation | None) -> str:
    newest = readings[-1]
    does = _anywhere(readings) if known is None else behaviour(newest.reading, known)
    return f"{newest.fault} What brokers do: {does}"


def _anywhere(readings: tuple[DecodedNode, ...]) -> str:
    """What brokers of an unknown generation do, where the generations may read differently."""
    oldest, *newer = readings
    if all(node.reading is oldest.reading for node in newer):
        return behaviour_anywhere(oldest.reading)
    said = {
        f"{_releases(generation)}: {behaviour_row(node.reading, generation)['brief']}"
        for generation, node in zip(Generation, readings, strict=True)
    }
    return "; ".join(sorted(said)) + "."


def _releases(generation: Generation) -> str:
    return "2.7 to 3.2" if generation is Generation.ZK_2_7 else "3.3 to 3.9"


def _ambiguity(readings: tuple[DecodedNode, ...]) -> str:
    said = {
        f"{generation.value} reads it as {node.reading.value}"
        + (f" ({node.fault})" if node.fault else f" with {len(node.levels)} features")
        for generation, node in zip(tuple(Generation)[-len(readings) :], readings, strict=True)
    }
    return "; ".join(sorted(said)) + ". Say in fleet.toml which release runs there."


def _enter(levels: Levels, maps: Maps, chosen: Int, rows: dict[int, Rows]) -> None:
    """Write the believed maps as flat entries."""
    cluster = np.flatnonzero(chosen >= 0)
    at = maps.first[cluster] + chosen[cluster]
    lengths = maps.lengths[at]
    owner = np.repeat(cluster, lengths)
    begin = np.repeat(maps.start[at] - (np.cumsum(lengths) - lengths), lengths)
    entry = begin + np.arange(len(owner))
    more = [(c, *row) for c, said in rows.items() for row in said]
    levels.entry_cluster = np.concatenate(
        (owner, np.array([row[0] for row in more], dtype=np.int64))
    )
    names = pa.array(maps.names, pa.string())
    levels.names = pa.concat_arrays(
        [names.take(pa.array(maps.feature[entry])), pa.array([row[1] for row in more], pa.string())]
    )
    levels.entry_min = np.concatenate(
        (maps.minimum[entry], np.array([row[2] for row in more], dtype=np.int64))
    )
    levels.entry_level = np.concatenate(
        (maps.level[entry], np.array([row[3] for row in more], dtype=np.int64))
    )
