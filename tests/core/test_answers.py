"""The core answers like the slow plain oracle, which was written from the texts without it.

FEATURELIB_CASES says on how many random cases; `make exhaustive` asks a million.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from featurelib.core.batch import NOT_HERE
from featurelib.core.dialect import GENERATIONS, KIP, load
from featurelib.core.dry_run import answer as ask
from featurelib.core.reply import Reply
from featurelib.errors import ProtocolError
from tests.core.controllers import words
from tests.core.controllers.draw import Drawn, draw
from tests.core.controllers.model import answer
from tests.core.oracle_cases import (
    RENAMED,
    TABLES,
    Answers,
    answers,
    cluster_of,
    levels_after,
    request_of,
)

CASES = int(os.environ.get("FEATURELIB_CASES", "2000"))
CHUNK = 500
DIALECTS = (*GENERATIONS, KIP)
# An oracle that reads a rule about the stored level as a dependency, and unknown as not unstable.
SAME_RULE = {"metadata_version_unmet": "dependency_unmet"}


def chunks(dialect: str) -> Iterator[list[Drawn]]:
    count = -(-CASES // len(DIALECTS))
    for start in range(0, count, CHUNK):
        yield [draw(seed, dialect) for seed in range(start, min(start + CHUNK, count))]


def differences(case: Drawn, ours: Answers, position: int) -> Iterator[str]:
    theirs = answer(case.generation, case.cluster, case.request)
    reply, outcome = ours.replies[position], ours.outcome
    if reply.code != theirs.code:
        yield f"code {reply.code}, not {theirs.code}"
    if case.generation != KIP:
        yield from other_words(reply, theirs)
    after = levels_after(ours.batch, outcome, position)
    expected = {name: pair for name, pair in (theirs.after or {}).items() if pair[1]}
    if after != expected:
        yield f"levels {after}, not {expected}"
    if theirs.epoch_moved not in (None, bool(outcome.writes[position])):
        yield f"epoch moves: {outcome.writes[position]}, not {theirs.epoch_moved}"
    if case.generation != KIP and theirs.kraft_record != outcome.kraft_record[position]:
        yield f"record {outcome.kraft_record[position]}, not {theirs.kraft_record}"
    yield from other_rules(theirs, ours, position)


def other_words(reply: Reply, theirs: words.Answer) -> Iterator[str]:
    if reply.message != theirs.message:
        yield f"says {reply.message}, not {theirs.message}"
    if (reply.results is None) != (theirs.results is None):
        yield f"results {reply.results}, not {theirs.results}"
        return
    mine = sorted(reply.results or (), key=lambda result: (result.feature, result.code))
    others = sorted(theirs.results or (), key=lambda result: (result.feature, result.code))
    if [(r.feature, r.code) for r in mine] != [(r.feature, r.code) for r in others]:
        yield f"results {mine}, not {others}"
        return
    for result, other in zip(mine, others, strict=True):
        if result.message != other.message:
            yield f"says {result.message}, not {other.message}"


def other_rules(theirs: words.Answer, ours: Answers, position: int) -> Iterator[str]:
    """`kip` answers in nobody's words: there the violated rules are compared, all of them."""
    if ours.judged.rejecting_check[position] != NOT_HERE:
        return
    for result in theirs.results or ():
        expected = {RENAMED.get(rule, rule) for rule in result.rules}
        rules = {SAME_RULE.get(rule, rule) for rule in ours.violated(position, result.feature)}
        if "unknown_level" in rules:
            rules.discard("unstable_level")
        if expected and rules != expected:
            yield f"{result.feature}: {rules}, not {expected}"


@pytest.mark.no_cover
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_core_answers_like_the_oracle(dialect: str) -> None:
    for cases in chunks(dialect):
        ours = answers(cases)
        found = {
            (case.request, difference)
            for position, case in enumerate(cases)
            for difference in differences(case, ours, position)
        }
        assert not found, sorted(found, key=str)[:3]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_never_depends_on_the_other_clusters_of_the_batch(dialect: str) -> None:
    cases = [draw(seed, dialect) for seed in range(60)]
    together = answers(cases)
    for position, case in enumerate(cases):
        alone = ask(cluster_of(case.cluster), request_of(case), load(dialect), TABLES)
        assert alone.reply == together.replies[position]
        assert alone.writes == together.outcome.writes[position]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_order_of_nodes_changes_no_code_and_no_level(dialect: str) -> None:
    cases = [draw(seed, dialect) for seed in range(60)]
    for case in cases:
        nodes = tuple(reversed(case.cluster.nodes))
        turned = words.Cluster(**{**vars(case.cluster), "nodes": nodes})
        asked, table = request_of(case), load(dialect)
        one = ask(cluster_of(case.cluster), asked, table, TABLES)
        other = ask(cluster_of(turned), asked, table, TABLES)
        assert one.reply.code == other.reply.code
        assert one.after.finalized == other.after.finalized


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_dry_run_leaves_everything_where_it_honours_the_word(dialect: str) -> None:
    for seed in range(150):
        case = draw(seed, dialect)
        cluster, table = cluster_of(case.cluster), load(dialect)
        if case.request.validate_only and table.can.validate_only == "honoured":
            said = ask(cluster, request_of(case), table, TABLES)
            assert not said.writes
            assert said.after.finalized == cluster.finalized


@pytest.mark.parametrize("dialect", GENERATIONS)
def test_a_version_nobody_reads_there_is_no_answer(dialect: str) -> None:
    case, table = draw(1, dialect), load(dialect)
    asked = replace(request_of(case), version=max(table.can.wire_versions) + 1)
    with pytest.raises(ProtocolError, match=f"versions are 0.*, not {asked.version}"):
        ask(cluster_of(case.cluster), asked, table, TABLES)
