"""What nodes say they are configured with: kept by node and resource, and read by key."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from featurelib.audit.evidence import (
    ALL_BROKERS,
    KAFKAS_DEFAULT,
    NOT_LISTED,
    ONE_BROKER,
    OWN_FILE,
    Configurations,
    ConfiguredValue,
)
from featurelib.catalogue import load as load_catalogue
from featurelib.feature import Role
from featurelib.landing.responses import KEYS
from featurelib.snapshot import fold_lines
from featurelib.snapshot.records import Snapshots
from featurelib.snapshot.state import freeze
from tests.core.lines import configs_line, judge_rows, landings, lines_of, snapshot
from tests.core.oracle import METADATA, Cluster, Node

VOTERS, MIN_ISR = "controller.quorum.voters", "min.insync.replicas"
RANGES = {METADATA: (7, 27)}
SAID = {"levels": {METADATA: 25}, "epoch": 900}
BROKER = Node(node_id=1, ranges=RANGES, **SAID)  # type: ignore[arg-type]
VOTER = Node(node_id=1, role="controller", ranges=RANGES, **SAID)  # type: ignore[arg-type]
READY = Cluster(name="c", registry="fenced", nodes=(BROKER, VOTER), voters=(1,))
READY_LINES = lines_of(READY)


def configured(*lines: bytes) -> Configurations:
    rows = snapshot({"other": [], "c": list(lines)})
    return Configurations(Snapshots(rows)["configs"])


def values(said: ConfiguredValue | None) -> tuple[str | None, int] | None:
    return None if said is None else (said.value, said.source)


def test_a_value_is_found_by_cluster_role_node_and_key_with_its_time_and_line() -> None:
    line = configs_line(3, "controller", {"": {}, "3": {VOTERS: ("3@h:1", OWN_FILE)}})
    [(landing, line_id)] = landings([line])
    said = configured(line)
    at = landing.observed_at
    assert said.of(1, Role.CONTROLLER, 3, VOTERS) == ConfiguredValue(
        node_id=3,
        role=Role.CONTROLLER,
        resource="3",
        key=VOTERS,
        value="3@h:1",
        source=OWN_FILE,
        at=at or 0,
        line=line_id,
    )
    assert values(said.of(1, Role.CONTROLLER, 3, MIN_ISR)) == (None, NOT_LISTED)
    assert said.of(1, Role.BROKER, 3, VOTERS) is None  # nobody asked the broker's half
    assert said.of(0, Role.CONTROLLER, 3, VOTERS) is None
    assert said.of(1, Role.CONTROLLER, 3, "log.dirs") is None  # not a key that is asked for


def test_the_default_of_all_brokers_is_the_newest_answer_about_it() -> None:
    lines = [
        configs_line(1, "broker", {"1": {MIN_ISR: ("3", ONE_BROKER)}, "": {}}, age=3),
        configs_line(2, "broker", {"2": {}, "": {MIN_ISR: ("2", ALL_BROKERS)}}, age=2),
        configs_line(3, "broker", {"3": {MIN_ISR: ("1", KAFKAS_DEFAULT)}}, age=1),
    ]
    for some in itertools.permutations(lines):
        said = configured(*some)
        assert values(said.default(1, MIN_ISR)) == ("2", ALL_BROKERS)
        assert values(said.of(1, Role.BROKER, 1, MIN_ISR)) == ("3", ONE_BROKER)
        assert said.default(0, MIN_ISR) is None
    assert values(configured(lines[0]).default(1, MIN_ISR)) == (None, NOT_LISTED)


def test_a_newer_answer_takes_the_place_of_all_that_an_older_one_said() -> None:
    old = configs_line(1, "broker", {"1": {MIN_ISR: ("3", ONE_BROKER), VOTERS: ("", 5)}}, age=2)
    new = configs_line(1, "broker", {"1": {VOTERS: ("1@h:1", OWN_FILE)}}, age=1)
    states = [
        freeze(fold_lines(landings(list(some)), load_catalogue()))
        for some in ([old, new], [new, old], [new, old, new])
    ]
    assert len(set(states)) == 1
    said = configured(old, new)
    assert values(said.of(1, Role.BROKER, 1, VOTERS)) == ("1@h:1", OWN_FILE)
    assert values(said.of(1, Role.BROKER, 1, MIN_ISR)) == (None, NOT_LISTED)


def test_what_is_sensitive_or_not_asked_for_is_not_kept() -> None:
    raw = msgspec.json.decode(configs_line(1, "broker", {"1": {MIN_ISR: ("3", 4)}}))
    (entry,) = raw["answer"]["results"][0]["configs"]
    raw["answer"]["results"][0]["configs"] += [
        entry | {"name": "ssl.keystore.password", "value": "hunter2"},
        entry | {"name": "node.id", "value": "hunter3", "is_sensitive": True},
    ]
    state = fold_lines(landings([msgspec.json.encode(raw)]), load_catalogue())
    assert [one.values for one in state.configs] == [((MIN_ISR, "3", 4),)]
    assert b"hunter" not in freeze(state)


def test_an_error_about_a_resource_says_nothing_of_it_and_keeps_the_others() -> None:
    raw = msgspec.json.decode(configs_line(1, "broker", {"1": {MIN_ISR: ("3", 4)}, "": {}}))
    raw["answer"]["results"][1] |= {"error_code": 42, "resource_name": "77"}
    said = configured(msgspec.json.encode(raw))
    assert values(said.of(1, Role.BROKER, 1, MIN_ISR)) == ("3", 4)
    assert said.default(1, MIN_ISR) is None
    raw["answer"]["results"][0]["error_code"] = 42
    assert configured(msgspec.json.encode(raw)).of(1, Role.BROKER, 1, MIN_ISR) is None


@pytest.mark.parametrize("by_resource", [True, False])
def test_a_refused_look_at_configurations_is_a_right_that_is_withheld(by_resource: bool) -> None:
    raw = msgspec.json.decode(configs_line(1, "controller", {"1": {}}))
    if by_resource:
        raw["answer"]["results"][0]["error_code"] = 31
    else:
        raw |= {"error": "not authorized", "error_code": 31}
        del raw["answer"], raw["version"]
    raw["principal"] = "User:auditor"
    lines = [*READY_LINES, msgspec.json.encode(raw)]
    said = judge_rows(snapshot({"c": lines}), [READY])
    [row] = [row for row in said.findings.to_pylist() if row["code"].startswith("right_")]
    assert (row["code"], row["detail"]) == (
        "right_withheld",
        "DESCRIBE_CONFIGS on CLUSTER; DescribeConfigs was refused to User:auditor by controller 1 "
        "(error 31), which shows whom controllers are configured to ask, and which settings a "
        "level overwrites",
    )
    assert said.readiness["verdict"].to_pylist() == ["READY"]
    answered = configs_line(1, "controller", {"1": {}}, age=0)
    said = judge_rows(snapshot({"c": [*lines, answered]}), [READY])
    assert "right_withheld" not in said.findings["code"].to_pylist()


def test_every_key_is_no_secret_and_stands_once_in_order() -> None:
    assert list(KEYS) == sorted(set(KEYS))
    assert not [key for key in KEYS if "password" in key or "jaas" in key or "secret" in key]
