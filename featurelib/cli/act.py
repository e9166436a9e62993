"""The commands that approve a plan and carry it out, and those that look after what was sent:
approve and apply.

Each reads its words, calls the function of featurelib.api, and prints the answer. What is asked
goes to standard error where standard output is for JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import join, quote

from featurelib.api import act
from featurelib.api.documents import ApproveDocument, ApprovedUpdateDocument
from featurelib.catalogue import Catalogue
from featurelib.cli.choosing import chosen, typed
from featurelib.cli.entrance import say
from featurelib.cli.options import at_terminal, confirm
from featurelib.cli.streams import INTERRUPTED, raising_at_interrupt
from featurelib.config.files import (
    journal_path,
    open_catalogue,
    open_settings,
    read_limited,
    write_whole,
)
from featurelib.config.fleet import FleetEntry
from featurelib.controller.apply import Applying, Mode
from featurelib.controller.signing import check_approval, sign, why_signed
from featurelib.core.downgrade import loss_of
from featurelib.errors import (
    ApprovalError,
    ConfigError,
    InputError,
    RefusedError,
    UnreachableError,
)
from featurelib.model import Plan
from featurelib.planning import files
from featurelib.planning.files import PlanFile, say_span
from featurelib.source import WAYS, Wanted
from featurelib.view.documents import as_json as to_json
from featurelib.view.documents import fill
from featurelib.view.outcome import danger_page, named, order_page
from featurelib.view.plan import approval_page
from featurelib.words import clean

UNREACHED = "\n      (add --bootstrap, --zookeeper or --file: no inventory reaches it)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approving:
    """The options of an approval: until when it holds, by whom and why, and what signs it."""

    expires: str | None = None
    withdraw: bool = False
    key: str | None = None
    agent: bool = False
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files that an approval depends on."""

    fleet: str | None = None
    config: str | None = None
    journal: str | None = None
    overlay: str | None = None


def approve(
    plan: str,
    how: Approving,
    out: str | None = None,
    yes: bool = False,
    *,
    given: Files,
    as_json: bool = False,
) -> int:
    """Approve a plan, until a time.

    It shows each step, what goes down, what is deleted, and from where on there is no way back.
    The approval, a file beside the plan, names the plan's digest: of a plan that is changed
    afterwards it is none.

    \b
        featurelib approve payments.json --expires 24h --reason CHG-17
        featurelib approve payments.json --expires 2h --key ~/.ssh/id_ed25519 --by ann@example.com
        featurelib approve payments.json --withdraw --reason CHG-18

    Whether a signature is needed, and whose counts, conf/audit.toml says. --withdraw takes the
    approval back: its file is deleted, and from the next request on `apply` with this journal
    refuses every copy of it. Exit codes: 0 done, 2 usage, 3 refused, nothing written.
    """
    target = Path(plan).with_suffix(".approval.json") if out is None else Path(out)
    fleet, config, key = given.fleet, given.config, how.key
    if how.withdraw:
        return _withdraw(target, how.reason, given.journal, as_json=as_json)
    if how.expires is None:
        raise ConfigError("expected --expires TIME or --withdraw, found neither. As --expires 24h.")
    span, settings = files.expect_span("--expires", how.expires), open_settings(config)
    catalogue, file = open_catalogue(given.overlay, say), act.read_plan(plan)
    act.expect_finalized_by_us(file.plan, fleet, catalogue, config)
    approval = act.make_approval(file, span, by=how.by, reason=how.reason)
    now = datetime.now(UTC)  # what `apply` would refuse is told before anybody is asked
    files.expect_approved(approval, file.plan, now, longest=settings.longest_approval, path=plan)
    if (demand := why_signed(file, settings)) and not how.agent and key is None:
        raise ApprovalError(
            f"expected a signature ({demand}), found none. Nothing was written. Add --key FILE."
        )
    entry = act.known_entry(file.plan.cluster, fleet, catalogue)
    page = f"{approval_page(file, approval, entry, catalogue)}{_replaced(target)}"
    (say if as_json else print)(page)
    confirm(f"Approve this plan for {say_span(span)}?", yes=yes)
    signature = None
    if how.agent or key is not None:
        signature = sign(files.canonical(approval), key, agent=how.agent, terminal=at_terminal())
    written = files.write_approval(approval, signature)
    check_approval(file, written, now, settings=settings, source=str(target))
    write_whole(str(target), written)
    own = "" if entry.is_reachable else _plan_ways(file, entry)
    ways = Wanted(fleet=fleet, config=config).ways[0] + own
    ways += f" --journal {quote(given.journal)}" if given.journal else ""
    command = f"featurelib apply {quote(plan)} --approval {quote(str(target))}{ways}"
    if as_json:
        keys = {"file": str(target), "signed": signature is not None, "next": command}
        updates = _approved(file.plan, catalogue)
        print(to_json(fill(ApproveDocument, approval=approval, updates=updates, **keys)))
        return 0
    add = "" if own or entry.is_reachable else UNREACHED
    print(f"written: {target} ({'signed' if signature else 'not signed'})\nnext: {command}{add}")
    return 0


def _plan_ways(file: PlanFile, entry: FleetEntry) -> str:
    """Return the options that reach the plan's cluster where the plan was made. Nobody vouches for
    them, so there are none for a cluster that secrets are sent to."""
    known = {} if entry.is_secured else file.for_people.addresses
    own = {n: known[n] for n in WAYS if n in known and clean(known[n], 1000) == known[n]}
    return "".join(f" --{name} {quote(value)}" for name, value in own.items())


