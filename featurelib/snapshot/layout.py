"""Writes states as snapshot rows: one row a cluster, columns as featurelib.schema.SNAPSHOT.

Columns are filled for many clusters at once, because building them row by row costs more than
folding does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from featurelib.audit.columns import Int
from featurelib.audit.malformed import CODE as MALFORMED
from featurelib.audit.oddities import FUTURE, Oddity
from featurelib.audit.oddities import write_oddity as write
from featurelib.feature import Role, Witness
from featurelib.landing.describe import KEYS
from featurelib.schema import (
    CONFIG,
    FINALIZED,
    LISTENER,
    MEMBER,
    MEMBERS,
    PACKED,
    RANGE,
    REGISTRATION,
    SNAPSHOT,
    SOFTWARE,
    WITNESS,
)
from featurelib.snapshot.checked import TEXTS, byte_lengths, checked, opened
from featurelib.snapshot.fold import probed, refusals
from featurelib.snapshot.log import level_map
from featurelib.snapshot.packed import LAYOUT, pack
from featurelib.snapshot.state import NOTHING, Listener, Map, State, freeze, supported_by


class Rows:
    """Snapshot rows being collected; `take` hands them out and starts anew."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, cluster: str, state: State) -> None:
        self._rows.append(_Row(cluster, state))

    def take(self) -> pa.RecordBatch:
        """The rows collected so far as one batch of featurelib.schema.SNAPSHOT."""
        rows, self._rows = self._rows, []
        states = [row.state for row in rows]
        columns: dict[str, pa.Array] = {
            "cluster": pa.array([row.cluster for row in rows], pa.string()),
            "profiles": _maps([row.profiles for row in rows], RANGE),
            "level_maps": _maps([row.levels for row in rows], FINALIZED),
            "listeners": _structs([row.listeners for row in rows], LISTENER),
            "registrations": _structs([row.registrations for row in rows], REGISTRATION),
            "witnesses": _structs([row.witnesses for row in rows], WITNESS),
            "members": pa.array([row.members for row in rows], pa.list_(MEMBERS)),
            "voters": pa.array([state.quorum.voters for state in states], pa.list_(pa.int32())),
            "observers": pa.array(
                [state.quorum.observers for state in states], pa.list_(pa.int32())
            ),
            "oddities": pa.array([_oddities(state) for state in states], pa.list_(pa.string())),
            "configs": _structs([_configs(state) for state in states], CONFIG),
            "software": _structs([_software(state) for state in states], SOFTWARE),
            "state": pa.array([freeze(state) for state in states], pa.binary()),
        }
        scalars = [_scalars(state) for state in states]
        columns["packed"] = pack(columns)
        for field in SNAPSHOT:
            if field.name not in columns:
                columns[field.name] = pa.array([row[field.name] for row in scalars], field.type)
        return pa.RecordBatch.from_arrays(
            [columns[field.name] for field in SNAPSHOT], schema=SNAPSHOT
        )


