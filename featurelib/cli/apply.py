"""`featurelib apply`: carries out one approved plan on one cluster, and says what is true then.

What is read of the plan is what its digest covers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from shlex import join, quote
from typing import Annotated

import typer

from featurelib.backends.opening import TIMEOUT_SECONDS
from featurelib.catalogue import Catalogue
from featurelib.cli.applying import Shown
from featurelib.cli.catalogue import Json, OverlayFile, open_catalogue
from featurelib.cli.entrance import say
from featurelib.cli.interrupt import INTERRUPTED, raising_at_interrupt
from featurelib.cli.journal import JournalFile, journal_path
from featurelib.cli.reach import (
    Bootstrap,
    Controllers,
    EmbeddedFile,
    FleetFile,
    Reached,
    Timeout,
    Zookeeper,
    reach,
)
from featurelib.cli.settings import ConfigFile, find_settings
from featurelib.configuration.settings import Settings
from featurelib.controller.applying import Mode, Order, apply
from featurelib.controller.commands import way_of
from featurelib.controller.ending_words import sentence
from featurelib.controller.looking import Watcher
from featurelib.controller.owners import expect_plan_ours
from featurelib.controller.sending import NODES_SECONDS, Waits
from featurelib.core.ending import Ending
from featurelib.errors import ApprovalError, ConfigError, FeatureLibError, PlanError
from featurelib.journal.journal import Clearance, Journal
from featurelib.planning import files
from featurelib.planning.files import PlanFile, read_approval

PlanPath = Annotated[str, typer.Argument(metavar="PLAN", help="The plan file.")]
ApprovalFile = Annotated[
    str | None,
    typer.Option("--approval", metavar="FILE", help="What featurelib approve wrote for this plan."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Look and judge; send nothing at all.")]
ValidateOnly = Annotated[
    bool,
    typer.Option(
        "--validate-only", help="Let the controller judge too, where it then writes nothing."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        min=0,
        max=3600,
        help="How long nodes may take to report a level after a step.",
    ),
]


def apply_command(
    plan: PlanPath,
    approval: ApprovalFile = None,
    dry_run: DryRun = False,
    validate_only: ValidateOnly = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    controllers: Controllers = None,
    zookeeper: Zookeeper = None,
    file: EmbeddedFile = None,
    fleet: FleetFile = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    wait: Wait = NODES_SECONDS,
    journal: JournalFile = None,
    config: ConfigFile = None,
    overlay: OverlayFile = None,
    as_json: Json = False,
) -> int:
    """Carry out an approved plan on its cluster.

    The cluster is the plan's, as the inventory reaches it, unless addresses are given. It is looked
    at again first: if anything is not as the plan saw it, nothing is sent. Then one request a step
    goes to the controller, and each is looked after until every node reports it. --dry-run and
    --validate-only write nothing and need no approval.

    \b
        featurelib apply payments.json --approval payments.approval.json
        featurelib apply payments.json --dry-run --bootstrap kafka-1:9092

    Exit codes: 0 applied, or nothing to do; 1 stopped part of the way, or not every node reports
    it; 2 usage; 3 refused, nothing written; 4 outcome unknown, run featurelib resume; 5 could not
    look.
    """
    mode = _mode(dry_run=dry_run, validate_only=validate_only)
    (settings, ruled), catalogue = find_settings(config), open_catalogue(overlay)
    made = files.read_plan(_read(plan, "a plan file"), plan)
    ways = {"bootstrap": bootstrap, "controllers": controllers, "zookeeper": zookeeper}
    cluster = None if any((*ways.values(), file)) else made.plan.cluster
    reached = reach(cluster, catalogue, fleet=fleet, file=file, timeout=timeout, **ways)
    order = Order(
        plan=made.plan,
        check_approval=_checker(made, plan, approval, settings, mode),
        mode=mode,
        command=join(["featurelib", *sys.argv[1:]]),
        way=way_of(made.plan.cluster, ways, file=file, fleet=fleet, journal=journal),
        waits=Waits(nodes=wait),
        name=reached.entry_of(made.plan.cluster).name,
        settings=ruled,
    )
    shown = Shown(made=made, reached=reached, as_json=as_json, settings=ruled)
    try:
        _show(shown, order, yes=yes)
        with raising_at_interrupt():
            ending = _carry_out(order, reached, settings, journal_path(journal))
    except FeatureLibError as error:
        shown.refused(error)
        raise
    except KeyboardInterrupt:
        say("error: interrupted; nothing was sent by this run")
        return INTERRUPTED
    shown.ended(ending, _sentence(ending, order, catalogue, shown.name))
    return ending.exit_code


def _sentence(ending: Ending, order: Order, catalogue: Catalogue, name: str) -> str:
    """What is true now, and the commands that go on from here."""
    way = order.way
    return sentence(
        ending, catalogue, name=name, resume=way.resume, again=order.command, plan=way.plan
    )


def _show(shown: Shown, order: Order, *, yes: bool) -> None:
    """Check what needs no look at the cluster, then show what would be done, and ask."""
    expect_plan_ours(order.plan, shown.reached.fleet, shown.reached.catalogue)
    shown.clearance = order.check_approval(datetime.now(UTC))
    if order.mode is Mode.SEND:
        shown.ask(yes=yes)
    else:
        shown.warn()


def _mode(*, dry_run: bool, validate_only: bool) -> Mode:
    if dry_run and validate_only:
        raise ConfigError("expected --dry-run or --validate-only, found both. Leave one out.")
    return Mode.REHEARSE if dry_run else Mode.VALIDATE if validate_only else Mode.SEND


def _read(path: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: expected {what}, found: {error.strerror}.") from error


def _checker(
    made: PlanFile, path: str, approval: str | None, settings: Settings, mode: Mode
) -> Callable[[datetime], Clearance]:
    """What says whether the plan is approved, as of a time. Only what sends needs an approval."""
    again = f"featurelib approve {quote(path)} --expires 24h"
    if approval is None:
        if mode is Mode.SEND:
            raise ConfigError(f"expected --approval FILE, found none. Write one: {again}")
        return lambda now: Clearance(approval="")
    from featurelib.signing import checker

    text = _read(approval, "an approval")
    check = checker(made, text, settings=settings, where=approval)

    def check_by_name(now: datetime) -> Clearance:
        try:
            return check(now)
        except (ApprovalError, PlanError) as error:
            if _is_of_another(text, approval, made):
                raise ApprovalError(
                    f"{approval}: expected an approval of the plan {path}, found one of another "
                    f"plan. Nothing was sent. Give the one of this plan with --approval FILE, or "
                    f"write it: {again}"
                ) from error
            said = str(error).replace(
                "featurelib approve PLAN", f"featurelib approve {quote(path)}"
            )
            raise type(error)(said) from error

    return check_by_name


def _is_of_another(text: bytes, where: str, made: PlanFile) -> bool:
    """Whether it is a whole approval, of another plan."""
    try:
        return read_approval(text, where).approval.plan != made.digest
    except FeatureLibError:
        return False


def _carry_out(order: Order, reached: Reached, settings: Settings, path: Path) -> Ending:
    opened = Journal(path)
    try:
        backend = reached.open()
        try:
            watcher = Watcher(
                backend=backend,
                catalogue=reached.catalogue,
                fleet=reached.fleet,
                max_age=settings.max_age,
                say=say,
            )
            return apply(order, watcher, opened)
        finally:
            backend.close()
    finally:
        opened.close()
