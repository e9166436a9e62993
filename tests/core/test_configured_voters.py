"""Whom a controller asks: who stands in its own configuration. Recorded on real 3.9.2 and 4.4.0,
and made up (tests/backends/test_configured_voters_real.py plays the recorded ones again)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from featurelib.audit.cluster_view import Sight, see
from featurelib.audit.evidence import KAFKAS_DEFAULT, OWN_FILE, VOTERS, voter_ids
from featurelib.audit.findings import Action
from featurelib.catalogue import load as load_catalogue
from featurelib.config.fleet import Fleet
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.core.cluster import Cluster, Node, Request, Update
from featurelib.core.dialect import STRICT, load
from featurelib.core.dry_run import answer, refused_by
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan
from featurelib.planning.reasons import Fix, unlock
from tests.core.lines import configs_line, judge_rows, lines_of, snapshot
from tests.core.oracle import Cluster as Described
from tests.core.oracle import Node as Half

CATALOGUE = load_catalogue()
RECORDED = Path(__file__).parents[1] / "data" / "configured_voters"
SHARE, ANY_AGE = "share.version", 10**15


def recorded(name: str, *, read: bool = True) -> Sight:
    """A recorded look; `read` = with what nodes are configured with."""
    lines = (RECORDED / f"{name}.jsonl").read_bytes().splitlines()
    kept = [line for line in lines if read or b'"describe_configs"' not in line]
    return see(kept, catalogue=CATALOGUE, as_of=None, max_age=ANY_AGE)


def verdicts(sight: Sight) -> dict[str, str]:
    rows = sight.judged.readiness.to_pylist()
    return {row["feature"]: row["verdict"] for row in rows}


def codes(sight: Sight) -> set[str]:
    return set(sight.judged.findings["code"].to_pylist())


def test_a_removed_and_unregistered_controller_that_was_left_in_the_configuration_blocks() -> None:
    sight = recorded("left-behind")
    assert verdicts(sight)[SHARE] == "BLOCKED"
    found = {row["code"]: row for row in sight.judged.findings.to_pylist()}
    row = found["configured_voter_not_registered"]
    assert (row["role"], row["node_id"], row["feature"], row["detail"]) == (
        "controller", 2, SHARE, "1",
    )  # fmt: skip
    warned = found["dynamic_quorum_with_static_voters"]
    assert (warned["node_id"], warned["detail"]) == (1, "1, 2; 2 not registered")
    way = unlock(sight.cluster, CATALOGUE, SHARE, 2)
    assert way.fixes == (Fix(role=Role.CONTROLLER, node_id=2, action=Action.RECONFIGURE),)
    assert way.also == ()


def test_where_its_configuration_was_not_read_that_is_unknown_and_never_ready() -> None:
    for name in ("left-behind", "mended", "moved-to-dynamic"):
        sight = recorded(name, read=False)
        assert verdicts(sight)[SHARE] == "UNKNOWN", name
        assert "configured_voters_unknown" in codes(sight)
        # What cannot go up does not hang on it.
        assert verdicts(sight)[METADATA_VERSION] == "UP_TO_DATE", name


def test_an_empty_configuration_asks_for_nobody_and_the_policy_still_wants_every_voter() -> None:
    sight = recorded("voter-unregistered")
    assert verdicts(sight)[SHARE] == "BLOCKED"
    assert "voter_not_registered" in codes(sight)
    request = Request(updates=(Update(feature=SHARE, level=2),), validate_only=True)
    own = answer(sight.cluster, request, load("kraft-4.2"), CATALOGUE.tables)
    assert own.reply.code == 0  # as the real controller answered
    [refused] = refused_by([(sight.cluster, request)], load(STRICT), CATALOGUE.tables)
    assert "voter_not_registered" in refused


@pytest.mark.parametrize("name", ["left-behind", "left-behind-3.9"])
def test_the_words_are_kafkas_own(name: str) -> None:
    cluster = recorded(name).cluster
    nine = name.endswith("3.9")
    feature, level, node = (METADATA_VERSION, 21, 9) if nine else (SHARE, 2, 2)
    request = Request(updates=(Update(feature=feature, level=level),), validate_only=True)
    dialect = load("kraft-3.9" if nine else "kraft-4.2")
    reply = answer(cluster, request, dialect, CATALOGUE.tables).reply
    said = reply.message or "".join(one.message or "" for one in reply.results or ())
    assert said.endswith(
        f"Invalid update version {level} for feature {feature}. controller {node} has not "
        "registered, and may not support this feature"
    )


# --- Made up --------------------------------------------------------------------------------------

RANGES = {METADATA_VERSION: (7, 33), KRAFT_VERSION: (0, 1), SHARE: (0, 2)}
LEVELS = {METADATA_VERSION: 33, KRAFT_VERSION: 1, SHARE: 1}


def described(levels: Mapping[str, int] = LEVELS, **changes: Any) -> Described:
    said: dict[str, Any] = {"ranges": RANGES, "levels": dict(levels), "epoch": 900}
    nodes = Half(node_id=5, **said), Half(node_id=1, role="controller", **said)
    made = Described(name="c", registry="fenced", controllers_listed=True, nodes=nodes, voters=(1,))
    return replace(made, **changes)


def judged(cluster: Described, *lines: bytes) -> tuple[str, set[str]]:
    said = judge_rows(snapshot({"c": [*lines_of(cluster), *lines]}), [cluster])
    verdict = {row["feature"]: row["verdict"] for row in said.readiness.to_pylist()}[SHARE]
    return verdict, {
        code
        for code in said.findings["code"].to_pylist()
        if "configured" in code or "static" in code
    }


def voters(value: str | None, node_id: int = 1, age: int = 1) -> bytes:
    source = OWN_FILE if value else KAFKAS_DEFAULT
    said: dict[str, tuple[str | None, int]] = {VOTERS: (value, source)}
    return configs_line(node_id, "controller", {str(node_id): said}, age=age)


UNREAD = ("UNKNOWN", {"configured_voters_unknown"})


def test_a_dynamic_quorum_below_33_and_a_static_one_need_no_configuration() -> None:
    assert judged(described()) == UNREAD
    for level in (31, 32):
        assert judged(described({**LEVELS, METADATA_VERSION: level})) == ("READY", set())
    assert judged(described({**LEVELS, KRAFT_VERSION: 0})) == ("READY", set())


def test_what_was_read_too_long_ago_or_cannot_be_read_was_not_read() -> None:
    assert judged(described(), voters("")) == ("READY", set())
    assert judged(described(), voters("", age=100)) == UNREAD
    for value in (None, "1", "x@h:1", "1@", "99999999999@h:1", "9999999999@h:1"):
        assert judged(described(), voters(value)) == UNREAD, value


def test_who_leads_next_may_be_configured_otherwise_and_that_is_said() -> None:
    said: dict[str, Any] = {"ranges": RANGES, "levels": LEVELS, "epoch": 900}
    two = Half(node_id=2, role="controller", **said)
    cluster = described(nodes=(*described().nodes, two), voters=(1, 2))
    lines = voters(""), voters("1@h:1,2@h:1,9@h:1", node_id=2)
    rows = snapshot({"c": [*lines_of(cluster), *lines]})
    found = judge_rows(rows, [cluster]).findings.to_pylist()
    [row] = [row for row in found if row["code"] == "dynamic_quorum_with_static_voters"]
    assert (row["node_id"], row["detail"]) == (2, "1, 2, 9; 9 not registered")
    assert judged(cluster, *lines)[0] == "READY"


def test_who_is_registered_and_does_not_vote_is_in_nobodys_way() -> None:
    said: dict[str, Any] = {"ranges": RANGES, "levels": LEVELS, "epoch": 900}
    cluster = described(
        nodes=(*described().nodes, Half(node_id=2, role="controller", **said)), voters=(1,)
    )
    verdict, found = judged(cluster, voters("1@h:1,2@h:1"))
    assert (verdict, found) == ("READY", {"dynamic_quorum_with_static_voters"})


def test_without_a_list_of_controllers_a_stranger_in_the_configuration_makes_unknown() -> None:
    cluster = described(controllers_listed=False)
    found = {"configured_voters_unknown", "dynamic_quorum_with_static_voters"}
    assert judged(cluster, voters("1@h:1,7@h:1")) == ("UNKNOWN", found)
    known = ("READY", {"dynamic_quorum_with_static_voters"})
    assert judged(cluster, voters("1@h:1")) == known
    assert judged(replace(cluster, controllers_vouched=True), voters("1@h:1,7@h:1")) == known
    assert judged(cluster, voters("")) == ("READY", set())


def test_a_static_quorum_is_held_to_what_the_active_controller_says() -> None:
    static = {**LEVELS, KRAFT_VERSION: 0}
    assert judged(described(static), voters("1@h:1")) == ("READY", set())
    found = {"configured_voter_not_registered"}
    assert judged(described(static), voters("1@h:1,4@h:1")) == ("BLOCKED", found)
    low = {METADATA_VERSION: 14, SHARE: 0}  # nobody is asked yet; from 15 on nothing would move
    assert judged(described(low), voters("1@h:1,4@h:1")) == ("BLOCKED", found)


def test_no_plan_ends_where_a_leftover_lets_nothing_move_any_more() -> None:
    """3.9 takes metadata.version 21 at 14, and then refuses whatever comes after it."""
    said: dict[str, Any] = {
        "ranges": {METADATA_VERSION: (1, 21), "f": (1, 5)},
        "levels": {METADATA_VERSION: 14, "f": 2},
        "epoch": 900,
    }
    node = Half(node_id=1, role="controller", **said)
    cluster = Described(name="c", registry="log", nodes=(node,), voters=(1,), stored=said["levels"])
    lines = [*lines_of(cluster), voters("1@h:1,9@h:1")]
    sight = see(lines, catalogue=CATALOGUE, as_of=None, max_age=ANY_AGE)
    assert verdicts(sight) == {METADATA_VERSION: "BLOCKED", "f": "BLOCKED"}
    assert make_plan(sight, Intent(command=Command.UPGRADE_ALL), CATALOGUE).plan is None


@pytest.mark.parametrize("level", [14, 20])
def test_who_is_configured_and_vouched_for_is_in_no_plans_way(level: int) -> None:
    """Below 15 it votes and nobody registers; above it is registered, and nobody could ask it."""
    said: dict[str, Any] = {
        "ranges": {METADATA_VERSION: (1, 21), KRAFT_VERSION: (0, 1)},
        "levels": {METADATA_VERSION: level},
        "epoch": 900,
    }
    nodes = [Half(node_id=1, role="controller", **said)]
    if level == 20:
        nodes.append(Half(node_id=9, role="controller", ranges={}, answered=None, failed=1))
    cluster = described(nodes=(*nodes, Half(node_id=5, **said)), voters=(1, 9))
    entry = Entry(id="c", controllers_complete=True)
    sight = see(
        [*lines_of(cluster), voters("1@h:1,9@h:1")],
        catalogue=CATALOGUE, as_of=None, max_age=ANY_AGE, fleet=Fleet(cluster=(entry,)),
    )  # fmt: skip
    assert verdicts(sight)[METADATA_VERSION] == "READY"
    planned = make_plan(sight, Intent(command=Command.UPGRADE_ALL), CATALOGUE)
    assert planned.plan is not None, planned.refusals


def test_ids_are_read_in_order_and_once() -> None:
    assert voter_ids("3@a:1, 1@[::1]:2,3@a:1") == (3, 1)
    assert voter_ids("") == ()
    assert voter_ids(None) is None
    assert voter_ids("1@a:1,b") is None


CONTROLLER = Node(node_id=1, role=Role.CONTROLLER, supported=RANGES, release="4.4.0", voter=True)
PLAIN = Cluster(
    release="4.4.0",
    nodes=(CONTROLLER, replace(CONTROLLER, role=Role.BROKER, voter=False)),
    active=1,
    finalized={name: (level, level) for name, level in LEVELS.items()},
    raft_level=1,
)


@pytest.mark.parametrize(
    ("configured", "missing", "code"),
    [(None, False, 0), ((), False, 0), ((1,), False, 0), ((1, 9), False, 95),
     (None, True, 0), ((1, 2), True, 95), ((1,), True, 0)],
)  # fmt: skip
def test_a_plain_cluster_says_whom_its_controller_is_configured_to_ask(
    configured: tuple[int, ...] | None, missing: bool, code: int
) -> None:
    two = replace(CONTROLLER, node_id=2, registered=False)
    nodes = (*PLAIN.nodes, two) if missing else PLAIN.nodes
    cluster = replace(PLAIN, nodes=nodes, configured_voters=configured)
    request = Request(updates=(Update(feature=SHARE, level=2),), validate_only=True)
    for name in ("kraft-4.0", "kraft-4.2"):
        assert answer(cluster, request, load(name), CATALOGUE.tables).reply.code == code, name
    static = replace(cluster, raft_level=0)
    expected = 95 if missing and configured is None else code
    assert answer(static, request, load("kraft-4.2"), CATALOGUE.tables).reply.code == expected
