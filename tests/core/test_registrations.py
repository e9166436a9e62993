"""Who is registered, and what that says: only what Kafka itself does not see is gone; what we
cannot reach is silent; and the owner's word stands for controllers nobody can ask."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from featurelib.audit.evidence import Expected
from featurelib.audit.findings import FindingWords
from featurelib.catalogue import load as catalogue
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.findings import first_fit, ways
from featurelib.planning.reasons import Reasons
from featurelib.questions.why_not import why_not
from tests.core.frozen import expect_frozen
from tests.core.lines import (
    MAX_AGE,
    answer_line,
    at,
    codes,
    configs_line,
    failure_line,
    findings,
    judge_clusters,
    judge_lines,
    line_of,
    lines_of,
    listing,
    log_lines,
    quorum_line,
    readiness,
    told,
)
from tests.core.oracle import BROKER, CONTROLLER, METADATA, Cluster, Node
from tests.core.test_agreement import znode, zookeeper
from tests.facts import first_fact
from tests.report.samples import SAMPLES
from tests.seeing import see

OLD, NEW = {METADATA: (7, 25)}, {METADATA: (7, 29)}
LEVELS = {METADATA: 25}
Lines = Iterable[bytes]


def quorum(voters: Lines, observers: Lines = (), age: int = 1, end: int = 10) -> bytes:
    return quorum_line("c", voters, observers, age, end)


def node(node_id: int, role: str = BROKER, **keys: Any) -> Node:
    said: dict[str, Any] = {"ranges": NEW, "levels": LEVELS, "epoch": 9, "answered": 1}
    return Node(node_id=node_id, role=role, **said | keys)


def answer(*which: Any, **keys: Any) -> bytes:
    return answer_line("c", node(*which, **keys))


def line_id(line: bytes) -> int:
    return int.from_bytes(hashlib.sha256(line).digest()[:8], signed=True)


def silence(*which: Any) -> bytes:
    return failure_line("c", node(*which, failed=1))


def log(*nodes: Node, age: int = 2, level: int = 25) -> list[bytes]:
    return log_lines(Cluster(name="c", nodes=nodes, stored={METADATA: level}), age)


def in_vain(age: int = 1) -> bytes:
    keys = {"asked_node": 1, "listener": "broker", "error": "no answer within 10 s"}
    return line_of("describe_quorum", "c", age, **keys)


ME = node(1), node(1, CONTROLLER)
ANSWERS = [answer(1), answer(1, CONTROLLER)]
MOST_SILENT = [*ANSWERS, silence(2, CONTROLLER), silence(3, CONTROLLER)]
HEADLESS, IN_VAIN = [*MOST_SILENT, quorum([(1, 0), (2, 0), (3, 0)], age=30)], in_vain()
THREE = listing(*((i, False) for i in (1, 2, 3)), kind=2)
KNOWS_NONE = THREE.replace(b'"controller_id": 1', b'"controller_id": -1')
KNOWN = quorum([(1, 0), (2, 0), (3, 0)], age=30)
ALL_RUN = [*ANSWERS, *(answer(i, CONTROLLER) for i in (2, 3)), KNOWN, listing((1, False))]
NUMBERS = (b"1", b"2", b"3")
ALL_LOST = [KNOWS_NONE.replace(b'"asked_node": 1', b'"asked_node": ' + i) for i in NUMBERS]
ALL_LOST += ALL_RUN
TWO_LOST = [*ALL_LOST[1:], quorum([(1, 0), (2, 0), (3, 0)]), THREE]
AGAIN = [answer(1, answered=0), *(answer(i, CONTROLLER, answered=0) for i in (1, 2, 3))]
AGAIN += [listing((1, False), age=0), quorum([(1, 0), (2, 0), (3, 0)], age=0)]
AWAY = (7, 0), (8, 0), (9, 0)
UNASKED = [answer(1), answer(2), IN_VAIN, listing((1, False), (2, False))]
HALVES = [answer(1), *(silence(i, CONTROLLER) for i in (1, 2, 3)), quorum([1, 2, 3], age=30)]
TWO = listing((1, False), (2, False), kind=2)
BASE = [*ANSWERS, quorum([(1, 0)]), listing((1, False), kind=2)]
SILENT = [*BASE, silence(2)]
ALONE = listing((1, False))


def lost(*lines: bytes, level: int = 25) -> list[bytes]:
    """Controller 2 is registered by the log with old software, and `lines`."""
    known = {"levels": {METADATA: level}}
    answers = [answer(1, **known), answer(1, CONTROLLER, **known)]
    return [*answers, *log(*ME, node(2, CONTROLLER, ranges=OLD), level=level), *lines]


GONE = TWO, quorum([(1, 0)], [(1, 0)]), ALONE
EARLIER = answer(2, CONTROLLER, ranges=OLD, answered=40)
UNTIMED = [
    quorum([(1, 0)], [(7, 57)]).replace(b', "last_fetch_timestamp": 1794999943000', said)
    for said in (b"", b', "last_fetch_timestamp": -1')
]

# What there is → the verdict about metadata.version, and the lines. data/frozen/registrations.txt
# has all that is found.
SCENES: dict[str, tuple[str, Lines]] = {
    "a broker that only we cannot reach is silent": (
        "UNKNOWN", [*SILENT, listing((1, False), (2, False))]),
    "a fenced broker is a ghost, and that it did not answer is said": (
        "UNKNOWN", [*SILENT, listing((1, False), (2, True))]),
    "a ghost is judged by the range it was last seen with": (
        "BLOCKED", [*SILENT, answer(2, ranges=OLD, answered=20), listing((1, False), (2, True))]),
    "a ghost where levels are unknown is started again": (
        "UNKNOWN", [answer(1, epoch=-1, levels=None), answer(1, CONTROLLER, epoch=-1, levels=None),
                    quorum([(1, 0)]), silence(2), listing((1, False), (2, True))]),
    # 3.x: registered by the log, and not among the live brokers that were listed later.
    "a list that leaves out who is fenced is Kafka's word too": (
        "BLOCKED", [*SILENT, *log(*ME, node(2, ranges=OLD)),
                    listing((1, False), (2, True), version=1)]),
    "a list that shows who is fenced calls it live": (
        "BLOCKED", [*SILENT, *log(*ME, node(2, ranges=OLD)), listing((1, False), (2, False))]),
    "a registered controller that neither votes nor follows is a ghost": ("BLOCKED", lost(*GONE)),
    "an answer of days ago does not hide that a controller is gone": (
        "BLOCKED", lost(*GONE, EARLIER)),
    "and no failure of today does": ("BLOCKED", lost(*GONE, EARLIER, silence(2, CONTROLLER))),
    "a controller that votes is no ghost: starting it again is the way": (
        "BLOCKED", lost(TWO, ALONE, quorum([(1, 0), (2, 300)]))),
    "nor one that the leader saw fetch 10 seconds ago": (
        "BLOCKED", lost(TWO, ALONE, quorum([(1, 0)], [(2, 10)]))),
    "but 11 seconds ago is long ago": ("BLOCKED", lost(TWO, ALONE, quorum([(1, 0)], [(2, 11)]))),
    "nor one that fetches and does not answer us": (
        "BLOCKED", lost(TWO, ALONE, quorum([(1, 0)], [(2, 3)]), silence(2, CONTROLLER))),
    "nor one that may have come after the quorum was described": (
        "BLOCKED", lost(TWO, ALONE, quorum([(1, 0)], age=9))),
    "nor one that answers": (
        "READY", lost(TWO, ALONE, quorum([(1, 0)]), answer(2, CONTROLLER))),
    "nor one of a quorum that nobody described": ("BLOCKED", lost(TWO, ALONE)),
    "one of three voters that answers is no majority": (
        "UNKNOWN", [*MOST_SILENT, quorum([1, 2, 3])]),
    "but a majority runs where the leader sees it fetch": (
        "UNKNOWN", [*MOST_SILENT, quorum([(1, 0), (2, 0), (3, 10)])]),
    "or saw it in this look, and not in an earlier one": (
        "UNKNOWN", [*MOST_SILENT, quorum([(1, 0), (2, 0), (3, 0)], age=2)]),
    "a leader that sees no majority fetch leads nobody": (
        "UNKNOWN", [*ANSWERS, quorum([(1, 0), (2, 60), (3, 60)])]),
    "but one that was elected just now sees nobody yet": (
        "UNKNOWN", [*ANSWERS, quorum([(1, 0), 2, 3]), listing((1, False))]),
    "there is no leader where brokers ask for it in vain": ("UNKNOWN", [*HEADLESS, IN_VAIN]),
    "also where a broker gave up before the collector did": (
        "UNKNOWN", [*HEADLESS, IN_VAIN.replace(b'"error"', b'"error_code": 7, "error"')]),
    "or where a controller knows of none": ("UNKNOWN", [*HEADLESS, KNOWS_NONE]),
    "who does not answer us shows nothing": (
        "UNKNOWN", [*HEADLESS, silence(4), IN_VAIN.replace(b'node": 1', b'node": 4')]),
    "nor one that asked in vain in another night": (
        "UNKNOWN", [*HEADLESS, in_vain(30)]),
    "controllers stand in for voters that were never shown": (
        "UNKNOWN", [*MOST_SILENT, IN_VAIN]),
    "nor has a quorum whose voters all run, and know of none": ("UNKNOWN", [*ALL_LOST, IN_VAIN]),
    "or say nothing of it, as those that were started since": ("UNKNOWN", [*ALL_RUN, IN_VAIN]),
    "where all voters know of none an older leader does not count": ("UNKNOWN", ALL_LOST),
    "where no broker waits and a voter knows of one they may be electing": ("READY", TWO_LOST),
    "and have done so where it was described since": (
        "READY", [*ALL_LOST, *AGAIN, IN_VAIN]),
    "a broker waits in vain for voters whom nobody asks, too": (
        "UNKNOWN", [*UNASKED, quorum(AWAY, age=30)]),
    "but not where another is answered": ("UNKNOWN", [*UNASKED, quorum(AWAY)]),
    "a voter runs whose process answers as a broker": (
        "UNKNOWN", [*HALVES, answer(2), listing((1, False), (2, False))]),
    "unless it did so in another night": (
        "UNKNOWN", [*HALVES, answer(2, answered=30), listing((1, False), (2, False))]),
    "an only voter is a quorum, too": (
        "UNKNOWN", [answer(1), silence(1, CONTROLLER), quorum([(1, 0)], age=30), IN_VAIN]),
    "and that it does not answer says all": (
        "UNKNOWN", [answer(1), silence(1, CONTROLLER), quorum([(1, 0)], age=30)]),
    "two of three are": (
        "UNKNOWN", [*ANSWERS, answer(2, CONTROLLER), silence(3, CONTROLLER),
                    quorum([(1, 0), (2, 0), (3, 0)])]),
    "an observer that shown registrations lack is not registered": (
        "READY", [*ANSWERS, quorum([(1, 0)], [(1, 0), (7, 3)]), ALONE]),
    "an observer where fenced ones are not shown is not listed": (
        "UNKNOWN", [*ANSWERS, quorum([(1, 0)], [(1, 0), (7, 3)]), listing((1, False), version=1)]),
    "an observer is shown without times": ("READY", [*ANSWERS, UNTIMED[0], ALONE]),
    "or with the time of none": ("READY", [*ANSWERS, UNTIMED[1], ALONE]),
    "each voter that never registered is a row of its own": (
        "BLOCKED", [*ANSWERS, *log(*ME), quorum([(1, 0), (2, 0), (3, 0)]), ALONE]),
}  # fmt: skip


def test_who_is_gone_who_is_silent_and_what_that_makes_of_it() -> None:
    found = {name: judge_lines(lines) for name, (_, lines) in SCENES.items()}
    said = {name: readiness(judged, METADATA)["verdict"] for name, judged in found.items()}
    assert said == {name: verdict for name, (verdict, _) in SCENES.items()}
    expect_frozen("registrations", {name: told(judged) for name, judged in found.items()})


def test_a_node_that_a_newer_list_names_was_lost_from_that_look() -> None:
    """All brokers' answers of the newest look are lost, so half of them did not answer there."""
    earlier = [answer(number, answered=40) for number in (2, 3)]
    newest = [*ANSWERS[1:], quorum([(1, 0)]), listing((2, False), (3, False), age=1)]
    judged = judge_lines([*earlier, *newest])
    assert readiness(judged, METADATA)["verdict"] == "UNKNOWN"
    missed = {row["node_id"] for row in findings(judged, "node_not_asked")}
    assert missed == {2, 3}
    again = [answer(number) for number in (2, 3)]
    assert not findings(judge_lines([*earlier, *newest, *again]), "node_not_asked")


