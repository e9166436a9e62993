"""Print long output: the readings of `watch` as they arrive, and a run's report."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from featurelib.api.looks import ClusterLook, Looks
from featurelib.api.tables import NightTables
from featurelib.cli.entrance import say
from featurelib.cli.streams import Screen, output_is_lost
from featurelib.questions.watch import Watched
from featurelib.view.documents import as_json as as_json_text
from featurelib.view.layout import Page
from featurelib.view.model import render_json
from featurelib.view.text import LIMIT, write_text


def follow(looks: Looks, *, as_json: bool) -> int:
    """Print every reading that has news until the reader ends. Return the exit code."""
    before: dict[int, Watched] = {}
    screen = None if as_json or not Screen.is_there() else Screen()
    for look in looks:
        previous, before[look.position] = before.get(look.position), look.value
        if screen is not None:
            screen.draw(_page(looks.newest))
        elif look.value.is_news(previous):
            print(as_json_text(look.make_document(), one_line=True) if as_json else look.line)
        if output_is_lost():
            break
    if not as_json and screen is None and before:
        print("", *(look.page(None) for look in looks.newest.values()), sep="\n")
    if output_is_lost() or looks.is_ready:
        return 0  # the process ends with what a lost output means
    say(f"the time is up{', before it was READY' if looks.until else ''}")
    return looks.exit_code


def _page(newest: Mapping[int, ClusterLook]) -> list[str]:
    """Return the lines of a screen: the whole of one cluster, or a line or two for each."""
    if len(newest) == 1:
        [look] = newest.values()
        return [*look.page(None)]
    page = Page(parts=True)
    for position in sorted(newest):
        page.item(newest[position].line)
    return [*page]


def report(night: NightTables, limit: int = LIMIT, as_json: bool = False) -> int:
    """Print the report of a run, of all clusters or of some.

    As the nightly printed it:

    \b
        featurelib report --owner payments --tables TABLES
        featurelib report --run 20261121060000 --tables TABLES --json

    Counts, causes and what to do today are of the clusters that are chosen alone. For a
    spreadsheet or a CI server: featurelib export.

    Exit codes: 0 done; 2 usage; 5 there is no run, or it judged none of these clusters.
    """
    if as_json:
        print(render_json(night.report).decode(), end="")
    else:
        write_text(night.report, sys.stdout, limit=limit)
    return 0
