"""What tables remember, as text: who could what when in one cluster, and two nights against each
other."""

from __future__ import annotations

from collections.abc import Sequence

from featurelib.audit.wording import FindingWords
from featurelib.catalogue import Catalogue
from featurelib.feature import Severity
from featurelib.questions.diff import ClusterDiff, Diff, Row, State
from featurelib.questions.timeline import RangeChange, Timeline
from featurelib.snapshot.history import LevelChange
from featurelib.view.layout import Page
from featurelib.words import (
    clean,
    code_text,
    count,
    level_text,
    metadata_first,
    nodes,
    range_text,
    time_text,
)


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
        head = ("finalized levels", "epoch", "", "what changed")
        page.table([head, *(_level_row(change, catalogue) for change in found.levels)])
    else:
        page.line("nothing was ever said to be finalized")
    page.text("times are when it was read; of a dumped log, when it was dumped")
    page.line()
    page.line("what nodes supported")
    for change in found.ranges:
        page.item(_range_text(change, catalogue), 2)
    for one in found.epochs:
        witness = one.witness.replace("_", " ")
        who = witness if one.node_id is None else f"{witness} {one.node_id}"
        at = time_text(one.at, seconds=True)
        page.item(f"{at}  WENT BACK: the epoch of {who}, from {one.before} to {one.after}", 2)
    return page


def _level_row(change: LevelChange, catalogue: Catalogue) -> tuple[str, ...]:
    order = sorted(change.changes, key=lambda one: metadata_first(one[0]))
    moves = [
        f"{clean(name, 60)} {level_text(catalogue, name, was)} → {level_text(catalogue, name, now)}"
        for name, was, now in order
    ]
    epoch = "" if change.epoch is None else str(change.epoch)
    mark = "WENT DOWN" if change.went_down else ""
    return time_text(change.at, seconds=True), epoch, mark, "; ".join(moves)


def _range_text(change: RangeChange, catalogue: Catalogue) -> str:
    def listed(feature: str, ends: tuple[int, int] | None) -> str:
        return "not listed" if ends is None else range_text(catalogue, feature, ends)

    when = time_text(change.since, seconds=True)
    if change.until != change.since:
        when += f" to {time_text(change.until, seconds=True)}"
    order = sorted(change.changes, key=lambda one: metadata_first(one[0]))
    if change.first:
        texts = [f"{clean(name, 60)} {listed(name, now)}" for name, _, now in order]
        what = f"first seen: {', '.join(texts or ['no feature'])}"
    else:
        texts = [f"{clean(n, 60)} {listed(n, was)} → {listed(n, now)}" for n, was, now in order]
        what = f"{'WENT BACK: ' if change.shrank else ''}{'; '.join(texts)}"
    return f"{when}  {nodes(change.role, change.node_ids)}: {what}"


def diff_page(found: Diff, catalogue: Catalogue, limit: int, width: int | None = None) -> Page:
    """The text of a difference; `limit` 0 = all of it."""
    page, words = Page(width), FindingWords(catalogue)
    page.line(f"run {found.before} → run {found.after}")
    page.line(", ".join(f"{found.counts[state]:,} {state}" for state in State))
    if not found.judged_alike:
        page.text("the nights were judged by another catalogue or policy: nothing can be compared")
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
    """Clusters in which something got worse first."""
    order = list(Severity)
    worst = min((order.index(Severity(row["severity"])) for row in one.new), default=len(order))
    return worst, -len(one.new), one.cluster


def _cluster(one: ClusterDiff, words: FindingWords, limit: int, page: Page) -> None:
    was, now = one.before or "not judged", one.after or "not judged"
    verdict = was if was == now else f"{was} → {now}"
    kept = f", {count(one.unchanged, 'finding')} unchanged" if one.unchanged else ""
    page.text(f"{clean(one.name or one.cluster)}: {verdict}{kept}")
    for state, rows in ((State.NEW, one.new), (State.RESOLVED, one.resolved)):
        _findings(f"{state}  ", rows, words, limit, page)
    for why in dict.fromkeys(row["why"] for row in one.incomparable):
        rows = tuple(row for row in one.incomparable if row["why"] is why)
        page.item(f"{State.INCOMPARABLE}, {why}: {count(len(rows), 'finding')}", 2)
        _findings("  ", rows, words, limit, page)


def _findings(start: str, rows: Sequence[Row], words: FindingWords, limit: int, page: Page) -> None:
    for row in rows[: limit or None]:
        message = words.of(row).message  # type: ignore[arg-type]  # a row has more columns
        page.item(f"{start}{row['severity']}, {code_text(row['code'])}: {message}", 2)
    if len(rows) > limit > 0:
        page.line(f"    and {len(rows) - limit:,} more: --limit 0 shows all")