def test_a_plan_misses_what_the_verdict_misses() -> None:
    for name, (verdict, lines) in SCENES.items():
        view = see(lines, catalogue=catalogue(), as_of=None, max_age=MAX_AGE)
        missing = [*Reasons(view, catalogue()).of_unknown({METADATA: 29})]
        assert verdict == "BLOCKED" or bool(missing) == (verdict == "UNKNOWN"), name


def words(scene: Lines, code: str, node_id: int = 2) -> tuple[str, str, str]:
    """Message, remedy and command of a finding about a node."""
    [row] = findings(judge_lines(scene), code, node_id=node_id)
    said = FindingWords(catalogue()).of(row)  # type: ignore[arg-type]
    return said.message, said.action, said.command


SPOKE = answer(7, ranges={METADATA: (7, 24)}).replace(at(1, 7).encode(), at(1, -7).encode())
UNFIT = {"incompatible_with_finalized", "unsupported_by_node"}
NOT_REGISTERED = {"expected_node_not_registered"}
FOLLOWS, ALONE_FOLLOWS = quorum([(1, 0)], [(1, 0), (7, 3)]), quorum([(1, 0)], [(1, 0)])


@pytest.mark.parametrize(
    ("lines", "verdict", "found", "says"),
    [
        ([SPOKE, FOLLOWS], "BLOCKED", NOT_REGISTERED | UNFIT, "expected and responds, "),
        ([SPOKE, ALONE_FOLLOWS], "BLOCKED", NOT_REGISTERED | UNFIT, "expected and responds, "),
        ([SPOKE.replace(b'"max_version": 24', b'"max_version": 29'), FOLLOWS], "READY",
         NOT_REGISTERED, "expected and responds, "),
        ([FOLLOWS], "UNKNOWN", NOT_REGISTERED | {"node_not_asked"}, "and reads the metadata log, "),
        ([FOLLOWS, silence(7)], "UNKNOWN", NOT_REGISTERED | {"node_not_answering"}, "reads the"),
        ([ALONE_FOLLOWS], "UNKNOWN", {"expected_node_missing"}, "no data shows that node"),
        ([answer(7, ranges=OLD, answered=2), ALONE_FOLLOWS], "UNKNOWN", {"expected_node_missing"},
         "no data shows that node"),
        ([SPOKE, silence(7), ALONE_FOLLOWS], "UNKNOWN", {"expected_node_missing"}, "no data"),
        ([SPOKE, quorum([(1, 0)], [(7, 3)], age=0),
          listing((1, False), (7, False), age=0)], "BLOCKED",
         UNFIT | {"node_not_asked"}, ""),
    ],
    ids=["answers and follows", "answers", "answers and fits", "follows", "follows in silence",
         "does neither", "answered an hour before", "is silent since", "is registered"],
)  # fmt: skip
def test_who_is_expected_and_there_is_not_missing_and_what_it_supports_counts(
    lines: Lines, verdict: str, found: set[str], says: str
) -> None:
    said = judge_lines([*ANSWERS, ALONE, *lines], Expected(brokers=(1, 7)))
    assert readiness(said, METADATA)["verdict"] == verdict
    assert codes(said) == found
    for code in found - UNFIT - {"node_not_asked", "node_not_answering"}:
        [row] = findings(said, code)
        message = FindingWords(catalogue()).of(row).message  # type: ignore[arg-type]
        assert message.startswith(("Broker 7 is ", "The inventory expects broker 7, "))
        assert says in message
        assert row["line_id"] is not None or code == "expected_node_missing"


