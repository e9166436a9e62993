"""A cluster as it is and as it was, as text: its description, equal nodes together; how a roll goes
on; who could what when; and what two nights found, against each other. No colour is needed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

from featurelib.audit.findings import FindingWords
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import FleetEntry, FleetPart
from featurelib.core.dialect import generation_of, load
from featurelib.feature import Severity
from featurelib.planning.owners import LeftOver
from featurelib.questions.describe import Description, FindingShown, LevelShown, NodeShown, Ranges
from featurelib.questions.nights import ClusterDiff, Diff, RangeChange, Row, State, Timeline
from featurelib.questions.watch import FeatureNow, NodeNow, NodeState, Watched
from featurelib.snapshot.history import LevelChange
from featurelib.view.layout import Page, wrap
from featurelib.view.plan import show_left
from featurelib.words import (
    although,
    clean,
    code_text,
    count,
    level_text,
    levels_text,
    metadata_first,
    nodes,
    range_text,
    time_text,
    went_back,
)

WHO_WIDTH = 36
MOST = 20  # findings that are shown
_NODE = re.compile(r"^(Broker|Controller) (\d+)\b")  # at the beginning of a finding's message
NOTHING = "-"
ZOOKEEPER_MODE = "ZooKeeper mode"  # featurelib.questions.describe.Description.mode
RUNNING = "running"  # NodeShown.state


def describe_page(
    described: Description, entry: FleetEntry, made_from: str, width: int | None = None
) -> Page:
    """The text of a description; `entry` is the inventory's."""
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
    """A profile's name: A to Z, then A2, B2 and so on."""
    round_, place = divmod(position, 26)
    return chr(ord("A") + place) + (str(round_ + 1) if round_ else "")


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
        what = "levels are" if entry.managed is None else f"{clean(', '.join(entry.managed))} is"
        yield f"managed by {clean(entry.managed_by)}: {what} finalized through it"


def _releases(described: Description, inventory: str) -> str:
    """Return the active controller's release, or its candidates. Evidence of ZooKeeper mode shows a
    generation, never a release: `2.7 to 3.2, or 3.3 to 3.9`; one that the inventory names is said
    itself, where it may be it."""
    if described.mode != ZOOKEEPER_MODE:
        own = next((node.release for node in described.nodes if node.is_active), "")
        return own or " or ".join(described.releases[:3])
    runs = [load(generation_of(release, "zk")).releases for release in described.releases]
    if any(inventory.startswith(release) for run in runs if inventory for release in run):
        return clean(inventory)
    return ", or ".join(f"{run[0]} to {run[-1]}" for run in runs)


def _node_rows(shown: Sequence[NodeShown]) -> list[tuple[str, ...]]:
    """Return one row for nodes that are alike. Their epochs are in --json: a controller's cannot be
    compared with a broker's."""
    alike: dict[tuple[str, ...], list[NodeShown]] = {}
    for node in shown:
        profile = "?" if node.profile is None else letter(node.profile)
        profile += "*" if node.is_partial and node.profile is not None else ""
        key = (node.role, _state(node), node.release or "?", profile)
        alike.setdefault(key, []).append(node)
    rows: list[tuple[str, ...]] = []
    for (role, state, release, profile), group in alike.items():
        who = wrap(nodes(role, [node.node_id for node in group]), WHO_WIDTH)
        rows.append(("\n  ".join(who), state, release, profile))
    return rows


def _silent(shown: Sequence[NodeShown]) -> Iterator[str]:
    """Yield why nodes did not answer, and when their ranges were seen; equal ones together."""
    silent: dict[tuple[str, str], list[int]] = {}
    earlier: dict[tuple[str, datetime], list[int]] = {}
    for node in shown:
        if node.error:
            silent.setdefault((node.role, clean(node.error)), []).append(node.node_id)
        if node.state != RUNNING and node.seen_at is not None:
            earlier.setdefault((node.role, node.seen_at), []).append(node.node_id)
    for (role, error), ids in silent.items():
        yield f"no answer from {nodes(role, ids)}: {error}"
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
    """Features with their finalized level and each profile's range; as many tables as it takes."""
    if not described.levels:
        known = any(node.profile is not None for node in described.nodes)
        page.head(f"no feature is {'supported or finalized' if known else 'known'}")
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
        page.line("! does not support what is finalized")
    if any(node.is_partial and node.profile is not None for node in described.nodes):
        page.line("* asked below ApiVersions v4: ranges that begin at 0 may be missing")


