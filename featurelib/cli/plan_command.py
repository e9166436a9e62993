"""What every command of `featurelib plan` has: the cluster before it, and its options after it.

A command itself only says what is wanted; where the evidence comes from, and what is done with the
plan, is here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from featurelib.catalogue import Catalogue
from featurelib.cli.catalogue import Json, OverlayFile, open_catalogue
from featurelib.cli.common import EVIDENCE, options_of, with_options
from featurelib.cli.entrance import guard, say
from featurelib.cli.plan_output import Output, put_out
from featurelib.cli.plan_source import Source, Wanted, find_source, live_source
from featurelib.cli.settings import open_settings
from featurelib.core.intents import Command, Intent
from featurelib.planning.asking import Asking, plan_by_asking
from featurelib.planning.planner import Planned, make_plan
from featurelib.sight import Sight, see_row

PLAN_HELP = """A plan for one cluster, or why there is none.

\b
    featurelib plan payments-eu upgrade-all
    featurelib plan payments-eu downgrade --release-version 4.0
    featurelib plan upgrade --capture FOLDER --as-of newest
    featurelib plan payments-eu upgrade-all --tables TABLES

CLUSTER is an id or name of the inventory, conf/fleet.toml. Without it, say how it is reached
(--bootstrap, --zookeeper, --file), or name landing files of one cluster (--capture). Options come
after the command: `featurelib plan upgrade --help` lists them.

A plan says what would be sent, and what must still hold when it is. Look at it with `featurelib
show`, approve it with `featurelib approve`, apply it with `featurelib apply`. Nothing is written to
a cluster here, and nothing sent to one but what --probe asks.
Exit codes: 0 the plan is written, or nothing is to do; 2 usage; 3 refused, nothing is written;
5 the cluster could not be looked at."""


class _PlanGroup(TyperGroup):
    """A group whose commands may have the cluster in front of them."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["COMMAND", "[OPTIONS]"]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.info_name = f"{ctx.info_name} [CLUSTER]"
        commands = self.commands
        is_cluster = bool(args) and not args[0].startswith("-")
        if is_cluster and args[0] in commands:  # unless a cluster is called like a command
            is_cluster = args[1:2] != [] and args[1] in commands
        if is_cluster:
            ctx.obj = args[0]
            args = args[1:] or ["--help"]
        rest: list[str] = super().parse_args(ctx, args)
        return rest


plan_app = typer.Typer(
    cls=_PlanGroup,
    help=PLAN_HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


Out = Annotated[
    str | None,
    typer.Option(
        "--out", metavar="FILE", help="Default: plans/CLUSTER.json. `-` is standard output."
    ),
]
Probe = Annotated[
    bool,
    typer.Option(
        "--probe",
        help="Where nobody lists every registration (before Kafka 4.0), or whom the controller is "
        "configured to ask: ask the live cluster's controller to validate, and not to write, what "
        "is planned: UpdateFeatures with ValidateOnly. It needs ALTER on the cluster.",
    ),
]


def _plan(
    *,
    intent: Intent,
    ctx: typer.Context,
    wanted: Wanted,
    probe: Probe = False,
    overlay: OverlayFile = None,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """What every command does once it is known what is wanted."""
    catalogue = open_catalogue(overlay)
    chosen = replace(wanted, cluster=ctx.obj)
    if probe:
        source, planned = _by_asking(chosen, intent, catalogue)
    else:
        source = find_source(chosen, catalogue)
        planned = make_plan(source.sight, intent, catalogue, guards=source.guards)
    return put_out(planned, source, catalogue, Output(path=out, as_json=as_json))


def _by_asking(wanted: Wanted, intent: Intent, catalogue: Catalogue) -> tuple[Source, Planned]:
    """The plan for a live cluster, whose controller is asked where registrations are not seen."""
    settings = open_settings(wanted.config)
    with live_source(wanted, catalogue) as (source, backend):

        def as_if_seen() -> Sight:
            return see_row(
                source.sight.rows,
                catalogue=catalogue,
                as_of=source.as_of,
                max_age=settings.max_age,
                fleet=source.fleet,
                severities=settings.severities,
                controller_decides=True,
            )

        asking = Asking(
            backend=backend,
            sight=source.sight,
            as_if_seen=as_if_seen,
            catalogue=catalogue,
            say=say,
            guards=source.guards,
        )
        return source, plan_by_asking(asking, intent)


def command(name: Command) -> Callable[[Callable[..., Intent]], Callable[..., Intent]]:
    """Make a function that says what is wanted a command: with its options and those of all."""

    def register(ask: Callable[..., Intent]) -> Callable[..., Intent]:
        run = with_options(intent=options_of(ask), wanted=EVIDENCE)(_plan)
        plan_app.command(str(name), help=ask.__doc__)(guard(run))
        return ask

    return register
