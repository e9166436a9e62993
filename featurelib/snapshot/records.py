"""The stored form of snapshot rows, which the core reads: parts of fixed-width records.

A row is a cluster. featurelib.schema.LAYOUT names its parts and their fields; the bytes of a part
are contiguous in one column. So a batch of rows is one array of records per part, read without a
copy. Two clusters, of which the first has three listeners:

    cluster   listeners (bytes)        Snapshots["listeners"]
    a         [3 records]              row     0  0  0  1
    b         [1 record]               node_id 1  2  3  1

Shared values are stored once: `profiles` has the number of `ranges` of each distinct map, and a
listener refers to a map by its position in the row. Names of features and other texts are positions
in two lists of texts; `Snapshots` makes them positions in the lists of the batch.

A checksum guards every row against damage. No other check is needed, because only this module
writes rows. If you change or add a part, raise the version of silver.cluster_snapshot.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from featurelib.feature import METADATA_VERSION, Witness
from featurelib.landing.responses import KEYS
from featurelib.rows import (
    NONE,
    Bool,
    Cells,
    Column,
    Int,
    TableRows,
    Texts,
    cells_of,
    join_rows,
    make_rows,
    numbers_of,
    pick,
    texts_of,
)
from featurelib.schema import LAYOUT, SNAPSHOT, TEXT_FIELDS
from featurelib.snapshot.log import expected_end, is_complete, level_map
from featurelib.snapshot.migration import (
    controllers_at,
    is_in_zookeeper_mode,
    is_on_zookeeper,
    outlived,
    registered_ranges,
)
from featurelib.snapshot.state import (
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
    levels_by_metrics,
    supported_by,
)
from featurelib.snapshot.zookeeper import registered

MALFORMED = "snapshot_malformed"  # the finding
_DAMAGED = "its checksum does not match its content"
_LOST = "it is missing, although the tables have lines of the cluster"
SET_ASIDE = -1  # in place of a checksum: the cluster's lines no longer count as evidence
_SET_ASIDE = "bronze.landing_line has lines of the cluster that were quarantined later"
UNUSABLE = -2  # in place of a checksum: featurelib failed; the row's only text says with what
_BYTES = ("names", "texts", *LAYOUT)
_TEXTS = msgspec.msgpack.Decoder(list[str])
_NO_SCALARS = {"controller": -1, "log_gap_end": -1, "migration": -1, "features_node_version": -1}
NODE_GONE = -2  # in place of the znode's version: its text is the last one read
_MOMENT = attrgetter("at", "line")
_KIND = attrgetter("role", "fenced_shown")
RecordArray = npt.NDArray[np.void]
Tuples = Iterable[tuple[object, ...]]
Struct = TypeVar("Struct", bound=msgspec.Struct)


def make_records(part: str, rows: Sequence[tuple[object, ...]]) -> RecordArray:
    """Return records of a part from tuples in the order of its fields."""
    return np.array(rows, dtype=LAYOUT[part])


def no_scalars() -> RecordArray:
    """Return the one record of `scalars` of a cluster without data."""
    empty = np.zeros(1, dtype=LAYOUT["scalars"])
    for name, value in _NO_SCALARS.items():
        empty[name] = value
    return empty


@dataclass(slots=True, kw_only=True)
class StoredRow:
    """A row to write or to change: a part that is not in `parts` has no records."""

    cluster: str
    observed_at: int | None
    waiting: int = 0
    features_node: str | None = None
    parts: dict[str, RecordArray] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    state: bytes = b""

    def name_code(self, name: str) -> int:
        """Return the position of a feature's name; a new name is added."""
        return _code(self.names, name)

    def text_code(self, text: str | None) -> int:
        """Return the position of any other text; a new text is added; -1 = none."""
        return -1 if text is None else _code(self.texts, text)


def _code(texts: list[str], text: str) -> int:
    if text not in texts:
        texts.append(text)
    return texts.index(text)


