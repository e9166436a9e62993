"""Writes states as snapshot rows: one row a cluster, columns as featurelib.schema.SNAPSHOT.

Columns are filled for many clusters at once, because building them row by row costs more than
folding does.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa

from featurelib.core.oddity import FUTURE, Oddity, write
from featurelib.feature import Role, Witness
from featurelib.landing.describe import KEYS
from featurelib.schema import (
    CONFIG,
    FINALIZED,
    LISTENER,
    MEMBERS,
    RANGE,
    REGISTRATION,
    SNAPSHOT,
    SOFTWARE,
    WITNESS,
)
from featurelib.snapshot.lists import probed, refusals
from featurelib.snapshot.packed import pack
from featurelib.snapshot.replay import level_map
from featurelib.snapshot.software import supported_by
from featurelib.snapshot.state import NOTHING, Listener, Map, State, freeze


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
