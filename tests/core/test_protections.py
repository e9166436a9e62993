"""Which nodes stop or stay out, against recorded exits and the plain oracle."""

from __future__ import annotations

import json
import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from featurelib.core.cluster import Cluster, Node, Range
from featurelib.core.compatibility import Effect, Moment, stopped
from featurelib.core.dialect import GENERATIONS, load
from featurelib.core.features_znode import Generation, Reading, decode
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role
from tests.core.controllers import words
from tests.core.controllers.draw import draw
from tests.core.controllers.registration import replays, unfit_nodes
from tests.core.oracle_cases import TABLES, cluster_of

TESTS = Path(__file__).parents[1]
GROUP = "group.version"


def node(node_id: int, release: str, role: Role = Role.BROKER, /, **supported: Range) -> Node:
    names = {"mv": METADATA_VERSION, "group": GROUP, "kraft": KRAFT_VERSION}
    own = {names.get(name, name): ends for name, ends in supported.items()}
    return Node(node_id=node_id, role=role, release=release, supported=own)


def effects(dialect: str, cluster: Cluster, **how: Any) -> dict[tuple[int, int], Effect]:
    found = stopped(cluster, load(dialect), TABLES, **how)
    return {(item.node.role, item.node.node_id): item.effect for item in found}


def said(dialect: str, cluster: Cluster, **how: Any) -> list[str]:
    found = stopped(cluster, load(dialect), TABLES, **how)
    return [item.text for one in found for item in one.unfit]


@pytest.mark.parametrize("release", ["2.8.2", "3.3.2", "3.9.2"])
def test_brokers_of_zookeeper_mode_exit_as_recorded(release: str) -> None:
    """Recorded: the level put above a running broker, above the controller, before a start, and
    while a broker is held between reading the node and registering."""
    name = "zk-2.7" if release == "2.8.2" else "zk-3.3"
    cases = {
        "level-above-a-running-broker": ((1, 3), 4, Moment.NOW),
        "level-above-the-running-controller": ((1, 5), 9, Moment.NOW),
        "incompatible-at-start": ((1, 3), 4, Moment.NEXT_START),
        "race-start-vs-update": ((1, 3), 4, Moment.NOW),
    }
    path = TESTS / "data/transcripts/protections" / f"zk-{release}.jsonl.xz"
    with lzma.open(path, "rt", encoding="utf-8") as text:
        lines = {case["id"].removeprefix(f"{release}-"): case for case in map(json.loads, text)}
    seen = 0
    for key, (own, level, moment) in cases.items():
        if key not in lines:
            continue
        at = Cluster(
            release=release,
            nodes=(node(1, release, f=(1, 9)), node(2, release, f=own)),
            finalized={"f": (1 if name == "zk-2.7" else level, level)},
        )
        assert lines[key]["exit_status"] == 1
        assert effects(name, at, moment=moment) == {(Role.BROKER, 2): Effect.EXITS}, key
        (reason,) = said(name, at, moment=moment)
        assert f"Feature incompatibilities seen: {reason}" in json.dumps(lines[key]), key
        seen += 1
    assert seen >= 2


@pytest.mark.parametrize(("release", "exits"), [("2.8.2", 9), ("3.3.2", 5), ("3.9.2", 9)])
def test_readable_contents_stop_the_brokers_they_stopped(release: str, exits: int) -> None:
    """Whatever a hostile node holds, once it is readable its levels decide, 0 and less too."""
    name = "zk-2.7" if release == "2.8.2" else "zk-3.3"
    text = (TESTS / "core/data/hostile_feature_nodes" / f"zk-{release}.jsonl").read_text("utf-8")
    count = 0
    for line in text.splitlines():
        case = json.loads(line)
        content = decode(case["content"], Generation(name))
        if content.reading is Reading.WRONG_TYPE:
            continue
        own = {feature: (low, high) for feature, (low, high) in case["supported"].items()}
        at = Cluster(
            release=release,
            nodes=(node(1, release, **own),),
            finalized={feature: (low, level) for feature, low, level in content.levels},
        )
        stops = case["exit_status"] == 1
        moment = Moment.NOW if case["moment"] == "running" else Moment.NEXT_START
        assert (effects(name, at, moment=moment) != {}) == stops, case["id"]
        count += stops
    assert count == exits