def open_row(rows: TableRows) -> StoredRow:
    """Return the first of these rows as a changeable row, without its `state`."""
    [first] = rows.take(np.arange(1)).to_pylist()
    at = int(rows.numbers("observed_at")[0])
    return StoredRow(
        cluster=first["cluster"],
        observed_at=None if at == NONE else at,
        waiting=first["waiting"] or 0,
        features_node=first["features_node"],
        parts={part: np.frombuffer(first[part], of).copy() for part, of in LAYOUT.items()},
        names=_decode(first["names"]),
        texts=_decode(first["texts"]),
    )


def write_rows(rows: Sequence[StoredRow]) -> TableRows:
    """Return the rows as those of featurelib.schema.SNAPSHOT."""
    columns: dict[str, Column | Int] = {
        "cluster": texts_of(row.cluster for row in rows),
        "observed_at": numbers_of(row.observed_at for row in rows),
        "waiting": np.array([row.waiting for row in rows], dtype=np.int64),
        "features_node": texts_of(row.features_node for row in rows),
        "names": cells_of([msgspec.msgpack.encode(row.names) for row in rows]),
        "texts": cells_of([msgspec.msgpack.encode(row.texts) for row in rows]),
        "state": cells_of([row.state for row in rows]),
    }
    for part, of in LAYOUT.items():
        empty = np.empty(0, dtype=of)
        records = [row.parts.get(part, empty) for row in rows]
        lengths = np.array([len(part_records) for part_records in records], dtype=np.int64)
        columns[part] = pack(np.concatenate([empty, *records]), lengths)
    return with_checksum(columns)


def pack(records: RecordArray, lengths: Int) -> Cells:
    """Return one part's column: row i has the next lengths[i] of the records."""
    ends = np.concatenate(([0], np.cumsum(lengths) * records.dtype.itemsize))
    return Cells(data=records.tobytes(), ends=ends)


def with_checksum(columns: Mapping[str, Column | Int]) -> TableRows:
    """Return rows of SNAPSHOT; a column that is left out is null."""
    cluster = columns["cluster"]
    assert isinstance(cluster, Texts)
    rows = make_rows(SNAPSHOT, len(cluster), columns)
    return rows.replace(checksum=_checksums(rows))


def _checksums(rows: TableRows) -> Int:
    """Return the expected `checksum` of rows: of the lengths of all bytes, and of the bytes."""
    waiting, node = rows.numbers("waiting"), rows.texts("features_node")
    heads = [rows.numbers("observed_at"), np.where(waiting == NONE, 0, waiting), node.codes >= 0]
    columns = [_encoded(rows.texts("cluster")), _encoded(node), *map(rows.cells, _BYTES)]
    heads += [column.lengths for column in columns]
    lengths = np.ascontiguousarray(np.stack(heads, axis=1), dtype="<i8")
    sums = list(map(zlib.crc32, lengths))
    for column in columns:
        if column.ends[-1]:
            data, ends = memoryview(column.data), pairwise(column.ends.tolist())
            sums = [
                zlib.crc32(data[start:end], before)
                for before, (start, end) in zip(sums, ends, strict=True)
            ]
    return np.array(sums, dtype=np.int64)


def _encoded(texts: Texts) -> Cells:
    """Return texts as bytes; a null has no bytes."""
    words = [*(word.encode() for word in texts.words), b""]  # at -1
    return cells_of([words[code] for code in texts.codes.tolist()])


