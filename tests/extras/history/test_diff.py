"""Two nights against each other: new, resolved, unchanged, incomparable."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from featurelib.errors import ConfigError
from featurelib.extras.history.comparison import Diff, State, Why, diff
from featurelib.extras.history.page import diff_page
from featurelib.feature import Severity
from featurelib.lake import Lake, night_before
from tests.questions.nights import write_night
from tests.report.samples import CATALOGUE, read_samples
from tests.report.tables import finding, judged, plan
from tests.rows import some

ONE, TWO = 20261120080000, 20261121080000
Row = dict[str, Any]


def nights(
    root: Path,
    before: tuple[list[Row], list[Row]],
    after: tuple[list[Row], list[Row]],
    readiness: tuple[list[Row], list[Row]] = ([], []),
    **about: Any,
) -> Diff:
    """Two nights of (plans, findings) each; `about` are columns of the second one's audit_run."""
    batch = some(read_samples().batch, 0)
    write_night(root, ONE, batch, judged(*before, readiness=readiness[0]))
    write_night(root, TWO, batch, judged(*after, readiness=readiness[1]), **about)
    return diff(Lake(str(root)), ONE, TWO)


def row(cluster: str, feature: str, verdict: str, **more: Any) -> Row:
    return {"cluster": cluster, "feature": feature, "verdict": verdict, **more}


def ghost(cluster: str, node: int) -> Row:
    return finding(cluster, "ghost_broker", "warning", role="broker", node_id=node)


def blocker(cluster: str, node: int, feature: str = "f", **more: Any) -> Row:
    return finding(
        cluster, "unsupported_by_node", "blocker", role="broker", node_id=node, feature=feature,
        level=2, **more,
    )  # fmt: skip


def test_a_finding_about_another_level_or_time_is_the_same_finding(tmp_path: Path) -> None:
    other = blocker("a", 1) | {"level": 3, "min_version": 1, "max_version": 2}
    found = nights(
        tmp_path,
        ([plan("a", "BLOCKED")], [blocker("a", 1)]),
        ([plan("a", "BLOCKED")], [other]),
    )
    assert (found.clusters, found.counts[State.UNCHANGED]) == ((), 1)


def test_a_cluster_judged_in_one_night_only_is_incomparable(tmp_path: Path) -> None:
    found = nights(
        tmp_path,
        ([plan("a", "BLOCKED"), plan("b", "READY")], [blocker("a", 1)]),
        ([plan("b", "READY"), plan("c", "READY")], [ghost("c", 1)]),
    )
    why = {one.cluster: [row["why"] for row in one.incomparable] for one in found.clusters}
    assert why == {"a": [Why.NOT_JUDGED], "c": [Why.NOT_JUDGED]}
    assert [(one.before, one.after) for one in found.clusters] == [
        ("BLOCKED", None),
        (None, "READY"),
    ]


def test_silence_over_unknown_evidence_resolves_nothing(tmp_path: Path) -> None:
    """The feature's own verdict counts; what is wrong with the evidence itself is comparable."""
    silent = finding("a", "node_not_answering", "unknown", role="broker", node_id=1)
    found = nights(
        tmp_path,
        ([plan("a", "BLOCKED")], [blocker("a", 1), blocker("a", 1, "g"), ghost("a", 2)]),
        ([plan("a", "UNKNOWN")], [silent]),
        ([], [row("a", "f", "UNKNOWN"), row("a", "g", "UP_TO_DATE")]),
    )
    [one] = found.clusters
    assert [(r["feature"], r["why"]) for r in one.incomparable] == [
        ("f", Why.UNKNOWN),
        (None, Why.UNKNOWN),
    ]
    assert [r["feature"] for r in one.resolved] == ["g"]
    assert [r["code"] for r in one.new] == ["node_not_answering"]


