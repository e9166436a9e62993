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
        subject = "levels are" if entry.managed is None else f"{clean(', '.join(entry.managed))} is"
        yield f"managed by {clean(entry.managed_by)}: {subject} finalized through it"


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


def _node_rows(nodes_shown: Sequence[NodeShown]) -> list[tuple[str, ...]]:
    """Return one row for nodes that are alike. Their epochs are in --json: a controller's cannot be
    compared with a broker's."""
    alike: dict[tuple[str, ...], list[NodeShown]] = {}
    for node in nodes_shown:
        profile = "?" if node.profile is None else letter(node.profile)
        profile += "*" if node.is_partial and node.profile is not None else ""
        key = (node.role, _state(node), node.release or "?", profile)
        alike.setdefault(key, []).append(node)
    rows: list[tuple[str, ...]] = []
    for (role, state, release, profile), group in alike.items():
        labels = wrap(nodes(role, [node.node_id for node in group]), WHO_WIDTH)
        rows.append(("\n  ".join(labels), state, release, profile))
    return rows


def _silent(nodes_shown: Sequence[NodeShown]) -> Iterator[str]:
    """Yield why nodes did not answer, and when their ranges were seen; equal ones together."""
    silent: dict[tuple[str, str], list[int]] = {}
    earlier: dict[tuple[str, datetime], list[int]] = {}
    for node in nodes_shown:
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
    text = NOTHING if known is None else f"{known[0]}-{known[1]}"
    return f"{text} !" if position in row.offended else text


def _witnesses(described: Description, page: Page) -> None:
    if not described.witnesses:
        page.line("nobody says what is finalized")
        return
    rows = [("who says what is finalized", "seen", "")]
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
    """Yield severity and message, once for all nodes of which the same is found."""
    alike = defaultdict[tuple[str, str], list[FindingShown]](list)
    for finding in findings:
        alike[finding.severity, _NODE.sub(r"\1", finding.message)].append(finding)
    for (severity, _), (first, *rest_alike) in alike.items():
        named = [match for f in (first, *rest_alike) if (match := _NODE.match(f.message))]
        ids = [int(m[2]) for m in named[1:]]
        also = f" The same holds for {nodes(named[0][1].lower(), ids)}." if ids else ""
        yield severity, f"{first.message}{also}"


def watch_page(
    now: Watched,
    name: str,
    command: str,
    left_over: Sequence[LeftOver],
    catalogue: Catalogue,
    width: int | None = None,
) -> Page:
    """Return the page of one look. `command`: the next command, if any. `left_over`: requests that
    are not ours. Only commands, which are copied, may be wider than `width`."""
    page = Page(width, parts=True)
    head = [clean(name), *([now.mode] if now.mode else []), time_text(now.at, seconds=True)]
    page.item(" · ".join(head))
    if now.until is not None:
        state = "READY" if now.ready else "not READY yet"
        page.item(f"waited for, {state}: {levels_text(catalogue, now.until.items())}")
    if now.error is not None:
        page.item(f"NOTHING ANSWERS: {clean(now.error, 1000)}")
    if now.nodes:
        page.line()
        page.table([("nodes", "state", "runs", "since", "lacks"), *_watched_nodes(now, catalogue)])
    if rows := list(_watched_features(now.features, catalogue)):
        goal = "ceiling" if now.until is None else "waited for"
        page.line()
        page.table([("feature", "finalized", "possible now", goal), *rows])
    if now.missing:
        page.head("also in the way")
    for reason in now.missing[:MOST]:
        page.item(f"{code_text(reason.code)}: {clean(reason.statement, 1000)}", 2)
        if reason.action:
            page.item(f"→ {clean(reason.action, 600)}", 4)
    if len(now.missing) > MOST:
        page.line(f"  and {len(now.missing) - MOST} more: --json has them all")
    if command:
        page.head(f"next: {command}")
    show_left(left_over, page)
    return page


def watch_line(watched: Watched, name: str, catalogue: Catalogue) -> str:
    """The same in one line, for a log."""
    parts = [] if watched.ready is None else ["READY" if watched.ready else "not READY yet"]
    if watched.error is not None:
        parts.append(f"nothing answers: {clean(watched.error, 400)}")
    parts += [f"{state}: {_halves(alike)}" for state, alike in _by_state(watched.nodes).items()]
    possible = [(f.feature, f.possible) for f in watched.features if f.possible is not None]
    parts.append(f"possible now: {levels_text(catalogue, possible) or 'nothing'}")
    if behind := [node for node in watched.nodes if node.lacks]:
        parts.append(f"behind: {_halves(behind)}")
    codes = ", ".join(dict.fromkeys(code_text(reason.code) for reason in watched.missing))
    parts += [f"also in the way: {codes}"] if codes else []
    return f"{time_text(watched.at, seconds=True)}  {clean(name)}: {' · '.join(parts)}"