def _damages(rows: TableRows) -> dict[int, str]:
    """Return why rows cannot be read, by position. A row with only a cluster id is damaged only if
    it has a checksum: that marks a lost row."""
    has_data = rows.numbers("observed_at") != NONE
    for name in _BYTES:
        has_data |= rows.cells(name).lengths > 0
    kept = rows.numbers("checksum")
    damaged = np.flatnonzero((kept != _checksums(rows)) & (has_data | (kept != NONE)))
    reasons = np.where(kept == SET_ASIDE, _SET_ASIDE, np.where(has_data, _DAMAGED, _LOST)).tolist()
    unusable = dict.fromkeys(np.flatnonzero(kept == UNUSABLE).tolist())
    texts = rows.take(np.array([*unusable], dtype=np.int64)).cells("texts").to_pylist()
    told = {at: " ".join(_decode(text)) for at, text in zip(unusable, texts, strict=True)}
    return {at: told.get(at, reasons[at]) for at in damaged.tolist()}


def unusable_row(cluster: str, fault: Exception) -> TableRows:
    """Return the row of a cluster on which featurelib failed: nothing is known of it, and the
    finding snapshot_malformed names the fault."""
    reason = f"featurelib failed on it ({type(fault).__name__}: {fault}); please report it"
    texts = cells_of([msgspec.msgpack.encode([reason])])
    row = with_checksum({"cluster": texts_of([cluster]), "texts": texts})
    return row.replace(checksum=np.array([UNUSABLE]))


def _decode(stored: bytes) -> list[str]:
    return _TEXTS.decode(stored) if stored else []


class _Texts:
    """A column of lists of texts: `values` are all distinct texts, sorted."""

    def __init__(self, column: Cells) -> None:
        place: dict[bytes, int] = {}
        of_row = [place.setdefault(stored, len(place)) for stored in column.to_pylist()]
        lists = [_decode(stored) for stored in place]
        self.values = sorted({text for texts in lists for text in texts})
        rank = {text: code for code, text in enumerate(self.values)}
        self._codes: Int = np.array([rank[t] for texts in lists for t in texts], dtype=np.int64)
        sizes = np.array([len(texts) for texts in lists], dtype=np.int64)
        self._first = (np.cumsum(sizes) - sizes)[np.array(of_row, dtype=np.int64)]

    def codes(self, row: Int, local: Int) -> Int:
        """Return positions in `values` from positions in the lists of these rows; -1 stays."""
        codes: Int = np.full(len(local), -1, dtype=np.int64)
        codes[local >= 0] = self._codes[(self._first[row] + local)[local >= 0]]
        return codes


class Records:
    """A part of a batch of rows, flat: record i belongs to row `row[i]`."""

    def __init__(self, records: RecordArray, lengths: Int, texts: Mapping[str, _Texts]) -> None:
        self.lengths = lengths
        self.start: Int = np.cumsum(lengths) - lengths
        self.row: Int = np.repeat(np.arange(len(lengths)), lengths)
        self._records, self._texts = records, texts
        self._fields: dict[str, Int] = {}

    def __len__(self) -> int:
        return len(self._records)

    def field(self, name: str) -> Int:
        """Return one field of all records, int64; a text is a position in the batch's texts."""
        if name not in self._fields:
            values = self._records[name].astype(np.int64)
            if name in TEXT_FIELDS:
                values = self._texts[TEXT_FIELDS[name]].codes(self.row, values)
            self._fields[name] = values
        return self._fields[name]

    def text(self, name: str, record: int) -> str | None:
        """Return one text of one record; None = there is none."""
        return self.texts(name, np.array([record]))[0]

    def texts(self, name: str, at: Int) -> list[str | None]:
        """Return one text of each of these records, -1 = of no record; None = there is none."""
        words = [*self._texts[TEXT_FIELDS[name]].values, None]  # at -1
        return [words[code] for code in pick(self.field(name), at, -1).tolist()]

    def structs(self, of: type[Struct], positions: Int | None = None) -> list[Struct]:
        """Return all records, or those at `positions`, with texts, as structs of these fields."""
        at = np.arange(len(self)) if positions is None else positions
        columns = {
            name: self.texts(name, at) if name in TEXT_FIELDS else self.field(name)[at].tolist()
            for name in of.__struct_fields__
        }
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return msgspec.convert(rows, list[of], strict=False)  # type: ignore[valid-type]  # 0 is false

    def code(self, name: str, text: str) -> int:
        """Return the code of `text` in the field `name`; -2 = no record of the batch has it."""
        values = self._texts[TEXT_FIELDS[name]].values
        return values.index(text) if text in values else -2


