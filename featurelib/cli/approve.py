"""`featurelib approve`: shows what a plan does, and writes down who lets it be applied until when.

What is written was checked as `featurelib apply` will check it.
"""

from __future__ import annotations

import getpass
import os
import re
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote

from featurelib.api.documents import ApproveDocument, ApprovedUpdateDocument, ShowDocument
from featurelib.catalogue import Catalogue
from featurelib.cli.entrance import say
from featurelib.cli.options import at_terminal, confirm
from featurelib.config.catalogue import open_catalogue
from featurelib.config.files import open_settings
from featurelib.config.settings import Settings
from featurelib.controller.signing import agent_key, check_approval, sign, why_signed
from featurelib.errors import ApprovalError, ConfigError, InputError, PlanError, RefusedError
from featurelib.planning import files
from featurelib.planning.files import Approval, PlanFile, plain, say_span
from featurelib.planning.outlook import look_ahead
from featurelib.source import open_fleet
from featurelib.view.documents import as_json as to_json
from featurelib.view.documents import fill
from featurelib.view.plan import approval_page, contradictions, plan_page, updates_of

SPAN = re.compile("([0-9]{1,5})([mhd])")
UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def approve(
    plan: str,
    expires: str,
    key: str | None = None,
    agent: bool = False,
    by: str | None = None,
    reason: str | None = None,
    out: str | None = None,
    yes: bool = False,
    fleet: str | None = None,
    config: str | None = None,
    overlay: str | None = None,
    as_json: bool = False,
) -> int:
    """Let a plan be applied, until a time.

    The approval is a file beside the plan.

    It shows each step, what goes down, what is deleted, and from where on there is no way back.
    The approval names the plan's digest: of a plan that is changed afterwards it is none.

    \b
        featurelib approve payments.json --expires 24h --reason CHG-17
        featurelib approve payments.json --expires 2h --key ~/.ssh/id_ed25519 --by ann@example.com

    Whether a signature is needed, and whose counts, conf/audit.toml says. Exit codes: 0 done,
    2 usage, 3 refused, nothing written.
    """
    span = _parse_span(expires)
    settings, catalogue = open_settings(config), open_catalogue(overlay, say)
    text = _read(plan)
    file = files.read_plan(text, plan)
    target = _choose_out(plan, out)
    now = datetime.now(UTC)
    _expect_allowed(span, settings, signed=agent or key is not None, why=why_signed(file, settings))
    approval = files.approve(file.plan, by=by or _login_name(), at=now, expires=span, reason=reason)
    show: Callable[[str], None] = say if as_json else print
    name = known_name(file.plan.cluster, fleet, catalogue)
    show(str(approval_page(file, approval, name, catalogue)))
    confirm(f"Approve this plan for {say_span(span)}?", yes=yes)
    signature = _sign(approval, key, agent=agent)
    written = files.write_approval(approval, signature)
    check_approval(file, written, now=now, settings=settings, where=str(target))
    _write(target, written)
    command = f"featurelib apply {quote(plan)} --approval {quote(str(target))}"
    if as_json:
        document = fill(
            ApproveDocument,
            approval=approval,
            updates=[
                fill(ApprovedUpdateDocument, **row) for row in updates_of(file.plan, catalogue)
            ],
            file=str(target),
            signed=signature is not None,
            next=command,
        )
        print(to_json(document))
        return 0
    print(f"written: {target} ({'signed' if signature else 'not signed'})")
    print(f"next: {command}")
    print("      (add --bootstrap, --zookeeper or --file where no inventory reaches it)")
    return 0


def _parse_span(text: str) -> timedelta:
    match = SPAN.fullmatch(text)
    if match is None or not int(match[1]):
        raise ConfigError(f"--expires {text}: expected a time as 30m, 24h or 2d, found none such.")
    return int(match[1]) * UNITS[match[2]]


def _read(plan: str) -> bytes:
    try:
        return Path(plan).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{plan}: expected a plan file, found: {error.strerror}. Make one: featurelib plan "
            "CLUSTER upgrade-all --out FILE"
        ) from error


