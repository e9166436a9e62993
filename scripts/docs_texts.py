"""Hold the prose of the generated pages; all other content of these pages is read from the code."""

from __future__ import annotations

RULES_INTRO = """
This page lists every rule by which a controller or featurelib rejects an update.

A rule is one boolean mask over columns: it marks the updates or nodes that violate it. A rule knows
no release. A [dialect](dialects.md) lists the rules of one generation of controllers, with their
order and messages. The name of a rule is the code of its finding. The number after a dialect is
the row in that dialect's table. † marks rows that were read in Kafka's source and that no
recording reaches (`featurelib rules NAME` gives the reason). For levels and columns see
[vocabulary](vocabulary.md).
"""

ASKS_NOBODY = (
    "No dialect applies it to an update. It compares the nodes of a cluster with the finalized "
    "levels."
)

DIALECTS_INTRO = """
This page shows how each generation of controllers responds to UpdateFeatures.

A dialect is a table (`featurelib/core/dialects/*.toml`), not code. Two dialects belong to no
release. `kip` follows the letter of KIP-584, KIP-778 and KIP-1022. `strict` has all rules of the
KIPs and of every generation. READY needs `strict` and the cluster's own dialect.

A request first meets the *door*: rows about the request as a whole. The first row that applies is
the response, without results. Then every update meets the other rows in their order. The
controller returns the first row that an update violates, and an audit shows all of them. If
`atomic` holds, the first update that fails, in `update_order`, rejects the whole request. † marks
rows that were read in Kafka's source and that no recording reaches. `featurelib conformance`
compares the tables with recorded responses of real controllers: [conformance](conformance.md).
"""

# Texts for lines of code without a comment, or with a comment that is too short for readers.
MEANINGS = {
    "wire_versions": "versions of UpdateFeatures that the generation answers",
    "catalogue": "which features and levels exist: those of the controller's `own` release or any",
    "judges": "the state an update is compared with: cached, finalized, proposed",
    "duplicates": "which mention of a name counts: each, first, last",
    "stores_min": "what a write makes of minimums: local (the own one) or the level",
    "update_order": "the order in which updates are judged, so which is the first to fail",
    "validate_only": "a request to judge only is `honoured`, or `ignored`: it is applied",
    "upgrade_type_v0": "wire version 0: all are upgrades, or its flag `allow_downgrade` is read",
    "kraft_version": "`plain`: a feature like others; `record`: the controller's own record "
    "counts, nodes show the raft layer's level; `ignored_record`: that record is not looked at; "
    "`raft`: the raft layer keeps it",
    "kraft_version_leaks": "kraft.version moves although the request is refused",
    "metadata_floor": "the lowest metadata.version that may be set",
    "stable_by": "whose software says which levels are stable: the controller's, or each node's",
    "metadata_needed": "the metadata.version that a level of 1 or more of another feature needs",
    "controllers_register_from": "the metadata.version from which controllers register (KIP-919)",
    "code": "the error code of a refusal; 35 is UNSUPPORTED_VERSION",
    "directories_from": "the metadata.version from which brokers name log directories; – is never",
    "broker_exits": "a broker that does not fit exits; else it logs a fault and stops following",
    "system_from": "the inter.broker.protocol.version that switches the system on",
    "schema_2_from": "the inter.broker.protocol.version that writes schema 2 of the features node",
    "brokers": "what brokers compare with their own software",
    "controllers": "what controllers compare with their own software",
}
GROUPS = {
    "live_brokers": "those that run and are not fenced",
    "quorum": "every voter, the active controller too",
    "configured_voters": "the others that the active controller's own `controller.quorum.voters` "
    "names: in a static quorum the voters, in a dynamic one nobody, or whoever was left there",
    "configured_only": "those of them that neither vote nor are registered",
    "reachable_controllers": "the other controllers that answer now",
    "registered_controllers": "the other controllers that registered",
    "none": "nodes are not walked one by one",
}

ORDERS = {
    "none": "The answer names no node, or only one is asked",
    "hash": "Buckets of a table of 16, doubled over three quarters; ties as inserted. "
    "Voters are inserted as controller.quorum.voters lists them",
    "sized_hash": "From 3.8 on the voters' table begins as small as they fit in",
    "table": "Slots of a table of 2 that doubles, by the top bits of id × −7046029254386353131; "
    "later insertions first within a slot. Whoever walks it passes over itself on the way",
    "table_hash": "Up to 3.6 the brokers of the table are put into such a HashMap, in its order",
}

