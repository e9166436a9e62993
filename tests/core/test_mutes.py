"""A mute sets findings aside until the end of its last day, and never touches a verdict."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions
from featurelib.audit.findings import EXPIRED, InForce, Mute
from featurelib.feature import Severity
from tests.core.lines import findings, rows_of
from tests.facts import first_fact
from tests.report.samples import CATALOGUE, DIALECT, HOURS_72, judge_samples, read_samples

SECOND = 1_000_000
LAST = date(2026, 11, 21)
END = int(datetime(2026, 11, 22, tzinfo=UTC).timestamp()) * SECOND
GHOST = "h0FOOR_sRsiOiKHch7mH4w"  # its broker 2 is in the way
OLD = "FYa0JPRVQRujyRf-fMD2SQ"  # one of its nodes is in the way of six features


def mute(code: str = "unsupported_by_node", **more: Any) -> Mute:
    return Mute(**{"code": code, "reason": "the disk is replaced", "until": LAST, **more})


def judged(*mutes: Mute, as_of: int = END - 1, **more: Any) -> Judged:
    samples = read_samples()
    conditions = Conditions(as_of=as_of, max_age=HOURS_72, mutes=mutes)
    return judge(samples.batch, conditions, CATALOGUE, DIALECT, **more)


def muted(said: Judged) -> list[dict[str, Any]]:
    return [row for row in findings(said) if row["muted"] is not None]


def rows(said: Judged, code: str, cluster: str = GHOST) -> list[dict[str, Any]]:
    return findings(said, code, cluster=cluster)


def test_a_mute_adds_its_reason_and_its_last_day_and_changes_nothing_else() -> None:
    assert muted(judge_samples()) == []
    plain, said = judged(), judged(mute(cluster=GHOST))
    found = muted(said)
    assert {row["code"] for row in found} == {"unsupported_by_node"}
    assert {row["cluster"] for row in found} == {GHOST}
    assert {(row["muted"], row["muted_until"]) for row in found} == {("the disk is replaced", LAST)}
    unmuted = {"muted": None, "muted_until": None}
    assert [row | unmuted for row in findings(said)] == findings(plain)
    for part in ("incompatible", "readiness", "plans"):
        assert rows_of(said, part) == rows_of(plain, part)


@pytest.mark.parametrize(
    ("narrow", "left"),
    [
        ({"feature": "metadata.version"}, {"metadata.version"}),
        ({"node": 3, "feature": "metadata.version"}, {"metadata.version"}),
        ({"node": 99}, set()),
        ({"feature": "no.such"}, set()),
        ({"cluster": "elsewhere"}, set()),
    ],
)
def test_a_mute_is_about_its_cluster_feature_and_node_only(
    narrow: dict[str, Any], left: set[str]
) -> None:
    found = muted(judged(mute(**{"cluster": OLD, **narrow})))
    assert {row["feature"] for row in found} == left
    assert {row["cluster"] for row in found} <= {OLD}
    more = rows(judged(), "unsupported_by_node", OLD)
    assert len({row["feature"] for row in more}) > 1


def test_a_mute_of_a_feature_leaves_findings_without_one_alone() -> None:
    assert muted(judged(mute("ghost_broker", feature="metadata.version"))) == []
    assert len(muted(judged(mute("ghost_broker", node=2, cluster=GHOST)))) == 1


def test_a_mute_holds_to_the_end_of_its_last_day_as_of_which_is_judged() -> None:
    assert muted(judged(mute(cluster=GHOST), as_of=END - 1))
    assert rows(judged(mute(cluster=GHOST), as_of=END - 1), EXPIRED) == []
    late = judged(mute(cluster=GHOST), as_of=END)
    assert muted(late) == []
    [spoken] = rows(late, EXPIRED)
    assert spoken["severity"] == "warning"
    assert first_fact(spoken) == "unsupported_by_node, until 2026-11-21 (the disk is replaced)"


def test_all_mutes_that_ran_out_in_a_cluster_are_one_finding_there() -> None:
    late = judged(mute(), mute("ghost_broker", node=2, reason="known"), as_of=END)
    [spoken] = rows(late, EXPIRED)
    assert "unsupported_by_node" in first_fact(spoken)
    assert "; ghost_broker, until 2026-11-21 (known)" in first_fact(spoken)
    told = [row["cluster"] for row in findings(late, EXPIRED)]
    assert len(told) == len(set(told)) > 1


def test_a_mute_that_ran_out_is_no_finding_where_it_meets_nothing_or_a_newer_one_holds() -> None:
    assert rows(judged(mute("system_off", cluster=GHOST), as_of=END), EXPIRED) == []
    newer = mute(cluster=GHOST, reason="longer", until=LAST + timedelta(days=1))
    said = judged(mute(cluster=GHOST), newer, as_of=END)
    assert rows(said, EXPIRED) == []
    assert {row["muted"] for row in muted(said)} == {"longer"}


@pytest.mark.parametrize("turn", [1, -1])
def test_of_several_mutes_the_one_that_runs_out_last_counts(turn: int) -> None:
    both = [mute(), mute(cluster=GHOST, reason="longer", until=LAST + timedelta(days=1))][::turn]
    found = [row for row in muted(judged(*both)) if row["cluster"] == GHOST]
    assert {row["muted"] for row in found} == {"longer"}


def test_how_severe_it_is_that_a_mute_ran_out_can_be_said() -> None:
    late = judged(mute(), as_of=END, severities={EXPIRED: Severity.CRITICAL})
    assert rows(late, EXPIRED)[0]["severity"] == "critical"


def test_one_finding_asked_about_is_muted_as_its_row_in_the_tables_is() -> None:
    mutes = (
        mute(cluster=GHOST, reason="short", until=date(2026, 11, 22)),
        mute(cluster=GHOST, reason="long", until=date(2026, 12, 31)),
        mute("ghost_broker", node=2),
        mute(cluster=OLD, node=3, feature="group.version"),
        mute("controller_vouched"),
        mute("ghost_broker", reason="over", until=date(2026, 11, 1)),
    )
    said = judged(*mutes)
    assert len(muted(said)) == 3
    for row in findings(said):
        hold = InForce(mutes=mutes, cluster=row["cluster"], as_of=END - 1)
        about = {name: row[name] for name in ("role", "node_id", "feature")}
        found = hold.over(row["code"], **about)
        told = (None, None) if found is None else (found.muted, found.muted_until)
        assert told == (row["muted"], row["muted_until"]), row
