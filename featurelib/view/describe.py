"""Show the description of a cluster as text; equal nodes share a row. It needs no colour."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

from featurelib.config.fleet import FleetEntry
from featurelib.core.dialect import generation_of, load
from featurelib.questions.describe import Description, FindingShown, LevelShown, NodeShown, Ranges
from featurelib.view.layout import Page, wrap
from featurelib.words import clean, nodes, time_text

WHO_WIDTH = 36
MOST = 20  # Maximum number of findings shown
NOTHING = "-"
ZOOKEEPER_MODE = "ZooKeeper mode"  # the value of questions.describe.Description.mode
RUNNING = "running"  # the value of NodeShown.state for a running node


def describe_page(
    described: Description, entry: FleetEntry, made_from: str, width: int | None = None
) -> Page:
    """Return the page of `describe`. `entry`: the inventory entry of the cluster."""
    page = Page(width)
    for line in _head(described, entry, made_from):
        page.item(line)
    page.line()
    page.table([("nodes", "state", "release", "profile"), *_node_rows(described.nodes)])
    for line in _silent(described.nodes):
        page.item(line)
    _levels(described, page)
    page.line()
    _witnesses(described, page)
    _findings(described, page)
    return page


def letter(position: int) -> str:
    """Return the letter of a range map: A to Z, then A2, B2 and so on."""
    round_, index = divmod(position, 26)
    return chr(ord("A") + index) + (str(round_ + 1) if round_ else "")


def _head(described: Description, entry: FleetEntry, made_from: str) -> Iterator[str]:
    name = f"{clean(entry.name)} · " if entry.name else ""
    yield f"{name}{clean(described.cluster_id)} · {described.mode}"
    leader = "not known" if described.controller is None else str(described.controller)
    release = _releases(described, entry.release) or "not known"
    yield f"active controller: {leader} · its release: {release}"
    if described.configured_voters is not None:
        ids = ", ".join(map(str, described.configured_voters)) or "nobody"
        yield f"its own controller.quorum.voters: {ids}, and others vote"
    yield f"seen {time_text(described.seen_at)} · {clean(made_from)}"
    if entry.owner or entry.contact:
        contact = f" ({clean(entry.contact)})" if entry.contact else ""
        yield f"owner: {clean(entry.owner or 'not said')}{contact}"
    if entry.managed_by:
        subject = "levels are" if entry.managed is None else f"{clean(', '.join(entry.managed))} is"
        yield f"managed by {clean(entry.managed_by)}: {subject} finalized through it"


def _releases(described: Description, inventory: str) -> str:
    """Return the release of the active controller, or candidates such as `2.7 to 3.2, or 3.3 to
    3.9`. `inventory`: the release in the inventory."""
    if described.mode != ZOOKEEPER_MODE:
        active_release = next((node.release for node in described.nodes if node.is_active), "")
        return active_release or " or ".join(described.releases[:3])
    runs = [load(generation_of(release, "zk")).releases for release in described.releases]
    if any(inventory.startswith(release) for run in runs if inventory for release in run):
        return clean(inventory)
    return ", or ".join(f"{run[0]} to {run[-1]}" for run in runs)


def _node_rows(nodes_shown: Sequence[NodeShown]) -> list[tuple[str, ...]]:
    """Return a table row per group of equal nodes."""
    groups: dict[tuple[str, ...], list[NodeShown]] = {}
    for node in nodes_shown:
        profile = "?" if node.profile is None else letter(node.profile)
        profile += "*" if node.is_partial and node.profile is not None else ""
        key = (node.role, _state(node), node.release or "?", profile)
        groups.setdefault(key, []).append(node)
    rows: list[tuple[str, ...]] = []
    for (role, state, release, profile), group in groups.items():
        labels = wrap(nodes(role, [node.node_id for node in group]), WHO_WIDTH)
        rows.append(("\n  ".join(labels), state, release, profile))
    return rows


def _silent(nodes_shown: Sequence[NodeShown]) -> Iterator[str]:
    """Yield why nodes did not respond, and when their ranges were read; one line per group."""
    silent: dict[tuple[str, str], list[int]] = {}
    earlier: dict[tuple[str, datetime], list[int]] = {}
    for node in nodes_shown:
        if node.error:
            silent.setdefault((node.role, clean(node.error)), []).append(node.node_id)
        if node.state != RUNNING and node.seen_at is not None:
            earlier.setdefault((node.role, node.seen_at), []).append(node.node_id)
    for (role, error), ids in silent.items():
        yield f"no response from {nodes(role, ids)}: {error}"
    for (role, seen_at), ids in earlier.items():
        yield f"ranges of {nodes(role, ids)}: last seen {time_text(seen_at)}"


def _state(node: NodeShown) -> str:
    parts = [node.state]
    if node.is_fenced and node.state not in ("fenced", "stale"):
        parts.append("fenced")
    if node.is_active:
        parts.append("active controller")
    elif node.is_unregistered_voter:
        parts.append("unregistered voter")
    elif node.role == "controller" and not node.is_voter:
        parts.append("voter: not known" if node.is_voter is None else "not a voter")
    return ", ".join(parts)


def _levels(described: Description, page: Page) -> None:
    """Add tables of features to the page: finalized level, and range of each group of nodes."""
    if not described.levels:
        has_ranges = any(node.profile is not None for node in described.nodes)
        page.head(f"no feature is {'supported or finalized' if has_ranges else 'known'}")
        return
    first = [
        ["feature", *(clean(row.feature, 40) for row in described.levels)],
        ["finalized", *map(_level, described.levels)],
    ]
    columns = list(first)
    for position, ranges in enumerate(described.profiles):
        column = [letter(position), *(_range(ranges, row, position) for row in described.levels)]
        wide = sum(max(map(len, texts)) + 2 for texts in [*columns, column])
        if len(columns) > len(first) and wide - 2 > page.width:
            _level_table(columns, page)
            columns = list(first)
        columns.append(column)
    _level_table(columns, page)
    if any(row.offended for row in described.levels):
        page.line("! does not support the finalized level")
    if any(node.is_partial and node.profile is not None for node in described.nodes):
        page.line("* response below ApiVersions v4: ranges that begin at 0 may be missing")


def _level_table(columns: Sequence[Sequence[str]], page: Page) -> None:
    page.line()
    page.table(list(zip(*columns, strict=True)))


def _level(row: LevelShown) -> str:
    low = f" min {row.min_level}" if row.min_level and row.min_level > 1 else ""
    low = low if row.min_level != row.level else ""
    return f"{row.text}{low}{' (disputed)' if row.is_disputed else ''}"


def _range(ranges: Ranges, row: LevelShown, position: int) -> str:
    supported = ranges.get(row.feature)
    text = NOTHING if supported is None else f"{supported[0]}-{supported[1]}"
    return f"{text} !" if position in row.offended else text


def _witnesses(described: Description, page: Page) -> None:
    if not described.witnesses:
        page.line("no trusted source shows the finalized levels")
        return
    rows = [("source of the finalized levels", "seen", "")]
    for witness in described.witnesses:
        rows.append((witness.witness, time_text(witness.seen_at), "believed" * witness.is_believed))
    page.table(rows)


def _findings(described: Description, page: Page) -> None:
    folded = [*_folded(described.findings)]
    if folded:
        page.head("findings")
        page.table(folded[:MOST], 2, head=False)
    if len(folded) > MOST:
        page.line(f"  and {len(folded) - MOST} more: --json has them all")


def _folded(findings: Sequence[FindingShown]) -> Iterator[tuple[str, str]]:
    """Yield (severity, message) per finding; equal findings of several nodes are joined."""
    groups = defaultdict[tuple[str, str | None, str], list[FindingShown]](list)
    for finding in findings:
        groups[finding.severity, finding.role, finding.of_any].append(finding)
    for (severity, role, _), (first, *rest_alike) in groups.items():
        ids = [finding.node_id for finding in rest_alike if finding.node_id is not None]
        others_text = f" The same holds for {nodes(role, ids)}." if ids else ""
        yield severity, f"{first.message}{others_text}"
