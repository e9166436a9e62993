"""Every entrance says the same of a cluster in the middle of a rolling upgrade: the target is the
older release's default, whatever the newest node brings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from featurelib.audit.cluster_view import Inputs
from featurelib.extras.predictions.what_if import Changes, what_if
from featurelib.feature import METADATA_VERSION
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan
from featurelib.questions.describe import describe
from featurelib.questions.why_not import LevelStatus, why_not
from tests.core.lines import AS_OF, MAX_AGE, microseconds
from tests.core.oracle import BROKER, CONTROLLER
from tests.core.test_target import PAIRS, mapping, mixed
from tests.extras.waves.test_waves import standing
from tests.questions.test_plan_agrees import see_lines
from tests.report.samples import CATALOGUE

NOW = microseconds(AS_OF)
TERMS = Inputs(catalogue=CATALOGUE, as_of=NOW, max_age=MAX_AGE)
MIXED = [pair for pair in PAIRS if pair[1] >= "4.0" and pair[0] >= "3.9"]
SHARE = "share.version"


@pytest.mark.parametrize("role", [BROKER, CONTROLLER])
@pytest.mark.parametrize(("old", "new"), MIXED)
def test_every_entrance_stops_at_the_older_release_s_defaults(
    old: str, new: str, role: str
) -> None:
    seen = see_lines(mixed(old, new, role, 7))
    planned = make_plan(seen, Intent(command=Command.UPGRADE_ALL), CATALOGUE).plan
    assert planned is not None
    moves = {move.feature: move.to_level for move in planned.moves}
    tool = mapping(old, new)
    assert moves.items() <= tool.items()
    assert moves[METADATA_VERSION] == tool[METADATA_VERSION]
    rows = {row["feature"]: row for row in seen.judged.readiness.to_pylist()}
    for feature, row in rows.items():
        ready, level = row["verdict"] == "READY", row["target"]
        assert (feature in moves) is ready
        if ready or row["verdict"] == "BLOCKED":
            level = level if ready else row["ceiling"]
            answer = why_not(seen, feature, level, CATALOGUE)
            assert answer.answer is (LevelStatus.NOTHING if ready else LevelStatus.BLOCKED)
            assert not ready or {*answer.moves} <= tool.items()
    for target in ("upgrade-all", old):
        found = standing(seen, target, NOW, MAX_AGE)
        assert target != old or found.candidates
        works = [work for there in found.candidates for _, work in there.works]
        in_waves = {move.feature: move.to_level for work in works for move in work.moves}
        assert in_waves in ({}, moves)
    shown = describe(seen, CATALOGUE)
    assert {level.feature: level.level for level in shown.levels if level.level} == {
        METADATA_VERSION: 7
    }
    assert {node.release for node in shown.nodes} == {old, new}


@pytest.mark.parametrize("role", [BROKER, CONTROLLER])
@pytest.mark.parametrize(("old", "new"), MIXED)
def test_one_node_that_is_upgraded_first_makes_nothing_ready(old: str, new: str, role: str) -> None:
    """what-if of the node that starts with the newer software, in a cluster that has all defaults
    of the older one."""
    cluster = mixed(old, old, role)
    tool = {name: level for name, level in mapping(old, new).items() if level}
    levels = tool | {"kraft.version": 0, "eligible.leader.replicas.version": 0}
    first = replace(cluster.nodes[0], levels=levels)
    seen = see_lines(replace(cluster, nodes=(first, *cluster.nodes[1:]), stored=levels))
    node_id = 3 if role == BROKER else 12
    answer = what_if(seen, Changes(nodes={node_id: new}), TERMS)
    ready = [row for row in answer.after.judged.readiness.to_pylist() if row["verdict"] == "READY"]
    assert ready == []
    assert make_plan(answer.after, Intent(command=Command.UPGRADE_ALL), CATALOGUE).plan is None


@pytest.mark.parametrize("newer", ["4.2", "4.4"])
def test_a_preview_of_the_older_release_is_asked_for_by_name_alone(newer: str) -> None:
    """All nodes of 4.1 and newer support share.version 1; at metadata.version 27 it is no default,
    also where 4.4 brings level 2, which 4.1 lacks."""
    seen = see_lines(mixed("4.1", newer, BROKER))
    asked = Intent(command=Command.UPGRADE, up={SHARE: "1"})
    [move] = make_plan(seen, asked, CATALOGUE).plan.moves  # type: ignore[union-attr]
    assert (move.feature, move.to_level) == (SHARE, 1)
    planned = make_plan(seen, Intent(command=Command.UPGRADE_ALL), CATALOGUE)
    [text] = [stay.feature for stay in planned.goal.stays if stay.feature == SHARE]
    assert text == SHARE