class Snapshots:
    """The rows of featurelib.schema.SNAPSHOT, decoded (`state` is not needed).

    A damaged row counts as a cluster without data, and `malformed` has its fault. A row without a
    checksum belongs to a cluster that never had data.
    """

    def __init__(self, rows: TableRows) -> None:
        self.malformed = _damages(rows)
        self.clusters = [name or "" for name in rows["cluster"].to_pylist()]
        if self.malformed:
            kept = np.arange(len(rows))
            kept[[*self.malformed]] = -1
            rows = rows.take(kept)
        waiting = rows.numbers("waiting")
        self.waiting: Int = np.where(waiting == NONE, 0, waiting)
        self.checksum, self._rows = rows.numbers("checksum"), rows
        self._texts = {name: _Texts(rows.cells(name)) for name in ("names", "texts")}
        self._parts: dict[str, Records] = {}
        texts, version = rows["features_node"].to_pylist(), self.scalar("features_node_version")
        pairs = list(zip(texts, (version == NODE_GONE).tolist(), strict=True))
        # The text of `/feature`, and the last one of a deleted znode; None = unknown.
        self.features_node: list[str | None] = [None if lost else text for text, lost in pairs]
        self.features_node_left: list[str | None] = [text if lost else None for text, lost in pairs]
        # When its newest evidence was read; a reading without a response is none.
        self.observed_at = rows.numbers("observed_at").copy()
        self.observed_at[self["not_reached"].row] = self["not_reached"].field("answered_at")
        self.landed: Bool = self.observed_at != NONE

    def __len__(self) -> int:
        return len(self.clusters)

    @property
    def names(self) -> list[str]:
        """The names of features, sorted: a field `feature` is a position in this list."""
        return self._texts["names"].values

    def __getitem__(self, part: str) -> Records:
        if part not in self._parts:
            column, of = self._rows.cells(part), LAYOUT[part]
            records = np.frombuffer(column.data, of)
            lengths = column.lengths // of.itemsize
            if part == "scalars" and len(records) < len(lengths):
                known, records = records, np.repeat(no_scalars(), len(lengths))
                records[lengths > 0] = known
                lengths = np.ones(len(lengths), dtype=np.int64)
            self._parts[part] = Records(records, lengths, self._texts)
        return self._parts[part]

    def scalar(self, name: str) -> Int:
        """Return one number per cluster."""
        return self["scalars"].field(name)


def snapshot_rows(clusters: Iterable[tuple[str, ClusterState | Exception]]) -> TableRows:
    """Return a row of featurelib.schema.SNAPSHOT for each (cluster, state). An exception in place
    of a state is the failure of its fold: no cluster's lines end the run of the others."""
    given, rows = list(clusters), list[StoredRow]()
    try:
        for cluster, state in given:
            if isinstance(state, Exception):
                raise state
            rows.append(_Row(cluster, state).fill())
        return write_rows(rows)
    except Exception as fault:
        if len(given) == 1:
            return unusable_row(given[0][0], fault)
        return join_rows([snapshot_rows([of_cluster]) for of_cluster in given])


