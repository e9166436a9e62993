"""The prose of the generated pages; everything else in them is read from the code."""

from __future__ import annotations

RULES_INTRO = """
A rule is one boolean mask over columns: it says which updates, or which nodes, offend. No rule
knows a release; a [dialect](dialects.md) says which rules one generation of controllers asks, in
which order and in which words. The name of a rule is the code of its finding. The number behind a
dialect is the row in that dialect's table; † marks rows that were read in Kafka's source and that
no recording reaches (`featurelib rules NAME` says why). Levels and columns:
[vocabulary](vocabulary.md).
"""

ASKS_NOBODY = (
    "No dialect asks it of an update: nodes that belong to a cluster are judged by it, against "
    "what is finalized already."
)

DIALECTS_INTRO = """
A dialect is how one generation of controllers answers UpdateFeatures. It is a table
(`featurelib/core/dialects/*.toml`), not code. Two more are of no release: `kip` is the literal
reading of KIP-584, KIP-778 and KIP-1022, to show where texts and code part; `strict` is
everything the texts or any generation ask for. READY needs `strict` and the cluster's own
dialect.

How to read it: a request first meets the *door*, rows about the request as a whole; the first
that holds is the answer, with no results. Then every update meets the rows in their order. The
controller's answer for an update is the first row it violates; an audit shows all of them. Where
`atomic` holds, the first update that fails, in `update_order`, refuses the whole request. † marks
rows that were read in Kafka's source and that no recording reaches. `featurelib conformance`
compares the tables with recorded answers of real controllers: [conformance](conformance.md).
"""

# Where the comment beside a line of the code is too short for a reader, or there is none.
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
What `featurelib --help` and `./spark-submit.sh JOB --help` say. The base install is enough for the
commands; what a command needs beside it stands in its text: `featurelib[kafka]` to ask a live
cluster, `featurelib[zookeeper]` for ZooKeeper mode, `featurelib[lake]` to read tables.

Every command has `--json`: one object, and of `watch` one a line. Progress goes to stderr. No
command asks a question where there is no terminal; it says which option to give. How they end:
[exit codes](exit-codes.md).
"""
JOBS_INTRO = """
Jobs need Java and Spark; `./spark-submit.sh` brings both. Its own options:
`./spark-submit.sh --help`.
"""
EXIT_CODES_INTRO = """
The same for every command and job. If several would hold, 4 comes before 3, 3 before 5, 5 before 1.
The class of the [error](errors.md) carries its code.
"""
ENDS = {
    0: "done",
    1: "done, and there is something to look at: findings at or above `--fail-on`, differences, a "
    "plan that stopped part of the way, a watch whose time was up before its target was READY",
    2: "usage: an option, a file or the environment is not as needed; nothing was done",
    3: "refused, nothing was written",
    4: "the outcome is not known: something may have been written. Run `featurelib resume`",
    5: "could not look: nothing reachable, no evidence, surroundings that fail (a disk, a store, a "
    "worker, a damaged table), or no network at the first start",
    70: "a fault in featurelib itself: one line; `FEATURELIB_TRACE=1` shows where it comes from",
    74: "what the command does is done, and not all of its output could be written (a full disk, a "
    "closed stream)",
    130: "interrupted (Ctrl-C): at once, with one line; run it again",
    143: "a job was ended by SIGTERM (137: by SIGKILL); run it again. 52, of Spark's own "
    "`spark-submit`: Java had no memory left, and `--driver-memory 4g` gives more",
    141: "whoever read the output went away, as `head` does",
}
ERRORS_INTRO = """
Everything featurelib raises for a caller is of one tree. A message says what, where (cluster, node,
feature, file and line), what was expected and what was found, and the next command. What is not of
this tree is a fault of ours: exit code 70.
"""
TABLES_INTRO = """
Delta tables below the folder of `--tables`. Any Delta reader reads them. *Grain*: the columns that
tell two rows apart. *Version* grows when older releases of featurelib could not read it any more.
Types are Arrow's; `int16` is a version or a level, as on Kafka's wire.
"""
SCHEMAS_INTRO = """
Files that are read by programs, or kept. A schema that changes gets another `version`. What the
commands print with `--json` has its schema in
[commands.schema.json](commands.schema.json): the entry of `$defs` whose description is the command.
"""
SIDE_EFFECTS_INTRO = """
A level may change more than itself. Such a level moves only when somebody asks for it by name: it
is in no `upgrade-all` plan and in no `upgrade --release-version`, although Kafka's own
`kafka-features.sh upgrade --release-version` sends it. The audit does not count it for the ceiling
and shows it as available.

    featurelib plan payments-eu upgrade --feature eligible.leader.replicas.version=1

What else it changes stands in the plan, bound by its digest, with the cluster's own values where
DescribeConfigs gave them; `plan`, `show`, `approve` and `apply` say it, and `apply` refuses a plan
whose side effects are no longer what they would be.

## eligible.leader.replicas.version 1

The active controller writes `min.insync.replicas` as the default of the whole cluster, from *its
own* configuration: the file of the controller, or Kafka's default, 1. Usually it is set in the
brokers' files only. Then every topic without a value of its own goes from the brokers' value to 1,
at once and for good: an acknowledged write may stand on one disk. What was set for one broker is
deleted.

Set the default of the whole cluster first, to what it shall be:

    kafka-configs.sh --bootstrap-server HOST:PORT --entity-type brokers --entity-default \\
        --alter --add-config min.insync.replicas=2

Tried on 4.0.1 to 4.4.0: a cluster default that is there is left alone, so the value stays 2. What
is set for one broker is deleted all the same. The same command also fixes it afterwards: while the
level is finalized the cluster default may be changed, and not removed; a value for one broker is
refused (`Broker-level min.insync.replicas cannot be altered while ELR is enabled.`). Topics with a
value of their own keep it. Going back to 0 restores nothing: the cluster default stays, and may
then be removed.

## What the catalogue says
"""
SIDE_EFFECTS_MEASURED = """
## What was measured

`scripts/measure_side_effects.py` starts the real processes of each release: a controller without
`min.insync.replicas`, two brokers with 2 in their files, a value for one broker, a cluster default
of another key, two topics, a group, quotas. It raises every feature level by level from the lowest
the release can format, and reads all configurations, topics, groups, quotas and the metadata log
before, after, and after going back; and tries which keys may still be set. Every step is a row of
`featurelib/catalogue/measured_steps.csv`; steps that are alike in several releases are one row.

Numbers in brackets are sources of DescribeConfigs: 1 the topic, 2 one broker, 3 the cluster
default, 4 the node's file, 5 Kafka's default. REGISTER_BROKER_RECORD and REGISTER_CONTROLLER_RECORD
are nodes that register again in the new form: no setting changes. KRaftVersion and KRaftVoters are
what kraft.version 1 is: the voters stand in the log from then on. A refused way back is the
metadata.version's own, or that of kraft.version.
"""
