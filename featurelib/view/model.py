"""Define the values of a report: the one form behind terminal text, JSON and HTML.

Every text in a report is safe to show (featurelib.words.clean), except `ReportedCluster.key`, which
joins with the gold tables. The JSON is the value itself. report.schema.json beside this file is
generated from the types, with the class docstrings as descriptions; a test compares both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Annotated, Literal

from msgspec import Meta

from featurelib.feature import ClusterMode, Phase, Severity, Verdict
from featurelib.findings import NodeAdvice, Verb
from featurelib.words import clean, pretty_json

Count = Annotated[int, Meta(ge=0)]
Time = Annotated[datetime, Meta(tz=True)]
COMMAND = 400  # Maximum length of a command, in characters

# The order of severities and verdicts: worst first.
SEVERITY_RANK = {severity: rank for rank, severity in enumerate(Severity)}
VERDICT_RANK = {verdict: rank for rank, verdict in enumerate(Verdict)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A level of a feature: number, and text such as `25 (4.0-IV3)`."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A supported version range, with its text such as `7-25 (up to 4.0-IV3)`."""

    min_version: int
    max_version: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedStep:
    """One update of the plan.

    `request`: the number of the request; updates of one request are sent together. `managed_by`:
    the other system that finalizes the level, null for featurelib. `waits`: true if no plan file
    has the update yet, because `managed_by` must first finalize another level.
    """

    request: int
    feature: str
    from_level: Level
    to_level: Level
    upgrade_type: str
    timeout_ms: int
    managed_by: str | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedMute:
    """One mute of conf/audit.toml.

    `expired`: true if the last day of the mute is over. `findings`: the number of matching
    findings, also of an expired mute; 0 if none. `clusters`: the number of their clusters.
    """

    code: str
    cluster: str | None
    feature: str | None
    node: int | None
    reason: str
    until: date
    expired: bool
    findings: Count
    clusters: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """The releases whose production software supports the finalized levels, oldest first: `now`,
    and after the plan (`afterwards`, null without a plan).

    `text`: both lists as a sentence. `command`: the command that checks the software of a RELEASE.
    """

    now: tuple[str, ...]
    afterwards: tuple[str, ...] | None
    text: str
    command: str

    @staticmethod
    def ask(cluster: str, ways: str) -> str:
        """Return the command `can-roll`. `cluster`: its argument after a blank; `ways`: options
        that reach it."""
        return clean(f"featurelib can-roll{cluster} --to RELEASE{ways}", COMMAND)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedReturn:
    """The safe downgrade of a feature after the plan, as in `featurelib show`.

    `downgrade_floor`: the lowest level of a downgrade without loss of metadata, null if unknown.
    `point_of_no_return`: the first level of the plan that cannot be downgraded to today's level,
    null if none.
    """

    feature: str
    downgrade_floor: Level | None
    point_of_no_return: Level | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """The counts of the landing lines that the run read: lines = accepted + repeated +
    quarantined."""

    lines: Count
    accepted: Count
    repeated: Count
    quarantined: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedLine:
    """A quarantined landing line: place, reason, and cluster name. `cluster`: null if the line does
    not show it."""

    line: str
    reason: str
    cluster: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """The number of quarantined lines of all runs, and the first lines of the newest run with
    any."""

    lines: Count
    newest: tuple[QuarantinedLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun:
    """The audit run: its number, the time of its judgement, its catalogue and its dialect.

    `newest_line`: the time of the newest landing line of all clusters, null without a line.
    `max_age_hours`: the age from which featurelib ignores data. `tables`: the folder of the tables.
    `out`: the folder of the report and of plans/, null if none was written. `quarantine`: the
    quarantined landing lines in the tables, null if they were not read.
    """

    number: int
    as_of: Time
    release: str
    catalogue: str
    dialect: str
    ingest: Ingest | None
    newest_line: Time | None
    max_age_hours: float | None
    tables: str | None
    out: str | None
    quarantine: Quarantine | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCounts:
    """The counts of a fleet. Every key exists, even if its count is 0.

    `critical_by_verdict`: number of clusters with an unmuted critical finding, by verdict.
    `features`: number of features of all clusters. `muted`: number of muted findings.
    `muted_until`: the first day on which one of their mutes ends, null without a mute.
    `need_person`: number of clusters that a person must check, or whose plan waits for approval.
    `can_move`: number of clusters whose plan has steps. `incompatible_nodes`: number of nodes that
    do not support a finalized level. `all_too_old`: true if the data of every cluster is too old.
    `too_old`: number of clusters that are UNKNOWN because their data is too old. `not_landed`:
    number of clusters of the inventory without any data.
    """

    clusters: Count
    clusters_by_verdict: dict[Verdict, Count]
    critical_by_verdict: dict[Verdict, Count]
    clusters_by_phase: dict[Phase, Count]
    features: Count
    features_by_verdict: dict[Verdict, Count]
    findings: Count
    findings_by_severity: dict[Severity, Count]
    muted: Count
    muted_until: date | None
    need_person: Count
    can_move: Count
    incompatible_nodes: Count
    all_too_old: bool
    too_old: Count
    not_landed: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause that blocks clusters. The cause that unlocks most clusters comes first.

    `alone`: the number of clusters that only this cause blocks. `unlocked`: the keys of these
    clusters. `stale`: true for stopped nodes that are still registered. `feature`: the feature that
    the nodes block. `supported`: the range of the blocking nodes, null if they do not list the
    feature. `features`: all blocked features. `held`: the names of the clusters. `muted`: the
    number of clusters in which all findings of the cause are muted. These clusters stay blocked.
    """

    title: str
    code: str
    severity: Severity
    feature: str | None
    supported: Range | None
    features: tuple[str, ...]
    clusters: Count
    alone: Count
    unlocked: tuple[str, ...]
    stale: bool
    nodes: Count
    held: tuple[str, ...]
    muted: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """The verdict on one feature.

    `finalized`: the finalized level, 0 if none, null if unknown. `target`: the next level, null
    unless READY. `ceiling`: the maximum level of upgrade-all. `available`: the opt-in level above
    `ceiling` that every node supports. `blockers`: the number of findings that block the feature.
    `unknowns`: the number of findings about missing data. `downgrade_floor`: the lowest level of a
    downgrade without loss of metadata, before the plan; null unless READY, or if unknown.
    `point_of_no_return`: the first level up to the target that cannot be downgraded to today's
    level; null unless READY, if unknown, or if every level can. `ready_since`: the time of the
    first run that found the feature READY, null if no run did. `verdict_since`: the time of the
    first run with this verdict and target; null if UP_TO_DATE, or if an earlier featurelib judged.
    """

    feature: str
    verdict: Verdict
    finalized: Level | None
    target: Level | None
    ceiling: Level | None
    available: Level | None
    blockers: Count
    unknowns: Count
    downgrade_floor: Level | None
    point_of_no_return: Level | None
    ready_since: Time | None
    verdict_since: Time | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedFinding(NodeAdvice):
    """One finding: the fact, its consequence, the action and the source data.

    `remedy`: the text of the action, cut where the node's name belongs; empty if the action names
    no node. `facts`: further values in the texts; findings.toml lists them for each code.
    `supported`: the node's range, null if the node does not list the feature. `line_id`: the first
    eight bytes of the landing line's SHA-256. `line`: the landing line's file and number.
    `muted`: the reason of the finding's mute in conf/audit.toml, null without a mute.
    `muted_until`: the last day of that mute, null without a mute.
    """

    code: str
    severity: Severity
    role: str | None
    node_id: int | None
    feature: str | None
    finalized: Level | None
    level: Level | None
    supported: Range | None
    epoch: int | None
    observed_at: Time | None
    line_id: str | None
    line: str | None
    facts: dict[str, str] = field(hash=False)
    muted: str | None
    muted_until: date | None

    @property
    def node(self) -> tuple[str | None, int | None]:
        """The role and id of the node in the finding."""
        return self.role, self.node_id


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompatibleNode:
    """A node whose range does not contain a finalized level."""

    role: str
    node_id: int
    feature: str
    finalized: Level
    supported: Range | None
    fenced: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedRange:
    """The range of one feature that a node supports."""

    feature: str
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedProfile:
    """The ids of nodes with equal ranges; a combined node is in both lists.

    `ranges`: the nodes' range of every listed feature; null if the ranges are unknown.
    """

    brokers: tuple[int, ...]
    controllers: tuple[int, ...]
    ranges: tuple[SupportedRange, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedMove:
    """A change of a finalized level, or a decrease of the epoch. `at`: the time of the collection.
    `epoch`: null if unknown. `epoch_before`: the earlier epoch if the epoch decreased, else
    null."""

    at: Time
    epoch: int | None
    feature: str
    before: Level
    after: Level
    epoch_before: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCluster:
    """One cluster, worst first in a report.

    `key`: the cluster id exactly as in the gold tables, for joins only. `id`: the cluster id, safe
    to show. `name`: the inventory's name, or the id. `managed_by`: the other system that finalizes
    levels, null without one. `labels`: the labels of the inventory, each as `key=value`.
    `severity`: the severity of the cluster's worst unmuted finding, null without a finding.
    `needs_person`: true if a person must check the cluster, or approve its plan. `summary`: the
    cluster's state in one line. `mode`: the system that keeps the cluster's metadata, null if
    unknown. `release`: the oldest software of running nodes, null if unknown. `newest_release`: the
    newest one. `finalized_release`: the release of the finalized metadata.version, null if unknown.
    `newest_line`: the time of the cluster's newest landing line, null without a line.
    `owner_command`: the command for the steps of `managed_by`, null if unknown. `commands`:
    the command that shows the cluster's plan file for review, or makes the file; empty without a
    plan. `collect`: the command that collects the cluster, null if this run has its data.
    `joining`: releases that can register, null if unknown. `returns`: the possible downgrades after
    the plan, of changed features and of metadata.version. `profiles`: the nodes by range, for the
    5,000 worst clusters. `history`: the changes of finalized levels, oldest first, for the 100
    worst clusters. Null if the report left `profiles` or `history` out.
    """

    key: str
    id: str
    name: str
    owner: str | None
    contact: str | None
    managed_by: str | None
    labels: tuple[str, ...]
    verdict: Verdict
    severity: Severity | None
    phase: Phase
    nodes: Count
    needs_person: bool
    summary: str
    mode: ClusterMode | None
    release: str | None
    newest_release: str | None
    finalized_release: str | None
    newest_line: Time | None
    readiness: tuple[Readiness, ...]
    findings: tuple[ReportedFinding, ...]
    incompatible: tuple[IncompatibleNode, ...]
    steps: tuple[ReportedStep, ...]
    owner_command: str | None
    commands: tuple[str, ...]
    collect: str | None
    joining: Joining | None
    returns: tuple[ReportedReturn, ...]
    plan_file: str | None
    profiles: tuple[ReportedProfile, ...] | None = None
    history: tuple[ReportedMove, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedVerdict:
    """A cluster whose verdict changed since the previous run, or that became critical. `before`,
    `after`: the verdict, null if not judged. `key`: the cluster's id in the tables. `severity`: of
    its worst unmuted finding, null without finding."""

    key: str
    name: str
    before: Verdict | None
    after: Verdict | None
    severity: Severity | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedLevel:
    """A finalized level that changed since the previous run. `key`: the cluster's id in the tables.
    `seen`: the time of the first run with the new level. `unfit`: the nodes that do not support it,
    such as `broker 2`."""

    key: str
    name: str
    feature: str
    before: Level
    after: Level
    seen: Time
    unfit: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedNodes:
    """The nodes of a cluster, such as `brokers 2-3`, that stopped responding since the previous
    run. `key`: the cluster's id in the tables."""

    key: str
    name: str
    nodes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The changes since an earlier run.

    `command`: the command that prints new and resolved findings. `ceilings`: features whose maximum
    level fell although the finalized level did not change: the software was rolled back. `lowered`:
    levels that can be upgraded now, and were downgraded within 180 days: find out why before you
    upgrade them. `critical`: the keys of the clusters that were critical in the earlier run.
    """

    run: int
    as_of: Time
    verdicts: tuple[ChangedVerdict, ...]
    levels: tuple[ChangedLevel, ...] = ()
    ceilings: tuple[ChangedLevel, ...] = ()
    lowered: tuple[ChangedLevel, ...] = ()
    silent: tuple[ChangedNodes, ...] = ()
    critical: tuple[str, ...] = ()
    command: str = "featurelib diff"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnRelease:
    """The number of clusters whose oldest running software is this release."""

    release: str
    clusters: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLevel:
    """The number of clusters that have finalized metadata.version at this level."""

    level: Level
    clusters: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """The counts of an earlier run, from gold.audit_run. Runs of an earlier featurelib have no
    releases, levels and hours.

    `median_wait_hours`: the median time since the first feature of a READY cluster became READY,
    null without a READY cluster. `longest_wait_hours`: the longest such time.
    """

    run: int
    as_of: Time
    clusters_by_verdict: dict[Verdict, Count]
    findings: Count
    releases: tuple[OnRelease, ...]
    metadata_versions: tuple[AtLevel, ...]
    median_wait_hours: Count | None
    longest_wait_hours: Count | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of the day: the problem, the remedy, and the clusters.

    `how`: the remedy; if remedies differ, the first words of each remedy; may be empty. `command`:
    the command for the first cluster, may be empty. `codes`: the codes of the task's findings.
    `clusters`: the `key` of each cluster. `owners`: the owner of each cluster in the inventory, or
    the contact of a cluster without an owner.
    """

    verb: Verb
    text: str
    how: str
    command: str
    codes: tuple[str, ...]
    clusters: tuple[str, ...]
    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedPart:
    """The chosen clusters of a report: the options that chose them (`text`), and the number of
    clusters in the fleet (`of`)."""

    text: str
    of: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """featurelib's report on one audit of a fleet of Kafka clusters.

    `version` rises if a reader of the older version could misread the report; new members do not
    raise it. `part`: the chosen clusters, null for the whole fleet. For a part of the fleet,
    counts, causes and tasks cover only its clusters; keys about the whole run are null. `today`:
    the tasks, most urgent first. `mutes`: expired mutes first, then mutes that match no finding.
    `change`: the changes since the run before, null in the first run. `runs`: the runs up to this
    run, oldest first; empty for a part of the fleet, and if no history was read.
    """

    format: Literal["featurelib.report"]
    version: Literal[1]
    run: ReportedRun
    part: ReportedPart | None
    fleet: FleetCounts
    today: tuple[Task, ...]
    causes: tuple[Cause, ...]
    clusters: tuple[ReportedCluster, ...]
    mutes: tuple[ReportedMute, ...]
    change: Change | None
    runs: tuple[PastRun, ...]


def render_json(report: Report) -> bytes:
    """Return the report as indented JSON. Control characters are escaped."""
    return pretty_json(report)
