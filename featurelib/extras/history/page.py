"""Show the timeline of a cluster, and the difference of two runs, as text."""

from __future__ import annotations

from collections.abc import Sequence

from featurelib.audit.findings import FindingWords
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import FleetPart
from featurelib.extras.history.comparison import ClusterDiff, Diff, Row, State
from featurelib.extras.history.timeline import RangeChange, Timeline
from featurelib.feature import Severity
from featurelib.snapshot.history import LevelChange
from featurelib.view.layout import Page
from featurelib.words import (
    although,
    clean,
    code_text,
    count,
    level_text,
    metadata_first,
    range_text,
    time_text,
    went_back,
)


def timeline_page(
    line: Timeline, name: str, made_from: str, catalogue: Catalogue, width: int | None = None
) -> Page:
    """Return the page of `history`."""
    page = Page(width)
    regressions = count(line.regressions, "change") if line.regressions else "nothing"
    page.text(f"{clean(name)}: {regressions} decreased")
    page.text(clean(made_from, 300))
    if line.levels:
        page.line()
        sender = "sent by" * bool(line.journal)
        header = ("finalized levels", "epoch", "", sender, "what changed")
        page.table([header, *(_level_row(change, line, catalogue) for change in line.levels)])
        text = "who sent them is not known: this machine has no journal that could be looked into"
        if line.journal is not None:
            text = "another machine's or user's journal, another tool, the making of the cluster"
            text = f"not known: {clean(line.journal, 300)} has no request that wrote it: {text}"
        page.text(text)
    else:
        page.line("nothing was ever said to be finalized")
    page.text("times are when it was read; of a dumped log, when it was dumped")
    page.head("what nodes supported")
    for change in line.ranges:
        page.item(_range_text(change, catalogue), 2)
    for epoch in line.epochs:
        witness = epoch.witness.replace("_", " ")
        text = witness if epoch.node_id is None else f"{witness} {epoch.node_id}"
        at = time_text(epoch.at, seconds=True)
        page.item(f"{at}  DECREASED: the epoch of {text}, from {epoch.before} to {epoch.after}", 2)
    return page


def _level_row(change: LevelChange, line: Timeline, catalogue: Catalogue) -> tuple[str, ...]:
    is_first, moves = change is line.levels[0], list[str]()  # levels before the first are unknown
    for name, old, new in change.changes:
        before = "" if is_first or old == new else f"{level_text(catalogue, name, old)} → "
        moves.append(f"{clean(name, 60)} {before}{level_text(catalogue, name, new)}")
    event = "first read: " * is_first + "; ".join(moves)
    epoch = "" if change.epoch is None else str(change.epoch)
    mark = "WENT DOWN" if change.went_down else ""
    if change.epoch_before is not None:
        mark, event = mark or "EPOCH DECREASED", f"from {change.epoch_before} to {epoch}: {event}"
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
        texts = [f"{clean(n, 60)} {listed(n, old)} → {listed(n, new)}" for n, old, new in order]
        event = f"{'DECREASED: ' if change.shrank else ''}{'; '.join(texts)}"
    return f"{span}  {change.who}: {event}"


def diff_page(
    diff: Diff,
    catalogue: Catalogue,
    limit: int,
    width: int | None = None,
    part: FleetPart | None = None,
) -> Page:
    """Return the page of `diff`. `limit`: maximum rows, 0 = all; `part`: chosen clusters."""
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
    """Return the sort key of a cluster. Clusters that got worse come first: new critical findings,
    downgraded or unsupported levels, older software."""
    order = list(Severity)
    worst = min((order.index(Severity(row["severity"])) for row in diff.new), default=len(order))
    is_back = diff.ceilings or any(c.unfit or c.after < c.before for c in diff.levels)
    return 0 if is_back else worst, -len(diff.new), diff.cluster


def _cluster(cluster: ClusterDiff, words: FindingWords, limit: int, page: Page) -> None:
    old, new = cluster.before or "not judged", cluster.after or "not judged"
    verdict = (old if old == new else f"{old} → {new}") + ", critical" * cluster.critical
    unchanged = f", {count(cluster.unchanged, 'finding')} unchanged" if cluster.unchanged else ""
    page.text(f"{clean(cluster.name or cluster.cluster)}: {verdict}{unchanged}")
    _level_moves(cluster, words.catalogue, page)
    if cluster.silent_since is not None:
        page.item(f"no usable data was collected since {time_text(cluster.silent_since)}", 2)
    for state, rows in ((State.NEW, cluster.new), (State.RESOLVED, cluster.resolved)):
        _rows(f"{state}  ", rows, words, limit, page)
    for reason in dict.fromkeys(row["why"] for row in cluster.incomparable):
        rows = tuple(row for row in cluster.incomparable if row["why"] is reason)
        page.item(f"{State.INCOMPARABLE}, {reason}: {count(len(rows), 'finding')}", 2)
        _rows("  ", rows, words, limit, page)


def _level_moves(cluster: ClusterDiff, catalogue: Catalogue, page: Page) -> None:
    """Add the changed levels and lowered maximum levels of a cluster to the page."""
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
