"""A cluster kept in one file: it holds no rule, it asks the core.

Every operation is one transaction that reads the newest state, asks, and appends the next one; a
crash at any moment leaves the state before or the state after. Nodes protect themselves as real
ones do: what an update finalizes may end some. As a backend it is looked at and updated as a real
cluster is: it gives what nodes of its release say over the wire, and not what the file knows beyond
that: fenced brokers of before 4.0 stay hidden, a node that does not run gives no answer.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from featurelib.audit.cluster_view import see
from featurelib.audit.findings import CONTROLLERS_UNREGISTER_FROM
from featurelib.backends import embedded_answers as answers
from featurelib.backends.base import Abilities, Backend, Say
from featurelib.backends.embedded_state import (
    NOBODY,
    EmbeddedState,
    ask_again,
    end,
    react,
    start_of,
    written,
)
from featurelib.backends.state_file import IN_MEMORY as IN_MEMORY
from featurelib.backends.state_file import StateFile
from featurelib.catalogue import Catalogue, ReleaseCatalogue
from featurelib.catalogue.tables import Tables
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.core.cluster import Cluster, Node, Request
from featurelib.core.compatibility import Stopped, advertised
from featurelib.core.dialect import Dialect, generation_of, load
from featurelib.core.dry_run import Answered, answer, request_of
from featurelib.core.reply import Reply
from featurelib.core.storage_format import FormatRequest, initial_levels
from featurelib.errors import ConfigError, InputError, RefusedError, UnreachableError
from featurelib.feature import METADATA_VERSION, Role
from featurelib.landing.fields import write_line
from featurelib.model import NotPassed, Passed, Recipient, Step
from featurelib.planning.goal import level_of

FIRST_CONTROLLER = 100  # its node id; brokers begin at 1
ANY_AGE = 2**62
_STATE = msgspec.json.Decoder(EmbeddedState)
_KRAFT_CANNOT = ("It cannot refuse a request that another writer has overtaken.",)
_ZOOKEEPER_CANNOT = (
    "It cannot validate without writing: in ZooKeeper mode such a request is applied.",
    *_KRAFT_CANNOT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """The controller's answer, and the nodes that stopped over what was finalized."""

    answered: Answered
    stopped: tuple[Stopped, ...] = ()


