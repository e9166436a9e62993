"""An approval as bytes: who lets which plan be applied, and until when.

It names the plan's digest, so it is of one meaning and no other. There is one way to write it:
bytes that say the same in another form are refused too. Time is an argument.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import msgspec

from featurelib.core.ages import SKEW_MINUTES
from featurelib.errors import ApprovalError, PlanError
from featurelib.model import Plan
from featurelib.plans import planfile

FORMAT: Literal["featurelib.approval"] = "featurelib.approval"
VERSION: Literal[1] = 1
Time = Annotated[datetime, msgspec.Meta(tz=True)]
SKEW = timedelta(minutes=SKEW_MINUTES)
LONGEST_NAME, LONGEST_REASON = 200, 1000
_FIRST, _LAST = "-----BEGIN SSH SIGNATURE-----\n", "\n-----END SSH SIGNATURE-----\n"
_LINE = 70  # characters of base64 in a line, as ssh-keygen writes them
_NEXT = "Write the approval again: featurelib approve PLAN --expires 24h"


class Approval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is signed: a person's word for one plan.

    `plan` is the digest of the plan's meaning. Times are UTC, whole seconds.
    """

    format: Literal["featurelib.approval"]
    version: Literal[1]
    plan: str
    cluster: str
    approved_by: str
    approved_at: Time
    expires_at: Time
    reason: str | None


class ApprovalFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An approval file: the approval, SHA-256 of its canonical bytes, and a signature over these.

    The digest guards against accidents and hasty hands. Only the signature says who it was.
    """

    approval: Approval
    digest: str
    signature: str | None


class _Head(msgspec.Struct, kw_only=True):
    format: str
    version: int


class _Beginning(msgspec.Struct, kw_only=True):
    approval: _Head


def approve(
    meaning: Plan, *, by: str, at: datetime, expires: timedelta, reason: str | None = None
) -> Approval:
    """The approval of a plan, from `at` on for `expires`. Raises PlanError for a name or a reason
    that cannot be shown."""
    begin = at.astimezone(UTC).replace(microsecond=0)
    approval = Approval(
        format=FORMAT,
        version=VERSION,
        plan=planfile.digest(meaning),
        cluster=meaning.cluster,
        approved_by=by,
        approved_at=begin,
        expires_at=begin + expires,
        reason=reason,
    )
    _expect_values(approval, "approval")
    return approval


def canonical(approval: Approval) -> bytes:
    """The bytes that are signed: JSON, keys sorted, no space between."""
    return msgspec.json.encode(approval, order="sorted")


def digest(approval: Approval) -> str:
    """What an approval is known by: SHA-256 of its canonical bytes."""
    return "sha256:" + hashlib.sha256(canonical(approval)).hexdigest()


def write(approval: Approval, signature: str | None = None) -> bytes:
    """The approval file's bytes: readable, and the only ones for this approval and signature."""
    file = ApprovalFile(approval=approval, digest=digest(approval), signature=signature)
    return msgspec.json.format(msgspec.json.encode(file, order="sorted"), indent=2) + b"\n"


def read(text: bytes | str, where: str) -> ApprovalFile:
    """The approval file in `text`, as bytes or decoded as they are (no newline translated).

    Raises PlanError for what `write` would not have written, ApprovalError for an approval that
    was changed afterwards; both name `where`.
    """
    found = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    try:
        head = msgspec.json.decode(found, type=_Beginning).approval
        if (head.format, head.version) != (FORMAT, VERSION):
            raise PlanError(
                f"{where}: expected {FORMAT} version {VERSION}, found {head.format!r} version "
                f"{head.version}. {_NEXT}"
            )
        file = msgspec.json.decode(found, type=ApprovalFile)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PlanError(f"{where}: expected an approval, found: {error}. {_NEXT}") from error
    _expect_values(file.approval, where)
    if file.signature is not None and not _is_armored(file.signature):
        raise PlanError(f"{where}: signature: expected one as ssh-keygen writes it. {_NEXT}")
    expected = digest(file.approval)
    if file.digest != expected:
        raise ApprovalError(
            f"{where}: expected the digest {expected}, found {file.digest}: the approval was "
            f"changed after it was written. Nothing was sent. {_NEXT}"
        )
    _expect_form(found, write(file.approval, file.signature), where)
    return file


