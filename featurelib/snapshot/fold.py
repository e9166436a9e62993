"""Fold landing lines into the state of one cluster, in any order, any number of times.

Nothing is judged here. The state keeps the newest statement of each listener, registration and
source, by the orders in `_ORDERS` and featurelib.snapshot.state. featurelib.snapshot.log replays
the log. A request refused for a missing permission gives no data; the state keeps the refusal until
the node responds to the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Final

import msgspec

from featurelib.catalogue import Catalogue
from featurelib.catalogue.rows import releases_offering
from featurelib.core.features_znode import Generation, ZnodeReading, decode
from featurelib.feature import Role, Witness
from featurelib.landing import Landing, kinds
from featurelib.landing.responses import (
    CONFIGS,
    MEMBERS,
    NOT_AUTHORIZED,
    PROBE,
    QUORUM,
    UNLISTED,
    UNSUPPORTED_VERSION,
)
from featurelib.landing.samples import NodeMetrics
from featurelib.landing.strict import FaultError
from featurelib.landing.strimzi import StrimziLine
from featurelib.snapshot import state as kept
from featurelib.snapshot.history import LOG, REGISTRATION, TOOL, Learned, Shown, Stated, readings_of
from featurelib.snapshot.log import DumpLine, replay
from featurelib.snapshot.state import DAMAGED, NOTHING, ClusterState, Map
from featurelib.snapshot.zookeeper import ROUND

_NEWEST = attrgetter("at", "line")
_ORDER_OF_QUORUM = attrgetter("leader_epoch", "at", "line")
# The attributes of ClusterState that keep only the greatest statement of each key: (key, order).
_ORDERS: Final = {
    "listeners": (attrgetter("role", "node_id"), _NEWEST),  # each group of fields is dated
    "registrations": (attrgetter("node_id"), _NEWEST),
    "witnesses": (attrgetter("kind"), attrgetter("incarnation", "epoch", "at", "line")),
    "members": (attrgetter("role", "fenced_shown", "members", "asked_node"), _NEWEST),
    "configs": (attrgetter("role", "node_id", "resource"), _NEWEST),
    # For each request and node only the newest response or refusal counts.
    "rights": (attrgetter("request", "role", "node_id"), _NEWEST),
    "migration_ready": (attrgetter("node_id"), _NEWEST),
    "leaderless": (attrgetter("role", "node_id"), _NEWEST),
    "quorums": (attrgetter("leader_epoch", "leader_id", "voters"), _NEWEST),
    "statements": (attrgetter("witness", "node_id", "is_finalized", "feature"), _NEWEST),
}


_NO_RESPONSES = (
    StrimziLine,
    kinds.NotReachedLine,
    kinds.UnreadZnode,
)  # Lines of these types are no response of a node.


class UnusableLineError(Exception):
    """An error because featurelib cannot process a valid landing line: a bug in featurelib."""

    def __init__(self, line_id: int, fault: Exception) -> None:
        name = type(fault).__name__
        super().__init__(f"featurelib cannot use this line ({name}): please report it")
        self.line_id = line_id


@dataclass(slots=True)
class Fold:
    """A fold of the lines of one cluster. Call `begin`, then `add` for each line, then `finish`.

    Add the lines run by run, and call `close_run` after each run. Then the histories do not depend
    on how many runs one fold reads. If `learned` is set, the fold adds the statements of the run
    with number `run` to it.
    """

    state: ClusterState
    catalogue: Catalogue
    learned: Learned | None = None
    run: int = 0
    _by_id: dict[int, tuple[Map, int]] = field(default_factory=dict)
    _positions: dict[Map, int] = field(default_factory=dict)
    _entries: dict[str, dict[object, msgspec.Struct]] = field(default_factory=dict)
    _dumps: dict[int, list[DumpLine]] = field(default_factory=dict)
    _dump_times: set[int] = field(default_factory=set)
    _statements: list[Stated] = field(default_factory=list)  # the statements of the current run
    _taught: set[object] = field(default_factory=set)  # keys of what `learned` has

    def add(self, landing: Landing, line_id: int) -> None:
        """Fold one valid landing line. Times are microseconds; `line_id` is the id in bronze.

        Raises UnusableLineError. The state may then contain a part of the line: discard it.
        """
        at = landing.observed_at
        if at is None:  # the line only notes that a response is missing
            return
        content = landing.content
        # Without a response, only a refusal for a missing permission counts as newer data.
        if isinstance(content, kinds.NodeDescription) and not (
            content.answered or content.error_code == NOT_AUTHORIZED
        ):
            request = content.request
            reason = request.error or request.why or f"error code {content.error_code}"
            text = f"node {request.asked_node}: {reason}"
            self._add_not_reached_line(kept.NotReached(at, line_id, text, alone=True))
            # Below metadata.version 3.7-IV0 controllers return UNSUPPORTED_VERSION.
            is_list = isinstance(content, kinds.ClusterDescription)
            if is_list and content.error_code != UNSUPPORTED_VERSION:
                of_node = (int(request.role), 0, at, line_id, request.asked_node)
                self._note_refusal(kept.Right(UNLISTED, *of_node), True, at)
        elif not isinstance(content, _NO_RESPONSES):
            self.state.observed_at = max(self.state.observed_at, at)
        add = _ADDERS.get(type(landing.content))
        if add is None:  # a newer featurelib wrote the line
            return
        try:
            add(self, landing.content, at, line_id)
        except Exception as error:  # a single bad line must not end the run
            raise UnusableLineError(line_id, error) from error

    def wait(self, landing: Landing, line_id: int) -> None:
        """Count a valid line that is dated after the judgement, without using it."""
        at, line, count = self.state.waiting
        newest = max((at, line), (landing.observed_at or 0, line_id))
        self.state.waiting = (*newest, count + 1)

    def close_run(self) -> None:
        """Read this run's metadata log dumps, and add changed ranges and levels to `learned`."""
        dumps = {at: self._dumps[at] for at in self._dump_times}
        self._dump_times.clear()
        if dumps:
            replay(self.state, dumps, self._position, self._learn_levels)
        statements, self._statements = self._statements, []
        for reading in readings_of(statements):
            self._compare(reading)

    def finish(self) -> ClusterState:
        """Sort the state and return it. Equal lines give equal bytes."""
        for name, entries in self._entries.items():
            setattr(self.state, name, sorted(entries.values(), key=_ORDERS[name][0]))
        role_names = {role.text for role in Role}  # listeners keep their own statements
        self.state.statements = [s for s in self.state.statements if s.witness not in role_names]
        kept.settle(self.state)
        return self.state

    def _learn(self, moment: tuple[int, int], content: Shown) -> None:
        self._statements.append((moment, content))

    def _learn_levels(self, moment: tuple[int, int], content: Shown) -> None:
        seen_key = (moment, content.witness, content.is_finalized)
        if self.learned is not None and (content.witness == LOG or seen_key not in self._taught):
            self._taught.add(seen_key)
            self.learned.add(self.run, moment, content)

    def _compare(self, reading: list[Stated]) -> None:
        """Add the changed ranges and levels of one collection to the histories. After a late
        change, add the newest values again."""
        newest = self._entries["statements"]
        changed: list[Stated] = []
        levels = [statement for statement in reading if statement[1].is_finalized]
        late_kinds = set[bool]()
        for moment, content in reading:
            tool_feature = content.features[0][0] if content.witness == TOOL else ""
            node_id = -1 if content.node_id is None else content.node_id
            key = (content.witness, node_id, content.is_finalized, tool_feature)
            previous, position = newest.get(key), self._position(content.features)
            self._keep("statements", kept.NewestStatement(*key, *moment, content.epoch, position))
            epoch_before = None
            if isinstance(previous, kept.NewestStatement):
                if moment < (previous.at, previous.line):
                    late_kinds |= {content.is_finalized} if previous.map != position else set()
                elif content.epoch is not None and content.epoch < (previous.epoch or 0):
                    epoch_before = previous.epoch
                elif previous.map == position:
                    continue
            changed.append((moment, content._replace(epoch_before=epoch_before)))
        if any(content.is_finalized for _, content in changed):
            changed += levels  # `_taught` prevents that a level is added twice
        for entry in newest.values():
            assert isinstance(entry, kept.NewestStatement)
            if entry.is_finalized in late_kinds:
                node = None if entry.node_id < 0 else entry.node_id
                source = (entry.witness, node, entry.epoch, self.state.maps[entry.map])
                changed.append(((entry.at, entry.line), Shown(*source, entry.is_finalized)))
        for moment, content in changed:
            self._learn_levels(moment, content)

    def _keep(self, name: str, new: msgspec.Struct) -> None:
        """Store `new` in the list `name` of the state, unless a newer entry has its key."""
        key, order = _ORDERS[name]
        entries = self._entries[name]
        old = entries.get(key(new))
        if old is None or order(new) > order(old):
            entries[key(new)] = new

    def _position(self, features: Map) -> int:
        # Equal responses share one parsed tuple, so the id finds nearly every map without hashing.
        index = self._by_id.get(id(features))
        if index is not None:
            return index[1]
        position = self._positions.setdefault(features, len(self.state.maps))
        if position == len(self.state.maps):
            self.state.maps.append(features)
        self._by_id[id(features)] = (features, position)
        return position

    def _listener(self, role: Role, node_id: int) -> kept.Listener:
        key = int(role), node_id
        listener = self._entries["listeners"].get(key)
        if listener is None:
            listener = self._entries["listeners"][key] = kept.Listener(node_id, key[0])
        assert isinstance(listener, kept.Listener)
        return listener

    def _add_answer(self, content: kinds.ApiVersionsAnswer, at: int, line: int) -> None:
        listener, moment = self._listener(content.role, content.node_id), (at, line)
        if content.error is not None:
            if moment > (listener.failed_at, listener.failed_line):
                listener.failed_at, listener.failed_line = moment
                listener.error = content.error
            return
        if moment > (listener.releases_at, listener.releases_line):
            listener.releases = ";".join(releases_offering(content.role, content.offers))
            listener.releases_at, listener.releases_line = moment
        if content.supported is None:  # the response has no ranges, only the supported requests
            return
        if content.role == Role.CONTROLLER and content.zk_migration_ready is not None:
            ready = kept.MigrationReady(content.node_id, at, line, content.zk_migration_ready)
            self._keep("migration_ready", ready)
        ranges = self._position(content.supported)
        # A response to a request below version 4 omits features with minimum version 0; a node that
        # does not know version 4 has no such features.
        if content.asked_version >= kinds.KNOWS_MINIMUM_ZERO:
            if moment > (listener.full_at, listener.full_line):
                if listener.full not in (ranges, NOTHING):
                    listener.full_other_at = listener.full_at
                listener.full, (listener.full_at, listener.full_line) = ranges, moment
            elif ranges != listener.full:
                listener.full_other_at = max(listener.full_other_at, at)
        elif moment > (listener.partial_at, listener.partial_line):
            if listener.partial not in (ranges, NOTHING):
                listener.partial_other_at = listener.partial_at
            listener.partial, (listener.partial_at, listener.partial_line) = ranges, moment
        elif ranges != listener.partial:
            listener.partial_other_at = max(listener.partial_other_at, at)
        self._learn_answer(content, moment)
        epoch = content.epoch
        if epoch < 0:
            return
        self.state.marks.append((at, epoch))
        levels = self._position(content.finalized)
        if moment > (listener.levels_at, listener.levels_line):
            listener.levels, listener.epoch = levels, epoch
            listener.levels_at, listener.levels_line = moment
        kind = Witness.BROKER if content.role == Role.BROKER else Witness.CONTROLLER
        listener.highest_epoch = max(listener.highest_epoch, epoch)
        for name, _, level in content.finalized:
            seen_at, level_key = self.state.levels_seen, f"{name} {level}"
            seen_at[level_key] = max(seen_at.get(level_key, 0), at)
        self._keep("witnesses", kept.WitnessedLevels(int(kind), 0, epoch, at, line, levels))

    def _add_metrics(self, content: NodeMetrics, at: int, line: int) -> None:
        listener = self._listener(content.role, content.node_id)
        if (at, line) > (listener.scraped_at, listener.scraped_line):
            listener.scraped_at, listener.scraped_line = at, line
            listener.scraped, listener.scraped_levels = (
                self._position(ranges) if ranges else NOTHING
                for ranges in (content.supported, content.finalized)
            )

    def _learn_answer(self, content: kinds.ApiVersionsAnswer, moment: tuple[int, int]) -> None:
        epoch = content.epoch if content.epoch >= 0 else None
        source = (content.role.text, content.node_id, epoch)
        self._learn(moment, Shown(*source, content.supported or (), False))
        if epoch is not None:
            self._learn(moment, Shown(*source, content.finalized, True))

    def _add_line(self, content: kinds.LogLine, at: int, line: int) -> None:
        dumped = DumpLine(content.line_number, content.line, line)
        self._dumps.setdefault(at, []).append(dumped)
        self._dump_times.add(at)

    def _add_configs(self, content: kinds.ConfigDescription, at: int, line: int) -> None:
        self._note_right(CONFIGS, content, at, line)
        for resource, values in content.resources:
            key = (int(content.request.role), content.request.asked_node, resource)
            self._keep("configs", kept.Configs(*key, at, line, values))

    def _add_members(self, content: kinds.ClusterDescription, at: int, line: int) -> None:
        self._note_right(MEMBERS, content, at, line)
        if content.answered:
            if content.role is Role.CONTROLLER and content.active == NOTHING:
                self._note_leaderless(content.request, at, line)
            members = tuple(
                (node, -1 if fenced is None else int(fenced)) for node, fenced in content.members
            )
            listed = (int(content.role), content.fenced_shown, at, line, members)
            lister = content.request.asked_node
            of_lister = lister, content.end, content.may_lack_brokers
            self._keep("members", kept.Members(*listed, *of_lister))
            if content.end >= 0:
                self.state.marks.append((at, content.end - 1))
                self.state.compared_at = max(self.state.compared_at, at)

    def _add_quorum(self, content: kinds.QuorumDescription, at: int, line: int) -> None:
        self._note_right(QUORUM, content, at, line)
        if content.answered:
            leader_values = content.leader_id, content.following, content.directories
            values = (content.voters, content.observers, *leader_values, content.high_watermark)
            quorum = kept.Quorum(content.leader_epoch, at, line, *values)
            self.state.quorum = max(self.state.quorum, quorum, key=_ORDER_OF_QUORUM)
            if quorum.leader_id >= 0 and quorum.voters:
                self._keep("quorums", quorum)
            self.state.marks.append((at, content.high_watermark - 1))
        elif (of := content.request).role == Role.BROKER and not (content.error_code or of.why):
            # The broker waits for a leader before it forwards the request, so there is no leader.
            self._note_leaderless(of, at, line)

    def _note_leaderless(self, request: kinds.RequestLine, at: int, line: int) -> None:
        self._keep("leaderless", kept.Leaderless(int(request.role), request.asked_node, at, line))

    def _add_probe(self, content: kinds.ProbeReply, at: int, line: int) -> None:
        if content.code is None:
            return
        refused = content.code == NOT_AUTHORIZED
        refusal = kept.Right(PROBE, int(Role.CONTROLLER), refused_at=at, line=line)
        self._note_refusal(refusal, refused, at)
        if not refused:
            # A partial response omits features; their result is unknown.
            answers = tuple(
                (update.feature, update.from_level, update.to_level, update.code, update.message)
                for update in content.answers
                if update.code is not None
            )
            probe = kept.Probe(at, line, answers)
            self.state.probe = max(self.state.probe or probe, probe, key=_NEWEST)

    def _note_right(self, request: str, content: kinds.NodeDescription, at: int, line: int) -> None:
        """Record that a node answered a describe request, or refused it for lack of an ACL."""
        refused, of = content.error_code == NOT_AUTHORIZED, content.request
        if refused or content.answered:
            node = (of.asked_node, of.principal or "")
            self._note_refusal(kept.Right(request, int(of.role), 0, at, line, *node), refused, at)

    def _note_refusal(self, change: kept.Right, refused: bool, at: int) -> None:
        """Record that a node refused a request (`refused`) or answered it."""
        node_id = change.node_id if refused else -1
        key = change.request, change.role, node_id
        old = self._entries["rights"].setdefault(key, kept.Right(*key[:2], node_id=node_id))
        assert isinstance(old, kept.Right)
        if not refused:
            old.answered_at = max(old.answered_at, at)
        elif (at, change.line) > (old.refused_at, old.line):
            old.refused_at, old.line, old.principal = at, change.line, change.principal

    def _note_read(self, path: str, at: int) -> None:
        if path.startswith(ROUND):
            earlier = self.state.read_twice.get(path, (0, 0))
            times = sorted({*earlier, at}, reverse=True)
            self.state.read_twice[path] = (times[0], times[1])

    def _add_unread(self, content: kinds.UnreadZnode, at: int, line: int) -> None:
        """Record that a znode was read with unreadable content."""
        self._note_read(content.path, at)
        if (node_id := kinds.broker_id(content.path)) is not None:
            self._keep("registrations", kept.Registration(node_id, DAMAGED, True, at, line))
        elif content.path == "/controller":
            self.state.controller = max(self.state.controller, (at, line, NOTHING))
        elif content.path == "/feature":
            self.state.node.unread_at = max(self.state.node.unread_at, at)

    def _add_znode(self, content: kinds.Znode, at: int, line: int) -> None:
        path, node_id = content.path, kinds.broker_id(content.path)
        self._note_read(path, at)
        if path in ("/feature", "/features"):
            self._add_features_node(content, at, line)
        elif path == "/controller":
            controller = (at, line, kinds.controller(content.data))
            self.state.controller = max(self.state.controller, controller)
        elif path == kinds.BROKER_IDS:
            children = (at, line, tuple(sorted(content.children or ())))
            self.state.children = max(self.state.children, children)
        elif node_id is not None:
            self._add_registration(node_id, content.data, at, line)

    def _add_registration(self, node_id: int, data: str | None, at: int, line: int) -> None:
        profile = NOTHING
        if data is not None:
            try:
                features = kinds.registration(data)
            except FaultError:
                profile = DAMAGED
            else:
                profile = NOTHING if features is None else self._position(features)
                self._learn((at, line), Shown(REGISTRATION, node_id, None, features or (), False))
        new = kept.Registration(node_id, profile, data is not None, at, line)
        self._keep("registrations", new)

    def _add_features_node(self, content: kinds.Znode, at: int, line: int) -> None:
        node = self.state.node
        # Kafka's code uses /feature. KIP-584 says /features: that path counts only without
        # /feature.
        is_kafka_path = content.path == "/feature"
        if content.data is None:
            if is_kafka_path:
                moment = max((node.absent_at, node.absent_line), (at, line))
                node.absent_at, node.absent_line = moment
            return
        incarnation = -1 if content.czxid is None else content.czxid
        version = -1 if content.version is None else content.version
        if content.czxid is not None:
            lowest, highest = node.incarnations.get(content.path, (incarnation, incarnation))
            node.incarnations[content.path] = (min(lowest, incarnation), max(highest, incarnation))
        order = (node.by_code, node.incarnation, node.version, node.at, node.line)
        if (is_kafka_path, incarnation, version, at, line) > order:
            node.by_code, node.incarnation, node.version = is_kafka_path, incarnation, version
            node.at, node.line, node.data = at, line, content.data
        lowest, highest = node.incarnations.get("/feature" if node.by_code else "/features", (0, 0))
        node.recreated = lowest < highest
        readings = (decode(content.data, generation) for generation in Generation)
        accepted = next((r for r in readings if r.reading == ZnodeReading.ACCEPTED), None)
        if accepted is not None:
            witness = Witness.FEATURES_NODE.name.lower()
            self._learn((at, line), Shown(witness, None, content.version, accepted.levels, True))

    def _add_strimzi(self, content: StrimziLine, at: int, line: int) -> None:
        shared_names = kept.StrimziState.__struct_fields__[2:-1]
        nodes = sorted((n.node_id, int(kinds.ROLES[n.role]), n.version) for n in content.nodes)
        values = {name: getattr(content, name) for name in shared_names}
        strimzi = kept.StrimziState(at=at, line=line, nodes=tuple(nodes), **values)
        self.state.strimzi = max(self.state.strimzi or strimzi, strimzi, key=_NEWEST)

    def _add_not_reached(self, content: kinds.NotReachedLine, at: int, line: int) -> None:
        self._add_not_reached_line(kept.NotReached(at, line, content.error))

    def _add_not_reached_line(self, new: kept.NotReached) -> None:
        newest = max(self.state.not_reached or new, new, key=attrgetter("after", "line"))
        self.state.not_reached = newest

    def _add_tool(self, content: kinds.ToolLine, at: int, line: int) -> None:
        tool_line = kinds.tool_feature(content.line)
        if tool_line is None:
            return
        if tool_line.epoch is not None:
            self.state.marks.append((at, tool_line.epoch))
        level = 0 if tool_line.level == "-" else self.catalogue.level_of(tool_line.level)
        level_and_name = (-1, tool_line.level) if level is None else (level, "")
        new = (at, content.line_number, *level_and_name)
        self.state.tool[tool_line.feature] = max(self.state.tool.get(tool_line.feature, new), new)
        if level is not None:
            lowest = self.catalogue.level_of(tool_line.min_level or "-")
            features = ((tool_line.feature, level if lowest is None else lowest, level),)
            witness = Witness.TOOL.name.lower()
            self._learn((at, line), Shown(witness, None, tool_line.epoch, features, True))


