"""Read the finalized levels, and decide which source to trust.

In ZooKeeper mode only the `/feature` znode is trusted; brokers do not show the znode's status. A
broker contradicts the znode if it later reads another version. On KRaft the trusted source is the
first kind of Witness, in that enum's order, with recent data, at its highest epoch. A tool's output
is never trusted. Another source contradicts the trusted one if it shows other levels and is not
older, or has an equal epoch.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from featurelib.audit.columns import firsts, marked
from featurelib.core.features_znode import (
    DecodedNode,
    Generation,
    ZnodeReading,
    behaviour,
    behaviour_anywhere,
    behaviour_row,
    decode,
)
from featurelib.feature import Role, Witness
from featurelib.rows import Bool, Int, Texts, join_texts, spread, texts_of
from featurelib.snapshot.records import Records, Snapshots
from featurelib.snapshot.state import ONE_READING
from featurelib.words import nodes

UNSEEN = -1  # the level of a feature that a source cannot show

Rows = list[tuple[str, int, int]]  # (feature, minimum level, level)


@dataclass(slots=True, kw_only=True)
class Levels:
    """The finalized levels of a batch, per cluster.

    `kind`: the type of source (featurelib.feature.Witness, -1 = none); `trusted`: true if the
    source can be trusted. `entry_…`, `names`: columns of (cluster, feature, minimum, level).
    `disputed`: (cluster, feature, text)."""

    kind: Int
    epoch: Int
    at: Int
    line: Int
    trusted: Bool
    too_old: Bool
    system_off: Bool
    went_back: Bool  # true if the newest epoch is lower than an earlier epoch
    back: Int  # the listeners whose newest epoch is lower than an earlier epoch
    entry_cluster: Int = field(init=False)
    entry_min: Int = field(init=False)
    entry_level: Int = field(init=False)
    names: Texts = field(init=False)
    disputed: list[tuple[int, str, str]] = field(default_factory=list)
    damaged: dict[int, str] = field(default_factory=dict)  # cluster → why its znode cannot be read
    # cluster → possible meanings of its znode
    ambiguous: dict[int, str] = field(default_factory=dict)
    # Cluster → the last text of a deleted znode ("" = no valid text), and the levels in the text.
    absent: dict[int, tuple[str, Rows]] = field(default_factory=dict)
    modern: list[int] = field(default_factory=list)  # clusters whose znode only 3.3 and later write

    @property
    def believed(self) -> Bool:
        """A mask of clusters whose finalized levels come from a trusted and recent source."""
        return self.trusted & ~self.too_old & ~self.went_back

    @property
    def seen(self) -> tuple[Int, Int]:
        """The time and the line of the source of each cluster's finalized levels."""
        return self.at, self.line

    @property
    def place(self) -> tuple[Int, Int, Int]:
        """The time, the line and the epoch of the source of each cluster's finalized levels."""
        return self.at, self.line, self.epoch


class _Maps:
    """The distinct maps feature → finalized level of a batch of snapshots, as flat columns."""

    def __init__(self, rows: Snapshots) -> None:
        maps, self._entries, self._names = rows["level_maps"], rows["levels"], rows.names
        self._first, self._size = maps.start, maps.field("size")
        self._start = np.cumsum(self._size) - self._size

    def entries(self, cluster: Int, local: Int) -> tuple[Int, Texts, Int, Int]:
        """Return (cluster, feature, minimum, level) of each entry. `local`: the number of the map
        within its cluster."""
        at = self._first[cluster] + local
        run, entry = spread(self._start[at], self._size[at])
        feature, low, level = (
            self._entries.field(name)[entry] for name in ("feature", "min_level", "level")
        )
        return cluster[run], Texts(words=self._names, codes=feature), low, level

    def levels(self, cluster: int, local: int) -> dict[str, int]:
        """Return feature → level of the map `local` of a cluster."""
        _, names, _, level = self.entries(np.array([cluster]), np.array([local]))
        return dict(zip(names.to_pylist(), level.tolist(), strict=True))


def witness_text(witness: int) -> str:
    """Return the name of a source of levels (feature.Witness), such as `metadata log`."""
    return Witness(witness).name.lower().replace("_", " ")


