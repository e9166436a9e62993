"""Recorded truth: every answer of every recorded controller, and the pack that ships with us.

The other half matters as much: a recording that was damaged is not conformant any more, and a
dialect that was changed does not pass.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest

from featurelib.catalogue import load
from featurelib.core.dialect import GENERATIONS, generation_of
from featurelib.core.dialect import load as load_dialect
from featurelib.core.dry_run import answer
from featurelib.core.reply import Reply
from featurelib.errors import InputError
from featurelib.extras.conformance.exchanges import Exchange, read
from featurelib.extras.conformance.replay import Difference, replay
from featurelib.extras.rules.book import UNRECORDED, questions
from featurelib.feature import Role
from scripts.choose_pack import choose, reached
from scripts.pack_claims import SHOWN
from tests.core import recordings, scale
from tests.core.frozen import expect_frozen

TABLES = load().tables
AGAIN, REFUSED = "nodes registered again", "kraft.version of a refused request"
Line = dict[str, Any]


@pytest.mark.no_cover
def test_every_recorded_controller_is_answered_for() -> None:
    """Every seventh exchange in `make quick`, all of them in `make test`."""
    recorded = recordings.every()
    assert len(recorded) == 5568
    report = replay(recorded if scale.WHOLE else recorded[::7], TABLES)
    assert report.differences == []
    assert set(report.dialects) == set(GENERATIONS)
    if scale.WHOLE:
        assert report.exchanges == 5568
        assert report.undecided == {AGAIN: 3, REFUSED: 1}


def test_the_pack_is_answered_for() -> None:
    report = replay([exchange for _, exchange in recordings.pack()], TABLES)
    assert report.differences == []
    assert report.undecided == {REFUSED: 1}
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
    packed = (
        resources.files("featurelib.extras.conformance")
        .joinpath("conformance_pack.jsonl.gz")
        .read_bytes()
    )
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
        checks = tuple(row for row in dialect.request_checks if row is not question.row)
        report = replay([exchange], TABLES, replace(dialect, rules=rules, request_checks=checks))
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


def of_one_epoch(line: Line) -> bool:
    return line["cluster"]["epoch"] is not None and written(line)


def code(line: Line) -> None:
    line["response"]["error_code"] = 42


def words(line: Line) -> None:
    line["response"]["error_message"] += "!"


def result(line: Line) -> None:
    line["response"]["results"][0]["error_code"] = 0


def level(line: Line) -> None:
    line["after"]["finalized"]["metadata.version"] -= 1


def epoch(by: int) -> Callable[[Line], None]:
    def change(line: Line) -> None:
        line["after"]["epoch"] += by

    return change


NEW, OLD = "4.2.1.jsonl.xz", "zk-3.9.2.jsonl.xz"


@pytest.mark.parametrize(
    ("name", "fits", "change", "kind", "ours"),
    [
        (NEW, refused, code, "code", "95"),
        (NEW, refused, words, "words", ""),
        (OLD, lambda line: line["id"] == "zk-3.9.2-f-m1-plain-v0", result, "results", "f 42 Can"),
        (NEW, written, level, "levels", ""),
        (NEW, of_one_epoch, epoch(-1), "epoch", "moves"),
        (NEW, of_one_epoch, epoch(-2), "epoch", "moves"),
        (OLD, of_one_epoch, epoch(-1), "epoch", "moves"),
        (OLD, of_one_epoch, epoch(1), "epoch", "moves"),
        ("3.3.2.jsonl.xz", lambda line: True, epoch(1), "epoch", "stands still"),
    ],
)
def test_whatever_is_changed_in_a_recording_is_a_difference(
    name: str, fits: Callable[[Line], bool], change: Callable[[Line], None], kind: str, ours: str
) -> None:
    (found,) = damaged(name, find(name, fits), change)
    assert found.kind == kind
    assert found.ours.startswith(ours)
    assert found.recorded != found.ours


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


def test_another_node_that_offends_alike_is_undecided_and_counted() -> None:
    reports = {named: replay([two_offenders(named)], TABLES) for named in (2, 3, 4)}
    assert [len(report.differences) for report in reports.values()] == [0, 0, 1]
    undecided = [dict(report.undecided) for report in reports.values()]
    assert sorted(undecided, key=len) == [{}, {}, {"another offender is named": 1}]
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


# What is wrong with a line; in which words it is told: data/frozen/recordings.txt.
WRONG: dict[str, Callable[[Line], object]] = {
    "no state afterwards": lambda line: line.pop("after"),
    "an unknown mode": lambda line: line.update(mode="raft"),
    "a release nobody knows": lambda line: line.update(release="5.0.0"),
    "an unknown role": lambda line: line["cluster"]["nodes"][0].update(role="observer"),
    "an update without its feature": lambda line: line["request"]["updates"][0].pop("feature"),
    "a code that is a text": lambda line: line["response"].update(error_code="95"),
    "nobody active": lambda line: [node.pop("active", 0) for node in line["cluster"]["nodes"]],
    "a version nobody reads": lambda line: line["request"].update(version=3),
    "a time of 33 bits": lambda line: line["request"].update(timeout_ms=2**31),
    "a level of 17 bits": lambda line: line["after"].update(finalized={"f": 32768}),
    "a node twice": lambda line: line["cluster"]["nodes"].append(line["cluster"]["nodes"][0]),
    "a type of 9 bits": lambda line: line["request"]["updates"][0].update(upgrade_type=200),
}


def test_a_line_of_another_form_is_named_and_the_rest_goes_on() -> None:
    good, said = recordings.lines(NEW)[0], {}
    for name, change in WRONG.items():
        raw = json.loads(good)
        change(raw)
        unread: list[InputError] = []
        lines = [good, b"", json.dumps(raw).encode(), good, b"[" * 9999]
        assert len(list(read(lines, "mine", unread))) == 2
        first, last = (str(wrong) for wrong in unread)
        assert first.startswith("mine:3: This line is not a recorded exchange")
        assert last.startswith("mine:5: This line")
        assert "docs/conformance.md" in first
        with pytest.raises(InputError) as told:
            list(read(lines, "mine"))
        said[name] = str(told.value)
        assert said[name] == first
    expect_frozen("recordings", said)


def test_what_is_no_json_is_named() -> None:
    with pytest.raises(
        InputError, match=r"mine:1: This line is not a recorded exchange.*malformed"
    ):
        list(read([b"FILE"], "mine"))


def test_unknown_keys_are_ignored() -> None:
    raw = json.loads(recordings.lines("4.2.1.jsonl.xz")[0])
    raw["proves"] = raw["cluster"]["flags"]["ours"] = ["anything"]
    assert len(list(read([json.dumps(raw).encode()], "mine"))) == 1


# --- Of other people's making: lines alone, walks with gaps, other spellings ----------------------


def test_requests_made_up_at_random_are_answered_for() -> None:
    """Recorded of releases from 2.7.2 to 4.4.0, each line on its own."""
    dialects = Counter[str]()
    for exchange in recordings.random():
        report = replay([exchange], TABLES)
        assert report.differences == [], exchange.id
        assert report.undecided == {}, exchange.id
        dialects += report.dialects
    assert set(dialects) == set(GENERATIONS)
    assert min(dialects.values()) >= 30


def test_the_first_offender_is_the_one_that_a_real_controller_names() -> None:
    """Ids to 1000 that registered in random order; 68 of these were named otherwise once."""
    report = replay(recordings.offenders(), TABLES)
    assert (report.exchanges, report.differences, report.undecided) == (1055, [], {})
    assert {exchange.cluster.release[:3] for exchange in recordings.offenders()} == {
        *("3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4")
    }


def walk(name: str, scenario: str) -> list[Exchange]:
    return [each for each in recordings.exchanges(name) if each.scenario == scenario]


@pytest.mark.parametrize("missing", [("-020-", "-021-"), ("-027-", "-028-"), ("-00", "-02")])
def test_a_walk_with_gaps_is_no_difference(missing: tuple[str, ...]) -> None:
    """What a missing step wrote into the hidden record of kraft.version is not known."""
    steps = walk("3.9.2.jsonl.xz", "3.9.2-dynamic")
    there = [step for step in steps if not any(part in step.id for part in missing)]
    assert len(there) < len(steps)
    assert replay(there, TABLES).differences == []
    assert [replay([step], TABLES).differences for step in there] == [[]] * len(there)


def test_release_3_9_0_shows_nothing_of_its_record_of_kraft_version() -> None:
    """3.9.2 shows it while the raft layer is at 0; the answers of both follow the record."""
    raw = json.loads(next(x for x in recordings.lines("3.9.2.jsonl.xz") if b"-kraft-up-1" in x))
    shown = [raw | {"release": release} for release in ("3.9.2", "3.9.0")]
    hidden = [
        line | {"after": line["after"] | {"finalized": {"metadata.version": 21}}} for line in shown
    ]
    kinds = [
        [
            found.kind
            for found in replay(read([json.dumps(line).encode()], "mine"), TABLES).differences
        ]
        for line in (*shown, *hidden)
    ]
    assert kinds == [[], ["levels"], ["levels"], []]


def test_without_a_gap_the_walk_still_tells() -> None:
    """The hidden record is 1 after step 020, so the next answer cannot be that of a 0."""
    steps = walk("3.9.2.jsonl.xz", "3.9.2-dynamic")
    at = next(i for i, step in enumerate(steps) if step.id.endswith("-022-kraft-same-1-safe"))
    other = replace(
        steps[at], reply=replace(steps[at].reply, results=walk_refusal(steps[at]).results)
    )
    assert steps[at - 1].epoch_after == steps[at].epoch
    assert replay([*steps[:at], other], TABLES).differences != []
    assert [d.kind for d in replay([other], TABLES).differences] in ([], ["epoch"])


def walk_refusal(step: Exchange) -> Reply:
    """What a controller whose record is at 0 answers to the same request."""
    cluster = replace(step.cluster, kraft_record=0)
    dialect = load_dialect(generation_of(cluster.release, step.mode))
    return answer(cluster, step.request, dialect, TABLES).reply


def test_a_line_alone_is_no_difference() -> None:
    """A file may hold any lines; nodes that register again moved three of these epochs, and no step
    before tells so. Those that wrote nothing and moved: all of them."""
    moved = [
        exchange
        for exchange in recordings.every()
        if exchange.mode == "kraft"
        and exchange.epoch != exchange.epoch_after
        and (exchange.request.validate_only or exchange.reply.code != 0)
    ]
    reports = [replay([exchange], TABLES) for exchange in moved]
    assert [found for report in reports for found in report.differences] == []
    assert sum((report.undecided for report in reports), Counter()) == {AGAIN: 3, REFUSED: 1}


def test_an_epoch_that_only_the_request_can_have_moved_is_a_difference() -> None:
    """No node registers again after a step that was recorded and crossed nothing."""
    steps = walk("4.2.1.jsonl.xz", "4.2.1-stable")
    at = next(
        i
        for i, (one, two) in enumerate(itertools.pairwise(steps), start=1)
        if one.epoch == one.epoch_after == two.epoch == two.epoch_after and two.reply.code == 95
    )
    assert steps[at].epoch is not None
    moved = replace(steps[at], epoch_after=steps[at].epoch + 1)
    assert [d.kind for d in replay([*steps[:at], moved], TABLES).differences] == ["epoch"]


@pytest.mark.parametrize(
    "write",
    [
        lambda line: {key: line[key] for key in reversed(list(line))},
        lambda line: line | {"observed_at": None, "note": "\u2028"},
        lambda line: line | {"release": "4.2-SNAPSHOT"},
        lambda line: line | {"release": " 4.2.1.acme-7"},
        lambda line: (
            line
            | {"request": line["request"] | {"timeout_ms": None, "target": None}}
            | {"cluster": line["cluster"] | {"status": None, "controller_id": None}}
        ),
    ],
)
def test_the_same_line_written_otherwise_reads_the_same(write: Callable[[Line], Line]) -> None:
    """Order of keys, null for a key left out, a vendor's ending, a byte order mark, CR LF."""
    packed = recordings.lines("4.2.1.jsonl.xz")[:40]
    written = [json.dumps(write(json.loads(line)), ensure_ascii=False) for line in packed]
    text = b"\xef\xbb\xbf" + "\r\n\r\n".join(written).encode()
    report = replay(read(text.splitlines(), "mine"), TABLES)
    assert (report.exchanges, report.differences) == (40, [])
    assert dict(report.dialects) == {"kraft-4.2": 40}
