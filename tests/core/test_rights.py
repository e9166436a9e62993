"""A right that is missing is a finding that names it, and never READY."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest

from featurelib.audit.audit import Judged
from featurelib.catalogue import load as load_catalogue
from featurelib.snapshot import begin, fold_lines
from featurelib.snapshot.state import freeze
from tests.core.lines import judge_rows, landings, lines_of, refusal_line, snapshot
from tests.core.oracle import METADATA, Cluster, Node

RANGES = {METADATA: (7, 27)}
SAID = {"levels": {METADATA: 25}, "epoch": 900}
BROKER = Node(node_id=1, ranges=RANGES, **SAID)  # type: ignore[arg-type]
VOTER = Node(node_id=1, role="controller", ranges=RANGES, **SAID)  # type: ignore[arg-type]
READY = Cluster(name="c", registry="fenced", nodes=(BROKER, VOTER), voters=(1,))
UNSEEN = Cluster(name="c", registry="fenced", nodes=(BROKER,))
VOUCHED = Cluster(name="c", registry="fenced", nodes=(BROKER,), controllers_vouched=True)
HIDDEN = {"mode_unknown", "voters_unknown", "right_missing", "right_withheld"}


def judged(cluster: Cluster, *more: bytes) -> Judged:
    return judge_rows(snapshot({"c": [*lines_of(cluster), *more]}), [cluster])


def verdict(said: Judged) -> str:
    return str(said.readiness["verdict"][0].as_py())


def found(said: Judged) -> dict[str, dict[str, Any]]:
    """Findings about rights, and those a right may stand behind, by code."""
    return {row["code"]: row for row in said.findings.to_pylist() if row["code"] in HIDDEN}


def test_a_refusal_is_the_finding_in_place_of_what_it_hides() -> None:
    assert set(found(judged(UNSEEN))) == {"mode_unknown"}
    refused = refusal_line("c", principal="User:auditor")
    said = judged(UNSEEN, refused)
    assert set(found(said)) == {"right_missing"}
    assert verdict(said) == "UNKNOWN"
    [(landing, line_id)] = landings([refused])
    row = found(said)["right_missing"]
    assert row["severity"] == "unknown"
    assert row["line_id"] == line_id
    assert int(row["observed_at"].timestamp() * 1_000_000) == landing.observed_at
    assert row["detail"] == (
        "DESCRIBE on CLUSTER; DescribeQuorum was refused to User:auditor by broker 1 (error 31), "
        "which shows who votes and where controllers listen"
    )


def test_a_cluster_that_would_be_ready_is_not_once_the_right_was_taken_away() -> None:
    assert verdict(judged(READY)) == "READY"
    said = judged(READY, refusal_line("c", age=0))
    assert (verdict(said), set(found(said))) == ("UNKNOWN", {"right_missing"})
    assert said.readiness["unknowns"].to_pylist() == [1]


def test_a_right_that_was_given_since_is_no_finding() -> None:
    said = judged(READY, refusal_line("c", age=5))
    assert (verdict(said), found(said)) == ("READY", {})


def test_the_raw_answer_of_another_collector_says_the_same() -> None:
    raw = json.loads(refusal_line("c"))
    del raw["error"], raw["error_code"]
    raw |= {"version": 1, "answer": {"error_code": 31, "topics": []}}
    said = found(judged(UNSEEN, json.dumps(raw).encode()))
    assert "refused to whoever collects by broker 1" in said["right_missing"]["detail"]


@pytest.mark.parametrize("code", [None, 0, 29, 42])
def test_another_error_is_no_missing_right(code: int | None) -> None:
    line = json.loads(refusal_line("c"))
    del line["error_code"]
    if code is not None:
        line["error_code"] = code
    assert set(found(judged(UNSEEN, json.dumps(line).encode()))) == {"mode_unknown"}


def test_a_right_that_one_half_of_the_nodes_does_not_need_keeps_nothing() -> None:
    refused = refusal_line("c", listener="controller", principal="User:CN=ops, O=us")
    said = judged(READY, refused)
    assert (verdict(said), set(found(said))) == ("READY", {"right_withheld"})
    detail = found(said)["right_withheld"]["detail"]
    assert "refused to User:CN=ops, O=us by controller 1" in detail


def test_an_owner_who_vouches_for_the_controllers_stands_in_for_the_right() -> None:
    said = judged(VOUCHED, refusal_line("c"))
    assert (verdict(said), set(found(said))) == ("READY", {"right_withheld"})


def test_controllers_that_list_each_other_to_nobody_else_are_said_and_keep_nothing() -> None:
    refused = refusal_line("c", kind="describe_cluster", listener="controller", endpoint_type=2)
    said = judged(READY, refused)
    assert (verdict(said), set(found(said))) == ("READY", {"right_withheld"})
    row = found(said)["right_withheld"]
    assert row["severity"] == "info"
    assert row["detail"].startswith("ALTER on CLUSTER; DescribeCluster was refused")


def test_both_halves_that_refuse_are_one_finding() -> None:
    both = [
        refusal_line("c", principal="User:a"),
        refusal_line("c", listener="controller", asked_node=3, principal="User:b"),
    ]
    said = judged(UNSEEN, *both)
    rows = [r for r in said.findings.to_pylist() if r["code"] == "right_missing"]
    assert len(rows) == 1
    assert "refused to User:a by broker 1 and to User:b by controller 3" in rows[0]["detail"]


def states(lines: Iterable[bytes]) -> bytes:
    return freeze(fold_lines(landings(lines), load_catalogue()))


def test_refusals_fold_the_same_in_any_order_and_over_nights() -> None:
    lines = [
        refusal_line("c", age=3, principal="User:a"),
        refusal_line("c", age=1, principal="User:b"),
        refusal_line("c", age=2, listener="controller"),
        lines_of(READY)[-1],  # DescribeQuorum, answered
    ]
    whole = states(lines)
    assert {states(some) for some in itertools.permutations(lines)} == {whole}
    stored: bytes | None = None
    for night in lines:
        fold = begin(stored, load_catalogue())
        for landing, line_id in landings([night]):
            fold.add(landing, line_id)
        fold.close_run()
        stored = freeze(fold.finish())
    assert stored == whole


def test_rights_of_one_cluster_say_nothing_of_another() -> None:
    other = [line.replace(b'"c"', b'"d"') for line in lines_of(READY)]
    batch = snapshot({"c": [*lines_of(UNSEEN), refusal_line("c")], "d": other})
    said = judge_rows(batch)
    assert said.readiness["verdict"].to_pylist() == ["UNKNOWN", "READY"]