TOO_OLD = {METADATA: (7, 24)}
EARLIER_OLD = [answer(i, role, ranges=TOO_OLD, answered=20) for i, role in
               ((7, BROKER), (2, BROKER), (2, CONTROLLER))]  # fmt: skip
RESTART = (
    "Upgrade the software of broker 7 until it supports the finalized levels, and restart "
    "broker 7. If you unregistered broker 7 on purpose, stop broker 7 and remove the entry from "
    "fleet.toml."
)
START = (
    "Start controller 2 with software that supports the finalized levels, because the old software "
    "cannot start. If the node runs, find out why it does not respond."
)
SEEN = "Kafka listed the node at that time. If the node runs, check its address, its "


@pytest.mark.parametrize(
    ("lines", "silent", "unfit", "listed"),
    [
        ([SPOKE, FOLLOWS, ALONE], "", RESTART, RESTART),
        ([EARLIER_OLD[0], silence(7), FOLLOWS, ALONE], RESTART, RESTART, RESTART),
        ([EARLIER_OLD[2], silence(2, CONTROLLER), quorum([(1, 0), (2, 300)]), ALONE],
         START, START, ""),
        ([EARLIER_OLD[1], silence(2), quorum([(1, 0)]), listing((1, False), (2, False))],
         SEEN, "Upgrade the software of broker 2 until it supports the level, or remove ", ""),
    ],
    ids=["unregistered while it runs", "refused at its start", "a controller that is down",
         "only we cannot reach it"],
)  # fmt: skip
def test_nobody_is_told_to_start_a_node_with_software_that_does_not_fit(
    lines: Lines, silent: str, unfit: str, listed: str
) -> None:
    """What helps is the same in all that is found of the node."""
    expected = Expected(brokers=(1, 7) if listed else (1,))
    judged = judge_lines([*ANSWERS, *lines], expected)
    helps = {"node_not_answering": silent, "incompatible_with_finalized": unfit}
    for code, remedy in (helps | {"expected_node_not_registered": listed}).items():
        said = [FindingWords(catalogue()).of(row).action for row in findings(judged, code)]
        assert len(said) == bool(remedy), code
        assert all(one.startswith(remedy) for one in said), (code, said)