def test_a_blocker_is_not_resolved_where_nobody_answers_or_aims_lower(tmp_path: Path) -> None:
    """A feature nobody lists any more, as its only node is silent, and one whose newest software
    went away: both got worse, and neither blocker was fixed. New software may bring a blocker."""
    low, high = row("b", "f", "BLOCKED", ceiling=1), row("b", "f", "BLOCKED", ceiling=2)
    for name, before, after in (("down", high, low), ("up", low, high)):
        found = nights(
            tmp_path / name,
            ([plan("a", "BLOCKED"), plan("b", "BLOCKED")], [blocker("a", 1), blocker("b", 1)][:2]),
            ([plan("a", "UNKNOWN"), plan("b", "BLOCKED")], [blocker("b", 2)]),
            ([row("a", "f", "BLOCKED", ceiling=2), before], [after]),
        )
        why = {one.cluster: [r["why"] for r in one.incomparable] for one in found.clusters}
        assert why == {"a": [Why.UNKNOWN], "b": [Why.NO_SUCH_LEVEL] if name == "down" else []}
        assert [[r["node_id"] for r in one.new] for one in found.clusters] == [[], [2]]


def test_a_level_that_moved_is_a_difference_where_both_nights_knew_it(tmp_path: Path) -> None:
    def levels(cluster: str, **of: int | None) -> list[Row]:
        return [row(cluster, n, "UP_TO_DATE", finalized_level=at) for n, at in of.items()]

    plans = [plan(name, "UP_TO_DATE") for name in "abcd"]
    before = levels("a", f=0, g=3) + levels("b", f=1) + levels("c", f=None) + levels("d", f=1)
    after = levels("a", f=1, h=2) + levels("b", f=1) + levels("c", f=1) + levels("d", f=None)
    found = nights(tmp_path, (plans, []), (plans, []), (before, after))
    [one] = found.clusters
    moved = [(level.feature, level.before, level.after) for level in one.levels]
    assert (one.cluster, moved) == ("a", [("f", 0, 1), ("g", 3, 0), ("h", 0, 2)])
    said = [line for line in diff_page(found, CATALOGUE, 0) if "→" in line]
    assert ["WENT DOWN" in line for line in said[1:]] == [False, True, False]
    assert (found.same, found.new_at_least(Severity.INFO)) == (3, 0)


def test_a_ceiling_that_fell_while_the_level_stayed_is_software_that_went_back(
    tmp_path: Path,
) -> None:
    """`back` was rolled back; `done` was finalized, `down` lowered, and of `dark` nobody knows."""

    def night(ends: dict[str, tuple[str, int, int]]) -> list[Row]:
        return [
            row(name, "metadata.version", verdict, finalized_level=level, ceiling=ceiling)
            for name, (verdict, level, ceiling) in ends.items()
        ]

    ready, done = ("READY", 25, 27), ("UP_TO_DATE", 27, 27)
    before = dict.fromkeys(("back", "dark", "done"), ready) | {"down": done}
    after = {
        "back": ("UP_TO_DATE", 25, 25),
        "dark": ("UNKNOWN", 25, 25),
        "done": done,
        "down": ("UP_TO_DATE", 25, 25),
    }
    found = nights(
        tmp_path,
        ([plan(name, ends[0]) for name, ends in before.items()], []),
        ([plan(name, ends[0]) for name, ends in after.items()], []),
        readiness=(night(before), night(after)),
    )
    assert {one.cluster: one.ceilings for one in found.clusters} == {
        "back": (("metadata.version", 27, 25),),
        "dark": (),
        "done": (),
        "down": (),
    }
    text = str(diff_page(found, CATALOGUE, 0, width=120))
    assert text.count("software was rolled back") == 1
    assert (
        "back: READY → UP_TO_DATE\n"
        "  software was rolled back: the maximum metadata.version fell from 27 (4.1-IV1) to "
        "25 (4.0-IV3)\n"
    ) in text


def test_a_blocker_is_not_resolved_where_the_level_was_finalized_all_the_same(
    tmp_path: Path,
) -> None:
    misfit = finding(
        "a", "incompatible_with_finalized", "critical", role="broker", node_id=1, feature="f"
    )
    was, now = (
        row("a", "f", verdict, finalized_level=at)
        for verdict, at in (("BLOCKED", 1), ("UP_TO_DATE", 2))
    )
    found = nights(
        tmp_path,
        ([plan("a", "BLOCKED")], [blocker("a", 1), blocker("a", 2)]),
        ([plan("a", "UP_TO_DATE")], [misfit]),
        ([was], [now]),
    )
    [one] = found.clusters
    assert [(r["node_id"], r["why"]) for r in one.incomparable] == [(1, Why.FINALIZED)]
    assert [r["node_id"] for r in one.resolved] == [2]
    assert (one.critical, [level.unfit for level in one.levels]) == (True, [("broker 1",)])


