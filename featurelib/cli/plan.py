"""Define the commands of `featurelib plan CLUSTER …`: each returns its intent.

`_plan` has the common parts: the cluster before a command and the options after it. Nothing is
sent.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from shlex import join, quote
from typing import Any

import typer
from typer.core import TyperGroup

from featurelib.api.act import plan_intent
from featurelib.cli.choosing import chosen
from featurelib.cli.entrance import JobCommand, guard, say
from featurelib.cli.options import print_answer, read_pairs, with_options
from featurelib.config.files import read_limited
from featurelib.errors import ConfigError, InputError, RefusedError
from featurelib.feature import METADATA_VERSION
from featurelib.planning.files import approve_command, file_name, read_approval, say_time
from featurelib.planning.goal import Command, Intent
from featurelib.source import Source, Wanted
from featurelib.view.plan import STANDARD_OUTPUT
from featurelib.words import clean

PLANS = "plans"
HELP = ("-h", "--help")
PLAN_HELP = """Make a plan for one cluster, or say why not.

\b
    featurelib plan payments-eu upgrade-all
    featurelib plan payments-eu downgrade --release-version 4.0
    featurelib plan upgrade --capture FOLDER --as-of newest
    featurelib plan payments-eu upgrade-all --tables TABLES

CLUSTER is an id or name of the inventory, conf/fleet.toml. Without it, say how it is reached
(--bootstrap, --zookeeper, --file), or name landing files of one cluster (--capture). Options come
after the command: `featurelib plan upgrade --help` lists them.

A plan says what would be sent, and what must still hold when it is. It goes to plans/CLUSTER.json,
in place of an earlier one, or where --out says. Look at it with `featurelib
show`, approve it with `featurelib approve`, apply it with `featurelib apply`. Nothing is written to
a cluster here, and nothing sent to one but what --probe asks.
Exit codes: 0 the plan is written, or nothing is to do; 2 usage; 3 refused, nothing is written;
5 the cluster could not be looked at."""


class _PlanGroup(TyperGroup):
    """A group whose commands may follow the cluster."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["COMMAND", "[OPTIONS]"]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.info_name = f"{ctx.info_name} [CLUSTER]"
        commands, given = self.commands, args
        is_cluster = bool(args) and not args[0].startswith("-")
        if is_cluster and args[0] in commands:  # unless a cluster has a command's name
            is_cluster = args[1:2] != [] and args[1] in commands
        if is_cluster:
            ctx.obj = args[0]
            args = args[1:]
            if not args:
                ctx.fail(
                    f"Expected what to plan for {ctx.obj}: one of {', '.join(commands)}. As:\n"
                    f"  featurelib plan {quote(ctx.obj)} upgrade-all"
                )
        elif args[1:2] and not args[1].startswith("-") and args[0] in commands:
            ctx.fail(f"The cluster comes first:\n  featurelib plan {quote(args[1])} {args[0]}")
        if args and args[0].startswith("-") and (ordered := self._in_order(given)):
            ctx.fail(f"Options come after the command:\n  featurelib plan {join(ordered)}")
        left_words: list[str] = super().parse_args(ctx, args)
        return left_words

    def _in_order(self, args: list[str]) -> list[str]:
        """Return a command line with the cluster first, then the command, then the options; empty
        if it has no command, or asks for help."""
        flags = {name for command in self.commands.values() for option in command.params
                 if getattr(option, "is_flag", False) for name in option.opts}  # fmt: skip
        options, words, words_left = list[str](), list[str](), list(args)
        while words_left:
            (options if words_left[0].startswith("-") else words).append(word := words_left.pop(0))
            if word.startswith("-") and "=" not in word and word not in flags and words_left:
                options.append(words_left.pop(0))
        is_read = 0 < len(words) < 3 and words[-1] in self.commands and not {*HELP} & {*options}
        return [*words, *options] if is_read else []


