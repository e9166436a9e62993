"""`featurelib plan CLUSTER …`: the commands, each of which says what is wanted, and no more.

What they have in common is featurelib.cli.plan. Nothing is ever sent.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from featurelib.audit.cluster_view import Sight, see_row
from featurelib.catalogue import Catalogue
from featurelib.cli.entrance import guard, say
from featurelib.cli.options import (
    EVIDENCE,
    Json,
    OverlayFile,
    find_source,
    live_source,
    open_catalogue,
    options_of,
    trimmed,
    with_options,
)
from featurelib.config.files import open_settings
from featurelib.errors import ConfigError, RefusedError
from featurelib.feature import METADATA_VERSION
from featurelib.model import Guards
from featurelib.planning.files import ForPeople, digest, file_name, plain, write_plan
from featurelib.planning.goal import Command, Intent
from featurelib.planning.night import level_names
from featurelib.planning.planner import Planned, make_plan
from featurelib.planning.probe import Asking, plan_by_asking
from featurelib.planning.requirements import features_of
from featurelib.questions.muted import as_json, over_reason
from featurelib.source import Source, Wanted
from featurelib.view.layout import Page
from featurelib.view.plan import STANDARD_OUTPUT, named_cluster, planning_page
from featurelib.words import clean

# ----------------------------------------
# What became of a planning: the file, the text or the JSON object, and the exit code.

FORM = 1  # of the JSON object
PLANS = "plans"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where a plan goes, and how it is told."""

    path: str | None  # None: the usual file
    as_json: bool


def put_out(planned: Planned, source: Source, catalogue: Catalogue, output: Output) -> int:
    """Write the plan, if there is one, and say what it is; the exit code."""
    if output.as_json and output.path == STANDARD_OUTPUT:
        raise ConfigError("--out -: expected it or --json, found both. Leave one of them out.")
    warnings = all_warnings(planned, source)
    path, text = None, None
    if planned.plan is not None:
        text = write_plan(planned.plan, for_people(planned, source, warnings, catalogue))
        usual = Path(PLANS) / file_name(source.entry.name or source.sight.cluster_id)
        path = output.path or str(usual)
        if path != STANDARD_OUTPUT:
            _put(Path(path), text)
    if output.as_json:
        print(json.dumps(_document(planned, source, warnings, path), indent=2, ensure_ascii=False))
    else:
        to = sys.stderr if path == STANDARD_OUTPUT else sys.stdout
        print(plan_lines(planned, source, warnings, path, catalogue), file=to)
    if text is not None and path == STANDARD_OUTPUT:
        sys.stdout.write(text)
    return RefusedError.exit_code if _is_refused(planned) else 0


def made_from(planned: Planned, source: Source) -> str:
    """Where the evidence came from, and the controller's word where the plan rests on it."""
    if not planned.probed:
        return source.made_from
    return f"{source.made_from} and a probe: its controller would accept {planned.probed}"


def _is_refused(planned: Planned) -> bool:
    return planned.plan is None and bool(planned.refusals)


def all_warnings(planned: Planned, source: Source) -> list[str]:
    """The plan's warnings, and the inventory's."""
    return [*planned.warnings, *_managed(planned, source.guards)]


def _managed(planned: Planned, guards: Guards) -> Iterator[str]:
    """Who else finalizes what would be moved."""
    steps = () if planned.plan is None else planned.plan.steps
    moved = features_of(steps) if steps else tuple(sorted(planned.goal.levels))
    if theirs := [name for name in moved if guards.manages(name)]:
        yield (
            f"{guards.managed_by} finalizes {', '.join(map(clean, theirs))} there (managed_by in "
            "the inventory): `featurelib apply` refuses it, the plan says what to ask for there."
        )


def for_people(
    planned: Planned, source: Source, warnings: list[str], catalogue: Catalogue
) -> ForPeople:
    """What the plan's file says beside its meaning."""
    assert planned.plan is not None
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return ForPeople(
        name=source.entry.name,
        written_at=now,
        made_from=made_from(planned, source),
        seen_at=source.seen_at,
        level_names=level_names(planned.plan, catalogue),
        left_out=tuple(reason.message for reason in planned.refusals),
        stays=tuple(stay.text for stay in planned.goal.stays),
        warnings=tuple(warnings),
    )


