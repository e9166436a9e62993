"""A cluster kept in one file: it holds no rule, it asks the core.

Every operation is one SQLite transaction that reads the newest state, asks, and appends the next
one; a crash at any moment leaves the state before or the state after. States are kept, so that a
node that lags behind answers with an older epoch, as nodes of a real cluster do.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType

import msgspec

from featurelib.catalogue.tables import Tables
from featurelib.core.ask import Answered, answer
from featurelib.core.cluster import Cluster, Node, Request
from featurelib.core.dialect import Dialect, generation_of, load
from featurelib.errors import InputError, UnreachableError
from featurelib.feature import Role

_SCHEMA = (
    "CREATE TABLE about (mode TEXT NOT NULL, form INTEGER NOT NULL)",
    "CREATE TABLE state (position INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, what TEXT NOT NULL,"
    " cluster BLOB NOT NULL)",
    "CREATE TABLE lagging (node_id INTEGER PRIMARY KEY, position INTEGER NOT NULL)",
)
FORM = 1  # of the file; another one is refused
LONGEST_WAIT_S = 30  # for another process that holds the file
IN_MEMORY = ":memory:"
_CLUSTER = msgspec.json.Decoder(Cluster)


class EmbeddedCluster:
    """One cluster in one file. A file that is empty or not there becomes one of `mode`."""

    def __init__(
        self, path: str, tables: Tables, *, mode: str = "kraft", dialect: Dialect | None = None
    ) -> None:
        self._tables, self._path, self._dialect = tables, path, dialect
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=LONGEST_WAIT_S)
        except sqlite3.OperationalError as error:
            raise self._wrong_file(str(error)) from error
        try:
            self._db.execute("PRAGMA synchronous = FULL")
            with self._transaction():
                self.mode: str = self._open(mode)
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise self._wrong_file(str(error)) from error
        except BaseException:
            self._db.close()
            raise

    def _open(self, mode: str) -> str:
        """The mode of the file; makes the tables where there are none. Raises InputError."""
        there = {row[0] for row in self._db.execute("SELECT tbl_name FROM sqlite_master")}
        if not there:
            for statement in _SCHEMA:
                self._db.execute(statement)
            self._db.execute("INSERT INTO about VALUES (?, ?)", (mode, FORM))
        elif "about" not in there:
            raise self._wrong_file(f"the tables {', '.join(sorted(there))}")
        about = self._db.execute("SELECT mode, form FROM about").fetchone()
        if about is None or about[1] != FORM:
            raise InputError(
                f"{self._path}: expected an embedded cluster of form {FORM}, found "
                f"{'none' if about is None else about[1]}. "
                "Open it with the release of featurelib that made it."
            )
        return str(about[0])

    def _wrong_file(self, found: str) -> InputError:
        return InputError(
            f"{self._path}: expected an embedded cluster's file, found: {found}. Name another file."
        )

    def __enter__(self) -> EmbeddedCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was answered is on the disk already."""
        self._db.close()

    @property
    def cluster(self) -> Cluster:
        """The newest state. Raises InputError when nothing was put in yet."""
        return self._read()[1]

    @property
    def epoch(self) -> int:
        """KRaft: the log's end. ZooKeeper mode: the version of the features node."""
        return self._read()[0]

    @property
    def dialect(self) -> Dialect:
        """How the active controller answers: as its release does, unless one was given."""
        return self._dialect or load(generation_of(self.cluster.release, self.mode))

    def put(self, cluster: Cluster, epoch: int = 0) -> None:
        """Make `cluster` the state, whatever was there: a start, or a restored capture."""
        with self._transaction():
            self._append(cluster, epoch, "put")

    def register(self, node: Node) -> None:
        """A node joins; it replaces an earlier registration of the same id and role."""
        self._change(f"register {node.node_id}", lambda c: _with(c, node))

    def fence(self, node_id: int, *, fenced: bool = True) -> None:
        """A broker's session ends, or comes back. Raises InputError for a node nobody knows."""
        self._change_node(node_id, f"fence {node_id}", lambda n: replace(n, fenced=fenced))

    def stop(self, node_id: int, *, running: bool = False) -> None:
        """A process ends, or starts again: its registration stays. Raises InputError."""
        self._change_node(
            node_id, f"stop {node_id}", lambda n: replace(n, running=running, fenced=not running)
        )

    def unregister(self, node_id: int) -> None:
        """A broker is taken out of the cluster (UnregisterBroker). Raises InputError."""

        def without(cluster: Cluster) -> Cluster:
            brokers = [n for n in cluster.nodes if n.role is Role.BROKER]
            gone = self._find(brokers, "brokers", node_id)
            return replace(cluster, nodes=tuple(n for n in cluster.nodes if n is not gone))

        self._change(f"unregister {node_id}", without)

    def elect(self, node_id: int) -> None:
        """Another node becomes the active controller: a running controller, or a broker in
        ZooKeeper mode. Raises InputError."""

        def led(cluster: Cluster) -> Cluster:
            role = Role.CONTROLLER if self.mode == "kraft" else Role.BROKER
            able = [n for n in cluster.nodes if n.role is role and n.running]
            leader = self._find(able, f"running {role.text}s", node_id)
            return replace(cluster, active=node_id, release=leader.release or cluster.release)

        self._change(f"elect {node_id}", led)

    def update_features(self, request: Request, *, lagging: bool = False) -> Answered:
        """Put a request to the active controller. With `lagging` no node has applied it yet."""
        with self._transaction():
            epoch, cluster, position = self._read()
            answered = answer(cluster, request, self.dialect, self._tables)
            if answered.writes or answered.after != cluster:
                if lagging:
                    held = [(node.node_id, position) for node in cluster.nodes]
                    self._db.executemany("INSERT OR IGNORE INTO lagging VALUES (?, ?)", held)
                self._append(answered.after, epoch + answered.writes, "update_features")
        return answered

    def settle(self) -> None:
        """Every node applies everything."""
        self._db.execute("DELETE FROM lagging")

    def describe(self, node_id: int, version: int = 4) -> dict[str, object]:
        """What a node answers to ApiVersions: supported, finalized, epoch; perhaps of before.

        Version 3 leaves out features whose minimum is 0, as nodes from 3.9 do (KAFKA-17011).
        Raises UnreachableError for a node that does not run.
        """
        node = self._find(self.cluster.nodes, "nodes", node_id)
        if not node.running:
            raise UnreachableError(f"{self._path}: node {node_id} does not run. Start it first.")
        lagging = "SELECT position FROM lagging WHERE node_id = ?"
        held = self._db.execute(lagging, (node_id,)).fetchone()
        epoch, cluster, _ = self._read(held[0] if held else None)
        return {
            "supported": {
                name: {"min_version": low, "max_version": high}
                for name, (low, high) in sorted(node.supported.items())
                if version > 3 or low > 0
            },
            "finalized": {
                name: {"min_version_level": low, "max_version_level": high}
                for name, (low, high) in sorted(cluster.finalized.items())
            },
            "finalized_epoch": -1 if cluster.node_missing or cluster.off else epoch,
        }

    def _find(self, nodes: Sequence[Node], what: str, node_id: int) -> Node:
        by_id = {node.node_id: node for node in reversed(nodes)}  # the first of an id counts
        if node_id in by_id:
            return by_id[node_id]
        ids = ", ".join(str(known) for known in sorted(by_id)) or "none"
        raise InputError(
            f"{self._path}: expected one of the {what} {ids}, found {node_id}. Register it first."
        )

    def _change_node(self, node_id: int, what: str, change: Callable[[Node], Node]) -> None:
        def changed(cluster: Cluster) -> Cluster:
            self._find(cluster.nodes, "nodes", node_id)
            nodes = tuple(change(n) if n.node_id == node_id else n for n in cluster.nodes)
            return replace(cluster, nodes=nodes)

        self._change(what, changed)

    def _change(self, what: str, change: Callable[[Cluster], Cluster]) -> None:
        with self._transaction():
            epoch, cluster, _ = self._read()
            moved = self.mode == "kraft"  # registrations are records there
            self._append(change(cluster), epoch + moved, what)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise UnreachableError(f"{self._path}: {error}. Wait for the other process.") from error
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _read(self, position: int | None = None) -> tuple[int, Cluster, int]:
        row = self._db.execute(
            "SELECT epoch, cluster, position FROM state WHERE ? IS NULL OR position = ? "
            "ORDER BY position DESC LIMIT 1",
            (position, position),
        ).fetchone()
        if row is None:
            raise InputError(f"{self._path}: no cluster is in this file yet. Put one in first.")
        return row[0], _CLUSTER.decode(row[1]), row[2]

    def _append(self, cluster: Cluster, epoch: int, what: str) -> None:
        self._db.execute(
            "INSERT INTO state (epoch, what, cluster) VALUES (?, ?, ?)",
            (epoch, what, msgspec.json.encode(cluster)),
        )


def _with(cluster: Cluster, node: Node) -> Cluster:
    others = [n for n in cluster.nodes if (n.node_id, n.role) != (node.node_id, node.role)]
    return replace(cluster, nodes=(*others, node))