def read_levels(
    snapshots: Snapshots, fresh: Callable[[Int], Bool], generations: Sequence[Generation | None]
) -> Levels:
    """Return the finalized levels of each cluster. `fresh`: returns true for recent times;
    `generations`: the software generation of each cluster, None = unknown."""
    clusters, maps = len(snapshots), _Maps(snapshots)
    witnesses, listeners = snapshots["witnesses"], snapshots["listeners"]
    kind, too_old = witnesses.field("kind"), ~fresh(witnesses.field("at"))
    first = firsts(witnesses.row, kind == Witness.TOOL, too_old, kind)

    def chosen_of(values: Int, absent: int) -> Int:
        column = np.full(clusters, absent)
        column[witnesses.row[first]] = values[first]
        return column

    kinds = chosen_of(kind, -1)
    levels = Levels(
        kind=kinds,
        epoch=chosen_of(witnesses.field("epoch"), -1),
        at=chosen_of(witnesses.field("at"), 0),
        line=chosen_of(witnesses.field("line"), 0),
        trusted=(kinds >= 0) & (kinds != Witness.TOOL),
        too_old=chosen_of(too_old.astype(np.int64), 0) > 0,
        system_off=np.zeros(clusters, dtype=bool),
        went_back=np.zeros(clusters, dtype=bool),
        back=_epochs_back(listeners, witnesses),
    )
    chosen = chosen_of(witnesses.field("levels"), -1)
    rows = _read_features_nodes(snapshots, levels, generations, fresh)
    chosen[list(rows)] = -1
    cluster = listeners.row[levels.back]
    levels.went_back[cluster[_kinds(listeners, levels.back) == levels.kind[cluster]]] = True
    levels.disputed += _disputes(levels, maps, witnesses, listeners, chosen)
    levels.disputed += _tool_disputes(levels, maps, witnesses, chosen, rows)
    levels.disputed += _znode_disputes(levels, maps, listeners, rows)
    with_levels = np.flatnonzero(chosen >= 0)
    stored = [(at, *row) for at, part in rows.items() for row in part]
    nodes = list(zip(*stored, strict=True)) or [(), (), (), ()]
    at, names, low, level = maps.entries(with_levels, chosen[with_levels])
    levels.entry_cluster, levels.entry_min, levels.entry_level = (
        np.concatenate((values, np.array(nodes[i], dtype=np.int64)))
        for i, values in ((0, at), (2, low), (3, level))
    )
    levels.names = join_texts([names, texts_of(nodes[1])])
    return levels


def _kinds(listeners: Records, at: Int) -> Int:
    """Return the type of source (Witness) of each listener: broker or controller."""
    is_broker = listeners.field("role")[at] == Role.BROKER
    return np.where(is_broker, int(Witness.BROKER), int(Witness.CONTROLLER))


def _disputes(
    levels: Levels, maps: _Maps, witnesses: Records, listeners: Records, chosen: Int
) -> Iterator[tuple[int, str, str]]:
    """Yield (cluster, feature, text) for each contradiction of the trusted levels: a later source
    of another type shows other levels, or nodes differ at the highest epoch."""
    kind, at, local = (witnesses.field(name) for name in ("kind", "at", "levels"))
    cluster = witnesses.row
    later = (kind != Witness.TOOL) & (kind != levels.kind[cluster]) & (at >= levels.at[cluster])
    later &= (chosen[cluster] >= 0) & (local != chosen[cluster])
    for i in np.flatnonzero(later).tolist():
        this_name, other_name = witness_text(levels.kind[cluster[i]]), witness_text(kind[i])
        text = f"{this_name} shows {{}}, {other_name} shows {{}} (0 = not finalized)"
        first, right = (maps.levels(int(cluster[i]), of) for of in (chosen[cluster[i]], local[i]))
        yield from _differences(int(cluster[i]), first, right, text)
    local, epoch, cluster = listeners.field("levels"), listeners.field("epoch"), listeners.row
    differing = np.flatnonzero((local != chosen[cluster]) & (local >= 0))
    rows = cluster[differing]
    split = (chosen[rows] >= 0) & (_kinds(listeners, differing) == levels.kind[rows])
    split &= epoch[differing] == levels.epoch[rows]
    for row in np.unique(rows[split]).tolist():
        yield from _node_disputes(levels, maps, listeners, row)


def _tool_disputes(
    levels: Levels, maps: _Maps, witnesses: Records, chosen: Int, rows: dict[int, Rows]
) -> Iterator[tuple[int, str, str]]:
    """Yield (cluster, feature, text) for each feature whose level in a later output of
    kafka-features.sh differs. The tool does not print features that its node lacks."""
    kind, at, local = (witnesses.field(name) for name in ("kind", "at", "levels"))
    later = (kind == Witness.TOOL) & (at > levels.at[witnesses.row])
    for i in np.flatnonzero(later & levels.trusted[witnesses.row]).tolist():
        cluster = int(witnesses.row[i])
        levels_of = {name: level for name, _, level in rows.get(cluster, ())}
        if chosen[cluster] >= 0:
            levels_of = maps.levels(cluster, int(chosen[cluster]))
        printed = {n: level for n, level in maps.levels(cluster, int(local[i])).items() if level}
        text = f"{witness_text(levels.kind[cluster])} shows {{}} (0 = not finalized), and "
        text += "kafka-features.sh printed {} later"
        yield from _differences(cluster, levels_of, levels_of | printed, text)


