"""Recorded truth: every answer of every recorded controller, and the pack that ships with us.

The other half matters as much: a recording that was damaged is not conformant any more, and a
dialect that was changed does not pass.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest

from featurelib.catalogue import load
from featurelib.conformance.exchanges import Exchange, read
from featurelib.conformance.replay import Difference, replay
from featurelib.conformance.rulebook import UNRECORDED, questions
from featurelib.core.dialect import GENERATIONS, generation_of
from featurelib.core.dialect import load as load_dialect
from featurelib.core.dry_run import answer
from featurelib.errors import InputError
from featurelib.feature import Role
from scripts.choose_pack import choose, reached
from scripts.pack_claims import SHOWN
from tests.core import recordings, scale

TABLES = load().tables
AGAIN, REFUSED = "nodes registered again", "kraft.version of a refused request"
Line = dict[str, Any]


def test_every_recorded_controller_is_answered_for() -> None:
    """Every seventh exchange in `make quick`, all of them in `make test`."""
    recorded = recordings.every()
    assert len(recorded) == 5568
    report = replay(recorded if scale.WHOLE else recorded[::7], TABLES)
    assert report.differences == []
    assert set(report.dialects) == set(GENERATIONS)
    if scale.WHOLE:
        assert report.exchanges == 5568
        assert report.excused == {AGAIN: 3, REFUSED: 1}


def test_the_pack_is_answered_for() -> None:
    report = replay([exchange for _, exchange in recordings.pack()], TABLES)
    assert report.differences == []
    assert report.excused == {REFUSED: 1}
    assert set(report.dialects) == set(GENERATIONS)


def test_the_pack_reaches_every_row_that_a_recording_reaches() -> None:
    ids = reached([exchange for _, exchange in recordings.pack()], TABLES)
    found = {row for rows in ids for row in rows}
    rows = [question.id for name in GENERATIONS for question in questions(name)]
    assert len(set(rows)) == len(rows) == 153
    assert set(rows) - found == set(UNRECORDED)
    assert len(UNRECORDED) == 27


@pytest.mark.skipif(not scale.WHOLE, reason="looks through all recordings: in `make test`")
def test_the_pack_is_what_the_recordings_give() -> None:
    """Rewrite it with `python -m scripts.choose_pack`."""
    packed = resources.files("featurelib").joinpath("conformance_pack.jsonl.gz").read_bytes()
    assert packed[4:8] == bytes(4), "the packing holds a time"
    assert gzip.decompress(packed).decode() == choose(recordings.FOLDER, TABLES)


def claims() -> list[tuple[str, Line, Exchange]]:
    """What each line of the pack says it proves."""
    return [
        (claim, line, exchange) for line, exchange in recordings.pack() for claim in line["proves"]
    ]


def test_every_line_of_the_pack_says_what_it_proves() -> None:
    assert [line["id"] for line, _ in recordings.pack() if not line["proves"]] == []
    labels = Counter(claim.split(":")[0] for claim, _, _ in claims())
    assert [label for label, count in labels.items() if count > 1] == []
    shown = {label.split(".")[2].split(",")[0] for label in labels if ", not " in label}
    assert shown == {name for name, (_, texts) in SHOWN.items() if texts}


@pytest.mark.parametrize("name", GENERATIONS)
def test_without_a_row_the_pack_is_answered_otherwise(name: str) -> None:
    """Each claim about a row holds: where the row is missing, its exchange differs."""
    dialect, table = load_dialect(name), {question.id: question for question in questions(name)}
    held = 0
    for claim, _, exchange in claims():
        question = table.get(claim.split(":")[0])
        if question is None:
            continue
        held += 1
        rules = tuple(row for row in dialect.rules if row is not question.row)
        door = tuple(row for row in dialect.door if row is not question.row)
        report = replay([exchange], TABLES, replace(dialect, rules=rules, door=door))
        assert report.differences, claim
    assert held == len(set(table) - set(UNRECORDED))


@pytest.mark.parametrize("name", GENERATIONS)
def test_with_another_capability_the_pack_is_answered_otherwise(name: str) -> None:
    dialect, held = load_dialect(name), 0
    for claim, _, exchange in claims():
        label = claim.split(":")[0]
        if not label.startswith(f"{name}.") or ", not " not in label:
            continue
        held += 1
        capability, other = label.removeprefix(f"{name}.").split(", not ")
        value = next(value for value in SHOWN[capability][0] if str(value) == other)
        can = replace(dialect.can, **{capability: value})
        assert replay([exchange], TABLES, replace(dialect, can=can)).differences, claim
    assert held >= 4


def damaged(name: str, number: int, change: Callable[[Line], None]) -> list[Difference]:
    """The differences once a line of a recording was changed."""
    line = json.loads(recordings.lines(name)[number])
    change(line)
    return replay(read([json.dumps(line).encode()], name), TABLES).differences


def find(name: str, fits: Callable[[Line], bool]) -> int:
    lines: Sequence[bytes] = recordings.lines(name)
    return next(i for i, line in enumerate(lines) if fits(json.loads(line)))


def refused(line: Line) -> bool:
    return bool(line["response"]["error_code"] == 95)


def written(line: Line) -> bool:
    """One level moved, and nothing else did."""
    return line["after"]["epoch"] == line["cluster"]["epoch"] + 1 and not refused(line)


def test_a_changed_code_is_a_difference() -> None:
    def change(line: Line) -> None:
        line["response"]["error_code"] = 42

    (found,) = damaged("4.2.1.jsonl.xz", find("4.2.1.jsonl.xz", refused), change)
    assert (found.kind, found.recorded, found.ours) == ("code", "42", "95")


def test_changed_words_are_a_difference() -> None:
    def change(line: Line) -> None:
        line["response"]["error_message"] += "!"

    (found,) = damaged("4.2.1.jsonl.xz", find("4.2.1.jsonl.xz", refused), change)
    assert found.kind == "words"
    assert found.recorded == f"{found.ours}!"


def test_a_changed_result_is_a_difference() -> None:
    def change(line: Line) -> None:
        line["response"]["results"][0]["error_code"] = 0

    number = find("zk-3.9.2.jsonl.xz", lambda line: line["id"] == "zk-3.9.2-f-m1-plain-v0")
    (found,) = damaged("zk-3.9.2.jsonl.xz", number, change)
    assert found.kind == "results"
    assert found.recorded.startswith("f 0 Can not provide versionLevel: -1")
    assert found.ours.startswith("f 42 Can not provide versionLevel: -1")


def test_a_changed_level_is_a_difference() -> None:
    def change(line: Line) -> None:
        line["after"]["finalized"]["metadata.version"] -= 1

    (found,) = damaged("4.2.1.jsonl.xz", find("4.2.1.jsonl.xz", written), change)
    assert found.kind == "levels"
    assert "metadata.version=" in found.recorded
    assert found.recorded != found.ours


@pytest.mark.parametrize(
    ("name", "by", "recorded"),
    [
        ("4.2.1.jsonl.xz", -1, "stood still"),
        ("4.2.1.jsonl.xz", -2, "from {0} to {1}"),
        ("zk-3.9.2.jsonl.xz", -1, "stood still"),
        ("zk-3.9.2.jsonl.xz", 1, "from {0} to {1}"),
    ],
)
def test_a_changed_epoch_is_a_difference(name: str, by: int, recorded: str) -> None:
    seen = []

    def change(line: Line) -> None:
        line["after"]["epoch"] += by
        seen.extend([line["cluster"]["epoch"], line["after"]["epoch"]])

    number = find(name, lambda line: line["cluster"]["epoch"] is not None and written(line))
    (found,) = damaged(name, number, change)
    assert (found.kind, found.ours) == ("epoch", "moves")
    assert found.recorded == recorded.format(*seen)


def test_an_epoch_that_moved_for_no_reason_is_a_difference() -> None:
    def change(line: Line) -> None:
        line["after"]["epoch"] += 1

    (found,) = damaged("3.3.2.jsonl.xz", find("3.3.2.jsonl.xz", lambda line: True), change)
    assert (found.kind, found.ours) == ("epoch", "stands still")


def two_offenders(named: int) -> Exchange:
    """A level that brokers 2 and 3 do not support; the answer names one of them."""
    new = {"metadata.version": [7, 29], "kraft.version": [0, 1], "group.version": [0, 1]}
    old = {**new, "group.version": [0, 0]}
    nodes: list[Line] = [{"node_id": 1, "role": "controller", "features": new, "active": True}]
    nodes += [{"node_id": i, "role": "broker", "features": old} for i in (2, 3)]
    state = {"finalized": {"metadata.version": 25}, "epoch": 9}
    update = {"feature": "group.version", "max_version_level": 1}
    words = (
        "The update failed for all features since the following feature had an error: Invalid "
        f"update version 1 for feature group.version. Broker {named} does not support this feature."
    )
    line = {
        "id": "4.2.1-mine-001", "release": "4.2.1", "mode": "kraft",
        "cluster": {"nodes": nodes, **state}, "request": {"version": 2, "updates": [update]},
        "response": {"error_code": 95, "error_message": words}, "after": state,
    }  # fmt: skip
    return next(read([json.dumps(line).encode()], "mine"))


def test_another_node_that_offends_alike_is_excused_and_counted() -> None:
    reports = {named: replay([two_offenders(named)], TABLES) for named in (2, 3, 4)}
    assert [len(report.differences) for report in reports.values()] == [0, 0, 1]
    excused = [dict(report.excused) for report in reports.values()]
    assert sorted(excused, key=len) == [{}, {}, {"another offender is named": 1}]
    assert reports[4].differences[0].kind == "words"


def with_words(exchange: Exchange, words: str) -> Exchange:
    """The exchange, had the controller said this of its only update."""
    reply = exchange.reply
    if reply.message:
        return replace(exchange, reply=replace(reply, message=words))
    (result,) = reply.results or ()
    return replace(exchange, reply=replace(reply, results=(replace(result, message=words),)))


@pytest.mark.parametrize("release", ["3.5.2", "3.9.2", "4.2.1"])
def test_only_a_node_of_the_group_that_offends_alike_may_be_named_instead(release: str) -> None:
    counts = Counter[bool]()
    for exchange in recordings.offenders():
        reply, (update,) = exchange.reply, exchange.request.updates
        said = reply.message or str((reply.results or ())[0].message)
        if exchange.cluster.release != release or " Broker " not in said:
            continue
        before, number, after = re.split(r" Broker (\d+)", said)
        brokers = {n.node_id: n for n in exchange.cluster.nodes if n.role is Role.BROKER}
        supports = brokers[int(number)].supported.get(update.feature)
        for node in {*brokers, 4711} - {int(number)}:
            twin = node in brokers and brokers[node].supported.get(update.feature) == supports
            other = with_words(exchange, f"{before} Broker {node}{after}")
            assert bool(replay([other], TABLES).differences) != twin, (exchange.id, node)
            counts[twin] += 1
        other = with_words(exchange, f"{before} Controller {number}{after}")
        assert replay([other], TABLES).differences
    assert min(counts[True], counts[False]) > 5


def test_another_update_that_fails_first_is_a_difference() -> None:
    """4.x refuses a request for its first bad update, in the order of a hash map of names."""
    tried = 0
    for exchange in recordings.every():
        dialect = load_dialect(generation_of(exchange.cluster.release, exchange.mode))
        if not dialect.can.atomic or len(exchange.request.updates) != 2 or not exchange.reply.code:
            continue
        answered = answer(exchange.cluster, exchange.request, dialect, TABLES)
        said = str(exchange.reply.message)
        for refusal in answered.refusals:
            if f"{refusal.feature}" not in said:
                words = dialect.text.atomic_prefix + refusal.message
                (found,) = replay([with_words(exchange, words)], TABLES).differences
                assert (found.kind, found.recorded) == ("words", words)
                tried += 1
    assert tried > 20


def test_an_exchange_of_a_release_without_dialect_is_named() -> None:
    exchange = two_offenders(2)
    unknown = replace(exchange, cluster=replace(exchange.cluster, release="5.1"))
    with pytest.raises(InputError, match=r"4.2.1-mine-001: no dialect for release 5.1"):
        replay([unknown], TABLES)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda line: line.pop("after"), "missing required field `after`"),
        (lambda line: line.update(mode="raft"), "Invalid enum value 'raft'"),
        (lambda line: line.update(release="5.0.0"), "no dialect for release 5.0.0 in kraft mode"),
        (lambda line: line["cluster"]["nodes"][0].update(role="observer"), "'observer'"),
        (lambda line: line["request"]["updates"][0].pop("feature"), "request.updates"),
        (lambda line: line["response"].update(error_code="95"), "response.error_code"),
        (
            lambda line: [node.pop("active", 0) for node in line["cluster"]["nodes"]],
            "no node is `active`",
        ),
    ],
)
def test_a_line_of_another_form_is_named(change: Callable[[Line], object], says: str) -> None:
    good, line = recordings.lines("4.2.1.jsonl.xz")[:2]
    raw = json.loads(line)
    change(raw)
    with pytest.raises(InputError) as error:
        list(read([good, b"", json.dumps(raw).encode()], "mine.jsonl"))
    message = str(error.value)
    assert message.startswith("mine.jsonl:3: expected a recorded exchange")
    assert says in message
    assert "docs/conformance.md" in message


def test_what_is_no_json_is_named() -> None:
    with pytest.raises(InputError, match=r"mine:1: expected a recorded exchange.*malformed"):
        list(read([b"FILE"], "mine"))


def test_unknown_keys_are_ignored() -> None:
    raw = json.loads(recordings.lines("4.2.1.jsonl.xz")[0])
    raw["proves"] = raw["cluster"]["flags"]["ours"] = ["anything"]
    assert len(list(read([json.dumps(raw).encode()], "mine"))) == 1