def _level_table(columns: Sequence[Sequence[str]], page: Page) -> None:
    page.line()
    page.table(list(zip(*columns, strict=True)))


def _level(row: LevelShown) -> str:
    low = f" min {row.min_level}" if row.min_level and row.min_level > 1 else ""
    low = low if row.min_level != row.level else ""
    return f"{row.text}{low}{' (disputed)' if row.is_disputed else ''}"


def _range(ranges: Ranges, row: LevelShown, position: int) -> str:
    known = ranges.get(row.feature)
    shown = NOTHING if known is None else f"{known[0]}-{known[1]}"
    return f"{shown} !" if position in row.offended else shown


def _witnesses(described: Description, page: Page) -> None:
    if not described.witnesses:
        page.line("nobody says what is finalized")
        return
    rows = [("who says what is finalized", "seen", "")]
    for one in described.witnesses:
        rows.append((one.witness, time_text(one.seen_at), "believed" * one.is_believed))
    page.table(rows)


def _findings(described: Description, page: Page) -> None:
    found = [*_folded(described.findings)]
    if found:
        page.head("findings")
        page.table(found[:MOST], 2, head=False)
    if len(found) > MOST:
        page.line(f"  and {len(found) - MOST} more: --json has them all")


def _folded(findings: Sequence[FindingShown]) -> Iterator[tuple[str, str]]:
    """Yield severity and message, once for all nodes of which the same is found."""
    alike = defaultdict[tuple[str, str], list[FindingShown]](list)
    for one in findings:
        alike[one.severity, _NODE.sub(r"\1", one.message)].append(one)
    for (severity, _), (first, *others) in alike.items():
        named = [found for one in (first, *others) if (found := _NODE.match(one.message))]
        ids = [int(found[2]) for found in named[1:]]
        also = f" The same holds for {nodes(named[0][1].lower(), ids)}." if ids else ""
        yield severity, f"{first.message}{also}"


def watch_page(
    seen: Watched,
    name: str,
    command: str,
    left: Sequence[LeftOver],
    catalogue: Catalogue,
    width: int | None = None,
) -> Page:
    """The text of one look; `command` is what comes next, empty = nothing does, and `left` what is
    not ours. No line is wider than `width` but the commands, so that they can be copied."""
    page = Page(width, parts=True)
    head = [clean(name), *([seen.mode] if seen.mode else []), time_text(seen.at, seconds=True)]
    page.item(" · ".join(head))
    if seen.until is not None:
        state = "READY" if seen.ready else "not READY yet"
        page.item(f"waited for, {state}: {levels_text(catalogue, seen.until.items())}")
    if seen.error is not None:
        page.item(f"NOTHING ANSWERS: {clean(seen.error, 1000)}")
    if seen.nodes:
        page.line()
        page.table([("nodes", "state", "runs", "since", "lacks"), *_watched_nodes(seen, catalogue)])
    if rows := list(_watched_features(seen.features, catalogue)):
        wanted = "ceiling" if seen.until is None else "waited for"
        page.line()
        page.table([("feature", "finalized", "possible now", wanted), *rows])
    if seen.missing:
        page.head("also in the way")
    for one in seen.missing[:MOST]:
        page.item(f"{code_text(one.code)}: {clean(one.statement, 1000)}", 2)
        if one.action:
            page.item(f"→ {clean(one.action, 600)}", 4)
    if len(seen.missing) > MOST:
        page.line(f"  and {len(seen.missing) - MOST} more: --json has them all")
    if command:
        page.head(f"next: {command}")
    show_left(left, page)
    return page


def watch_line(seen: Watched, name: str, catalogue: Catalogue) -> str:
    """The same in one line, for a log."""
    parts = [] if seen.ready is None else ["READY" if seen.ready else "not READY yet"]
    if seen.error is not None:
        parts.append(f"nothing answers: {clean(seen.error, 400)}")
    parts += [f"{state}: {_halves(alike)}" for state, alike in _by_state(seen.nodes).items()]
    possible = [(f.feature, f.possible) for f in seen.features if f.possible is not None]
    parts.append(f"possible now: {levels_text(catalogue, possible) or 'nothing'}")
    if behind := [one for one in seen.nodes if one.lacks]:
        parts.append(f"behind: {_halves(behind)}")
    codes = ", ".join(dict.fromkeys(code_text(one.code) for one in seen.missing))
    parts += [f"also in the way: {codes}"] if codes else []
    return f"{time_text(seen.at, seconds=True)}  {clean(name)}: {' · '.join(parts)}"