def test_a_controller_does_not_ask_a_broker_that_is_not_registered() -> None:
    """The policy does: it is expected, and would be refused when it starts."""
    fleet = Fleet(cluster=(FleetEntry(id="c", brokers=(1, 7)),))
    lines = [*ANSWERS, SPOKE, FOLLOWS, ALONE]
    one = see(lines, catalogue=catalogue(), as_of=None, max_age=MAX_AGE, fleet=fleet)
    asked = {(n.role.text, n.node_id): n.registered for n in one.cluster.nodes}
    assert asked == {(BROKER, 1): True, (CONTROLLER, 1): True, (BROKER, 7): False}
    proofs = why_not(one, METADATA, 29, catalogue()).proofs
    assert {proof.judge for proof in proofs if proof.node == "broker 7"} == {"strict"}
    assert {proof.judge for proof in proofs} == {"strict"}


@pytest.mark.parametrize(
    ("age", "found", "verdict"),
    [
        (0, {"range_unknown"}, "UNKNOWN"),
        (30, {"expected_node_missing"}, "UNKNOWN"),
    ],
    ids=["answered in that look", "answered a day before"],
)
def test_in_zookeeper_mode_who_answers_and_is_in_no_list_is_not_missing(
    age: int, found: set[str], verdict: str
) -> None:
    one = Node(node_id=1, ranges={"f": (1, 3)}, levels={"f": 2}, epoch=5)
    other = Node(node_id=7, ranges={"f": (1, 3)}, answered=age, listed=False)
    of = Cluster(name="c", zookeeper=True, nodes=(one, other), stored={"f": 2}, controller=1)
    said = judge_lines(lines_of(of), Expected(brokers=(1, 7)))
    assert {"expected_node_missing", "range_unknown", *NOT_REGISTERED} & codes(said) == found
    assert readiness(said, "f")["verdict"] == verdict


BLOCKS = {"unsupported_by_node", "incompatible_with_finalized"}
SHOWN, LEFT_OUT = listing((1, False), (2, True)), listing((1, False), (2, True), version=1)
FENCED_BY_LOG = log(*ME, node(2, ranges=OLD, fenced=True))
WHILE_IT_LIVED = answer(2, ranges=OLD, answered=20)


@pytest.mark.parametrize(
    ("lines", "code", "cited"),
    [
        ([*SILENT, WHILE_IT_LIVED, SHOWN], "ghost_broker", SHOWN),
        ([*SILENT, *log(*ME, node(2, ranges=OLD)), LEFT_OUT], "ghost_broker", LEFT_OUT),
        ([*SILENT[:-1], *FENCED_BY_LOG], "ghost_broker", FENCED_BY_LOG[-2]),
        (lost(*GONE, EARLIER), "ghost_controller", GONE[1]),
    ],
    ids=["a list", "a list without fenced ones", "the log", "the quorum"],
)
def test_of_who_is_gone_the_line_that_shows_it_is_cited(
    lines: Lines, code: str, cited: bytes
) -> None:
    [row] = findings(judge_lines(lines), code, node_id=2)
    assert row["line_id"] == line_id(cited)
    assert row["observed_at"] == datetime.fromisoformat(json.loads(cited)["observed_at"])


def test_of_a_silent_broker_the_call_that_it_did_not_answer_is_cited() -> None:
    silent = Node(node_id=2, ranges={"f": (1, 3)}, answered=None, failed=0)
    other = Node(node_id=1, ranges={"f": (1, 3)}, levels={"f": 1}, epoch=5)
    both = Cluster(name="c", zookeeper=True, nodes=(other, silent), stored={"f": 1}, controller=1)
    [row] = findings(judge_clusters(both), "silent_broker", node_id=2)
    assert row["line_id"] == line_id(failure_line("c", silent))


def test_of_a_ghost_it_is_said_when_it_answered_last() -> None:
    lived = json.loads(WHILE_IT_LIVED)["observed_at"][:16].replace("T", " ")
    [row] = findings(judge_lines([*SILENT, WHILE_IT_LIVED, SHOWN]), "ghost_broker", node_id=2)
    assert first_fact(row).startswith(f"; it last responded on {lived} UTC; it did not respond (")
    [row] = findings(judge_lines([*SILENT, SHOWN]), "ghost_broker", node_id=2)
    assert "last responded" not in first_fact(row)


@pytest.mark.parametrize(
    ("ranges", "answered", "is_started"),
    [(NEW, 20, True), (OLD, 20, False), (NEW, 500, False)],
    ids=["as the others, and there lately", "older software", "gone for long"],
)
def test_no_command_unregisters_a_broker_that_was_there_lately_and_is_as_the_others(
    ranges: dict[str, tuple[int, int]], answered: int, is_started: bool
) -> None:
    last = answer(2, ranges=ranges, answered=answered)
    [row] = findings(judge_lines([*SILENT, last, SHOWN]), "ghost_broker", node_id=2)
    said = FindingWords(catalogue()).of(row)
    assert (said.command == "", "unregister" not in said.action.casefold()) == (
        is_started,
        is_started,
    )
    assert "start " in said.action.casefold()


