"""Writes states as snapshot rows: what of a state the core is to know, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from featurelib.feature import Witness
from featurelib.landing.responses import KEYS
from featurelib.schema import LAYOUT
from featurelib.snapshot.log import level_map
from featurelib.snapshot.records import StoredRow, make_records, write_rows
from featurelib.snapshot.state import NOTHING, ClusterState, Listener, Map, freeze, supported_by

Tuples = Iterable[tuple[object, ...]]


def snapshot_rows(clusters: Iterable[tuple[str, ClusterState]]) -> pa.RecordBatch:
    """A row of featurelib.schema.SNAPSHOT for each (cluster, state)."""
    return write_rows([_Row(cluster, state).fill() for cluster, state in clusters])


class _Row:
    """One row that grows: its maps part into supported ranges and finalized levels."""

    def __init__(self, cluster: str, state: ClusterState) -> None:
        self._state = state
        self._row = StoredRow(
            cluster=cluster,
            observed_at=state.observed_at or None,  # 0 = nothing of it counts yet
            waiting=state.waiting[2],
            state=freeze(state),
        )
        self._profiles: dict[Map, int] = {}
        self._levels: dict[Map, int] = {}

    def fill(self) -> StoredRow:
        """The row with all its parts."""
        state, gone = self._state, _gone(self._state)
        parts: dict[str, Tuples] = {
            "scalars": [self._scalars()],
            "listeners": [self._listener(entry) for entry in state.listeners],
            "registrations": self._registrations(gone),
            "registrations_gone": [(node_id,) for node_id in sorted(gone)],
            "witnesses": self._witnesses(),
            "members": [
                (one.role, one.fenced_shown, one.at, one.line, len(one.members))
                for one in state.members
            ],
            "member": [member for one in state.members for member in one.members],
            "voters": [(voter,) for voter in state.quorum.voters],
            "observers": [(observer,) for observer in state.quorum.observers],
            "configs": self._configs(),
            "refusals": self._refusals(),
            "probe": self._probe(),
            "ambiguous_dumps": [(time,) for time in state.ambiguous_dumps],
        }
        self._row.parts = {part: make_records(part, list(rows)) for part, rows in parts.items()}
        # What the parts above name is known only now.
        for sizes, entries, maps in (
            ("profiles", "ranges", self._profiles),
            ("level_maps", "levels", self._levels),
        ):
            self._row.parts[sizes] = make_records(sizes, [(len(one),) for one in maps])
            self._row.parts[entries] = make_records(entries, self._named(maps))
        return self._row

    def _scalars(self) -> tuple[int, ...]:
        state, node = self._state, self._state.node
        is_there = node.data is not None and node.at >= node.absent_at
        self._row.features_node = node.data if is_there else None
        starts = [segment.start for segment in state.log.pending if not segment.whole]
        waiting_at, waiting_line, _ = state.waiting
        values: dict[str, int] = {
            "quorum_at": state.quorum.at,
            "quorum_line": state.quorum.line,
            "controller": max(state.controller[2], state.quorum.leader_id),
            "log_end": state.log.end,
            "log_at": state.log.at,
            "log_gap_end": min(starts, default=-1),
            "migration": state.log.migration,
            "features_node_at": max(node.at, node.absent_at),
            "features_node_line": node.line,
            "features_node_version": node.version if is_there else -1,
            "features_node_recreated": node.recreated,
            "zookeeper": bool(state.read_twice),
            "waiting_at": waiting_at,
            "waiting_line": waiting_line,
        }
        return tuple(values[name] for name in LAYOUT["scalars"].names or ())

    def _named(self, maps: Iterable[Map]) -> list[tuple[object, ...]]:
        name = self._row.name_code
        return [(name(feature), low, high) for one in maps for feature, low, high in one]

    def _listener(self, entry: Listener) -> tuple[object, ...]:
        values = {name: getattr(entry, name) for name in LAYOUT["listeners"].names or ()}
        values["full"] = self._supported(entry, entry.full)
        values["partial"] = self._supported(entry, entry.partial)
        values["levels"] = self._place(self._levels, entry.levels)
        values["error"] = self._row.text_code(entry.error)
        values["releases"] = self._row.text_code(entry.releases or None)
        return tuple(values.values())

    def _registrations(self, gone: set[int]) -> Iterator[tuple[object, ...]]:
        for entry in self._state.registrations:
            if entry.exists and entry.node_id not in gone:
                profile = self._place(self._profiles, entry.profile)
                node = (entry.node_id, 0, int(Witness.FEATURES_NODE), profile)
                yield (*node, 0, entry.at, entry.line)
        for known in self._state.log.nodes:
            profile = self._place(self._profiles, known.profile)
            node = (known.node_id, known.role, int(Witness.METADATA_LOG), profile)
            yield (*node, known.fenced, known.at, known.line)

    def _witnesses(self) -> Iterator[tuple[object, ...]]:
        state = self._state
        for entry in state.witnesses:
            levels = self._place(self._levels, entry.levels)
            yield entry.kind, levels, entry.epoch, entry.at, entry.line
        log, tool = state.log, state.tool
        if log.end > 0:
            levels = _position(self._levels, level_map(log))
            yield int(Witness.METADATA_LOG), levels, log.end - 1, log.at, log.line
        if tool:
            shown = tuple((name, level, level) for name, (_, _, level) in sorted(tool.items()))
            newest = max(at for at, _, _ in tool.values())
            yield int(Witness.TOOL), _position(self._levels, shown), -1, newest, 0

    def _configs(self) -> Iterator[tuple[object, ...]]:
        """An entry for each key that a node was asked for."""
        text = self._row.text_code
        for of in self._state.configs:
            shown = {key: (value, source) for key, value, source in of.values}
            for key in KEYS:
                value, source = shown.get(key, (None, -1))
                who = (of.node_id, of.role, text(of.resource), text(key))
                yield (*who, text(value), source, of.at, of.line)

    def _refusals(self) -> Iterator[tuple[object, ...]]:
        """The requests that were refused when last made."""
        text, rights = self._row.text_code, self._state.rights
        for one in [right for right in rights if right.refused_at > right.answered_at]:
            elsewhere = any(
                right.answered_at > right.refused_at
                for right in rights
                if right.request == one.request
            )
            who = (text(one.request), one.role, one.node_id, elsewhere, text(one.principal))
            yield (*who, one.refused_at, one.line)

    def _probe(self) -> Iterator[tuple[object, ...]]:
        """The newest probe, unless something newer landed: the cluster may have changed since."""
        probe = self._state.probe
        if probe is None or probe.at < self._state.observed_at:
            return
        for name, low, high, code, message in probe.answers:
            feature = self._row.name_code(name)
            yield feature, low, high, code, self._row.text_code(message), probe.at, probe.line

    def _supported(self, entry: Listener, position: int) -> int:
        """The profile of what a listener's node supports."""
        if position <= NOTHING:
            return position
        ranges = supported_by(entry, self._state.maps[position], self._state)
        return _position(self._profiles, ranges)

    def _place(self, maps: dict[Map, int], position: int) -> int:
        """The position in the row of a map of the state; what is no map stays."""
        return position if position <= NOTHING else _position(maps, self._state.maps[position])


def _position(maps: dict[Map, int], one: Map) -> int:
    return maps.setdefault(one, len(maps))


def _gone(state: ClusterState) -> set[int]:
    """Registrations a later round of reading did not find.

    A round reads each path once, so a path read twice after a registration was last seen means
    that a whole later round passed without it.
    """
    return {
        entry.node_id
        for entry in state.registrations
        if any(second > entry.at for _, second in state.read_twice.values())
    }
