"""Which nodes may join, and which stop or stay out: against recorded refusals and exits, and the
plain oracle."""

from __future__ import annotations

import json
import lzma
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from featurelib.core.cluster import Cluster, Node, Range
from featurelib.core.compatibility import (
    Admission,
    Effect,
    Joined,
    Moment,
    Newcomer,
    join,
    stopped,
)
from featurelib.core.dialect import GENERATIONS, load
from featurelib.core.features_znode import Generation, ZnodeReading, decode
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role
from tests.core.controllers import words
from tests.core.controllers.draw import RELEASES, draw, profile
from tests.core.controllers.registration import register, replays, unfit_nodes
from tests.core.oracle_cases import TABLES, cluster_of, node_of
from tests.core.random_clusters import GROUP, TRANSACTION

TESTS = Path(__file__).parents[1]
START = "Unable to register because the broker does not support"
NAMES = {"mv": METADATA_VERSION, "kraft": KRAFT_VERSION, "group": GROUP, "tx": TRANSACTION}


def recorded(release: str) -> list[dict[str, Any]]:
    path = TESTS / "data" / "transcripts" / "protections" / f"zk-{release}.jsonl.xz"
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def finalized(**levels: int) -> dict[str, tuple[int, int]]:
    return {NAMES.get(name, name): (level, level) for name, level in levels.items()}


def node(node_id: int, release: str, role: Role = Role.BROKER, /, **supported: Range) -> Node:
    own = {NAMES.get(name, name): ends for name, ends in supported.items()}
    return Node(node_id=node_id, role=role, release=release, supported=own)


def broker(release: str, **supported: Range) -> Node:
    return node(2, release, **supported)


# --- Who may join ---------------------------------------------------------------------------------


def asked(
    dialect: str, levels: dict[str, tuple[int, int]], node: Node, *, raft_level: int = 0
) -> Joined:
    cluster = Cluster(release="", finalized=levels, raft_level=raft_level)
    return join(cluster, Newcomer(node=node), load(dialect), TABLES)


def old(level: int, name: str, low: int, high: int) -> str:
    wants = f"It wants a version between {low} and {high}, inclusive."
    return f"{START} version {level} of {name}. {wants}"


def new(level: int, name: str, low: int, high: int) -> str:
    return (
        f"{START} finalized version {level} of {name}. "
        f"The broker wants a version between {low} and {high}, inclusive."
    )


def test_a_3_3_broker_is_refused_as_recorded_by_3_5() -> None:
    found = asked("kraft-3.5", finalized(mv=11), broker("3.3.2", mv=(1, 7)))
    assert (found.entry, found.code) == (Admission.REFUSED, 35)
    assert found.message == old(11, METADATA_VERSION, 1, 7)


def test_a_3_9_broker_is_refused_as_recorded_by_4_2_and_everything_unfit_is_named() -> None:
    levels = finalized(mv=25, group=1, tx=2)
    found = asked("kraft-4.2", levels, broker("3.9.2", kraft=(0, 1), mv=(1, 21)))
    assert (found.entry, found.code) == (Admission.REFUSED, 35)
    assert found.message == new(25, METADATA_VERSION, 1, 21)
    assert [item.feature for item in found.unfit] == [METADATA_VERSION, GROUP, TRANSACTION]
    wider = asked("kraft-4.2", levels, broker("3.9.2", kraft=(0, 1), mv=(1, 25)))
    assert wider.message == new(1, GROUP, 0, 0)


def test_a_broker_without_log_directories_is_refused_before_its_features() -> None:
    """Recorded: 3.5.2 at a 3.7.2 controller; what that broker reads as UNKNOWN_SERVER_ERROR."""
    found = asked("kraft-3.7", finalized(mv=19), broker("3.5.2", mv=(1, 11)))
    assert (found.entry, found.code) == (Admission.REFUSED, 119)
    assert found.message == "No directories specified in request"
    assert [item.text for item in found.unfit] == [old(19, METADATA_VERSION, 1, 11)]
    assert asked("kraft-3.7", finalized(mv=17), broker("3.6.2", mv=(1, 17))).code == 119
    assert asked("kraft-3.7", finalized(mv=16), broker("3.5.2", mv=(1, 16))).unfit == ()
    assert asked("kraft-3.7", finalized(mv=17), broker("", mv=(1, 17))).entry is Admission.ACCEPTED
    assert asked("kraft-3.5", finalized(mv=11), broker("3.5.2", mv=(1, 11))).message is None


