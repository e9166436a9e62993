"""What commands print with --json about clusters, plans and requests; see view/documents.py."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from msgspec import UNSET, UnsetType

from featurelib.model import Move, Reason, Recipient, Step
from featurelib.planning.files import Approval, ForPeople
from featurelib.planning.goal import Stay
from featurelib.planning.outlook import StepOutlook
from featurelib.questions.describe import FindingShown, LevelShown, NodeShown, WitnessShown
from featurelib.questions.roll import Back, Misfit
from featurelib.questions.timeline import EpochBack
from featurelib.questions.what_if import Turn
from featurelib.schema import FINDING
from featurelib.view.documents import Document, JsonPart, Levels, NodeOf

_TYPES = {"string": "string", "bool": "boolean", "float": "number", "double": "number"}


def _row_schema(columns: pa.Schema) -> msgspec.Meta:
    """The JSON schema of a row of a table: every key, none of them required."""
    keys = {f.name: {"type": [_TYPES.get(str(f.type), "integer"), "null"]} for f in columns}
    times = [f.name for f in columns if pa.types.is_temporal(f.type)]
    return msgspec.Meta(extra_json_schema={"properties": keys | {key: {} for key in times}})


FindingRow = Annotated[dict[str, Any], _row_schema(FINDING)]


class OfCluster(Document):
    """A document about one cluster, and the evidence it is made from."""

    cluster: str
    name: str | None  # what the inventory calls it
    made_from: str


# --- questions ---------------------------------------------------------------------------------


class LevelOf(JsonPart):
    feature: str
    level: int


class ProofDocument(JsonPart):
    """One reason against a level; `line` is where its evidence stands."""

    judge: str
    rule: str
    source: str
    feature: str
    level: int
    message: str
    node: str
    role: str | None
    node_id: int | None
    needed: tuple[int, int] | None
    is_answer: bool
    seen_at: str | None
    line_id: int
    remedy: str
    command: str
    min_version: int | None
    max_version: int | None
    line: str | None
    muted: str | None
    muted_until: str | None


class FixDocument(NodeOf):
    action: str


class UnlockDocument(JsonPart):
    release: str | None
    fixes: list[FixDocument]
    only_own_controllers: list[NodeOf]
    rules: tuple[str, ...]


class WhyNotDocument(OfCluster):
    """featurelib why-not"""

    feature: str
    level: int
    finalized_level: int | None
    answer: str
    moves: list[LevelOf]
    dialects: tuple[str, ...]
    proofs: list[ProofDocument]
    unknown: list[ProofDocument]
    agreed: ProofDocument | None
    unlock: UnlockDocument | None
    plan: str | None


class ReadinessDocument(JsonPart):
    verdict: str
    phase: str
    may_join: list[str] | None
    may_join_after: list[str] | None


class RefusedDocument(NodeOf):
    """A node that may not register, by one dialect."""

    dialect: str
    entry: str
    features: tuple[str, ...]
    message: str


class WhatIfDocument(OfCluster):
    """featurelib what-if"""

    before: ReadinessDocument
    after: ReadinessDocument
    features: tuple[Turn, ...]
    unchanged: int
    new: list[FindingRow]
    gone: list[FindingRow]
    joined: tuple[int, ...]
    refused: list[RefusedDocument]
    not_running: tuple[int, ...]
    election: dict[str, Any] | None


class FirstDocument(JsonPart):
    intent: str
    steps: tuple[Step, ...]
    refusals: tuple[Reason, ...]


class WayBackDocument(JsonPart):
    brings: Levels
    joins_after_finalizing: tuple[str, ...]
    back: tuple[Back, ...]
    downgrade_floor: int | None
    point_of_no_return: int | None


class RollDocument(OfCluster):
    """featurelib roll"""

    release: str
    mode: str
    may_join: bool
    finalized: Levels
    finalized_known: bool
    misfits: tuple[Misfit, ...]
    only_with_unstable_features: tuple[str, ...]
    refused: list[RefusedDocument]
    first: list[FirstDocument]
    joins_now: tuple[str, ...]
    way_back: WayBackDocument | None


class RangeDocument(JsonPart):
    min_version: int
    max_version: int


class DescribeDocument(Document):
    """featurelib describe"""

    name: str | None
    owner: str | None
    managed_by: str | None
    made_from: str
    cluster_id: str
    mode: str
    seen_at: datetime
    controller: int | None
    configured_voters: tuple[int, ...] | None
    releases: tuple[str, ...]
    nodes: tuple[NodeShown, ...]
    profiles: list[dict[str, RangeDocument]]
    levels: tuple[LevelShown, ...]
    witnesses: tuple[WitnessShown, ...]
    findings: tuple[FindingShown, ...]


# --- nights ------------------------------------------------------------------------------------


class LevelMoveDocument(JsonPart):
    feature: str
    from_level: int
    to_level: int


class LevelChangeDocument(JsonPart):
    at: datetime
    epoch: int | None
    changes: list[LevelMoveDocument]
    went_down: tuple[str, ...]


class RangeMoveDocument(JsonPart):
    feature: str
    before: RangeDocument | None
    after: RangeDocument | None


class RangeChangeDocument(JsonPart):
    since: datetime
    until: datetime
    role: str
    node_ids: tuple[int, ...]
    first: bool
    changes: list[RangeMoveDocument]
    shrank: tuple[str, ...]


class TimelineDocument(OfCluster):
    """featurelib timeline"""

    regressions: int
    levels: list[LevelChangeDocument]
    ranges: list[RangeChangeDocument]
    epochs_back: tuple[EpochBack, ...]


class ClusterDiffDocument(JsonPart):
    cluster: str
    name: str | None
    before: str | None
    after: str | None
    new: tuple[FindingRow, ...]
    resolved: tuple[FindingRow, ...]
    unchanged: int
    incomparable: list[FindingRow]


class DiffDocument(Document):
    """featurelib diff"""

    made_from: str
    before: int
    after: int
    judged_alike: bool
    counts: dict[str, int]
    same: int
    clusters: list[ClusterDiffDocument]


# --- plans and what is sent --------------------------------------------------------------------


class RefusalDocument(JsonPart):
    """A reason against a plan, and whether conf/audit.toml mutes its finding."""

    judge: str
    code: str
    message: str
    feature: str
    level: int | None
    node: str
    supported: tuple[int, int] | None
    remedy: str
    command: str
    is_answer: bool
    muted: str | None
    muted_until: str | None


class PlanDocument(Document):
    """featurelib plan"""

    cluster: str
    name: str
    intent: str
    made_from: str
    seen_at: str
    outcome: str
    file: str | None
    digest: str | None
    plan: dict[str, Any] | None
    refusals: list[RefusalDocument]
    stays: tuple[Stay, ...]
    warnings: list[str]


class ShowDocument(Document):
    """featurelib show"""

    digest: str
    name: str | None
    catalogue: str
    plan: dict[str, Any]
    outlook: tuple[StepOutlook, ...]
    contradictions: list[str]
    for_people: ForPeople


class ApprovedUpdateDocument(JsonPart):
    step: int
    feature: str
    from_level: int
    to_level: int
    upgrade_type: str
    deletes: bool
    may_lose_metadata: bool
    no_return: int | None


class ApproveDocument(Document):
    """featurelib approve"""

    approval: Approval
    updates: list[ApprovedUpdateDocument]
    file: str
    signed: bool
    next: str


class UpdateResultDocument(JsonPart):
    feature: str
    from_level: int
    to_level: int
    upgrade_type: str
    operation: str
    outcome: str
    level: int | None
    code: int | None
    message: str | None


class RequestDocument(JsonPart):
    step: int
    outcome: str
    nodes_asked: int
    nodes_late: tuple[str, ...]
    updates: list[UpdateResultDocument]


class ApplyDocument(Document):
    """featurelib apply"""

    cluster: str
    name: str
    plan: str
    settings: str
    approved_by: str | None
    reason: str | None
    signed: bool | None
    outcome: str
    exit_code: int
    says: str
    steps: int
    applied_before: int
    requests: list[RequestDocument]
    reasons: tuple[str, ...]


class SettledDocument(JsonPart, kw_only=True):
    """A request that was looked after; `why` it could not be, or the command for `next`."""

    number: int
    cluster: str
    outcome: str
    proof: str | UnsetType = UNSET
    unproven: str | UnsetType = UNSET
    updates: list[UpdateResultDocument] | UnsetType = UNSET
    why: str | UnsetType = UNSET
    next: str | UnsetType = UNSET


class UnexplainedDocument(JsonPart):
    cluster: str
    feature: str
    level: int
    entry: int
    closed_as: str


class ResumeDocument(Document):
    """featurelib resume"""

    requests: list[SettledDocument]
    others: list[SettledDocument]
    unexplained: list[UnexplainedDocument]
    unknown: int
    says: str


class OutcomeDocument(JsonPart):
    at: str
    by: str
    outcome: str
    proof: str
    unproven: str
    updates: list[UpdateResultDocument]


class EntryDocument(JsonPart):
    number: int
    open: bool
    outcome: str
    cluster: str
    name: str
    where: str
    plan: str
    approval: str
    approved_by: str | None
    reason: str | None
    signed: bool | None
    settings: str | None
    step: int
    steps: int
    sent_at: str
    sent_to: Recipient | None
    user: str
    host: str
    process: int
    updates: tuple[Move, ...]
    found_out: list[OutcomeDocument]


class JournalDocument(Document):
    """featurelib journal"""

    journal: str
    entries: list[EntryDocument]
