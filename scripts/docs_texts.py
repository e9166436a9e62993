"""Hold the prose of the generated pages; all other content of these pages is read from the code."""

from __future__ import annotations

RULES_INTRO = """
This page lists every rule by which a controller or featurelib rejects an update.

A rule is a boolean mask over columns: the mask marks the updates or nodes that violate the rule. A
rule does not depend on a Kafka release. A [dialect](dialects.md) lists the rules of one generation
of controllers, with their order and messages. The name of a rule is the code of its finding. The
number after a dialect is the row in the dialect's table. † marks rows that come from Kafka's source
code and that no recording reaches. `featurelib rules NAME` gives the reason.
[Vocabulary](vocabulary.md) explains levels and columns.
"""

ASKS_NOBODY = (
    "No dialect applies this rule to an update. The rule compares the nodes of a cluster with the "
    "finalized levels."
)

DIALECTS_INTRO = """
This page shows how each generation of controllers responds to UpdateFeatures.

A dialect is a table (`featurelib/core/dialects/*.toml`), not code. Two dialects belong to no Kafka
release. `kip` follows the letter of KIP-584, KIP-778 and KIP-1022. `strict` has all rules of the
KIPs and of every generation. For READY, `strict` and the cluster's own dialect must accept a level.

The controller first checks the whole request against the rows of the *door*. The first of these
rows that the request violates is the response, without results. After the door, the controller
checks every update against the other rows, from top to bottom. The controller returns only the
first row that an update violates; an audit shows all violated rows. If a dialect is `atomic`, the
first update that fails, in `update_order`, rejects the whole request. † marks rows that come from
Kafka's source code and that no recording reaches. `featurelib conformance` compares the dialects
with recorded responses of real controllers ([conformance](conformance.md)).
"""

# Texts for lines of code without a comment, or with a comment that is too short for readers.
MEANINGS = {
    "wire_versions": "versions of UpdateFeatures that this generation of controllers answers",
    "catalogue": "the known features and levels: those of the controller's `own` release, or `any`",
    "judges": "the state against which an update is checked: cached, finalized, proposed",
    "duplicates": "the entry that counts if a request names a feature twice: each, first, last",
    "stores_min": "the minimum that a write stores: `local` (the controller's own) or the level",
    "update_order": "the order in which the controller checks updates",
    "validate_only": "ValidateOnly is `honoured`, or `ignored` (then the request is applied)",
    "upgrade_type_v0": "version 0: all updates are upgrades, or the flag `allow_downgrade` is read",
    "kraft_version": "`plain`: a feature like others; `record`: the controller uses its own "
    "record, nodes show the raft layer's level; `ignored_record`: no node reads the record; "
    "`raft`: the raft layer stores the level",
    "kraft_version_leaks": "kraft.version may be upgraded although the request is rejected",
    "metadata_floor": "the lowest metadata.version that may be set",
    "stable_by": "the software that decides which levels are stable: of the controller, or each "
    "node",
    "metadata_needed": "the metadata.version that a level of 1 or more of another feature needs",
    "controllers_register_from": "the metadata.version from which controllers register (KIP-919)",
    "code": "the error code of a rejected registration; 35 is UNSUPPORTED_VERSION",
    "directories_from": "the metadata.version from which brokers register directories; – is never",
    "broker_exits": "a broker that does not support a finalized level exits; else it logs a fault "
    "and stops reading the log",
    "system_from": "the inter.broker.protocol.version from which the feature system is on",
    "schema_2_from": "the inter.broker.protocol.version from which `/feature` has schema 2",
    "brokers": "the finalized values that brokers compare with their own ranges",
    "controllers": "the finalized values that controllers compare with their own ranges",
}
GROUPS = {
    "live_brokers": "the brokers that run and are not fenced",
    "quorum": "every voter, also the active controller",
    "configured_voters": "the other nodes in `controller.quorum.voters` of the active controller: "
    "in a static quorum the voters, in a dynamic quorum nobody, or leftover nodes",
    "configured_only": "those configured voters that are neither voters nor registered",
    "reachable_controllers": "the other controllers that respond now",
    "registered_controllers": "the other controllers that are registered",
    "none": "the rule checks no nodes",
}