def test_kraft_version_counts_with_the_value_of_the_raft_layer() -> None:
    """3.9 reports a record of level 1 that the raft layer knows nothing of."""
    node = broker("3.9.2", mv=(1, 21), kraft=(0, 0))
    levels = finalized(mv=21, kraft=1)
    assert asked("kraft-3.9", levels, node).entry is Admission.ACCEPTED
    assert asked("kraft-3.9", levels, node, raft_level=1).message == new(1, KRAFT_VERSION, 0, 0)
    assert asked("kraft-4.1", levels, node).message == new(1, KRAFT_VERSION, 0, 0)


def test_what_is_not_listed_is_named_in_the_order_of_a_copied_hash_map() -> None:
    """8 buckets for three features, so transaction.version comes before kraft.version; read in
    ClusterControlManager, never recorded."""
    node = broker("4.1.2", mv=(7, 27))
    found = asked("kraft-4.1", finalized(mv=25, kraft=1, tx=2), node)
    assert [item.feature for item in found.unfit] == [TRANSACTION, KRAFT_VERSION]
    assert found.message == new(2, TRANSACTION, 0, 0)


@pytest.mark.parametrize("release", ["2.8.2", "3.3.2", "3.9.2"])
def test_registrations_made_by_hand_are_ignored_as_recorded(release: str) -> None:
    dialect = load("zk-2.7" if release == "2.8.2" else "zk-3.3")
    seen = set()
    for case in recorded(release):
        if "-hand-registration-" not in case["id"]:
            continue
        node_id, level = int(case["id"].rsplit("-", 1)[1]), case["finalized_at_that_time"]
        said = case["registration"].get("features", {})
        own = {name: (e["min_version"], e["max_version"]) for name, e in said.items()}
        node = Node(node_id=node_id, role=Role.BROKER, supported=own)
        least = 1 if release == "2.8.2" else level
        cluster = Cluster(release=release, finalized={"f": (least, level)})
        found = join(cluster, Newcomer(node=node, unguarded=True), dialect, TABLES)
        lines = " ".join(case["log_of_the_controller"])
        assert (found.entry is Admission.IGNORED) == ("Ignoring registration" in lines), case["id"]
        assert found.message is None or found.message in lines, case["id"]
        seen.add(found.entry)
    assert Admission.IGNORED in seen
    assert seen <= {Admission.ACCEPTED, Admission.IGNORED}


def test_a_broker_below_protocol_version_2_7_is_ignored() -> None:
    """Recorded with 2.8.2: it advertises 1-3 to clients and registers nothing; it never exits."""
    node = broker("2.8.2", f=(1, 3))
    at = Cluster(release="2.8.2", finalized={"f": (1, 2)})
    dialect = load("zk-2.7")
    found = join(at, Newcomer(node=node, protocol_version="2.6-IV0"), dialect, TABLES)
    assert (found.entry, found.code) == (Admission.IGNORED, 0)
    assert str(found.message).endswith("due to incompatibilities with finalized features: 2")
    assert [item.text for item in found.unfit] == ["{feature=f, reason='Unsupported feature'}"]
    assert join(at, Newcomer(node=node, protocol_version="2.7"), dialect, TABLES).unfit == ()
    off = join(replace(at, off=True), Newcomer(node=broker("2.8.2")), dialect, TABLES)
    assert off == Joined(entry=Admission.ACCEPTED)


def test_a_broker_of_zookeeper_mode_judges_itself_by_its_own_generation() -> None:
    """Mid-roll: 3.3 looks at the level only; the 2.8 controller wants the minimum as well."""
    at = Cluster(release="2.8.2", finalized={"f": (1, 3), "g": (1, 1)})
    node = broker("3.3.2", f=(2, 5), g=(1, 1))
    found = join(at, Newcomer(node=node), load("zk-2.7"), TABLES)
    assert found.entry is Admission.IGNORED
    mine = join(at, Newcomer(node=replace(node, release="2.8.2")), load("zk-2.7"), TABLES)
    assert mine.entry is Admission.STOPS
    assert mine.message == (
        "Feature incompatibilities seen: {feature=f, reason='FinalizedVersionRange"
        "[min_version_level:1, max_version_level:3] is incompatible with "
        "SupportedVersionRange[min_version:2, max_version:5]'}"
    )
    none = join(at, Newcomer(node=broker("3.9.2")), load("zk-3.3"), TABLES)
    assert none.message == (
        "Feature incompatibilities seen: {feature=f, reason='Unsupported feature'}, "
        "{feature=g, reason='Unsupported feature'}"
    )


