"""Recordings of other people's making: lines alone, walks with gaps, other spellings, bad lines.

What a line does not tell, because the step before it is not there, is no difference; what it does
tell stays one.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from featurelib.catalogue import load
from featurelib.conformance.exchanges import Exchange, read
from featurelib.conformance.replay import replay
from featurelib.core.dialect import GENERATIONS, generation_of
from featurelib.core.dialect import load as load_dialect
from featurelib.core.dry_run import answer
from featurelib.core.reply import Reply
from featurelib.errors import InputError
from tests.core import recordings

TABLES = load().tables
AGAIN, REFUSED = "nodes registered again", "kraft.version of a refused request"
Line = dict[str, Any]


def test_requests_made_up_at_random_are_answered_for() -> None:
    """Recorded of releases from 2.7.2 to 4.4.0, each line on its own."""
    dialects = Counter[str]()
    for exchange in recordings.random():
        report = replay([exchange], TABLES)
        assert report.differences == [], exchange.id
        assert report.excused == {}, exchange.id
        dialects += report.dialects
    assert set(dialects) == set(GENERATIONS)
    assert min(dialects.values()) >= 30


def test_the_first_offender_is_the_one_that_a_real_controller_names() -> None:
    """Ids to 1000 that registered in random order; 68 of these were named otherwise once."""
    report = replay(recordings.offenders(), TABLES)
    assert (report.exchanges, report.differences, report.excused) == (1055, [], {})
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
    assert sum((report.excused for report in reports), Counter()) == {AGAIN: 3, REFUSED: 1}


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


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda line: line["request"].update(version=3), "request.version 3, and a controller of"),
        (
            lambda line: line["request"].update(timeout_ms=2**31),
            "<= 2147483647 - at `$.request.timeout_ms`",
        ),
        (lambda line: line["after"].update(finalized={"f": 32768}), "level 32768, which is no"),
        (lambda line: line["cluster"]["nodes"].append(line["cluster"]["nodes"][0]), "1 twice in"),
        (lambda line: line["request"]["updates"][0].update(upgrade_type=200), "<= 127 - at"),
    ],
)
def test_what_cannot_have_been_is_named_and_the_rest_goes_on(
    change: Callable[[Line], object], says: str
) -> None:
    good = recordings.lines("4.2.1.jsonl.xz")[0]
    raw = json.loads(good)
    change(raw)
    unread: list[InputError] = []
    found = list(read([good, json.dumps(raw).encode(), good, b"[" * 9999], "mine", unread))
    assert len(found) == 2
    assert [str(wrong).split(": expected")[0] for wrong in unread] == ["mine:2", "mine:4"]
    assert says in str(unread[0])