def _node_disputes(
    levels: Levels, maps: _Maps, listeners: Records, cluster: int
) -> Iterator[tuple[int, str, str]]:
    """Yield (cluster, feature, text) for each feature whose level differs between nodes at the
    trusted epoch."""
    local = listeners.field("levels")
    begin, end = listeners.start[cluster] + (0, listeners.lengths[cluster])
    rows = begin + np.flatnonzero(local[begin:end] >= 0)
    same_kind = _kinds(listeners, rows) == levels.kind[cluster]
    is_recent = np.abs(listeners.field("levels_at")[rows] - levels.at[cluster]) <= ONE_READING
    counts = np.where(same_kind, listeners.field("epoch")[rows] == levels.epoch[cluster], is_recent)
    columns = (local, listeners.field("role"), listeners.field("node_id"))
    sources = list(zip(*(column[rows[counts]].tolist() for column in columns), strict=True))
    shown_by = {at: maps.levels(cluster, at) for at, _, _ in sources}
    role = Role.BROKER if levels.kind[cluster] == Witness.BROKER else Role.CONTROLLER
    for name in sorted({name for level_of in shown_by.values() for name in level_of}):
        by_level = defaultdict[tuple[bool, str, int], list[int]](list)
        for at, node_role, node_id in sources:
            if (level := shown_by[at].get(name, 0)) != UNSEEN:
                by_level[node_role != role, Role(node_role).text, level].append(node_id)
        if len([key for key in by_level if not key[0]]) > 1:
            parts = (
                f"{nodes(text, ids)} {'show' if len(ids) > 1 else 'shows'} {level}"
                for (_, text, level), ids in sorted(
                    by_level.items(), key=lambda e: (e[0][0], -len(e[1]))
                )
            )
            yield cluster, name, f"at epoch {levels.epoch[cluster]} {', '.join(parts)}"


def _znode_disputes(
    levels: Levels, maps: _Maps, listeners: Records, rows: dict[int, Rows]
) -> Iterator[tuple[int, str, str]]:
    """Yield (cluster, feature, text) for brokers in ZooKeeper mode that later read another version
    of `/feature` than the trusted source. A lower version counts only if the znode was created
    again, because a broker may lag."""
    cluster, local, epoch, at, highest = (
        listeners.row,
        *(listeners.field(name) for name in ("levels", "epoch", "levels_at", "highest_epoch")),
    )
    version, read_at = levels.epoch[cluster], levels.at[cluster]
    is_newer = (marked(len(levels.kind), list(rows)) & levels.trusted)[cluster] & (local >= 0)
    is_newer &= (epoch != version) & (at >= read_at)
    is_newer &= (epoch > version) | (highest > epoch) | (at > read_at + ONE_READING)
    columns = (values[is_newer].tolist() for values in (cluster, local, epoch))
    for row, position, version_read in sorted(set(zip(*columns, strict=True))):
        text = (
            f"/feature znode shows {{}} at version {levels.epoch[row]}, and brokers read {{}} "
            f"later, at version {version_read} (0 = not finalized)"
        )
        stored = {name: level for name, _, level in rows[row]}
        yield from _differences(row, stored, maps.levels(row, position), text)


def _differences(
    cluster: int, first: dict[str, int], right: dict[str, int], text: str
) -> Iterator[tuple[int, str, str]]:
    """Yield (cluster, feature, text) for each feature with different levels in two sources."""
    for name in sorted({*first, *right}):
        level, right_level = first.get(name, 0), right.get(name, 0)
        if level != right_level and UNSEEN not in (level, right_level):
            yield cluster, name, text.format(level, right_level)


def _epochs_back(listeners: Records, witnesses: Records) -> Int:
    """Return the listeners whose epoch decreased, if no listener shows a higher epoch. Only epochs
    of one node are compared, because nodes may lag."""
    highest = listeners.field("highest_epoch")
    lower = np.flatnonzero(listeners.field("epoch") < highest)
    if len(lower) == 0:
        return lower
    of_nodes = np.isin(witnesses.field("kind"), (int(Witness.BROKER), int(Witness.CONTROLLER)))
    epochs = witnesses.field("epoch")
    relied = set(zip(witnesses.row[of_nodes].tolist(), epochs[of_nodes].tolist(), strict=True))
    pairs = zip(listeners.row[lower].tolist(), highest[lower].tolist(), strict=True)
    return lower[np.array([pair in relied for pair in pairs], dtype=bool)]