def test_nobody_is_told_to_start_what_kafka_calls_live() -> None:
    message, remedy, _ = words(
        SCENES["a broker that only we cannot reach is silent"][1], "node_not_answering"
    )
    assert "Kafka calls it live" in message
    assert remedy.startswith("Kafka listed the node at that time.")
    assert "start" not in remedy.casefold()


def test_nobody_is_told_to_unregister_what_only_we_cannot_reach() -> None:
    silent = words(SCENES["a broker that only we cannot reach is silent"][1], "node_not_answering")
    assert "unregister" not in " ".join(silent).casefold()
    ghost = SCENES["a fenced broker is a ghost, and that it did not answer is said"][1]
    for code in ("ghost_broker", "range_unknown"):
        message, _, command = words(ghost, code)
        assert "did not respond (connection refused)" in message
        unregister = "kafka-cluster.sh unregister --bootstrap-server HOST:PORT --id 2"
        assert command == unregister * (code == "ghost_broker")
    # Nothing else is known against it than that it is off, maybe for an hour.
    unseen = words(ghost, "range_unknown")[1]
    assert unseen.startswith("Plan or collect with --probe, ")
    assert "Otherwise start the node with software that supports " in unseen
    # Beside the words of the ghost it has those alone that they lack.
    rows = findings(judge_lines(ghost))
    [off], [hidden] = (
        [r for r in rows if r["code"] == c] for c in ("ghost_broker", "range_unknown")
    )
    beside = FindingWords(catalogue()).of(hidden, ghost=off)  # type: ignore[arg-type]  # rows
    assert beside.message == "Broker 2 is registered, and its supported range was never collected."
    assert beside.action.startswith("Start the node and collect again: the node shows its range. ")
    unknown = SCENES["a ghost where levels are unknown is started again"][1]
    assert words(unknown, "ghost_broker")[1].startswith("First check the address")
    never = SCENES["each voter that never registered is a row of its own"][1]
    message, remedy, _ = words(never, "voter_not_registered")
    assert message.startswith("Voter 2 never registered")
    assert remedy == "Start the voter with Kafka 4.2 or later, so that it registers."


def test_whose_software_is_too_old_is_upgraded_to_the_release_that_helps() -> None:
    _, remedy, _ = words(lost(), "unsupported_by_node")
    assert remedy == "Upgrade the software of controller 2 to Kafka 4.2 or later."


def test_in_zookeeper_mode_nobody_is_told_to_unregister() -> None:
    """A registration goes with its session, and there is no metadata log to dump."""
    scene = zookeeper([{"f": (1, 5)}], 1, znode("/brokers/ids/2", {"features": []}))
    assert words(scene, "range_unknown")[1] == (
        "Collect the cluster again. If the range is still unknown, check /brokers/ids/2 in "
        "ZooKeeper. A broker writes its range there when it starts, and ZooKeeper deletes the "
        "entry with the broker's session."
    )


@pytest.mark.parametrize(
    ("level", "action"), [(32, "register_anew"), (33, "unregister_controller")]
)
def test_a_controller_can_be_unregistered_from_metadata_version_33_on(
    level: int, action: str
) -> None:
    known = {"stale": True, "role": "controller", "metadata_version": level}
    assert first_fit(ways(), known).action == action
    _, remedy, command = words(lost(*GONE, level=level), "ghost_controller")
    unregister = "kafka-cluster.sh unregister-controller --bootstrap-server HOST:PORT --id 2"
    assert command == (unregister if level == 33 else "")
    begin = "Start the node with Kafka 4."
    again = ("start a new controller with its id", begin, "controllers_complete")
    assert all(text in remedy for text in again) == (level == 32)
    known = {"levels": {METADATA: level}}
    answers = answer(1, **known), answer(1, CONTROLLER, **known), silence(2, CONTROLLER)
    _, remedy, _ = words([*answers, *GONE], "range_unknown")
    assert ("no controller can be unregistered" in remedy) == (level == 32)
    assert ("Unregister the node" in remedy) == (level == 33)
    assert ("controllers_complete" in remedy) == (level == 32)


# --- The owner's word -----------------------------------------------------------------------------

TEXT = (SAMPLES / "k41-forgotten" / "landing.jsonl").read_text("utf-8")
CAPTURE = [json.loads(raw) for raw in TEXT.splitlines()]
NEWEST = 1_795_239_874_000_000  # its last line's time


def capture(*left_out: str, role: str = CONTROLLER) -> list[dict[str, Any]]:
    """The sample without lines of these kinds; of `api_versions` those of one role."""
    return [
        line
        for line in CAPTURE
        if line["kind"] not in left_out or (line["kind"] == "api_versions" and line["role"] != role)
    ]


def failing() -> list[dict[str, Any]]:
    """The sample, its controllers' listeners not answering."""
    keys = ["kind", "cluster_id", "observed_at", "node_id", "role", "endpoint", "asked_version"]
    return [
        {key: line[key] for key in keys} | {"error": "no route to host"}
        if line["kind"] == "api_versions" and line["role"] == CONTROLLER
        else line
        for line in capture("metadata_log")
    ]


UNSEEN = {"voters_unknown", "mode_unknown", "node_not_asked", "node_not_answering"}
UNSEEN |= {"expected_node_missing"}