def test_a_roll_back_too_late_ends_the_process_as_recorded() -> None:
    """Recorded: 4.0.1, broker and controller in one process, on data finalized at 27."""
    own = {"mv": (7, 25), "group": (0, 1)}
    at = Cluster(
        release="4.0.1",
        nodes=(node(1, "4.0.1", Role.CONTROLLER, **own), node(1, "4.0.1", **own)),
        finalized={METADATA_VERSION: (27, 27), GROUP: (1, 1)},
    )
    assert set(effects("kraft-4.0", at).values()) == {Effect.EXITS}
    assert said("kraft-4.0", at) == [
        "Tried to apply FeatureLevelRecord FeatureLevelRecord(name='metadata.version', "
        "featureLevel=27), but this controller only supports versions 7-25",
        "No MetadataVersion with feature level 27. Valid feature levels are from 7 to 26.",
    ]


def test_a_broker_alone_goes_on_blind_and_is_kept_out_as_recorded() -> None:
    """Recorded three times (3.3.2, 3.5.2, 3.9.2): it logs faults, runs on, never serves."""
    at = Cluster(
        release="4.2.1",
        nodes=(node(2, "3.9.2", mv=(1, 21), kraft=(0, 1)),),
        finalized={METADATA_VERSION: (25, 25), GROUP: (1, 1)},
    )
    assert effects("kraft-4.2", at) == {(Role.BROKER, 2): Effect.BLIND}
    (found,) = stopped(at, load("kraft-4.2"), TABLES, moment=Moment.NEXT_START)
    assert found.effect is Effect.KEPT_OUT
    assert found.refused is not None
    assert "finalized version 25 of metadata.version" in str(found.refused.message)
    assert [item.text for item in found.unfit] == ["No MetadataVersion with feature level 25"]


def test_a_broker_minds_no_other_feature_until_it_registers_again() -> None:
    at = Cluster(
        release="4.2.1",
        nodes=(node(2, "4.2.1", mv=(7, 29)), node(3, "4.2.1", Role.CONTROLLER, mv=(7, 29))),
        finalized={METADATA_VERSION: (29, 29), GROUP: (1, 1)},
    )
    assert effects("kraft-4.2", at) == {(Role.CONTROLLER, 3): Effect.EXITS}
    start = effects("kraft-4.2", at, moment=Moment.NEXT_START)
    assert start == {(Role.CONTROLLER, 3): Effect.EXITS, (Role.BROKER, 2): Effect.KEPT_OUT}


def test_software_knows_more_than_it_advertises() -> None:
    """4.0 advertises 7 to 25 and knows 26; of an unknown release what it advertises is believed."""
    for release, effect in [("4.0.1", None), ("", Effect.BLIND), ("9.9", Effect.BLIND)]:
        at = Cluster(
            release="4.1.2",
            nodes=(node(1, release, mv=(7, 25)),),
            finalized={METADATA_VERSION: (26, 26)},
        )
        assert effects("kraft-4.1", at).get((Role.BROKER, 1)) is effect
    text = said("kraft-4.1", at)
    assert text == [
        "No MetadataVersion with feature level 26. Valid feature levels are from 7 to 25."
    ]


def test_an_update_ends_controllers_that_were_not_asked() -> None:
    """Below metadata.version 15 no other controller is asked; a record of level 0 counts too."""
    one = node(1, "3.9.2", Role.CONTROLLER, mv=(1, 21), f=(0, 3))
    two = node(2, "3.9.2", Role.CONTROLLER, mv=(1, 11), f=(1, 3))
    at = Cluster(
        release="3.9.2", nodes=(one, two), finalized={METADATA_VERSION: (11, 11), "f": (1, 1)}
    )
    assert effects("kraft-3.9", at) == {}
    after = {"moment": Moment.AFTER_UPDATE}
    higher = {METADATA_VERSION: (19, 19), "f": (1, 1)}
    assert effects("kraft-3.9", at, proposed=higher, **after) == {
        (Role.CONTROLLER, 2): Effect.EXITS
    }
    without = {METADATA_VERSION: (11, 11)}
    assert effects("kraft-3.9", at, proposed=without, **after) == {
        (Role.CONTROLLER, 2): Effect.EXITS
    }
    assert effects("kraft-3.9", at, **after) == {}
    stopped_one = replace(at, nodes=(one, replace(two, running=False)))
    assert effects("kraft-3.9", stopped_one, proposed=higher, **after) == {}


