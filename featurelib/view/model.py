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
COMMAND = 400  # characters of a command

# Worst first, in the order of the enums.
SEVERITY_RANK = {severity: rank for rank, severity in enumerate(Severity)}
VERDICT_RANK = {verdict: rank for rank, verdict in enumerate(Verdict)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A feature's level: the number, and the text for people, `25 (4.0-IV3)`."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A supported version range; `text` names its end: `7-25 (up to 4.0-IV3)`."""

    min_version: int
    max_version: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedStep:
    """One update of the plan.

    Updates with the same `request`, from 1 on, are sent together. `managed_by`: the other system
    that finalizes the level, null = featurelib. `waits`: featurelib will send it, but the cluster's
    `managed_by` has to finalize another level first, so no plan file has it yet.
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
    """One mute of conf/audit.toml: its subject (null = any), and the number of its matches.

    `expired`: its last day, `until`, is over. `findings` and `clusters` count its matches, also of
    an expired mute; 0 = it matches nothing.
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

    `text` has both. `command` shows whether the software of a RELEASE can register.
    """

    now: tuple[str, ...]
    afterwards: tuple[str, ...] | None
    text: str
    command: str

    @staticmethod
    def ask(cluster: str, ways: str) -> str:
        """Return the command. `cluster` is its argument, after a blank; `ways` are the options that
        reach it."""
        return clean(f"featurelib can-roll{cluster} --to RELEASE{ways}", COMMAND)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedReturn:
    """The safe downgrade of a feature after the plan, as in `featurelib show`.

    `downgrade_floor`: the lowest level of a downgrade without loss of metadata, null if unknown.
    `point_of_no_return`: the first level of the plan that cannot be downgraded to today's level,
    null if there is none.
    """

    feature: str
    downgrade_floor: Level | None
    point_of_no_return: Level | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """The lines that this run read: lines = accepted + repeated + quarantined."""

    lines: Count
    accepted: Count
    repeated: Count
    quarantined: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedLine:
    """A landing line that was left out: its file, its number and the reason. `cluster`: the name of
    its cluster, null if the line does not show it."""

    line: str
    reason: str
    cluster: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """The quarantined lines of all runs, and the first of the newest run that has any."""

    lines: Count
    newest: tuple[QuarantinedLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun:
    """The run: its number, the time of its judgement, its catalogue and its dialect.

    `newest_line`: the time of the newest line of all clusters, null without a line. Evidence older
    than `max_age_hours` decides nothing. `tables`: the place of the tables. `out`: the folder of
    the report and of plans/, null if none was written. `quarantine`: the quarantined lines in the
    tables, null if they were not read.
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
    """Counts over the fleet; a key is there even if its count is 0.

    `critical_by_verdict`: clusters with a critical finding that is not muted. `features` counts
    each feature of each cluster. `muted`: the muted ones among `findings`; `muted_until`: the first
    day on which one of these mutes ends, null without a mute. `need_person`: clusters that a person
    must check, or with a plan to approve. `can_move`: clusters whose plan has steps.
    `incompatible_nodes`: nodes that do not support a finalized level. `all_too_old`: no cluster
    could be judged, because all evidence is too old. `too_old`: clusters that are UNKNOWN and have
    such evidence. `not_landed`: expected clusters without any data.
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
    """A cause that blocks clusters; the cause that unlocks most clusters comes first.

    `alone`: the number of clusters without another blocker, which its removal unlocks; `unlocked`
    are their keys. `stale`: the nodes are off and still registered. `feature` and `supported` are
    common to the blocking nodes; `supported` null = they do not list the feature. `features`: all
    blocked features. `held`: the names of the clusters. `muted`: the number of clusters in which
    all findings of the cause are muted; it blocks them all the same.
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

    `finalized` null = no trusted source reports it; 0 = not finalized. `target`: the next level,
    null unless READY. `available`: the level above the ceiling that every node supports. `blockers`
    and `unknowns` count findings. `downgrade_floor`: the lowest level of a downgrade today, before
    the plan, without loss of metadata; a cluster's `returns` have it for the time after the plan.
    `point_of_no_return`: the first level up to the target that cannot be downgraded to today's
    level. Both are null unless READY, or if unknown; the second is also null if there is none.
    `ready_since`: the time of the first run that found it READY, null if it is not READY and was
    not READY before it became UNKNOWN. `verdict_since`: the time of the first run with this verdict
    and target, null if UP_TO_DATE or if an earlier release judged.
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
    """Something wrong, missing or in the way: what is so, what follows from it, what to do, and the
    evidence.

    `remedy`: the action in parts, between which its node stands; empty if it names no node.
    `facts`: what the texts name besides node, feature and levels; the row of the code says which.
    `supported` null = the node does not list the feature, or the finding is not about a range.
    `line_id`: the first eight bytes of the landing line's SHA-256. `line`: its file and number.
    `muted`: the reason of its mute in conf/audit.toml, null without a mute; `muted_until`: the last
    day of that mute.
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
        """The role and id of the node."""
        return self.role, self.node_id


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompatibleNode:
    """A node whose range does not contain a finalized level; `fenced` null = not known."""

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
    """The ids of nodes with equal ranges; a combined process is in both lists.

    `ranges`: the range of every listed feature; null if the ranges are unknown.
    """

    brokers: tuple[int, ...]
    controllers: tuple[int, ...]
    ranges: tuple[SupportedRange, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedMove:
    """A change of a finalized level, or an epoch that decreased. `at`: when it was read. `epoch`:
    null if only a tool's output shows the level. `epoch_before`: the earlier epoch if the epoch
    decreased, else null; the level may be the same then."""

    at: Time
    epoch: int | None
    feature: str
    before: Level
    after: Level
    epoch_before: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCluster:
    """One cluster, worst first in a report.

    `key` is the cluster id exactly as in the gold tables, for joins only; `id` is the same id made
    safe to show. `name` is the inventory's name, or the id. `owner`, `contact`, `managed_by` (the
    other system that finalizes levels) and `labels` (each as `key=value`) come from the inventory,
    null if it has none. `severity`: the severity of its worst unmuted finding, null without one.
    `needs_person`: a person must check it, or approve its plan. `summary`: its state in one line.
    `mode`: the system that keeps its metadata. `release` and `newest_release`: the oldest and the
    newest software of its nodes that run. `finalized_release`: the release of its finalized
    metadata.version. `newest_line`: the time of its newest line. All of these are null if unknown.
    `owner_command`: the command for the steps of `managed_by`, null without such steps or a known
    command. `commands`: the command that shows the plan file of our steps for review, or that makes
    the file if none was written; empty without such steps. `collect`: the command that collects the
    cluster, null if this run has its data. `joining`: releases that can register, null if unknown.
    `returns`: the possible downgrades after the plan, of changed features and of metadata.version.
    `profiles`: the nodes by range, for the 5,000 worst clusters. `history`: the changes of
    finalized levels, oldest first, for the 100 worst clusters. Both are null if they were not read.
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
    """A cluster whose verdict changed since the run before, or that became critical. `before` and
    `after`: null if the run did not judge it. `key`: its id as in the tables. `name`: the text to
    show. `severity`: the severity of its worst unmuted finding now, null without one or if it was
    not judged."""

    key: str
    name: str
    before: Verdict | None
    after: Verdict | None
    severity: Severity | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedLevel:
    """A feature of a cluster whose finalized level differs from the run before; both runs knew the
    level. `key`: the cluster's id as in the tables. `name`: the text to show. `seen`: the time of
    the first run with the new level. `unfit`: the nodes that do not support it, as `broker 2`."""

    key: str
    name: str
    feature: str
    before: Level
    after: Level
    seen: Time
    unfit: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedNodes:
    """The nodes of a cluster, as `brokers 2-3`, that stopped responding since the run before.
    `key`: the cluster's id as in the tables. `name`: the text to show."""

    key: str
    name: str
    nodes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The changes since the run before: `run` and `as_of` are that run's.

    `command` prints new and resolved findings. `ceilings`: maximum levels that decreased while the
    finalized level stayed, because the cluster's newest software is older now. `lowered`: levels
    that can be raised now, and whose last change within 180 days was a downgrade: ask for its
    reason before anybody raises them.
    """

    run: int
    as_of: Time
    verdicts: tuple[ChangedVerdict, ...]
    levels: tuple[ChangedLevel, ...] = ()
    ceilings: tuple[ChangedLevel, ...] = ()
    lowered: tuple[ChangedLevel, ...] = ()
    silent: tuple[ChangedNodes, ...] = ()
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
    """The counts of an earlier run, from gold.audit_run; releases and levels are empty and hours
    null if an earlier featurelib made the run.

    `median_wait_hours`, `longest_wait_hours`: how long READY clusters have been READY, each since
    its first READY feature; null without a READY cluster.
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
    """A task of today: the problem, the remedy, and the clusters.

    `how` and `command` may be empty. For several clusters with different remedies, `how` has the
    beginning of each. `command` is that of the first cluster, with a line for each node that needs
    its own. `codes`: the codes of its findings. `clusters`: their `key`s. `owners`: their owners in
    the inventory, or the contact of a cluster without an owner.
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
    """The clusters that a report is about, with the options that chose them, and the size of the
    whole fleet (`of`)."""

    text: str
    of: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """featurelib's report on one audit of a fleet of Kafka clusters.

    `version` rises if a reader of the older version could misread the report; new members do not
    raise it. `part`: the chosen clusters, null for the whole fleet. Counts, causes and tasks of a
    part are of its clusters alone, and members that describe the whole run are null. `today`: the
    tasks, most urgent first. `mutes`: expired mutes first, then mutes that match no finding.
    `change`: the changes since the run before, null in the first run. `runs`: the runs up to this
    run, oldest first; empty for a part, and if no history was read.
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
    """Return the whole report, indented, ending in a line end. Keys are exact, but do not control
    the reader's terminal."""
    return pretty_json(report)