@pytest.mark.parametrize(
    ("lines", "without", "with_it", "controllers"),
    [
        (capture("api_versions", "metadata_log"), "node_not_asked", "controller_vouched", ()),
        (failing(), "node_not_answering", "controller_vouched", ()),
        (capture("api_versions", "metadata_log", "describe_quorum"), "voters_unknown",
         "voters_vouched", ()),
        (capture("metadata_log"), "expected_node_missing", "controller_vouched", (77,)),
    ],
    ids=["nobody asked", "nobody answers", "voters are not known", "nothing shows it"],
)  # fmt: skip
def test_the_word_of_the_owner_stands_for_controllers_nobody_can_ask(
    lines: list[dict[str, Any]], without: str, with_it: str, controllers: tuple[int, ...]
) -> None:
    for word, verdict, code in ((False, "UNKNOWN", without), (True, "READY", with_it)):
        said = seen(lines, controllers=controllers, controllers_vouched=word)
        assert readiness(said, METADATA)["verdict"] == verdict
        assert code in codes(said)
        assert (codes(said) & UNSEEN == set()) == word
    rows = findings(said, "controller_vouched")
    assert [row["severity"] for row in rows] == ["info"] * len(rows)


def seen(lines: list[dict[str, Any]], **word: Any) -> Any:
    name, raw = lines[0]["cluster_id"], [json.dumps(line).encode() for line in lines]
    return judge_lines(raw, Expected(vouched=True, **word), name=name, as_of=NEWEST)


def test_the_word_is_not_for_brokers_and_silences_no_controller_known_to_be_unfit() -> None:
    said = seen(capture("api_versions", "metadata_log", role=BROKER), controllers_vouched=True)
    assert readiness(said, METADATA)["verdict"] == "UNKNOWN"
    unfit = answer(11, CONTROLLER, ranges={METADATA: (7, 20)}, answered=3, levels=None, epoch=-1)
    low = {"levels": {METADATA: 20}}
    lines = [answer(1, **low), unfit, silence(11, CONTROLLER), ALONE, quorum([(11, 0)])]
    said = judge_lines(lines, Expected(vouched=True, controllers_vouched=True))
    assert readiness(said, METADATA)["verdict"] == "BLOCKED"
    assert {"unsupported_by_node", "controller_vouched"} <= codes(said)


EACH = {"controller 1", *(f"broker {i}" for i in (1, 2, 3))}


def old(*brokers: int) -> list[bytes]:
    return [answer(i, answered=24) for i in brokers]


@pytest.mark.parametrize(
    ("lines", "left_out"),
    [
        ([answer(1), *old(2), answer(3)], {"broker 2", "controller 1"}),
        ([answer(1), *old(2, 3)], {"broker 2", "broker 3", "controller 1"}),
        ([answer(1), *old(2, 3, 4)], set()),
        ([answer(i) for i in (1, 2, 3)], {"controller 1"}),
        ([answer(1), *old(2), answer(3), listing((1, False), (3, False))], {"controller 1"}),
        ([answer(1), *old(2), answer(3), quorum([(1, 0)]),
          *log(*ME, node(2), node(3), age=0)], set()),
        (old(1, 2, 3), set()),
        ([*old(1, 2, 3), answer(1, CONTROLLER)], {"broker 1", "broker 2", "broker 3"}),
        ([*old(1, 2, 3), quorum([(1, 0)])], EACH),
        ([*old(1, 2, 3), listing((1, False), (2, False), (3, False))], EACH),
        ([*old(1, 2, 3), configs_line(1, BROKER, {"1": {}})], EACH),
    ],
    ids=["one of three", "two of three", "three of four", "none", "unregistered since",
         "its registration was read since", "all of an earlier look", "the controller was asked",
         "who votes", "who is registered", "how one is configured"],
)  # fmt: skip
def test_a_node_that_was_not_asked_in_the_newest_look_is_not_known(
    lines: list[bytes], left_out: set[str]
) -> None:
    ids = [(1, False), (2, False), (3, False), (4, False)]
    brokers = [*ids] if any(b'"node_id": 4' in line for line in lines) else ids[:3]
    scene = [
        answer(1, CONTROLLER, answered=24),
        quorum([(1, 0)], age=24),
        listing(*brokers, age=24),
    ]
    said = judge_lines([*scene, *lines])
    found = findings(said, "node_not_asked")
    assert {f"{row['role']} {row['node_id']}" for row in found} == left_out
    verdict = readiness(said, METADATA)["verdict"]
    assert verdict == ("UNKNOWN" if left_out else "READY")


@pytest.mark.parametrize(
    ("answered", "again", "left_out"),
    [(24, None, {1}), (20, None, {1}), (24, 0, set()), (2, None, set())],
    ids=["with its broker half", "a little after it", "when that failed, too", "nearer to that"],
)
def test_a_controller_that_answered_with_its_broker_half_and_was_not_asked_again_is_not_known(
    answered: int, again: int | None, left_out: set[int]
) -> None:
    """The broker half answered 24 hours ago, and is fenced and does not respond any more."""
    broker = node(1, answered=24, failed=1, fenced=True)
    half = node(1, CONTROLLER, answered=answered)
    lines = [answer_line("c", broker), failure_line("c", broker), answer_line("c", half)]
    lines += [answer_line("c", replace(half, answered=again))] * (again is not None)
    said = judge_lines([*lines, *log(broker, half, age=0), quorum([(1, 0)], age=0)])
    assert {row["node_id"] for row in findings(said, "node_not_asked")} == left_out
    assert readiness(said, METADATA)["verdict"] == ("UNKNOWN" if left_out else "READY")


STALE = listing((1, False), (2, True))


def late(line: bytes) -> bytes:
    """The line of node 2, some seconds later."""
    return line.replace(at(1, 2).encode(), at(1, 30).encode())