def test_what_nobody_knows_is_comparable_though_both_nights_are_unknown(tmp_path: Path) -> None:
    def silent(node: int) -> Row:
        return finding("a", "node_not_answering", "unknown", role="broker", node_id=node)

    known = [row("a", "f", "UNKNOWN")]
    found = nights(
        tmp_path,
        ([plan("a", "UNKNOWN")], [silent(1)]),
        ([plan("a", "UNKNOWN")], [silent(2)]),
        (known, known),
    )
    [one] = found.clusters
    assert ([r["node_id"] for r in one.new], [r["node_id"] for r in one.resolved]) == ([2], [1])
    assert night_before(Lake(str(tmp_path)).read, TWO)[3] == {("a", "broker", 1)}


@pytest.mark.parametrize("other", [{"catalogue": "2030-01-01"}, {"dialect": "kip"}])
def test_nights_judged_otherwise_are_incomparable(tmp_path: Path, other: dict[str, str]) -> None:
    found = nights(
        tmp_path,
        ([plan("a", "BLOCKED")], [blocker("a", 1)]),
        ([plan("a", "BLOCKED")], [blocker("a", 2)]),
        **other,
    )
    assert not found.judged_alike
    assert found.counts[State.INCOMPARABLE] == 2
    assert {row["why"] for row in found.clusters[0].incomparable} == {Why.JUDGED_OTHERWISE}


@pytest.mark.parametrize(("other", "known"), [({}, [9]), ({"catalogue": "2030-01-01"}, [None])])
def test_how_far_levels_could_go_is_held_against_a_night_that_was_judged_alike(
    tmp_path: Path, other: dict[str, str], known: list[int | None]
) -> None:
    before = [row("a", "f", "READY", finalized_level=1, ceiling=9)]
    nights(tmp_path, ([plan("a", "READY")], []), ([plan("a", "READY")], []), (before, []), **other)
    levels = night_before(Lake(str(tmp_path)).read, TWO)[2]
    assert [one["ceiling"] for one in levels] == known


def test_only_what_is_new_that_severe_and_not_muted_fails(tmp_path: Path) -> None:
    muted = blocker("a", 3, muted="planned for May")
    found = nights(
        tmp_path,
        ([plan("a", "READY")], []),
        ([plan("a", "READY")], [ghost("a", 1), muted]),
    )
    assert found.counts[State.NEW] == 2
    counts = [found.new_at_least(severity) for severity in Severity]
    assert counts == [0, 0, 0, 1, 1]


def test_a_night_against_itself_has_no_difference(tmp_path: Path) -> None:
    write_night(tmp_path, ONE, read_samples().batch)
    found = diff(Lake(str(tmp_path)), ONE, ONE)
    assert (found.clusters, found.same) == ((), 26)
    with pytest.raises(ConfigError, match="--run 7: None of the 1 runs"):
        diff(Lake(str(tmp_path)), ONE, 7)


def test_a_cluster_that_fell_silent_is_a_difference_though_its_evidence_still_counts(
    tmp_path: Path,
) -> None:
    def at(day: int, hour: int) -> datetime:
        return datetime(2026, 11, day, hour, tzinfo=UTC)

    def night(**lines: datetime) -> tuple[list[Row], list[Row]]:
        return [plan(name, "READY", newest_line=line) for name, line in lines.items()], []

    found = nights(
        tmp_path,
        night(a=at(20, 6), b=at(20, 6), c=at(18, 6), d=at(20, 6)),
        night(a=at(20, 6), b=at(20, 11), c=at(18, 6), d=at(21, 6)),
    )
    [one] = found.clusters  # b is not late yet, and c was silent in both nights
    assert (one.cluster, found.same, one.silent_since) == ("a", 3, at(20, 6))
    said = list(diff_page(found, CATALOGUE, 0))
    assert "  no usable data was collected since 2026-11-20 06:00 UTC" in said
    # A mute of what is too old sets that aside, as it does in the report.
    old = finding("a", "levels_too_old", "unknown")
    for muted, silent in ((None, ["a"]), ("its site moves", [])):
        rows, _ = night(a=at(20, 6), d=at(21, 6))
        then = night(a=at(20, 6), d=at(20, 6))
        folder = tmp_path / str(muted)
        found = nights(folder, then, (rows, [{**old, "muted": muted}]))
        assert [one.cluster for one in found.clusters if one.silent_since] == silent
