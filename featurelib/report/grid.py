"""The table of clusters and features: one row a cluster, a column for each feature many have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from featurelib.feature import Verdict
from featurelib.report.model import VERDICT_RANK, Cluster, Readiness
from featurelib.report.words import metadata_first

COLUMNS = 10  # features with a column of their own
SAID = 90  # characters of the last column
# The class of a cell, and the sign that stands in it: a grid of thousands has no room for words.
KINDS = {
    Verdict.UNKNOWN: ("U", "?"),
    Verdict.BLOCKED: ("B", "✕"),
    Verdict.READY: ("R", "▲"),
    Verdict.UP_TO_DATE: ("D", "✓"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One verdict: its class, and its sign and level."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One cluster; `find` holds what it is found by beside the text of its row."""

    name: str
    link: str
    verdict: Verdict
    find: str
    cells: tuple[Cell | None, ...]
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """`others`: whether the last cell of each row counts features without a column."""

    features: tuple[str, ...]
    others: bool
    rows: tuple[Row, ...]


def lay_out(clusters: Sequence[Cluster], links: Sequence[str]) -> Grid:
    """The grid of all clusters, in their order; `links` say where each of them stands in full."""
    spread = Counter(ready.feature for cluster in clusters for ready in cluster.readiness)
    usual = sorted(spread, key=lambda name: (metadata_first(name)[0], -spread[name], name))
    features = tuple(usual[:COLUMNS])
    others = len(usual) > COLUMNS
    rows = tuple(
        _row(cluster, link, features, others) for cluster, link in zip(clusters, links, strict=True)
    )
    return Grid(features=features, others=others, rows=rows)


def _row(cluster: Cluster, link: str, features: Sequence[str], others: bool) -> Row:
    by_name = {ready.feature: ready for ready in cluster.readiness}
    cells = [_cell(by_name.pop(feature, None)) for feature in features]
    if others:
        cells.append(_counted(list(by_name.values())))
    said = cluster.summary
    unseen = (cluster.id if cluster.id != cluster.name else "", cluster.owner, *cluster.labels)
    return Row(
        name=cluster.name,
        link=link,
        verdict=cluster.verdict,
        find=" ".join(filter(None, unseen)),
        cells=tuple(cells),
        said=said if len(said) <= SAID else said[: SAID - 1] + "…",
    )


def _cell(ready: Readiness | None) -> Cell | None:
    if ready is None:
        return None
    kind, sign = KINDS[ready.verdict]
    text = sign if ready.finalized is None else f"{sign} {ready.finalized.number}"
    if ready.verdict is Verdict.READY and ready.target is not None:
        text += f"→{ready.target.number}"
    return Cell(kind=kind, text=text)


def _counted(rest: Sequence[Readiness]) -> Cell | None:
    if not rest:
        return None
    worst = min((ready.verdict for ready in rest), key=VERDICT_RANK.__getitem__)
    kind, sign = KINDS[worst]
    alike = sum(ready.verdict is worst for ready in rest)
    return Cell(kind=kind, text=f"{sign} {alike} of {len(rest)}")