def _put(path: Path, text: str) -> None:
    """Write the file whole or not at all. Raises ConfigError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=".", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(file.name, 0o644)
        os.replace(file.name, path)
    except OSError as error:
        raise ConfigError(
            f"--out {path}: expected a place to write to, found: {error.strerror}. "
            "Name another file with --out FILE."
        ) from error


def plan_lines(
    planned: Planned, source: Source, warnings: list[str], path: str | None, catalogue: Catalogue
) -> Page:
    """What came of a planning; `path` is where it stands, None = nowhere."""
    return planning_page(
        planned,
        named_cluster(source.sight.cluster_id, source.entry.name),
        f"{clean(made_from(planned, source), 600)}, last seen {source.seen_at}",
        catalogue,
        warnings=warnings,
        muted=[over_reason(source.muted, reason) for reason in planned.refusals],
        path=path,
    )


def _document(
    planned: Planned, source: Source, warnings: list[str], path: str | None
) -> dict[str, object]:
    meaning = planned.plan
    outcome = "refused" if _is_refused(planned) else "planned" if meaning else "nothing to do"
    return {
        "version": FORM,
        "cluster": source.sight.cluster_id,
        "name": source.entry.name,
        "intent": planned.intent.text,
        "made_from": made_from(planned, source),
        "seen_at": source.seen_at,
        "outcome": outcome,
        "file": path,
        "digest": None if meaning is None else digest(meaning),
        "plan": None if meaning is None else plain(meaning),
        "refusals": [
            asdict(reason) | as_json(over_reason(source.muted, reason))
            for reason in planned.refusals
        ],
        "stays": [asdict(stay) for stay in planned.goal.stays],
        "warnings": warnings,
    }


# ----------------------------------------
# What every command of `featurelib plan` has: the cluster before it, and its options after it.
#
# A command itself only says what is wanted; where the evidence comes from, and what is done with
# the
# plan, is here.

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


# ----------------------------------------

ReleaseVersion = Annotated[
    str | None,
    typer.Option(
        "--release-version",
        metavar="V",
        help="Every feature to the level that a release or metadata.version stands for: 4.1, "
        "3.9-IV0. See `featurelib version-mapping`.",
    ),
]
Metadata = Annotated[
    str | None,
    typer.Option("--metadata", metavar="V", help="metadata.version alone: 4.1, 3.9-IV0 or 21."),
]
Levels = Annotated[
    list[str],
    typer.Option("--feature", metavar="NAME=LEVEL", help="A feature's level; may be repeated."),
]
Unsafe = Annotated[
    bool,
    typer.Option("--unsafe", help="UNSAFE_DOWNGRADE: what is lost on the way down is lost."),
]
Stepwise = Annotated[bool, typer.Option("--stepwise", help="metadata.version one level a request.")]


@command(Command.UPGRADE_ALL)
def upgrade_all(stepwise: Stepwise = False) -> Intent:
    """Every feature as far as it is READY.

    As the nightly plans it: up to the production default, nothing lowered, nothing that cannot be
    taken back. What cannot go up is left out, and it is said what holds it.

    \b
        featurelib plan payments-eu upgrade-all
    """
    return Intent(command=Command.UPGRADE_ALL, stepwise=stepwise)


@command(Command.DOWNGRADE_ALL)
def downgrade_all(
    release_version: Annotated[
        str,
        typer.Option(
            "--release-version", metavar="V", help="The software to go back to, as 4.0 or 3.9.1."
        ),
    ],
    stepwise: Stepwise = False,
) -> Intent:
    """Every feature down to what the software of a release knows.

    For an emergency: the levels first, then the software. Nothing is raised; features that release
    does not know are deleted. A release that knows none at all (2.7 to 3.2) is refused.

    \b
        featurelib plan payments-eu downgrade-all --release-version 4.0
    """
    return Intent(command=Command.DOWNGRADE_ALL, release_version=release_version, stepwise=stepwise)


@command(Command.UPGRADE)
def upgrade(
    release_version: ReleaseVersion = None,
    metadata: Metadata = None,
    feature: Levels = [],  # noqa: B006  # typer reads the default and never changes it
    stepwise: Stepwise = False,
) -> Intent:
    """Named levels, or those of a release version.

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
    release_version: ReleaseVersion = None,
    metadata: Metadata = None,
    feature: Levels = [],  # noqa: B006
    unsafe: Unsafe = False,
    stepwise: Stepwise = False,
) -> Intent:
    """Named levels, or those of a release version, down.

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
def disable(
    feature: Annotated[
        list[str], typer.Option("--feature", metavar="NAME", help="May be repeated.")
    ],
    unsafe: Unsafe = False,
) -> Intent:
    """Features to level 0: they are not finalized any more.

    \b
        featurelib plan payments-eu disable --feature share.version
    """
    return Intent(command=Command.DISABLE, delete=tuple(feature), unsafe=unsafe)


@command(Command.UPDATE)
def update(
    raised: Annotated[
        list[str], typer.Option("--upgrade", metavar="NAME:LEVEL", help="May be repeated.")
    ] = [],  # noqa: B006
    lowered: Annotated[
        list[str], typer.Option("--downgrade", metavar="NAME:LEVEL", help="May be repeated.")
    ] = [],  # noqa: B006
    deleted: Annotated[
        list[str], typer.Option("--delete", metavar="NAME", help="May be repeated.")
    ] = [],  # noqa: B006
    unsafe: Unsafe = False,
    stepwise: Stepwise = False,
) -> Intent:
    """Several features, each its own way, as in KIP-584.

    \b
        featurelib plan payments-eu update --upgrade f:2 --downgrade g:3 --delete h
    """
    return Intent(
        command=Command.UPDATE,
        up=_pairs(raised, "--upgrade", ":"),
        down=_pairs(lowered, "--downgrade", ":"),
        delete=tuple(deleted),
        unsafe=unsafe,
        stepwise=stepwise,
    )


def _levels(texts: list[str], metadata: str | None) -> dict[str, str]:
    levels = _pairs(texts, "--feature", "=")
    if metadata is not None and METADATA_VERSION in levels:
        raise ConfigError(
            f"--metadata {metadata}: expected {METADATA_VERSION} once, found it in --feature too. "
            "Keep one of them."
        )
    return levels if metadata is None else {METADATA_VERSION: metadata, **levels}


def _pairs(texts: list[str], option: str, between: str) -> dict[str, str]:
    """NAME and LEVEL of each text. Raises ConfigError for what is no pair, or comes twice."""
    levels: dict[str, str] = {}
    for text in texts:
        name, found, level = map(trimmed, text.rpartition(between))
        if not (found and name and level):
            raise ConfigError(f"{option} {text}: expected NAME{between}LEVEL, found {text!r}.")
        if name in levels:
            raise ConfigError(f"{option} {text}: expected {name} once, found it twice. Keep one.")
        levels[name] = level
    return levels