def require(
    approval: Approval,
    meaning: Plan,
    now: datetime,
    *,
    longest: timedelta,
    skew: timedelta = SKEW,
) -> None:
    """Raises ApprovalError unless the approval is of this plan, and of now.

    `longest` is how long an approval may last, `skew` how far the approver's clock may be ahead.
    """
    ours, lasts = planfile.digest(meaning), approval.expires_at - approval.approved_at
    expected = found = ""
    if approval.cluster != meaning.cluster:
        expected, found = f"an approval for cluster {meaning.cluster!r}", repr(approval.cluster)
    elif approval.plan != ours:
        expected, found = f"an approval of the plan {ours}", f"one of {approval.plan}"
    elif lasts > longest:
        expected = f"an approval for at most {say_span(longest)} (longest_approval_hours)"
        found = f"one for {say_span(lasts)}"
    elif approval.approved_at > now + skew:
        ahead = say_span(approval.approved_at - now)
        expected = f"an approval given before now, {say_time(now)}"
        found = f"{say_time(approval.approved_at)}, {ahead} ahead (do both clocks go right?)"
    elif approval.expires_at <= now:
        over = say_span(now - approval.expires_at)
        expected = f"an approval that holds now, {say_time(now)}"
        found = f"one that expired {over} ago, at {say_time(approval.expires_at)}"
    if expected:
        raise ApprovalError(f"expected {expected}, found {found}. Nothing was sent. {_NEXT}")


def say_time(moment: datetime) -> str:
    """`2026-11-21T06:00:00Z`."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def say_span(span: timedelta) -> str:
    """`2 days 3 hours`, `59 seconds`: the two largest units that are there."""
    seconds = int(span.total_seconds())
    parts = []
    for noun, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number:,} {noun}{'' if number == 1 else 's'}")
    return " ".join(parts[:2]) or "0 seconds"


def make_schema() -> dict[str, object]:
    """The JSON Schema (draft 2020-12) of an approval file; approval.schema.json holds it."""
    schema = msgspec.json.schema(ApprovalFile)
    for definition in schema["$defs"].values():
        definition["description"] = " ".join(definition["description"].split())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _expect_values(approval: Approval, where: str) -> None:
    """PlanError for a value that is no name, no reason or no time."""
    for key, text, longest in (
        ("approved_by", approval.approved_by, LONGEST_NAME),
        ("reason", approval.reason, LONGEST_REASON),
    ):
        if text is not None and not _is_plain(text, longest):
            raise PlanError(
                f"{where}: {key}: expected 1 to {longest} letters that can be shown, no space "
                f"around them, found {text!r}. {_NEXT}"
            )
    for key, moment in (
        ("approved_at", approval.approved_at),
        ("expires_at", approval.expires_at),
    ):
        if moment.tzinfo != UTC or moment.microsecond:
            raise PlanError(
                f"{where}: {key}: expected a time as 2026-11-21T06:00:00Z, found "
                f"{moment.isoformat()}. {_NEXT}"
            )
    if approval.expires_at <= approval.approved_at:
        raise PlanError(
            f"{where}: expires_at: expected a time after {say_time(approval.approved_at)}, found "
            f"{say_time(approval.expires_at)}. {_NEXT}"
        )


def _is_plain(text: str, longest: int) -> bool:
    return 0 < len(text) <= longest and text == text.strip() and text.isprintable()


def _is_armored(signature: str) -> bool:
    """Whether a signature is in the one form ssh-keygen writes."""
    body = signature.removeprefix(_FIRST).removesuffix(_LAST).replace("\n", "")
    try:
        blob = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return False
    whole = base64.b64encode(blob).decode()
    lines = [whole[i : i + _LINE] for i in range(0, len(whole), _LINE)]
    return signature == _FIRST + "\n".join(lines) + _LAST


def _expect_form(found: bytes, same: bytes, where: str) -> None:
    """PlanError unless the bytes found are those that `write` makes of their meaning."""
    if found != same:
        pairs = zip(found.split(b"\n"), same.split(b"\n"), strict=False)
        line = next((i for i, (a, b) in enumerate(pairs, start=1) if a != b), 1)
        raise PlanError(
            f"{where}:{line}: expected the form that featurelib approve writes, found another "
            f"(spaces, order, repeated keys or escapes). {_NEXT}"
        )
