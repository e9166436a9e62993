"""Write, sign and withdraw approvals of a plan."""

from __future__ import annotations

import getpass
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

import msgspec

from featurelib.api.act import expect_finalized_by_us, known_entry, read_plan
from featurelib.api.clusters import NOBODY, Approved, Person, plan_ways
from featurelib.api.documents import ApproveDocument, ApprovedUpdateDocument, WithdrawalDocument
from featurelib.api.plans import PlanAnswer
from featurelib.catalogue import Catalogue
from featurelib.config.files import (
    journal_path,
    open_catalogue,
    open_settings,
    read_bytes,
    read_limited,
    write_whole,
)
from featurelib.controller.holder import myself, say_seconds
from featurelib.controller.journal import Journal, Withdrawal
from featurelib.controller.signing import check_approval, sign, why_signed
from featurelib.core.downgrade import loss_of
from featurelib.errors import ApprovalError, ConfigError, InputError, RefusedError
from featurelib.model import Plan
from featurelib.planning import files
from featurelib.planning.files import ApprovalFile
from featurelib.source import Wanted
from featurelib.view.documents import fill
from featurelib.view.layout import Page
from featurelib.view.plan import approval_page
from featurelib.words import clean

UNREACHED = "      (add --bootstrap, --zookeeper or --file: no inventory reaches it)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """The key that signs an approval: an SSH key file or ssh-agent; neither = no signature."""

    key: str | None = None
    agent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalFiles:
    """The paths of the files that `approve` uses: inventory, settings, journal, overlay, and the
    approval file to write."""

    fleet: str | None = None
    config: str | None = None
    journal: str | None = None
    overlay: str | None = None
    out: str | None = None


def approve(
    plan: PlanAnswer | str,
    expires: str | None = None,
    *,
    by: str | None = None,
    reason: str | None = None,
    withdraw: bool = False,
    signer: Signer = Signer(),
    given: ApprovalFiles = ApprovalFiles(),
    person: Person = NOBODY,
) -> Approved:
    """Approve a plan until it expires.

    It shows each step, downgrades, deletions and the point of no return. The approval is a file
    next to the plan. It contains the plan's digest, so it is not valid for a changed plan.

    \b
        featurelib approve payments.json --expires 24h --reason CHG-17
        featurelib approve payments.json --expires 2h --key ~/.ssh/id_ed25519 --by ann@example.com
        featurelib approve payments.json --withdraw --reason CHG-18

    conf/audit.toml has the required signers. --withdraw withdraws the approval: its file is
    deleted, and `apply` with this journal rejects every copy of it. In Python: approve(plan, "1h",
    reason="CHG-17"). Exit codes: 0 done, 2 usage, 3 refused, nothing written.
    """
    path = plan if isinstance(plan, str) else None
    target = given.out or (path and str(Path(path).with_suffix(".approval.json"))) or ""
    if withdraw:
        return _withdraw(target, reason, given.journal)
    if expires is None:
        raise ConfigError("--expires is missing. Add --expires 24h, or --withdraw.")
    span, settings = files.expect_span("--expires", expires), open_settings(given.config)
    catalogue, file = open_catalogue(given.overlay), read_plan(plan)
    expect_finalized_by_us(file.plan, given.fleet, catalogue, given.config)
    now = datetime.now(UTC)
    try:
        name = by or getpass.getuser()
    except (KeyError, OSError) as error:
        raise ConfigError("This login has no name. Name the approver: --by NAME.") from error
    approval = files.approve(file.plan, by=name, at=now, expires=span, reason=reason)
    # Check what `apply` checks before the person is asked.
    most = settings.longest_approval
    files.expect_approved(approval, file.plan, now, longest=most, path=path or "PLAN")
    is_signed = signer.agent or signer.key is not None
    if (demand := why_signed(file, settings)) and not is_signed:
        raise ApprovalError(
            f"The approval needs a signature ({demand}). Nothing was written. Add --key FILE."
        )
    entry = known_entry(file.plan.cluster, given.fleet, catalogue)
    page = approval_page(file, approval, entry, catalogue)
    page.lines(_replaced(target))
    person.show(page)
    person.confirm(f"Approve this plan for {files.say_span(span)}?")
    signature, text = None, files.canonical(approval)
    if is_signed:
        signature = sign(text, signer.key, agent=signer.agent, terminal=person.at_terminal)
    file_text = files.write_approval(approval, signature)
    check_approval(file, file_text, now, settings=settings, source=target)
    if target:
        write_whole(target, file_text)
    own = "" if entry.is_reachable else plan_ways(file, entry)
    options = Wanted(fleet=given.fleet, config=given.config, overlay=given.overlay).of_files + own
    options += f" --journal {quote(given.journal)}" if given.journal else ""
    command = f"featurelib apply {quote(path or 'PLAN')} --approval {quote(target)}{options}"
    lines = [f"written: {target} ({'signed' if signature else 'not signed'})", f"next: {command}"]
    lines += [UNREACHED] * (not (own or entry.is_reachable))
    keys = {"file": target, "signed": signature is not None, "next": command}
    updates = _updates(file.plan, catalogue)
    document = fill(ApproveDocument, approval=approval, updates=updates, **keys)
    return _approved(files.read_approval(file_text, target), file_text, lines, document)


def _approved(
    file: ApprovalFile, content: bytes, lines: Iterable[str], document: ApproveDocument
) -> Approved:
    row = msgspec.to_builtins(file.approval)
    return Approved(
        value=file,
        make_rows=lambda: [row],
        make_document=lambda: document,
        page=lambda width: Page(width, lines=lines),
        content=content,
    )


def _updates(plan: Plan, catalogue: Catalogue) -> list[ApprovedUpdateDocument]:
    """Return each update of a plan as a JSON document, with its losses in a downgrade."""
    return [
        fill(ApprovedUpdateDocument, loss_of(move, plan, catalogue), step=i, **asdict(move))
        for i, step in enumerate(plan.steps, 1)
        for move in step.updates
    ]


def _withdraw(target: str, reason: str | None, journal: str | None) -> Approved:
    """Withdraw the approval in a file: the journal records the withdrawal, and the file is deleted.
    With another journal, a copy of the file stays valid until it expires. Raises ConfigError (no
    file, or it cannot be deleted), PlanError, ApprovalError, JournalError."""
    warning = "One whose file is gone cannot be taken back: a copy holds until it expires."
    file = files.read_approval(read_bytes(target, "the approval", warning), target)
    approval, path = file.approval, journal_path(journal)
    withdrawal = Withdrawal(
        approval=files.digest(approval),
        plan=approval.plan,
        cluster=approval.cluster,
        approved_by=approval.approved_by,
        who=myself("featurelib approve --withdraw"),
        at=datetime.now(UTC).timestamp(),
        reason=reason or "",
    )
    with closing(Journal(path)) as opened:
        opened.withdraw(withdrawal)
        entries = opened.entries(plan=approval.plan, only_open=True)
    try:
        Path(target).unlink()
    except OSError as error:
        raise ConfigError(
            f"featurelib withdrew the approval in the journal {path}, but could not delete "
            f"{target}: {error.strerror}. Delete the file: with another journal the approval is "
            "valid until it expires."
        ) from error
    lines = [
        f"deleted: {target}, the approval by {approval.approved_by}: {withdrawal.text}",
        f"{path}: apply with this journal refuses every copy of it",
        f"with another journal a copy would hold until {files.say_time(approval.expires_at)}",
    ]
    if any(entry.intent.approval == withdrawal.approval for entry in entries):
        warning = f"featurelib resume {quote(approval.cluster)}"
        warning += f" --journal {quote(journal)}" if journal else ""
        lines.append(f"a request of this approval may be sent already. Find out: {warning}")
    keys = {"file": target, "signed": file.signature is not None}
    taken = withdrawal_document(withdrawal)
    document = fill(ApproveDocument, approval=approval, withdrawn=taken, **keys)
    return _approved(file, b"", lines, document)


def withdrawal_document(withdrawal: Withdrawal) -> WithdrawalDocument:
    """Return a withdrawal as a JSON document."""
    holder, at = withdrawal.who, say_seconds(withdrawal.at)
    return fill(WithdrawalDocument, withdrawal, at=at, user=holder.user, host=holder.host)


def _replaced(target: str) -> list[str]:
    """Return a line that names the approval file to be replaced; [] if there is no file. Raises
    ConfigError if the file is no approval."""
    if not target:
        return []
    try:
        before = files.read_approval(read_limited(Path(target)), target).approval
    except FileNotFoundError:
        if not (folder := Path(target).parent).is_dir():
            raise ConfigError(f"--out {target}: The folder {folder} does not exist.") from None
    except (OSError, InputError, RefusedError) as error:
        raise ConfigError(
            f"--out {target}: This file is not an approval, so featurelib does not replace it. "
            "Choose another file with --out FILE."
        ) from error
    else:
        until = files.say_time(before.expires_at)
        author = clean(before.approved_by)
        return [f"{target}: it replaces the approval by {author}, until {until}"]
    return []