class _Row:
    """One cluster with its maps parted into supported ranges and finalized levels."""

    def __init__(self, cluster: str, state: State) -> None:
        self.cluster = cluster
        self.state = state
        self.profiles: list[Map] = []
        self.levels: list[Map] = []
        self._profile_at: dict[Map, int] = {}
        self._levels_at: dict[int, int] = {}
        profile, level = self._profile, self._level
        self.listeners = [
            (
                entry.node_id,
                entry.role,
                self._supported(entry, entry.full),
                entry.full_at,
                entry.full_line,
                self._supported(entry, entry.partial),
                entry.partial_at,
                entry.partial_line,
                level(entry.levels),
                entry.epoch,
                entry.levels_at,
                entry.levels_line,
                entry.failed_at,
                entry.failed_line,
                entry.error,
            )
            for entry in state.listeners
        ]
        gone = _gone(state)
        zookeeper, in_log = int(Witness.FEATURES_NODE), int(Witness.METADATA_LOG)
        self.registrations: list[tuple[object, ...]] = [
            (entry.node_id, 0, zookeeper, profile(entry.profile), 0, entry.at, entry.line)
            for entry in state.registrations
            if entry.exists and entry.node_id not in gone
        ]
        for node in state.log.nodes:
            said = (node.node_id, node.role, in_log, profile(node.profile))
            self.registrations.append((*said, node.fenced, node.at, node.line))
        self.witnesses = [
            (entry.kind, level(entry.levels), entry.epoch, entry.at, entry.line)
            for entry in state.witnesses
        ]
        self._add_log_witness()
        self._add_tool_witness()
        self.members = [
            {
                "role": listed.role,
                "fenced_shown": listed.fenced_shown,
                "at": listed.at,
                "line": listed.line,
                "members": [{"node_id": node, "fenced": fenced} for node, fenced in listed.members],
            }
            for listed in state.members
        ]

    def _profile(self, position: int) -> int:
        return position if position <= NOTHING else self._place(self.state.maps[position])

    def _supported(self, entry: Listener, position: int) -> int:
        """The profile of what a listener's node supports."""
        if position <= NOTHING:
            return position
        return self._place(supported_by(entry, self.state.maps[position], self.state))

    def _place(self, ranges: Map) -> int:
        if ranges not in self._profile_at:
            self._profile_at[ranges] = len(self.profiles)
            self.profiles.append(ranges)
        return self._profile_at[ranges]

    def _level(self, position: int) -> int:
        return _move(position, self._levels_at, self.levels, self.state.maps)

    def _add_log_witness(self) -> None:
        log = self.state.log
        if log.end > 0:
            levels, kind = self._intern(level_map(log)), int(Witness.METADATA_LOG)
            self.witnesses.append((kind, levels, log.end - 1, log.at, log.line))

    def _add_tool_witness(self) -> None:
        tool = self.state.tool
        if tool:
            said = tuple((name, level, level) for name, (_, _, level) in sorted(tool.items()))
            newest = max(at for at, _, _ in tool.values())
            self.witnesses.append((int(Witness.TOOL), self._intern(said), -1, newest, 0))

    def _intern(self, said: Map) -> int:
        if said not in self.levels:
            self.levels.append(said)
        return self.levels.index(said)


def _move(position: int, moved: dict[int, int], target: list[Map], maps: list[Map]) -> int:
    if position <= NOTHING:
        return position
    if position not in moved:
        moved[position] = len(target)
        target.append(maps[position])
    return moved[position]


def _gone(state: State) -> set[int]:
    """Registrations a later round of reading did not find.

    A round reads each path once, so a path read twice after a registration was last seen means
    that a whole later round passed without it.
    """
    return {
        entry.node_id
        for entry in state.registrations
        if any(second > entry.at for _, second in state.read_twice.values())
    }


def _scalars(state: State) -> dict[str, object]:
    node = state.node
    there = node.data is not None and node.at >= node.absent_at
    return {
        "observed_at": state.observed_at or None,  # nothing of it counts yet
        "quorum_at": state.quorum.at,
        "quorum_line": state.quorum.line,
        "controller": max(state.controller[2], state.quorum.leader_id),
        "log_end": state.log.end,
        "log_at": state.log.at,
        "migration": state.log.migration,
        "features_node": node.data if there else None,
        "features_node_at": max(node.at, node.absent_at),
        "features_node_line": node.line,
        "features_node_version": node.version if there else -1,
        "zookeeper": bool(state.read_twice),
    }