class EmbeddedCluster:
    """One cluster in one file. A file that is empty or not there becomes one of `mode`."""

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
    def state(self) -> EmbeddedState:
        """The newest state. Raises InputError when nothing was put in yet."""
        return self._newest()[1]

    @property
    def cluster(self) -> Cluster:
        """The cluster as of now. Raises InputError as `state` does."""
        return self.state.cluster

    @property
    def epoch(self) -> int:
        """KRaft: the log's end. ZooKeeper mode: the version of the features node."""
        return self.state.epoch

    @property
    def dialect(self) -> Dialect:
        """How the active controller answers: as its release does, unless one was given."""
        return self._generation(self.cluster.release)

    def put(self, cluster: Cluster, epoch: int = 0) -> None:
        """Make `cluster` the state, whatever was there: a start, or a restored capture."""
        state = start_of(cluster, epoch, self._generation(cluster.release))
        ids = [node.node_id for node in cluster.nodes]
        with self._file.transaction():
            self._file.let_go(self._file.held, held_for_good=True)
            if cluster.blind:  # to the node that came after the one they knew
                gone = replace(cluster, finalized={}, cached={}, node_missing=True, blind=False)
                self._append("delete", replace(state, cluster=gone, node=None))
                self._file.hold(ids, self._newest()[0], for_good=True)
            self._append("put", state)

    def update_features(self, request: Request) -> Updated:
        """Put a request to the active controller, and let every node apply what came of it."""
        with self._file.transaction():
            position, before = self._newest()
            answered, after = self._answered(before, request)
            stopped: tuple[Stopped, ...] = ()
            if after != before:
                after, stopped = self._meet(position, before, after)
                self._append("update_features", after)
        return Updated(answered=answered, stopped=stopped)

    def unregister(self, node_id: int, role: Role = Role.BROKER) -> None:
        """A node half is taken out of the cluster (UnregisterBroker; KIP-1312,
        UnregisterController, which no voter is). Raises InputError."""

        def without(state: EmbeddedState) -> Cluster:
            able = [n for n in state.cluster.nodes if n.role is role]
            if role is Role.CONTROLLER:
                able = [n for n in able if not n.voter]
                self._expect_unregistering(state.cluster)
            what = "brokers" if role is Role.BROKER else "controllers that do not vote"
            gone = self._find(able, what, node_id)
            nodes = tuple(node for node in state.cluster.nodes if node is not gone)
            leads = self.mode == "kraft" or state.cluster.active != node_id
            return replace(
                state.cluster, nodes=nodes, active=state.cluster.active if leads else NOBODY
            )

        self._change(f"unregister {node_id}", without)

    def _expect_unregistering(self, cluster: Cluster) -> None:
        """Raises InputError below the metadata.version from which controllers are unregistered."""
        level = level_of(cluster, METADATA_VERSION)
        if level < CONTROLLERS_UNREGISTER_FROM:
            raise InputError(
                f"expected metadata.version {CONTROLLERS_UNREGISTER_FROM} or above, found {level}: "
                "below it no controller can be unregistered (KIP-1312)."
            )

    def seen(self, node_id: int, role: Role | None = None) -> tuple[EmbeddedState, Node, Dialect]:
        """The state that a running half of a process has read, that half (a broker's if none is
        named) and how its controllers answer. Raises UnreachableError for one that does not run."""
        _, newest = self._newest()
        nodes = [n for n in newest.cluster.nodes if role is None or n.role is role]
        what = "nodes" if role is None else f"{role.text}s"
        node = self._find(sorted(nodes, key=lambda n: n.role), what, node_id)
        if not node.running:
            raise UnreachableError(
                f"{self._file.path}: node {node_id} does not run. Start it first."
            )
        held = self._file.held.get(node_id)
        state = newest if held is None else self._at(held.position)
        return state, node, self._generation(state.cluster.release)

    def _answered(self, before: EmbeddedState, request: Request) -> tuple[Answered, EmbeddedState]:
        """The active controller's answer, and the state it makes."""
        cluster, dialect = before.cluster, self._generation(before.cluster.release)
        asked = replace(request, to_active=False) if cluster.active == NOBODY else request
        answered = answer(cluster, asked, dialect, self._tables)
        after = replace(before, cluster=answered.after)
        if answered.writes:
            epoch = before.epoch + 1
            after = replace(after, epoch=epoch, features_at=epoch)
            after = written(after, dialect) if self.mode == "zk" else after
        return answered, after

    def _change(self, what: str, change: Callable[[EmbeddedState], Cluster]) -> None:
        with self._file.transaction():
            _, state = self._newest()
            self._append(what, replace(state, cluster=change(state)), moves=True)

    def _meet(
        self, position: int, before: EmbeddedState, after: EmbeddedState
    ) -> tuple[EmbeddedState, tuple[Stopped, ...]]:
        """All nodes that can see it meet `after`: the state once they did, and who stopped."""
        held, dialect = self._file.held, self._generation(after.cluster.release)
        behind = [h.position for h in held.values() if not h.for_good]
        began = self._at(min(behind)) if behind else before
        found = react(began, after, dialect, self._tables, self._deaf())
        ids = {node.node_id for node in after.cluster.nodes}
        self._file.let_go(ids - found.keep)
        self._file.hold(found.keep, position)
        self._file.hold(found.blind, position, for_good=True)
        cluster = end(after.cluster, {item.node.node_id for item in found.stopped}, dialect)
        if self.mode == "kraft":
            cluster = ask_again(began.cluster, cluster, dialect, self._tables)
        return replace(after, cluster=cluster), found.stopped

    def _deaf(self) -> set[int]:
        return {node_id for node_id, held in self._file.held.items() if held.for_good}

    def _append(self, what: str, state: EmbeddedState, *, moves: bool = False) -> None:
        """The next state. What `moves` is a record of the log in KRaft, and nothing elsewhere."""
        if moves and self.mode == "kraft":
            state = replace(state, epoch=state.epoch + 1)
        self._file.append(what, msgspec.json.encode(state))

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

    def _newest(self) -> tuple[int, EmbeddedState]:
        position, content = self._file.read()
        return position, _STATE.decode(content)

    def _at(self, position: int) -> EmbeddedState:
        return _STATE.decode(self._file.read(position)[1])