plan = typer.Typer(
    cls=_PlanGroup,
    help=PLAN_HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _plan(
    *,
    intent: Intent,
    ctx: typer.Context,
    options: Wanted,
    probe: bool = False,
    overlay: str | None = None,
    out: str | None = None,
    as_json: bool = False,
) -> int:
    """Make the plan, write its file, and print it."""
    if as_json and out == STANDARD_OUTPUT:
        raise ConfigError("--out -: expected it or --json, found both. Leave one of them out.")

    def where(source: Source) -> str:
        cluster = source.sight.cluster_id
        return out or str(Path(PLANS) / file_name(source.entry.name or cluster, cluster))

    cluster = chosen(replace(options, cluster=ctx.obj), overlay)
    answer = plan_intent(cluster, intent, probe=probe, place_of=where)
    to_output = answer.is_made and out == STANDARD_OUTPUT
    if answer.path is not None and not to_output:
        if warning := _of_replaced(answer.path, answer.expect_made().digest):
            say(warning)
        answer.save(answer.path)
    with redirect_stdout(sys.stderr if to_output else sys.stdout):
        print_answer(answer, as_json=as_json)
    if to_output:
        sys.stdout.write(answer.content())
    return RefusedError.exit_code if answer.value.is_refused else 0


def _of_replaced(path: str, plan: str) -> str:
    """Return a warning if the approval beside a plan's file is not for the plan with the digest
    `plan`; else ""."""
    beside = Path(path).with_suffix(".approval.json")
    try:
        given = read_approval(read_limited(beside), str(beside)).approval
    except (OSError, InputError, RefusedError):
        return ""
    text = (
        f"warning: {beside}: the approval by {clean(given.approved_by)} until "
        f"{say_time(given.expires_at)} is of the plan before, and not of this one. Approve it: "
        f"{approve_command(quote(path))}"
    )
    return text if given.plan != plan else ""


def command(name: Command) -> Callable[[Callable[..., Intent]], Callable[..., Intent]]:
    """Make a command of a function that returns an intent, with its own and common options."""

    def register(ask: Callable[..., Intent]) -> Callable[..., Intent]:
        run = with_options(_plan, f"plan {name}", intent=ask)
        plan.command(str(name), help=ask.__doc__, cls=JobCommand)(guard(run))
        return ask

    return register


@command(Command.UPGRADE_ALL)
def upgrade_all(stepwise: bool = False) -> Intent:
    """Raise every feature as far as it is READY.

    As the nightly plans it: up to the production default. Opt-in levels are left out, and nothing
    is lowered. The plan says its point of no return, and what blocks the features that stay.

    \b
        featurelib plan payments-eu upgrade-all
    """
    return Intent(command=Command.UPGRADE_ALL, stepwise=stepwise)


@command(Command.DOWNGRADE_ALL)
def downgrade_all(release_version: str, stepwise: bool = False) -> Intent:
    """Lower every feature to what a release knows.

    For an emergency: the levels first, then the software. Nothing is raised; features that release
    does not know are deleted. A release that knows none at all (2.7 to 3.2) is refused.

    \b
        featurelib plan payments-eu downgrade-all --release-version 4.0
    """
    return Intent(command=Command.DOWNGRADE_ALL, release_version=release_version, stepwise=stepwise)


@command(Command.UPGRADE)
def upgrade(
    release_version: str | None = None,
    metadata: str | None = None,
    feature: list[str] = [],  # noqa: B006  # typer reads the default and never changes it
    stepwise: bool = False,
) -> Intent:
    """Raise named levels, or those of a release version.

    All of them, or none. Without any option: the newest production levels of the software that the
    active controller runs. Whatever would go down is refused, each by name.

    \b
        featurelib plan payments-eu upgrade
        featurelib plan payments-eu upgrade --release-version 4.1
        featurelib plan payments-eu upgrade --metadata 3.9-IV0 --feature group.version=1
    """
    return Intent(
        command=Command.UPGRADE,
        release_version=release_version,
        up=_levels(feature, metadata),
        stepwise=stepwise,
    )


@command(Command.DOWNGRADE)
def downgrade(
    release_version: str | None = None,
    metadata: str | None = None,
    feature: list[str] = [],  # noqa: B006
    unsafe: bool = False,
    stepwise: bool = False,
) -> Intent:
    """Lower named levels, or to those of a release version.

    All of them, or none. Whatever would go up is refused, each by name.

    \b
        featurelib plan payments-eu downgrade --release-version 4.0
        featurelib plan payments-eu downgrade --feature group.version=0
    """
    return Intent(
        command=Command.DOWNGRADE,
        release_version=release_version,
        down=_levels(feature, metadata),
        unsafe=unsafe,
        stepwise=stepwise,
    )


@command(Command.DISABLE)
def disable(feature: list[str], unsafe: bool = False) -> Intent:
    """Take features to level 0: they are not finalized any more.

    \b
        featurelib plan payments-eu disable --feature share.version
    """
    return Intent(command=Command.DISABLE, delete=tuple(feature), unsafe=unsafe)


@command(Command.UPDATE)
def update(
    upgrade: list[str] = [],  # noqa: B006
    downgrade: list[str] = [],  # noqa: B006
    delete: list[str] = [],  # noqa: B006
    unsafe: bool = False,
    stepwise: bool = False,
) -> Intent:
    """Change several features, each its own way, as in KIP-584.

    \b
        featurelib plan payments-eu update --upgrade f:2 --downgrade g:3 --delete h
    """
    return Intent(
        command=Command.UPDATE,
        up=read_pairs("--upgrade", upgrade, "NAME:LEVEL", sign=":"),
        down=read_pairs("--downgrade", downgrade, "NAME:LEVEL", sign=":"),
        delete=tuple(delete),
        unsafe=unsafe,
        stepwise=stepwise,
    )


def _levels(texts: list[str], metadata: str | None) -> dict[str, str]:
    levels = read_pairs("--feature", texts)
    if metadata is not None and METADATA_VERSION in levels:
        raise ConfigError(
            f"--metadata {metadata}: expected {METADATA_VERSION} once, found it in --feature too. "
            "Keep one of them."
        )
    return levels if metadata is None else {METADATA_VERSION: metadata, **levels}
