"""Turn the options that choose clusters into arguments of the API."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from featurelib.api.clusters import Person
from featurelib.api.plans import PlanAnswer
from featurelib.api.tables import NightTables
from featurelib.cli.entrance import say
from featurelib.cli.options import at_terminal, confirm, print_answer, print_page, read_pairs
from featurelib.cli.streams import INTERRUPTED, raising_at_interrupt
from featurelib.config.files import open_catalogue, quietly
from featurelib.config.fleet import Choice
from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION
from featurelib.planning.goal import Command, RequestedLevels
from featurelib.source import Chosen, Wanted, choose_entries, find_tables, open_fleet
from featurelib.view.plan import STANDARD_OUTPUT

PLANS = "plans/"
_LEVEL_OPTIONS = {
    Command.UPGRADE: ("feature", "metadata"),
    Command.DOWNGRADE: ("feature", "metadata"),
    Command.DISABLE: ("feature",),
    Command.UPDATE: ("upgrade", "downgrade", "delete"),
}


def chosen(options: Wanted) -> Chosen:
    """Return the cluster that options choose. Progress messages go to standard error."""
    return Chosen(wanted=options, catalogue=open_catalogue(options.overlay, say), say=say)


def nights(
    choice: Choice,
    tables: str | None = None,
    run: int | None = None,
    fleet: str | None = None,
    config: str | None = None,
    overlay: str | None = None,
) -> NightTables:
    """Return the tables of the run that options choose. Raises ConfigError, NoEvidenceError."""
    options = Wanted(
        tables=find_tables(tables), run=run, fleet=fleet, config=config, overlay=overlay
    )
    return NightTables(options, open_catalogue(overlay, say), choice)


def several(
    clusters: list[str] | None = None, every: bool = False, *, choice: Choice, options: Wanted
) -> list[Chosen]:
    """Return the chosen clusters. Without names: all clusters in the landing files. `every`: add
    all clusters of the inventory. Raises ConfigError."""
    catalogue, ids = open_catalogue(options.overlay, say), list[str | None](clusters or [])
    file, inventory = open_fleet(options.fleet, catalogue)
    if not (ids or options.addresses or options.capture or every or choice != Choice()):
        raise ConfigError(
            f"No cluster is named. Give ids or names of {file}, --all for every cluster there, or "
            "an address: --bootstrap HOST:PORT, --file PATH."
        )
    if every and (ids or options.addresses):
        raise ConfigError("--all excludes the name or address of a cluster. Remove one of them.")
    if not options.is_stored:
        entries = choose_entries(clusters or [], choice, options, say)
        ids = [entry.id or None for entry in entries]
    elif not ids:
        part = inventory.choose(choice, file)
        ids = [id_.id for id_ in inventory.cluster if id_.id in (part or ()) or every]
        ids += [None] * (part is None)
    speak = say if len(ids) == 1 else quietly  # progress of several clusters would be mixed up
    return [
        Chosen(wanted=replace(options, cluster=id_), catalogue=catalogue, say=speak) for id_ in ids
    ]


def _cluster_of(words: list[str], options: Wanted) -> Chosen:
    return chosen(replace(options, cluster=_split(words)[0]))


def _feature_of(words: list[str]) -> str:
    return _split(words)[1]


def _level_of(words: list[str]) -> str:
    return _split(words)[2]


def _split(words: list[str]) -> tuple[str | None, str, str]:
    """Return (cluster, feature, level) from the arguments `[CLUSTER] FEATURE=LEVEL`. Raises
    ConfigError."""
    feature, sign, level = words[-1].partition("=")
    if not (sign and feature and level) or len(words) > 2:
        raise ConfigError(
            f"{' '.join(words)}: Use the form [CLUSTER] FEATURE=LEVEL, such as payments-eu "
            "metadata.version=4.1."
        )
    return words[0] if len(words) == 2 else None, feature, level


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelOptions:
    """The options of `plan` that request feature levels."""

    feature: list[str] | None = None
    metadata: str | None = None
    upgrade: list[str] | None = None
    downgrade: list[str] | None = None
    delete: list[str] | None = None
    release_version: str | None = None


def _command_of(words: list[str]) -> str:
    return str(_planned(words)[1])


def _levels_of(words: list[str], given: LevelOptions) -> RequestedLevels:
    """Return the requested levels from the options of `plan`. Raises ConfigError."""
    command, release = _planned(words)[1], given.release_version
    for option in ("feature", "metadata", "upgrade", "downgrade", "delete"):
        if getattr(given, option) and option not in _LEVEL_OPTIONS.get(command, ()):
            raise ConfigError(
                f"{command} has no --{option}. upgrade and downgrade have --feature and "
                "--metadata, "
                "disable has --feature, update has --upgrade, --downgrade and --delete."
            )
    if command is Command.UPDATE:
        up = read_pairs("--upgrade", given.upgrade or (), "NAME:LEVEL", sign=":")
        down = read_pairs("--downgrade", given.downgrade or (), "NAME:LEVEL", sign=":")
        return RequestedLevels(release_version=release, up=up, down=down, delete=given.delete or ())
    if command is Command.DISABLE:
        return RequestedLevels(release_version=release, delete=given.feature or ())
    key = "down" if command is Command.DOWNGRADE else "up"
    return RequestedLevels(
        release_version=release, **{key: _named(given.feature or [], given.metadata)}
    )


def _planned(words: list[str]) -> tuple[str | None, Command]:
    """Return (cluster, command of `plan`) from the arguments `[CLUSTER] COMMAND`. Raises
    ConfigError."""
    commands = [str(command) for command in Command]
    if words[-1] in commands and len(words) < 3:
        return words[0] if len(words) == 2 else None, Command(words[-1])
    if len(words) == 2 and words[0] in commands:
        line = f"{shlex.quote(words[1])} {words[0]}"
        raise ConfigError(f"The cluster comes first:\n  featurelib plan {line}")
    fault = f"No such change {words[1]!r}." if len(words) == 2 else "Name the change to plan."
    raise ConfigError(
        f"{fault} Use one of {', '.join(commands)}:\n"
        f"  featurelib plan {shlex.quote(words[0])} upgrade-all"
    )


def _cluster_to_plan(words: list[str], options: Wanted) -> Chosen:
    return chosen(replace(options, cluster=_planned(words)[0]))


def _named(texts: list[str], metadata: str | None) -> dict[str, str]:
    levels = read_pairs("--feature", texts)
    if metadata is not None and METADATA_VERSION in levels:
        raise ConfigError(
            f"--metadata {metadata}: --feature names {METADATA_VERSION}, too. Leave one of them "
            "out."
        )
    return levels if metadata is None else {METADATA_VERSION: metadata, **levels}


def _plan_file(out: str = "", as_json: bool = False) -> str:
    if as_json and out == STANDARD_OUTPUT:
        raise ConfigError("--out - and --json exclude each other. Leave one of them out.")
    return out or PLANS


def _print_plan(answer: PlanAnswer, *, as_json: bool) -> int:
    """Print the answer of `plan`. With --out -, the plan goes to standard output and the answer to
    standard error."""
    is_file = answer.path == STANDARD_OUTPUT
    with redirect_stdout(sys.stderr if is_file else sys.stdout):
        code = print_answer(answer, as_json=as_json)
    if is_file:
        sys.stdout.write(answer.content())
    return code


def typed() -> str:
    """Return the command line of this process, quoted for a shell."""
    return shlex.join(["featurelib", *sys.argv[1:]])


@contextmanager
def _sending() -> Iterator[None]:
    try:
        with raising_at_interrupt():
            yield
    except KeyboardInterrupt:
        say("error: interrupted; nothing was sent by this run")
        raise SystemExit(INTERRUPTED) from None


def _asking(yes: bool = False, as_json: bool = False) -> Person:
    return Person(
        command=typed(),
        at_terminal=at_terminal(),
        show=partial(print_page, on_errors=as_json),
        confirm=partial(confirm, yes=yes),
        sending=_sending,
    )


def _speaker() -> Callable[[str], None]:
    return say


# Parameter of an API function → options that make its value; None: the options' own. Extras add
# those of their commands to this table and the next.
CHOOSING: dict[str, Callable[..., Any] | None] = {
    "cluster": chosen,
    "journal.cluster": None,
    "clusters": several,
    "collect.clusters": None,
    "say": _speaker,
    "night": nights,
    "command": typed,
    "why-not.cluster": _cluster_of,
    "why-not.feature": _feature_of,
    "why-not.level": _level_of,
    "plan.cluster": _cluster_to_plan,
    "plan.command": _command_of,
    "plan.levels": _levels_of,
    "plan.out": _plan_file,
    "person": _asking,
}
# Command that prints more than its answer → function that prints it and returns the exit code.
PRINTING: dict[str, Callable[..., int]] = {"plan": _print_plan}
