"""A migration from ZooKeeper to KRaft (KIP-866), phase by phase, as a real one of 3.9.2 went.

tests/data/migration has what `featurelib collect` landed of it: two brokers (1 and 2, with
inter.broker.protocol.version 3.8), one controller (3001, formatted at metadata.version 20). It is
shortened by the requests that listeners offer, by configurations, and by paths that say nothing
here. All phases took three minutes, so each is put into a night of its own. What the cluster
answered to kafka-features.sh upgrade --metadata 3.9 --dry-run stands beside each phase.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from featurelib.audit.audit import Judged
from featurelib.audit.cluster_view import ClusterView, Inputs
from featurelib.audit.evidence import Expected
from featurelib.catalogue import load as load_catalogue
from featurelib.errors import ConfigError
from featurelib.extras.predictions.rolling import roll
from featurelib.feature import ClusterMode, Phase, Verdict
from featurelib.questions.why_not import why_not
from featurelib.snapshot import begin, fold_lines, snapshot_rows
from featurelib.snapshot.records import Snapshots
from featurelib.snapshot.state import freeze
from featurelib.view.digest import summarize_cluster
from tests.core.lines import AS_OF, codes, findings, judge_lines, landings, rows_of
from tests.core.oracle import METADATA
from tests.seeing import see

DATA = Path(__file__).parents[1] / "data" / "migration"
CLUSTER = "c9WZNVeaTbGZmkJdv6uI5w"
PHASES = (
    "zookeeper",  # "… the provided feature is not supported."
    "controllers",  # no answer
    "half-migrating",  # not asked
    "dual-write",  # "Invalid update version 21 …. Broker 2 only supports versions 20"
    "half-kraft",  # the same
    "brokers-kraft",  # "… Unable to modify metadata.version while a ZK migration is in progress."
    "ended",  # "metadata.version can be upgraded to 21."
)
MIGRATING = PHASES[1:-1]
IN_ZOOKEEPER = {"half-kraft": [2], "brokers-kraft": list[int]()}  # brokers
BY_BROKER = (
    "Invalid update version 21 for feature metadata.version. Broker 2 only supports versions 20"
)
BY_MIGRATION = (
    "Invalid metadata.version 21. Unable to modify metadata.version while a ZK migration is in "
    "progress."
)
VOUCHED = Expected(brokers=(1, 2), controllers=(3001,), vouched=True)


def night(phase: str, age: int, *, without: Iterable[str] = ()) -> list[bytes]:
    """What landed in a phase, `age` hours before the audit, but for some kinds of lines."""
    lines = [json.loads(line) for line in (DATA / f"{phase}.jsonl").read_bytes().splitlines()]
    first = min(datetime.fromisoformat(line["observed_at"]) for line in lines)
    later = AS_OF - timedelta(hours=age) - first
    for line in lines:
        moved = datetime.fromisoformat(line["observed_at"]) + later
        line["observed_at"] = moved.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return [json.dumps(line).encode() for line in lines if line["kind"] not in without]


def up_to(phase: str, age: int = 1) -> list[bytes]:
    """The nights up to a phase, a day between each."""
    nights = PHASES[: PHASES.index(phase) + 1]
    ages = range(age + 24 * (len(nights) - 1), age - 1, -24)
    return [line for one, hours in zip(nights, ages, strict=True) for line in night(one, hours)]


def judged(lines: Iterable[bytes], expected: Expected | None = VOUCHED) -> Judged:
    return judge_lines(lines, expected, name=CLUSTER)


def mode(one: Judged) -> ClusterMode:
    return list(ClusterMode)[one.evidence.membership.mode[0]]


def look(lines: Iterable[bytes]) -> ClusterView:
    return see(lines, catalogue=load_catalogue(), as_of=None, max_age=10**15)


def metadata(one: Judged) -> tuple[str, int]:
    [row] = rows_of(one, "readiness", feature=METADATA)
    return row["verdict"], row["finalized_level"]


@pytest.mark.parametrize("phase", MIGRATING)
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "after all nights before"])
def test_each_phase_of_a_migration_is_judged_as_it_is(phase: str, alone: bool) -> None:
    one = judged(night(phase, 1) if alone else up_to(phase))
    assert mode(one) is ClusterMode.MIGRATING
    assert metadata(one) == ("BLOCKED", 20)
    found = [row for row in findings(one) if row["code"] != "migration_waits"]
    rows = [(row["code"], row["feature"], row["node_id"]) for row in found]
    assert rows.pop() == ("during_zk_migration", METADATA, None)
    assert rows == [("range_inferred", None, node) for node in IN_ZOOKEEPER.get(phase, [1, 2])]
    [row] = rows_of(one, "plans")
    assert row["phase"] == Phase.ROLLED_NOT_FINALIZED.value
    assert (row["release"], row["newest_release"]) == ("3.9", "3.9")


@pytest.mark.parametrize(
    ("phase", "answer"),
    [("dual-write", BY_BROKER), ("half-kraft", BY_BROKER), ("brokers-kraft", BY_MIGRATION)],
)
def test_what_the_controller_answers_in_each_phase_is_foretold(phase: str, answer: str) -> None:
    found = why_not(look(up_to(phase)), METADATA, 21, load_catalogue())
    assert next(proof.message for proof in found.proofs if proof.is_answer) == answer
    assert found.unlock is not None
    assert {fix.action.value for fix in found.unlock.fixes} <= {"migrate"}
    assert found.unlock.rules == ("during_zk_migration",)


def test_brokers_in_zookeeper_mode_stand_for_the_level_they_register() -> None:
    ranges = {node.half: dict(node.supported) for node in look(up_to("half-kraft")).cluster.nodes}
    assert [spans[METADATA] for _, spans in sorted(ranges.items())] == [(1, 21), (20, 20), (1, 21)]


@pytest.mark.parametrize("nights", [1, 2, 9])
def test_a_migration_that_ended_is_judged_as_kraft_from_its_first_night(nights: int) -> None:
    lines = up_to("brokers-kraft", 24 * nights)
    lines += [line for n in range(nights) for line in night("ended", 1 + 24 * n)]
    one = judged(lines)
    assert mode(one) is ClusterMode.KRAFT
    assert metadata(one) == ("READY", 20)
    assert {row["code"] for row in findings(one)} <= {"finalization_forgotten"}


def test_a_migration_that_ended_heals_where_znodes_are_read_on() -> None:
    """ZooKeeper stands as it was left, and somebody forgot it in the inventory."""
    left = night(
        "brokers-kraft", 1, without=("api_versions", "describe_cluster", "describe_quorum")
    )
    left = [line.replace(b'brokerid\\":3001', b'brokerid\\":9000') for line in left]
    one = judged([*up_to("brokers-kraft", 25), *night("ended", 1), *left])
    assert one.evidence.controller.tolist() == [3001]
    assert (mode(one), metadata(one)) == (ClusterMode.KRAFT, ("READY", 20))


def test_a_night_jumped_over_changes_nothing() -> None:
    one = judged([*up_to("dual-write", 25), *night("ended", 1)])
    assert (mode(one), metadata(one)) == (ClusterMode.KRAFT, ("READY", 20))
    assert findings(one) == []


@pytest.mark.parametrize("phase", MIGRATING)
def test_a_migration_goes_on_where_zookeeper_was_not_read(phase: str) -> None:
    lines = [*up_to("zookeeper", 73), *night(phase, 1, without=("znode",))]
    one = judged(lines, None)  # whoever is registered: nothing moves
    assert (mode(one), metadata(one)) == (ClusterMode.MIGRATING, ("BLOCKED", 20))
    found = [row["node_id"] for row in findings(one, "range_inferred")]
    assert found == IN_ZOOKEEPER.get(phase, [1, 2])


@pytest.mark.parametrize("also", ["znode", "api_versions"])
def test_a_migration_shows_by_its_brokers_where_no_controller_says_so(also: str) -> None:
    """By their registrations, or by what they answer; lines without the field land of old tools."""
    lines = [json.loads(line) for line in night("dual-write", 1)]
    kept = [json.dumps(line | {"zk_migration_ready": None}) for line in lines if _is(line, also)]
    one = judged([*up_to("zookeeper", 25), *(line.encode() for line in kept)])
    assert (mode(one), metadata(one)) == (ClusterMode.MIGRATING, ("BLOCKED", 20))


def _is(line: dict[str, object], kind: str) -> bool:
    controller = (line["kind"], line.get("role")) == ("api_versions", "controller")
    return controller or line["kind"] == kind


def test_in_any_order_the_lines_of_a_night_fold_the_same() -> None:
    some = [line for line in night("half-kraft", 1) if b'"api_versions"' in line]
    some += [line for line in night("ended", 0) if b'"controller"' in line][:1]
    folds = (fold_lines(landings(of), load_catalogue()) for of in itertools.permutations(some))
    assert len({freeze(fold) for fold in folds}) == 1


def test_what_an_earlier_release_kept_heals_with_the_next_night() -> None:
    """Its state does not say whether controllers were set up for a migration."""
    earlier = fold_lines(landings(up_to("brokers-kraft", 25)), load_catalogue())
    earlier.migration_ready = []
    fold = begin(freeze(earlier), load_catalogue())
    for landing, line in landings(night("ended", 1)):
        fold.add(landing, line)
    rows = snapshot_rows([(CLUSTER, fold.finish())])
    assert Snapshots(rows).scalar("zookeeper").tolist() == [0]


@pytest.mark.parametrize("phase", [*MIGRATING[1:], "ended"])
def test_before_a_migration_has_ended_no_release_without_zookeeper_mode_may_join(
    phase: str,
) -> None:
    """4.0 has no ZooKeeper mode, and its controllers cannot go on with a migration (KIP-866)."""
    [row] = rows_of(judged(night(phase, 1)), "plans")
    has_ended = phase == "ended"
    assert row["may_join"] == ["3.8", "3.9", *["4.0", "4.1", "4.2", "4.3", "4.4"] * has_ended]
    inputs = Inputs(catalogue=load_catalogue(), as_of=None, max_age=10**15)
    if has_ended:
        assert roll(look(night(phase, 1)), "4.0", inputs).may_join
    else:
        with pytest.raises(ConfigError, match="finish the migration to KRaft first"):
            roll(look(night(phase, 1)), "4.0", inputs)
    assert roll(look(night(phase, 1)), "3.9", inputs).may_join


def test_a_cluster_that_migrates_says_so_where_nothing_else_is_to_be_said() -> None:
    said = partial(summarize_cluster, Verdict.UP_TO_DATE, (), (), None, has_features=True)
    assert said(mode=ClusterMode.KRAFT) == "nothing to do"
    expected = "migrating from ZooKeeper to KRaft: nothing moves until that has ended"
    assert said(mode=ClusterMode.MIGRATING) == expected


def test_a_migration_that_no_broker_takes_part_in_is_said_to_wait() -> None:
    found = {
        phase: "migration_waits" in codes(judged(night(phase, 1)))
        for phase in ("zookeeper", "controllers", "half-migrating", "dual-write", "ended")
    }
    assert found == dict.fromkeys(found, False) | {"controllers": True}
