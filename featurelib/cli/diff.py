"""`featurelib diff`: what two nights found, against each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated

import typer

from featurelib.audit.wording import FindingColumns, FindingWords
from featurelib.catalogue import Catalogue
from featurelib.cli.asked import usual_tables
from featurelib.cli.catalogue import Json, OverlayFile, open_catalogue
from featurelib.cli.common import TablesFolder
from featurelib.cli.reach import FleetFile, open_fleet
from featurelib.core.dialect import STRICT, load
from featurelib.errors import ConfigError, NoEvidenceError
from featurelib.feature import Severity
from featurelib.lake import Lake
from featurelib.questions.diff import ClusterDiff, Diff, Row, State, diff
from featurelib.view.layout import terminal_width, wrap
from featurelib.words import clean, code_text, count

VERSION = 1  # of the JSON output
FINDINGS_FOUND = 1  # exit code
MOST = 20  # clusters, and findings of one, that are shown

Given = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN RUN] [SEVERITY]",
        help="Two nights, the older one first; and, with --fail-on-new, what counts.",
    ),
]


def diff_command(
    given: Given = None,
    last: Annotated[
        bool, typer.Option("--last", help="The newest night against the one before.")
    ] = False,
    fail_on_new: Annotated[
        bool,
        typer.Option(
            "--fail-on-new",
            help="Exit code 1 if a finding is new and not muted: of SEVERITY or worse, or any.",
        ),
    ] = False,
    tables: TablesFolder = None,
    fleet: FleetFile = None,
    overlay: OverlayFile = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="Clusters shown, and findings of each; 0 = all.")
    ] = MOST,
    as_json: Json = False,
) -> int:
    """What two nights found, against each other.

    New, resolved, unchanged, incomparable:

    \b
        featurelib diff --last --tables TABLES
        featurelib diff 20261120060000 20261121060000 --tables TABLES --json
        featurelib diff --last --fail-on-new blocker --tables TABLES

    By cluster. Incomparable is a finding of one night that the other could not have found: judged
    by another catalogue or policy, the cluster not judged, or its evidence UNKNOWN there.

    Exit codes: 0 answered; 1 with --fail-on-new, if one is new; 2 usage; 5 there are no two nights.
    """
    runs, worst = _read(given or [], fail_on_new)
    catalogue = open_catalogue(overlay)
    tables, fleet = usual_tables(tables, fleet)
    lake = Lake(tables)
    before, after = _choose(lake, runs, last)
    found = diff(lake, before, after)
    names = open_fleet(fleet, catalogue)[1].names
    if as_json:
        print(json.dumps(_document(found, names, tables), default=str, ensure_ascii=False))
    else:
        for line in diff_lines(found, names, catalogue, limit, terminal_width()):
            print(line)
    failed = worst is not None and found.new_at_least(worst) > 0
    return FINDINGS_FOUND if failed else 0


def _read(words: list[str], fail_on_new: bool) -> tuple[list[int], Severity | None]:
    """The runs, and from which severity on a new finding fails. Raises ConfigError."""
    runs = [int(word) for word in words if word.isascii() and word.isdigit()]
    others = [word for word in words if not (word.isascii() and word.isdigit())]
    if not others:
        return runs, Severity.INFO if fail_on_new else None
    if fail_on_new and len(others) == 1 and others[0] in set(Severity):
        return runs, Severity(others[0])
    expected = f"a severity, {', '.join(Severity)}" if fail_on_new else "runs, as 20261121060000"
    raise ConfigError(
        f"{' '.join(others)}: expected {expected}, found {others[0]!r}. "
        "As: featurelib diff --last --fail-on-new blocker"
    )


def _choose(lake: Lake, runs: list[int], last: bool) -> tuple[int, int]:
    """The two nights, as named or the two newest. Raises ConfigError, NoEvidenceError."""
    if last == bool(runs) or (runs and len(runs) != 2):
        raise ConfigError(
            f"expected two runs, or --last, found {len(runs)} run{'' if len(runs) == 1 else 's'}"
            f"{' and --last' if last else ''}. As: featurelib diff --last"
        )
    if runs:
        return lake.run(runs[0]), lake.run(runs[1])
    known: list[int] = lake.runs["run"].to_pylist()
    if len(known) < 2:
        raise NoEvidenceError(
            f"--last: expected two nights below {lake.root}, found one, {known[0]}. Run the "
            "nightly again."
        )
    return known[1], known[0]


def diff_lines(
    found: Diff, names: dict[str, str], catalogue: Catalogue, limit: int, width: int
) -> Iterator[str]:
    """The lines of a difference, without line ends; `limit` 0 = all of it."""
    words = FindingWords(catalogue, load(STRICT))
    yield f"run {found.before} → run {found.after}"
    yield ", ".join(f"{found.counts[state]:,} {state}" for state in State)
    if not found.judged_alike:
        text = "the nights were judged by another catalogue or policy: nothing can be compared"
        yield from wrap(text, width)
    shown = sorted(found.clusters, key=_turn)
    for one in shown[: limit or None]:
        yield ""
        yield from _cluster_lines(one, names, words, limit, width)
    yield ""
    if len(shown) > limit > 0:
        more = count(len(shown) - limit, "cluster")
        yield f"and {more} with a difference: --limit 0 shows all"
    yield f"{count(found.same, 'cluster')} without a difference"


def _turn(one: ClusterDiff) -> tuple[int, int, str]:
    """Clusters in which something got worse first."""
    order = list(Severity)
    worst = min((order.index(Severity(row["severity"])) for row in one.new), default=len(order))
    return worst, -len(one.new), one.cluster


def _cluster_lines(
    one: ClusterDiff, names: dict[str, str], words: FindingWords, limit: int, width: int
) -> Iterator[str]:
    was, now = one.before or "not judged", one.after or "not judged"
    verdict = was if was == now else f"{was} → {now}"
    name = names.get(one.cluster, one.cluster)
    kept = f", {count(one.unchanged, 'finding')} unchanged" if one.unchanged else ""
    yield from wrap(f"{clean(name)}: {verdict}{kept}", width)
    for state, rows in ((State.NEW, one.new), (State.RESOLVED, one.resolved)):
        yield from _finding_lines(f"{state}  ", rows, words, limit, width)
    for why in dict.fromkeys(reason for _, reason in one.incomparable):
        rows = tuple(row for row, reason in one.incomparable if reason is why)
        text = f"{State.INCOMPARABLE}, {why}: {count(len(rows), 'finding')}"
        yield from wrap(text, width, "  ", "    ")
        yield from _finding_lines("  ", rows, words, limit, width)


def _finding_lines(
    start: str, rows: tuple[Row, ...], words: FindingWords, limit: int, width: int
) -> Iterator[str]:
    order = list(Severity)
    ranked = sorted(rows, key=lambda row: order.index(Severity(row["severity"])))
    for row in ranked[: limit or None]:
        columns: FindingColumns = row  # type: ignore[assignment]  # a row has more columns than words use
        text = f"{row['severity']}, {code_text(row['code'])}: {words.of(columns).message}"
        yield from wrap(f"{start}{text}", width, "  ", "    ")
    if len(ranked) > limit > 0:
        yield f"    and {len(ranked) - limit:,} more: --limit 0 shows all"


def _document(found: Diff, names: dict[str, str], tables: str) -> dict[str, object]:
    return {
        "version": VERSION,
        "made_from": f"tables in {tables}",
        "before": found.before,
        "after": found.after,
        "judged_alike": found.judged_alike,
        "counts": found.counts,
        "same": found.same,
        "clusters": [
            {
                "cluster": one.cluster,
                "name": names.get(one.cluster),
                "before": one.before,
                "after": one.after,
                "new": one.new,
                "resolved": one.resolved,
                "unchanged": one.unchanged,
                "incomparable": [row | {"why": why} for row, why in one.incomparable],
            }
            for one in found.clusters
        ],
    }
