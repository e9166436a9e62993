"""Keep a sandbox cluster in one file; the core has all rules.

Every operation is one transaction that reads the newest state and appends the next; after a crash
the file has the state before or after. Nodes protect themselves like real nodes: a finalized level
may stop some nodes. The core decides which nodes stop or can register, and how brokers of each
generation read `/feature`; the result becomes the next state.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import msgspec

from featurelib.catalogue import Tables
from featurelib.config.fleet import zookeeper_generation
from featurelib.core.cluster import Cluster, Node, Request
from featurelib.core.compatibility import (
    Admission,
    Effect,
    Moment,
    Newcomer,
    Stopped,
    Unfit,
    join,
    stopped,
)
from featurelib.core.dialect import Dialect, generation_of, load
from featurelib.core.dry_run import Answered, answer
from featurelib.core.features_znode import (
    DISABLED,
    ENABLED,
    DecodedNode,
    Generation,
    behaviour_row,
    decode,
    elect,
)
from featurelib.errors import InputError, UnreachableError
from featurelib.feature import METADATA_VERSION, UNREGISTERS_CONTROLLERS_FROM, Role

_SCHEMA = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE state (position INTEGER PRIMARY KEY, what TEXT NOT NULL, content BLOB NOT NULL)",
    "CREATE TABLE held (reader INTEGER PRIMARY KEY, position INTEGER NOT NULL,"
    " for_good INTEGER NOT NULL)",
)
FORM = "2"  # the format of the file; others are refused
LONGEST_WAIT_S = 30  # seconds to wait for another process with the file
NOBODY = -1  # the cluster has no leader


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedState:
    """The state of a sandbox cluster at one moment. `node`: the bytes of `/feature`, None without
    znode; `epoch`: the log's end, or the znode's version; `features_at`: the offset of the last
    feature record."""

    cluster: Cluster
    epoch: int
    node: bytes | None = None
    features_at: int = -1

    @property
    def text(self) -> str | None:
        """The text of `/feature`, with surrogates for invalid UTF-8; None without znode."""
        return None if self.node is None else self.node.decode("utf-8", "surrogateescape")

    def answer(
        self, request: Request, dialect: Dialect, tables: Tables
    ) -> tuple[Answered, EmbeddedState]:
        """Return (the active controller's response, the state before any node reads it)."""
        nobody = self.cluster.active == NOBODY
        sent = replace(request, to_active=False) if nobody else request
        answered = answer(self.cluster, sent, dialect, tables)
        after = replace(self, cluster=answered.after)
        if answered.writes:
            after = replace(after, epoch=self.epoch + 1, features_at=self.epoch + 1)
            after = after.written(dialect) if dialect.mode == "zk" else after
        return answered, after

    def written(self, dialect: Dialect) -> EmbeddedState:
        """Return the state with the `/feature` znode that the controller writes."""
        empty = elect(None, "", {}, dialect).content
        assert empty is not None
        levels = self.cluster.finalized.items()
        rows = tuple(sorted((name, low, level) for name, (low, level) in levels))
        status = DISABLED if self.cluster.off else ENABLED
        return replace(self, node=replace(empty, status=status, levels=rows).text.encode())

    def read_by(self, node: Node) -> tuple[DecodedNode, Generation] | None:
        """Return (the znode as a broker reads it, the broker's generation); None without znode."""
        if self.text is None:
            return None
        release = node.release or self.cluster.release
        generation = zookeeper_generation(release) or Generation.ZK_3_9
        return decode(self.text, generation), generation


class Updated(NamedTuple):
    """The controller's response, and the nodes that stop because of the new levels."""

    answered: Answered
    stopped: tuple[Stopped, ...] = ()


class EmbeddedCluster:
    """A sandbox cluster in one file. `mode`: used if the file is empty or missing."""

    def __init__(
        self, path: str, tables: Tables, *, mode: str = "kraft", cluster_id: str = "embedded"
    ) -> None:
        self._tables, self.path = tables, path
        self._file = StateFile(path, {"mode": mode, "cluster_id": cluster_id})
        self.mode: str = self._file.about["mode"]
        self.cluster_id: str = self._file.about["cluster_id"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. All states are on the disk before."""
        self._file.close()

    @property
    def state(self) -> EmbeddedState:
        """The newest state. Raises InputError if the file has no state."""
        return self._newest()[1]

    @property
    def cluster(self) -> Cluster:
        """The newest state of the cluster. Raises InputError if the file has no state."""
        return self.state.cluster

    def dialect(self, state: EmbeddedState | None = None) -> Dialect:
        """Return the dialect of the active controller in `state`; default: the newest state."""
        release = (state or self.state).cluster.release
        try:
            return load(generation_of(release, self.mode))
        except KeyError as error:
            raise InputError(
                f"{self.path}: {error.args[0]}. `featurelib rules --dialects` lists them."
            ) from error

    def seen_by(self, node_id: int) -> EmbeddedState:
        """Return the newest state that a node has read. A held node reads an older state."""
        delayed = self._file.held.get(node_id)
        return self.state if delayed is None else self._at(delayed.position)

    def put(self, cluster: Cluster, epoch: int = 0) -> None:
        """Set the state to `cluster`; in ZooKeeper mode also write the `/feature` znode."""
        state = EmbeddedState(cluster=cluster, epoch=epoch, features_at=epoch)
        dialect = self.dialect(state)
        if dialect.mode == "zk" and not cluster.node_missing:
            state = state.written(dialect)
        with self._file.transaction():
            self._file.let_go(self._file.held, held_for_good=True)
            if cluster.blind:  # brokers do not see the new znode
                deleted = replace(cluster, finalized={}, cached={}, node_missing=True, blind=False)
                self._append("delete", replace(state, cluster=deleted, node=None))
                ids = [node.node_id for node in cluster.nodes]
                self._file.hold(ids, self._newest()[0], for_good=True)
            self._append("put", state)

    def update_features(self, request: Request) -> Updated:
        """Send a request to the active controller, and let every node read the result."""
        with self._file.transaction():
            position, before = self._newest()
            answered, after = before.answer(request, self.dialect(before), self._tables)
            stops: tuple[Stopped, ...] = ()
            if after != before:
                after, stops = self._meet(position, before, after)
                self._append("update_features", after)
        return Updated(answered, stops)

    def unregister(self, node_id: int, role: Role = Role.BROKER) -> None:
        """Remove the registration of a broker, or of a controller that is no voter (KIP-1312).
        Raises InputError."""
        with self._file.transaction():
            state = self.state
            cluster = state.cluster
            kind, able = "brokers", [node for node in cluster.nodes if node.role is role]
            if role is Role.CONTROLLER:
                kind, able = "controllers that do not vote", [n for n in able if not n.voter]
                level = cluster.level(METADATA_VERSION)
                if level < UNREGISTERS_CONTROLLERS_FROM:
                    raise InputError(
                        f"metadata.version {level} cannot unregister controllers (KIP-1312). The "
                        f"cluster needs {UNREGISTERS_CONTROLLERS_FROM} or above."
                    )
            removed = self._find(able, kind, node_id)
            is_led = self.mode == "kraft" or cluster.active != node_id
            nodes = tuple(node for node in cluster.nodes if node is not removed)
            cluster = replace(cluster, nodes=nodes, active=cluster.active if is_led else NOBODY)
            self._append(f"unregister {node_id}", replace(state, cluster=cluster), moves=True)

    def _find(self, nodes: Sequence[Node], kind: str, node_id: int) -> Node:
        by_id = {node.node_id: node for node in reversed(nodes)}  # the first of an id counts
        if node_id in by_id:
            return by_id[node_id]
        ids = ", ".join(str(known) for known in sorted(by_id)) or "none"
        raise InputError(
            f"{self.path}: Node {node_id} is not one of the {kind} {ids}. Register or start node "
            f"{node_id} first."
        )

    def _meet(
        self, position: int, before: EmbeddedState, after: EmbeddedState
    ) -> tuple[EmbeddedState, tuple[Stopped, ...]]:
        """Let all nodes that are not held read `after`. Return (new state, stopped nodes)."""
        delayed, dialect = self._file.held, self.dialect(after)
        behind = [held_node.position for held_node in delayed.values() if not held_node.for_good]
        began = self._at(min(behind)) if behind else before
        deaf = {node_id for node_id, held_node in delayed.items() if held_node.for_good}
        seeing = [node for node in after.cluster.nodes if node.node_id not in deaf]
        react = _watch if dialect.mode == "zk" else _replay
        stops, keep, is_blind = react(began, after, seeing, dialect, self._tables)
        self._file.let_go({node.node_id for node in after.cluster.nodes} - keep)
        self._file.hold(keep, position)
        self._file.hold(is_blind, position, for_good=True)
        cluster = end(after.cluster, {item.node.node_id for item in stops}, dialect)
        if dialect.mode != "zk":
            cluster = _ask_again(began.cluster, cluster, dialect, self._tables)
        return replace(after, cluster=cluster), tuple(stops)

    def _append(self, cause: str, state: EmbeddedState, *, moves: bool = False) -> None:
        """Append the next state. `moves`: it is a KRaft log record, which raises the epoch."""
        if moves and self.mode == "kraft":
            state = replace(state, epoch=state.epoch + 1)
        self._file.append(cause, msgspec.json.encode(state))

    def _newest(self) -> tuple[int, EmbeddedState]:
        position, content = self._file.read()
        return position, _STATE.decode(content)

    def _at(self, position: int) -> EmbeddedState:
        return _STATE.decode(self._file.read(position)[1])


_STATE = msgspec.json.Decoder(EmbeddedState)


def end(cluster: Cluster, ids: Collection[int], dialect: Dialect) -> Cluster:
    """Return the cluster after some processes ended. In ZooKeeper mode their registrations end; in
    KRaft mode brokers become fenced."""

    def ended(node: Node) -> Node:
        if node.node_id not in ids:
            return node
        if dialect.mode == "zk":
            return replace(node, running=False, registered=False, ignored=False)
        return replace(node, running=False, fenced=node.fenced or node.role is Role.BROKER)

    return replace(
        cluster,
        nodes=tuple(ended(node) for node in cluster.nodes),
        active=NOBODY if cluster.active in ids else cluster.active,
    )


# The reaction of running nodes to a change: nodes that stop; nodes that keep the old content until
# they can read the next; nodes that ignore changes until a restart. All others use the change.
_Reaction = tuple[list[Stopped], set[int], set[int]]


def _replay(
    before: EmbeddedState, after: EmbeddedState, seeing: list[Node], by: Dialect, tables: Tables
) -> _Reaction:
    """Return the reaction of KRaft nodes that read a change of the metadata log."""
    cluster = replace(after.cluster, nodes=tuple(seeing), finalized=before.cluster.finalized)
    proposed, moment = after.cluster.finalized, Moment.AFTER_UPDATE
    result = stopped(cluster, by, tables, moment=moment, proposed=proposed)
    exits = [item for item in result if item.effect is Effect.EXITS]
    return exits, set(), {item.node.node_id for item in result if item.effect is Effect.BLIND}


def _watch(
    before: EmbeddedState, after: EmbeddedState, seeing: Iterable[Node], by: Dialect, tables: Tables
) -> _Reaction:
    """Return the reaction of ZooKeeper-mode brokers that read the changed znode."""
    stops: list[Stopped] = []
    keep: set[int] = set()
    groups: dict[Generation, tuple[DecodedNode, list[Node]]] = {}
    for node in seeing:
        read = after.read_by(node)
        if node.running and read is not None and not after.cluster.off:  # otherwise nobody reads it
            groups.setdefault(read[1], (read[0], []))[1].append(node)
    for generation, (reading, group) in groups.items():
        effects = behaviour_row(reading.reading, generation)["running"]
        if "stop" in effects:
            unfit = (Unfit(feature="", text=reading.fault or ""),)
            stops += [Stopped(node=node, effect=Effect.EXITS, unfit=unfit) for node in group]
        elif "keep_old" in effects:
            keep |= {node.node_id for node in group}
        else:
            levels = {name: (low, level) for name, low, level in reading.levels}
            cluster = replace(after.cluster, nodes=tuple(group), finalized=levels, off=False)
            stops += stopped(cluster, by, tables)
    return stops, keep, set()


def _ask_again(before: Cluster, after: Cluster, dialect: Dialect, tables: Tables) -> Cluster:
    """Return the cluster after controllers that registered too early try again."""

    def asked(node: Node) -> Node:
        if node.role is not Role.CONTROLLER or node.registered or not node.running:
            return node
        entries = [join(at, Newcomer(node=node), dialect, tables).entry for at in (before, after)]
        return replace(node, registered=entries == [Admission.REFUSED, Admission.ACCEPTED])

    return replace(after, nodes=tuple(asked(node) for node in after.nodes))


class Held(NamedTuple):
    """A node that stops reading at a position. `for_good`: until it is released explicitly."""

    position: int
    for_good: bool


class StateFile:
    """A file with the states of a sandbox. Every change is one SQLite transaction that appends a
    state.

    No state is changed or deleted, so a held reader can read an older one. A missing file is
    created with the description `about`."""

    def __init__(self, path: str, facts: Mapping[str, str]) -> None:
        self.path = path
        with ExitStack() as opening:
            try:
                self._db = sqlite3.connect(path, isolation_level=None, timeout=LONGEST_WAIT_S)
                opening.callback(self._db.close)
                self._db.execute("PRAGMA synchronous = FULL")
                with self.transaction():
                    self.about = self._open({**facts, "form": FORM})
            except sqlite3.DatabaseError as error:
                raise self._wrong_file(str(error)) from error
            opening.pop_all()

    def _open(self, facts: dict[str, str]) -> dict[str, str]:
        """Return the description in the file. An empty file gets the tables and `facts`."""
        tables = {row[0] for row in self._db.execute("SELECT tbl_name FROM sqlite_master")}
        if not tables:
            for statement in _SCHEMA:
                self._db.execute(statement)
            self._db.executemany("INSERT INTO about VALUES (?, ?)", facts.items())
            return facts
        if "about" not in tables:
            raise self._wrong_file(f"the tables {', '.join(sorted(tables))}")
        description = dict[str, str]()
        if {row[1] for row in self._db.execute("PRAGMA table_info(about)")} == {"name", "value"}:
            description = dict(self._db.execute("SELECT name, value FROM about"))
        if description.get("form") != FORM:
            raise InputError(
                f"{self.path}: The form of this sandbox cluster is "
                f"{description.get('form', 'older')}, and this featurelib reads form {FORM}. Open "
                "the file with the featurelib that made it."
            )
        return description

    def _wrong_file(self, actual: str) -> InputError:
        fault = "is not the file of a sandbox cluster"
        return InputError(f"{self.path} {fault}: {actual}. A landing file needs --capture.")

    def close(self) -> None:
        """Close the file. All states are on the disk before."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as a transaction. Raises UnreachableError if the file is in use."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise UnreachableError(f"{self.path}: {error}. Wait for the other process.") from error
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def read(self, position: int | None = None) -> tuple[int, bytes]:
        """Return (position, state at this position); default: the newest. Raises InputError."""
        row = self._db.execute(
            "SELECT position, content FROM state WHERE ? IS NULL OR position = ? "
            "ORDER BY position DESC LIMIT 1",
            (position, position),
        ).fetchone()
        if row is None:
            raise InputError(f"{self.path}: no cluster is in this file yet. Put one in first.")
        return int(row[0]), bytes(row[1])

    def append(self, cause: str, content: bytes) -> None:
        """Append the next state with its cause."""
        self._db.execute("INSERT INTO state (what, content) VALUES (?, ?)", (cause, content))

    @property
    def held(self) -> dict[int, Held]:
        """The held nodes: node id → position."""
        rows = self._db.execute("SELECT reader, position, for_good FROM held")
        return {reader: Held(position, bool(for_good)) for reader, position, for_good in rows}

    def hold(self, readers: Iterable[int], position: int, *, for_good: bool = False) -> None:
        """Hold nodes at `position`. Nodes that are already held keep their position."""
        self._db.executemany(
            "INSERT INTO held VALUES (?, ?, ?) ON CONFLICT (reader) "
            "DO UPDATE SET for_good = max(for_good, excluded.for_good)",
            [(reader, position, for_good) for reader in readers],
        )

    def let_go(self, readers: Iterable[int], *, held_for_good: bool = False) -> None:
        """Release held nodes. `held_for_good`: also those that were held for good."""
        self._db.executemany(
            "DELETE FROM held WHERE reader = ? AND for_good <= ?",
            [(reader, held_for_good) for reader in readers],
        )