def _by_state(shown: Sequence[NodeNow]) -> dict[str, list[NodeNow]]:
    """Return the nodes of each release that runs, and of each other state."""
    states: dict[str, list[NodeNow]] = {}
    for node in shown:
        is_up = node.state in (NodeState.RUNNING, NodeState.FENCED)
        states.setdefault(f"run {node.release or '?'}" if is_up else node.state, []).append(node)
    return states


def _halves(shown: Sequence[NodeNow]) -> str:
    roles = dict.fromkeys(one.role for one in shown)
    return "; ".join(nodes(role, [o.node_id for o in shown if o.role == role]) for role in roles)


def _watched_nodes(seen: Watched, catalogue: Catalogue) -> Iterator[tuple[str, ...]]:
    """One row for nodes that are alike; when they became so, where that was during the watch."""
    alike: dict[tuple[str, ...], list[NodeNow]] = {}
    for one in seen.nodes:
        state = f"{one.state}, active controller" if one.is_active else one.state
        since = time_text(one.since, seconds=True) if one.since > seen.started else ""
        lacks = levels_text(catalogue, one.lacks.items())
        alike.setdefault((one.role, state, one.release or "?", since, lacks), []).append(one)
    for (role, *cells), group in alike.items():
        who = wrap(nodes(role, [one.node_id for one in group]), WHO_WIDTH)
        yield ("\n  ".join(who), *cells)


def _watched_features(
    features: Sequence[FeatureNow], catalogue: Catalogue
) -> Iterator[tuple[str, ...]]:
    """Features that are finalized, could be, or are waited for."""
    for one in features:
        if one.finalized or one.finalized is None or one.possible or one.wanted:
            levels = [
                NOTHING if level is None else level_text(catalogue, one.feature, level)
                for level in (one.possible, one.wanted)
            ]
            finalized = level_text(catalogue, one.feature, one.finalized)
            yield (clean(one.feature, 40), finalized, *levels)


def timeline_page(
    found: Timeline, name: str, made_from: str, catalogue: Catalogue, width: int | None = None
) -> Page:
    """The text of a timeline."""
    page = Page(width)
    back = count(found.regressions, "change") if found.regressions else "nothing"
    page.text(f"{clean(name)}: {back} went back")
    page.text(clean(made_from, 300))
    if found.levels:
        page.line()
        by = "sent by" * bool(found.journal)
        head = ("finalized levels", "epoch", "", by, "what changed")
        page.table([head, *(_level_row(change, found, catalogue) for change in found.levels)])
        page.text(_who_is_not_known(found))
    else:
        page.line("nothing was ever said to be finalized")
    page.text("times are when it was read; of a dumped log, when it was dumped")
    page.head("what nodes supported")
    for change in found.ranges:
        page.item(_range_text(change, catalogue), 2)
    for one in found.epochs:
        witness = one.witness.replace("_", " ")
        who = witness if one.node_id is None else f"{witness} {one.node_id}"
        at = time_text(one.at, seconds=True)
        page.item(f"{at}  WENT BACK: the epoch of {who}, from {one.before} to {one.after}", 2)
    return page


def _who_is_not_known(found: Timeline) -> str:
    """Return the meaning of a level without a sender."""
    if found.journal is None:
        return "who sent them is not known: this machine has no journal that could be looked into"
    others = "another machine's or user's journal, another tool, the making of the cluster"
    return f"not known: {clean(found.journal, 300)} has no request that wrote it: {others}"


def _level_row(change: LevelChange, found: Timeline, catalogue: Catalogue) -> tuple[str, ...]:
    is_first, moves = change is found.levels[0], list[str]()  # nobody read what was before that
    for name, was, now in change.changes:
        before = "" if is_first or was == now else f"{level_text(catalogue, name, was)} → "
        moves.append(f"{clean(name, 60)} {before}{level_text(catalogue, name, now)}")
    what = "first read: " * is_first + "; ".join(moves)
    epoch = "" if change.epoch is None else str(change.epoch)
    mark = "WENT DOWN" if change.went_down else ""
    if change.epoch_before is not None:
        mark, what = mark or "EPOCH WENT BACK", f"from {change.epoch_before} to {epoch}: {what}"
    who = [
        f"{clean(one.user)} (entry {one.entry})"
        for one in found.sent
        if one.at == change.at and one.feature in {name for name, _, _ in change.changes}
    ]
    sent = "; ".join(dict.fromkeys(who)) or "not known" * bool(found.journal)
    return time_text(change.at, seconds=True), epoch, mark, sent, what