@lru_cache(maxsize=4096)
def _readings(text: str, line: Generation | None) -> tuple[DecodedNode, ...]:
    """Return the decoded `/feature` znode, once for each possible generation of brokers."""
    generations = tuple(Generation) if line is None else (line,)
    readings = [_as_brokers_read(decode(text, generation)) for generation in generations]
    if line is None and any(node.schema_version == 2 and _is_good(node) for node in readings[1:]):
        # Only 3.3 and later write schema 2, so no broker older than 3.3 runs in this cluster.
        readings = readings[1:]
    return tuple(readings)


def _as_brokers_read(node: DecodedNode) -> DecodedNode:
    """Return the znode levels as brokers read them: a broker cuts levels to 16 bits and rejects
    levels below 1. Kafka 3.3 and later reject before they cut."""
    for name, _, level in node.levels:
        if level < 1:
            fault = (
                f"Features node, features[{json.dumps(name)}]: The level must be 1 or above. "
                "Brokers "
                f"cut it to 16 bits and read {level}."
            )
            return DecodedNode(reading=ZnodeReading.INCOMPATIBLE, fault=fault)
    return node


def _is_good(node: DecodedNode) -> bool:
    return node.reading in (ZnodeReading.ACCEPTED, ZnodeReading.DISABLED)


def _read_features_nodes(
    snapshots: Snapshots,
    levels: Levels,
    generations: Sequence[Generation | None],
    fresh: Callable[[Int], Bool],
) -> dict[int, Rows]:
    """Return cluster → levels in `/feature`. Also sets attributes of `levels`."""
    read_at = snapshots.scalar("features_node_at")
    rows_read, rows = read_at > 0, dict[int, Rows]()
    levels.kind[rows_read], levels.at[rows_read] = int(Witness.FEATURES_NODE), read_at[rows_read]
    levels.line[rows_read] = snapshots.scalar("features_node_line")[rows_read]
    levels.epoch[rows_read] = np.maximum(snapshots.scalar("features_node_version")[rows_read], -1)
    levels.too_old[rows_read] = ~fresh(read_at[rows_read])
    levels.trusted[rows_read] = False
    for cluster in np.flatnonzero(rows_read).tolist():
        rows[cluster] = []
        text = snapshots.features_node[cluster]
        if text is None:
            old_text = snapshots.features_node_left[cluster] or ""
            before = _readings(old_text, generations[cluster])
            is_known = all(map(_is_good, before))
            levels.absent[cluster] = (old_text, list(before[0].levels)) if is_known else ("", [])
            continue
        generation = generations[cluster]
        readings = _readings(text, generation)
        if generation is None and len(readings) < len(Generation):
            levels.modern.append(cluster)
        good = [node for node in readings if _is_good(node)]
        # 3.3 and later ignore the minimum levels of schema 1, so only the levels count.
        contents = {(n.reading, tuple((name, level) for name, _, level in n.levels)) for n in good}
        if not good:
            levels.damaged[cluster] = _damage(readings, generation)
        elif len(good) < len(readings) or len(contents) > 1:
            levels.ambiguous[cluster] = _ambiguity(readings)
        else:
            rows[cluster] = list(good[0].levels)
            levels.system_off[cluster] = good[0].reading == ZnodeReading.DISABLED
            levels.trusted[cluster] = True
    return rows


def _damage(readings: tuple[DecodedNode, ...], line: Generation | None) -> str:
    """Describe why a `/feature` znode is unreadable, and how brokers react, per generation if the
    generations differ."""
    oldest, newest = readings[0], readings[-1]
    if line is not None:
        effect = behaviour(newest.reading, line)
    elif all(node.reading is oldest.reading for node in readings):
        effect = behaviour_anywhere(oldest.reading)
    else:
        texts = {
            f"{'2.7 to 3.2' if generation is Generation.ZK_2_7 else '3.3 to 3.9'}: "
            f"{behaviour_row(node.reading, generation)['brief']}"
            for generation, node in zip(Generation, readings, strict=True)
        }
        effect = "; ".join(sorted(texts)) + "."
    return f"{newest.fault} What brokers do: {effect}"


def _ambiguity(readings: tuple[DecodedNode, ...]) -> str:
    causes = {
        f"{generation.value} reads it as {node.reading.value}"
        + (f" ({node.fault})" if node.fault else f" with {len(node.levels)} features")
        for generation, node in zip(tuple(Generation)[-len(readings) :], readings, strict=True)
    }
    return "; ".join(sorted(causes)) + ". Say in fleet.toml which release runs there."
