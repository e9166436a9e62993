"""Options that several commands have, written once.

A command says what is its own; a parameter that stands for a group of options (`@with_options`) is
given what those options make. An order of its own in the help is where the parameter stands.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from featurelib.backends.base import Backend
from featurelib.backends.opening import TIMEOUT_SECONDS
from featurelib.catalogue import Catalogue, ReleaseCatalogue, load, with_overlay
from featurelib.cli.entrance import say
from featurelib.errors import ConfigError, RefusedError
from featurelib.source import (
    Source,
    Wanted,
)
from featurelib.source import find_source as find
from featurelib.source import live_source as find_live

# ----------------------------------------
# The evidence that the options of a command choose, with its progress on stderr.


def find_source(wanted: Wanted, catalogue: Catalogue) -> Source:
    """As featurelib.source.find_source."""
    return find(wanted, catalogue, say)


def live_source(
    wanted: Wanted, catalogue: Catalogue
) -> AbstractContextManager[tuple[Source, Backend]]:
    """As featurelib.source.live_source."""
    return find_live(wanted, catalogue, say)


# ----------------------------------------
# The option that chooses the settings; featurelib.config.files says where else they are.

PLACES = "Default: the first of $FEATURELIB_CONFIG, /etc/featurelib and conf/ that has"

ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help=f"How to judge and whom to trust. {PLACES} audit.toml.",
    ),
]


# ----------------------------------------
# The options that choose one cluster, the same for every command that looks at one.
#
# A cluster is named as the inventory names it, or reached by addresses, or is a file:
# featurelib.source says how.

ClusterName = Annotated[
    str | None,
    typer.Argument(metavar="CLUSTER", help="Id or name of a cluster in the inventory."),
]
FleetFile = Annotated[
    str | None,
    typer.Option("--fleet", metavar="FILE", help=f"The inventory. {PLACES} fleet.toml."),
]
Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", metavar="HOST:PORT[,…]", help="Brokers to ask first."),
]
Controllers = Annotated[
    str | None,
    typer.Option(
        "--controllers",
        metavar="HOST:PORT[,…]",
        help="Controllers' listeners, where brokers do not name them (before Kafka 3.9).",
    ),
]
Zookeeper = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar="HOST:PORT[,…][/CHROOT]",
        help="Of a cluster in ZooKeeper mode. Only read.",
    ),
]
EmbeddedFile = Annotated[
    str | None,
    typer.Option("--file", metavar="PATH", help="An embedded cluster, kept in that file."),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        max=600,
        help="To connect to one node, and again for its answer.",
    ),
]


# ----------------------------------------

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


# ----------------------------------------
# The options that choose a catalogue, and what they mean: which file is read, which release's own.
#
# Every message names the option, what was expected and found, and the command to go on with.

LEVEL = re.compile("[0-9]{1,5}")
LEVELS = range(2**15)  # int16 on the wire

OverlayFile = Annotated[
    str | None,
    typer.Option(
        "--overlay",
        metavar="FILE",
        help="Rows of vendor builds to lay over the catalogue; see conf/catalogue-overlay.toml.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]


def open_catalogue(overlay: str | None) -> Catalogue:
    """The catalogue, with the overlay in a file if one is named. Says so on stderr, since the
    output looks like that of Kafka's own tools, which know no overlay."""
    if overlay is None:
        return load()
    try:
        text = Path(overlay).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"--overlay {overlay}: expected a TOML file, found: {error.strerror}. "
            "Copy conf/catalogue-overlay.toml and name the copy."
        ) from error
    catalogue = with_overlay(load(), text, overlay)
    say(f"catalogue {catalogue.label}")
    return catalogue


def choose_software(catalogue: Catalogue, text: str) -> ReleaseCatalogue:
    """The catalogue of the release a version means. Raises ConfigError if there is none."""
    release = catalogue.release_named(text)
    if release is None:
        known = ", ".join(name.name for name in catalogue.releases)
        advice = "Name one of them, or add it with --overlay FILE."
        oldest = catalogue.releases[0].name
        if _is_older(text, oldest):
            advice = (
                f"Before {oldest} Kafka finalizes nothing of its own. For a cluster that was "
                "formatted then, name the software it runs now: "
                "featurelib initial-levels --software RELEASE --preview"
            )
        raise ConfigError(
            f"--software {text}: expected a release of the catalogue of {catalogue.label} "
            f"({known}), found none such. {advice}"
        )
    return catalogue.of(release)


def _is_older(text: str, release: str) -> bool:
    """Whether a version as 2.8 or 3.2.1 comes before a release as 3.3."""
    parts, own = ([int(n) for n in re.findall("[0-9]+", name)[:2]] for name in (text, release))
    return re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4})+", text) is not None and parts < own


def trimmed(text: str) -> str:
    """Without blanks and controls at both ends, as Kafka's tools read NAME=LEVEL
    (FeatureCommand.parseNameAndLevel; Java's String.trim)."""
    return text.strip("".join(map(chr, range(0x21))))


def parse_features(texts: list[str]) -> dict[str, int]:
    """`NAME=LEVEL` texts as levels by name. Raises ConfigError for what is none, or comes twice."""
    levels: dict[str, int] = {}
    for text in texts:
        name, _, level = map(trimmed, text.partition("="))
        if not (name and LEVEL.fullmatch(level) and int(level) in LEVELS):
            raise ConfigError(
                f"--feature {text}: expected NAME=LEVEL with a whole number up to {LEVELS[-1]}, as "
                f"group.version=1, found {text!r}. What a release version means in numbers is "
                "what `featurelib version-mapping --release-version VERSION` says."
            )
        if name in levels:
            raise ConfigError(
                f"--feature {text}: expected {name} once, found it twice "
                f"({name}={levels[name]} before). Keep one of them."
            )
        levels[name] = int(level)
    return levels


# ----------------------------------------
# Asking a person before something is done: only at a terminal; elsewhere a flag answers.

YES = ("y", "yes")


def at_terminal() -> bool:
    """Whether a person can be asked: standard input and standard error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str, *, yes: bool) -> None:
    """Returns when the answer is yes, or `yes` said so beforehand.

    Raises ConfigError where nobody can be asked, RefusedError for any other answer.
    """
    if yes:
        return
    if not at_terminal():
        raise ConfigError(
            f"{question} Expected a terminal to ask at, found none. Read what is shown and start "
            "again with --yes."
        )
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().casefold() not in YES:
        raise RefusedError("Not confirmed. Nothing was written or sent.")
