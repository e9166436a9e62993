"""What is finalized, by whom it is said, and what that makes of a verdict: witnesses and their
epochs, the text of the features node, and what a finalized level depends on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from featurelib.audit.audit import judge
from featurelib.audit.checks import DEPENDENCY_CODE
from featurelib.audit.evidence import Expected
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load as load_dialect
from featurelib.core.features_znode import Generation
from tests.core.frozen import expect_frozen
from tests.core.lines import (
    DEPENDING,
    answer_line,
    codes,
    conditions,
    findings,
    judge_lines,
    line_of,
    lines_of,
    snapshot,
    told,
    verdicts,
)
from tests.core.oracle import CONTROLLER, METADATA, Cluster, Node, Range
from tests.core.random_clusters import ELR, GROUP, KRAFT, RELEASES
from tests.facts import first_fact

KNOWN = {"levels": {METADATA: 27}, "epoch": 1000}


def nodes(*given: dict[str, object], **stored: int) -> Cluster:
    """A KRaft cluster of brokers, nobody votes."""
    some = (Node(node_id=i, **one) for i, one in enumerate(given, 1))  # type: ignore[arg-type]
    levels = {METADATA: stored.pop("mv")} if "mv" in stored else {}
    return Cluster(name="c", nodes=tuple(some), voters=(), stored=levels | stored)


def kraft(release: str, levels: dict[str, int], also: dict[str, Range] | None = None) -> Cluster:
    said = {"ranges": RELEASES[release] | (also or {}), "levels": levels, "epoch": 900}
    both = Node(node_id=1, **said), Node(node_id=1, role=CONTROLLER, ranges=said["ranges"])  # type: ignore[arg-type]
    return Cluster(name="k", nodes=both, voters=(1,), stored=levels)


F = {"f": (1, 3)}
SPLIT = {"ranges": RELEASES["4.1"], "levels": {METADATA: 7}, "epoch": 1000}
MORE = RELEASES["4.1"] | {"f": (1, 3), "g": (1, 1), "h": (1, 2)}
ALL_BUT = {"ranges": MORE | {"h": (3, 4)}, "levels": {METADATA: 27, "g": 1}, "epoch": 1000}
AGREED = {**ALL_BUT, "ranges": MORE}
WIDE, NARROW = {METADATA: (7, 27), "f": (0, 5)}, {METADATA: (7, 27), "f": (0, 3)}
NO_LEVELS = {"levels": {}, "epoch": 1000}
WENT_BACK = Node(node_id=1, ranges=F, levels={"f": 2}, epoch=1000, answered=5)
QUORUM = Node(node_id=11, role=CONTROLLER, ranges=RELEASES["3.9"])

# What is said of each: data/frozen/levels.txt.
SCENES: dict[str, Cluster | list[bytes]] = {
    "a plan finalizes everything where nothing stands in the way": nodes(
        {"ranges": RELEASES["4.2"], "levels": {METADATA: 7}, "epoch": 1000}, mv=7),
    "a broker that lags does not make the epoch go back": nodes(
        {"ranges": F, "levels": {"f": 2}, "epoch": 1000},
        {"ranges": F, "levels": {"f": 2}, "epoch": 998}, f=2),
    "it goes back where the node that said it says less later": [
        *lines_of(nodes({"ranges": F, "levels": {"f": 2}, "epoch": 40}, f=2)),
        answer_line("c", WENT_BACK)],
    "that is forgotten when another broker goes on": [
        *lines_of(nodes({"ranges": F, "levels": {"f": 2}, "epoch": 40, "answered": 1},
                        {"ranges": F, "levels": {"f": 2}, "epoch": 1001}, f=2)),
        answer_line("c", WENT_BACK)],
    "that of a controller counts where no broker speaks": [
        answer_line("c", replace(WENT_BACK, role=CONTROLLER)),
        answer_line("c", replace(WENT_BACK, role=CONTROLLER, epoch=900, answered=0))],
    "and is only said where one does": [
        answer_line("c", replace(WENT_BACK, node_id=2, answered=0)),
        answer_line("c", replace(WENT_BACK, role=CONTROLLER, epoch=700)),
        answer_line("c", replace(WENT_BACK, role=CONTROLLER, epoch=600, answered=0))],
    "a feature that rests on a level in dispute is unknown": nodes(
        {"ranges": RELEASES["4.1"], **KNOWN}, SPLIT, mv=27),
    # No record holds a level before 3.3-IV0, and by it controllers are asked or not.
    "every level rests on a metadata.version that is known": nodes(
        AGREED, {**AGREED, "levels": {METADATA: 7, "g": 1}},
        {**ALL_BUT, "levels": None, "epoch": -1}, mv=27, g=1),
    "where it is, only what a node does not support is blocked": nodes(
        AGREED, AGREED, ALL_BUT, mv=27, g=1),
    "a level the dump does not show is unknown, and that is said": Cluster(
        name="c", nodes=(Node(node_id=1, ranges=RELEASES["3.9"]), QUORUM), voters=(11,),
        stored={METADATA: 21, KRAFT: -1}),
    "a cluster without nodes is unknown even where it is vouched for": Cluster(
        name="c", zookeeper=True, stored={"f": 3}, vouched=True),
    "a level unstable in one of two releases is not ready": nodes(
        {"ranges": {METADATA: (7, 31)}, "levels": {METADATA: 7}, "epoch": 1000},
        {"ranges": {METADATA: (7, 33)}}, mv=7),
    "an answer that may leave a feature out blocks nothing": replace(nodes(
        {"ranges": WIDE, **NO_LEVELS}, {"ranges": NARROW, **NO_LEVELS},
        {"ranges": {METADATA: (7, 27)}, "asked_version": 3, **NO_LEVELS}), registry="fenced"),
    "an expected node that left the registrations blocks nothing": replace(nodes(
        {"ranges": F, "levels": {METADATA: 1}, "epoch": 1000},
        {"ranges": {"f": (1, 1)}, "listed": False, "answered": 2}), expected_brokers=(2,)),
    "nothing landed of it": [],
    "a kraft broker that no longer fits metadata.version is blind": nodes(
        {"ranges": {METADATA: (1, 21)}, "levels": {METADATA: 21}, "epoch": 9},
        {"ranges": {METADATA: (1, 19)}}, mv=21),
    "one that does not know another feature is kept out, and such a controller ends": nodes(
        {"ranges": {METADATA: (1, 21), "f": (0, 2)}, "levels": {METADATA: 19, "f": 2}, "epoch": 9},
        {"ranges": {METADATA: (1, 19)}},
        {"ranges": {METADATA: (1, 19)}, "role": CONTROLLER}, mv=19, f=2),
    "a broker of ZooKeeper mode stops": Cluster(
        name="c", zookeeper=True, stored={"f": 2},
        nodes=(Node(node_id=1, ranges=F), Node(node_id=2, ranges={"f": (1, 1)}))),
}  # fmt: skip


def test_what_is_said_of_the_levels_that_are_finalized() -> None:
    found = {}
    for name, scene in SCENES.items():
        lines = lines_of(scene) if isinstance(scene, Cluster) else scene
        brokers = scene.expected_brokers if isinstance(scene, Cluster) else ()
        word = isinstance(scene, Cluster) and scene.vouched
        expected = Expected(brokers=brokers, vouched=word)
        found[name] = told(judge_lines(lines, expected, catalogue=DEPENDING))
    expect_frozen("levels", found)


# --- The text of the features node ----------------------------------------------------------------

ON_ZOOKEEPER = Cluster(
    name="z", zookeeper=True, nodes=(Node(node_id=1, ranges={"f": (1, 3)}, epoch=5),)
)


def content(schema: int, level: int, least: int = 1, status: int = 1) -> str:
    minimum = {"min_version_level": least} if schema == 1 else {}
    features = {"f": {**minimum, "max_version_level": level}}
    return json.dumps({"version": schema, "status": status, "features": features})


# 65536 and its like: recorded with 3.3.2 and 3.9.2, every broker stops with exit status 1.
CONTENTS = {"damaged": "{", "of a schema that only 2.7 to 3.2 read": content(3, 2)}
CONTENTS["of schema 3 with minimums"] = content(1, 2).replace('"version": 1', '"version": 3')
for number in (65536, 32768, 2147483647):
    CONTENTS |= {f"schema {n}, level {number}": content(n, number) for n in (1, 2)}
for number in (65537, 65539, -65533):
    CONTENTS[f"level {number}"] = content(1, number)
for low, high in ((3, 65537), (65536, 3), (2, 1), (0, 3)):
    CONTENTS[f"levels {low} to {high}"] = content(1, high, low)
for n in (1, 2):
    CONTENTS[f"off, schema {n}, level 65536"] = content(n, 65536, status=0)


def test_a_features_node_is_what_each_generation_makes_of_its_text() -> None:
    found = {}
    for name, text in CONTENTS.items():
        lines = [line for line in lines_of(ON_ZOOKEEPER) if b'"/feature"' not in line]
        lines.append(line_of("znode", "z", 1, path="/feature", version=5, czxid=3, data=text))
        said = {
            generation: told(judge_lines(lines, Expected(generation=generation), name="z"))
            for generation in (None, *Generation)
        }
        whom = {None: "release not told"}
        blocks = [f"{whom.get(one) or one.value}\n  {text}" for one, text in said.items()]
        found[name] = "\n".join(blocks)
    expect_frozen("features_node", found)


# --- Dependencies of what is finalized, seen from the other end -----------------------------------

LOW = {METADATA: 22, ELR: 1}
RAFT = {METADATA: 17, KRAFT: 1}
NEVER_ASKED = {GROUP: (0, 1)}
# Cluster, the release its owner tells → metadata.version that is needed, by feature.
UNMET: dict[str, tuple[Cluster, str, dict[str, int]]] = {
    "a declared dependency that was lowered": (kraft("4.1", LOW), "", {ELR: 23}),
    "enough": (kraft("4.1", LOW | {METADATA: 23}), "", {}),
    "nothing that depends": (kraft("4.1", {METADATA: 22}), "", {}),
    "what the newest software declares counts, whoever runs there": (
        kraft("3.9", {METADATA: 21, ELR: 1}, {ELR: (0, 1)}), "", {ELR: 23}),
    # Recorded: 4.0.1 lowers metadata.version under kraft.version 1, and then refuses kraft.version
    # 1 itself. 3.9 asks only when it formats, and 4.1 needs it no more.
    "kraft.version in 4.0": (kraft("4.0", RAFT), "", {KRAFT: 21}),
    "kraft.version in 4.0, enough": (kraft("4.0", RAFT | {METADATA: 21}), "", {}),
    "kraft.version in 3.9": (kraft("3.9", RAFT), "", {}),
    "kraft.version in 4.1": (kraft("4.1", RAFT), "", {}),
    "of look-alikes the one that is told": (kraft("4.0", RAFT), "4.0.1", {KRAFT: 21}),
    "and one that the ranges do not show": (kraft("4.1", RAFT), "4.0.1", {KRAFT: 21}),
    # A record holds a level from 3.3-IV0 on by KIP-1022, from 3.3-IV3 on by 4.0 and later.
    "4.2 at 6": (kraft("4.2", {METADATA: 6, GROUP: 1}), "", {GROUP: 7}),
    "4.0 at 4": (kraft("4.0", {METADATA: 4, GROUP: 1}), "", {GROUP: 7}),
    "3.9 at 3": (kraft("3.9", {METADATA: 3, GROUP: 1, KRAFT: 1}, NEVER_ASKED), "", {GROUP: 4}),
    "3.9 at 5": (kraft("3.9", {METADATA: 5, GROUP: 1}, NEVER_ASKED), "", {}),
    "metadata.version that nobody finalized is 1": (
        kraft("3.9", {GROUP: 1}, NEVER_ASKED), "", {GROUP: 4}),
    "ZooKeeper mode has none": (
        Cluster(name="k", zookeeper=True, nodes=(Node(node_id=1, ranges=F),), stored={"f": 1}),
        "", {}),
}  # fmt: skip
for one, another in ((22, 23), (23, 22)):
    here = kraft("4.1", LOW | {METADATA: one})
    other = replace(here.nodes[0], node_id=9, levels=LOW | {METADATA: another})
    disputed = replace(here, registry="fenced", nodes=(*here.nodes, other))
    UNMET[f"what is not known is no fault, {one} or {another}"] = disputed, "", {}


def test_what_a_finalized_level_depends_on_and_lost_is_a_warning() -> None:
    for name, (cluster, release, needed) in UNMET.items():
        said = judge_lines(lines_of(cluster), Expected(release=release), name="k")
        rows = findings(said, DEPENDENCY_CODE)
        now = cluster.stored.get(METADATA, 1)
        details = {feature: f"{METADATA} {least}, and {METADATA} {now} is finalized"
                   for feature, least in needed.items()}  # fmt: skip
        assert {row["feature"]: first_fact(row) for row in rows} == details, name
        assert {row["severity"] for row in rows} <= {"warning"}
    low = judge_lines(lines_of(kraft("4.1", LOW)), name="k")
    assert DEPENDENCY_CODE in codes(low)
    assert verdicts(low)[METADATA] == "READY"  # no verdict depends on it


def test_the_generation_of_a_cluster_is_its_own() -> None:
    unclear = content(1, 2).replace('"version": 1', '"version": 3')
    lines = {
        name: [line_of("znode", name, 1, path="/feature", version=3, czxid=3, data=unclear)]
        for name in ("a", "b")
    }
    for known in lines:
        own = {known: Expected(generation=Generation.ZK_2_7)}
        inputs = replace(conditions([]), inventory=own)
        judged = judge(snapshot(lines), inputs, load_catalogue(), load_dialect("strict"))
        rows = findings(judged, "features_node_ambiguous")
        assert [row["cluster"] for row in rows] == [name for name in lines if name != known]


@pytest.mark.parametrize(
    ("feature", "level", "mode"),
    [(METADATA, "4.0-IV3", "KRaft"), (METADATA, "-", None), ("f", "3", None)],
)
def test_a_finalized_metadata_version_in_a_tool_s_output_shows_kraft(
    feature: str, level: str, mode: str | None
) -> None:
    """Only KRaft finalizes it. Then nothing shows who votes, and the mode is known."""
    text = f"Feature: {feature}\tSupportedMinVersion: 1\tSupportedMaxVersion: 33"
    line = f"{text}\tFinalizedVersionLevel: {level}\tEpoch: 57"
    tool = line_of("features_describe", "c", 1, line_number=1, line=line)
    judged = judge_lines([tool])
    assert judged.plans.to_pylist()[0]["mode"] == mode
    found = codes(judged) & {"mode_unknown", "voters_unknown"}
    assert found == ({"mode_unknown"} if mode is None else {"voters_unknown"})
    znode = line_of("znode", "c", 1, path="/feature", version=3, czxid=3, data=content(1, 2))
    assert judge_lines([tool, znode]).plans.to_pylist()[0]["mode"] == "ZooKeeper mode"
