"""Write and read plan and approval files with one codec.

Both are JSON with sorted keys and a digest: SHA-256 of the canonical form of the covered part. The
reader accepts only the form that this release writes: no unknown, repeated or missing key, and no
value in another form. In a plan, whitespace, key order and `for_people` have no meaning. In an
approval, which may be signed, every byte counts. The time is an argument of the functions.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from shlex import quote
from typing import Annotated, Literal, TypeVar

import msgspec

from featurelib.audit.columns import SKEW_MINUTES
from featurelib.errors import ApprovalError, ConfigError, PlanError
from featurelib.landing.strict import FaultError, unique_members
from featurelib.model import Plan
from featurelib.planning.requirements import plan_faults
from featurelib.words import msgspec_fault, pretty_json

VERSION: Literal[1] = 1  # the format version of plan and approval files
PLAN: Literal["featurelib.plan"] = "featurelib.plan"
APPROVAL: Literal["featurelib.approval"] = "featurelib.approval"
AGAIN = "Use the original file, or make the plan again: featurelib plan CLUSTER upgrade-all"
Time = Annotated[datetime, msgspec.Meta(tz=True)]
SKEW = timedelta(minutes=SKEW_MINUTES)
DAY = timedelta(days=1)
LONGEST_NAME, LONGEST_REASON = 200, 1000
_FIRST, _LAST = "-----BEGIN SSH SIGNATURE-----\n", "\n-----END SSH SIGNATURE-----\n"
_LINE = 70  # characters of base64 in a line of an ssh-keygen signature
_LONGEST_FILE_NAME = 120
_PLAIN = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{_LONGEST_FILE_NAME}}}(?<![.])")
# Device names of Windows, and names that resemble generated names.
_RESERVED = re.compile(
    r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?|(cluster|owner|view)-.*-[0-9a-f]{16}",
    re.IGNORECASE,
)
_SPAN = re.compile("([0-9]{1,5})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
File = TypeVar("File")


class ForPeople(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The part of a plan file for people. The digest does not cover it; `apply` ignores it."""

    name: str = ""  # the cluster's name for people
    written_at: str = ""
    made_from: str = ""  # the origin of the evidence: a live query, files or tables
    seen_at: str = ""  # when the newest evidence was read
    addresses: dict[str, str] = {}  # the addresses at planning: option → value
    level_names: dict[str, dict[str, str]] = {}  # feature → level → the name of the level
    left_out: tuple[str, ...] = ()  # requested changes that could not be planned, with the reason
    stays: tuple[str, ...] = ()  # other features, with the reason why they are not changed
    warnings: tuple[str, ...] = ()


class PlanFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a plan file."""

    format: Literal["featurelib.plan"]
    version: Literal[1]
    digest: str
    plan: Plan = msgspec.field(name="meaning")
    for_people: ForPeople = ForPeople()


class Approval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operator's approval of one plan: the signed part of an approval file.

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
    """An approval file: the approval, the SHA-256 of its canonical bytes, and their signature.

    The digest guards against accidental changes. Only the signature proves who approved.
    """

    approval: Approval
    digest: str
    signature: str | None


def plain(plan: Plan) -> dict[str, object]:
    """Return a plan as the keys and values of its file. Empty guards and side effects have no key,
    so that old digests stay valid."""
    keys: dict[str, object] = msgspec.to_builtins(plan)
    if plan.guards is None:
        del keys["guards"]
    if not plan.side_effects:
        del keys["side_effects"]
    return keys


def canonical(value: Plan | Approval) -> bytes:
    """Return the JSON bytes for digest and signature: keys sorted, no blanks."""
    return msgspec.json.encode(plain(value) if isinstance(value, Plan) else value, order="sorted")


def digest(value: Plan | Approval) -> str:
    """Return the digest of a plan or approval: SHA-256 of its canonical bytes."""
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


def write_plan(plan: Plan, for_people: ForPeople | None = None) -> str:
    """Return the text of a plan file. Equal arguments give equal texts."""
    people = for_people or ForPeople()
    file = PlanFile(format=PLAN, version=VERSION, digest=digest(plan), plan=plan, for_people=people)
    return pretty_json(
        msgspec.to_builtins(file) | {"meaning": plain(plan)}, order="sorted"
    ).decode()


def add_warning(text: str, warning: str) -> str:
    """Return the text of a plan file with an added warning for people. The digest stays."""
    file = read_plan(text, "the plan")
    warnings = (*file.for_people.warnings, warning)
    return write_plan(file.plan, msgspec.structs.replace(file.for_people, warnings=warnings))


def write_approval(approval: Approval, signature: str | None = None) -> bytes:
    """Return the bytes of an approval file. Equal arguments give equal bytes."""
    file = ApprovalFile(approval=approval, digest=digest(approval), signature=signature)
    return pretty_json(file, order="sorted")


def _parsed(raw: bytes | str, kind: type[File], source: str, advice: str) -> tuple[File, object]:
    """Parse a plan or approval file; return (file, its JSON). Raises PlanError."""
    form, expected = (PLAN, "a plan") if kind is PlanFile else (APPROVAL, "an approval")
    try:
        parsed = json.loads(raw, object_pairs_hook=unique_members)
        fields = parsed.get("approval", parsed) if isinstance(parsed, dict) else parsed
        fields = fields if isinstance(fields, dict) else {}
        name, version = fields.get("format"), fields.get("version")
        if (name, version) != (form, VERSION):
            use = "Use the featurelib that wrote it. " if name == form else ""
            raise PlanError(
                f"{source}: expected {expected}, {form} version {VERSION}, found {name!r} version "
                f"{version!r}. {use}{advice}"
            )
        return msgspec.convert(parsed, kind), parsed
    except (RecursionError, FaultError, ValueError) as error:
        if isinstance(error, json.JSONDecodeError):
            raise PlanError(f"{source}: this is not {expected}: not JSON. {advice}") from error
        detail = "lists in lists" if isinstance(error, RecursionError) else msgspec_fault(error)[2]
        raise PlanError(f"{source}: this is not {expected}: {detail}. {advice}") from error


def _short(text: str) -> str:
    return repr(text[:_LONGEST_FILE_NAME])


def _expect_form(stored: bytes, written: bytes, source: str, advice: str) -> None:
    """Raise PlanError, with the first different line, unless `stored` equals `written`."""
    if stored != written:
        lines = zip_longest(stored.split(b"\n"), written.split(b"\n"), fillvalue=b"(nothing)")
        number, (line, expected) = next((i, p) for i, p in enumerate(lines, 1) if p[0] != p[1])
        actual, wish = (_short(x.decode("utf-8", "replace").strip()) for x in (line, expected))
        raise PlanError(
            f"{source}:{number}: featurelib writes this line as {wish}, and the file has other "
            f"spaces, order, keys or escapes: {actual}. {advice}"
        )


def read_plan(text: str | bytes, source: str) -> PlanFile:
    """Return the plan in `text`; messages use the name `source`.

    Raises PlanError unless `write_plan` could have written the text, the plan does not contradict
    itself, and the digest is that of the plan.
    """
    file, parsed = _parsed(text, PlanFile, source, AGAIN)
    assert isinstance(parsed, dict)
    try:
        of_plan = parsed | {"meaning": plain(file.plan)}
        stored, expected = (pretty_json(value, order="sorted") for value in (parsed, of_plan))
    except ValueError as error:  # a lone surrogate in a text cannot be encoded
        raise PlanError(f"{source}: this is not a plan: {error}. {AGAIN}") from error
    _expect_form(stored, expected, source, AGAIN)
    if fault := next(plan_faults(file.plan), None):
        raise PlanError(f"{source}: {fault}. {AGAIN}")
    if file.digest != (actual := digest(file.plan)):
        raise PlanError(
            f"{source}: The plan was changed after it was made: its digest is {actual}, and the "
            f"file has {_short(file.digest)}. {AGAIN}"
        )
    return file


def approve_command(words: str = "PLAN", longest: timedelta = DAY) -> str:
    """Return the command that approves a plan for a day, or for `longest` if shorter. `words`:
    quoted file and options."""
    hours, minutes = longest // timedelta(hours=1), longest // timedelta(minutes=1)
    span = f"{min(24, hours)}h" if hours else f"{minutes}m"
    return f"featurelib approve {words} --expires {span}"


def write_again(plan: str, longest: timedelta = DAY) -> str:
    """Return the remedy for an invalid approval: approve the plan file again."""
    return f"Write the approval again: {approve_command(quote(plan), longest)}"


def read_approval(
    text: bytes | str, source: str, plan: str = "PLAN", longest: timedelta = DAY
) -> ApprovalFile:
    """Return the approval file in `text`, as bytes or decoded unchanged (no newline translated);
    `plan` is its plan's file in commands.

    Raises PlanError for bytes that `write_approval` would not write, ApprovalError for an approval
    that was changed afterwards; both name `source`.
    """
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    advice = write_again(plan, longest)
    file, _ = _parsed(raw, ApprovalFile, source, advice)
    fault = next(_faults(file.approval), "")
    if not fault and file.signature is not None and not _is_armored(file.signature):
        fault = "signature: expected one as ssh-keygen writes it"
    if fault:
        raise PlanError(f"{source}: {fault}. {advice}")
    if file.digest != (expected := digest(file.approval)):
        raise ApprovalError(
            f"{source}: The approval was changed after it was written: its digest is {expected}, "
            f"and the file has {file.digest}. Nothing was sent. {advice}"
        )
    _expect_form(raw, write_approval(file.approval, file.signature), source, advice)
    return file


def approve(
    plan: Plan, *, by: str, at: datetime, expires: timedelta, reason: str | None = None
) -> Approval:
    """Return the approval of a plan, valid from `at` for `expires`. Raises PlanError if name or
    reason is invalid."""
    begin = at.astimezone(UTC).replace(microsecond=0)
    approval = Approval(
        format=APPROVAL,
        version=VERSION,
        plan=digest(plan),
        cluster=plan.cluster,
        approved_by=by,
        approved_at=begin,
        expires_at=begin + expires,
        reason=reason,
    )
    if fault := next(_faults(approval), None):
        raise PlanError(f"approval: {fault}. {write_again('PLAN')}")
    return approval


def expect_approved(
    approval: Approval, plan: Plan, now: datetime, *, longest: timedelta, path: str = "PLAN"
) -> None:
    """Raise ApprovalError unless `approval` is for this plan and valid at `now`. `longest`: the
    longest allowed validity; `path`: the plan's file."""
    fault, advice = "", write_again(path, longest)
    validity, is_early = approval.expires_at - approval.approved_at, approval.approved_at - now
    if approval.plan != digest(plan):
        fault = f"The approval is of another plan than {path}"
        advice = "Use the approval of this plan with --approval FILE, or approve the plan: "
        advice += approve_command(quote(path), longest)
    elif approval.cluster != plan.cluster:
        fault = f"The plan is of cluster {plan.cluster!r}, and the approval of {approval.cluster!r}"
    elif validity > longest:
        fault = f"The approval is for {say_span(validity)}, and {say_span(longest)} are allowed"
        fault += " (longest_approval_hours)"
    elif is_early > SKEW:
        fault = f"The approval was given at {say_time(approval.approved_at)}, {say_span(is_early)} "
        fault += f"after this clock's {say_time(now)}: one of the two clocks is wrong"
    elif approval.expires_at <= now:
        is_expired, end = say_span(now - approval.expires_at), say_time(approval.expires_at)
        fault = f"The approval expired {is_expired} ago, at {end}. It is {say_time(now)} now"
    if fault:
        raise ApprovalError(f"{fault}. Nothing was sent. {advice}")


