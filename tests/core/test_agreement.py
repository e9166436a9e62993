"""READY needs the strict policy and the cluster's own dialect, whichever it may be."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from featurelib.audit.evidence import Expected
from featurelib.catalogue import load as load_catalogue
from featurelib.catalogue import with_overlay
from tests.core.frozen import expect_frozen
from tests.core.lines import (
    at,
    codes,
    findings,
    judge_lines,
    line_of,
    lines_of,
    rows_of,
    steps,
    told,
)
from tests.core.oracle import METADATA, Cluster, Node
from tests.core.random_clusters import RELEASES

Ranges = dict[str, tuple[int, int]]
# One broker starts at 1, the others at 2: only 3.3 and later ask for the level alone.
UNEVEN: list[Ranges] = [{"f": (1, 5)}, {"f": (2, 5)}]
BESIDE: list[Ranges] = [{"f": (1, 4)}, {"f": (1, 4)}, {"f": (2, 5)}]
EVEN: list[Ranges] = [{"f": (1, 5)}] * 2


def znode(path: str, data: dict[str, Any]) -> bytes:
    return line_of("znode", "c", 1, path=path, version=3, czxid=7, data=json.dumps(data))


def zookeeper(
    brokers: list[Ranges],
    controller: int | None = 1,
    *more: bytes,
    schema: int = 1,
    status: int = 1,
    finalized: Ranges | None = None,
) -> list[bytes]:
    stored = {
        name: {"min_version_level": low, "max_version_level": level}
        for name, (low, level) in (finalized or {}).items()
    }
    lines = [znode("/feature", {"version": schema, "status": status, "features": stored})]
    for node_id, ranges in enumerate(brokers, 1):
        features = {n: {"min_version": a, "max_version": b} for n, (a, b) in ranges.items()}
        lines.append(znode(f"/brokers/ids/{node_id}", {"version": 5, "features": features}))
    if controller is not None:
        lines.append(znode("/controller", {"version": 1, "brokerid": controller}))
    return [*lines, *more]


def answer(node_id: int, *, epoch: int, age: int = 0) -> bytes:
    keys = {"role": "broker", "endpoint": f"127.0.0.1:{9000 + node_id}", "error_code": 0}
    keys |= {"asked_version": 3, "answered_version": 3}
    keys["supported_features"] = [{"name": "f", "min_version": 1, "max_version": 5}]
    keys |= {"finalized_features_epoch": epoch, "finalized_features": []}
    line = line_of("api_versions", "c", age, node_id=node_id, **keys)
    # With age 0 it is of the reading that began an hour ago.
    return line if age else line.replace(at(0, node_id).encode(), at(1, 60 + node_id).encode())


def blind(one: int, age: int = 0) -> list[bytes]:
    """Both answer, and one of them does not see the features node."""
    return [answer(n, epoch=-1 if n == one else 5, age=age) for n in (1, 2)]


def kraft(ranges: Ranges, level: int, **also: int) -> list[bytes]:
    """A broker and a controller, both with these ranges, at that metadata.version."""
    levels = {METADATA: level, **also}
    node = Node(node_id=1, ranges=ranges, levels=levels, epoch=900)
    controller = Node(node_id=11, role="controller", ranges=ranges)
    return lines_of(Cluster(name="c", nodes=(node, controller), voters=(11,), stored=levels))


NO_RELEASE: Ranges = {METADATA: (1, 6), "f": (1, 3)}  # none ends at metadata.version 6
# Lines, and the release that the owner names → what is found: data/frozen/agreement.txt.
SCENES: dict[str, tuple[Iterable[bytes], str]] = {
    "the worst answer of all generations that fit counts": (zookeeper(UNEVEN), ""),
    "a release the owner names settles it, 2.8": (zookeeper(UNEVEN), "2.8"),
    "a release the owner names settles it, 3.9.2": (zookeeper(UNEVEN), "3.9.2"),
    "only 3.3 and later write schema 2": (zookeeper(UNEVEN, schema=2), ""),
    "the active controller alone is asked where it is known": (zookeeper(UNEVEN, 2), "2.8"),
    "where it is not known, each may be it": (zookeeper(UNEVEN, None), "2.8"),
    "where it is not registered, each may be it": (zookeeper(UNEVEN, 9), "2.8"),
    "all nodes behind a refusal are named": (zookeeper([*UNEVEN, UNEVEN[1]]), "2.8"),
    "also where the first node is behind it": (
        zookeeper([UNEVEN[1], UNEVEN[1], UNEVEN[0]], 3), "2.8"),
    "and alone, where none is known to lead": (zookeeper(UNEVEN[::-1], None), "2.8"),
    # Tried with 2.8.2: beside such brokers, registered before and after an election, f 4 is taken.
    "who does not fit what is finalized is left out, and not asked": (
        zookeeper(BESIDE, finalized={"f": (1, 3)}), "2.8"),
    "whichever generation runs there": (zookeeper(BESIDE, finalized={"f": (1, 3)}), ""),
    "3.3 and later would ask it what the policy asks": (
        zookeeper([*BESIDE, {"f": (2, 3)}], finalized={"f": (1, 3)}), "3.9.2"),
    "who lacks another finalized feature is left out, too": (
        zookeeper([{"f": (1, 4), "g": (1, 2)}] * 2 + [{"f": (2, 5)}],
                  finalized={"f": (2, 3), "g": (1, 1)}), "2.8"),
    "who fits the finalized minimum counts": (zookeeper(BESIDE, finalized={"f": (2, 3)}), "2.8"),
    # Who does not see the features node writes back what it saw last, and then answers 96.
    "a controller that does not see the features node may not be asked": (
        zookeeper(EVEN, 1, *blind(1)), ""),
    "another broker that does not see it asks nobody": (zookeeper(EVEN, 1, *blind(2)), ""),
    "but it may be the controller": (zookeeper(EVEN, None, *blind(2)), ""),
    "also where the controller is not registered": (zookeeper(EVEN, 9, *blind(2)), ""),
    "an answer before the node was read shows nothing": (zookeeper(EVEN, 1, *blind(1, 2)), ""),
    "what only the system's being off hides is no blindness": (
        zookeeper(EVEN, 1, answer(1, epoch=-1), status=0), ""),
    "a cluster whose release nothing tells is never ready": (kraft(NO_RELEASE, 6), ""),
    "until its owner does": (kraft(NO_RELEASE, 6), "3.9"),
    # Levels are lowered to the last ones that they have heard of.
    "a level is lowered until whoever may answer takes it": (kraft(RELEASES["4.0"], 17), ""),
    "a level is lowered for 3.9": (kraft(RELEASES["4.0"], 17), "3.9.1"),
    "a level is lowered for 3.7": (kraft(RELEASES["4.0"], 17), "3.7"),
}  # fmt: skip


def test_ready_is_what_the_policy_and_whoever_may_answer_take() -> None:
    said = {}
    for name, (lines, release) in SCENES.items():
        judged = judge_lines(lines, Expected(release=release))
        [plan] = rows_of(judged, "plans")
        by = ", ".join(plan["dialects"]) or "nobody"
        moves = ", ".join(f"{s['feature']} {s['to_level']}" for s in steps(judged)) or "nothing"
        said[name] = f"{told(judged)}\nplanned by {by}: {moves}"
    expect_frozen("agreement", said)
    [row] = findings(
        judge_lines(SCENES["a controller that does not see the features node may not be asked"][0]),
        "fails_after_writing",
    )
    assert (row["level"], row["finalized_level"]) == (5, 0)


@pytest.mark.parametrize(
    ("lines", "release", "dialect", "requests"),
    [
        (kraft(RELEASES["4.2"], 17), "", "kraft-4.2", [1, 1, 1]),
        (kraft(RELEASES["3.9"], 17), "", "kraft-3.9", [1]),
        (zookeeper([{"f": (1, 5), "g": (1, 3)}] * 2), "3.9", "zk-3.3", [1, 2]),
    ],
)
def test_what_is_all_or_nothing_goes_in_one_request_and_other_features_alone(
    lines: list[bytes], release: str, dialect: str, requests: list[int]
) -> None:
    judged = judge_lines(lines, Expected(release=release))
    [plan] = rows_of(judged, "plans")
    assert dialect in plan["dialects"]
    assert [step["request"] for step in plan["steps"]][: len(requests)] == requests


ACME = """
[[release]]
release = "4.1-acme"
based_on = "4.1"
oldest_metadata_version = 7
oldest_bootstrap = 7
newest_stable = 27
newest_unstable = 29
[[feature_level]]
feature = "acme.version"
level = 0
default_from = "3.3-IV3"
stable_since = "4.1-acme"
[[feature_level]]
feature = "acme.version"
level = 1
default_from = "4.1-IV1"
dependency = "metadata.version=26"
stable_since = "4.1-acme"
[[release_feature]]
release = "4.1-acme"
feature = "acme.version"
newest_stable = 1
newest_unstable = 1
"""
NEWER = """
[[metadata_version]]
level = 35
name = "4.5-IV1"
release = "4.5"
loses_metadata_below = false
[[release]]
release = "4.5"
oldest_metadata_version = 7
oldest_bootstrap = 7
newest_stable = 35
newest_unstable = 35
"""


def test_a_vendor_s_build_answers_as_the_release_it_is_made_from() -> None:
    catalogue = with_overlay(load_catalogue(), ACME, "acme.toml")
    lines = kraft({METADATA: (7, 27), "acme.version": (0, 1)}, 25)
    judged = judge_lines(lines, Expected(release="4.1-acme"), catalogue=catalogue)
    assert "kraft-4.1" in rows_of(judged, "plans")[0]["dialects"]
    sent = {(step["request"], step["feature"], step["to_level"]) for step in steps(judged)}
    assert sent == {(1, METADATA, 27), (1, "acme.version", 1)}


def test_a_release_newer_than_every_table_is_asked_as_the_newest() -> None:
    catalogue = with_overlay(load_catalogue(), NEWER, "newer.toml")
    judged = judge_lines(kraft({METADATA: (7, 35)}, 33), catalogue=catalogue)
    assert rows_of(judged, "plans")[0]["dialects"] == ["kraft-4.2"]
    assert [step["to_level"] for step in steps(judged)] == [35]
    assert "release_unknown" not in codes(judged)