class _Row:
    """A row under construction: its maps are split into supported ranges and finalized levels."""

    def __init__(self, cluster: str, state: ClusterState) -> None:
        self._state = state
        # 0 = nothing counts yet
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
        self._zookeeper, self._kraft = is_on_zookeeper(state), controllers_at(state) > 0
        self._migrated = self._kraft and (self._zookeeper or bool(state.read_twice))

    def fill(self) -> StoredRow:
        """Return the row with all its parts."""
        # Brokers that changed to KRaft leave ZooKeeper, and are not gone.
        state = self._state
        stored, removed = (_stored(state), set[int]()) if self._kraft else registered(state)
        text, quorum, directories = (
            self._row.text_code,
            state.quorum,
            dict(state.quorum.directories),
        )
        newest = {_KIND(o): o for o in sorted(state.members, key=_MOMENT)}
        lists = [newest[key] for key in sorted(newest)]
        parts: dict[str, Tuples] = {
            "scalars": [self._scalars()],
            "listeners": [self._listener(entry) for entry in state.listeners],
            "registrations": self._registrations(stored),
            "registrations_gone": [(node_id,) for node_id in sorted(removed)],
            "witnesses": self._witnesses(),
            "members": [
                (of.role, of.fenced_shown, of.at, of.line, len(of.members)) for of in lists
            ],
            "member": [member for of in lists for member in of.members],
            "disputed": self._disputed(lists),
            "voters": [
                (of, of in quorum.following, text(directories.get(of))) for of in quorum.voters
            ],
            "observers": [(observer,) for observer in state.quorum.observers],
            "leaderless": [(o.role, o.node_id, o.at, o.line) for o in state.leaderless],
            "configs": self._configs(),
            "refusals": self._refusals(),
            "probe": self._probe(),
            "strimzi": self._strimzi(),
            "not_reached": self._not_reached(),
            "strimzi_nodes": self._strimzi_nodes(),
            "ambiguous_dumps": [(time,) for time in state.ambiguous_dumps],
        }
        self._row.parts = {part: make_records(part, list(rows)) for part, rows in parts.items()}
        # Names used in the parts above are known only now.
        for sizes, entries, maps in (
            ("profiles", "ranges", self._profiles),
            ("level_maps", "levels", self._levels),
        ):
            self._row.parts[sizes] = make_records(sizes, [(len(of),) for of in maps])
            self._row.parts[entries] = make_records(entries, self._named(maps))
        if missing := LAYOUT.keys() - self._row.parts.keys():
            raise KeyError(f"snapshot.toml: _Row.fill does not fill the part {min(missing)}")
        return self._row

    def _scalars(self) -> tuple[int, ...]:
        state, node = self._state, self._state.node
        # Once KRaft controllers exist, no node reads `/feature`.
        is_unread = node.unread_at > max(node.at, node.absent_at)
        node = FeaturesNode() if self._kraft or is_unread else node
        is_there = node.data is not None and node.at >= node.absent_at
        self._row.features_node = node.data
        waiting_at, waiting_line, _ = state.waiting
        values: dict[str, int] = {
            # Without an epoch it is a tool's table, which may lack a row.
            "quorum_at": state.quorum.at if state.quorum.leader_epoch >= 0 else 0,
            "quorum_line": state.quorum.line,
            "controller": state.quorum.leader_id if self._kraft else state.controller[2],
            "log_end": state.log.end,
            "log_at": state.log.at if is_complete(state) else -_dumped_at(state),
            "log_gap_end": _gap_end(state),
            "migration": state.log.migration,
            "features_node_at": max(node.at, node.absent_at),
            "features_node_line": node.line if is_there else node.absent_line,
            "features_node_version": node.version if is_there or not node.absent_at else NODE_GONE,
            "features_node_recreated": node.recreated,
            "zookeeper": self._zookeeper,
            "waiting_at": waiting_at,
            "waiting_line": waiting_line,
        }
        return tuple(values[name] for name in LAYOUT["scalars"].names or ())

    def _named(self, maps: Iterable[Map]) -> list[tuple[object, ...]]:
        name = self._row.name_code
        return [(name(feature), low, high) for entries in maps for feature, low, high in entries]

    def _listener(self, entry: Listener) -> tuple[object, ...]:
        values = {name: getattr(entry, name) for name in LAYOUT["listeners"].names or ()}
        values["full"] = self._supported(entry, entry.full)
        values["partial"] = self._supported(entry, entry.partial)
        values["levels"] = self._place(self._levels, entry.levels)
        if self._migrated and is_in_zookeeper_mode(entry, self._state):
            values |= {"full": self._registered(), "partial": NOTHING}
            values |= {"full_at": max(entry.full_at, entry.partial_at), "levels": NOTHING}
            values |= {"full_line": max(entry.full_line, entry.partial_line), "epoch": -1}
        ranges = () if entry.scraped == NOTHING else by_metrics(entry, self._state)[0]
        values["scraped"] = _position(self._profiles, ranges) if ranges else NOTHING
        values["error"] = self._row.text_code(entry.error)
        values["releases"] = self._row.text_code(entry.releases or None)
        return tuple(values.values())

    def _registrations(self, stored: list[Registration]) -> Iterator[tuple[object, ...]]:
        for entry in stored if self._zookeeper else ():
            own = self._place(self._profiles, entry.profile)
            profile = self._registered() if self._kraft else own
            node = (entry.node_id, 0, int(Witness.FEATURES_NODE), profile)
            yield (*node, 0, entry.at, entry.line)
        for known in self._state.log.nodes:
            profile = self._place(self._profiles, known.profile)
            node = (known.node_id, known.role, int(Witness.METADATA_LOG), profile)
            # An old record, dumped again, does not show later changes.
            yield (*node, known.fenced, min(known.at, self._state.log.at), known.line)

    def _disputed(self, lists: Sequence[Members]) -> Iterator[tuple[object, ...]]:
        """Yield each node about which a list disagrees with the newest list of its time."""
        for new in lists:
            lists_then = [o for o in self._state.members if _KIND(o) == _KIND(new)]
            differ = {member for old in lists_then for member in {*old.members} ^ {*new.members}}
            for node_id in sorted({node_id for node_id, _ in differ}):
                yield new.role, node_id, new.at, new.line

    def _witnesses(self) -> Iterator[tuple[object, ...]]:
        state = self._state
        for entry in state.witnesses:
            if self._is_of_zookeeper(entry):
                continue
            levels = self._place(self._levels, entry.levels)
            yield entry.kind, levels, entry.epoch, entry.at, entry.line
        log, tool = state.log, state.tool
        if is_complete(state):
            levels = _position(self._levels, level_map(log))
            yield int(Witness.METADATA_LOG), levels, log.end - 1, log.at, log.line
        if tool:
            entries = tuple((name, level, level) for name, (_, _, level) in sorted(tool.items()))
            newest = max(at for at, _, _ in tool.values())
            yield int(Witness.TOOL), _position(self._levels, entries), -1, newest, 0
        scraped, at, line = levels_by_metrics(state)
        if at:
            yield int(Witness.SCRAPE), _position(self._levels, scraped), -1, at, line

    def _is_of_zookeeper(self, entry: WitnessedLevels) -> bool:
        """Return true for levels from a broker in ZooKeeper mode in a cluster with KRaft
        controllers, which store a metadata.version before the migration begins."""
        levels = self._state.maps[entry.levels]
        has_metadata = any(name == METADATA_VERSION for name, _, _ in levels)
        return self._migrated and entry.kind == Witness.BROKER and not has_metadata

    def _registered(self) -> int:
        """Return the profile of brokers in ZooKeeper mode for the controllers of a migration."""
        ranges = registered_ranges(self._state) if self._zookeeper else None
        return NOTHING if ranges is None else _position(self._profiles, ranges)

    def _configs(self) -> Iterator[tuple[object, ...]]:
        """Yield an entry for each requested key of a node."""
        text = self._row.text_code
        for of in self._state.configs:
            values = {key: (value, source) for key, value, source in of.values}
            for key in KEYS:
                value, source = values.get(key, (None, -1))
                node = (of.node_id, of.role, text(of.resource), text(key))
                yield (*node, text(value), source, of.at, of.line)

    def _refusals(self) -> Iterator[tuple[object, ...]]:
        """Yield the requests whose last response was a refusal, by each node of that reading."""
        text, newest = self._row.text_code, dict[tuple[str, int], tuple[int, int]]()
        for acl in self._state.rights:
            answered, refused = newest.get((acl.request, acl.role), (0, 0))
            times = max(answered, acl.answered_at), max(refused, acl.refused_at)
            newest[acl.request, acl.role] = times
        answering = {request for (request, _), (at, refused) in newest.items() if at > refused}
        for acl in self._state.rights:
            answered, refused = newest[acl.request, acl.role]
            if answered < acl.refused_at and refused <= acl.refused_at + ONE_READING:
                elsewhere = acl.request in answering
                node = (text(acl.request), acl.role, acl.node_id, elsewhere, text(acl.principal))
                yield (*node, acl.refused_at, acl.line)

    def _probe(self) -> Iterator[tuple[object, ...]]:
        """Yield the newest probe, unless newer data exists: the cluster may have changed since."""
        probe = self._state.probe
        if probe is None or probe.at < self._state.observed_at:
            return
        for name, low, high, code, message in probe.answers:
            feature = self._row.name_code(name)
            yield feature, low, high, code, self._row.text_code(message), probe.at, probe.line

    def _strimzi(self) -> Iterator[tuple[object, ...]]:
        """Yield the newest content of Strimzi's resources."""
        if (of := self._state.strimzi) is not None:
            values = ((name, getattr(of, name)) for name in LAYOUT["strimzi"].names or ())
            text = self._row.text_code
            yield tuple(text(value) if name in TEXT_FIELDS else value for name, value in values)

    def _not_reached(self) -> Iterator[tuple[object, ...]]:
        """Yield the newest reading that reached no node, unless later data of the cluster was
        collected; its metrics may be of the same reading."""
        lost = self._state.not_reached
        scraped = max((entry.scraped_at for entry in self._state.listeners), default=0)
        if lost and lost.after > max(self._state.observed_at, scraped + ONE_READING):
            yield self._row.text_code(lost.error), self._answered or NONE, lost.at, lost.line

    def _strimzi_nodes(self) -> Iterator[tuple[object, ...]]:
        for node_id, role, version in self._state.strimzi.nodes if self._state.strimzi else ():
            yield node_id, role, self._row.text_code(version)

    def _supported(self, entry: Listener, position: int) -> int:
        """Return the profile of the ranges of a listener's node."""
        if position <= NOTHING:
            return position
        ranges = supported_by(entry, self._state.maps[position], self._state)
        return _position(self._profiles, ranges)

    def _place(self, maps: dict[Map, int], position: int) -> int:
        """Return the position in the row of a map of the state; negative numbers are unchanged."""
        return position if position <= NOTHING else _position(maps, self._state.maps[position])


def _position(maps: dict[Map, int], entries: Map) -> int:
    return maps.setdefault(entries, len(maps))


def _dumped_at(state: ClusterState) -> int:
    """Return the time of the newest dump, 0 = none; it may have a gap."""
    pending = (segment.at for segment in state.log.pending)
    return max([state.log.at, *state.dumps_with_holes, *pending])


def _gap_end(state: ClusterState) -> int:
    """Return the offset at which the metadata log continues after a gap; -1 = no gap is known, the
    log's own end = a line is missing at the end."""
    starts = [segment.start for segment in state.log.pending if not segment.whole]
    if starts or not state.log.end or is_complete(state):
        return min(starts, default=-1)
    return max(state.log.end, expected_end(state))


def _stored(state: ClusterState) -> list[Registration]:
    """Return the registrations in ZooKeeper that count in a cluster with KRaft controllers."""
    return [entry for entry in state.registrations if entry.exists and not outlived(entry, state)]
