"""The JSON documents of commands about clusters, plans and requests; see view/documents.py.

The answer to a question has a key for each field of the value, in the order of the fields, unless
KEYS has a row for its type. DOCUMENTS has the head and the value of each command's document.
Requests and their outcomes have documents of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from featurelib.collecting import Collected, Round
from featurelib.controller.journal import Verified
from featurelib.feature import Role
from featurelib.model import Move, Reason, Recipient
from featurelib.planning.files import Approval, ForPeople
from featurelib.planning.goal import Stay
from featurelib.planning.outlook import StepOutlook
from featurelib.questions.describe import Description, FindingShown
from featurelib.questions.why_not import Proof, WhyNot
from featurelib.view.documents import Document, JsonPart


def row_of(keys: str) -> dict[str, str]:
    """Return JSON key → attribute, parsed from words `key` or `key=attribute`."""
    parts = (key.partition("=") for key in keys.split())
    return {key: attribute or key for key, _, attribute in parts}


KEYS: dict[type, dict[str, str]] = {
    FindingShown: row_of("code severity role node_id message"),
    WhyNot: row_of(
        "feature level finalized_level=current answer moves dialects proofs unknown agreed unlock "
        "plan=words outlook=ahead"
    ),
    Proof: row_of(
        "judge rule=code source feature level message node role node_id needed is_answer "
        "seen_at=seen line_id consequence action command min_version max_version line muted "
        "muted_until"
    ),
    Collected: row_of(
        "id name file lines answered not_answering not_allowed quarantined probe error"
    ),
}


class OfCluster(Document):
    """The first keys of a JSON document about one cluster: id, name, and source of the data."""

    cluster: str
    name: str | None
    made_from: str


class OfDescribed(Document):
    """The first keys of the JSON document of `describe`: name, owner, manager and source."""

    name: str | None
    owner: str | None
    managed_by: str | None
    made_from: str


class OfRound(Document):
    """The first keys of the JSON document of `collect`: the folder of the landing files."""

    out: str


DOCUMENTS: dict[str, tuple[type[Document], type]] = {
    "why-not": (OfCluster, WhyNot),
    "describe": (OfDescribed, Description),
    "collect": (OfRound, Round),
}


def keys_of(kind: type) -> dict[str, str] | None:
    """Return JSON key → attribute for a type that becomes a JSON object; None for other types."""
    if is_dataclass(kind):
        return KEYS.get(kind) or {field.name: field.name for field in fields(kind)}
    names = getattr(kind, "_fields", None)  # the fields of a named tuple
    return names and dict(zip(names, names, strict=True))


def plain(value: object) -> Any:
    """Convert a value to JSON types: a role to its name, a type with attributes to an object."""
    if isinstance(value, Role):
        return value.text
    if keys := keys_of(type(value)):
        return {key: plain(getattr(value, attribute)) for key, attribute in keys.items()}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return msgspec.to_builtins(value)


def document(common: Document, value: object) -> dict[str, Any]:
    """Return the JSON document of a command: the keys of `common`, then the keys of `value`."""
    return {**msgspec.to_builtins(common), **plain(value)}


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
    refusals: list[Reason]
    stays: tuple[Stay, ...]
    warnings: list[str]
    theirs: tuple[Move, ...]  # the moves of the cluster's owner, which the plan leaves out
    later: tuple[Move, ...]  # our moves that need the owner's first


class ShowDocument(Document):
    """featurelib show"""

    digest: str
    name: str | None
    catalogue: str
    plan: dict[str, Any]
    outlook: tuple[StepOutlook, ...]
    contradictions: list[str]
    refusal: str | None  # why the plan can never be applied: another owner finalizes the level
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


class WithdrawalDocument(JsonPart):
    approval: str
    plan: str
    cluster: str
    approved_by: str
    at: str
    user: str
    host: str
    reason: str


class ApproveDocument(Document, kw_only=True):
    """featurelib approve; with --withdraw `withdrawn` in place of `updates` and `next`"""

    approval: Approval
    updates: list[ApprovedUpdateDocument] | UnsetType = UNSET
    file: str
    signed: bool
    next: str | UnsetType = UNSET
    withdrawn: WithdrawalDocument | UnsetType = UNSET


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
    """A request that `resume` handled. `why`: the reason why the outcome is unknown; `next`: the
    next command."""

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


class JournalDocument(Document, kw_only=True):
    """featurelib journal; with --verify `verified` alone"""

    journal: str
    entries: list[EntryDocument] | UnsetType = UNSET
    withdrawals: list[WithdrawalDocument] | UnsetType = UNSET
    verified: Verified | UnsetType = UNSET
