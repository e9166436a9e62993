"""Every remedy that can be printed was carried out on a real cluster, or is somebody else's.

A new command, or a new action, has to be given its test here before it is printed to anybody.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from featurelib.audit.findings import wordings
from featurelib.core.dialect import STRICT, load
from featurelib.findings import Action, rule_rows, ways
from featurelib.planning.owners import COMMANDS

TESTS = Path(__file__).parents[1]
REAL = "backends/test_remedies_real.py"
EVERY_OTHER = f"{REAL}::test_every_other_printed_command_is_taken_by_the_real_tools"
ANEW = f"{REAL}::test_a_ghost_controller_below_33_registers_anew_and_no_command_is_printed"
REGISTER = f"{REAL}::test_a_voter_that_never_registered_is_started_with_the_software_named"
RECONFIGURE = (
    "backends/test_configured_voters_real.py::"
    "test_a_controller_left_in_the_configuration_and_unregistered_blocks_until_a_restart"
)
SIDE_EFFECT = (
    "backends/test_side_effects_real.py::"
    "test_what_a_level_overwrites_is_said_before_it_happens_and_stays_after_going_back"
)
GHOST = f"{REAL}::test_a_ghost_broker_is_unregistered_by_the_printed_command"
# The test that carries it out; `cited:` what is not ours or cannot be run, and who says so.
COMMANDS_TRIED = {
    "kafka-cluster.sh unregister --bootstrap-server HOST:PORT --id {node}": GHOST,
    "kafka-cluster.sh unregister-controller --bootstrap-server HOST:PORT --id {node}": (
        "cited: KIP-1312, Public Interfaces; kafka-tools of 4.4.0 is not on Maven Central, so its "
        f"request was sent instead, by {REAL}::test_a_ghost_controller_is_unregistered_from_33_on"
    ),
    "kafka-metadata-quorum.sh --bootstrap-server HOST:PORT remove-controller "
    "--controller-id {node} --controller-directory-id {directory}": (
        f"{REAL}::test_a_dead_voter_is_taken_out_of_the_quorum_by_the_printed_command"
    ),
    "kafka-acls.sh --bootstrap-server HOST:PORT --command-config admin.properties --add "
    "--allow-principal {principal} --operation Describe --cluster": EVERY_OTHER,
    "kafka-features.sh --bootstrap-server HOST:PORT upgrade --metadata 3.3": (
        f"{REAL}::test_a_log_of_the_preview_gets_its_metadata_version_by_the_printed_command"
    ),
    "kafka-metadata-quorum.sh --bootstrap-server HOST:PORT describe --status": EVERY_OTHER,
    "kafka-metadata-quorum.sh --bootstrap-server HOST:PORT describe --replication": EVERY_OTHER,
    "featurelib plan {cluster} {change} --probe{live}": (
        "backends/test_probe_real.py::test_a_plan_that_rests_on_a_probe_is_applied_by_asking_again"
    ),
    "featurelib plan {cluster} upgrade --feature {feature}={number} --probe{live}": (
        "backends/test_probe_real.py::test_a_refusal_names_a_ghost_and_its_range_that_nobody_saw"
    ),
    "kafka-dump-log.sh --cluster-metadata-decoder --files CHECKPOINT,LOG": EVERY_OTHER,
    "featurelib plan {cluster} upgrade --feature {feature}={level}{options}": SIDE_EFFECT,
    "kubectl describe kafka {name} --namespace {namespace}": "cited: Kubernetes, kubectl describe",
    "kubectl -n {namespace} patch kafka {name} --type merge --patch "
    """'{{"spec":{{"kafka":{{"metadataVersion":"{version}"}}}}}}'""": (
        "cited: Strimzi, Kafka resource, spec.kafka.metadataVersion"
    ),
    "grep -qsxF {entry} {inventory} || printf '%s\\n' '' '[[cluster]]' {entry}{bootstrap}"
    " >> {inventory}": (
        "core/test_every_finding.py::test_the_command_that_is_printed_lists_the_cluster"
    ),
    "featurelib why-not {cluster} {feature}={number}{options}": (
        "questions/test_why_not.py::test_what_a_controller_would_refuse_is_explained_by_its_command"
    ),
    "featurelib version-mapping": EVERY_OTHER,
    "featurelib check {cluster}{live} --zookeeper {zookeeper}": (
        "backends/test_zookeeper_smoke.py::test_the_printed_command_names_zookeeper_and_shows_the_mode"
    ),
    "{collect}": "report/test_gold.py::test_the_command_that_collects_again_is_filled_in_and_works",
    "zookeeper-shell.sh {zookeeper} create /feature {znode_text}": (
        "backends/test_zookeeper_smoke.py::"
        "test_a_features_node_that_was_deleted_is_written_back_by_the_printed_command"
    ),
}
ACTIONS_TRIED = {
    Action.UPGRADE: ANEW,
    Action.DOWNGRADE: "cited: KIP-584, Validations: every node supports the level",
    Action.MIGRATE: "core/test_migration.py::test_each_phase_of_a_migration_is_judged_as_it_is",
    Action.START: ANEW,
    Action.START_AGAIN: ANEW,
    Action.START_NEWER: "cited: FeatureControlManager.replay: a controller ends over such a level",
    Action.REGISTER_NEWER: (
        f"{REAL}::test_a_broker_unregistered_while_it_runs_is_restarted_with_newer_software"
    ),
    Action.REGISTER: REGISTER,
    Action.RECONFIGURE: RECONFIGURE,
    Action.UNREGISTER: GHOST,
    Action.UNREGISTER_HALF: (
        f"{REAL}::test_the_broker_half_of_a_node_that_is_a_controller_now_is_unregistered"
    ),
    Action.REGISTER_ANEW: ANEW,
    Action.UNREGISTER_CONTROLLER: f"{REAL}::test_a_ghost_controller_is_unregistered_from_33_on",
}
OWNERS_TRIED = {
    "strimzi": "cited: Strimzi, Kafka resource, spec.kafka.metadataVersion",
}


def printed() -> set[str]:
    """Every command that a finding, a rule or an action can print."""
    every = wordings(load(STRICT)).values()
    said = {remedy.command for words in every for remedy in words.remedies}
    said |= {remedy.command for words in rule_rows().values() for remedy in words.remedies}
    said |= {way.command for way in ways()}
    return said - {"", "{way}", "{stale}"}


def test_every_command_that_can_be_printed_is_tried_or_cited() -> None:
    assert printed() == set(COMMANDS_TRIED)
    assert {way.action for way in ways()} == set(Action) == set(ACTIONS_TRIED)
    assert set(COMMANDS) == set(OWNERS_TRIED)


@pytest.mark.parametrize(
    "proof",
    sorted({*COMMANDS_TRIED.values(), *ACTIONS_TRIED.values(), *OWNERS_TRIED.values()}),
)
def test_each_proof_is_a_test_that_is_there_or_says_who_says_so(proof: str) -> None:
    if proof.startswith("cited: "):
        return
    file, _, name = proof.partition("::")
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_no_remedy_unregisters_a_controller_as_if_it_were_a_broker() -> None:
    for way in ways():
        if "kafka-cluster.sh unregister --" in way.command:
            assert way.action in (Action.UNREGISTER, Action.UNREGISTER_HALF)
    for code, words in wordings(load(STRICT)).items():
        assert not any("unregister" in remedy.command for remedy in words.remedies), code