@pytest.mark.parametrize(
    ("lines", "verdict", "why"),
    [
        ([answer(2, answered=24), STALE], "UNKNOWN", {"range_unknown"}),
        ([answer(2, answered=24), silence(2), STALE], "UNKNOWN", {"range_unknown"}),
        ([answer(2), STALE], "READY", set()),
        ([answer(2), late(silence(2)), STALE], "UNKNOWN", {"range_unknown"}),
        ([answer(2, ranges=OLD, answered=24), STALE], "BLOCKED", set()),
        ([answer(2, answered=24), *log(*ME, node(2), age=0), STALE], "READY", set()),
        ([listing((1, False), age=24)], "UNKNOWN", {"registrations_unproven"}),
        ([listing((1, False), age=24), silence(2)], "UNKNOWN", {"registrations_unproven"}),
        ([listing((1, False))], "READY", set()),
        (log(*ME, age=24), "UNKNOWN", {"registrations_unproven"}),
        (log(*ME), "UNKNOWN", {"registrations_unproven"}),
        (log(*ME, age=1), "READY", set()),
    ],
    ids=["a stale broker answered in an earlier run", "and is silent now", "in this run",
         "and was silent seconds later",
         "an old range blocks all the same", "its registration was read since",
         "brokers were listed in an earlier run", "and one more does not respond",
         "brokers were listed in this run",
         "the log was dumped in an earlier run", "or an hour before", "or with this one"],
)  # fmt: skip
def test_what_an_earlier_run_showed_of_registrations_makes_nothing_ready(
    lines: list[bytes], verdict: str, why: set[str]
) -> None:
    said = judge_lines([*ANSWERS, quorum([(1, 0)]), *lines])
    assert readiness(said, METADATA)["verdict"] == verdict
    assert codes(said) & {"range_unknown", "registrations_unproven"} == why


def test_voters_of_an_earlier_run_are_not_known() -> None:
    said = judge_lines([*ANSWERS, quorum([(1, 0)], age=24), listing((1, False))])
    assert readiness(said, METADATA)["verdict"] == "UNKNOWN"
    assert "voters_unknown" in codes(said)


def list_after(seconds: int, *nodes: tuple[int, bool], **keys: Any) -> bytes:
    return listing(*nodes, **keys).replace(at(1, 0).encode(), at(1, seconds).encode())


GHOST, NO_GHOST = ((1, False), (2, True)), ((1, False),)


@pytest.mark.parametrize(
    ("lines", "differ"),
    [
        ([list_after(0, *GHOST), list_after(5, *NO_GHOST)], {("broker", 2)}),
        ([list_after(5, *GHOST), list_after(0, *NO_GHOST)], {("broker", 2)}),
        ([list_after(0, (1, True)), list_after(5, *NO_GHOST)], {("broker", 1)}),
        ([list_after(0, *GHOST), list_after(11, *NO_GHOST)], set()),
        ([list_after(0, *NO_GHOST), list_after(5, *NO_GHOST)], set()),
        ([list_after(0, *GHOST), list_after(5, *NO_GHOST), *log(*ME, age=0)], set()),
        ([list_after(0, *GHOST, kind=2), list_after(5, *NO_GHOST, kind=2), ALONE],
         {("controller", 2)}),
    ],
    ids=["a ghost is gone from the newer", "or stands in the newer alone", "one calls it fenced",
         "read later", "alike", "the log is newer", "of controllers"],
)  # fmt: skip
def test_two_lists_of_one_moment_that_differ_prove_nothing(
    lines: list[bytes], differ: set[tuple[str, int]]
) -> None:
    scene = [*ANSWERS, quorum([(1, 0)]), *lines]
    for order in (scene, scene[::-1]):
        said = judge_lines(order)
        rows = findings(said, "lists_disagree")
        assert {(row["role"], row["node_id"]) for row in rows} == differ
        assert (readiness(said, METADATA)["verdict"] == "READY") == (not differ)


def seconds_later(seconds: float, line: bytes) -> bytes:
    moment = at(1, 0).replace(":00.000000Z", f":{seconds:09.6f}Z")
    return json.dumps(json.loads(line) | {"observed_at": moment}).encode()


def broker(epoch: int, seconds: float = 1) -> bytes:
    return seconds_later(seconds, answer(2, epoch=epoch))


BOTH_LISTED = listing((1, False), (2, False))


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ([broker(500), BOTH_LISTED], "UNKNOWN"),
        ([broker(61, seconds=2), BOTH_LISTED], "READY"),
        ([broker(62, seconds=2), BOTH_LISTED], "UNKNOWN"),
        ([broker(12), BOTH_LISTED], "UNKNOWN"),
        ([broker(2511, seconds=51), BOTH_LISTED], "READY"),
        ([answer(3, epoch=500, answered=9), broker(9), BOTH_LISTED], "READY"),
        ([broker(500), BOTH_LISTED.replace(b'"asked_node": 1', b'"asked_node": 2')], "READY"),
        ([broker(9), BOTH_LISTED, *log(*ME, node(2), age=1)], "READY"),
    ],
    ids=["far behind", "a busy cluster", "busier", "just behind", "a minute passes",
         "one was ahead that left hours ago", "the other lists", "and a dump"],
)  # fmt: skip
def test_a_list_of_a_broker_that_lags_behind_proves_nothing(
    lines: list[bytes], verdict: str
) -> None:
    scene = [*ANSWERS, quorum([(1, 0)]), *lines]
    for order in (scene, scene[::-1]):
        said = judge_lines(order)
        assert readiness(said, METADATA)["verdict"] == verdict
        causes = {row["facts"]["cause"] for row in findings(said, "registrations_unproven")}
        assert causes == ({"lags"} if verdict == "UNKNOWN" else set())


