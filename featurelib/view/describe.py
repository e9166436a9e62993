"""A description as plain text of a terminal's width: equal nodes together, no colour needed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from datetime import datetime

from featurelib.config.fleet import Cluster
from featurelib.core.dialect import generation_of, load
from featurelib.questions.describe import Description, LevelShown, NodeShown, Ranges, WitnessShown
from featurelib.view.layout import columns, terminal_width, wrap
from featurelib.words import clean, time_text
from featurelib.words import nodes as say_nodes

WHO_WIDTH = 36
MOST = 20  # findings that are shown
NOTHING = "-"
ZOOKEEPER_MODE = "ZooKeeper mode"  # featurelib.questions.describe.Description.mode
OFFENDS = " !"
RUNNING = "running"  # NodeShown.state


def describe_lines(described: Description, entry: Cluster, made_from: str) -> Iterator[str]:
    """The lines of a description, without line ends."""
    yield from _head(described, entry, made_from)
    yield ""
    yield from columns([_NODE_HEADS, *_node_rows(described.nodes)])
    yield from _silent_lines(described.nodes)
    for table in _level_tables(described):
        yield ""
        yield from table
    yield from _marks(described)
    yield ""
    yield from _witness_lines(described.witnesses)
    yield from _finding_lines(described)


def letter(position: int) -> str:
    """A profile's name: A to Z, then A2, B2 and so on."""
    round_, place = divmod(position, 26)
    return chr(ord("A") + place) + (str(round_ + 1) if round_ else "")


def _head(described: Description, entry: Cluster, made_from: str) -> Iterator[str]:
    name = f"{clean(entry.name)} · " if entry.name else ""
    yield from _parts(f"{name}{clean(described.cluster_id)} · {described.mode}")
    leader = "not known" if described.controller is None else str(described.controller)
    release = _releases(described, entry.release) or "not known"
    yield from _parts(f"active controller: {leader} · its release: {release}")
    if described.configured_voters is not None:
        ids = ", ".join(map(str, described.configured_voters)) or "nobody"
        yield from _parts(f"its own controller.quorum.voters: {ids}, and others vote")
    yield from _parts(f"seen {time_text(described.seen_at)} · {clean(made_from)}")
    if entry.owner or entry.contact:
        contact = f" ({clean(entry.contact)})" if entry.contact else ""
        yield from _parts(f"owner: {clean(entry.owner or 'not said')}{contact}")
    if entry.managed_by:
        what = "levels are" if entry.managed is None else f"{clean(', '.join(entry.managed))} is"
        yield from _parts(f"managed by {clean(entry.managed_by)}: {what} finalized through it")


def _releases(described: Description, told: str) -> str:
    """What the active controller runs, or may run. Evidence of ZooKeeper mode shows a generation,
    never a release: `2.7 to 3.2, or 3.3 to 3.9`; one that the inventory names is said itself, where
    it may be it."""
    if described.mode != ZOOKEEPER_MODE:
        own = next((node.release for node in described.nodes if node.is_active), "")
        return own or " or ".join(described.releases[:3])
    runs = [load(generation_of(release, "zk")).releases for release in described.releases]
    if any(told.startswith(release) for run in runs if told for release in run):
        return clean(told)
    return ", or ".join(f"{run[0]} to {run[-1]}" for run in runs)


_NODE_HEADS = ("nodes", "state", "release", "profile", "epoch")


def _node_rows(nodes: Sequence[NodeShown]) -> list[tuple[str, ...]]:
    """One row for nodes that are alike in everything but their epochs."""
    alike: dict[tuple[str, ...], list[NodeShown]] = {}
    for node in nodes:
        profile = "?" if node.profile is None else letter(node.profile)
        profile += "*" if node.is_partial and node.profile is not None else ""
        key = (node.role, _state(node), node.release or "?", profile)
        alike.setdefault(key, []).append(node)
    rows: list[tuple[str, ...]] = []
    for (role, state, release, profile), group in alike.items():
        who = textwrap.wrap(say_nodes(role, [n.node_id for n in group]), WHO_WIDTH)
        rows.append((who[0], state, release, profile, _epochs(group)))
        rows += [(f"  {more}", "", "", "", "") for more in who[1:]]
    return rows


