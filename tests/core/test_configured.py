"""What a collector may see, and what nodes say they are configured with: a right that is missing is
a finding that names it, and whom a controller asks stands in its own configuration."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from featurelib.audit.cluster_view import ClusterView
from featurelib.audit.evidence import (
    ALL_BROKERS,
    KAFKAS_DEFAULT,
    NOT_LISTED,
    ONE_BROKER,
    OWN_FILE,
    VOTERS,
    Configurations,
    Expected,
    voter_ids,
)
from featurelib.audit.findings import FindingWords
from featurelib.catalogue import load as load_catalogue
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.core.cluster import Cluster, Node, Request, Update
from featurelib.core.dialect import STRICT, load
from featurelib.core.dry_run import answer, refused_by
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role
from featurelib.findings import Action
from featurelib.landing.responses import KEYS
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan
from featurelib.planning.reasons import Fix, unlock
from featurelib.snapshot import begin, fold_lines
from featurelib.snapshot.records import Snapshots
from featurelib.snapshot.state import freeze
from tests.core.frozen import expect_frozen
from tests.core.lines import (
    codes,
    configs_line,
    findings,
    judge_lines,
    judge_rows,
    landings,
    lines_of,
    readiness,
    refusal_line,
    snapshot,
    told,
    verdicts,
)
from tests.core.oracle import Cluster as Described
from tests.core.oracle import Node as Half
from tests.facts import first_fact
from tests.seeing import see

CATALOGUE = load_catalogue()
RECORDED = Path(__file__).parents[1] / "data" / "configured_voters"
MIN_ISR, SHARE, ANY_AGE = "min.insync.replicas", "share.version", 10**15
RANGES = {METADATA_VERSION: (7, 33), KRAFT_VERSION: (0, 1), SHARE: (0, 2)}
LEVELS = {METADATA_VERSION: 33, KRAFT_VERSION: 1, SHARE: 1}
Lines = Iterable[bytes]


def half(node_id: int, role: str = "controller", **keys: Any) -> Half:
    said: dict[str, Any] = {"ranges": RANGES, "levels": LEVELS, "epoch": 900}
    return Half(node_id=node_id, role=role, **said | keys)


def described(levels: Mapping[str, int] = LEVELS, *more: Half, **changes: Any) -> Described:
    """A broker and a controller that votes; all they show says READY."""
    nodes = half(5, "broker", levels=dict(levels)), half(1, levels=dict(levels)), *more
    made = Described(name="c", registry="fenced", controllers_listed=True, nodes=nodes, voters=(1,))
    return replace(made, **changes)


def without(line: bytes, *keys: str, **others: object) -> bytes:
    """A line without some keys, and with others."""
    kept = {key: value for key, value in json.loads(line).items() if key not in keys}
    return json.dumps(kept | others).encode()


# --- Rights ---------------------------------------------------------------------------------------

STATIC = {**LEVELS, KRAFT_VERSION: 0}
READY = lines_of(described(STATIC, controllers_listed=False))
UNSEEN = lines_of(replace(described(STATIC), nodes=described(STATIC).nodes[:1], voters=None,
                          controllers_listed=False))  # fmt: skip
LOGGED = lines_of(described(STATIC, registry="log", stored=STATIC, voters=None))
REFUSED = refusal_line("c", principal="User:auditor")
CONFIGS = configs_line(1, "controller", {"1": {}})
PRINCIPAL = "User:CN=ops, O=us"
ANSWERED = {"version": 1, "answer": {"error_code": 31, "topics": []}}
WORD = Expected(controllers_vouched=True)


def with_error(code: int, at: int, line: bytes, **keys: object) -> bytes:
    raw = json.loads(line)
    raw["answer"]["results"][at] |= {"error_code": code} | keys
    return json.dumps(raw).encode()


# What is found of each: data/frozen/rights.txt.
RIGHTS: dict[str, tuple[Lines, Expected | None]] = {
    "nobody is refused, and who votes is not known": (UNSEEN, None),
    "a refusal takes the place of what it hides": ([*UNSEEN, REFUSED], None),
    "also where a log says that it is KRaft": ([*LOGGED, REFUSED], None),
    "the raw answer of another collector says the same": (
        [*UNSEEN, without(refusal_line("c"), "error", "error_code", **ANSWERED)], None),
    "both halves that refuse are one finding": (
        [*UNSEEN, refusal_line("c", principal="User:a"),
         refusal_line("c", listener="controller", asked_node=3, principal="User:b")], None),
    "no error, no missing right": ([*UNSEEN, without(refusal_line("c"), "error_code")], None),
    **{f"error {code} is no missing right": ([*UNSEEN, refusal_line("c", error_code=code)], None)
       for code in (0, 29, 42)},
    "all is seen": (READY, None),
    "a right that was taken away since": ([*READY, refusal_line("c", age=0)], None),
    "a right that was given since": ([*READY, refusal_line("c", age=5)], None),
    "a right that one half of the nodes does not need": (
        [*READY, refusal_line("c", listener="controller", principal=PRINCIPAL)], None),
    "an owner who vouches for the controllers": ([*UNSEEN, refusal_line("c")], WORD),
    "controllers that list each other to nobody else": (
        [*READY, refusal_line("c", kind="describe_cluster", listener="controller",
                              endpoint_type=2)], None),
    "configurations refused by resource": (
        [*READY, with_error(31, 0, without(CONFIGS, principal="User:auditor"))], None),
    "configurations refused as a whole": (
        [*READY, without(CONFIGS, "answer", "version", error="not authorized", error_code=31,
                         principal="User:auditor")], None),
    "every node refused, one of them of another principal, and one longer ago": (
        [*UNSEEN, *(refusal_line("c", age=1, asked_node=i, principal="User:a") for i in (2, 1, 3)),
         refusal_line("c", age=1, asked_node=9, listener="controller", principal="User:b"),
         refusal_line("c", age=1, asked_node=8, listener="controller", principal="User:a"),
         refusal_line("c", age=5, asked_node=4, principal="User:a")], None),
    "configurations shown since": (
        [*READY, with_error(31, 0, CONFIGS), configs_line(1, "controller", {"1": {}}, age=0)],
        None),
}  # fmt: skip


def test_a_right_that_is_missing_is_named_and_never_ready() -> None:
    said = {name: judge_lines(lines, word) for name, (lines, word) in RIGHTS.items()}
    expect_frozen("rights", {name: told(judged) for name, judged in said.items()})
    missing = [one for one in said.values() if "right_missing" in codes(one)]
    assert len(missing) == 6
    assert not [one for one in missing if "READY" in verdicts(one).values()]
    withheld = [row for one in said.values() for row in findings(one, "right_withheld")]
    assert {row["severity"] for row in withheld} == {"info"}
    [row] = findings(said["a refusal takes the place of what it hides"], "right_missing")
    [(landing, line_id)] = landings([REFUSED])
    at = int(row["observed_at"].timestamp() * 1_000_000)
    assert (row["line_id"], at, row["severity"]) == (line_id, landing.observed_at, "unknown")


def test_a_long_principal_and_every_node_that_refused_are_named_in_whole_sentences() -> None:
    lines = [
        refusal_line("c", asked_node=node, listener=half, principal=f"User:CN={'x' * 200}")
        for half, nodes in (("broker", (1, 2, 3)), ("controller", (100, 101, 102)))
        for node in nodes
    ]
    [row] = findings(judge_lines([*UNSEEN, *lines]), "right_missing")
    message = FindingWords(CATALOGUE).of(row).message
    assert " by brokers 1-3 and controllers 100-102 (error 31), which shows the voters " in message
    assert message.endswith(" listeners of controllers.")
    assert "x" * 120 not in message


def test_rights_of_one_cluster_say_nothing_of_another() -> None:
    other = [line.replace(b'"c"', b'"d"') for line in READY]
    said = judge_rows(snapshot({"c": [*UNSEEN, REFUSED], "d": other}))
    assert [row["cluster"] for row in findings(said, "right_missing")] == ["c"]


def states(lines: Lines) -> bytes:
    return freeze(fold_lines(landings(lines), CATALOGUE))


def test_refusals_fold_the_same_in_any_order_and_over_nights() -> None:
    lines = [
        refusal_line("c", age=3, principal="User:a"),
        refusal_line("c", age=1, principal="User:b"),
        refusal_line("c", age=2, listener="controller"),
        READY[-1],  # DescribeQuorum, answered
    ]
    whole = states(lines)
    assert {states(some) for some in itertools.permutations(lines)} == {whole}
    stored: bytes | None = None
    for night in lines:
        fold = begin(stored, CATALOGUE)
        for landing, line_id in landings([night]):
            fold.add(landing, line_id)
        fold.close_run()
        stored = freeze(fold.finish())
    assert stored == whole


# --- What nodes are configured with ---------------------------------------------------------------


def configured(*lines: bytes) -> Configurations:
    return Configurations(Snapshots(snapshot({"other": [], "c": list(lines)}))["configs"])


def value(
    said: Configurations, role: Role, node_id: int, key: str
) -> tuple[str | None, int] | None:
    found = said.of(1, role, node_id, key)
    return None if found is None else (found.value, found.source)


def test_a_value_is_found_by_cluster_role_node_and_key_with_its_time_and_line() -> None:
    line = configs_line(3, "controller", {"": {}, "3": {VOTERS: ("3@h:1", OWN_FILE)}})
    [(landing, line_id)] = landings([line])
    said = configured(line)
    found = said.of(1, Role.CONTROLLER, 3, VOTERS)
    assert found is not None
    assert (found.value, found.source, found.resource) == ("3@h:1", OWN_FILE, "3")
    assert (found.at, found.line, found.node_id) == (landing.observed_at, line_id, 3)
    assert value(said, Role.CONTROLLER, 3, MIN_ISR) == (None, NOT_LISTED)
    assert value(said, Role.BROKER, 3, VOTERS) is None  # nobody asked the broker's half
    assert said.of(0, Role.CONTROLLER, 3, VOTERS) is None
    assert value(said, Role.CONTROLLER, 3, "log.dirs") is None  # not a key that is asked for


def test_the_newest_answer_about_a_resource_takes_the_place_of_all_that_an_older_one_said() -> None:
    lines = [
        configs_line(1, "broker", {"1": {MIN_ISR: ("3", ONE_BROKER)}, "": {}}, age=3),
        configs_line(2, "broker", {"2": {}, "": {MIN_ISR: ("2", ALL_BROKERS)}}, age=2),
        configs_line(3, "broker", {"3": {MIN_ISR: ("1", KAFKAS_DEFAULT)}}, age=1),
    ]
    for some in itertools.permutations(lines):
        said = configured(*some)
        default = said.default(1, MIN_ISR)
        assert default is not None
        assert (default.value, default.source) == ("2", ALL_BROKERS)
        assert value(said, Role.BROKER, 1, MIN_ISR) == ("3", ONE_BROKER)
        assert said.default(0, MIN_ISR) is None
    old = configs_line(1, "broker", {"1": {MIN_ISR: ("3", ONE_BROKER), VOTERS: ("", 5)}}, age=2)
    new = configs_line(1, "broker", {"1": {VOTERS: ("1@h:1", OWN_FILE)}}, age=1)
    assert len({states(some) for some in ([old, new], [new, old], [new, old, new])}) == 1
    assert value(configured(old, new), Role.BROKER, 1, VOTERS) == ("1@h:1", OWN_FILE)
    assert value(configured(old, new), Role.BROKER, 1, MIN_ISR) == (None, NOT_LISTED)


def test_what_is_sensitive_or_not_asked_for_is_not_kept() -> None:
    raw = msgspec.json.decode(configs_line(1, "broker", {"1": {MIN_ISR: ("3", 4)}}))
    (entry,) = raw["answer"]["results"][0]["configs"]
    raw["answer"]["results"][0]["configs"] += [
        entry | {"name": "ssl.keystore.password", "value": "hunter2"},
        entry | {"name": "node.id", "value": "hunter3", "is_sensitive": True},
    ]
    state = fold_lines(landings([msgspec.json.encode(raw)]), CATALOGUE)
    assert [one.values for one in state.configs] == [((MIN_ISR, "3", 4),)]
    assert b"hunter" not in freeze(state)
    assert list(KEYS) == sorted(set(KEYS))
    assert not [key for key in KEYS if "password" in key or "jaas" in key or "secret" in key]


def test_an_error_about_a_resource_says_nothing_of_it_and_keeps_the_others() -> None:
    both = configs_line(1, "broker", {"1": {MIN_ISR: ("3", 4)}, "": {}})
    one = with_error(42, 1, both, resource_name="77")
    assert value(configured(one), Role.BROKER, 1, MIN_ISR) == ("3", 4)
    assert configured(one).default(1, MIN_ISR) is None
    assert value(configured(with_error(42, 0, one)), Role.BROKER, 1, MIN_ISR) is None


# --- Whom a controller asks: recorded on real 3.9.2 and 4.4.0 -------------------------------------


def recorded(name: str, *, read: bool = True) -> ClusterView:
    """A recorded look; `read` = with what nodes are configured with."""
    lines = (RECORDED / f"{name}.jsonl").read_bytes().splitlines()
    kept = [line for line in lines if read or b'"describe_configs"' not in line]
    return see(kept, catalogue=CATALOGUE, as_of=None, max_age=ANY_AGE)


def test_a_removed_and_unregistered_controller_that_was_left_in_the_configuration_blocks() -> None:
    view = recorded("left-behind")
    assert verdicts(view.judged)[SHARE] == "BLOCKED"
    [row] = findings(view.judged, "configured_voter_not_registered")
    assert (row["role"], row["node_id"], row["feature"], first_fact(row)) == (
        "controller", 2, SHARE, "1",
    )  # fmt: skip
    [warned] = findings(view.judged, "dynamic_quorum_with_static_voters")
    assert (warned["node_id"], first_fact(warned)) == (1, "1, 2; 2 not registered")
    way = unlock(view.cluster, CATALOGUE, SHARE, 2)
    assert way.fixes == (Fix(role=Role.CONTROLLER, node_id=2, action=Action.RECONFIGURE),)
    assert way.remaining_rules == ()


@pytest.mark.parametrize("name", ["left-behind", "mended", "moved-to-dynamic"])
def test_where_its_configuration_was_not_read_that_is_unknown_and_never_ready(name: str) -> None:
    judged = recorded(name, read=False).judged
    # What cannot go up does not hang on it.
    assert (verdicts(judged)[SHARE], verdicts(judged)[METADATA_VERSION]) == (
        "UNKNOWN",
        "UP_TO_DATE",
    )
    assert "configured_voters_unknown" in codes(judged)


def test_an_empty_configuration_asks_for_nobody_and_the_policy_still_wants_every_voter() -> None:
    view = recorded("voter-unregistered")
    assert verdicts(view.judged)[SHARE] == "BLOCKED"
    assert "voter_not_registered" in codes(view.judged)
    request = Request(updates=(Update(feature=SHARE, level=2),), validate_only=True)
    own = answer(view.cluster, request, load("kraft-4.2"), CATALOGUE.tables)
    assert own.reply.code == 0  # as the real controller answered
    [refused] = refused_by([(view.cluster, request)], load(STRICT), CATALOGUE.tables)
    assert "voter_not_registered" in refused


@pytest.mark.parametrize(
    ("name", "dialect", "feature", "level", "node"),
    [
        ("left-behind", "kraft-4.2", SHARE, 2, 2),
        ("left-behind-3.9", "kraft-3.9", METADATA_VERSION, 21, 9),
    ],
)
def test_the_words_are_kafkas_own(
    name: str, dialect: str, feature: str, level: int, node: int
) -> None:
    request = Request(updates=(Update(feature=feature, level=level),), validate_only=True)
    reply = answer(recorded(name).cluster, request, load(dialect), CATALOGUE.tables).reply
    said = reply.message or "".join(one.message or "" for one in reply.results or ())
    assert said.endswith(
        f"Invalid update version {level} for feature {feature}. controller {node} has not "
        "registered, and may not support this feature"
    )


def voters(text: str | None, node_id: int = 1, age: int = 1) -> bytes:
    source = OWN_FILE if text else KAFKAS_DEFAULT
    said: dict[str, tuple[str | None, int]] = {VOTERS: (text, source)}
    return configs_line(node_id, "controller", {str(node_id): said}, age=age)


TWO = described(LEVELS, half(2), voters=(1, 2))
UNLISTED = described(controllers_listed=False)
LOW = {METADATA_VERSION: 14, SHARE: 0}  # nobody is asked yet; from 15 on nothing would move, so
# no level beside metadata.version becomes a default
Asked = tuple[Described, Lines, str]  # a cluster, what was read, the verdict about share.version
# What is found of each: data/frozen/configured_voters.txt.
ASKED: dict[str, Asked] = {
    "a dynamic quorum whose configuration was not read": (described(), (), "UNKNOWN"),
    "at 31": (described({**LEVELS, METADATA_VERSION: 31}), (), "READY"),
    "at 32 controllers cannot be unregistered yet": (
        described({**LEVELS, METADATA_VERSION: 32}), (), "READY"),
    "a static quorum": (described(STATIC), (), "READY"),
    "nobody is configured": (described(), [voters("")], "READY"),
    "read too long ago": (described(), [voters("", age=100)], "UNKNOWN"),
    **{f"voters that cannot be read, {text}": (described(), [voters(text)], "UNKNOWN")
       for text in (None, "1", "x@h:1", "1@", "99999999999@h:1", "9999999999@h:1")},
    "who leads next is configured otherwise": (
        TWO, [voters(""), voters("1@h:1,2@h:1,9@h:1", node_id=2)], "READY"),
    "who is registered and does not vote is in nobody's way": (
        replace(TWO, voters=(1,)), [voters("1@h:1,2@h:1")], "READY"),
    "a stranger, without a list of controllers": (UNLISTED, [voters("1@h:1,7@h:1")], "UNKNOWN"),
    "nobody strange, without a list": (UNLISTED, [voters("1@h:1")], "READY"),
    "nobody at all, without a list": (UNLISTED, [voters("")], "READY"),
    "a stranger, vouched for": (
        replace(UNLISTED, controllers_vouched=True), [voters("1@h:1,7@h:1")], "READY"),
    "a static quorum, all registered": (described(STATIC), [voters("1@h:1")], "READY"),
    "a static quorum, one not": (described(STATIC), [voters("1@h:1,4@h:1")], "BLOCKED"),
    "even while nobody is asked": (described(LOW), [voters("1@h:1,4@h:1")], "UP_TO_DATE"),
}  # fmt: skip


def test_who_is_configured_to_be_asked_is_held_to_be_registered() -> None:
    said = {}
    for name, (cluster, lines, verdict) in ASKED.items():
        judged = judge_rows(snapshot({"c": [*lines_of(cluster), *lines]}), [cluster])
        assert readiness(judged, SHARE)["verdict"] == verdict, name
        said[name] = told(judged)
    expect_frozen("configured_voters", said)


def test_no_plan_ends_where_a_leftover_lets_nothing_move_any_more() -> None:
    """3.9 takes metadata.version 21 at 14, and then refuses whatever comes after it."""
    levels = {METADATA_VERSION: 14}
    node = half(1, ranges={METADATA_VERSION: (1, 21)}, levels=levels)
    cluster = Described(name="c", registry="log", nodes=(node,), voters=(1,), stored=levels)
    lines = [*lines_of(cluster), voters("1@h:1,9@h:1")]
    view = see(lines, catalogue=CATALOGUE, as_of=None, max_age=ANY_AGE)
    assert verdicts(view.judged) == {METADATA_VERSION: "BLOCKED"}
    assert make_plan(view, Intent(command=Command.UPGRADE_ALL), CATALOGUE).plan is None


@pytest.mark.parametrize("level", [14, 20])
def test_who_is_configured_and_vouched_for_is_in_no_plans_way(level: int) -> None:
    """Below 15 it votes and nobody registers; above it is registered, and nobody could ask it."""
    keys = {"ranges": {METADATA_VERSION: (1, 21), KRAFT_VERSION: (0, 1)}}
    keys |= {"levels": {METADATA_VERSION: level}}
    silent = half(9, ranges={}, answered=None, failed=1, levels=None, epoch=-1)
    nodes = half(1, **keys), half(5, "broker", **keys), *([silent] if level == 20 else [])
    cluster = described(nodes=nodes, voters=(1, 9))
    fleet = Fleet(cluster=(FleetEntry(id="c", controllers_complete=True),))
    lines = [*lines_of(cluster), voters("1@h:1,9@h:1")]
    view = see(lines, catalogue=CATALOGUE, as_of=None, max_age=ANY_AGE, fleet=fleet)
    assert verdicts(view.judged)[METADATA_VERSION] == "READY"
    planned = make_plan(view, Intent(command=Command.UPGRADE_ALL), CATALOGUE)
    assert planned.plan is not None, planned.refusals


def test_ids_are_read_in_order_and_once() -> None:
    read = {"3@a:1, 1@[::1]:2,3@a:1": (3, 1), "": (), None: None, "1@a:1,b": None}
    read |= {"2147483647@a:1": (2147483647,), "2147483648@a:1": None}  # an id is Kafka's int
    assert {text: voter_ids(text) for text in read} == read


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
