"""The values of a report: the one form behind terminal text, JSON and HTML.

Every text in it is safe to show (featurelib.words.clean) except `ReportedCluster.key`, which is
there to join with the gold tables. As JSON it is the value itself: report.schema.json beside this
file is made from the types, the class docstrings are its descriptions, and a test holds it to them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from featurelib.feature import ClusterMode, Phase, Severity, Verdict
from featurelib.findings import NodeAdvice, Verb
from featurelib.words import clean

Count = Annotated[int, Meta(ge=0)]
Time = Annotated[datetime, Meta(tz=True)]
COMMAND = 400  # characters of a command

# Worst first, in the order of the enums.
SEVERITY_RANK = {severity: rank for rank, severity in enumerate(Severity)}
VERDICT_RANK = {verdict: rank for rank, verdict in enumerate(Verdict)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A feature's level: the number, and as people write it, `25 (4.0-IV3)`."""

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
    """One update of the plan; those of one `request`, from 1 on, go out together.

    `managed_by`: who finalizes it in our place, null = we do. `waits`: it is ours, and needs what
    `managed_by` of the cluster has to finalize first, so no plan file has it yet.
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
    """One mute of conf/audit.toml: what it is about, null where about any, and how many it meets.

    `expired`: its last day, `until`, is over. `findings` and `clusters` count what it is about,
    expired or not; 0 = nothing is left of it.
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
    """The releases whose production software supports what is finalized, oldest first.

    `now`, and once the plan is carried out: `afterwards`, null without a plan. `text` says both.
    `command` says whether the software of a RELEASE can run again.
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
    """The safe downgrade of a feature once the plan is applied, as `featurelib show` has it.

    `downgrade_floor`: the lowest level that can be had then without losing metadata, null where
    nobody can tell. `point_of_no_return`: the first level of the plan's way from which today's
    cannot be had again, null where there is none.
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
    """A landing line that was left out: its file and number, and why. `cluster`: the name of whose
    it is, null where the line does not show that."""

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
    """The run: its number, the time it judged as of, and by which catalogue and dialect.

    `newest_line`: when the newest line of all clusters was read, null where there is none. Evidence
    older than `max_age_hours` decides nothing. `tables`: where the tables are. `out`: the folder of
    the report and of plans/, null where none was written. `quarantine`: what the tables hold that
    was left out, null where nobody looked.
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
    each feature of each cluster. `muted`: those of `findings` that a mute sets aside;
    `muted_until`: the day the nearest of these mutes runs out, null without any.
    `need_person`: clusters where a person has to look, or has a plan to approve. `can_move`:
    clusters whose plan has steps. `incompatible_nodes`: nodes that do not fit what is finalized
    already. `all_too_old`: nothing could be judged for the age of the evidence. `too_old`: clusters
    that are UNKNOWN and have such evidence. `not_landed`: expected clusters without
    any data.
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
    """One thing that holds clusters back; what unlocks most clusters comes first.

    `alone`: clusters that nothing else holds back, so that removing it unlocks them; `unlocked` are
    their keys. `stale`: the nodes are off and still registered. `feature` and `supported` say what
    the nodes in the way have in common; `supported` null = they do not list the feature.
    `features`: all that it holds back. `held`: the names of the clusters. `muted`: the clusters
    where all of it is muted, and holds back all the same.
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
    """The verdict on one feature. `finalized` null = nobody trustworthy says; 0 = it is not.

    `target`: the level to finalize next, null unless READY. `available`: what every node supports
    beyond the ceiling. `blockers` and `unknowns` count findings. `downgrade_floor`: the lowest
    level that can be had from today's, before the plan, without losing metadata; a cluster's
    `returns` say it for afterwards. `point_of_no_return`: the first level on the way to the target
    from which today's cannot be had again. Both null unless READY, or where nobody can tell; the
    second also where there is none. `ready_since`: the time of the first
    run that found it READY, null where it is not and was not before it became UNKNOWN.
    `verdict_since`: the time of the first run with this verdict and target, null if UP_TO_DATE or
    if an earlier release judged.
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
    `muted`: why conf/audit.toml sets it aside, null where it does not; `muted_until`: how long.
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
    """A node whose range does not hold a level that is finalized; `fenced` null = not known."""

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
    """Nodes that support the same, by their ids; a process that is both stands in both.

    `ranges`: of every feature that they list; null where nobody knows what they support.
    """

    brokers: tuple[int, ...]
    controllers: tuple[int, ...]
    ranges: tuple[SupportedRange, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedMove:
    """A change of a finalized level, or an epoch that decreased. `at`: when it was read. `epoch`:
    null where only a tool's output shows the level. `epoch_before`: the earlier epoch if the epoch
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

    `key` is the cluster id exactly as in the gold tables, for joins and never for eyes; `id` is it
    made safe to show. `name` is the inventory's, or the id. `owner`, `contact` and `managed_by`
    (who finalizes there, if not we) are the inventory's too, null where it does not say, and so are
    `labels`, each as `key=value`. `severity`: of its worst finding that is not muted, null without
    one. `needs_person`: somebody has to look, or has a plan to approve. `summary`: what to know in
    one line. `mode`: who keeps its metadata. `release` and `newest_release`: the oldest and the
    newest software of its nodes that run. `finalized_release`: the release of its finalized
    metadata.version. `newest_line`: when its newest line was read. All of these are null where
    nobody knows. `owner_command`: what moves the steps of `managed_by`, null where none of them
    waits or no command is known. `commands`: the one that shows the plan
    file of our own part, to be read and approved before anything is sent, or that makes it where
    none was written; none without such a part. `collect`: the command that collects it, null where
    this run has data of it. `joining`: releases that can register, null where that is unknown.
    `returns`: how far back it goes once the plan is carried out, of what moves and of
    metadata.version. `profiles`: who supports what, of the 5,000 worst clusters. `history`: how
    finalized levels moved, oldest first, of the 100 worst. Both are null where nobody looked.
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
    `after`: null where the run did not judge it. `key`: its id as in the tables. `name`: the text
    to show. `severity`: of its worst finding now that is not muted; null without one, and where it
    was not judged."""

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
    """One thing to do today: what is the matter, how to do it, and where.

    `how` and `command` may be empty. Of several clusters `how` says how each remedy begins, where
    they need several, and `command`, if there is one, is of the first; it has a line for each node
    that needs its own. `codes`: of the findings it is about. `clusters`: the
    `key` of each. `owners`: whose they are, as far as the inventory says; of a cluster without an
    owner its contact.
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
    """The clusters that a report is about, as they were chosen, and `of` how many."""

    text: str
    of: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """featurelib's report on one audit of a fleet of Kafka clusters.

    `version` goes up when a reader of the older version could misread; new members do not raise it.
    `part`: the chosen clusters, null for the whole fleet. Counts, causes and tasks of a part are of
    its clusters alone, and members that describe the whole run are null. `today`: the tasks, most
    urgent first. `mutes`: expired mutes first, then mutes that match no finding. `change`: the
    changes since the run before, null in the first run. `runs`: the runs up to this run, oldest
    first; empty for a part, and if no history was read.
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
    """Return the whole report, indented, ending in a line end."""
    text = msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
    if all(cluster.key.isprintable() for cluster in report.clusters):
        return text
    # Keys are exact, but must not control the reader's terminal.
    lines = text.decode().split("\n")
    return "\n".join("".join(map(_escape, line)) for line in lines).encode()


def _escape(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]
