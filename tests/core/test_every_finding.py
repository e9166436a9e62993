"""Every code of findings.toml fires on some landing lines, and its sentence can be filled in."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from featurelib.audit.audit import judge
from featurelib.audit.evidence import Conditions, Expected, Waiting
from featurelib.audit.findings import FindingWords, Mute, Site
from featurelib.catalogue import load as load_catalogue
from featurelib.config.fleet import parse_fleet
from featurelib.core.dialect import STRICT
from featurelib.core.dialect import load as load_dialect
from featurelib.findings import finding_rows
from featurelib.rows import TableRows
from featurelib.schema import SNAPSHOT
from featurelib.snapshot import fold_lines, snapshot_rows
from tests.core import test_migration as migration
from tests.core.lines import (
    AS_OF,
    HOUR,
    MAX_AGE,
    answer_line,
    at,
    configs_line,
    findings,
    judge_lines,
    landings,
    line_of,
    lines_of,
    listing,
    metrics_line,
    microseconds,
    not_reached_line,
    quorum_line,
    record,
    snapshot,
    strimzi_line,
)
from tests.core.oracle import CONTROLLER, METADATA, STALE, Cluster, Node
from tests.core.random_clusters import with_changes
from tests.facts import first_fact
from tests.report.samples import read_samples
from tests.rows import make, some

CODES = finding_rows()
LEVELS: dict[str, Any] = {"levels": {METADATA: 25}, "epoch": 900}
BROKER = Node(node_id=1, ranges={METADATA: (7, 27)}, **LEVELS)
VOTER = Node(node_id=9, role=CONTROLLER, ranges={METADATA: (7, 27)}, **LEVELS)
FENCED = Node(node_id=2, ranges={METADATA: (7, 27)}, fenced=True, answered=None, failed=0)
UNASKED = Node(node_id=8, role=CONTROLLER, ranges={METADATA: (7, 27)}, answered=None)
# All that landed of it says READY for metadata.version 27.
GOOD = Cluster(name="c", nodes=(BROKER, VOTER), stored={METADATA: 25}, voters=(9,))
UNPROVEN = replace(GOOD, registry="live")
TOOL_S_NAME = line_of(
    "features_describe",
    "c",
    1,
    line_number=1,
    line="Feature: confluent.metadata.version\tSupportedMinVersion: 1\tSupportedMaxVersion: 130\t"
    "FinalizedVersionLevel: CP-8.1-IV1A\tEpoch: 57",
)
ZOOKEEPER = Cluster(
    name="c",
    zookeeper=True,
    nodes=(Node(node_id=1, ranges={"f": (1, 3)}, levels={"f": 1}, epoch=5),),
    stored={"f": 1},
    controller=1,
)
EXPECTED = Expected()
Found = dict[str, Any]
SILENCE: dict[str, Any] = {"levels": None, "epoch": -1}
VOUCHED = Expected(controllers_vouched=True)


def with_nodes(*nodes: Node, of: Cluster = GOOD, **changes: object) -> Cluster:
    """`of` with some more nodes; a node of the same half and id takes its place."""
    kept = [one for one in of.nodes if one.who not in {node.who for node in nodes}]
    return with_changes(of, nodes=(*kept, *nodes), **changes)


def with_both(of: Cluster = GOOD, stored: dict[str, int] | None = None, **changes: Any) -> Cluster:
    """`of` with the same changes of its broker and of its voter."""
    both = replace(BROKER, **changes), replace(VOTER, **changes)
    return with_nodes(*both, of=of, stored=of.stored if stored is None else stored)


def znode(data: str, created: int = 5) -> bytes:
    """The features node, created by transaction `created`."""
    return line_of("znode", "c", 0, path="/feature", data=data, version=5, czxid=created)


def probe(*others: str, **answer: object) -> bytes:
    """Return the response to a validated raise of metadata.version and of `others` to level 1."""
    updates = [{"feature": METADATA, "from_level": 25, "to_level": 27}]
    updates += [{"feature": name, "from_level": 0, "to_level": 1} for name in others]
    return line_of("probe", "c", 0, observed_at=at(0, 60), updates=updates, answer=answer)


def dump(first: int) -> list[bytes]:
    """A dump of the metadata log that begins at offset `first`."""
    head = ["Dumping logs/__cluster_metadata-0/x.log", f"Log starting offset: {first}"]
    lines = enumerate([*head, record(first, "NO_OP_RECORD", "{}")], start=2)
    return [line_of("metadata_log", "c", 0, line_number=n, line=text) for n, text in lines]


def judged(
    cluster: Cluster = GOOD,
    *more: bytes,
    expected: Expected = EXPECTED,
    until: int | None = None,
    **under: Any,
) -> list[Found]:
    """The findings about a cluster and more lines of it, of which those up to `until` count."""
    lines = landings([*lines_of(cluster), *more])
    rows = snapshot_rows([(cluster.name, fold_lines(lines, load_catalogue(), until))])
    return judged_rows(rows, **{"inventory": {cluster.name: expected}} | under)


def judged_rows(batch: TableRows, **under: Any) -> list[Found]:
    conditions = Conditions(**{"as_of": NOW, "max_age": MAX_AGE} | under)
    known, policy = load_catalogue(), load_dialect(STRICT)
    found: list[Found] = judge(batch, conditions, known, policy).findings.to_pylist()
    return found


def sample(name: str) -> list[Found]:
    """The findings about a sample at the time of the newest line of all."""
    samples = read_samples()
    names = [samples.names[cluster] for cluster in samples.batch["cluster"].to_pylist()]
    return judged_rows(some(samples.batch, names.index(name)), as_of=samples.newest)


def stored(**columns: bytes | None) -> list[Found]:
    """The findings about a cluster of whose stored row some columns were changed."""
    [row] = snapshot({"c": lines_of(GOOD)}).to_pylist()
    return judged_rows(make([row | columns], SNAPSHOT))


NOW = microseconds(AS_OF)
OVERDUE = {METADATA: Waiting(25, "READY", 27, NOW - 1000 * HOUR)}
MUTE = Mute(code="ghost_broker", reason="its disk is being replaced", until=date(2026, 11, 1))
NODE_1 = '{"version":1,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":1}}}'
NODE_3 = '{"version":3,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":2}}}'
STATIC: dict[str, tuple[str | None, int]] = {"controller.quorum.voters": ("9@h:9093,8@h:9093", 4)}
OLD = {METADATA: (7, 22)}

KRAFT = {METADATA: (7, 27), "kraft.version": (0, 1)}
ELR = "eligible.leader.replicas.version"
WITH_ELR = {METADATA: (7, 27), ELR: (0, 1)}
EARLY = {METADATA: 22, ELR: 1}
F_2_TO_3 = replace(ZOOKEEPER.nodes[0], ranges={"f": (2, 3)}, levels={"f": 2})
FROM_2 = with_nodes(F_2_TO_3, of=ZOOKEEPER, stored={"f": 2})
FOUR, SIX = {METADATA: 4}, {METADATA: 6}
HIDDEN = {METADATA: 25, "kraft.version": -1}
DYNAMIC = {METADATA: 25, "kraft.version": 1}
EARLIER = replace(BROKER, epoch=1000, answered=2)
OF_NO_RELEASE = {METADATA: (1, 6)}
FOLLOWED = quorum_line("c", (9,), observers=(77,), age=0)
VOTERS = [(9, 0), (7, 1), (8, 60)]
IN_VAIN = line_of("describe_quorum", "c", 0, asked_node=1, listener="broker", error="no answer")

FIRES: dict[str, Callable[[], list[Found]]] = {
    "cluster_not_landed": lambda: stored(**dict.fromkeys(set(SNAPSHOT.names) - {"cluster"})),
    "evidence_lost": lambda: judged(newest_lines={"c": NOW + HOUR}),
    "cluster_not_reached": lambda: judged(GOOD, not_reached_line("c", 0, 60)),
    "not_in_inventory": lambda: judged(inventory={"another": EXPECTED}),
    "mode_unknown": lambda: judged(
        Cluster(name="c", nodes=(replace(BROKER, levels={}),), registry="none")
    ),
    "right_missing": lambda: judged(replace(GOOD, voters=None, refused=True)),
    "right_withheld": lambda: judged(
        replace(GOOD, controllers_listed=True, refused=True), expected=VOUCHED
    ),
    "voters_unknown": lambda: judged(replace(GOOD, voters=None)),
    "configured_voters_unknown": lambda: judged(
        replace(GOOD, registry="fenced", configured=(9, 77))
    ),
    "dynamic_quorum_with_static_voters": lambda: judged(
        with_both(ranges=KRAFT, levels=DYNAMIC, stored=DYNAMIC),
        configs_line(9, "controller", {"9": STATIC}),
    ),
    "static_quorum_without_voters": lambda: judged(
        GOOD, configs_line(9, "controller", {"9": {"controller.quorum.voters": ("", 5)}})
    ),
    "voters_vouched": lambda: judged(replace(GOOD, voters=None), expected=VOUCHED),
    "controller_vouched": lambda: judged(with_nodes(UNASKED, voters=(8, 9)), expected=VOUCHED),
    "registrations_unproven": lambda: judged(UNPROVEN),
    "lists_disagree": lambda: judged(UNPROVEN, listing((1, False)), listing((1, False), (7, True))),
    "probe_agreed": lambda: judged(UNPROVEN, probe(error_code=0)),
    "probe_refused": lambda: judged(UNPROVEN, probe(error_code=95, error_message="Broker 7")),
    "probe_unsettled": lambda: judged(
        UNPROVEN,
        probe("f", error_code=95, error_message="Broker 7 lacks a level for feature f."),
    ),
    "node_probed": lambda: judged(
        with_nodes(replace(UNASKED, failed=0), of=UNPROVEN, voters=(8, 9), controllers_listed=True),
        probe(error_code=0),
    ),
    "node_not_asked": lambda: judged(with_nodes(UNASKED, voters=(8, 9))),
    "expected_node_missing": lambda: judged(expected=Expected(brokers=(1, 5))),
    "expected_node_not_registered": lambda: judged(
        replace(GOOD, registry="fenced", voters=None), FOLLOWED, expected=Expected(brokers=(1, 77))
    ),
    "node_not_answering": lambda: judged(with_nodes(replace(FENCED, fenced=False))),
    "range_unknown": lambda: judged(with_nodes(replace(FENCED, failed=None), registry="fenced")),
    "range_from_metrics": lambda: judged(
        replace(UNPROVEN, voters=(8, 9)), metrics_line(8, "controller")
    ),
    "migration_waits": lambda: findings(migration.judged(migration.night("controllers", 1))),
    "range_inferred": lambda: findings(migration.judged(migration.night("dual-write", 1))),
    "metrics_disagree": lambda: judged(GOOD, metrics_line(1, most=29)),
    "metrics_of_stranger": lambda: judged(GOOD, metrics_line(7)),
    "evidence_from_the_future": lambda: judged(until=NOW - 2 * HOUR),
    "evidence_too_old": lambda: judged(with_nodes(replace(BROKER, answered=STALE), of=UNPROVEN)),
    "levels_too_old": lambda: judged(as_of=NOW + 100 * HOUR),
    "evidence_too_new": lambda: judged(as_of=NOW - 100 * HOUR),
    "levels_too_new": lambda: judged(as_of=NOW - 100 * HOUR),
    "no_trustworthy_witness": lambda: judged(with_both(UNPROVEN, **SILENCE)),
    "witnesses_disagree": lambda: judged(with_nodes(replace(VOTER, levels={METADATA: 24}))),
    "level_unknown": lambda: judged(with_both(ranges=KRAFT, stored=HIDDEN, **SILENCE)),
    "level_name_unknown": lambda: findings(judge_lines([TOOL_S_NAME])),
    "epoch_went_back": lambda: judged(
        UNPROVEN,
        answer_line("c", replace(BROKER, epoch=1000, answered=2)),
        answer_line("c", BROKER),
    ),
    "partial_answer": lambda: judged(
        with_nodes(replace(BROKER, ranges=KRAFT), replace(VOTER, asked_version=3))
    ),
    "incompatible_with_finalized": lambda: judged(with_nodes(replace(BROKER, ranges=OLD))),
    "minimum_would_rise": lambda: judged(replace(FROM_2, schema=1)),
    "finalized_dependency_unmet": lambda: judged(
        with_both(ranges=WITH_ELR, levels=EARLY, stored=EARLY)
    ),
    "features_node_damaged": lambda: judged(ZOOKEEPER, znode("{")),
    "features_node_ambiguous": lambda: judged(ZOOKEEPER, znode(NODE_3)),
    "features_node_deleted": lambda: judged(replace(ZOOKEEPER, features_node=False)),
    "features_node_absent": lambda: judged(
        with_nodes(
            replace(ZOOKEEPER.nodes[0], ranges={}, levels={}),
            of=replace(ZOOKEEPER, features_node=False),
        )
    ),
    "features_node_recreated": lambda: judged(ZOOKEEPER, znode(NODE_3, created=9)),
    "metadata_log_gap": lambda: judged(GOOD, *dump(2900)),
    "metadata_log_ambiguous": lambda: judged(GOOD, *dump(2900), *dump(2901)),
    "registration_gone": lambda: sample("zk-roll-282-332"),
    "registration_without_features": lambda: judged(
        with_nodes(replace(ZOOKEEPER.nodes[0], says_nothing=True), of=ZOOKEEPER)
    ),
    "ghost_broker": lambda: judged(with_nodes(FENCED)),
    "ghost_controller": lambda: judged(with_nodes(UNASKED, controllers_listed=True)),
    "quorum_without_leader": lambda: judged(
        with_nodes(replace(UNASKED, failed=0), voters=(8, 9)), IN_VAIN
    ),
    "voter_not_fetching": lambda: judged(
        with_both(ranges=KRAFT, levels=DYNAMIC, stored=DYNAMIC), quorum_line("c", VOTERS, age=0)
    ),
    "no_majority_answers": lambda: judged(with_nodes(replace(UNASKED, failed=0), voters=(8, 9))),
    "silent_broker": lambda: judged(with_nodes(replace(FENCED, fenced=False), of=ZOOKEEPER)),
    "observer_not_listed": lambda: judged(replace(UNPROVEN, voters=None), FOLLOWED),
    "observer_unknown": lambda: judged(
        with_both(
            of=replace(GOOD, registry="fenced", voters=None),
            ranges={METADATA: (7, 29), "kraft.version": (0, 1)},
            levels={METADATA: 25, "kraft.version": 1},
        ),
        FOLLOWED,
    ),
    "observer_not_registered": lambda: judged(replace(GOOD, voters=None), FOLLOWED),
    "side_effect_by_name": lambda: judged(with_both(ranges=WITH_ELR)),
    "metadata_version_not_recorded": lambda: judged(
        with_both(ranges={METADATA: (1, 21)}, levels={METADATA: 1}, stored={METADATA: 1})
    ),
    "unstable_features_enabled": lambda: sample("k43-unstable"),
    "refused_by_own_controller": lambda: sample("zk-282-ranges"),
    "release_unknown": lambda: judged(with_both(ranges=OF_NO_RELEASE, levels=FOUR, stored=FOUR)),
    "feature_not_catalogued": lambda: judged(with_both(ranges={METADATA: (7, 25), "f": (1, 3)})),
    "fails_after_writing": lambda: judged(
        with_nodes(replace(ZOOKEEPER.nodes[0], epoch=-1), of=ZOOKEEPER)
    ),
    "generation_ambiguous": lambda: sample("zk-282-ranges"),
    "finalization_forgotten": lambda: judged(waiting={"c": OVERDUE}, forgotten=30 * 24 * HOUR),
    "upgrade_soaks": lambda: judged(min_ready=HOUR),
    "mute_expired": lambda: judged(with_nodes(FENCED), mutes=(MUTE,)),
    "strimzi_node_missing": lambda: judged(GOOD, strimzi_line("b1 b2 c9")),
    "strimzi_node_unlisted": lambda: judged(GOOD, strimzi_line("b1")),
    "strimzi_not_in_inventory": lambda: judged(GOOD, strimzi_line()),
    "metadata_version_not_pinned": lambda: judged(GOOD, strimzi_line(metadata_version=None)),
    "strimzi_not_carried_out": lambda: judged(GOOD, strimzi_line(paused=True)),
    "strimzi_contradicted": lambda: judged(GOOD, strimzi_line(status_version="3.9.0")),
    "snapshot_malformed": lambda: stored(names=b""),
}


def test_of_a_cluster_with_nothing_wrong_nothing_is_found() -> None:
    assert judged() == []


def test_a_features_node_that_is_gone_says_what_was_and_what_the_next_controller_makes() -> None:
    """By the recording 2.8.2-ibp2.8-absent it finalizes all that it supports: here 3, after 1."""
    older = line_of("znode", "c", 5, path="/feature", data=NODE_1, version=5, czxid=5)
    gone = replace(ZOOKEEPER, features_node=False)
    found = judged(gone, older)
    codes = {row["code"] for row in found}
    assert not codes & {"no_trustworthy_witness", "features_node_absent"}
    [row] = (one for one in found if one["code"] == "features_node_deleted")
    assert first_fact(row) == (
        "When it was last read it held f 1. The next controller that is elected finalizes the "
        "highest levels that it supports, which nobody approved: f 3."
    )
    words = FindingWords(load_catalogue())
    site = Site(zookeeper="z:2181/kafka")
    said = words.of(row, site)  # type: ignore[arg-type]
    head = ["zookeeper-shell.sh", "z:2181/kafka", "create", "/feature"]
    assert shlex.split(said.command) == [*head, NODE_1]
    for text, held in (("{", "What stood in it was not read."), (NODE_1 + " " * 250, "f 1")):
        long = line_of("znode", "c", 5, path="/feature", data=text, version=5, czxid=5)
        [row] = (one for one in judged(gone, long) if one["code"] == "features_node_deleted")
        assert held in first_fact(row)
        said = words.of(row, site)  # type: ignore[arg-type]
        assert shlex.split(said.command) == [*head, "TEXT"]


@pytest.mark.parametrize("code", CODES)
def test_it_fires_and_its_sentence_can_be_filled_in(code: str) -> None:
    assert code in FIRES, f"{code} has no scene: describe one in FIRES"
    findings = [row for row in FIRES[code]() if row["code"] == code]
    assert findings
    for row in findings:
        words = FindingWords(load_catalogue()).of(row)
        assert "{" not in words.statement + words.action
        facts = {name for name, fact in row["facts"].items() if fact is not None}
        assert facts <= CODES[code].facts.keys()


def test_where_all_is_too_old_nothing_is_advised_but_to_collect_again() -> None:
    late = judged(as_of=NOW + 100 * HOUR)
    assert {row["code"] for row in late} == {"levels_too_old", "evidence_too_old"}
    for row in late:
        words = FindingWords(load_catalogue()).of(row)
        assert words.action.startswith("Collect the cluster again.")


@pytest.mark.parametrize("name", ["-_a9", 'it\'s "so" \\', "größe\u202e \U0001f600", "$(rm x)`"])
def test_the_command_that_is_printed_lists_the_cluster(tmp_path: Path, name: str) -> None:
    file, stranger = tmp_path / "our fleet.toml", replace(GOOD, name=name)
    file.write_text('[[cluster]]\nid = "another"', "utf-8")  # and no line end
    [row] = judged(stranger, inventory=parse_fleet(file.read_text("utf-8"), "x").inventory)
    site = Site(name=name, inventory=str(file), address="b-1:9092,b-2:9092")
    words = FindingWords(load_catalogue()).of(row, site)
    assert words.command.isprintable()
    for shell in ("bash", "sh", "bash"):  # whoever runs it twice has one entry
        subprocess.run([shell, "-c", words.command], check=True, timeout=60)
    fleet = parse_fleet(file.read_text("utf-8"), "x")
    assert [entry.id for entry in fleet.cluster] == ["another", name]
    assert fleet.cluster[1].bootstrap == ("b-1:9092", "b-2:9092")
    assert judged(stranger, inventory=fleet.inventory) == []
    assert judged(stranger, inventory={}) == []  # nothing is listed anywhere


def test_who_registers_no_features_is_upgraded_only_if_its_software_is_too_old() -> None:
    words, of = FindingWords(load_catalogue()), "incompatible_with_finalized"
    [able] = (row for row in sample("zk-282-ignored-broker") if row["code"] == of)
    said = words.of(able)
    assert said.message.startswith("Broker 2 registers no features, and search.index is finalized")
    assert said.consequence.startswith("Its software supports 1-3.")
    assert " On broker 2, set inter.broker.protocol.version to " in said.action
    assert "pgrade" not in said.action
    for ranges in ({"f": (2, 3)}, {}, {"g": (1, 3)}):
        old = Node(node_id=2, ranges=ranges, says_nothing=True)
        [unable] = (row for row in judged(with_nodes(old, of=ZOOKEEPER)) if row["code"] == of)
        said = words.of(unable)  # type: ignore[arg-type]
        assert said.action.startswith("Upgrade the software of broker 2 ")
        assert "inter.broker.protocol.version" in said.action
    unfit = [row for row in FIRES[of]() if row["code"] == of]  # of a KRaft cluster
    assert "inter.broker" not in words.of(unfit[0]).action  # type: ignore[arg-type]


def test_an_epoch_that_went_back_is_shown_by_the_line_in_which_it_was_lower() -> None:
    lower = answer_line("c", BROKER)
    [row] = (row for row in FIRES["epoch_went_back"]() if row["code"] == "epoch_went_back")
    assert f"{row['observed_at']:%Y-%m-%dT%H:%M}" == json.loads(lower)["observed_at"][:16]


def test_newer_software_is_no_remedy_for_a_range_that_begins_above_what_is_finalized() -> None:
    words, of = FindingWords(load_catalogue()), "incompatible_with_finalized"
    newer = replace(BROKER, ranges={METADATA: (7, 29)}, levels=SIX)
    above = judged(with_nodes(newer, of=with_both(levels=SIX, stored=SIX)))
    for rows, said_too in ((FIRES["minimum_would_rise"](), True), (above, False)):
        said = words.of(next(row for row in rows if row["code"] == of))  # type: ignore[arg-type]
        assert said.action.startswith("Run older software on broker ")
        assert ("The node does not support the finalized minimum, 1." in said.statement) == said_too


def test_the_only_broker_of_a_cluster_is_to_be_started_not_unregistered() -> None:
    words, start = FindingWords(load_catalogue()), "no other broker is registered: start it"
    only = judged(with_nodes(replace(FENCED, node_id=1)))
    for rows, alone in ((only, True), (FIRES["ghost_broker"](), False)):
        [gone] = (row for row in rows if row["code"] == "ghost_broker")
        said = words.of(gone)  # type: ignore[arg-type]
        assert (start in said.message, "unregister" not in said.action.casefold()) == (alone, alone)


def test_what_writes_a_damaged_features_node_has_the_version_that_was_read() -> None:
    words, site = FindingWords(load_catalogue()), Site(zookeeper="zk:2181")
    code = "features_node_damaged"
    [row] = (row for row in FIRES[code]() if row["code"] == code)
    said = words.of(row, site)
    assert "zookeeper-shell.sh zk:2181 set -v 5 /feature 'TEXT'" in said.action
