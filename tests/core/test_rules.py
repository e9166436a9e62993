"""Each rule alone: a row that fits, and the one change that makes it offend."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from featurelib.core.rules import NODE_COLUMNS, RULES, SCOPES, UPDATE_COLUMNS, of_updates

NODE: dict[str, Any] = {
    "lowest": 3, "level": 3, "min_version": 1, "max_version": 5, "silent": False
}  # fmt: skip
UPDATE: dict[str, Any] = {
    "level": 3, "current": 2, "kind": 1, "nameless": False, "is_metadata_version": False,
    "is_kraft_version": False, "finalized_min": 1, "metadata_version": 20,
    "metadata_proposed": 20, "proposed": 0, "needed": 0, "needed_by_others": 0, "asked": 3,
    "refusing": 1, "unregistered": 0,
    "raft_ready": True, "local_lists": True,
    "local_min": 1, "local_max": 5, "known_feature": True, "known_level": True,
    "newest_known": 5, "newest_stable": 4, "loses": False, "metadata_floor": 0,
    "metadata_needed": 0, "register_from": 15, "migrating": False, "off": False,
    "unauthorized": False, "elsewhere": False,
}  # fmt: skip


def offends(name: str, **change: object) -> bool:
    rule = RULES.get(name) or SCOPES[name]
    fits = NODE if rule.about_nodes else UPDATE
    rows = SimpleNamespace(**{key: np.array([v]) for key, v in {**fits, **change}.items()})
    return bool(rule.ask(rows)[0])


def test_the_rows_of_this_file_have_every_column() -> None:
    assert set(NODE) == set(NODE_COLUMNS)
    assert set(UPDATE) == set(UPDATE_COLUMNS)


# rule → changes that make it offend, changes that do not
CASES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "unsupported_by_node": ([{"level": 6}, {"level": 2, "min_version": 3}, {"silent": True},
        {"level": 1, "min_version": 0, "max_version": 0},
        {"level": 3, "min_version": 4, "max_version": 2}, {"level": 6, "silent": True}], [{},
        {"level": 1}, {"level": 5}, {"level": 0, "min_version": 0, "max_version": 0}]),
    "range_unsupported_by_node": ([{"lowest": 1, "min_version": 2}, {"level": 6},
        {"silent": True}, {"lowest": 0, "level": 6}, {"lowest": 0, "silent": True},
        {"level": 3, "min_version": 4, "max_version": 2, "lowest": 3}], [{}, {"lowest": 1},
        {"level": 5}]),
    "incompatible_with_finalized": ([{"lowest": 1, "min_version": 2}, {"level": 6},
        {"level": 2, "lowest": 4, "min_version": 3},
        {"lowest": 1, "level": 1, "min_version": 0, "max_version": 0},
        {"level": 3, "min_version": 4, "max_version": 2, "lowest": 3}], [{}, {"lowest": 1},
        {"lowest": 0, "level": 0, "min_version": 2}, {"level": 5}]),
    "absent_from_local": ([{"local_lists": False}], [{}]),
    "below_local_min": ([{"level": 0}, {"local_min": 4}], [{}, {"level": 6}, {"level": 1}]),
    "outside_local_range": ([{"level": 0}, {"level": 6},
        {"level": 3, "local_min": 4, "local_max": 2}], [{}, {"level": 1}, {"level": 5}]),
    "no_node_to_ask": ([{"asked": 0}], [{}]),
    "no_quorum_majority": ([{"refusing": 2}, {"asked": 4, "refusing": 2},
        {"asked": 1, "refusing": 1}, {"asked": 5, "refusing": 3},
        {"asked": 6, "refusing": 3}], [{}, {"asked": 4}, {"asked": 1, "refusing": 0},
        {"asked": 0, "refusing": 0}, {"asked": 5, "refusing": 2}, {"asked": 2, "refusing": 0}]),
    "voter_not_registered": ([{"unregistered": 1}], [{}]),
    "configured_voter_not_registered": ([{"unregistered": 1}], [{}]),
    "raft_voters_not_ready": ([{"raft_ready": False}], [{}, {"raft_ready": False, "level": 2},
        {"level": 1}, {"level": 1, "raft_ready": False}]),
    "empty_name": ([{"nameless": True}], [{}]),
    "unknown_upgrade_type": ([{"kind": 0}, {"kind": 4}, {"kind": -1}], [{}, {"kind": 3}]),
    "negative_level": ([{"level": -1}], [{}, {"level": 0}]),
    "delete_without_intent": ([{"level": 0}, {"level": -1}], [{}, {"level": 0, "kind": 2},
        {"level": 1}, {"level": 0, "kind": 0}, {"level": 0, "kind": 4}]),
    "delete_of_absent": ([{"level": 0, "current": 0}, {"level": -1, "current": 0}], [{},
        {"level": 0}, {"level": 1, "current": 0}, {"level": 2, "current": 0},
        {"level": 0, "current": -32768}]),
    "same_level": ([{"level": 2}], [{}, {"level": 1}]),
    "downgrade_without_intent": ([{"level": 1}], [{}, {"level": 2}, {"level": 1, "kind": 2},
        {"level": 1, "kind": 0}, {"level": 1, "kind": 4}]),
    "downgrade_without_safe_type": (
        [{"level": 1}, {"level": 1, "kind": 3}], [{}, {"level": 1, "kind": 2}, {"level": 2}]
    ),
    "upgrade_under_downgrade_type": ([{"kind": 2}, {"kind": 3}], [{}, {"kind": 2, "level": 2},
        {"kind": 4}, {"level": 1, "kind": 2}, {"level": 1, "kind": 3}]),
    "change_under_downgrade_type": (
        [{"kind": 2}, {"kind": 3, "level": 1}], [{}, {"kind": 2, "level": 2}, {"kind": 4}]
    ),
    "below_finalized_min": ([{"level": 0}], [{}, {"level": 1}]),
    "unknown_metadata_version": ([{"known_level": False}], [{}]),
    "below_metadata_floor": ([{"metadata_floor": 4}], [{}, {"metadata_floor": 3}]),
    "during_zk_migration": ([{"migrating": True}], [{}]),
    "lossy_unsafe_downgrade": ([{"level": 1, "kind": 3, "loses": True}], [{},
        {"level": 1, "kind": 3}, {"level": 1, "kind": 2, "loses": True},
        {"kind": 3, "loses": True}, {"level": 2, "kind": 3, "loses": True},
        {"level": 1, "kind": 4, "loses": True}]),
    "lossy_safe_downgrade": ([{"level": 1, "kind": 2, "loses": True}], [{},
        {"level": 1, "kind": 2}, {"level": 1, "kind": 3, "loses": True},
        {"kind": 2, "loses": True}, {"level": 2, "kind": 2, "loses": True},
        {"level": 1, "kind": 1, "loses": True}]),
    "unknown_feature": ([{"known_feature": False}], [{}, {"known_level": False}]),
    "unknown_level": ([{"known_level": False}, {"level": 1, "known_level": False}], [{},
        {"known_feature": False, "known_level": False}, {"known_level": False, "level": 0},
        {"level": -1, "known_level": False}]),
    "level_newer_than_catalogue": (
        [{"level": 6}, {"level": 1, "newest_known": 0}],
        [{}, {"level": 5}, {"level": 9, "newest_known": -1}],
    ),
    "unstable_level": ([{"level": 5}, {"level": 1, "newest_stable": 0}], [{}, {"level": 4},
        {"level": 9, "newest_stable": -1}, {"level": 0, "newest_stable": 0}]),
    "metadata_version_unmet": (
        [{"metadata_needed": 21}, {"metadata_needed": 21, "level": 1}],
        [{}, {"metadata_needed": 20}, {"metadata_needed": 21, "level": 0}],
    ),
    "dependency_unmet": ([{"needed": 1}], [{}, {"needed": 1, "proposed": 1},
        {"proposed": 2, "needed": 1}]),
    "dependant_broken": (
        [{"needed_by_others": 4}, {"level": -1, "needed_by_others": 1}],
        [{}, {"needed_by_others": 3}, {"level": -1}],
    ),
    "not_authorized": ([{"unauthorized": True}], [{}]),
    "not_controller": ([{"elsewhere": True}], [{}]),
    "system_off": ([{"off": True}], [{}]),
    "sets": ([{}, {"level": 1}], [{"level": 0}]),
    "raises": ([{}], [{"level": 2}, {"level": 1}]),
    "changes": ([{}, {"level": 1}], [{"level": 2}]),
    "finalized": ([{}, {"current": 1}], [{"current": 0}]),
    "of_metadata_version": ([{"is_metadata_version": True}], [{}]),
    "of_kraft_version": ([{"is_kraft_version": True}], [{}]),
    "of_other_features": ([{}, {"is_kraft_version": True}], [{"is_metadata_version": True}]),
    "of_ordinary_features": (
        [{}], [{"is_kraft_version": True}, {"is_metadata_version": True}]
    ),
    "controllers_register": (
        [{}, {"metadata_version": 15}], [{"metadata_version": 14}]
    ),
}  # fmt: skip


def test_every_rule_and_every_scope_has_its_cases() -> None:
    assert set(CASES) == set(RULES) | set(SCOPES)


@pytest.mark.parametrize("name", CASES)
def test_a_rule_fires_on_its_fault_alone(name: str) -> None:
    faults, fine = CASES[name]
    assert [change for change in faults if not offends(name, **change)] == []
    assert [change for change in fine if offends(name, **change)] == []


def test_a_column_nobody_has_fails_when_the_rule_is_entered() -> None:
    def bad(levle: object) -> object:
        return levle

    with pytest.raises(TypeError, match="no such column: levle"):
        of_updates("nothing")(bad)  # type: ignore[arg-type]  # it is wrong on purpose
    assert "bad" not in RULES


def test_every_rule_has_a_source_and_a_sentence() -> None:
    for rule in RULES.values():
        assert rule.source, rule.name
        assert rule.sentence.endswith("."), rule.name
        assert "\n" not in rule.sentence, rule.name