GOOD = {Admission.ACCEPTED, Admission.NOT_REGISTERED}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", [*GENERATIONS, "kip"])
def test_random_registrations_are_judged_as_the_oracle_does(name: str) -> None:
    entries = set()
    dialect = load(name)
    for seed in range(400):
        chance, drawn = Random(seed), draw(seed, name)
        cluster = drawn.cluster
        release = chance.choice(RELEASES[name])
        if name.startswith("kraft") and chance.random() < 0.3:
            release = chance.choice(["3.3.2", "3.6.2", "3.7.2", "3.9.2", "4.2.1"])
        node = chance.choice(cluster.nodes)
        node = words.Node(**{**vars(node), "release": release, "ignored": False})
        if cluster.mode == "kraft" and chance.random() < 0.5:
            node = words.Node(**{**vars(node), "supported": profile(chance, release)})
        core = cluster_of(cluster)
        if name.startswith("zk") and cluster.status != words.ENABLED:
            core = replace(core, finalized={})
        found = join(core, Newcomer(node=node_of(node)), dialect, TABLES)
        entries.add(found.entry)
        said = register(name, cluster, node)
        if name == "kip" and node.role == words.CONTROLLER:
            continue  # no text lets a controller register
        assert (found.entry in GOOD) == said.accepted, seed
        if name.startswith("zk"):
            reasons = {item.text.split("reason='")[1][:-2] for item in found.unfit}
            assert reasons == said.any_of, seed
            continue
        # What the controller sends; a broker that never heard of 119 reads it as -1.
        assert found.code == {None: 0, -1: 119}.get(said.code, said.code), seed
        if found.code == 119 or not found.unfit:
            assert found.message == next(iter(said.any_of), None), seed
        else:
            assert {item.text for item in found.unfit} == said.any_of, seed
            assert found.message in said.any_of, seed
    assert len(entries) >= 2


# --- Who stops or stays out -----------------------------------------------------------------------


def effects(dialect: str, cluster: Cluster, **how: Any) -> dict[tuple[int, int], Effect]:
    found = stopped(cluster, load(dialect), TABLES, **how)
    return {(item.node.role, item.node.node_id): item.effect for item in found}


def reasons(dialect: str, cluster: Cluster, **how: Any) -> list[str]:
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
    lines = {case["id"].removeprefix(f"{release}-"): case for case in recorded(release)}
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
        (reason,) = reasons(name, at, moment=moment)
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
        if content.reading is ZnodeReading.WRONG_TYPE:
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
        finalized=finalized(mv=27, group=1),
    )
    assert set(effects("kraft-4.0", at).values()) == {Effect.EXITS}
    assert reasons("kraft-4.0", at) == [
        "Tried to apply FeatureLevelRecord FeatureLevelRecord(name='metadata.version', "
        "featureLevel=27), but this controller only supports versions 7-25",
        "No MetadataVersion with feature level 27. Valid feature levels are from 7 to 26.",
    ]


def test_a_broker_alone_goes_on_blind_and_is_kept_out_as_recorded() -> None:
    """Recorded three times (3.3.2, 3.5.2, 3.9.2): it logs faults, runs on, never serves."""
    at = Cluster(
        release="4.2.1",
        nodes=(node(2, "3.9.2", mv=(1, 21), kraft=(0, 1)),),
        finalized=finalized(mv=25, group=1),
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
        finalized=finalized(mv=29, group=1),
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
    text = reasons("kraft-4.1", at)
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
    assert reasons("kip", at) == [
        "The broker supports 2 to 4 of f, and 1 to 3 is finalized.",
        "The broker does not support f, and 1 to 3 is finalized.",
        "The controller supports 0 to 0 of f, and 3 is finalized.",
    ]


@pytest.mark.no_cover
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
