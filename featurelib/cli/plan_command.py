"""What every command of `featurelib plan` has: the cluster before it, and its options after it.

A command itself only says what is wanted; where the evidence comes from, and what is done with the
plan, is here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from featurelib.cli.catalogue import Json, OverlayFile, open_catalogue
from featurelib.cli.entrance import guard
from featurelib.cli.plan_output import Output, put_out
from featurelib.cli.plan_source import Wanted, find_source
from featurelib.cli.reach import (
    Bootstrap,
    Controllers,
    EmbeddedFile,
    FleetFile,
    Timeout,
    Zookeeper,
)
from featurelib.cli.settings import ConfigFile
from featurelib.core.intents import Command, Intent
from featurelib.planning.planner import make_plan

LIVE_TIMEOUT_SECONDS = 10.0

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
show`, approve it with `featurelib approve`, apply it with `featurelib apply`; nothing is sent here.
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


def _plan(
    intent: Intent,
    ctx: typer.Context,
    capture: Annotated[
        str | None,
        typer.Option("--capture", metavar="PATH", help="Landing files instead of a live look."),
    ] = None,
    tables: Annotated[
        str | None,
        typer.Option("--tables", metavar="FOLDER", help="The nightly's tables instead of a look."),
    ] = None,
    run: Annotated[
        int | None,
        typer.Option("--run", metavar="RUN", help="With --tables: which night. Default: newest."),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="TIME",
            help="With --capture or --tables: judge ages as of then (ISO-8601, UTC), or 'newest' "
            "for the newest line. Default: now.",
        ),
    ] = None,
    fleet: FleetFile = None,
    bootstrap: Bootstrap = None,
    controllers: Controllers = None,
    zookeeper: Zookeeper = None,
    file: EmbeddedFile = None,
    timeout: Timeout = LIVE_TIMEOUT_SECONDS,
    config: ConfigFile = None,
    overlay: OverlayFile = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", metavar="FILE", help="Default: plans/CLUSTER.json. `-` is standard output."
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """What every command does once it is known what is wanted."""
    catalogue = open_catalogue(overlay)
    wanted = Wanted(
        cluster=ctx.obj,
        capture=capture,
        tables=tables,
        run=run,
        as_of=as_of,
        fleet=fleet,
        config=config,
        bootstrap=bootstrap,
        controllers=controllers,
        zookeeper=zookeeper,
        file=file,
        timeout=timeout,
    )
    source = find_source(wanted, catalogue)
    planned = make_plan(source.sight, intent, catalogue)
    return put_out(planned, source, catalogue, Output(path=out, as_json=as_json))


def command(name: Command) -> Callable[[Callable[..., Intent]], Callable[..., Intent]]:
    """Make a function that says what is wanted a command: with its options and those of all."""

    def register(ask: Callable[..., Intent]) -> Callable[..., Intent]:
        own = list(inspect.signature(ask).parameters.values())
        common = list(inspect.signature(_plan).parameters.values())[1:]

        @functools.wraps(ask)
        def run(**options: Any) -> int:
            intent = ask(**{each.name: options.pop(each.name) for each in own})
            return _plan(intent, **options)

        del run.__wrapped__  # its signature is another
        hints = get_type_hints(_plan, include_extras=True) | get_type_hints(
            ask, include_extras=True
        )
        every = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[each.name])
            for each in (*own, *common)
        ]
        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in every}
        plan_app.command(str(name), help=ask.__doc__)(guard(run))
        return ask

    return register