def _choose_out(plan: str, out: str | None) -> Path:
    """Where the approval goes; never over a file that is none."""
    target = Path(out) if out is not None else Path(plan).with_suffix(".approval.json")
    try:
        files.read_approval(target.read_bytes(), str(target))
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise ConfigError(f"--out {target}: expected a folder {target.parent}.") from None
    except (OSError, InputError, RefusedError) as error:
        raise ConfigError(
            f"--out {target}: expected no file there, or an approval to replace; found another. "
            "Name another with --out FILE."
        ) from error
    return target


def _expect_allowed(span: timedelta, settings: Settings, *, signed: bool, why: str) -> None:
    """What `featurelib apply` would refuse is told before anybody is asked; `why` a signature has
    to be there, if it has."""
    if span > timedelta(hours=settings.longest_approval_hours):
        raise ApprovalError(
            f"--expires: expected at most {settings.longest_approval_hours:g} hours "
            f"(longest_approval_hours in conf/audit.toml), found {say_span(span)}. "
            "Nothing was written."
        )
    if why and not signed:
        raise ApprovalError(
            f"expected a signature ({why}), found neither --key nor --agent. Nothing was written. "
            "Name a key with --key FILE."
        )


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise ConfigError("--by: expected a name, since this login has none. Add --by.") from error


def _sign(approval: Approval, key: str | None, *, agent: bool) -> str | None:
    if key is None and not agent:
        return None
    terminal = at_terminal()
    message = files.canonical(approval)
    if key is not None:
        return sign(message, key, agent=agent, terminal=terminal)
    with tempfile.NamedTemporaryFile("w", prefix="featurelib-", suffix=".pub") as public:
        public.write(agent_key())
        public.flush()
        return sign(message, public.name, agent=True, terminal=terminal)


def _write(target: Path, text: bytes) -> None:
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        part.write_bytes(text)
        part.replace(target)  # whole or not at all
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ConfigError(
            f"{target}: cannot be written ({error.strerror}). Name another with --out FILE."
        ) from error


# `featurelib show`: what a plan would do, for the person who has to approve it.
#
# Shown is what the digest covers, worked out anew; a file that was tampered with is refused.


def show(
    plan: str, fleet: str | None = None, overlay: str | None = None, as_json: bool = False
) -> int:
    """What a plan would do, request by request.

    What each brings, and whether there is a way back:

    \b
        featurelib show plans/payments-eu.json
        featurelib show plans/payments-eu.json --json

    Shown are each level with its name, what it brings and unlocks, how far metadata.version can be
    lowered again afterwards, which releases may join, and what has to be found again before
    `featurelib apply` sends anything. A plan that was changed after it was made is refused; what
    the digest does not cover stands apart, and the cluster's name is the inventory's. Nothing is
    sent. Exit codes: 0 done, 2 usage, or no plan.
    """
    found = read_plan(plan)
    catalogue = open_catalogue(overlay, say)
    name = known_name(found.plan.cluster, fleet, catalogue)
    if as_json:
        print(to_json(_document(found, name, catalogue)))
    else:
        print(plan_page(found, plan, name, catalogue))
    return 0


def read_plan(path: str) -> PlanFile:
    """The plan in a file. Raises PlanError for a file that cannot be read, or is no plan."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise PlanError(
            f"{path}: expected a plan file, found: {error.strerror}. `featurelib plan` writes one."
        ) from error
    return files.read_plan(content, path)


def known_name(cluster: str, fleet: str | None, catalogue: Catalogue) -> str:
    """What the inventory calls the cluster; empty where it does not list it. Raises ConfigError."""
    _, inventory = open_fleet(fleet, catalogue)
    return next((entry.name for entry in inventory.cluster if entry.id == cluster), "")


def _document(found: PlanFile, name: str, catalogue: Catalogue) -> ShowDocument:
    return fill(
        ShowDocument,
        found,
        name=name or None,
        catalogue=catalogue.label,
        plan=plain(found.plan),
        outlook=look_ahead(found.plan, catalogue),
        contradictions=[*contradictions(found, name, catalogue)],
    )
