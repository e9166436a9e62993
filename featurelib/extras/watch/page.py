"""Show a reading of a watch as text: the software of each node, possible and missing levels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from featurelib.catalogue import Catalogue
from featurelib.extras.watch.watching import FeatureNow, NodeNow, NodeState, Watched
from featurelib.planning.owners import LeftOver
from featurelib.view.describe import MOST, NOTHING, WHO_WIDTH
from featurelib.view.layout import STYLES, Page, paint, wrap
from featurelib.view.plan import show_left
from featurelib.words import clean, code_text, level_text, levels_text, nodes, time_text

_STYLES = {NodeState.RUNNING: "green", NodeState.FENCED: "yellow"}


def watch_page(
    now: Watched,
    name: str,
    command: str,
    left_over: Sequence[LeftOver],
    catalogue: Catalogue,
    width: int | None = None,
) -> Page:
    """Return the page of a watched cluster. `command`: the next command, "" = none; `left_over`:
    the owner's level changes."""
    page = Page(width, parts=True)
    header = [
        paint(clean(name), "bold"),
        *([now.mode] if now.mode else []),
        time_text(now.at, seconds=True),
    ]
    page.item(" · ".join(header))
    if now.until is not None:
        state = paint("READY", STYLES["READY"]) if now.ready else "not READY yet"
        page.item(f"waited for, {state}: {levels_text(catalogue, now.until.items())}")
    if now.error is not None:
        page.item(f"{paint('NOTHING ANSWERS', 'bold red')}: {clean(now.error, 1000)}")
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
    """Return the state of a watched cluster as one line for a log."""
    parts = [] if watched.ready is None else ["READY" if watched.ready else "not READY yet"]
    if watched.error is not None:
        parts.append(f"nothing answers: {clean(watched.error, 400)}")
    parts += [f"{state}: {_halves(nodes)}" for state, nodes in _by_state(watched.nodes).items()]
    possible = [(f.feature, f.possible) for f in watched.features if f.possible is not None]
    parts.append(f"possible now: {levels_text(catalogue, possible) or 'nothing'}")
    if behind := [node for node in watched.nodes if node.lacks]:
        parts.append(f"behind: {_halves(behind)}")
    codes = ", ".join(dict.fromkeys(code_text(reason.code) for reason in watched.missing))
    parts += [f"also in the way: {codes}"] if codes else []
    return f"{time_text(watched.at, seconds=True)}  {clean(name)}: {' · '.join(parts)}"


def _by_state(now: Sequence[NodeNow]) -> dict[str, list[NodeNow]]:
    """Return nodes grouped by a text: the running release, or another state."""
    states: dict[str, list[NodeNow]] = {}
    for node in now:
        is_up = node.state in (NodeState.RUNNING, NodeState.FENCED)
        states.setdefault(f"run {node.release or '?'}" if is_up else node.state, []).append(node)
    return states


def _halves(now: Sequence[NodeNow]) -> str:
    roles = dict.fromkeys(node.role for node in now)
    return "; ".join(nodes(role, [o.node_id for o in now if o.role == role]) for role in roles)


def _watched_nodes(watched: Watched, catalogue: Catalogue) -> Iterator[tuple[str, ...]]:
    """Yield one table row per group of equal nodes, with the time of their last change."""
    groups: dict[tuple[str, ...], list[NodeNow]] = {}
    for node in watched.nodes:
        state = f"{node.state}, active controller" if node.is_active else node.state
        since = time_text(node.since, seconds=True) if node.since > watched.started else ""
        levels = levels_text(catalogue, node.lacks.items())
        groups.setdefault((node.role, state, node.release or "?", since, levels), []).append(node)
    for (role, state, *cells), group in groups.items():
        style = _STYLES.get(group[0].state, "red")
        labels = wrap(nodes(role, [n.node_id for n in group]), WHO_WIDTH)
        yield ("\n  ".join(labels), paint(state, style), *cells)


def _watched_features(
    features: Sequence[FeatureNow], catalogue: Catalogue
) -> Iterator[tuple[str, ...]]:
    """Yield one table row per feature that is finalized, possible or awaited."""
    for feature in features:
        if feature.finalized or feature.finalized is None or feature.possible or feature.wanted:
            levels = [
                NOTHING if level is None else level_text(catalogue, feature.feature, level)
                for level in (feature.possible, feature.wanted)
            ]
            finalized = level_text(catalogue, feature.feature, feature.finalized)
            yield (clean(feature.feature, 40), finalized, *levels)