def say_time(moment: datetime) -> str:
    """Return a time as text `2026-11-21T06:00:00Z`."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def parse_span(text: str) -> timedelta | None:
    """Parse a time span such as 90s, 30m or 2d; None if invalid or 0."""
    match = _SPAN.fullmatch(text)
    return timedelta(**{_UNITS[match[2]]: int(match[1])}) if match and int(match[1]) else None


def expect_span(option: str, text: str) -> timedelta:
    """Parse the time span in an option's value. Raises ConfigError."""
    if (span := parse_span(text)) is None:
        raise ConfigError(f"{option} {text}: This is not a time span. Use 90s, 30m, 24h or 7d.")
    return span


def say_span(span: timedelta) -> str:
    """Return a time span as text with its two largest units, such as `2 days 3 hours`."""
    seconds = int(span.total_seconds())
    parts = []
    for noun, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number:,} {noun}{'' if number == 1 else 's'}")
    return " ".join(parts[:2]) or "0 seconds"


def _faults(approval: Approval) -> Iterator[str]:
    """Yield the faults of an approval: invalid names, reasons and times."""
    for key, longest in (("approved_by", LONGEST_NAME), ("reason", LONGEST_REASON)):
        text: str | None = getattr(approval, key)
        if text is None:
            continue
        if not (0 < len(text) <= longest and text == text.strip() and text.isprintable()):
            yield (
                f"{key}: expected 1 to {longest} printable letters without a blank before or after "
                f"them, found {text!r}"
            )
    for key in ("approved_at", "expires_at"):
        moment = getattr(approval, key)
        if moment.tzinfo != UTC or moment.microsecond:
            yield f"{key}: expected a time as 2026-11-21T06:00:00Z, found {moment.isoformat()}"
    begin, end = approval.approved_at, approval.expires_at
    if end <= begin:
        yield f"expires_at: expected a time after {say_time(begin)}, found {say_time(end)}"