_ADDERS: dict[type, Callable[..., None]] = {
    kinds.ApiVersionsAnswer: Fold._add_answer,
    kinds.LogLine: Fold._add_line,
    kinds.Znode: Fold._add_znode,
    kinds.UnreadZnode: Fold._add_unread,
    kinds.ClusterDescription: Fold._add_members,
    kinds.QuorumDescription: Fold._add_quorum,
    kinds.ConfigDescription: Fold._add_configs,
    kinds.ProbeReply: Fold._add_probe,
    kinds.ToolLine: Fold._add_tool,
    StrimziLine: Fold._add_strimzi,
    NodeMetrics: Fold._add_metrics,
    kinds.NotReachedLine: Fold._add_not_reached,
}


def begin(stored: bytes | None, catalogue: Catalogue) -> Fold:
    """Return a fold that continues from a cluster's stored state; None = new cluster."""
    state = kept.thaw(stored)
    state.waiting = (0, 0, 0)
    fold = Fold(state, catalogue)
    fold._positions = {features: position for position, features in enumerate(state.maps)}
    for name, (key, _) in _ORDERS.items():
        fold._entries[name] = {key(entry): entry for entry in getattr(state, name)}
    listener_statements = chain.from_iterable(map(kept.newest_statements, state.listeners))
    key, _ = _ORDERS["statements"]
    fold._entries["statements"] |= {key(entry): entry for entry in listener_statements}
    return fold


def fold_lines(
    lines: Iterable[tuple[Landing, int]], catalogue: Catalogue, until: int | None = None
) -> ClusterState:
    """Return the state that results from all `lines` of a cluster.

    Lines dated later than `until` (microseconds; None = no limit) are only counted.
    """
    fold = begin(None, catalogue)
    for landing, line_id in lines:
        if until is not None and (landing.observed_at or 0) > until:
            fold.wait(landing, line_id)
        else:
            fold.add(landing, line_id)
    fold.close_run()
    return fold.finish()