PLACEHOLDERS = """
## Placeholders of an answer

`{feature}` `{level}` what is asked for · `{current}` what it is compared with · `{finalized_min}`
the finalized minimum · `{local_min}` the controller's own · `{node}` the offender's id,
`{node_min}` `{node_max}` its range, `{node_range}` the same as Kafka prints it (`7`, `1+`, `0-2`)
· `{verb}` downgrade for a safe downgrade, else upgrade · `{active}` the active controller ·
`{dependency}` `{dependency_level}` what is missing · `{oldest_known}` `{newest_known}` levels of
metadata.version the controller's release knows.
"""

COMMANDS_INTRO = """
This page lists every command and job with all of its options, as `featurelib COMMAND --help-all`
and `./spark-submit.sh JOB --help-all` print them. `--help` leaves out less common options.
`featurelib --install-completion` sets up completion for bash, zsh, fish or PowerShell, and
`--show-completion` prints its script. Live clusters need the extra `kafka`, ZooKeeper mode
`zookeeper`, and tables `lake` ([install](../install.md)).

Every command has `--json` and then prints one object; `watch` prints one per line. Progress goes to
stderr. Without a terminal no command asks a question: it names the option to pass. See also
[exit codes](exit-codes.md).
"""
JOBS_INTRO = """
Jobs need Java. `./spark-submit.sh` installs Spark and lists its own options with `--help`.
"""
EXIT_CODES_INTRO = """
This page lists the exit codes of all commands and jobs. If several apply, 4 comes before 3, 3
before 5, and 5 before 1. The class of an [error](errors.md) decides the code.
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
This page lists the exceptions that featurelib raises. All have one base class. A message says what
is wrong, where (cluster, node, feature, file and line), and what to do. Any other exception is a
fault of featurelib: exit code 70.
"""
TABLES_INTRO = """
This page lists the tables and columns below the folder of `--tables`. Any Delta reader reads them.
The *grain* is the columns that identify a row. The *version* rises when older releases of
featurelib cannot read the table. Types are Arrow's. `int16` is a version or a level, as in Kafka's
protocol.
"""
SCHEMAS_INTRO = """
This page shows the schemas of files for programs. A changed schema gets another `version`. The
output of `--json` has its schema in [commands.schema.json](commands.schema.json): the entry of
`$defs` whose description is the command.
"""
SIDE_EFFECTS_INTRO = """
This page lists the levels that change more than themselves. You have to request such a level by
name. No `upgrade-all` plan and no `upgrade --release-version` contains it, although Kafka's own
`kafka-features.sh upgrade --release-version` sends it. The audit shows it as an opt-in level.

    featurelib plan payments-eu upgrade --feature eligible.leader.replicas.version=1

The plan lists its side effects, with the cluster's own values if DescribeConfigs returned them. The
digest covers them. `plan`, `show`, `approve` and `apply` print them. `apply` rejects a plan whose
side effects have changed.

## eligible.leader.replicas.version 1

The active controller writes `min.insync.replicas` as the default of the whole cluster, from *its
own* configuration: the controller's file, or Kafka's default, 1. Usually only the brokers' files
set it. Then every topic without its own value changes from the brokers' value to 1, at once and
for good. An acknowledged write may then exist on one disk only. Values of single brokers are
deleted.

Set the default of the whole cluster first:

    kafka-configs.sh --bootstrap-server HOST:PORT --entity-type brokers --entity-default \\
        --alter --add-config min.insync.replicas=2

Tried on 4.0.1 to 4.4.0: an existing cluster default stays, so the value stays 2. Values of single
brokers are deleted all the same. The same command also repairs the value afterwards. While the
level is finalized, the cluster default may be changed but not removed. Kafka rejects a value for
one broker (`Broker-level min.insync.replicas cannot be altered while ELR is enabled.`). Topics
with their own value keep it. A downgrade to 0 restores nothing: the cluster default stays, and may
then be removed.

## What the catalogue says
"""
SIDE_EFFECTS_MEASURED = """
## What was measured

`scripts/measure_side_effects.py` starts the real processes of each release: a controller without
`min.insync.replicas`, two brokers with 2 in their files, a value for one broker, a cluster default
of another key, two topics, a group, quotas. It raises every feature level by level from the lowest
the release can format. It reads all configurations, topics, groups, quotas and the metadata log
before and after each upgrade, and after a downgrade. It tries which keys may still be set. Every
step is a row of `featurelib/catalogue/measured_steps.csv`. Equal steps of several releases are one
row.

Numbers in brackets are sources of DescribeConfigs: 1 the topic, 2 one broker, 3 the cluster
default, 4 the node's file, 5 Kafka's default. REGISTER_BROKER_RECORD and REGISTER_CONTROLLER_RECORD
mean that nodes register again in the new form, without changed settings. KRaftVersion and
KRaftVoters belong to kraft.version 1: from then on the log contains the voters. A rejected
downgrade is that of metadata.version itself, or of kraft.version.
"""