def _by_state(now: Sequence[NodeNow]) -> dict[str, list[NodeNow]]:
    """Return the nodes of each release that runs, and of each other state."""
    states: dict[str, list[NodeNow]] = {}
    for node in now:
        is_up = node.state in (NodeState.RUNNING, NodeState.FENCED)
        states.setdefault(f"run {node.release or '?'}" if is_up else node.state, []).append(node)
    return states


def _halves(now: Sequence[NodeNow]) -> str:
    roles = dict.fromkeys(node.role for node in now)
    return "; ".join(nodes(role, [o.node_id for o in now if o.role == role]) for role in roles)


def _watched_nodes(watched: Watched, catalogue: Catalogue) -> Iterator[tuple[str, ...]]:
    """Yield a row for nodes that are alike, with the time when they changed."""
    alike: dict[tuple[str, ...], list[NodeNow]] = {}
    for node in watched.nodes:
        state = f"{node.state}, active controller" if node.is_active else node.state
        since = time_text(node.since, seconds=True) if node.since > watched.started else ""
        lacks = levels_text(catalogue, node.lacks.items())
        alike.setdefault((node.role, state, node.release or "?", since, lacks), []).append(node)
    for (role, *cells), group in alike.items():
        labels = wrap(nodes(role, [n.node_id for n in group]), WHO_WIDTH)
        yield ("\n  ".join(labels), *cells)


def _watched_features(
    features: Sequence[FeatureNow], catalogue: Catalogue
) -> Iterator[tuple[str, ...]]:
    """Yield features that are finalized, could be, or are waited for."""
    for feature in features:
        if feature.finalized or feature.finalized is None or feature.possible or feature.wanted:
            levels = [
                NOTHING if level is None else level_text(catalogue, feature.feature, level)
                for level in (feature.possible, feature.wanted)
            ]
            finalized = level_text(catalogue, feature.feature, feature.finalized)
            yield (clean(feature.feature, 40), finalized, *levels)


def timeline_page(
    line: Timeline, name: str, made_from: str, catalogue: Catalogue, width: int | None = None
) -> Page:
    """The text of a timeline."""
    page = Page(width)
    back = count(line.regressions, "change") if line.regressions else "nothing"
    page.text(f"{clean(name)}: {back} went back")
    page.text(clean(made_from, 300))
    if line.levels:
        page.line()
        by = "sent by" * bool(line.journal)
        head = ("finalized levels", "epoch", "", by, "what changed")
        page.table([head, *(_level_row(change, line, catalogue) for change in line.levels)])
        page.text(_who_is_not_known(line))
    else:
        page.line("nothing was ever said to be finalized")
    page.text("times are when it was read; of a dumped log, when it was dumped")
    page.head("what nodes supported")
    for change in line.ranges:
        page.item(_range_text(change, catalogue), 2)
    for epoch in line.epochs:
        witness = epoch.witness.replace("_", " ")
        of = witness if epoch.node_id is None else f"{witness} {epoch.node_id}"
        at = time_text(epoch.at, seconds=True)
        page.item(f"{at}  WENT BACK: the epoch of {of}, from {epoch.before} to {epoch.after}", 2)
    return page


def _who_is_not_known(line: Timeline) -> str:
    """Return the meaning of a level without a sender."""
    if line.journal is None:
        return "who sent them is not known: this machine has no journal that could be looked into"
    sources = "another machine's or user's journal, another tool, the making of the cluster"
    return f"not known: {clean(line.journal, 300)} has no request that wrote it: {sources}"


def _level_row(change: LevelChange, line: Timeline, catalogue: Catalogue) -> tuple[str, ...]:
    is_first, moves = change is line.levels[0], list[str]()  # nobody read what was before that
    for name, was, now in change.changes:
        before = "" if is_first or was == now else f"{level_text(catalogue, name, was)} → "
        moves.append(f"{clean(name, 60)} {before}{level_text(catalogue, name, now)}")
    event = "first read: " * is_first + "; ".join(moves)
    epoch = "" if change.epoch is None else str(change.epoch)
    mark = "WENT DOWN" if change.went_down else ""
    if change.epoch_before is not None:
        mark, event = mark or "EPOCH WENT BACK", f"from {change.epoch_before} to {epoch}: {event}"
    senders = [
        f"{clean(sent.user)} (entry {sent.entry})"
        for sent in line.sent
        if sent.at == change.at and sent.feature in {name for name, _, _ in change.changes}
    ]
    sent = "; ".join(dict.fromkeys(senders)) or "not known" * bool(line.journal)
    return time_text(change.at, seconds=True), epoch, mark, sent, event


