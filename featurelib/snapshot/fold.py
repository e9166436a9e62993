"""Folds landing lines into what is known of one cluster, in any order, any number of times.

Nothing is judged: of every listener, registration and kind of witness the greatest statement is
kept, by the order written in featurelib.snapshot.state. A line that carries nothing changes
nothing. The metadata log is replayed in featurelib.snapshot.log. A request that was refused for
want of a right claims nothing of the cluster; that it was refused is kept for each half of the
nodes, until that half answers it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from featurelib.catalogue import Catalogue
from featurelib.catalogue.rows import releases_offering
from featurelib.feature import Role, Witness
from featurelib.landing import (
    ApiVersionsAnswer,
    ClusterDescription,
    ConfigDescription,
    Landing,
    LogLine,
    ProbeReply,
    QuorumDescription,
    ToolLine,
    Znode,
    features_describe,
    znode,
)
from featurelib.landing.responses import CONFIGS, MEMBERS, NOT_AUTHORIZED, PROBE, QUORUM
from featurelib.snapshot import state as kept
from featurelib.snapshot.log import DumpLine, LogChange, replay
from featurelib.snapshot.state import DAMAGED, NOTHING, ClusterState, Map


def add_members(state: ClusterState, content: ClusterDescription, at: int, line: int) -> None:
    """Whom a DescribeCluster answer lists; `at` in microseconds."""
    _note_right(state, MEMBERS, content, at, line)
    if not content.answered or content.version is None:
        return
    role = Role.CONTROLLER if content.endpoint_type == 2 else Role.BROKER
    fenced_shown = role == Role.BROKER and content.version >= 2 and content.include_fenced
    members = tuple(
        sorted((node, -1 if fenced is None else int(fenced)) for node, fenced in content.brokers)
    )
    new = kept.Members(int(role), fenced_shown, at, line, members)
    lists = state.members
    for i, old in enumerate(lists):
        if (old.role, old.fenced_shown) == (new.role, new.fenced_shown):
            if (new.at, new.line) > (old.at, old.line):
                lists[i] = new
            return
    lists.append(new)
    lists.sort(key=lambda listed: (listed.role, listed.fenced_shown))


def add_quorum(state: ClusterState, content: QuorumDescription, at: int, line: int) -> None:
    """Who votes and who follows, by a DescribeQuorum answer."""
    _note_right(state, QUORUM, content, at, line)
    old = state.quorum
    before = (old.leader_epoch, old.at, old.line)
    if not content.answered or (content.leader_epoch, at, line) <= before:
        return
    voters, observers = tuple(sorted(content.voters)), tuple(sorted(content.observers))
    state.quorum = kept.Quorum(content.leader_epoch, at, line, voters, observers, content.leader_id)


def add_configs(state: ClusterState, content: ConfigDescription, at: int, line: int) -> None:
    """What one node is configured with; a newer answer about a resource takes the place of all
    that an older one content of it."""
    _note_right(state, CONFIGS, content, at, line)
    for resource, values in content.resources:
        new = kept.Configs(int(content.listener), content.asked_node, resource, at, line, values)
        key = (new.role, new.node_id, new.resource)
        others = [one for one in state.configs if (one.role, one.node_id, one.resource) != key]
        mine = [one for one in state.configs if (one.role, one.node_id, one.resource) == key]
        newest = max([new, *mine], key=lambda one: (one.at, one.line))
        state.configs = sorted(
            [*others, newest], key=lambda one: (one.role, one.node_id, one.resource)
        )


def add_probe(state: ClusterState, content: ProbeReply, at: int, line: int) -> None:
    """What the controller answered to a request to validate."""
    if content.code is None:
        return
    refused = content.code == NOT_AUTHORIZED
    _note(state, kept.Right(PROBE, int(Role.CONTROLLER), refused_at=at, line=line), refused, at)
    if refused:
        return
    if state.probe is not None and (at, line) <= (state.probe.at, state.probe.line):
        return
    # About what an answer does not mention nothing is known.
    answers = tuple(
        (one.feature, one.from_level, one.to_level, one.code, one.message)
        for one in content.answers
        if one.code is not None
    )
    state.probe = kept.Probe(at, line, answers)


def _note_right(
    state: ClusterState,
    request: str,
    content: ClusterDescription | QuorumDescription | ConfigDescription,
    at: int,
    line: int,
) -> None:
    """Whether this half of the nodes answered a description, or refused it."""
    refused = content.error_code == NOT_AUTHORIZED
    if refused or content.answered:
        new = kept.Right(
            request,
            int(content.listener),
            refused_at=at,
            line=line,
            node_id=content.asked_node,
            principal=content.principal,
        )
        _note(state, new, refused, at)


def _note(state: ClusterState, new: kept.Right, refused: bool, at: int) -> None:
    """Keep a refusal, which `new` is, or only that the request was answered."""
    key = (new.request, new.role)
    old = next((one for one in state.rights if (one.request, one.role) == key), None)
    if old is None:
        old = kept.Right(*key)
        state.rights.append(old)
        state.rights.sort(key=lambda one: (one.request, one.role))
    if not refused:
        old.answered_at = max(old.answered_at, at)
    elif (at, new.line) > (old.refused_at, old.line):
        old.refused_at, old.line = at, new.line
        old.node_id, old.principal = new.node_id, new.principal


KNOWS_MINIMUM_ZERO = 4  # ApiVersions v4: the client can read a minimum of 0 (KIP-1022)

# Paths every reading of a ZooKeeper-mode cluster comes by, once a round.
_ROUND = ("/brokers/ids/", "/controller", "/feature")


@dataclass(slots=True)
class Fold:
    """One cluster being folded. Take it from `begin`, feed `add`, end with `finish`.

    Lines of several runs come run after run, with `close_run` behind each, so that what a run
    taught is the same whether runs are folded one by one or together.
    """

    state: ClusterState
    catalogue: Catalogue
    _by_id: dict[int, tuple[Map, int]] = field(default_factory=dict)
    _positions: dict[Map, int] = field(default_factory=dict)
    _listeners: dict[tuple[int, int], kept.Listener] = field(default_factory=dict)
    _registrations: dict[int, kept.Registration] = field(default_factory=dict)
    _dumps: dict[int, list[DumpLine]] = field(default_factory=dict)
    _touched: set[int] = field(default_factory=set)

    def add(self, landing: Landing, line_id: int) -> None:
        """Fold one accepted line. Times are microseconds, `line_id` as in bronze."""
        at = landing.observed_at
        if at is None:  # a describe line that says no answer came: it claims nothing
            return
        self.state.observed_at = max(self.state.observed_at, at)
        content = landing.content
        if isinstance(content, ApiVersionsAnswer):
            self._add_answer(content, at, line_id)
        elif isinstance(content, LogLine):
            self._dumps.setdefault(at, []).append(
                DumpLine(content.line_number, content.line, line_id)
            )
            self._touched.add(at)
        elif isinstance(content, Znode):
            self._add_znode(content, at, line_id)
        elif isinstance(content, ClusterDescription):
            add_members(self.state, content, at, line_id)
        elif isinstance(content, QuorumDescription):
            add_quorum(self.state, content, at, line_id)
        elif isinstance(content, ConfigDescription):
            add_configs(self.state, content, at, line_id)
        elif isinstance(content, ProbeReply):
            add_probe(self.state, content, at, line_id)
        elif isinstance(content, ToolLine):
            self._add_tool(content, at)

    def wait(self, landing: Landing, line_id: int) -> None:
        """Count one accepted line that is dated later than what is judged: it is not folded."""
        at, line, count = self.state.waiting
        newest = max((at, line), (landing.observed_at or 0, line_id))
        self.state.waiting = (*newest, count + 1)

    def close_run(self) -> list[LogChange]:
        """Replay the dumps this run brought lines of; returns what the log newly taught."""
        dumps = {at: self._dumps[at] for at in self._touched}
        self._touched.clear()
        return replay(self.state, dumps, self._position) if dumps else []

    def forget_run(self) -> None:
        """These lines were folded before; they are only there to make their dumps whole."""
        self._touched.clear()

    def finish(self) -> ClusterState:
        """Settle the state: equal knowledge ends in equal bytes."""
        state = self.state
        state.listeners = [self._listeners[key] for key in sorted(self._listeners)]
        state.registrations = [self._registrations[key] for key in sorted(self._registrations)]
        kept.settle(state)
        return state

    def _position(self, features: Map) -> int:
        # Equal answers share one parsed tuple, so its identity is nearly always enough.
        hit = self._by_id.get(id(features))
        if hit is not None:
            return hit[1]
        position = self._positions.setdefault(features, len(self.state.maps))
        if position == len(self.state.maps):
            self.state.maps.append(features)
        self._by_id[id(features)] = (features, position)
        return position

    def _add_answer(self, content: ApiVersionsAnswer, at: int, line: int) -> None:
        key = (int(content.role), content.node_id)
        listener = self._listeners.get(key)
        if listener is None:
            listener = self._listeners[key] = kept.Listener(content.node_id, int(content.role))
        if content.error is not None:
            if (at, line) > (listener.failed_at, listener.failed_line):
                listener.failed_at, listener.failed_line = at, line
                listener.error = content.error
            return
        ranges = self._position(content.supported)
        # A node that was asked at v4 and answered lower knows no minimum of 0 to leave out.
        if content.asked_version >= KNOWS_MINIMUM_ZERO:
            if (at, line) > (listener.full_at, listener.full_line):
                listener.full, listener.full_at, listener.full_line = ranges, at, line
        elif (at, line) > (listener.partial_at, listener.partial_line):
            listener.partial, listener.partial_at, listener.partial_line = ranges, at, line
        if (at, line) > (listener.releases_at, listener.releases_line):
            listener.releases = ";".join(releases_offering(content.role, content.offers))
            listener.releases_at, listener.releases_line = at, line
        if content.epoch < 0:
            return
        levels = self._position(content.finalized)
        if (at, line) > (listener.levels_at, listener.levels_line):
            listener.levels, listener.epoch = levels, content.epoch
            listener.levels_at, listener.levels_line = at, line
        kind = Witness.BROKER if content.role == Role.BROKER else Witness.CONTROLLER
        listener.highest_epoch = max(listener.highest_epoch, content.epoch)
        self._witness(kept.WitnessedLevels(int(kind), 0, content.epoch, at, line, levels))

    def _witness(self, new: kept.WitnessedLevels) -> None:
        witnesses = self.state.witnesses
        for i, old in enumerate(witnesses):
            if old.kind == new.kind:
                if _witness_order(new) > _witness_order(old):
                    witnesses[i] = new
                return
        witnesses.append(new)
        witnesses.sort(key=lambda witness: witness.kind)

    def _add_znode(self, content: Znode, at: int, line: int) -> None:
        if content.path.startswith(_ROUND):
            earlier = self.state.read_twice.get(content.path, (0, 0))
            times = sorted({*earlier, at}, reverse=True)
            self.state.read_twice[content.path] = (times[0], times[1])
        if content.path in ("/feature", "/features"):
            self._add_features_node(content, at, line)
        elif content.path == "/controller":
            leads = (at, line, znode.controller(content.data))
            self.state.controller = max(self.state.controller, leads)
        elif content.path.startswith("/brokers/ids/"):
            self._add_registration(content, at, line)

    def _add_registration(self, content: Znode, at: int, line: int) -> None:
        node_id = int(content.path.rsplit("/", 1)[1])
        profile = NOTHING
        if content.data is not None:
            entry = znode.registration(content.data)
            if entry.defect is not None:
                profile = DAMAGED
            elif entry.features is not None:
                profile = self._position(entry.features)
        new = kept.Registration(node_id, profile, content.data is not None, at, line)
        old = self._registrations.get(node_id)
        if old is None or (at, line) > (old.at, old.line):
            self._registrations[node_id] = new

    def _add_features_node(self, content: Znode, at: int, line: int) -> None:
        node = self.state.node
        # Kafka's code says /feature, the KIP /features: that one counts where the other is unknown.
        by_code = content.path == "/feature"
        if content.data is None:
            if by_code:
                node.absent_at = max(node.absent_at, at)
            return
        incarnation = -1 if content.czxid is None else content.czxid
        version = -1 if content.version is None else content.version
        if content.czxid is not None:
            low, high = node.incarnations.get(content.path, (incarnation, incarnation))
            node.incarnations[content.path] = (min(low, incarnation), max(high, incarnation))
        order = (node.by_code, node.incarnation, node.version, node.at, node.line)
        if (by_code, incarnation, version, at, line) > order:
            node.by_code, node.incarnation, node.version = by_code, incarnation, version
            node.at, node.line, node.data = at, line, content.data
        low, high = node.incarnations.get("/feature" if node.by_code else "/features", (0, 0))
        node.recreated = low < high

    def _add_tool(self, content: ToolLine, at: int) -> None:
        entry = features_describe.parse_line(content.line)
        if entry is None:
            return
        level = 0 if entry.level_text == "-" else self.catalogue.level_of(entry.level_text)
        new = (at, content.line_number, -1 if level is None else level)
        self.state.tool[entry.feature] = max(self.state.tool.get(entry.feature, new), new)


def _witness_order(witness: kept.WitnessedLevels) -> tuple[int, int, int, int]:
    return (witness.incarnation, witness.epoch, witness.at, witness.line)


def begin(stored: bytes | None, catalogue: Catalogue) -> Fold:
    """Take up a cluster where the last night left it; `stored` None = a cluster never seen."""
    state = kept.thaw(stored)
    state.waiting = (0, 0, 0)
    fold = Fold(state, catalogue)
    fold._positions = {features: i for i, features in enumerate(state.maps)}
    fold._listeners = {(entry.role, entry.node_id): entry for entry in state.listeners}
    fold._registrations = {entry.node_id: entry for entry in state.registrations}
    return fold


def fold_lines(
    lines: Iterable[tuple[Landing, int]], catalogue: Catalogue, until: int | None = None
) -> ClusterState:
    """All `lines` of one cluster, folded from nothing: what a capture in a folder comes to.

    Lines dated later than `until`, in microseconds, are only counted; None = there are none such.
    """
    fold = begin(None, catalogue)
    for landing, line_id in lines:
        if until is not None and (landing.observed_at or 0) > until:
            fold.wait(landing, line_id)
        else:
            fold.add(landing, line_id)
    fold.close_run()
    return fold.finish()


__all__ = ["Fold", "begin", "fold_lines"]