def _is_armored(signature: str) -> bool:
    """Return true if a signature has the form that ssh-keygen writes."""
    body = signature.removeprefix(_FIRST).removesuffix(_LAST).replace("\n", "")
    try:
        encoded = base64.b64encode(base64.b64decode(body, validate=True)).decode()
    except (binascii.Error, ValueError):
        return False
    lines = [encoded[i : i + _LINE] for i in range(0, len(encoded), _LINE)]
    return signature == _FIRST + "\n".join(lines) + _LAST


def file_name(title: str, cluster: str = "", *, plain: bool = True, of: str = "cluster") -> str:
    """Return a safe file name for a cluster's title: `<title>.json` if that is safe anywhere.

    Otherwise, and if another cluster's title differs only in case (`plain` False), the name is
    `cluster-…-<hash>.json` with the hash of its id `cluster` ("" if the title is the id). No title
    has this form itself. `of`: the kind of the named thing, also an owner or a view.
    """
    if plain and _PLAIN.fullmatch(title) and not _RESERVED.fullmatch(title):
        return f"{title}.json"
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", title)[:_LONGEST_FILE_NAME]
    mark = hashlib.sha256((cluster or title).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{of}-{safe}-{mark}.json"


def file_names(
    clusters: Iterable[str], titles: Mapping[str, str] | None = None, of: str = "cluster"
) -> list[str]:
    """Return a distinct file name per cluster, made from `titles` (by id). Upper and lower case
    count as equal."""
    called = {cluster: (titles or {}).get(cluster) or cluster for cluster in clusters}
    counts = Counter(title.casefold() for title in called.values())
    return [
        file_name(title, cluster, plain=counts[title.casefold()] == 1, of=of)
        for cluster, title in called.items()
    ]