def _oddities(state: State) -> list[str]:
    """Facts the fold met that have no column: a word, a colon, and what was seen."""
    said = []
    if state.node.recreated:
        said.append("features_node_recreated:")
    # Only a node's own epochs are compared: another broker may lag a record behind at any moment.
    # It matters where the highest epoch of all rests on what such a node said before.
    highest = {witness.epoch for witness in state.witnesses}
    for entry in state.listeners:
        if entry.epoch < entry.highest_epoch and entry.highest_epoch in highest:
            who = f"{Role(entry.role).text} {entry.node_id}"
            said.append(f"epoch_went_back:{who} from {entry.highest_epoch} to {entry.epoch}")
    starts = [segment.start for segment in state.log.pending if not segment.whole]
    if starts:
        said.append(
            f"metadata_log_gap:offsets {state.log.end} to {min(starts) - 1} were not dumped"
        )
    said += [f"metadata_log_ambiguous:{at}" for at in state.ambiguous_dumps]
    gone = sorted(_gone(state))
    said += [f"registration_gone:{node_id}" for node_id in gone]
    at, line, count = state.waiting
    if count:
        when = datetime.fromtimestamp(at // 1_000_000, UTC)
        lines = "1 line" if count == 1 else f"{count} lines"
        detail = f"{lines}, the latest dated {when:%Y-%m-%dT%H:%M:%SZ}"
        said.append(write(Oddity(code=FUTURE, detail=detail, at=at, line=line)))
    return said + refusals(state) + probed(state)


def _software(state: State) -> list[tuple[object, ...]]:
    return [
        (of.node_id, of.role, of.releases, of.releases_at) for of in state.listeners if of.releases
    ]


def _configs(state: State) -> list[tuple[object, ...]]:
    """An entry for each key that a node was asked for."""
    return [
        (of.node_id, of.role, of.resource, key, *said.get(key, (None, -1)), of.at, of.line)
        for of in state.configs
        for said in [{key: (value, source) for key, value, source in of.values}]
        for key in KEYS
    ]


def _offsets(lengths: Sequence[int]) -> pa.Array:
    ends = [0]
    for length in lengths:
        ends.append(ends[-1] + length)
    return pa.array(ends, pa.int32())


def _structs(rows: Sequence[Sequence[tuple[object, ...]]], of: pa.StructType) -> pa.Array:
    """A list column of structs from rows of tuples in the struct's field order."""
    flat = [entry for row in rows for entry in row]
    by_field = list(zip(*flat, strict=True)) if flat else [()] * of.num_fields
    fields = [of.field(i) for i in range(of.num_fields)]
    children = [
        pa.array(values, field.type) for values, field in zip(by_field, fields, strict=True)
    ]
    values = pa.StructArray.from_arrays(children, fields=fields)
    return pa.ListArray.from_arrays(_offsets([len(row) for row in rows]), values)


def _maps(rows: Sequence[Sequence[Map]], of: pa.StructType) -> pa.Array:
    """A list column of maps, each a list of `of`."""
    inner = _structs([said for row in rows for said in row], of)
    return pa.ListArray.from_arrays(_offsets([len(row) for row in rows]), inner)


# ----------------------------------------
# Reads what featurelib.snapshot.packed wrote: a whole batch at once.
#
# A binary column's bytes lie without a gap, so each part of a batch is one array of records.

Records = npt.NDArray[np.void]

UNPACKED = pa.schema([field for field in SNAPSHOT if field.name not in ("packed", "state")])


def unpack(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of SNAPSHOT without `packed` and `state`, from rows that need no list but `packed`.

    A row whose `packed` is null has empty lists. One whose `packed` is broken has them too, and an
    oddity that says so, from which the core knows that nothing is known.
    """
    packed, broken = checked(rows.column("packed"))
    read = _Reader(packed)
    lists = {
        "profiles": read.maps("profile_sizes", "ranges", RANGE),
        "level_maps": read.maps("level_map_sizes", "levels", FINALIZED),
        "listeners": read.listeners(),
        "registrations": read.structs("registrations", REGISTRATION),
        "witnesses": read.structs("witnesses", WITNESS),
        "members": read.members(),
        "voters": read.numbers("voters"),
        "observers": read.numbers("observers"),
    }
    if broken:
        said = rows.column("oddities").to_pylist()
        for row, text in broken.items():
            said[row] = [f"{MALFORMED}:{text}"]
        lists["oddities"] = pa.array(said, UNPACKED.field("oddities").type)
    columns = [lists[n] if n in lists else rows.column(n) for n in UNPACKED.names]
    return pa.RecordBatch.from_arrays(columns, schema=UNPACKED)


class _Reader:
    """The packed columns of a batch, each laid open once."""

    def __init__(self, packed: pa.StructArray) -> None:
        parts = dict(zip(PACKED.names, packed.flatten(), strict=True))
        self.errors = parts["errors"]
        self.records: dict[str, Records] = {}
        self.counts: dict[str, Int] = {}
        for name, of in LAYOUT.items():
            self.records[name] = np.frombuffer(opened(parts[name]), of)
            self.counts[name] = byte_lengths(parts[name]) // of.itemsize
        texts, self.first_name, _ = _texts(parts["names"])
        self.texts = pa.array(texts, pa.string())

    def structs(self, name: str, of: pa.StructType) -> pa.Array:
        return _lists(self.counts[name], _struct(of, self._fields(name)))

    def numbers(self, name: str) -> pa.Array:
        return _lists(self.counts[name], self._fields(name)["node_id"])

    def maps(self, sizes: str, part: str, of: pa.StructType) -> pa.Array:
        fields = self._fields(part)
        first = np.repeat(self.first_name, self.counts[part])
        at = first + self.records[part]["feature"]
        fields["feature"] = self.texts.take(pa.array(at))
        inner = _lists(self.records[sizes]["size"], _struct(of, fields))
        return _lists(self.counts[sizes], inner)

    def members(self) -> pa.Array:
        fields = self._fields("members")
        listed = _struct(MEMBER, self._fields("member"))
        fields["members"] = _lists(self.records["members"]["size"], listed)
        fields["fenced_shown"] = fields["fenced_shown"].cast(pa.bool_())
        return _lists(self.counts["members"], _struct(MEMBERS, fields))

    def listeners(self) -> pa.Array:
        count = self.counts["listeners"]
        first = np.cumsum(count) - count
        dense = {name: self.records["listeners"][name] for name in LAYOUT["listeners"].names or ()}
        none = np.zeros(int(count.sum()), dtype=np.int64)
        columns: dict[str, npt.NDArray[np.generic]] = {
            **dense,
            "levels_at": dense["full_at"].copy(),
            "levels_line": dense["full_line"].copy(),
            "partial": np.full(len(none), -1, dtype=np.int32),
            **{n: none.copy() for n in ("partial_at", "partial_line", "failed_at", "failed_line")},
        }
        where = np.zeros(0, dtype=np.int64)
        for name in ("levels_apart", "partial", "failed"):
            entries = self.records[name]
            where = np.repeat(first, self.counts[name]) + entries["entry"]
            for field in (entries.dtype.names or ())[1:]:
                columns[field][where] = entries[field]
        fields = {name: pa.array(np.ascontiguousarray(column)) for name, column in columns.items()}
        said = np.full(len(none), -1, dtype=np.int64)
        texts, at, sizes = _texts(self.errors)
        within = np.arange(len(where)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        said[where] = np.repeat(at, sizes) + within
        fields["error"] = pa.array(texts, pa.string()).take(pa.array(said, mask=said < 0))
        return _lists(count, _struct(LISTENER, fields))

    def _fields(self, name: str) -> dict[str, pa.Array]:
        records = self.records[name]
        return {
            field: pa.array(np.ascontiguousarray(records[field]))
            for field in records.dtype.names or ()
        }


def _texts(column: pa.Array) -> tuple[list[str | None], Int, Int]:
    """All texts, equal lists once; where each row's begin, and how many it has."""
    coded = column.fill_null(b"").dictionary_encode()
    lists = [TEXTS.decode(said) if said else [] for said in coded.dictionary.to_pylist()]
    sizes = np.array([len(said) for said in lists], dtype=np.int64)
    at = coded.indices.to_numpy(zero_copy_only=False)
    return [text for said in lists for text in said], (np.cumsum(sizes) - sizes)[at], sizes[at]


def _struct(of: pa.StructType, fields: Mapping[str, pa.Array]) -> pa.Array:
    return pa.StructArray.from_arrays([fields[f.name] for f in of], fields=list(of))


def _lists(counts: Int, values: pa.Array) -> pa.Array:
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)
