"""Options that several commands have, written once.

A command says what is its own; a parameter that stands for a group of options (`@with_options`) is
given what those options make. An order of its own in the help is where the parameter stands.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, get_type_hints

import typer

from featurelib.backends.opening import TIMEOUT_SECONDS
from featurelib.cli.plan_source import Wanted
from featurelib.cli.reach import (
    Bootstrap,
    Controllers,
    EmbeddedFile,
    FleetFile,
    Timeout,
    Zookeeper,
)
from featurelib.cli.settings import ConfigFile

Capture = Annotated[
    str | None,
    typer.Option("--capture", metavar="PATH", help="Landing files instead of a live look."),
]
TablesInstead = Annotated[
    str | None,
    typer.Option("--tables", metavar="FOLDER", help="The nightly's tables instead of a look."),
]
TablesFolder = Annotated[
    str | None,
    typer.Option(
        "--tables",
        metavar="FOLDER",
        help="The nightly's tables. Default: those of the samples, where no other way is known.",
    ),
]
RunNumber = Annotated[
    int | None,
    typer.Option("--run", metavar="RUN", help="With --tables: which night. Default: newest."),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="With --capture or --tables: judge ages as of then (ISO-8601, UTC), 'newest' for "
        "the newest line, or with --tables 'run' for when that night was judged. Default: now.",
    ),
]
AsOfThen = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="Judge ages as of then (ISO-8601, UTC), or 'run' or 'newest'. Default: 'run', when "
        "the night was judged; of --capture 'newest', the newest line.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options as parameters with their types, and what is made of their values."""

    make: Callable[..., Any]
    parameters: tuple[inspect.Parameter, ...]

    def worded(self, **types: Any) -> Options:
        """The same options, those named with another type: its words are in the help."""
        worded = (p.replace(annotation=types.get(p.name, p.annotation)) for p in self.parameters)
        return replace(self, parameters=tuple(worded))

    def without(self, name: str) -> Options:
        """The same options but one, which is never given."""
        return replace(self, parameters=tuple(p for p in self.parameters if p.name != name))


def options_of(make: Callable[..., Any]) -> Options:
    """The parameters of a function as options."""
    hints = get_type_hints(make, include_extras=True)
    every = inspect.signature(make).parameters.values()
    return Options(make=make, parameters=tuple(p.replace(annotation=hints[p.name]) for p in every))


def with_options(**groups: Options) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """A command whose parameters of these names are made of options, which stand in their place.

    Parameters are given by keyword.
    """

    def widen(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def run(**given: Any) -> int:
            for name, group in groups.items():
                mine = {p.name: given.pop(p.name) for p in group.parameters}
                given[name] = group.make(**mine)
            return command(**given)

        del run.__wrapped__  # its signature is another
        every = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for own in options_of(command).parameters
            for each in _each(own, groups)
        ]
        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in every}
        return run

    return widen


def _each(own: inspect.Parameter, groups: dict[str, Options]) -> Iterator[inspect.Parameter]:
    """A parameter of a command, or those of the group that it stands for."""
    group = groups.get(own.name)
    yield from (own,) if group is None else group.parameters


def _wanted(
    tables: TablesInstead = None,
    run: RunNumber = None,
    capture: Capture = None,
    bootstrap: Bootstrap = None,
    controllers: Controllers = None,
    zookeeper: Zookeeper = None,
    file: EmbeddedFile = None,
    as_of: AsOf = None,
    fleet: FleetFile = None,
    config: ConfigFile = None,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> Wanted:
    return Wanted(
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


# The evidence about one cluster; the command says which cluster.
EVIDENCE = options_of(_wanted)
# The same for a question, which is asked of the samples' tables where nothing else is known.
ASKED = EVIDENCE.worded(tables=TablesFolder, as_of=AsOfThen)