ORDERS = {
    "none": "The message names no node, or only one node is checked",
    "hash": "The order of a Java HashMap: 16 buckets, doubled when three quarters are full. "
    "Voters are inserted in the order of controller.quorum.voters",
    "sized_hash": "From 3.8 on, the HashMap of the voters begins with the smallest possible size",
    "table": "The order of Kafka's own hash table: 2 slots that double, by the top bits of id × "
    "−7046029254386353131; later insertions first within a slot, without the active controller",
    "table_hash": "Up to 3.6, the brokers are inserted into a HashMap in the order of Kafka's "
    "table",
}

PLACEHOLDERS = """
## Placeholders of a message

| in the message | replaced by |
|---|---|
| `{feature}`, `{level}` | the feature and the requested level |
| `{current}` | the level with which the controller compares the requested level |
| `{finalized_min}` | the finalized minimum |
| `{local_min}` | the lowest level that the controller itself supports |
| `{node}` | the id of the blocking node |
| `{node_min}`, `{node_max}` | the range of the blocking node |
| `{node_range}` | the range of the blocking node as Kafka prints it (`7`, `1+`, `0-2`) |
| `{verb}` | downgrade for a safe downgrade, else upgrade |
| `{active}` | the id of the active controller |
| `{dependency}`, `{dependency_level}` | the missing dependency |
| `{oldest_known}`, `{newest_known}` | levels of metadata.version in the controller's release |
"""

