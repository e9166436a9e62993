"""The commands that ask the nightly's tables: timeline, diff."""

from __future__ import annotations

from featurelib import api
from featurelib.api.tables import MOST, NightTables
from featurelib.cli.entrance import say
from featurelib.cli.options import print_answer
from featurelib.cli.questions import chosen
from featurelib.config.catalogue import open_catalogue
from featurelib.errors import ConfigError, NoEvidenceError
from featurelib.feature import Severity
from featurelib.lake import Lake
from featurelib.source import Wanted, usual_tables

FINDINGS_FOUND = 1  # exit code


def timeline(
    cluster: str | None = None,
    tables: str | None = None,
    run: int | None = None,
    fleet: str | None = None,
    overlay: str | None = None,
    as_json: bool = False,
) -> int:
    """Who could what when in one cluster.

    Ranges, finalized levels by epoch, and what went back:

    \b
        featurelib timeline payments-eu --tables TABLES
        featurelib timeline k41-forgotten

    Read from the histories that the nightly keeps (silver.node_advertisement, finalized_features).
    Marked as going back: a node whose range ends lower or that lost a feature, a level that went
    down, an epoch that is smaller than before. Nodes that changed alike stand in one line.

    Exit codes: 0 answered; 2 usage; 5 nothing is known of the cluster.
    """
    tables, fleet = usual_tables(tables, fleet, say)
    if cluster is None:
        raise ConfigError("expected a cluster, found none named. Give its id or name.")
    wanted = Wanted(cluster=cluster, tables=tables, run=run, fleet=fleet)
    return print_answer(api.timeline(chosen(wanted, overlay)), as_json=as_json)


def diff(
    words: list[str] | None = None,
    last: bool = False,
    fail_on_new: bool = False,
    tables: str | None = None,
    fleet: str | None = None,
    overlay: str | None = None,
    limit: int = MOST,
    as_json: bool = False,
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
    runs, worst = _read(words or [], fail_on_new)
    catalogue = open_catalogue(overlay, say)
    tables, fleet = usual_tables(tables, fleet, say)
    lake = Lake(tables)
    before, after = _choose(lake, runs, last)
    nights = NightTables(lake, Wanted(tables=tables, fleet=fleet), catalogue)
    answer = api.diff(nights, before, after, limit=limit)
    print_answer(answer, as_json=as_json)
    failed = worst is not None and answer.value.new_at_least(worst) > 0
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