def _range_text(change: RangeChange, catalogue: Catalogue) -> str:
    def listed(feature: str, ends: tuple[int, int] | None) -> str:
        return "not listed" if ends is None else range_text(catalogue, feature, ends)

    ends = (time_text(at, seconds=True) for at in (change.since, change.until))
    when = " to ".join(dict.fromkeys(ends))
    order = sorted(change.changes, key=lambda one: metadata_first(one[0]))
    if change.first:
        texts = [f"{clean(name, 60)} {listed(name, now)}" for name, _, now in order]
        what = f"first seen: {', '.join(texts or ['no feature'])}"
    else:
        texts = [f"{clean(n, 60)} {listed(n, was)} → {listed(n, now)}" for n, was, now in order]
        what = f"{'WENT BACK: ' if change.shrank else ''}{'; '.join(texts)}"
    return f"{when}  {change.who}: {what}"


def diff_page(
    found: Diff,
    catalogue: Catalogue,
    limit: int,
    width: int | None = None,
    part: FleetPart | None = None,
) -> Page:
    """The text of a difference; `limit` 0 = all of it. `part`: the clusters that were chosen."""
    page, words = Page(width), FindingWords(catalogue)
    chosen = f", {clean(part.text)}" if part else ""
    page.text(f"run {found.before} → run {found.after}{chosen}")
    page.line(", ".join(f"{found.counts[state]:,} {state}" for state in State))
    if not found.judged_alike:
        page.text("the runs were judged by another catalogue or policy: nothing can be compared")
    shown = sorted(found.clusters, key=_turn)
    for one in shown[: limit or None]:
        page.line()
        _cluster(one, words, limit, page)
    page.line()
    if len(shown) > limit > 0:
        more = count(len(shown) - limit, "cluster")
        page.line(f"and {more} with a difference: --limit 0 shows all")
    page.line(f"{count(found.same, 'cluster')} without a difference")
    return page


def _turn(one: ClusterDiff) -> tuple[int, int, str]:
    """Clusters in which something got worse first; a level that went down or fits not every node,
    and software that went back, are as bad as a critical finding that is new."""
    order = list(Severity)
    worst = min((order.index(Severity(row["severity"])) for row in one.new), default=len(order))
    is_back = one.ceilings or any(level.unfit or level.after < level.before for level in one.levels)
    return 0 if is_back else worst, -len(one.new), one.cluster


def _cluster(one: ClusterDiff, words: FindingWords, limit: int, page: Page) -> None:
    was, now = one.before or "not judged", one.after or "not judged"
    verdict = (was if was == now else f"{was} → {now}") + ", critical" * one.critical
    kept = f", {count(one.unchanged, 'finding')} unchanged" if one.unchanged else ""
    page.text(f"{clean(one.name or one.cluster)}: {verdict}{kept}")
    _level_moves(one, words.catalogue, page)
    if one.silent_since is not None:
        page.item(f"nothing that counts landed any more since {time_text(one.silent_since)}", 2)
    for state, rows in ((State.NEW, one.new), (State.RESOLVED, one.resolved)):
        _rows(f"{state}  ", rows, words, limit, page)
    for why in dict.fromkeys(row["why"] for row in one.incomparable):
        rows = tuple(row for row in one.incomparable if row["why"] is why)
        page.item(f"{State.INCOMPARABLE}, {why}: {count(len(rows), 'finding')}", 2)
        _rows("  ", rows, words, limit, page)


def _level_moves(one: ClusterDiff, catalogue: Catalogue, page: Page) -> None:
    """Show the levels that moved, and the ceilings that fell."""
    for moved in one.levels:
        ends = (level_text(catalogue, moved.feature, at) for at in (moved.before, moved.after))
        down = ", WENT DOWN" if moved.after < moved.before else ""
        page.item(f"{clean(moved.feature, 60)} {' → '.join(ends)}{down}{although(moved.unfit)}", 2)
    for name, *tops in one.ceilings:
        ends = (level_text(catalogue, name, at) for at in tops)
        page.item(went_back(clean(name, 60), *ends), 2)


def _rows(start: str, rows: Sequence[Row], words: FindingWords, limit: int, page: Page) -> None:
    for row in rows[: limit or None]:
        message = words.of(row).statement
        page.item(f"{start}{row['severity']}, {code_text(row['code'])}: {message}", 2)
    if len(rows) > limit > 0:
        page.line(f"    and {len(rows) - limit:,} more: --limit 0 shows all")
