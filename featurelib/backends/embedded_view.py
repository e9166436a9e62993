"""An embedded cluster as it is asked: its file, its newest state, and what its nodes answer."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import msgspec

from featurelib.backends import embedded_answers as answers
from featurelib.backends.embedded_state import State
from featurelib.backends.state_file import StateFile
from featurelib.catalogue.tables import Tables
from featurelib.core.cluster import Cluster, Node
from featurelib.core.dialect import Dialect, generation_of, load
from featurelib.errors import InputError, UnreachableError
from featurelib.feature import Role

_STATE = msgspec.json.Decoder(State)


class EmbeddedView:
    """What can be asked of one cluster in one file."""

    def __init__(
        self,
        path: str,
        tables: Tables,
        *,
        mode: str = "kraft",
        cluster_id: str = "embedded",
        dialect: Dialect | None = None,
    ) -> None:
        self._tables, self._dialect = tables, dialect
        self._file = StateFile(path, {"mode": mode, "cluster_id": cluster_id})
        self.mode: str = self._file.about["mode"]
        self.cluster_id: str = self._file.about["cluster_id"]

    def __enter__(self) -> Self:
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
        self._file.close()

    @property
    def path(self) -> str:
        """The file it is kept in."""
        return self._file.path

    @property
    def cluster(self) -> Cluster:
        """The newest state. Raises InputError when nothing was put in yet."""
        return self._newest()[1].cluster

    @property
    def epoch(self) -> int:
        """KRaft: the log's end. ZooKeeper mode: the version of the features node."""
        return self._newest()[1].epoch

    @property
    def features_node(self) -> str | None:
        """ZooKeeper mode: the text of the features node; None if it does not exist."""
        return self._newest()[1].text

    @property
    def dialect(self) -> Dialect:
        """How the active controller answers: as its release does, unless one was given."""
        return self._generation(self.cluster.release)

    def describe(
        self, node_id: int, version: int = 4, *, role: Role | None = None
    ) -> answers.Answer:
        """What a node answers to ApiVersions on its broker's listener, or another: what it
        supports, and what it takes to be finalized; perhaps of before.

        Raises UnreachableError for a node that does not run, ProtocolError below version 3.
        """
        node, seen = self._ask(node_id, role)
        return answers.api_versions(seen, node, version, self._generation(seen.cluster.release))

    def describe_cluster(
        self, node_id: int, *, include_fenced: bool = False, role: Role | None = None
    ) -> answers.Answer:
        """What a node answers to DescribeCluster: brokers, or controllers on a controller's
        listener. Raises UnreachableError, ProtocolError."""
        node, seen = self._ask(node_id, role)
        dialect = self._generation(seen.cluster.release)
        return answers.describe_cluster(
            seen, node, self.cluster_id, dialect, include_fenced=include_fenced
        )

    def describe_quorum(self, node_id: int, *, role: Role | None = None) -> answers.Answer:
        """What a node answers to DescribeQuorum. Raises UnreachableError, ProtocolError."""
        node, seen = self._ask(node_id, role)
        return answers.describe_quorum(seen, node, self._generation(seen.cluster.release))

    def describe_configs(self, node_id: int, *, role: Role | None = None) -> answers.Answer:
        """What a node says it is configured with. Raises UnreachableError, ProtocolError."""
        node, seen = self._ask(node_id, role)
        return answers.describe_configs(seen, node, self._generation(seen.cluster.release))

    def _ask(self, node_id: int, role: Role | None) -> tuple[Node, State]:
        """A running half of a process, a broker's if none is named, and the state it has read."""
        _, newest = self._newest()
        nodes = [n for n in newest.cluster.nodes if role is None or n.role is role]
        what = "nodes" if role is None else f"{role.text}s"
        node = self._find(sorted(nodes, key=lambda n: n.role), what, node_id)
        if not node.running:
            raise UnreachableError(
                f"{self._file.path}: node {node_id} does not run. Start it first."
            )
        held = self._file.held.get(node_id)
        return node, newest if held is None else self._at(held.position)

    def _find(self, nodes: Sequence[Node], what: str, node_id: int) -> Node:
        by_id = {node.node_id: node for node in reversed(nodes)}  # the first of an id counts
        if node_id in by_id:
            return by_id[node_id]
        ids = ", ".join(str(known) for known in sorted(by_id)) or "none"
        raise InputError(
            f"{self._file.path}: expected one of the {what} {ids}, found {node_id}. "
            "Register or start it first."
        )

    def _generation(self, release: str) -> Dialect:
        """The dialect of controllers of a release, or the one that was given. InputError."""
        if self._dialect is not None:
            return self._dialect
        try:
            return load(generation_of(release, self.mode))
        except KeyError as error:
            raise InputError(
                f"{self._file.path}: {error.args[0]}. `featurelib rules --dialects` lists them."
            ) from error

    def _newest(self) -> tuple[int, State]:
        position, content = self._file.read()
        return position, _STATE.decode(content)

    def _at(self, position: int) -> State:
        return _STATE.decode(self._file.read(position)[1])