def open_embedded(entry: Entry, catalogue: Catalogue) -> Backend:
    """The backend of the embedded cluster in `entry.file`. Raises ConfigError where none is."""
    if not Path(entry.file).is_file():
        raise ConfigError(
            f"{entry.file}: expected an embedded cluster, found no such file. "
            f"Make one: featurelib embedded make {entry.file}"
        )
    return EmbeddedBackend(EmbeddedCluster(entry.file, catalogue.tables))


class EmbeddedBackend:
    """One embedded cluster. Closing it closes the cluster's file."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster

    @property
    def where(self) -> str:
        """The file."""
        return self._cluster.path

    def describe(self, say: Say) -> tuple[bytes, ...]:
        """One look at every node, as landing lines. Raises UnreachableError where none runs."""
        nodes = sorted(self._cluster.cluster.nodes, key=lambda n: (n.node_id, -n.role))
        if self._cluster.mode == "zk":  # nobody knows of a broker that is not registered
            nodes = [node for node in nodes if node.registered]
        running = [node for node in nodes if node.running]
        if not running:
            raise UnreachableError(
                f"{self.where}: expected nodes that answer, found none of {len(nodes)} running. "
                "Nothing was asked or sent."
            )
        say(f"asking {len(nodes)} listeners of {self.where}")
        lines = [self._line("api_versions", self._ranges(node)) for node in nodes]
        lines += [self._line(kind, keys) for kind, keys in self._lists(running)]
        return tuple(lines)

    def abilities(self) -> Abilities:
        """By the cluster's mode: in ZooKeeper mode a request to validate is written."""
        zookeeper = self._cluster.mode == "zk"
        return Abilities(
            mode=self._cluster.mode,
            validate_only=not zookeeper,
            cannot=_ZOOKEEPER_CANNOT if zookeeper else _KRAFT_CANNOT,
        )

    def recipient(self) -> Recipient:
        """The active controller. Raises UnreachableError where nobody leads."""
        active = self._cluster.cluster.active
        if active == NOBODY:
            raise self._nobody_leads()
        return Recipient(role="controller", node=active, address=self.where, leader=active)

    def passed(self, sent: Recipient | None, features: Collection[str]) -> Passed | NotPassed:
        """Always: a request is carried out while the caller waits, or never."""
        return Passed(how="the file holds every request that was carried out")

    def update(self, step: Step, *, validate_only: bool = False) -> Reply:
        """The active controller's answer. Raises UnreachableError where nobody leads, and
        RefusedError for `validate_only` in ZooKeeper mode."""
        if validate_only and not self.abilities().validate_only:
            raise RefusedError(
                f"{self.where}: expected a controller that validates without writing, found one "
                "in ZooKeeper mode, which would apply the request. Nothing was sent."
            )
        if self._cluster.cluster.active == NOBODY:
            raise self._nobody_leads()
        asked = request_of(step, self._cluster.dialect, validate_only=validate_only)
        return self._cluster.update_features(asked).answered.reply

    def close(self) -> None:
        """Close the file."""
        self._cluster.close()

    def _nobody_leads(self) -> UnreachableError:
        return UnreachableError(
            f"{self.where}: expected an active controller, found none. Nothing was sent. "
            "Try again once one is elected."
        )

    def _ranges(self, node: Node) -> answers.Keys:
        """What a listener answers to ApiVersions, or that it does not."""
        who: answers.Keys = {
            "node_id": node.node_id,
            "role": node.role.text,
            "endpoint": answers.endpoint(node),
            "asked_version": answers.ASKED_VERSION,
        }
        if not node.running:
            return who | {"error": "ConnectionRefusedError: the process does not run"}
        return who | answers.api_versions(*self._cluster.seen(node.node_id, node.role))

    def _lists(self, running: list[Node]) -> Iterator[tuple[str, answers.Keys]]:
        """Who belongs to the cluster, as one running node of each role answers, and what each
        running node is configured with; or the znodes."""
        cluster = self._cluster
        if cluster.mode == "zk":
            yield from (
                ("znode", node) for node in answers.znodes(cluster.state, cluster.cluster_id)
            )
            return
        for role in (Role.CONTROLLER, Role.BROKER):
            asked = next((node.node_id for node in running if node.role is role), None)
            if asked is not None:
                state, node, dialect = cluster.seen(asked, role)
                who: answers.Keys = {"asked_node": asked, "listener": role.text}
                members = answers.describe_cluster(state, node, dialect, cluster.cluster_id)
                yield "describe_cluster", who | members
                yield "describe_quorum", who | answers.describe_quorum(state, node)
        for node in running:
            state, node, _ = cluster.seen(node.node_id, node.role)
            who = {"asked_node": node.node_id, "role": node.role.text}
            yield "describe_configs", who | answers.describe_configs(state, node)

    def _line(self, kind: str, keys: answers.Keys) -> bytes:
        now = int(datetime.now(UTC).timestamp() * 1_000_000)
        return write_line(kind, self._cluster.cluster_id, now, keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatted:
    """A KRaft cluster as kafka-storage.sh format of `own` leaves it: `metadata` is its release
    version, None = the newest there is."""

    own: ReleaseCatalogue
    metadata: str | None = None
    brokers: int = 3
    controllers: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What is in the file now."""

    mode: str  # kraft, zk
    cluster_id: str
    cluster: Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """The cluster that landing lines show; `path` is the file or folder they were read from."""

    path: str
    lines: Iterable[bytes]


def make_embedded(file: str, like: Formatted | Captured, catalogue: Catalogue) -> Made:
    """Make a new embedded cluster in `file`. Raises ConfigError, and for lines what reading them
    raises, LandingError and NoEvidenceError."""
    if Path(file).exists():
        raise ConfigError(f"{file}: expected no file there, found one. Name another.")
    if isinstance(like, Formatted):
        made = _formatted(like, catalogue)
    else:
        made = _captured(like, catalogue)
    with EmbeddedCluster(
        file, catalogue.tables, mode=made.mode, cluster_id=made.cluster_id
    ) as embedded:
        embedded.put(made.cluster, len(made.cluster.nodes))
    return made


def _formatted(like: Formatted, catalogue: Catalogue) -> Made:
    own, metadata = like.own, like.metadata
    initial = initial_levels(own, FormatRequest(release_version=metadata))
    if initial.refusals:
        said = "; ".join(refusal.text for refusal in initial.refusals)
        raise ConfigError(f"--metadata {metadata}: kafka-storage.sh of {own.release} says: {said}")
    names = (METADATA_VERSION, *own.features)
    ranges = advertised(catalogue, names)
    at = ranges.releases.index(own.release)
    rows = zip(names, ranges.min_version[at].tolist(), ranges.max_version[at].tolist(), strict=True)
    supported = {name: (low, high) for name, low, high in rows if high > 0}
    leaders = range(FIRST_CONTROLLER, FIRST_CONTROLLER + like.controllers)
    nodes = [
        Node(node_id=i, role=Role.CONTROLLER, supported=supported, release=own.release, voter=True)
        for i in leaders
    ]
    nodes += [
        Node(node_id=i, role=Role.BROKER, supported=supported, release=own.release)
        for i in range(1, like.brokers + 1)
    ]
    finalized = {name: (level, level) for name, level in initial.levels.items() if level}
    cluster = Cluster(
        release=own.release, nodes=tuple(nodes), active=leaders[0], finalized=finalized
    )
    made_up = "-"
    while made_up.startswith("-"):  # as Kafka: an id is no option (Uuid.randomUuid)
        made_up = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]
    return Made(mode="kraft", cluster_id=made_up, cluster=cluster)


def _captured(like: Captured, catalogue: Catalogue) -> Made:
    path = like.path
    one = "Keep the lines of one of them in a file of their own."
    if Path(path).is_dir():
        one = f"Name the file or the sub-folder of one of them: --capture {Path(path) / 'NAME'}."
    sight = see(like.lines, catalogue=catalogue, as_of=None, max_age=ANY_AGE, choosing=one)
    mode = sight.dialects[0].partition("-")[0] if sight.dialects else ""
    if not mode or not sight.releases:
        raise ConfigError(
            f"--capture {path}: expected a cluster whose controllers' release shows, found none. "
            "Collect the controllers too."
        )
    return Made(mode=mode, cluster_id=sight.cluster_id, cluster=sight.cluster)
