"""Turn the options that choose clusters into arguments of the API."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from featurelib.api.clusters import Person
from featurelib.api.tables import NightTables
from featurelib.cli.entrance import say
from featurelib.cli.options import at_terminal, confirm, read_pairs
from featurelib.cli.streams import INTERRUPTED, raising_at_interrupt
from featurelib.config.files import open_catalogue, quietly
from featurelib.config.fleet import Choice
from featurelib.errors import ConfigError
from featurelib.source import Chosen, Wanted, choose_entries, find_tables, open_fleet


def chosen(options: Wanted, overlay: str | None = None) -> Chosen:
    """Return the chosen cluster; a reading prints its progress on standard error."""
    return Chosen(wanted=options, catalogue=open_catalogue(overlay, say), say=say)


def nights(
    choice: Choice,
    tables: str | None = None,
    run: int | None = None,
    fleet: str | None = None,
    config: str | None = None,
    overlay: str | None = None,
) -> NightTables:
    """Return the chosen run of the tables. Raises ConfigError, NoEvidenceError."""
    options = Wanted(tables=find_tables(tables), run=run, fleet=fleet, config=config)
    return NightTables(options, open_catalogue(overlay, say), choice)


def several(
    clusters: list[str] | None = None,
    every: bool = False,
    *,
    choice: Choice,
    options: Wanted,
    overlay: str | None = None,
) -> list[Chosen]:
    """Return the chosen clusters: of landing files without a name all that are in them, and with
    --all also those that the inventory expects. Raises ConfigError."""
    catalogue, ids = open_catalogue(overlay, say), list[str | None](clusters or [])
    file, inventory = open_fleet(options.fleet, catalogue)
    if not (ids or options.addresses or options.capture or every or choice != Choice()):
        raise ConfigError(
            f"expected a cluster, found none named. Give ids or names of {file}, --all for every "
            "cluster there, or say how one is reached: --bootstrap HOST:PORT, --file PATH."
        )
    if every and (ids or options.addresses):
        raise ConfigError("--all: expected no cluster named beside it, found one. Keep one.")
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


def _cluster_of(words: list[str], options: Wanted, overlay: str | None = None) -> Chosen:
    return chosen(replace(options, cluster=_split(words)[0]), overlay)


def _feature_of(words: list[str]) -> str:
    return _split(words)[1]


def _level_of(words: list[str]) -> str:
    return _split(words)[2]


def _split(words: list[str]) -> tuple[str | None, str, str]:
    """Return the cluster, the feature and the level as written. Raises ConfigError."""
    feature, sign, level = words[-1].partition("=")
    if not (sign and feature and level) or len(words) > 2:
        raise ConfigError(
            f"{' '.join(words)}: expected [CLUSTER] FEATURE=LEVEL, as payments-eu "
            f"metadata.version=4.1, found {words[-1] if len(words) < 3 else len(words)!r}"
            f"{' words' if len(words) > 2 else ''}."
        )
    return words[0] if len(words) == 2 else None, feature, level


def typed() -> str:
    """Return the command line, quoted to be typed again."""
    return shlex.join(["featurelib", *sys.argv[1:]])


def _nodes(nodes: list[str] = []) -> dict[int, str]:  # noqa: B006  # typer reads it and no more
    return _releases("--node", nodes)


def _add(add: list[str] = []) -> dict[int, str]:  # noqa: B006
    return _releases("--add", add)


def _finalize(finalize: list[str] = []) -> dict[str, str]:  # noqa: B006
    return read_pairs("--finalize", finalize, "FEATURE=LEVEL, as group.version=1")


def _releases(option: str, texts: list[str]) -> dict[int, str]:
    """Return `ID=RELEASE` texts by node id. Raises ConfigError for others or a repeated id."""
    expected, node = "ID=RELEASE, as 7=4.1.2", re.compile("0|[1-9][0-9]{0,9}")
    pairs = read_pairs(
        option, texts, expected, fits=lambda id_, _: bool(node.fullmatch(id_)) and int(id_) < 2**31
    )
    return {int(node): release for node, release in pairs.items()}


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
        show=say if as_json else print,
        confirm=partial(confirm, yes=yes),
        sending=_sending,
    )


def _speaker() -> Callable[[str], None]:
    return say


# By parameter of a function of the API: the options that make its value; None: its own. Extras add
# those of their commands to this table and the next.
CHOOSING: dict[str, Callable[..., Any] | None] = {
    "cluster": chosen,
    "journal.cluster": None,
    "clusters": several,
    "collect.clusters": None,
    "say": _speaker,
    "night": nights,
    "command": typed,
    "nodes": _nodes,
    "add": _add,
    "finalize": _finalize,
    "why-not.cluster": _cluster_of,
    "why-not.feature": _feature_of,
    "why-not.level": _level_of,
    "person": _asking,
}
# By command that prints more than its answer: the function that prints and returns the exit code.
PRINTING: dict[str, Callable[..., int]] = {}