@pytest.mark.parametrize("asked", [4, 3])
@pytest.mark.parametrize(("seconds", "is_odd"), [(0, True), (0.9, True), (1.1, False), (30, False)])
def test_a_node_with_two_ranges_at_one_time_has_none(
    seconds: float, is_odd: bool, asked: int
) -> None:
    first = seconds_later(0, answer(1, ranges=OLD, asked_version=asked))
    then = seconds_later(seconds, answer(1, asked_version=asked))
    again = seconds_later(seconds, answer(1, asked_version=asked, epoch=10))
    rest = [answer(1, CONTROLLER), quorum([(1, 0)]), ALONE]
    for order in ([first, then, again], [then, first, again], [again, then, first]):
        for scene in ([*rest, *order], [*order, *rest]):
            said = judge_lines(scene)
            rows = findings(said, "range_unknown")
            assert [(row["role"], row["facts"]["cause"]) for row in rows] == [
                ("broker", "contradicted")
            ] * is_odd
            verdict = readiness(said, METADATA)["verdict"]
            # A short response may leave features out, so nothing is certain without an odd one.
            assert asked == 3 or (verdict == "READY") == (not is_odd)
            assert not is_odd or verdict == "UNKNOWN"


DYNAMIC_LEVELS: dict[str, Any] = {
    "levels": LEVELS | {"kraft.version": 1}, "ranges": NEW | {"kraft.version": (0, 1)},
}  # fmt: skip
MAY_BE_CONTROLLER = [
    answer(1, **DYNAMIC_LEVELS), answer(1, CONTROLLER, **DYNAMIC_LEVELS), ALONE,
    quorum([(1, 0)], [(1, 0), (7, 3)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ([], "UNKNOWN"),
        ([listing((1, False), kind=2, age=24)], "UNKNOWN"),
        ([listing((1, False), kind=2)], "READY"),
        (log(*ME, age=1), "READY"),
    ],
    ids=["no list", "a list of an earlier run", "a list", "a dump"],
)
def test_who_follows_a_dynamic_quorum_may_be_a_registered_controller(
    lines: list[bytes], verdict: str
) -> None:
    said = judge_lines([*MAY_BE_CONTROLLER, *lines])
    assert readiness(said, METADATA)["verdict"] == verdict
    found = [row["node_id"] for row in findings(said, "observer_unknown")]
    assert found == [7] * (verdict == "UNKNOWN")


def not_listed(**failure: object) -> bytes:
    """A controller's failure to give the list of controllers."""
    return line_of("describe_cluster", "c", 1, asked_node=1, listener="controller", **failure)


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ([], "READY"),
        ([not_listed(error="it is not authorized", error_code=31)], "UNKNOWN"),
        ([not_listed(error="no answer within 10 s")], "UNKNOWN"),
        ([not_listed(error="no controller registers", error_code=35)], "READY"),
        ([failure_line("c", Node(node_id=7, role=CONTROLLER, ranges={}, failed=1))], "UNKNOWN"),
        ([listing((1, False), kind=2, age=24)], "UNKNOWN"),
        ([not_listed(error="no answer within 10 s"), listing((1, False), kind=2)], "READY"),
        ([not_listed(error="no answer within 10 s"), *log(*ME, age=1)], "READY"),
    ],
    ids=[
        "no trace",
        "refused",
        "lost",
        "none registers",
        "a stranger",
        "an earlier list",
        "a list",
        "a dump",
    ],
)
def test_a_quorum_whose_list_of_controllers_is_missing_is_unknown(
    lines: list[bytes], verdict: str
) -> None:
    """A controller that is off, does not vote and is still registered is in that list alone. In a
    static quorum only a list that failed says that there is one to know."""
    failed = any(b'"listener": "controller", "error"' in line for line in lines[:1])
    static = {"levels": LEVELS, "ranges": NEW}
    for levels, expected in (
        (DYNAMIC_LEVELS, verdict), (static, verdict if failed else "READY"),
    ):  # fmt: skip
        nodes = [answer(1, **levels), answer(1, CONTROLLER, **levels), ALONE]
        said = judge_lines([*nodes, quorum([(1, 0)]), *lines])
        assert readiness(said, METADATA)["verdict"] == expected, levels
        found = findings(said, "registrations_unproven")
        assert [row["facts"]["cause"] for row in found] == ["controllers"] * (expected == "UNKNOWN")


DIRECTORY = b'"replica_id": 3, "replica_directory_id": "970315ca-0f0b-4ee0-b456-edaad2d4b465"'


@pytest.mark.parametrize(
    ("lines", "directory"),
    [
        ([quorum([(1, 0), (2, 1), (3, 60)]).replace(b'"replica_id": 3', DIRECTORY)],
         "lwMVyg8LTuC0Vu2q0tS0ZQ"),
        ([quorum([(1, 0), (2, 1), (3, 60)])], "DIRECTORY_ID"),
        ([quorum([(1, 0), (2, 1), (3, 60)]), answer(3, CONTROLLER, **DYNAMIC_LEVELS)], None),
        ([quorum([(1, 0), (2, 1), (3, 2)])], None),
        ([quorum([1, 2, 3])], None),
    ],
    ids=["its directory is known", "it is not", "it answers", "it fetches", "no times are shown"],
)  # fmt: skip
def test_a_dead_voter_of_a_dynamic_quorum_is_taken_out_by_the_printed_command(
    lines: list[bytes], directory: str | None
) -> None:
    nodes = [answer(1, **DYNAMIC_LEVELS)]
    nodes += [answer(i, CONTROLLER, **DYNAMIC_LEVELS) for i in (1, 2)]
    scene = [*nodes, silence(3, CONTROLLER), ALONE, *lines]
    rows = findings(judge_lines(scene), "voter_not_fetching")
    assert [row["node_id"] for row in rows] == ([] if directory is None else [3])
    if directory is not None:
        _, _, command = words(scene, "voter_not_fetching", 3)
        assert command == (
            "kafka-metadata-quorum.sh --bootstrap-server HOST:PORT remove-controller "
            f"--controller-id 3 --controller-directory-id {directory}"
        )