def _silent_lines(nodes: Sequence[NodeShown]) -> Iterator[str]:
    """Why nodes did not answer, those with one reason together."""
    silent: dict[tuple[str, str], list[int]] = {}
    for node in nodes:
        if node.error:
            silent.setdefault((node.role, clean(node.error)), []).append(node.node_id)
    for (role, error), ids in silent.items():
        yield from _wrapped(f"no answer from {say_nodes(role, ids)}: {error}", "", "  ")
    earlier: dict[tuple[str, datetime], list[int]] = {}
    for node in nodes:
        if node.state != RUNNING and node.seen_at is not None:
            earlier.setdefault((node.role, node.seen_at), []).append(node.node_id)
    for (role, seen_at), ids in earlier.items():
        text = f"ranges of {say_nodes(role, ids)}: last seen {time_text(seen_at)}"
        yield from _wrapped(text, "", "  ")


def _state(node: NodeShown) -> str:
    parts = [node.state]
    if node.is_fenced and node.state not in ("fenced", "ghost"):
        parts.append("fenced")
    if node.is_active:
        parts.append("active controller")
    elif node.is_unregistered_voter:
        parts.append("unregistered voter")
    elif node.role == "controller" and not node.is_voter:
        parts.append("voter: not known" if node.is_voter is None else "not a voter")
    return ", ".join(parts)


def _epochs(nodes: Sequence[NodeShown]) -> str:
    known = sorted({node.epoch for node in nodes if node.epoch is not None})
    if not known:
        return NOTHING
    return str(known[0]) if len(known) == 1 else f"{known[0]}-{known[-1]}"


def _level_tables(described: Description) -> Iterator[list[str]]:
    """Features with their finalized level and each profile's range; as many tables as it takes."""
    if not described.levels:
        yield ["no feature is supported or finalized"]
        return
    first = [("feature", "finalized")]
    first += [(clean(row.feature, 40), _level(row)) for row in described.levels]
    width = sum(max(len(row[i]) for row in first) + 2 for i in range(2))
    chosen: list[list[str]] = []
    for position, ranges in enumerate(described.profiles):
        column = [letter(position), *(_range(ranges, row, position) for row in described.levels)]
        wide = sum(max(map(len, one)) + 2 for one in [*chosen, column])
        if chosen and width + wide - 2 > terminal_width():
            yield _table(first, chosen)
            chosen = []
        chosen.append(column)
    yield _table(first, chosen)


def _table(first: Sequence[tuple[str, str]], profiles: Sequence[Sequence[str]]) -> list[str]:
    return columns([(*row, *(p[i] for p in profiles)) for i, row in enumerate(first)])


def _level(row: LevelShown) -> str:
    if row.level == 0:
        return f"no{' (disputed)' if row.is_disputed else ''}"
    low = f" min {row.min_level}" if row.min_level and row.min_level > 1 else ""
    low = low if row.min_level != row.level else ""
    return f"{row.text}{low}{' (disputed)' if row.is_disputed else ''}"


def _range(ranges: Ranges, row: LevelShown, position: int) -> str:
    known = ranges.get(row.feature)
    shown = NOTHING if known is None else f"{known[0]}-{known[1]}"
    return shown + (OFFENDS if position in row.offended else "")


def _marks(described: Description) -> Iterator[str]:
    if any(row.offended for row in described.levels):
        yield "! does not support what is finalized"
    if any(node.is_partial and node.profile is not None for node in described.nodes):
        yield "* asked below ApiVersions v4: ranges that begin at 0 may be missing"


def _witness_lines(witnesses: Sequence[WitnessShown]) -> Iterator[str]:
    if not witnesses:
        yield "nobody says what is finalized"
        return
    rows = [("who says what is finalized", "epoch", "seen", "")]
    for said in witnesses:
        believed = "believed" if said.is_believed else ""
        epoch = NOTHING if said.epoch < 0 else str(said.epoch)
        rows.append((said.witness, epoch, time_text(said.seen_at) or "", believed))
    yield from columns(rows)
    if any(said.witness == "controllers" for said in witnesses):
        yield "a controller's epoch is not comparable with a broker's"


def _finding_lines(described: Description) -> Iterator[str]:
    found = described.findings
    if not found:
        return
    yield ""
    yield "findings"
    wide = max(len(finding.severity) for finding in found[:MOST])
    for finding in found[:MOST]:
        start = f"  {finding.severity.ljust(wide)}  "
        yield from _wrapped(finding.message, start, " " * len(start))
    if len(found) > MOST:
        yield f"  and {len(found) - MOST} more: --json has them all"


def _parts(text: str) -> list[str]:
    return wrap(text, terminal_width(), below="  ")


def _wrapped(text: str, start: str, below: str) -> list[str]:
    return wrap(text, terminal_width(), start, below)