COMMANDS_INTRO = """
This page lists every command and job with all of its options, as `featurelib COMMAND --help-all`
and `./spark-submit.sh JOB --help-all` print them. `--help` leaves out less common options.
`featurelib --install-completion` sets up completion for bash, zsh, fish or PowerShell, and
`--show-completion` prints the script. Live clusters need the extra `kafka`, ZooKeeper mode
`zookeeper`, and tables `lake` ([install](../install.md)).

With `--json`, every command prints one JSON object; `watch --json` prints one object per line.
Progress goes to stderr. Without a terminal no command asks a question: the error names the option
to pass. See also [exit codes](exit-codes.md).
"""
JOBS_INTRO = """
Jobs need Java. `./spark-submit.sh` installs Spark. `./spark-submit.sh --help` lists its own
options.
"""
EXIT_CODES_INTRO = """
This page lists the exit codes of all commands and jobs. If several exit codes apply, 4 comes before
3, 3 before 5, and 5 before 1. The class of an [error](errors.md) decides the exit code.
"""
ENDS = {
    0: "done",
    1: "done, with a result to check: findings at or above `--fail-on`, differences, a plan that "
    "stopped after some steps, a watch whose time ended before its target was READY",
    2: "usage: an option, a file or the environment is wrong; nothing was done",
    3: "rejected, nothing was written",
    4: "the result is unknown: something may have been written. Run `featurelib resume`",
    5: "could not read: no node reachable, no data, a failing disk, store, worker or table, or no "
    "network at the first start",
    70: "a fault in featurelib itself: one line; `FEATURELIB_TRACE=1` shows a stack trace",
    74: "the command has done its work, and part of its output could not be written (a full disk, "
    "a closed stream)",
    130: "interrupted (Ctrl-C): run it again",
    143: "a job was ended by SIGTERM (137: by SIGKILL); run it again. 52, from Spark's own "
    "`spark-submit`: Java had no memory left; `--driver-memory 4g` gives more",
    141: "the reader of the output ended, as `head` does",
}
ERRORS_INTRO = """
This page lists the exceptions that featurelib raises. All exceptions of featurelib have one base
class. The message of an exception says what is wrong, where (cluster, node, feature, file and
line), and what to do. An exception of another class is a fault of featurelib: exit code 70.
"""
TABLES_INTRO = """
This page lists the tables and columns below the folder of `--tables`. Any Delta reader can read the
tables. The *key* of a table is the columns that identify a row. The *version* of a table rises when
older releases of featurelib cannot read the table. Types are Arrow's. `int16` is a version or a
level, as in Kafka's protocol.
"""
SCHEMAS_INTRO = """
This page shows the schemas of files for programs. A changed schema gets another `version`. The
schemas of all `--json` outputs are in [commands.schema.json](commands.schema.json): find the entry
of `$defs` whose description is your command.
"""
SIDE_EFFECTS_INTRO = """
This page lists the levels whose upgrade also changes a configuration or another level. You have to
request a level with side effects by name. No `upgrade-all` plan and no `upgrade --release-version`
of featurelib contains such a level. Kafka's own `kafka-features.sh upgrade --release-version` sends
it. The audit shows a level with side effects as an opt-in level.

    featurelib plan payments-eu upgrade --feature eligible.leader.replicas.version=1

The plan lists the level's side effects, with the values of the cluster if DescribeConfigs returned
them. The plan's digest covers the side effects. `plan`, `show`, `approve` and `apply` print the
side effects. `apply` rejects a plan whose side effects have changed.

## eligible.leader.replicas.version 1

During the upgrade, the active controller writes `min.insync.replicas` as the default of the whole
cluster. The value comes from *the controller's own* configuration: the controller's file, or
Kafka's default, 1. Usually only the brokers' files set `min.insync.replicas`. Then every topic
without a value of its own changes from the brokers' value to 1, at once and for good. An
acknowledged write may then exist on one disk only. The upgrade also deletes values of
`min.insync.replicas` that were set for single brokers.

Before the upgrade, set the cluster default of `min.insync.replicas`:

    kafka-configs.sh --bootstrap-server HOST:PORT --entity-type brokers --entity-default \\
        --alter --add-config min.insync.replicas=2

On 4.0.1 to 4.4.0, the upgrade keeps an existing cluster default, so the value stays 2. The upgrade
still deletes values of `min.insync.replicas` that were set for single brokers. After the upgrade,
`kafka-configs.sh` with these options repairs the value. While the level is finalized, you can
change the cluster default of `min.insync.replicas`, but not remove it. Kafka then rejects a value
for one broker (`Broker-level min.insync.replicas cannot be altered while ELR is enabled.`). Topics
with a value of their own keep this value. A downgrade to 0 restores no value: the cluster default
stays, and you can remove it then.

## Side effects in the catalogue
"""
SIDE_EFFECTS_MEASURED = """
## Measured side effects

`scripts/measure_side_effects.py` starts a real controller and brokers of each release. The
controller has no `min.insync.replicas`, and two brokers have 2 in their files. One broker, the
cluster default, topics, a group and quotas have values, too. The script formats each cluster with
the lowest level of the release, then upgrades every feature one level at a time. Before and after
each upgrade, and after a downgrade, the script reads all configurations, topics, groups, quotas and
the metadata log. The script also tries which configuration keys can still be set. Every step is a
row of `featurelib/catalogue/measured_steps.csv`. Equal steps of several releases are one row of the
table.

Numbers in brackets are sources of DescribeConfigs: 1 the topic, 2 one broker, 3 the cluster
default, 4 the node's file, 5 Kafka's default. The records REGISTER_BROKER_RECORD and
REGISTER_CONTROLLER_RECORD mean that nodes register again in the new form, without changed settings.
The records KRaftVersion and KRaftVoters belong to kraft.version 1: from then on the log contains
the voters. If a downgrade is rejected, Kafka rejected the downgrade of the metadata.version or
kraft.version itself.
"""
# The meanings of keys in the JSON files whose docstring does not explain them: `Type.key`, or a key
# with one meaning in all types.
KEYS = {
    "format": "The name of the format.",
    "version": "The version of the format. A changed schema gets another version.",
    "cluster": "The cluster's id.",
    "name": "The cluster's name in the inventory, or its id.",
    "owner": "The cluster's owner in the inventory, null without one.",
    "contact": "The contact of the owner in the inventory, null without one.",
    "feature": "The name of the feature.",
    "from_level": "The level before the request. 0: not finalized.",
    "to_level": "The level after the request. 0: not finalized.",
    "upgrade_type": "Kafka's upgrade type: UPGRADE, SAFE_DOWNGRADE or UNSAFE_DOWNGRADE.",
    "timeout_ms": "The timeout of the request in milliseconds.",
    "catalogue": "The catalogue of Kafka's levels, with its overlay.",
    "run": "The number of the audit run: its time in UTC, yyyymmddHHMMSS.",
    "as_of": "The time at which the run judged the fleet.",
    "severity": "The severity of the finding.",
    "code": "The code of the finding (docs/vocabulary.md).",
    "role": "The role of the node: broker or controller. Null: the whole cluster.",
    "node_id": "The id of the node. Null: the whole cluster.",
    "finalized": "The finalized level. 0: not finalized. Null: unknown.",
    "supported": "The node's range of the feature. Null: the node does not list the feature.",
    "message": "The fact, in one sentence.",
    "consequence": "The result if nobody acts. May be empty.",
    "action": "The fix. May be empty.",
    "command": "The next command. May be empty.",
    "source": "The source of the data. May be empty.",
    "min_version": "The lowest supported level.",
    "max_version": "The highest supported level.",
    "level": "The level of the feature.",
    "brokers": "The ids of the brokers.",
    "controllers": "The ids of the controllers.",
    "verdict": "The verdict.",
    "WaveFile.waves": "The plan of waves.",
    "WavePlan.target": "The target: a release version, a release, or upgrade-all.",
    "WavePlan.tables": "The tables of the nightly that the plan uses.",
    "WavePlan.max_parallel": "The maximum number of clusters to upgrade in parallel.",
    "WavePlan.rings": "The rings, in the order of the upgrade.",
    "WavePlan.held": "The clusters that are not in the plan.",
    "WavePlan.reached": "The clusters that already have the target.",
    "WaveRing.name": "The name of the ring.",
    "WaveRing.about": "The reason for the ring's place.",
    "WaveRing.steps": "The steps of the ring, in order.",
    "WaveStep.way_back": "True if all changes of the step are reversible.",
    "WaveWork.does": "The commands, in order.",
    "WaveCommand.moves": "The changes of the command.",
    "WaveCommand.whom": "The person to ask. Empty if there is a command.",
    "ApprovalFile.approval": "The signed part.",
    "ApprovalFile.digest": "The SHA-256 of the approval's canonical bytes.",
    "ApprovalFile.signature": "The SSH signature of these bytes. Null: not signed.",
    "Approval.plan": "The digest of the plan.",
    "Approval.approved_by": "The name of the approver.",
    "Approval.approved_at": "The time of the approval in UTC, whole seconds.",
    "Approval.expires_at": "The time in UTC after which `apply` rejects the approval.",
    "Approval.reason": "The approver's reason, for example a ticket.",
    "PlanFile.digest": "The SHA-256 of the canonical bytes of `meaning`.",
    "PlanFile.meaning": "The plan. `apply` uses only this part.",
    "PlanFile.for_people": "Texts for people. `apply` never reads this part.",
    "Plan.intent": "The request of the person who planned, as a command.",
    "Plan.dialect": "The policy that allowed the plan.",
    "Plan.own_dialects": "The rule sets of the cluster's possible controllers.",
    "Plan.steps": "The requests, in the order in which `apply` sends them.",
    "Plan.requirements": "The state that `apply` must find before it sends a request.",
    "Plan.guards": "The conditions for applying the plan. Null: an earlier featurelib planned.",
    "Plan.side_effects": "The side effects of the levels, in the order of the steps.",
    "Guards.require_signature": "True if the approval needs a signature.",
    "Guards.managed_by": "The other system that finalizes levels. Empty: featurelib.",
    "Guards.managed_features": "The features of `managed_by`. Null: all features.",
    "SideEffect.level": "The level that has the side effect.",
    "SideEffect.key": "The changed configuration. Empty: none.",
    "SideEffect.what": "The side effect, in words.",
    "SideEffect.afterwards": "The operations that are impossible afterwards. May be empty.",
    "SideEffect.restored": "True if a downgrade restores the old value.",
    "SideEffect.values": "The values of the configuration, before and after.",
    "ValueChange.before": "The value before the change. Null: unknown.",
    "ValueChange.after": "The value after the change. Null: unknown.",
    "Step.updates": "The updates of the request.",
    "Requirements.levels": "All finalized levels.",
    "Requirements.nodes": "The nodes, in groups with equal ranges.",
    "Requirements.features_node_version": "The version of the /feature znode. Null: KRaft.",
    "RangeGroup.ranges": "Feature → lowest and highest supported level.",
    "ForPeople.written_at": "The time at which the plan was written.",
    "ForPeople.made_from": "The origin of the data: a live reading, files or tables.",
    "ForPeople.seen_at": "The time of the newest data.",
    "ForPeople.addresses": "The cluster's addresses at planning: option → value.",
    "ForPeople.level_names": "Feature → level → name of the level.",
    "ForPeople.left_out": "The requested changes that featurelib could not plan, with the reason.",
    "ForPeople.stays": "Other features, with the reason why the plan does not change them.",
    "ForPeople.warnings": "Warnings for the approver.",
    "Report.run": "The audit run.",
    "Report.fleet": "The counts of the fleet, or of the chosen part.",
    "Report.causes": "The causes that block clusters.",
    "Report.clusters": "The clusters, worst first.",
    "ReportedRun.number": "The number of the run: its time in UTC, yyyymmddHHMMSS.",
    "ReportedRun.release": "The release of featurelib.",
    "ReportedRun.dialect": "The policy.",
    "ReportedRun.ingest": "The counts of landing lines. Null: the run read no lines.",
    "Ingest.lines": "The number of lines.",
    "Ingest.accepted": "The number of new valid lines.",
    "Ingest.repeated": "The number of lines that an earlier run already read.",
    "Ingest.quarantined": "The number of invalid lines.",
    "Quarantine.lines": "The number of quarantined lines of all runs.",
    "Quarantine.newest": "The first lines of the newest run with quarantined lines.",
    "QuarantinedLine.line": "The file and the number of the line.",
    "QuarantinedLine.reason": "The reason of the quarantine.",
    "ReportedPart.text": "The options that chose the clusters.",
    "ReportedPart.of": "The number of clusters in the whole fleet.",
    "FleetCounts.clusters": "The number of clusters.",
    "FleetCounts.clusters_by_verdict": "The number of clusters with each verdict.",
    "FleetCounts.clusters_by_phase": "The number of clusters in each phase.",
    "FleetCounts.features_by_verdict": "The number of features with each verdict.",
    "FleetCounts.findings": "The number of findings.",
    "FleetCounts.findings_by_severity": "The number of findings of each severity.",
    "Task.verb": "The kind of task.",
    "Task.text": "The problem, in one sentence.",
    "Cause.title": "The cause, in words.",
    "Cause.clusters": "The number of blocked clusters.",
    "Cause.nodes": "The number of blocking nodes.",
    "Range.text": "The range with the name of its end.",
    "Level.number": "The number of the level. 0: not finalized.",
    "Level.text": "The number with the name of the level.",
    "ReportedCluster.phase": "The phase of the upgrade.",
    "ReportedCluster.nodes": "The number of nodes.",
    "ReportedCluster.readiness": "The verdict on each feature.",
    "ReportedCluster.findings": "The findings, worst first.",
    "ReportedCluster.incompatible": "The nodes that do not support a finalized level.",
    "ReportedCluster.steps": "The updates of the plan.",
    "ReportedCluster.plan_file": "The plan file. Null: none was written.",
    "ReportedFinding.feature": "The name of the feature. Null: the finding is about no feature.",
    "ReportedFinding.level": "The level that the finding is about. Null: none.",
    "ReportedFinding.epoch": "The epoch of the finalized levels. Null: unknown.",
    "ReportedFinding.observed_at": "The time of the data. Null: no data.",
    "IncompatibleNode.fenced": "True if the node is fenced. Null: unknown.",
    "Joining.now": "The releases that can register today, oldest first.",
    "Joining.afterwards": "The releases that can register after the plan. Null: no plan.",
    "ReportedMove.before": "The level before the change. 0: not finalized.",
    "ReportedMove.after": "The level after the change. 0: not finalized.",
    "ReportedMute.code": "The muted code of findings.",
    "ReportedMute.cluster": "The muted cluster. Null: any.",
    "ReportedMute.feature": "The muted feature. Null: any.",
    "ReportedMute.node": "The muted node. Null: any.",
    "ReportedMute.reason": "The reason of the mute.",
    "ReportedMute.until": "The last day of the mute.",
    "Change.run": "The number of the earlier run.",
    "Change.as_of": "The time of the earlier run.",
    "Change.verdicts": "The clusters whose verdict changed.",
    "Change.levels": "The finalized levels that changed.",
    "Change.silent": "The nodes that stopped responding.",
    "ChangedLevel.before": "The level in the earlier run.",
    "ChangedLevel.after": "The level in this run.",
    "ChangedNodes.nodes": "The nodes that stopped responding, as `brokers 2-3`.",
    "PastRun.run": "The number of the earlier run.",
    "PastRun.clusters_by_verdict": "The number of clusters with each verdict.",
    "PastRun.findings": "The number of findings.",
    "PastRun.releases": "The number of clusters on each release.",
    "PastRun.metadata_versions": "The number of clusters at each metadata.version.",
    "OnRelease.release": "The release.",
    "OnRelease.clusters": "The number of clusters.",
    "AtLevel.clusters": "The number of clusters.",
}
