"""What elected controllers do to the features node: recorded, hostile, and by the plain oracle."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from random import Random
from typing import Any

import pytest

from featurelib.core.dialect import GENERATIONS, load
from featurelib.core.features_znode import (
    ElectionResult,
    ZnodeChange,
    ZnodeContent,
    ZnodeReason,
    elect,
    knows,
)
from tests.core.controllers.draw import span
from tests.core.controllers.election import elect as elect_by_oracle

TESTS = Path(__file__).parents[1]
RECORDED = {"2.8.2": 9, "3.3.2": 28, "3.9.2": 25}
F, G = ("f", 1, 2), ("g", 3, 3)
OWN = {"f": (1, 3), "g": (2, 4)}


def generation(release: str) -> str:
    return "zk-2.7" if release == "2.8.2" else "zk-3.3"


def recorded(release: str) -> list[dict[str, Any]]:
    path = TESTS / "data" / "transcripts" / "bootstrap" / f"zk-{release}.jsonl.xz"
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def hostile(release: str) -> list[dict[str, Any]]:
    text = (TESTS / "core/data/hostile_feature_nodes" / f"zk-{release}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def ranges(said: dict[str, list[int]]) -> dict[str, tuple[int, int]]:
    return {name: (low, high) for name, (low, high) in said.items()}


def elected(case: dict[str, Any], text: str | None, protocol_version: str) -> ElectionResult:
    dialect = load(generation(case["release"]))
    return elect(text, protocol_version, ranges(case["supported"]), dialect)


@pytest.mark.parametrize("release", RECORDED)
def test_every_recorded_election_ends_as_it_did(release: str) -> None:
    cases = recorded(release)
    for case in cases:
        before = case["node_before"]
        found = elected(case, before, case["inter_broker_protocol"])
        assert found.text is not None
        assert json.loads(found.text) == json.loads(case["node_after"]), case["id"]
        version = found.version(None if before is None else 0)
        assert version == case["znode_version_after"], case["id"]
        wrote = [said for said in case["log"] if "ing FeatureZNode at path" in said]
        assert (found.change is ZnodeChange.UNCHANGED) == (wrote == []), case["id"]
        warned = any("contains non-empty features" in said for said in case["log"])
        assert (ZnodeReason.EMPTIED in found.reasons) == warned, case["id"]
    assert len(cases) == RECORDED[release]


@pytest.mark.parametrize(("release", "starts"), [("2.8.2", 36), ("3.9.2", 36)])
def test_elections_over_hostile_contents(release: str, starts: int) -> None:
    """The broker is there before its election: it exits, or nobody is elected, or all is well."""
    cases = [case for case in hostile(release) if case["moment"] == "at_start"]
    for case in cases:
        found = elected(case, case["content"], ".".join(release.split(".")[:2]))
        if case["exit_status"] == 1:
            assert found.change is ZnodeChange.NOBODY, case["id"]
            ended = (ZnodeReason.WRONG_TYPE,), (ZnodeReason.INCOMPATIBLE,)
            assert found.reasons in ended, case["id"]
        elif case["update_f_to_4"]["error_code"] == 41:
            assert found.reasons == (ZnodeReason.UNDECODABLE,), case["id"]
            assert (found.version(7), found.text) == (7, case["content"])
            assert case["znode_after"] == "unchanged"
        else:
            said = case["apiversions"]
            assert found.content is not None, case["id"]
            told = {e["name"]: e["max_version_level"] for e in said["finalized_features"]}
            assert {name: level for name, _, level in found.content.levels} == told, case["id"]
            epoch = found.version(case["znode_version_before"])
            assert epoch == said["finalized_features_epoch"], case["id"]
    assert len(cases) == starts


def content(*levels: tuple[str, int, int], schema: int = 1, status: int = 1) -> str:
    return ZnodeContent(schema_version=schema, status=status, levels=levels).text


CREATED, REWRITTEN, SAME = ZnodeChange.CREATED, ZnodeChange.REWRITTEN, ZnodeChange.UNCHANGED


def test_an_election_says_why_it_writes_and_what_is_lost() -> None:
    """Generation, protocol version and the node before → what changes, why, and what is lost."""
    why = ZnodeReason
    elections = (
        ("zk-2.7", "2.8", None, CREATED, (why.ABSENT,), ()),
        ("zk-2.7", "2.7-IV0", content(F), SAME, (), ()),
        ("zk-2.7", "2.6", content(F), REWRITTEN, (why.DISABLED,), (F,)),
        ("zk-2.7", "", content(), SAME, (), ()),
        ("zk-2.7", "0.10.0-IV1", content(status=0), SAME, (), ()),
        ("zk-2.7", "2.6", content(G, status=0), REWRITTEN, (why.EMPTIED,), ()),
        ("zk-3.3", "3.9", content(status=0, schema=2), REWRITTEN, (why.ENABLED,), ()),
        ("zk-3.3", "3.3-IV0", content(F), REWRITTEN, (why.SCHEMA_UP,), ()),
        ("zk-3.3", "3.2", content(F, schema=2), REWRITTEN, (why.SCHEMA_DOWN,), ()),
    )
    for name, protocol, before, *expected in elections:
        found = elect(before, protocol, OWN, load(name))
        assert [found.change, found.reasons, found.lost] == expected, (name, protocol)


def test_a_broker_that_cannot_live_with_the_node_is_never_elected() -> None:
    """2.7 to 3.2 look at the minimum too; below protocol version 2.7 nobody looks."""
    low, high = content(("g", 1, 3)), content(("f", 1, 4), ("no.such", 1, 1))
    for name, unfit in [("zk-2.7", ("g",)), ("zk-3.3", ())]:
        assert elect(low, "2.8", OWN, load(name)).unfit == unfit
        assert elect(high, "2.8", OWN, load(name)).unfit == ("f", "no.such")
        assert elect(high, "2.6", OWN, load(name)).change is ZnodeChange.REWRITTEN


RELEASES = {"zk-2.7": "2.8.2", "zk-3.3": "3.9.2"}


@pytest.mark.parametrize("name", RELEASES)
def test_random_elections_end_as_the_oracle_says(name: str) -> None:
    chance = Random(name)
    changes = set()
    for _ in range(2000):
        schema, status = chance.choice([1, 1, 2, 2, 3, 0]), chance.choice([0, 1, 1, 2])
        own = {n: span(chance, 6, 1) for n in chance.sample(["f", "g", "h"], chance.randint(0, 3))}
        own = {n: (max(low, 1), max(high, 1)) for n, (low, high) in own.items()}
        levels = []
        for n in chance.sample(["f", "g", "h", ""], chance.choice([0, 0, 1, 2])):
            level = chance.randint(0, 7)
            levels.append((n, chance.randint(0, max(level, 1)), level))
        text = content(*levels, schema=schema, status=status)
        before = chance.choice([text, text, text, None, "{", "[]"])
        protocol = chance.choice(["2.6", "2.7", "2.8", "3.2", "3.3", "3.9"])
        found = elect(before, protocol, own, load(name))
        said = elect_by_oracle(RELEASES[name], protocol, before, own)
        changes.add(found.change)
        if found.unfit:  # the oracle looks at elections only, not at who lives to see one
            continue
        assert (found.change is not ZnodeChange.NOBODY) == said.elected, (before, protocol)
        assert (found.change in (ZnodeChange.CREATED, ZnodeChange.REWRITTEN)) == said.written
        if said.node is not None and found.content is not None:
            mine = {n: (low, level) for n, low, level in found.content.levels}
            theirs = said.node.features if said.node.enabled else {}
            assert (found.content.schema_version, mine) == (said.node.schema, theirs), before
            assert found.content.status == int(said.node.enabled)
    assert changes == set(ZnodeChange)


# --- Protocol versions ----------------------------------------------------------------------------


def test_a_release_knows_its_own_and_all_older_ones() -> None:
    assert [knows(load(name), "3.3") for name in GENERATIONS[:2]] == [False, True]
    assert [knows(load(name), "3.2-IV0") for name in GENERATIONS[:2]] == [True, True]
