"""Rules where one row is at fault twice, or hangs on the very edge of what a column may hold."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.test_rules import offends

EMPTY_RANGE = {"level": 3, "min_version": 4, "max_version": 2}

TWICE_AT_FAULT: dict[str, list[dict[str, Any]]] = {
    "unsupported_by_node": [EMPTY_RANGE, {"level": 6, "silent": True}],
    "range_unsupported_by_node": [
        {"lowest": 0, "level": 6}, {"lowest": 0, "silent": True}, {**EMPTY_RANGE, "lowest": 3},
    ],
    "incompatible_with_finalized": [{**EMPTY_RANGE, "lowest": 3}],
    "outside_local_range": [{"level": 3, "local_min": 4, "local_max": 2}],
}  # fmt: skip


@pytest.mark.parametrize("name", TWICE_AT_FAULT)
def test_a_row_that_is_at_fault_twice_offends(name: str) -> None:
    assert [change for change in TWICE_AT_FAULT[name] if not offends(name, **change)] == []


AT_THE_EDGE: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "incompatible_with_finalized": ([], [{"level": 5}]),
    "no_quorum_majority": (
        [{"asked": 1, "refusing": 1}, {"asked": 5, "refusing": 3}, {"asked": 6, "refusing": 3}],
        [{"asked": 5, "refusing": 2}, {"asked": 2, "refusing": 0}],
    ),
    "raft_voters_not_ready": ([], [{"level": 1, "raft_ready": False}]),
    "delete_without_intent": ([], [{"level": 0, "kind": 0}, {"level": 0, "kind": 4}]),
    # 32768 in the features node reads as -32768 from 3.3 on, and is there.
    "delete_of_absent": (
        [{"level": -1, "current": 0}],
        [{"level": 2, "current": 0}, {"level": 0, "current": -32768}],
    ),
    "downgrade_without_intent": ([], [{"level": 1, "kind": 0}, {"level": 1, "kind": 4}]),
    "upgrade_under_downgrade_type": ([], [{"level": 1, "kind": 2}, {"level": 1, "kind": 3}]),
    "lossy_unsafe_downgrade": ([], [{"level": 1, "kind": 4, "loses": True}]),
    "lossy_safe_downgrade": ([], [{"level": 1, "kind": 1, "loses": True}]),
    "unknown_level": ([{"level": 1, "known_level": False}], [{"level": -1, "known_level": False}]),
    "unstable_level": ([{"level": 1, "newest_stable": 0}], [{"level": 0, "newest_stable": 0}]),
    "dependency_unmet": ([], [{"proposed": 2, "needed": 1}]),
}  # fmt: skip


@pytest.mark.parametrize("name", AT_THE_EDGE)
def test_a_rule_holds_to_the_edge_of_its_columns(name: str) -> None:
    faults, fine = AT_THE_EDGE[name]
    assert [change for change in faults if not offends(name, **change)] == []
    assert [change for change in fine if offends(name, **change)] == []
