"""`featurelib roll`: may software of a release join, and may one roll back afterwards."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Annotated

import typer

from featurelib.cli.asked import Asked, ask
from featurelib.cli.catalogue import Json, OverlayFile, open_catalogue
from featurelib.cli.common import ASKED, with_options
from featurelib.cli.plan_source import Wanted
from featurelib.cli.reach import ClusterName
from featurelib.cli.roll_text import roll_lines
from featurelib.core.batch import NOT_HERE
from featurelib.questions.roll import First, Roll, WayBack, roll
from featurelib.view.layout import terminal_width

VERSION = 1  # of the JSON output


@with_options(wanted=ASKED)
def roll_command(
    *,
    to: Annotated[
        str, typer.Option("--to", metavar="RELEASE", help="The software to roll to, as 4.2.")
    ],
    cluster: ClusterName = None,
    wanted: Wanted,
    overlay: OverlayFile = None,
    as_json: Json = False,
) -> int:
    """May a release join now, and be rolled back later?

    \b
        featurelib roll payments-eu --to 4.2
        featurelib roll k42-dynamic --to 4.1 --tables build/samples/tables
        featurelib roll payments-eu --to 4.0 --json

    Every node is tried with the ranges that production software of the release advertises, by every
    generation of controllers that may lead now, in Kafka's words. If levels have to go down or up
    first, the plan of it is shown, or why there is none. Said is also whether the software that
    runs now may come back: right after the roll, and once what the release brings is finalized;
    and from which level on it may not. Nothing is sent.

    Exit codes: 0 answered, also where it may not join; 2 usage; 5 no evidence.
    """
    catalogue = open_catalogue(overlay)
    asked = ask(replace(wanted, cluster=cluster), catalogue)
    found = roll(asked.source.sight, to, asked.terms)
    if as_json:
        print(json.dumps(_document(found, asked), ensure_ascii=False))
    else:
        for line in roll_lines(
            found, asked.name, asked.source.made_from, catalogue, terminal_width()
        ):
            print(line)
    return 0


def _document(found: Roll, asked: Asked) -> dict[str, object]:
    return {
        "version": VERSION,
        "cluster": found.cluster_id,
        "name": asked.source.entry.title or None,
        "made_from": asked.source.made_from,
        "release": found.release,
        "mode": found.mode,
        "may_join": found.may_join,
        "finalized": found.levels,
        "finalized_known": found.levels_known,
        "misfits": [asdict(one) for one in found.misfits],
        "only_with_unstable_features": found.only_unstable,
        "refused": [asdict(one) | {"role": one.role.text} for one in found.refused],
        "first": [_first(one) for one in found.first],
        "joins_now": found.joins_now,
        "way_back": None if found.way_back is None else _way_back(found.way_back),
    }


def _way_back(way: WayBack) -> dict[str, object]:
    return {
        "brings": way.brings,
        "joins_after_finalizing": way.joins_after,
        "back": [asdict(one) for one in way.back],
        "downgrade_floor": _level(way.floor),
        "point_of_no_return": _level(way.no_return),
    }


def _level(level: int) -> int | None:
    return None if level == NOT_HERE else level


def _first(first: First) -> dict[str, object]:
    planned = first.planned
    steps = planned.plan.steps if planned.plan is not None else ()
    return {
        "intent": planned.intent.text,
        "steps": [asdict(step) for step in steps],
        "refusals": [asdict(reason) for reason in planned.refusals],
    }