def _made_at(file: PlanFile, entry: FleetEntry) -> str:
    """Return the command typed, as it reaches the cluster where its plan was made; "" = it does, or
    that is not known."""
    words, kept, ways = iter(sys.argv[1:]), list[str](), _plan_ways(file, entry)
    for word in words:
        if word.removeprefix("--").partition("=")[0] not in WAYS:
            kept.append(word)
        elif "=" not in word:
            next(words, None)
    again = f"featurelib {join(kept)}{ways}"
    return f"The plan was made at:\n  {again}" if ways and again != typed() else ""


def _approved(plan: Plan, catalogue: Catalogue) -> list[ApprovedUpdateDocument]:
    """Each update of a plan that is approved, and what cannot be taken back of it."""
    return [
        fill(ApprovedUpdateDocument, loss_of(move, plan, catalogue), step=i, **asdict(move))
        for i, step in enumerate(plan.steps, 1)
        for move in step.updates
    ]


def _withdraw(file: Path, reason: str | None, journal: str | None, *, as_json: bool) -> int:
    """Take an approval back, and say what that does not reach."""
    given, withdrawal = act.withdraw(str(file), reason=reason, journal=journal)
    if as_json:
        document = fill(
            ApproveDocument, approval=given.approval, file=str(file),
            signed=given.signature is not None, withdrawn=act.withdrawal_document(withdrawal),
        )  # fmt: skip
        print(to_json(document))
        return 0
    until = files.say_time(given.approval.expires_at)
    print(f"deleted: {file}, the approval by {given.approval.approved_by}: {withdrawal.text}")
    print(f"{journal_path(journal)}: apply with this journal refuses every copy of it")
    print(f"with another journal a copy would hold until {until}")
    return 0


def _replaced(target: Path) -> str:
    """A line about the approval that another replaces there; never over a file that is none."""
    try:
        before = files.read_approval(read_limited(target), str(target)).approval
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise ConfigError(f"--out {target}: expected a folder {target.parent}.") from None
    except (OSError, InputError, RefusedError) as error:
        raise ConfigError(
            f"--out {target}: expected no file there, or an approval to replace; found another. "
            "Name another with --out FILE."
        ) from error
    else:
        until = files.say_time(before.expires_at)
        author = clean(before.approved_by)
        return f"\n{target}: it replaces the approval by {author}, until {until}"
    return ""


def apply(
    plan: str,
    approval: str | None = None,
    *,
    how: Applying,
    yes: bool = False,
    wanted: Wanted,
    overlay: str | None = None,
    as_json: bool = False,
) -> int:
    """Carry out an approved plan on its cluster.

    The cluster is the plan's, as the inventory reaches it, unless addresses are given. It is looked
    at again first: if anything is not as the plan saw it, nothing is sent. Then one request a step
    goes to the controller, and each is looked after until every node reports it. --dry-run and
    --validate-only write nothing and need no approval.

    \b
        featurelib apply payments.json
        featurelib apply payments.json --dry-run --bootstrap kafka-1:9092

    Exit codes: 0 applied, or nothing to do; 1 stopped part of the way, or not every node reports
    it; 2 usage; 3 refused, nothing written; 4 outcome unknown, run featurelib resume; 5 could not
    look.
    """
    mode, file = how.mode, act.read_plan(plan)
    beside = Path(plan).with_suffix(".approval.json")
    if mode is Mode.SEND and approval is None and beside.is_file():
        approval = str(beside)
    if approval is None and mode is Mode.SEND:
        words = quote(plan) + Wanted(fleet=wanted.fleet, config=wanted.config).ways[0]
        again = files.approve_command(words, open_settings(wanted.config).longest_approval)
        raise ConfigError(f"expected --approval FILE, found none. Write one: {again}")
    if not wanted.addresses:
        wanted = replace(wanted, cluster=file.plan.cluster)
    cluster, shows = chosen(wanted, overlay), say if as_json else print
    entry = act.known_entry(file.plan.cluster, wanted.fleet, cluster.catalogue)
    made_at = _made_at(file, entry)
    if not (wanted.addresses or entry.is_reachable):
        name = named(entry.id, entry.name or file.for_people.name)
        way = made_at or "Add its address: --bootstrap HOST:PORT."
        raise ConfigError(f"{plan}: no inventory has an address of cluster {name}. {way}")

    def ask(name: str, rules: Sequence[tuple[str, str]]) -> None:
        """Print what would be done, and ask; or print the rules if nothing is written."""
        known, address = cluster.catalogue, cluster.reached().entry.address
        if mode is Mode.SEND:
            shows(str(order_page(file, name, rules, known, address)))
            confirm(f"Apply this plan to cluster {name}?", yes=yes)
        else:
            for rule, value in rules:
                say(f"{rule}: {value}")
            if text := str(danger_page(file.plan, known, address)):
                shows(text)
        held.enter_context(raising_at_interrupt())

    try:
        with ExitStack() as held:
            carried = act.carry_out(
                file, cluster, how, approval=approval, path=plan, command=typed(), ask=ask
            )
    except UnreachableError as error:
        error.args = (f"{error} {made_at}".rstrip(),)
        raise
    except KeyboardInterrupt:
        say("error: interrupted; nothing was sent by this run")
        return INTERRUPTED
    output = carried.page(None) if sys.stdout.isatty() else carried.text
    print(carried.json() if as_json else output)
    return carried.ending.kind.exit_code
