"""The Python API: what is refused before it is sent, and whole ways through embedded clusters."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import featurelib
from featurelib import (
    FeatureUpdate,
    RequestedLevels,
    UpgradeType,
    apply,
    approve,
    can_roll,
    connect,
    describe_features,
    open_tables,
    plan,
    range_plot,
    update_features,
    what_if,
    why_not,
)
from featurelib.api.clusters import Live
from featurelib.catalogue import load
from featurelib.controller.journal import Journal
from featurelib.controller.send import Waits
from featurelib.core.cluster import Cluster
from featurelib.core.outcome import Fate
from featurelib.core.reply import Reply
from featurelib.errors import (
    ApprovalError,
    ConfigError,
    NoEvidenceError,
    OutcomeUnknownError,
    RefusedError,
    RejectedError,
    StalePlanError,
    UnreachableError,
)
from featurelib.extras.history import diff, history
from featurelib.extras.sandbox import sandbox
from featurelib.extras.sandbox.backend import EmbeddedBackend
from featurelib.planning import files
from featurelib.questions.why_not import LevelStatus as Verdict
from featurelib.source import Chosen, Wanted
from tests.backends.clusters import KRAFT, TABLES, ZK
from tests.backends.simulator import Simulated
from tests.core.lines import AS_OF, snapshot, strimzi_line
from tests.questions.nights import RUN, lines_of, without, write_histories, write_night
from tests.report.samples import SAMPLES, read_samples

DOWN = UpgradeType.SAFE_DOWNGRADE
METADATA = "metadata.version"
GROUP = "group.version"
BEFORE = RUN - 1_000_000  # the night before
GHOST = "h0FOOR_sRsiOiKHch7mH4w"


def live(folder: Path, cluster: Cluster = KRAFT, mode: str = "kraft") -> Live:
    """A sandbox cluster of two controllers and two brokers, or of one ZooKeeper-mode broker."""
    path = folder / "cluster.db"
    with Simulated(str(path), TABLES, mode=mode, cluster_id="c-1") as made:
        made.put(cluster, 9)
    return connect(file=str(path), fleet=no_fleet(folder))


def no_fleet(folder: Path, text: str = "") -> str:
    path = folder / "fleet.toml"
    path.write_text(text)
    return str(path)


def journal(folder: Path) -> str:
    return str(folder / "journal.sqlite")


def sent(folder: Path) -> list[str]:
    """What the journal knows last of every request."""
    opened = Journal(Path(journal(folder)))
    try:
        return [entry.fate.value for entry in opened.entries()]
    finally:
        opened.close()


def levels(cluster: Live) -> dict[str, int]:
    found = describe_features(cluster).finalized
    assert found is not None
    return {name: level.max_version_level for name, level in found.items()}


def test_importing_the_package_alone_imports_nothing() -> None:
    code = (
        "import sys, featurelib\n"
        "ours = [name for name in sys.modules if name.startswith('featurelib.')]\n"
        "print(ours, 'numpy' in sys.modules, set(featurelib.__all__) - set(dir(featurelib)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False set()"


def test_everything_that_is_handed_on_is_there_and_documented() -> None:
    for name in featurelib.__all__:
        found = getattr(featurelib, name)
        assert found.__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'upgrade_features'"):
        _ = featurelib.upgrade_features  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("level", "kind", "why"),
    [
        (0, UpgradeType.UPGRADE, "expected SAFE_DOWNGRADE or UNSAFE_DOWNGRADE for level 0"),
        (-1, UpgradeType.SAFE_DOWNGRADE, "expected a level of 0 to 32767, found -1"),
        (-1, UpgradeType.UPGRADE, "expected a level of 0 to 32767, found -1"),
        (32768, UpgradeType.UPGRADE, "expected a level of 0 to 32767, found 32768"),
        (1, 4, "expected one of the upgrade types UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE"),
    ],
)
def test_an_update_that_no_controller_takes_cannot_be_made(level: int, kind: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        FeatureUpdate(level=level, upgrade_type=kind)


def test_a_level_of_0_can_be_asked_for_with_either_downgrade_type() -> None:
    for kind in (UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE):
        assert FeatureUpdate(level=0, upgrade_type=kind).level == 0


@pytest.mark.parametrize(
    ("updates", "timeout_ms", "why"),
    [
        ({}, 60_000, "expected an update, found none"),
        ({"": FeatureUpdate(level=1)}, 60_000, "expected a feature's name, found ''"),
        ({GROUP: FeatureUpdate(level=1), " ": FeatureUpdate(level=1)}, 1, "found ' '"),
        ({GROUP: FeatureUpdate(level=1)}, 0, "expected a timeout_ms of 1"),
        ({GROUP: FeatureUpdate(level=1)}, 2**31, "expected a timeout_ms of 1"),
    ],
)
def test_a_request_that_can_never_be_right_is_refused_before_the_cluster_is_even_reached(
    tmp_path: Path, updates: dict[str, FeatureUpdate], timeout_ms: int, why: str
) -> None:
    nobody = connect(bootstrap="127.0.0.1:1", fleet=no_fleet(tmp_path))
    with pytest.raises(ConfigError, match=why):
        update_features(nobody, updates, timeout_ms=timeout_ms, journal=journal(tmp_path))
    assert sent(tmp_path) == []


def test_kraft_is_described_by_all_of_its_nodes(tmp_path: Path) -> None:
    described = describe_features(live(tmp_path))
    assert described.cluster_id == "c-1"
    assert described.finalized_features_epoch == 9
    assert described.finalized is not None
    assert described.finalized[METADATA].max_version_level == 25
    assert GROUP not in described.finalized
    [only] = described.supported[METADATA]
    assert (only.min_version, only.max_version) == (7, 29)
    assert set(only.nodes) == {"broker 3", "broker 4", "controller 1", "controller 2"}
    assert str(described).startswith("c-1 · KRaft\nactive controller: 1")


def test_resources_read_hours_after_the_nodes_are_part_of_a_stored_description(
    tmp_path: Path,
) -> None:
    [key] = {json.loads(raw)["cluster_id"] for raw in lines_of("k41-forgotten")}
    stated = strimzi_line(cluster=key, status_metadata_version="3.9-IV0")
    files, seen = tmp_path / "lines.jsonl", [*lines_of("k41-forgotten"), stated]
    files.write_bytes(b"\n".join(seen))
    write_night(tmp_path, RUN, snapshot({key: seen}), as_of=AS_OF)
    for where in ({"capture": str(files)}, {"tables": str(tmp_path), "cluster": key}):
        described = describe_features(Chosen(wanted=Wanted(**where), catalogue=load()))
        said = [one.message for one in described.value.findings]
        assert [text for text in said if "status shows metadata.version 21" in text], where


def test_an_epoch_of_minus_1_is_none_and_is_not_taken_for_nothing_finalized(tmp_path: Path) -> None:
    cluster = live(tmp_path, ZK, mode="zk")
    known = describe_features(cluster)
    assert (known.finalized_features_epoch, levels(cluster)) == (9, {"f": 1, "g": 1})
    with Simulated(str(tmp_path / "cluster.db"), TABLES) as opened:
        gone = replace(opened.cluster, finalized={}, cached={}, node_missing=True)
        opened.put(gone)
    described = describe_features(cluster)
    assert described.finalized_features_epoch is None
    assert described.finalized is None
    with pytest.raises(NoEvidenceError, match="No node reports the finalized level of f"):
        update_features(cluster, {"f": FeatureUpdate(level=2)}, journal=journal(tmp_path))


def test_an_empty_but_known_epoch_is_told_from_an_unknown_one(tmp_path: Path) -> None:
    described = describe_features(live(tmp_path, replace(ZK, finalized={}), mode="zk"))
    assert (described.finalized_features_epoch, described.finalized) == (9, {})


@pytest.mark.parametrize("mode", ["kraft", "zk"])
def test_there_and_back_with_update_features(tmp_path: Path, mode: str) -> None:
    kraft = mode == "kraft"
    cluster = live(tmp_path, KRAFT if kraft else ZK, mode)
    before, name = levels(cluster), GROUP if kraft else "f"
    up = {name: FeatureUpdate(level=1 if kraft else 3)}
    result = update_features(cluster, up, journal=journal(tmp_path))
    result.expect_ok()
    [done] = result.features.values()
    assert (done.feature, done.fate, done.code, done.level) == (
        name,
        Fate.APPLIED,
        0,
        up[name].level,
    )
    assert levels(cluster) == before | {name: up[name].level}
    back = {name: FeatureUpdate(level=before.get(name, 0), upgrade_type=DOWN)}
    assert update_features(cluster, back, journal=journal(tmp_path)).is_ok
    assert levels(cluster) == before
    assert sent(tmp_path) == ["applied", "applied"]


def test_each_feature_has_its_own_result_and_all_are_judged_together(tmp_path: Path) -> None:
    cluster = live(tmp_path, ZK, mode="zk")
    asked = {"f": FeatureUpdate(level=2), "g": FeatureUpdate(level=9)}
    result = update_features(cluster, asked, timeout_ms=100, journal=journal(tmp_path))
    assert not result.is_ok
    assert result.features["f"].fate is Fate.APPLIED
    refused = result.features["g"]
    assert (refused.fate, refused.code, refused.level) == (Fate.REJECTED, 42, 1)
    assert refused.message is not None
    assert "Could not apply finalized feature update" in refused.message
    with pytest.raises(RejectedError, match=r"g: rejected \(error 42\): .*; it is at 1"):
        result.expect_ok()
    assert levels(cluster) == {"f": 2, "g": 1}


def test_where_controllers_are_all_or_nothing_so_is_the_result(tmp_path: Path) -> None:
    cluster = live(tmp_path)
    asked = {GROUP: FeatureUpdate(level=1), METADATA: FeatureUpdate(level=99)}
    result = update_features(cluster, asked, journal=journal(tmp_path))
    assert {one.fate for one in result.features.values()} == {Fate.REJECTED}
    assert {one.code for one in result.features.values()} == {95}
    assert levels(cluster) == {METADATA: 25}


def test_a_request_to_validate_writes_nothing_and_is_not_in_the_journal(tmp_path: Path) -> None:
    cluster = live(tmp_path)
    good = update_features(
        cluster, {GROUP: FeatureUpdate(level=1)}, validate_only=True, journal=journal(tmp_path)
    )
    assert (good.is_ok, good.features[GROUP].fate, good.features[GROUP].code) == (True, None, 0)
    bad = update_features(
        cluster, {METADATA: FeatureUpdate(level=99)}, validate_only=True, journal=journal(tmp_path)
    )
    with pytest.raises(RejectedError, match=r"would be refused \(error 95\)"):
        bad.expect_ok()
    assert levels(cluster) == {METADATA: 25}
    assert sent(tmp_path) == []


def test_zookeeper_mode_is_never_asked_to_validate_because_it_would_write(tmp_path: Path) -> None:
    cluster = live(tmp_path, ZK, mode="zk")
    with pytest.raises(RefusedError, match="would apply a request"):
        update_features(cluster, {"f": FeatureUpdate(level=2)}, validate_only=True)
    assert levels(cluster) == {"f": 1, "g": 1}


def test_a_cluster_that_another_owner_finalizes_is_left_alone(tmp_path: Path) -> None:
    cluster = live(tmp_path)
    no_fleet(tmp_path, '[[cluster]]\nid = "c-1"\nname = "pay"\nmanaged_by = "strimzi"\n')
    with pytest.raises(RefusedError, match=r"managed by strimzi.*metadataVersion.:.4\.1-IV0"):
        update_features(cluster, {METADATA: FeatureUpdate(level=26)}, journal=journal(tmp_path))
    assert levels(cluster) == {METADATA: 25}
    update_features(cluster, {GROUP: FeatureUpdate(level=1)}, journal=journal(tmp_path)).expect_ok()
    assert levels(cluster) == {METADATA: 25, GROUP: 1}


@pytest.mark.parametrize("written", [True, False])
def test_a_lost_reply_is_looked_into_before_anything_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    really = EmbeddedBackend.update

    def lost(self: EmbeddedBackend, step: Any, **_: Any) -> Reply:
        if written:
            really(self, step)
        raise OutcomeUnknownError("the connection broke")

    cluster = live(tmp_path)
    monkeypatch.setattr(EmbeddedBackend, "update", lost)
    monkeypatch.setattr("featurelib.controller.apply.Waits", quick_waits)
    result = update_features(
        cluster, {GROUP: FeatureUpdate(level=1)}, timeout_ms=50, journal=journal(tmp_path)
    )
    assert result.features[GROUP].fate is (Fate.APPLIED if written else Fate.NOT_APPLIED)
    assert result.is_ok == written
    assert sent(tmp_path) == ["applied" if written else "not applied"]


def quick_waits() -> Waits:
    return Waits(nodes=0.4, margin=0.05, first=0.01, longest=0.05)


def test_an_open_request_has_to_be_settled_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = live(tmp_path)

    def cut(*given: Any, **more: Any) -> Reply:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedBackend, "update", cut)
        with pytest.raises(OutcomeUnknownError, match=r"interrupted while .* being sent"):
            update_features(cluster, {GROUP: FeatureUpdate(level=1)}, journal=journal(tmp_path))
    with pytest.raises(
        OutcomeUnknownError, match=r"entry 1 is unknown.* `featurelib resume --file"
    ):
        update_features(cluster, {GROUP: FeatureUpdate(level=1)}, journal=journal(tmp_path))


@pytest.mark.parametrize("mode", ["kraft", "zk"])
def test_a_plan_is_made_approved_and_applied(tmp_path: Path, mode: str) -> None:
    kraft = mode == "kraft"
    cluster = live(tmp_path, KRAFT if kraft else ZK, mode)
    up = {GROUP: 1, METADATA: "4.1"} if kraft else {"f": 3}
    made = plan(cluster, "update", RequestedLevels(up=up))
    assert made.is_made, made.text
    assert not made.refusals
    rehearsed = apply(made, cluster, dry_run=True, journal=journal(tmp_path))
    assert (rehearsed.ending.kind.value, sent(tmp_path)) == ("rehearsed", [])
    approval = approve(made, "1h", by="ann")
    carried = apply(made, cluster, approval=approval, journal=journal(tmp_path))
    assert carried.is_done
    assert f"Feature: {'group.version' if kraft else 'f'} " in str(carried)
    assert str(carried).splitlines()[-1].startswith("Applied: cluster c-1")
    assert levels(cluster) == ({METADATA: 27, GROUP: 1} if kraft else {"f": 3, "g": 1})
    past = datetime.now(UTC) - timedelta(hours=2)
    given = files.approve(made.file.plan, by="ann", at=past, expires=timedelta(hours=1))
    over = files.write_approval(given)
    with pytest.raises(ApprovalError, match="expire"):
        apply(made, cluster, approval=over, journal=journal(tmp_path))


def test_without_an_approval_nothing_is_sent(tmp_path: Path) -> None:
    cluster = live(tmp_path)
    made = plan(cluster)
    other = plan(cluster, "update", RequestedLevels(up={GROUP: 1}))
    with pytest.raises(ConfigError, match="The plan has no approval"):
        apply(made, cluster, journal=journal(tmp_path))
    with pytest.raises(ApprovalError, match="The approval is of another plan than PLAN"):
        apply(made, cluster, approval=approve(other, "1h", by="ann"), journal=journal(tmp_path))
    assert levels(cluster) == {METADATA: 25}


def test_a_plan_that_was_overtaken_is_refused(tmp_path: Path) -> None:
    cluster = live(tmp_path)
    made = plan(cluster, "update", RequestedLevels(up={GROUP: 1}))
    update_features(cluster, {GROUP: FeatureUpdate(level=1)}, journal=journal(tmp_path))
    update_features(
        cluster, {METADATA: FeatureUpdate(level=27)}, journal=journal(tmp_path)
    ).expect_ok()
    made_from_old = plan(cluster, "update", RequestedLevels(up={METADATA: 29}))
    update_features(
        cluster, {METADATA: FeatureUpdate(level=28)}, journal=journal(tmp_path)
    ).expect_ok()
    approval = approve(made_from_old, "1h")
    with pytest.raises(StalePlanError, match="Nothing was sent"):
        apply(made_from_old, cluster, approval=approval, journal=journal(tmp_path))
    assert made.is_made
    assert levels(cluster) == {METADATA: 28, GROUP: 1}


def test_plans_and_approvals_may_be_files(tmp_path: Path) -> None:
    cluster = live(tmp_path)
    path, word = tmp_path / "plan.json", tmp_path / "plan.approval.json"
    plan(cluster, "update", RequestedLevels(up={GROUP: 1})).save(str(path))
    word.write_bytes(approve(str(path), "1h", by="ann").content)
    assert apply(str(path), cluster, approval=str(word), journal=journal(tmp_path)).is_done
    assert levels(cluster)[GROUP] == 1
    with pytest.raises(ConfigError, match="cannot read the plan: No such file"):
        apply(str(tmp_path / "none.json"), cluster, dry_run=True)


def test_a_plan_that_came_to_nothing_says_every_reason(tmp_path: Path) -> None:
    cluster = live(tmp_path)
    made = plan(cluster, "update", RequestedLevels(up={METADATA: 99}))
    assert not made.is_made
    assert made.refusals
    with pytest.raises(RefusedError, match=r"(?s)REFUSED, nothing is written.*99"):
        made.save(str(tmp_path / "plan.json"))
    with pytest.raises(ConfigError, match=r"There is no command 'up'. Use one of upgrade-all"):
        plan(cluster, "up")


def test_questions_are_answered_of_a_live_cluster(tmp_path: Path) -> None:
    cluster = live(tmp_path)
    blocked = why_not(cluster, METADATA, 30)
    assert blocked.value.answer is Verdict.BLOCKED
    assert {row["node"] for row in blocked.rows} >= {"broker 3", "controller 1"}
    assert why_not(cluster, METADATA, "4.1").value.answer is Verdict.NOTHING
    assert what_if(cluster, remove=[4]).value.unchanged > 0
    with pytest.raises(ConfigError, match="No change is named"):
        what_if(cluster)
    assert [one.feature for one in range_plot(cluster, [GROUP]).plots] == [GROUP]
    with pytest.raises(ConfigError, match=r"does not have the features nothing\.version"):
        range_plot(cluster, ["nothing.version"])


def test_an_embedded_cluster_is_made_like_a_release_or_a_capture(tmp_path: Path) -> None:
    made = sandbox(str(tmp_path / "new.db"), software="4.1", metadata="3.9", brokers=2)
    assert levels(made)[METADATA] == 21
    copy = sandbox(str(tmp_path / "copy.db"), capture=str(SAMPLES / "ghost-broker"))
    assert not plan(copy).is_made
    copy.unregister(2)
    assert plan(copy).is_made
    with pytest.raises(ConfigError, match="exists already"):
        sandbox(str(tmp_path / "copy.db"))


def test_a_cluster_that_nothing_leads_to_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No cluster 'pay'|no cluster has the id or name 'pay'"):
        describe_features("pay")
    with pytest.raises(ConfigError, match="No cluster is named"):
        connect(fleet=no_fleet(tmp_path))
    with pytest.raises(UnreachableError):
        describe_features(connect(bootstrap="127.0.0.1:1", timeout=0.5))


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("night")
    # The night before had no ghost: its cluster was not judged then.
    samples = read_samples().batch
    write_night(root, BEFORE, without(samples, [GHOST]))
    write_night(root, RUN, samples)
    write_histories(root, RUN)
    return str(root)


def test_tables_are_asked_like_a_live_cluster(night: str) -> None:
    tables = open_tables(night, fleet=str(SAMPLES / "fleet.toml"))
    assert repr(tables) == f"<tables in {night}, run {RUN}, 26 clusters>"
    fleet = tables.fleet()
    assert len(fleet) == 26
    ghost = fleet[fleet["cluster"] == "ghost-broker"].iloc[0]
    assert (ghost["verdict"], ghost["blocker"], ghost["warning"]) == ("BLOCKED", 1, 1)
    assert (ghost["owner"], "region=eu" in ghost["labels"]) == ("payments", True)
    why = why_not(tables["ghost-broker"], METADATA, 27)
    assert "samples/ghost-broker/landing.jsonl" in str(why.rows[0]["line"])
    after = what_if(tables["ghost-broker"], remove=[2]).frame()
    row = after[after["feature"] == METADATA].iloc[0]
    assert (row["verdict_before"], row["verdict_after"], row["target_after"]) == (
        "BLOCKED",
        "READY",
        27,
    )
    assert describe_features(tables["ghost-broker"]).finalized_features_epoch is not None
    assert plan(tables["k37-forgotten"]).is_made
    assert not plan(tables["k41-forgotten"]).is_made  # all of it waits for its owner
    drawn = range_plot(tables["ghost-broker"], [METADATA])
    assert 'class="holds"' in drawn.svg(METADATA)
    assert "broker 2: 7–25 · in the way" in str(drawn)


def test_tables_are_opened_for_the_clusters_of_one_owner(night: str) -> None:
    inventory = str(SAMPLES / "fleet.toml")
    mine = open_tables(night, fleet=inventory, owner=["billing"], view="production")
    assert set(mine.clusters) == set(mine.fleet()["cluster"]) < set(mine.names.values())
    assert mine.report.part is not None
    assert (mine.report.part.of, mine.report.fleet.clusters) == (26, len(mine.clusters))
    with pytest.raises(ConfigError, match="Did you mean billing"):
        open_tables(night, fleet=inventory, owner=["biling"])


def test_a_roll_is_asked_of_a_look_and_of_a_night(tmp_path: Path, night: str) -> None:
    live_one = can_roll(live(tmp_path), "4.2")
    assert live_one.value.may_join
    assert str(live_one).startswith("c-1: software of 4.2 can register now")
    [row] = live_one.rows
    assert (row["feature"], row["level"], row["min_version"], row["fits"]) == (
        METADATA,
        25,
        7,
        True,
    )
    stored = can_roll(open_tables(night, fleet=str(SAMPLES / "fleet.toml"))["k42-dynamic"], "4.1")
    assert not stored.value.may_join
    rows = {row["feature"]: row for row in stored.rows}
    assert (rows[METADATA]["level"], rows[METADATA]["max_version"], rows[METADATA]["fits"]) == (
        29,
        27,
        False,
    )
    assert rows["streams.version"]["max_version"] is None
    assert rows[GROUP]["fits"]
    with pytest.raises(ConfigError, match=r"--to 9\.9"):
        can_roll(live(tmp_path), "9.9")


def test_a_timeline_is_what_tables_remember(tmp_path: Path, night: str) -> None:
    tables = open_tables(night, fleet=str(SAMPLES / "fleet.toml"))
    told = history(tables["zk-roll-282-332"])
    assert str(told) == repr(history(tables["zk-roll-282-332"]))
    assert str(told).startswith("zk-roll-282-332: nothing decreased\n")
    assert told.value.regressions == 0
    frame = told.frame()
    levels_moved = frame[frame["who"] == "finalized"]
    assert list(levels_moved["feature"]) == ["search.index", "tiering", "search.index"]
    assert list(levels_moved["after"]) == ["2", "2", "4"]
    seen = frame[(frame["who"] == "brokers 2-3") & (frame["feature"] == "tiering")].iloc[0]
    assert (seen["before"], seen["after"], seen["went_back"]) == (None, "1-3", False)
    with pytest.raises(ConfigError, match="this is a live cluster"):
        history(live(tmp_path))


def test_a_night_is_compared_with_the_one_before_it(night: str) -> None:
    tables = open_tables(night, fleet=str(SAMPLES / "fleet.toml"))
    found = diff(tables)
    assert (found.value.before, found.value.after) == (BEFORE, RUN)
    assert str(found) == str(diff(tables, BEFORE, RUN))
    assert {(row["cluster"], row["state"]) for row in found.rows} == {
        ("ghost-broker", "incomparable")
    }
    [ghost] = [row for row in found.rows if row["code"] == "ghost_broker"]
    assert (ghost["severity"], ghost["node_id"], ghost["muted"]) == ("warning", 2, None)
    assert "Broker 2 is registered but fenced" in str(ghost["says"])
    assert ghost["why"] == "only one of the two runs judged the cluster"
    assert "25 clusters without a difference" in str(found)
    earlier = open_tables(night, run=BEFORE, fleet=str(SAMPLES / "fleet.toml"))
    with pytest.raises(NoEvidenceError, match=f"has no run before {BEFORE}"):
        diff(earlier)
    with pytest.raises(ConfigError, match="None of the 2 runs"):
        diff(tables, 1)
    with pytest.raises(ConfigError, match="cannot be compared with itself"):
        diff(tables, RUN)


def test_what_stands_in_tables_cannot_be_changed(night: str) -> None:
    tables = open_tables(night, fleet=str(SAMPLES / "fleet.toml"))
    with pytest.raises(ConfigError, match="this cluster comes from tables"):
        update_features(tables["k41-forgotten"], {GROUP: FeatureUpdate(level=1)})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="Did you mean ghost-broker"):
        why_not(tables["ghost-borker"], METADATA, 27)


def test_tables_that_are_not_there_are_named_with_the_command_that_makes_them(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match=r"spark-submit\.sh` makes the tables of the samples"):
        open_tables(str(tmp_path / "none"))
    with pytest.raises(NoEvidenceError):
        open_tables(str(tmp_path))


def test_the_catalogue_of_the_api_is_the_package_s_own() -> None:
    assert connect(file="x.db").catalogue.label == load().label
