"""Make the stored snapshot row of a cluster from its state.

Input: cluster ids with the states that featurelib.snapshot.fold returns. Output: rows of
featurelib.schema.SNAPSHOT, without verdicts. A row omits data that newer data replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from featurelib.feature import METADATA_VERSION, Role, Witness
from featurelib.landing.responses import IDLE_INTERVAL, KEYS
from featurelib.rows import NONE, TableRows, join_rows
from featurelib.schema import LAYOUT, TEXT_FIELDS
from featurelib.snapshot.lists import is_outdated, observers_of
from featurelib.snapshot.log import expected_end, is_complete, level_map
from featurelib.snapshot.migration import (
    controllers_at,
    is_in_zookeeper_mode,
    is_on_zookeeper,
    outlived,
    registered_ranges,
)
from featurelib.snapshot.records import NODE_GONE, StoredRow, make_records, unusable_row, write_rows
from featurelib.snapshot.state import (
    DAMAGED,
    FASTEST_RESTART,
    NOTHING,
    ONE_READING,
    ClusterState,
    FeaturesNode,
    Listener,
    Map,
    Members,
    Registration,
    WitnessedLevels,
    by_metrics,
    freeze,
    later_quorum,
    levels_by_metrics,
    supported_by,
)
from featurelib.snapshot.zookeeper import registered

_Tuples = Iterable[tuple[object, ...]]
_BY_TIME = attrgetter("at", "line")
_LIST_KIND = attrgetter("role", "fenced_shown")


def snapshot_rows(clusters: Iterable[tuple[str, ClusterState | Exception]]) -> TableRows:
    """Return a row of featurelib.schema.SNAPSHOT per (cluster id, state). An exception instead of a
    state gives a row that names the failure."""
    states_by_cluster, rows = list(clusters), list[StoredRow]()
    try:
        for cluster, state in states_by_cluster:
            if isinstance(state, Exception):
                raise state
            rows.append(_Row(cluster, state).fill())
        return write_rows(rows)
    except Exception as fault:
        if len(states_by_cluster) == 1:
            return unusable_row(states_by_cluster[0][0], fault)
        return join_rows([snapshot_rows([pair]) for pair in states_by_cluster])


class _Row:
    """A snapshot row under construction, from the state of one cluster."""

    def __init__(self, cluster: str, state: ClusterState) -> None:
        self._state = state
        # The time of the newest response; 0 = the cluster has no usable response.
        self._answered = state.observed_at or (state.strimzi.at if state.strimzi else 0)
        newest = max(self._answered, state.not_reached.after if state.not_reached else 0)
        self._row = StoredRow(
            cluster=cluster,
            observed_at=newest if self._answered else None,
            waiting=state.waiting[2],
            state=freeze(state),
        )
        self._profiles: dict[Map, int] = {}
        self._levels: dict[Map, int] = {}
        self._has_zookeeper, self._has_kraft = is_on_zookeeper(state), controllers_at(state) > 0
        self._is_migrated = self._has_kraft and (self._has_zookeeper or bool(state.read_twice))

    def fill(self) -> StoredRow:
        """Return the finished snapshot row with all parts of featurelib.schema.LAYOUT."""
        # Brokers that migrated to KRaft leave ZooKeeper, but they are still registered.
        state = self._state
        stored, removed = (_stored(state), set[int]()) if self._has_kraft else registered(state)
        text, quorum, directories = (
            self._row.text_code,
            state.quorum,
            dict(state.quorum.directories),
        )
        newest = {_LIST_KIND(member): member for member in sorted(state.members, key=_BY_TIME)}
        members = [newest[key] for key in sorted(newest)]
        parts: dict[str, _Tuples] = {
            "scalars": [self._scalars()],
            "listeners": [self._listener(entry) for entry in state.listeners],
            "registrations": self._registrations(stored),
            "registrations_gone": [(node_id,) for node_id in sorted(removed)],
            "witnesses": self._witnesses(),
            "members": [
                (row.role, self._fenced_code(row), row.at, row.line, len(row.members))
                for row in members
            ],
            "member": [member for row in members for member in row.members],
            "disputed": self._disputed_nodes(members),
            "voters": [
                (row, row in quorum.following, text(directories.get(row))) for row in quorum.voters
            ],
            "observers": [(node_id,) for node_id in observers_of(state)],
            "leaderless": [(o.role, o.node_id, o.at, o.line) for o in state.leaderless],
            "configs": self._configs(),
            "refusals": self._refusals(),
            "probe": self._probe(),
            "strimzi": self._strimzi(),
            "not_reached": self._failed_reading(),
            "strimzi_nodes": self._strimzi_nodes(),
            "unnumbered": [
                (self._row.name_code(name), text(printed))
                for name, (*_, printed) in sorted(state.tool.items())
                if printed
            ],
            "ambiguous_dumps": [(time,) for time in state.ambiguous_dumps],
        }
        self._row.parts = {part: make_records(part, list(rows)) for part, rows in parts.items()}
        # Feature names are added while the parts are filled, so the maps come last.
        name = self._row.name_code
        for sizes, entries, maps in (
            ("profiles", "ranges", self._profiles),
            ("level_maps", "levels", self._levels),
        ):
            self._row.parts[sizes] = make_records(sizes, [(len(row),) for row in maps])
            triples = [(name(feature), low, high) for row in maps for feature, low, high in row]
            self._row.parts[entries] = make_records(entries, triples)
        if missing := LAYOUT.keys() - self._row.parts.keys():
            raise KeyError(f"snapshot.toml: _Row.fill does not fill the part {min(missing)}")
        return self._row

    def _scalars(self) -> tuple[int, ...]:
        state, node = self._state, self._state.node
        # After a migration to KRaft no node reads `/feature`.
        is_unknown = node.unread_at > max(node.at, node.absent_at)
        node = FeaturesNode() if self._has_kraft or is_unknown else node
        exists = node.data is not None and node.at >= node.absent_at
        self._row.features_node = node.data
        waiting_at, waiting_line, _ = state.waiting
        knows_all = {*later_quorum(state).voters} <= {*state.quorum.voters}
        values: dict[str, int] = {
            # A response without an epoch is a table printed by a tool, which may lack a row. A
            # newer table with another voter shows that the voters changed since the response.
            "quorum_at": state.quorum.at if state.quorum.leader_epoch >= 0 and knows_all else 0,
            "quorum_line": state.quorum.line,
            "controller": state.quorum.leader_id if self._has_kraft else state.controller[2],
            "log_end": state.log.end,
            "log_at": state.log.at if is_complete(state) else -_dumped_at(state),
            "log_gap_end": _gap_end(state),
            "migration": state.log.migration,
            "features_node_at": max(node.at, node.absent_at),
            "features_node_line": node.line if exists else node.absent_line,
            "features_node_version": node.version if exists or not node.absent_at else NODE_GONE,
            "features_node_recreated": node.recreated,
            "zookeeper": self._has_zookeeper,
            "waiting_at": waiting_at,
            "waiting_line": waiting_line,
        }
        return tuple(values[name] for name in LAYOUT["scalars"].names or ())

    def _listener(self, entry: Listener) -> tuple[object, ...]:
        values = {name: getattr(entry, name) for name in LAYOUT["listeners"].names or ()}
        values["full"] = self._supported(entry, entry.full)
        values["partial"] = self._supported(entry, entry.partial)
        values["levels"] = self._map_index(self._levels, entry.levels)
        if self._is_migrated and is_in_zookeeper_mode(entry, self._state):
            values |= {"full": self._zk_profile(), "partial": NOTHING}
            values |= {"full_at": max(entry.full_at, entry.partial_at), "levels": NOTHING}
            values |= {"full_line": max(entry.full_line, entry.partial_line), "epoch": -1}
        if _contradicts_itself(entry):
            values |= {"full": DAMAGED, "partial": NOTHING}
            values["full_at"] = max(entry.full_at, entry.partial_at)
        ranges = () if entry.scraped == NOTHING else by_metrics(entry, self._state)[0]
        values["scraped"] = _position(self._profiles, ranges) if ranges else NOTHING
        values["error"] = self._row.text_code(entry.error)
        values["releases"] = self._row.text_code(entry.releases or None)
        return tuple(values.values())

    def _fenced_code(self, listing: Members) -> int:
        """Return 1 if a node list includes fenced brokers, 0 if not, -1 if the list is outdated."""
        shows_fenced = listing.fenced_shown or listing.role == Role.CONTROLLER
        return (
            -1 if shows_fenced and is_outdated(listing, self._state) else int(listing.fenced_shown)
        )

    def _registrations(self, stored: list[Registration]) -> Iterator[tuple[object, ...]]:
        for entry in stored if self._has_zookeeper else ():
            position = self._map_index(self._profiles, entry.profile)
            profile = self._zk_profile() if self._has_kraft else position
            node = (entry.node_id, 0, int(Witness.FEATURES_NODE), profile)
            yield (*node, 0, entry.at, entry.line)
        for logged in self._state.log.nodes:
            profile = self._map_index(self._profiles, logged.profile)
            node = (logged.node_id, logged.role, int(Witness.METADATA_LOG), profile)
            # The dump may be newer than the record, but it proves nothing about later changes.
            yield (*node, logged.fenced, min(logged.at, self._state.log.at), logged.line)

    def _disputed_nodes(self, lists: Sequence[Members]) -> Iterator[tuple[object, ...]]:
        """Yield nodes that only some node lists contain, and controllers that are voter or leader
        in only some responses. Only lists of about the same time are compared."""
        for newest in lists:
            same_lists = [o for o in self._state.members if _LIST_KIND(o) == _LIST_KIND(newest)]
            differing = {
                member for old in same_lists for member in {*old.members} ^ {*newest.members}
            }
            for node_id in sorted({node_id for node_id, _ in differing}):
                yield newest.role, node_id, newest.at, newest.line
        quorum, voters = self._state.quorum, set[int]()
        for older in self._state.quorums:
            if older.leader_epoch < 0:
                continue
            voters |= {*older.voters} ^ {*quorum.voters} or {older.leader_id} - {quorum.leader_id}
        for node_id in sorted(voters):
            yield int(Role.CONTROLLER), node_id, quorum.at, quorum.line

    def _witnesses(self) -> Iterator[tuple[object, ...]]:
        state = self._state
        for entry in state.witnesses:
            if self._is_by_zookeeper(entry):
                continue
            levels = self._map_index(self._levels, entry.levels)
            yield entry.kind, levels, entry.epoch, entry.at, entry.line
        log, tool = state.log, state.tool
        if is_complete(state):
            levels = _position(self._levels, level_map(log))
            yield int(Witness.METADATA_LOG), levels, log.end - 1, log.at, log.line
        if tool:
            entries = tuple((name, level, level) for name, (_, _, level, _) in sorted(tool.items()))
            newest = max(at for at, *_ in tool.values())
            yield int(Witness.TOOL), _position(self._levels, entries), -1, newest, 0
        scraped, at, line = levels_by_metrics(state)
        if at:
            yield int(Witness.SCRAPE), _position(self._levels, scraped), -1, at, line

    def _is_by_zookeeper(self, entry: WitnessedLevels) -> bool:
        """Return true for levels without metadata.version from a broker in ZooKeeper mode, while
        KRaft controllers exist."""
        levels = self._state.maps[entry.levels]
        has_metadata = any(name == METADATA_VERSION for name, _, _ in levels)
        return self._is_migrated and entry.kind == Witness.BROKER and not has_metadata

    def _zk_profile(self) -> int:
        """Return the number of the range map that brokers in ZooKeeper mode register during a
        migration."""
        ranges = registered_ranges(self._state) if self._has_zookeeper else None
        return NOTHING if ranges is None else _position(self._profiles, ranges)

    def _configs(self) -> Iterator[tuple[object, ...]]:
        """Yield one record per node and requested configuration key."""
        text = self._row.text_code
        for config in self._state.configs:
            values = {key: (value, source) for key, value, source in config.values}
            for key in [key for key in KEYS if key != IDLE_INTERVAL]:  # only the fold needs it
                value, source = values.get(key, (None, -1))
                node = (config.node_id, config.role, text(config.resource), text(key))
                yield (*node, text(value), source, config.at, config.line)

    def _refusals(self) -> Iterator[tuple[object, ...]]:
        """Yield each request that a node refused, for lack of an ACL, in its newest response."""
        text, newest = self._row.text_code, dict[tuple[str, int], tuple[int, int]]()
        for acl in self._state.rights:
            answered_at, refused = newest.get((acl.request, acl.role), (0, 0))
            newest_times = max(answered_at, acl.answered_at), max(refused, acl.refused_at)
            newest[acl.request, acl.role] = newest_times
        answering = {request for (request, _), (at, refused) in newest.items() if at > refused}
        for acl in self._state.rights:
            answered_at, refused = newest[acl.request, acl.role]
            if answered_at < acl.refused_at and refused <= acl.refused_at + ONE_READING:
                elsewhere = acl.request in answering
                node = (text(acl.request), acl.role, acl.node_id, elsewhere, text(acl.principal))
                yield (*node, acl.refused_at, acl.line)

    def _probe(self) -> Iterator[tuple[object, ...]]:
        """Yield the updates of the newest probe, unless newer data exists."""
        probe = self._state.probe
        if probe is None or probe.at < self._state.observed_at:
            return
        for name, low, high, code, message in probe.answers:
            feature = self._row.name_code(name)
            yield feature, low, high, code, self._row.text_code(message), probe.at, probe.line

    def _strimzi(self) -> Iterator[tuple[object, ...]]:
        """Yield one record with the newest content of the cluster's Strimzi resources."""
        if (strimzi := self._state.strimzi) is not None:
            values = ((name, getattr(strimzi, name)) for name in LAYOUT["strimzi"].names or ())
            text = self._row.text_code
            yield tuple(text(value) if name in TEXT_FIELDS else value for name, value in values)

    def _failed_reading(self) -> Iterator[tuple[object, ...]]:
        """Yield the newest collection that reached no node, unless later data exists. Metrics count
        as later only after ONE_READING."""
        lost = self._state.not_reached
        newest_scrape = max((entry.scraped_at for entry in self._state.listeners), default=0)
        if lost and lost.after > max(self._state.observed_at, newest_scrape + ONE_READING):
            yield self._row.text_code(lost.error), self._answered or NONE, lost.at, lost.line

    def _strimzi_nodes(self) -> Iterator[tuple[object, ...]]:
        for node_id, role, version in self._state.strimzi.nodes if self._state.strimzi else ():
            yield node_id, role, self._row.text_code(version)

    def _supported(self, entry: Listener, position: int) -> int:
        """Return the position of a node's ranges in `_profiles`. `position`: in the maps of the
        state."""
        if position <= NOTHING:
            return position
        ranges = supported_by(entry, self._state.maps[position], self._state)
        return _position(self._profiles, ranges)

    def _map_index(self, maps: dict[Map, int], position: int) -> int:
        """Return the position in `maps` of the state's map at `position`. Negative values stay."""
        return position if position <= NOTHING else _position(maps, self._state.maps[position])


def _position(maps: dict[Map, int], entries: Map) -> int:
    return maps.setdefault(entries, len(maps))


def _contradicts_itself(entry: Listener) -> bool:
    """Return true if a node reported two ranges in less time than a restart takes."""
    full, partial = (entry.full_at, entry.full_other_at), (entry.partial_at, entry.partial_other_at)
    at, other_at = max(full, partial)
    return 0 < other_at > at - FASTEST_RESTART


def _dumped_at(state: ClusterState) -> int:
    """Return the time of the newest dump of the metadata log; 0 without dump."""
    times = (segment.at for segment in state.log.pending)
    return max([state.log.at, *state.dumps_with_holes, *times])


def _gap_end(state: ClusterState) -> int:
    """Return the offset at which the metadata log continues after a gap; -1 without gap; the end of
    the log if its last line is missing."""
    starts = [segment.start for segment in state.log.pending if not segment.whole]
    if starts or not state.log.end or is_complete(state):
        return min(starts, default=-1)
    return max(state.log.end, expected_end(state))


def _stored(state: ClusterState) -> list[Registration]:
    """Return the ZooKeeper registrations that are still valid beside KRaft controllers."""
    return [entry for entry in state.registrations if entry.exists and not outlived(entry, state)]
