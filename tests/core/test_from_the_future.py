"""Evidence dated later than what is judged decides nothing: the newest line before it does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from featurelib.audit.cluster_view import ClusterView, Inputs
from featurelib.audit.columns import SKEW
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.errors import NoEvidenceError
from featurelib.landing import Landing, read
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan
from featurelib.snapshot import ClusterState, fold_lines, snapshot_rows
from featurelib.snapshot.state import freeze
from tests.core.lines import codes, findings, readiness
from tests.facts import first_fact
from tests.report.samples import CATALOGUE, SAMPLES
from tests.seeing import see

DAY = 24 * 3_600_000_000
LINES = (SAMPLES / "k41-forgotten" / "landing.jsonl").read_bytes().splitlines()
ID = "4Imaql6QRMyinfQbQ1eyVA"
TIME = re.compile(rb'"observed_at":"([^"]+)"')
NEWEST = int(datetime(2026, 11, 21, 5, 44, 34, tzinfo=UTC).timestamp() * 1_000_000)


def moved(lines: Sequence[bytes], by: timedelta) -> list[bytes]:
    """The lines as a collector wrote them whose clock was `by` ahead."""

    def ahead(found: re.Match[bytes]) -> bytes:
        moment = datetime.fromisoformat(found[1].decode()) + by
        return b'"observed_at":"%s"' % moment.isoformat().replace("+00:00", "Z").encode()

    return [TIME.sub(ahead, line) for line in lines]


def rolled_back(lines: Sequence[bytes]) -> list[bytes]:
    """The same cluster after its software was rolled back to 4.0: metadata.version up to 25."""
    wire = [line for line in lines if b'"kind":"metadata_log"' not in line]
    return [line.replace(b'"max_version":27', b'"max_version":25') for line in wire]


def view(lines: Sequence[bytes], as_of: int | None) -> ClusterView:
    owner = FleetEntry(id=ID, release="4.0", registrations_complete=True)
    fleet = Fleet(cluster=(owner,))
    return see(lines, catalogue=CATALOGUE, as_of=as_of, max_age=3 * DAY, fleet=fleet)


def target(seen: ClusterView) -> tuple[str, int | None]:
    row = readiness(seen.judged, "metadata.version")
    return row["verdict"], row["target"]


def found(seen: ClusterView) -> set[str]:
    return codes(seen.judged)


@pytest.mark.parametrize("ahead", [timedelta(hours=48), timedelta(days=366)])
def test_lines_of_a_clock_that_is_ahead_do_not_outweigh_what_was_seen_after_them(
    ahead: timedelta,
) -> None:
    wrong = moved([line for line in LINES if b'"kind":"metadata_log"' not in line], ahead)
    right = moved(rolled_back(LINES), timedelta(hours=1))
    now = NEWEST + 3 * 3_600_000_000
    for lines in (wrong + right, right + wrong, right + wrong + right):
        seen = view(lines, now)
        assert target(seen) == target(view(right, now))
        assert target(seen)[1] in (None, 7, 25)
        [row] = findings(seen.judged, "evidence_from_the_future")
        assert first_fact(row).startswith(f"{len(wrong)} lines, the latest dated 202")
        assert row["line_id"] is not None
        planned = make_plan(
            seen, Intent(command=Command.UPGRADE, up={"metadata.version": "27"}), CATALOGUE
        )
        assert planned.plan is None
    # Its time has come: the same lines count, as the newest there are.
    later = now + int(ahead.total_seconds()) * 1_000_000
    assert "evidence_from_the_future" not in found(view(right + wrong, later))
    assert view(right + wrong, later).newest > now


def test_a_few_minutes_are_the_difference_of_two_clocks() -> None:
    at = view(LINES, None).newest
    assert "evidence_from_the_future" not in found(view(LINES, at - SKEW))
    assert target(view(LINES, at - SKEW)) == target(view(LINES, None))
    late = view([*LINES, *moved(LINES[:1], timedelta(minutes=6))], at)
    [row] = findings(late.judged, "evidence_from_the_future")
    assert first_fact(row) == "1 line, the latest dated 2026-11-21T05:50:33Z"


def test_what_is_judged_as_of_a_time_past_is_judged_by_the_lines_before_it() -> None:
    after = moved(rolled_back(LINES), timedelta(days=2))
    for lines in (LINES + after, after + LINES):
        assert target(view(lines, NEWEST)) == target(view(LINES, NEWEST))
    with pytest.raises(
        NoEvidenceError, match=r"All lines are later than .*so all features are unknown"
    ):
        view(after, NEWEST)


def test_a_stored_row_that_holds_the_future_is_never_ready() -> None:
    accepted = list(map(read, moved(LINES, timedelta(hours=48))))
    rows: list[tuple[str, ClusterState]] = []
    rows.append((ID, fold_lines([(one, i) for i, one in enumerate(accepted, 1)], CATALOGUE)))  # type: ignore[misc]
    seen = Inputs(catalogue=CATALOGUE, as_of=NEWEST, max_age=3 * DAY).see(snapshot_rows(rows))
    assert target(seen)[0] == "UNKNOWN"
    assert {"evidence_too_new", "levels_too_new"} <= found(seen)
    assert "too_old" not in " ".join(found(seen))


def test_waiting_lines_change_nothing_of_what_is_remembered_but_that_they_wait() -> None:
    lines = [(line, i) for i, line in enumerate(map(read, LINES), 1) if isinstance(line, Landing)]
    late = [
        (line, i)
        for i, line in enumerate(map(read, moved(LINES, timedelta(days=9))), 1000)
        if isinstance(line, Landing)
    ]
    alone, both = fold_lines(lines, CATALOGUE), fold_lines(lines + late, CATALOGUE, NEWEST)
    assert both.waiting[2] == len(late)
    both.waiting = (0, 0, 0)
    assert freeze(both) == freeze(alone)