def test_an_update_spares_a_controller_that_knows_no_such_feature_and_needs_none() -> None:
    one = node(1, "3.9.2", Role.CONTROLLER, mv=(1, 21))
    at = Cluster(release="3.9.2", nodes=(one,), finalized={METADATA_VERSION: (11, 11), "f": (1, 1)})
    assert effects("kraft-3.9", at) == {(Role.CONTROLLER, 1): Effect.EXITS}
    proposed = {METADATA_VERSION: (11, 11)}
    assert effects("kraft-3.9", at, moment=Moment.AFTER_UPDATE, proposed=proposed) == {}


def test_a_level_that_reads_as_0_is_finalized_in_the_features_node() -> None:
    """65536 is truncated to 0 by 3.3 to 3.9, and no range holds it; in KRaft 0 means nothing."""
    for own in ({"f": (1, 5)}, {"g": (0, 5)}):
        at = Cluster(release="3.9.2", nodes=(node(1, "3.9.2", **own),), finalized={"f": (0, 0)})
        assert effects("zk-3.3", at) == {(Role.BROKER, 1): Effect.EXITS}
    controller = node(1, "3.9.2", Role.CONTROLLER, f=(1, 5))
    at = Cluster(release="3.9.2", nodes=(controller,), finalized={"f": (0, 0)})
    assert effects("kraft-3.9", at) == {}


def test_an_ignored_broker_that_runs_protects_itself_against_nothing() -> None:
    """Recorded with 2.8.2 at protocol version 2.6: it runs on, and is left out when it returns."""
    ignored = replace(node(2, "2.8.2"), ignored=True)
    at = Cluster(release="2.8.2", nodes=(ignored,), finalized={"f": (1, 2)})
    assert effects("zk-2.7", at) == {}
    assert effects("zk-2.7", at, moment=Moment.NEXT_START) == {(Role.BROKER, 2): Effect.KEPT_OUT}
    assert effects("zk-2.7", replace(at, off=True), moment=Moment.NEXT_START) == {}


def test_the_texts_end_every_unfit_node() -> None:
    at = Cluster(
        release="4.2.1",
        nodes=(node(1, "4.2.1", f=(2, 4)), node(2, "4.2.1"), node(3, "4.2.1", Role.CONTROLLER)),
        finalized={"f": (1, 3)},
    )
    assert set(effects("kip", at).values()) == {Effect.EXITS}
    assert said("kip", at) == [
        "The broker supports 2 to 4 of f, and 1 to 3 is finalized.",
        "The broker does not support f, and 1 to 3 is finalized.",
        "The controller supports 0 to 0 of f, and 3 is finalized.",
    ]


@pytest.mark.parametrize("name", GENERATIONS)
def test_random_clusters_lose_the_nodes_the_oracle_says(name: str) -> None:
    dialect, stops = load(name), 0
    for seed in range(300):
        drawn = draw(seed, name).cluster
        core = cluster_of(drawn)
        if name.startswith("zk"):
            disabled = drawn.status != words.ENABLED
            core = replace(core, finalized={} if disabled else core.finalized)
            nodes = [replace(n, ignored=False) for n in core.nodes]
            found = stopped(replace(core, nodes=tuple(nodes)), dialect, TABLES)
            gone = [item.node.node_id for item in found]
            assert gone == [n.node_id for n in unfit_nodes(name, drawn)], seed
            stops += len(found)
            continue
        found = stopped(core, dialect, TABLES)
        mine = {(one.node.node_id, one.node.role, item.text) for one in found for item in one.unfit}
        theirs = set()
        for one in drawn.nodes:
            role = Role.CONTROLLER if one.role == words.CONTROLLER else Role.BROKER
            for feature, level in drawn.levels().items():
                text = replays(one, feature, level) if one.running else None
                if text is not None:
                    before = role is Role.BROKER and words.minor(one.release) < (3, 8)
                    if before:  # MetadataVersion.fromFeatureLevel of 3.3 to 3.7
                        text = text.replace("feature level", "metadata version")
                    theirs.add((one.node_id, role, text))
        assert mine == theirs, seed
        stops += len(found)
    assert stops > 20
