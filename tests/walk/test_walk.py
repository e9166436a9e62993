"""A short walk among the tests, and every disagreement that was found once, replayed without Kafka.

The long walks are `make walk`; docs/contributing/walk.md has their figures.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random

import pytest

from featurelib.catalogue import load
from featurelib.config.fleet import Fleet, FleetEntry
from tests.backends.rig.jars import UnavailableError
from tests.laboratory import LABORATORY
from tests.seeing import see
from tests.walk.cases import Case, read_case, write_case
from tests.walk.comparing import (
    KINDS,
    LEVEL,
    MISQUOTED,
    PREFIX,
    WRONG_NOTHING,
    WRONG_PLAN,
    WRONG_READY,
    WRONG_REFUSAL,
    Compared,
    Question,
    compare,
)
from tests.walk.steps import METADATA
from tests.walk.walking import DAY, Tally, Walk
from tests.walk.wire import Said

CASES = sorted((Path(__file__).parent / "cases").glob("*.jsonl.gz"))
SAMPLES = LABORATORY
SHORT = 8  # steps


def replayed(case: Case) -> tuple[Compared, set[Question]]:
    """The recorded look judged anew, and the recorded answers that were asked for."""
    cluster_id = see(case.lines, catalogue=load(), as_of=None, max_age=DAY).cluster_id
    entry = FleetEntry(id=cluster_id, registrations_complete=case.vouched)
    view = see(case.lines, catalogue=load(), as_of=None, max_age=DAY, fleet=Fleet(cluster=(entry,)))
    met = set[Question]()

    def ask(question: Question) -> Said | None:
        if question in case.answers:
            met.add(question)
        return case.answers.get(question)

    return compare(view, load(), ask, Random(1), levels=dict(case.levels), everything=True), met


def test_what_a_controller_did_not_bear_out_is_fixed() -> None:
    for path in CASES:
        found, met = replayed(read_case(path))
        assert met, f"{path.name} answers nothing that is asked today"
        assert found.disagreements == [], path.name


def test_a_short_walk_and_its_controllers_agree(tmp_path: Path) -> None:
    tally, story = Tally(), list[str]()
    walk = Walk(
        seed="tests", folder=tmp_path / "kept", home=tmp_path / "home", tally=tally,
        say=story.append,
    )  # fmt: skip
    try:
        walk.run(SHORT)
    except UnavailableError as missing:
        pytest.skip(f"real Kafka: {missing}")
    assert tally.counts["steps"] == SHORT, story
    assert sum(tally.counts[kind] for kind in KINDS) == 0, story
    assert tally.counts["judgements"] > SHORT // 2, story


def test_a_refusal_where_the_product_says_ready_is_found() -> None:
    """Whatever is asked is refused: every READY is wrong, and the plan and why-not with it."""
    lines = (SAMPLES / "k41-forgotten" / "landing.jsonl").read_bytes().splitlines()
    view = see(lines, catalogue=load(), as_of=None, max_age=DAY)
    no = Said(code=95, message=f"{PREFIX}No.", results={})
    found = compare(view, load(), lambda _: no, Random(1), levels={METADATA: 1})
    kinds = {one.kind for one in found.disagreements}
    assert kinds >= {WRONG_READY, WRONG_PLAN, WRONG_NOTHING, MISQUOTED, LEVEL}, kinds


def test_an_acceptance_where_the_product_says_blocked_is_found() -> None:
    lines = (SAMPLES / "ghost-broker" / "landing.jsonl").read_bytes().splitlines()
    view = see(lines, catalogue=load(), as_of=None, max_age=DAY)
    yes = Said(code=0, message=None, results={})
    found = compare(view, load(), lambda _: yes, Random(1))
    assert WRONG_REFUSAL in {one.kind for one in found.disagreements}


def test_a_case_is_read_as_it_was_written(tmp_path: Path) -> None:
    question: Question = (("metadata.version", 29, 1),)
    case = Case(
        seed="7.1", step=3, story=("1. stopped 2",), disagreement="wrong READY",
        lines=(b"{}", b"{}"), vouched=True, levels={METADATA: 27},
        answers={question: Said(code=95, message="no", results={METADATA: (95, "no")})},
    )  # fmt: skip
    write_case(tmp_path / "case.jsonl", case)
    packed = tmp_path / "case.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "case.jsonl").read_bytes()))
    assert read_case(packed) == read_case(tmp_path / "case.jsonl") == case
