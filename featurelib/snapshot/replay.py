"""Replays dumps of the metadata log: which nodes are registered, and which levels hold.

An offset is an offset wherever and whenever it was dumped, so pieces of the log may come in any
order: pieces that join what is known are applied, the others wait. A piece that starts above 0
proves nothing until its checkpoint, or the piece before it, is there. Records between
BEGIN_TRANSACTION and ABORT_TRANSACTION do not count (KIP-868).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role
from featurelib.snapshot.dumps import DumpLine, segments
from featurelib.snapshot.state import Event, Log, Map, Node, Segment, State

# A log that begins at 0 and never set metadata.version is read as 3.0-IV1 (QuorumController).
UNSET_METADATA_VERSION = 1
_UNREGISTERED = {"unregister": Role.BROKER, "unregister controller": Role.CONTROLLER}
UNSEEN = -1  # kraft.version is in control records, and the dump does not show them


class Change(NamedTuple):
    """One applied record worth a row in the histories."""

    offset: int
    at: int
    line: int
    level: tuple[str, int] | None  # FEATURE_LEVEL_RECORD or a KRaftVersion control record
    node: tuple[int, int] | None  # a registration: (role, node id)
    ranges: Map


def replay(
    state: State, dumps: dict[int, list[DumpLine]], position: Callable[[Map], int]
) -> list[Change]:
    """Apply `dumps` (by the time they were read) to the state; returns what was learned."""
    image = state.log
    for at in sorted(dumps):
        lines = sorted(set(dumps[at]))
        if len({line.number for line in lines}) < len({(n, text) for n, text, _ in lines}):
            state.ambiguous_dumps = sorted({*state.ambiguous_dumps, at})
            continue
        image.pending.extend(segments(lines, at, position))
    changes: list[Change] = []
    while (found := _next(image)) is not None:
        _join(image, found, state.maps, changes)
    image.pending = _waiting(image)
    return changes


def level_map(image: Log) -> Map:
    """What the log finalizes at its end, as (feature, level, level), sorted by feature."""
    levels = {METADATA_VERSION: UNSET_METADATA_VERSION, **image.levels}
    # A feature record for kraft.version moves nothing: only the raft layer's control record does.
    levels.pop(KRAFT_VERSION, None)
    kraft_version = image.kraft_version or image.kraft_at_start
    if kraft_version:
        levels[KRAFT_VERSION] = kraft_version
    return tuple((name, level, level) for name, level in sorted(levels.items()))


def _next(image: Log) -> Segment | None:
    """A waiting piece that reaches further than the image and joins it, or a whole checkpoint."""
    for segment in image.pending:
        if (segment.whole or segment.start <= image.end) and image.end < segment.end:
            return segment
    return None


def _waiting(image: Log) -> list[Segment]:
    """The pieces still beyond a gap; those covered already only say when they were read."""
    waiting: dict[tuple[int, int, bool], Segment] = {}
    for segment in image.pending:
        if segment.whole and segment.end == 0:
            # A dynamic quorum's first checkpoint: nothing precedes it, and only it may say this.
            said = [event.number for event in segment.events if event.kind == "kraft"]
            image.kraft_at_start = max([image.kraft_at_start, *said])
        elif segment.end <= image.end:
            image.at = max(image.at, segment.at)
            _credit(image, _registered(segment))
            _credit_line(image, segment)
        else:
            key = (segment.start, segment.end, segment.whole)
            if key not in waiting or segment.at > waiting[key].at:
                waiting[key] = segment
    return [waiting[key] for key in sorted(waiting)]


def _registered(segment: Segment) -> dict[tuple[int, int], Event]:
    """The registrations of a piece, the last of each node."""
    return {
        (int(Role.BROKER if event.kind == "broker" else Role.CONTROLLER), event.number): event
        for event in segment.events
        if event.kind in ("broker", "controller")
    }


def _credit(image: Log, said: Mapping[tuple[int, int], Event | Node]) -> None:
    """A registration is credited to the newest dump that shows it, whichever came first."""
    for node in image.nodes:
        shown = said.get((node.role, node.node_id))
        if shown is None or shown.profile != node.profile:
            continue
        if (shown.at, shown.line) > (node.at, node.line):
            node.at, node.line = shown.at, shown.line


def _credit_line(image: Log, segment: Segment) -> None:
    """The record applied last is credited to the newest dump that shows it, too."""
    for event in () if segment.whole else segment.events:
        if event.offset == image.line_offset and (event.at, event.line) > (
            image.line_at,
            image.line,
        ):
            image.line, image.line_at = event.line, event.at


def _join(image: Log, segment: Segment, maps: list[Map], changes: list[Change]) -> None:
    before, earlier = image.end, {(node.role, node.node_id): node for node in image.nodes}
    if segment.whole:
        image.nodes, image.levels, image.kraft_version = [], {}, 0
        image.migration, image.open_transaction, before = -1, None, -1
    for event in segment.events:
        if segment.whole or event.offset >= before:
            _read_event(image, event, maps, changes)
    if segment.whole:
        image.line_offset = -1  # offsets inside a checkpoint are not the log's
        _credit(image, earlier)
    image.end = segment.end
    image.at = max(image.at, segment.at)


def _read_event(image: Log, event: Event, maps: list[Map], changes: list[Change]) -> None:
    if event.kind == "begin":
        image.open_transaction = []
    elif event.kind == "abort":
        image.open_transaction = None
    elif event.kind == "end":
        held, image.open_transaction = image.open_transaction or [], None
        for inner in held:
            _apply(image, inner, maps, changes)
    elif image.open_transaction is not None and event.kind not in ("kraft", "hidden"):
        image.open_transaction.append(event)
    else:
        _apply(image, event, maps, changes)


def _apply(image: Log, event: Event, maps: list[Map], changes: list[Change]) -> None:
    if event.line:
        image.line, image.line_at, image.line_offset = event.line, event.at, event.offset
    level: tuple[str, int] | None = None
    node: tuple[int, int] | None = None
    if event.kind == "level":
        image.levels.pop(event.name, None)
        if event.number:
            image.levels[event.name] = event.number
        level = (event.name, event.number)
    elif event.kind == "kraft":
        if event.number == image.kraft_version:
            return
        image.kraft_version = event.number
        level = (KRAFT_VERSION, event.number)
    elif event.kind in ("broker", "controller"):
        role = Role.BROKER if event.kind == "broker" else Role.CONTROLLER
        earlier = {(node.role, node.node_id): node for node in image.nodes}
        _remove(image, int(role), event.number)
        image.nodes.append(
            Node(event.number, int(role), event.profile, event.fenced, event.line, event.at)
        )
        _credit(image, earlier)
        image.nodes.sort(key=lambda entry: (entry.role, entry.node_id))
        node = (int(role), event.number)
    elif event.kind in _UNREGISTERED:
        _remove(image, int(_UNREGISTERED[event.kind]), event.number)
    elif event.kind == "fenced":
        for entry in image.nodes:
            if (entry.role, entry.node_id) == (int(Role.BROKER), event.number):
                entry.fenced = event.fenced
    elif event.kind == "migration":
        image.migration = event.number
    elif event.kind == "hidden":
        image.kraft_version = UNSEEN
    if level is not None or node is not None:
        ranges = maps[event.profile] if event.profile >= 0 else ()
        changes.append(Change(event.offset, event.at, event.line, level, node, ranges))


def _remove(image: Log, role: int, node_id: int) -> None:
    image.nodes = [node for node in image.nodes if (node.role, node.node_id) != (role, node_id)]


__all__ = ["Change", "DumpLine", "level_map", "replay"]