def _range_text(change: RangeChange, catalogue: Catalogue) -> str:
    def listed(feature: str, ends: tuple[int, int] | None) -> str:
        return "not listed" if ends is None else range_text(catalogue, feature, ends)

    ends = (time_text(at, seconds=True) for at in (change.since, change.until))
    span = " to ".join(dict.fromkeys(ends))
    order = sorted(change.changes, key=lambda change_of: metadata_first(change_of[0]))
    if change.first:
        texts = [f"{clean(name, 60)} {listed(name, now)}" for name, _, now in order]
        event = f"first seen: {', '.join(texts or ['no feature'])}"
    else:
        texts = [f"{clean(n, 60)} {listed(n, was)} → {listed(n, now)}" for n, was, now in order]
        event = f"{'WENT BACK: ' if change.shrank else ''}{'; '.join(texts)}"
    return f"{span}  {change.who}: {event}"


def diff_page(
    diff: Diff,
    catalogue: Catalogue,
    limit: int,
    width: int | None = None,
    part: FleetPart | None = None,
) -> Page:
    """The text of a difference; `limit` 0 = all of it. `part`: the clusters that were chosen."""
    page, words = Page(width), FindingWords(catalogue)
    chosen = f", {clean(part.text)}" if part else ""
    page.text(f"run {diff.before} → run {diff.after}{chosen}")
    page.line(", ".join(f"{diff.counts[state]:,} {state}" for state in State))
    if not diff.judged_alike:
        page.text("the runs were judged by another catalogue or policy: nothing can be compared")
    clusters = sorted(diff.clusters, key=_turn)
    for cluster in clusters[: limit or None]:
        page.line()
        _cluster(cluster, words, limit, page)
    page.line()
    if len(clusters) > limit > 0:
        hidden = count(len(clusters) - limit, "cluster")
        page.line(f"and {hidden} with a difference: --limit 0 shows all")
    page.line(f"{count(diff.same, 'cluster')} without a difference")
    return page


def _turn(diff: ClusterDiff) -> tuple[int, int, str]:
    """Return the sort key: clusters that got worse come first. A lower level, a level that a node
    does not support, and older software count as a new critical finding."""
    order = list(Severity)
    worst = min((order.index(Severity(row["severity"])) for row in diff.new), default=len(order))
    is_back = diff.ceilings or any(c.unfit or c.after < c.before for c in diff.levels)
    return 0 if is_back else worst, -len(diff.new), diff.cluster


def _cluster(cluster: ClusterDiff, words: FindingWords, limit: int, page: Page) -> None:
    was, now = cluster.before or "not judged", cluster.after or "not judged"
    verdict = (was if was == now else f"{was} → {now}") + ", critical" * cluster.critical
    kept = f", {count(cluster.unchanged, 'finding')} unchanged" if cluster.unchanged else ""
    page.text(f"{clean(cluster.name or cluster.cluster)}: {verdict}{kept}")
    _level_moves(cluster, words.catalogue, page)
    if cluster.silent_since is not None:
        page.item(f"nothing that counts landed any more since {time_text(cluster.silent_since)}", 2)
    for state, rows in ((State.NEW, cluster.new), (State.RESOLVED, cluster.resolved)):
        _rows(f"{state}  ", rows, words, limit, page)
    for reason in dict.fromkeys(row["why"] for row in cluster.incomparable):
        rows = tuple(row for row in cluster.incomparable if row["why"] is reason)
        page.item(f"{State.INCOMPARABLE}, {reason}: {count(len(rows), 'finding')}", 2)
        _rows("  ", rows, words, limit, page)


def _level_moves(cluster: ClusterDiff, catalogue: Catalogue, page: Page) -> None:
    """Show the levels that moved, and the ceilings that fell."""
    for moved in cluster.levels:
        ends = (level_text(catalogue, moved.feature, at) for at in (moved.before, moved.after))
        down = ", WENT DOWN" if moved.after < moved.before else ""
        page.item(f"{clean(moved.feature, 60)} {' → '.join(ends)}{down}{although(moved.unfit)}", 2)
    for name, *tops in cluster.ceilings:
        ends = (level_text(catalogue, name, at) for at in tops)
        page.item(went_back(clean(name, 60), *ends), 2)


def _rows(start: str, rows: Sequence[Row], words: FindingWords, limit: int, page: Page) -> None:
    for row in rows[: limit or None]:
        message = words.of(row).statement
        page.item(f"{start}{row['severity']}, {code_text(row['code'])}: {message}", 2)
    if len(rows) > limit > 0:
        page.line(f"    and {len(rows) - limit:,} more: --limit 0 shows all")
