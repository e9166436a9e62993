"""Mutated landing lines: each is read, or quarantined with a reason of its own, and what is read is
folded and judged. One such line ended every run of a fleet (a kind of 1e999)."""

from __future__ import annotations

import json
import random
from collections import defaultdict

import pytest

from featurelib.landing import Quarantined, read
from tests.core import scale
from tests.core.lines import judge_rows, snapshot
from tests.core.tampering import WAYS, leaves
from tests.laboratory import LABORATORY
from tests.landing.corpus import GOOD, QUORUM, swap

DATA = LABORATORY
LINES = [
    *(line.encode() for line in GOOD),
    *(
        line
        for file in sorted(DATA.glob("*/landing.jsonl"))
        for line in file.read_bytes().splitlines()
    ),
]
# Texts that stand for a value somewhere in a line.
VALUES = (
    "1e999",
    "-1e999",
    "[1e999]",
    '{"a":1e999}',
    "1" * 400,
    "-0",
    "1e-999",
    "2.5",
    "{}",
    "[[]]",
)
VALUES += ("9223372036854775808", "-9223372036854775809", "18446744073709551616", '"\\u0000"')
HOLE = "a value that is replaced"
CHUNK = 1000  # lines judged as one fleet


def with_value(line: bytes, dice: random.Random) -> bytes:
    """Put one of VALUES in the place of one value of the line."""
    document = json.loads(line)
    container, key = dice.choice(leaves(document))
    container[key] = HOLE
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return text.replace(json.dumps(HOLE), dice.choice(VALUES)).encode()


def mutated(dice: random.Random) -> bytes:
    """Draw a line of the samples or the corpus and change it in one or two ways."""
    line = dice.choice(LINES)
    for _ in range(dice.randint(1, 2)):
        try:
            line = dice.choice((with_value, with_value, *WAYS))(line, dice)
        except (ValueError, IndexError, KeyError):  # no JSON any more
            break
    return line.replace(b"\n", b" ")


def test_no_mutated_line_ends_a_run() -> None:
    dice, number = random.Random(28), scale.some(20_000)
    accepted = 0
    for start in range(0, number, CHUNK):
        clusters: dict[str, list[bytes]] = defaultdict(list)
        for _ in range(min(CHUNK, number - start)):
            verdict = read(line := mutated(dice))
            if isinstance(verdict, Quarantined):
                assert not verdict.reason.startswith("featurelib cannot read"), line
            else:
                clusters[verdict.cluster].append(line)
        accepted += sum(map(len, clusters.values()))
        judge_rows(snapshot(clusters))
    assert accepted > number // 20


def test_whatever_a_parser_raises_quarantines_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr("featurelib.landing.line.checked_id", fail)
    verdict = read(GOOD[0].encode())
    assert isinstance(verdict, Quarantined)
    assert (
        verdict.reason == "featurelib cannot read this line (ZeroDivisionError): please report it"
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"kind":1e999}', "found 1e999"),
        (b'{"kind":[1e999]}', "found [1e999]"),
        (b'{"kind":{"a":1e999}}', 'found {"a":1e999}'),
        (
            swap(QUORUM, '"observers":[]}]}]', '"observers":[]}]}],"nodes":[{"node_id":1e999}]'),
            "answer.nodes[0][...]: the number is out of range",
        ),
    ],
)
def test_a_number_that_no_type_holds_is_quarantined_with_its_place(
    line: bytes, reason: str
) -> None:
    verdict = read(line)
    assert isinstance(verdict, Quarantined)
    assert verdict.reason.endswith(reason)
