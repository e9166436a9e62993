"""Who could what when, levels by epoch, and what went back."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from featurelib.controller.holder import myself
from featurelib.controller.journal import Journal, JournalEntry, Settlement
from featurelib.core.outcome import Fate, MoveOutcome, StepOutcome
from featurelib.errors import NoEvidenceError
from featurelib.extras.history.timeline import Timeline, find_senders, read_timeline, timeline
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION
from featurelib.lake import Lake
from featurelib.schema import FINDING
from tests.cli.commands import run
from tests.controller.test_journal import STEP, UPDATE, intent
from tests.questions.nights import NAMES, view
from tests.report.samples import read_samples
from tests.rows import make

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NEW = {METADATA_VERSION: (7, 29), "group.version": (0, 1)}
OLD = {METADATA_VERSION: (7, 25), "group.version": (0, 1)}


def says(node: int, minute: int, ranges: dict[str, tuple[int, int]], **more: Any) -> list[Any]:
    at = NOON + timedelta(minutes=minute)
    row = {"observed_at": at, "line_id": node * 1000 + minute, "role": "broker"}
    row |= {"node_id": node, "epoch": minute, **more}
    ends = ranges.items() or ((None, (None, None)),)
    return [row | {"feature": n, "min_version": a, "max_version": b} for n, (a, b) in ends]


def levels(minute: int, epoch: int, witness: str = "broker", **values: int) -> list[Any]:
    row = {"cluster": "c", "observed_at": NOON + timedelta(minutes=minute), "line_id": minute}
    row |= {"role": witness, "node_id": 1, "epoch": epoch}
    return [row | {"feature": name, "level": level} for name, level in values.items()]


def of(*rows: list[Any], finalized: list[Any] | None = None) -> Timeline:
    return timeline("c", [row for some in rows for row in some], finalized or [])


def test_nodes_that_change_alike_stand_in_one_row() -> None:
    brokers = range(1, 51)
    found = of(*(says(n, 0, OLD) for n in brokers), *(says(n, n, NEW) for n in brokers))
    first, rolled = found.ranges
    assert first.first
    assert rolled.node_ids == first.node_ids == tuple(brokers)
    assert rolled.changes == ((METADATA_VERSION, (7, 25), (7, 29)),)
    assert rolled.until - rolled.since == timedelta(minutes=49)
    assert (rolled.shrank, found.regressions) == ((), 0)


def test_what_a_broker_leaves_out_at_the_features_node_s_epoch_did_not_go_back() -> None:
    node = levels(0, 4, "features_node", f=2, g=3)
    found = of(finalized=[*node, *levels(1, 4, f=2), *levels(2, 4, "features_node", f=2, g=3)])
    assert (len(found.levels), found.regressions) == (1, 0)


def test_a_broker_behind_the_others_in_one_reading_did_not_go_back() -> None:
    """kraft.version was raised while they were asked: one says 0 at the same epoch (4.2.1)."""
    before, after = {"f": 1}, {"f": 1, KRAFT_VERSION: 1}
    looks = [levels(0, 4, **before), levels(40, 9, **after), levels(41, 9, **before)]
    found = of(finalized=[row for look in (*looks, levels(42, 9, **after)) for row in look])
    assert [one.changes for one in found.levels] == [(("f", 0, 1),), ((KRAFT_VERSION, 0, 1),)]
    assert found.regressions == 0


def test_what_controllers_said_before_any_broker_ran_as_kraft_s_is_the_first_that_was_read() -> (
    None
):
    """A migration: brokers in ZooKeeper mode know no level, in the last look broker 1 does."""
    empty = [row | {"feature": None, "level": None} for row in levels(2, 0, "features_node", f=1)]
    behind = [row | {"observed_at": NOON + timedelta(minutes=61)} for row in empty]
    looks = [levels(1, 700, "controller", f=1), levels(60, 800, "controller", f=2)]
    found = of(finalized=[*empty, *looks[0], *looks[1], *behind, *levels(61, 30, f=2)])
    first, raised = found.levels
    assert (first.at, first.changes) == (NOON + timedelta(minutes=1), (("f", 0, 1),))
    assert (raised.at, raised.epoch) == (NOON + timedelta(minutes=61), 30)
    assert found.regressions == 0


def test_a_range_that_ends_lower_and_a_feature_that_is_gone_went_back() -> None:
    found = of(says(1, 0, NEW), says(1, 1, OLD), says(2, 0, NEW), says(2, 1, {"x": (1, 1)}))
    shrunk = {change.node_ids: change.shrank for change in found.ranges if not change.first}
    assert shrunk == {(1,): (METADATA_VERSION,), (2,): ("group.version", METADATA_VERSION)}
    assert found.regressions == 2


def test_a_range_that_begins_higher_is_newer_software() -> None:
    found = of(says(1, 0, {METADATA_VERSION: (1, 21)}), says(1, 1, {METADATA_VERSION: (7, 25)}))
    assert found.regressions == 0
    assert found.ranges[1].changes == ((METADATA_VERSION, (1, 21), (7, 25)),)


def test_an_answer_that_leaves_out_what_begins_at_0_says_nothing_new() -> None:
    partial = {METADATA_VERSION: (7, 29)}
    assert len(of(says(1, 0, NEW), says(1, 1, partial), says(1, 2, NEW)).ranges) == 1


def test_the_log_tells_only_what_the_nodes_did_not() -> None:
    log = {"role": "metadata_log"}
    told = of(says(1, 0, OLD), says(1, 5, NEW), says(1, 9, OLD, **log, line_id=1))
    assert len(told.ranges) == 2
    dump = [*says(2, 9, OLD, **log, line_id=2)]
    dump += [row | {"epoch": 40} for row in says(2, 9, NEW, **log, line_id=3)]
    assert [change.first for change in of(dump).ranges] == [True, False]


def test_what_a_broker_registers_and_what_it_answers_are_two_words() -> None:
    """Below protocol version 2.7 it registers nothing, whatever its software supports."""
    able, kept = {"f": (1, 3)}, {"role": "registration", "epoch": None}
    rows = [says(n, 2 * i, {} if n == 1 else able, **kept) for n in (1, 2) for i in range(3)]
    rows += [says(n, 2 * i + 1, able) for n in (1, 2) for i in range(3)]
    found = of(*rows)
    assert [(one.who, one.first) for one in found.ranges] == [
        ("registration of broker 1", True),
        ("brokers 1-2", True),
    ]
    assert found.regressions == 0
    back = of(*rows, says(2, 9, {}, **kept)).ranges[-1]
    assert (back.who, back.shrank) == ("registration of broker 2", ("f",))


def test_levels_and_epochs_that_went_back_are_counted() -> None:
    up, down = levels(0, 10, f=3), levels(1, 20, f=2)
    found = of(finalized=[*up, *down, *levels(2, 15, f=2)])
    assert [one.went_down for one in found.levels if one.went_down] != []
    assert [(one.before, one.after) for one in found.epochs] == [(20, 15)]
    assert of(finalized=[*up, *levels(5, 20, f=4)]).regressions == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_s_timeline_ends_where_its_snapshot_is(tables: Path, name: str) -> None:
    one = view(name)
    found = read_timeline(Lake(str(tables)), one.cluster_id)
    state: dict[str, int] = {}
    for change in found.levels:
        for feature, before, after in change.changes:
            assert state.get(feature, 0) == before
            state[feature] = after
    known = {n: level for n, (_, level) in one.cluster.finalized.items() if n != "kraft.version"}
    told = {n: level for n, level in state.items() if level and n != "kraft.version"}
    # What a node says of itself below 3.3, or a damaged node, no history can tell.
    if name not in ("zk-282-disabled", "zk-392-many"):
        assert told == known
    assert found.epochs == ()


def test_a_cluster_of_which_nothing_answered_is_told(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tables))
    some = lake.clusters()[0]
    monkeypatch.setattr(lake, "history", lambda *_: make([], FINDING))
    with pytest.raises(
        NoEvidenceError, match="no response of this cluster was collected up to run"
    ):
        read_timeline(lake, some)


def asked(hour: float, feature: str, level: int, fate: Fate, cluster: str = "c") -> JournalEntry:
    """A request that was sent so many hours after noon, and what became of it."""
    update = replace(UPDATE, feature=feature, to_level=level)
    sent = (NOON + timedelta(hours=hour)).timestamp()
    made = intent(
        cluster=cluster, at=sent, step=replace(STEP, updates=(update,)), approved_by="bob"
    )
    one = MoveOutcome(update=update, fate=fate, code=0, message=None, level=level)
    result = StepOutcome(position=0, updates=(one,), asked=1)
    settled = Settlement(result=result, by="apply", who=made.who, at=sent)
    return JournalEntry(number=int(hour * 10), intent=made, outcomes=(settled,))


def test_a_level_has_who_sent_it_by_cluster_feature_level_and_time() -> None:
    hours = [
        levels(60 * hour, hour, f=level) for hour, level in ((0, 1), (10, 2), (20, 1), (30, 2))
    ]
    found = of(finalized=[row for rows in hours for row in rows])
    entries = [
        asked(1, "f", 2, Fate.REJECTED),
        asked(2, "f", 2, Fate.APPLIED),
        asked(3, "g", 2, Fate.APPLIED),
        asked(4, "f", 3, Fate.APPLIED),
        asked(24, "f", 2, Fate.APPLIED),
        asked(25, "f", 2, Fate.APPLIED),
        asked(26, "f", 2, Fate.UNKNOWN),
        asked(35, "f", 2, Fate.APPLIED),
    ]
    sent = find_senders(found.levels, entries)
    assert [(one.at - NOON, one.feature, one.entry) for one in sent] == [
        (timedelta(hours=10), "f", 20),
        (timedelta(hours=30), "f", 250),
    ]
    assert (sent[0].user, sent[0].approved_by) == (entries[0].intent.who.user, "bob")
    # The clocks of who sent and of who read may differ by five minutes.
    for hour, known in ((10.05, True), (10.2, False)):
        assert bool(find_senders(found.levels[:2], [asked(hour, "f", 2, Fate.APPLIED)])) == known


def test_a_level_is_matched_in_one_dump_of_the_log_too() -> None:
    rows = [levels(600, epoch, "metadata_log", f=level) for epoch, level in ((1, 1), (2, 2))]
    found = of(finalized=[row for some in rows for row in some])
    assert [one.epoch for one in found.levels] == [1, 2]
    [sent] = find_senders(found.levels, [asked(2, "f", 2, Fate.APPLIED)])
    assert sent.entry == 20


def test_the_command_names_who_sent_and_says_what_its_journal_does_not_know(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    [[cluster, _]] = [one for one in read_samples().names.items() if one[1] == "ghost-broker"]
    path, words = tmp_path / "journal", ("history", cluster, "--tables", str(tables), "--journal")
    with closing(Journal(path)) as journal, journal.lock(cluster, "x", seconds=60) as lock:
        for where in (cluster, "c"):
            entry = asked(-240, "group.version", 1, Fate.APPLIED, where)
            journal.settle(journal.intend(lock, entry.intent), entry.outcomes[0])
    code, out, _ = run(*words, str(path))
    who = myself("x")
    [known] = [line for line in out.splitlines() if "group.version 0 (not finalized)" in line]
    assert f"  {who.user} (entry 1)  group.version" in known
    assert code == 0
    assert out.count("(entry ") == 1
    assert "not known: " in out
    assert " has no request that wrote it" in " ".join(out.split())
    [sent] = json.loads(run(*words, str(path), "--json")[1])["sent"]
    assert (sent["entry"], sent["user"], sent["approved_by"]) == (1, who.user, "bob")
    (tmp_path / "none").write_text("no journal at all, and longer than the head of one " * 9)
    code, out, said = run(*words, str(tmp_path / "none"))
    assert code == 0
    assert "this machine has no journal that could be looked into" in out
    assert "is not a journal, or it is damaged" in said
    assert not (tmp_path / "missing").exists()
    assert run(*words, str(tmp_path / "missing"))[0] == 0
    assert not (tmp_path / "missing").exists()
