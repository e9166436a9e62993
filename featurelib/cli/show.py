"""`featurelib show`: what a plan would do, for the person who has to approve it.

Shown is what the digest covers, worked out anew; a file that was tampered with is refused.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated

import msgspec
import typer

from featurelib.catalogue import Catalogue
from featurelib.cli.beside import beside_lines, contradictions, known_name
from featurelib.cli.catalogue import Json, OverlayFile, open_catalogue
from featurelib.cli.plan_text import (
    fact_lines,
    guards_text,
    judged_text,
    plan_lines,
    requirement_lines,
    warning_lines,
)
from featurelib.cli.reach import FleetFile
from featurelib.errors import PlanError
from featurelib.planning import files
from featurelib.planning.files import PlanFile, plain
from featurelib.planning.outlook import look_ahead
from featurelib.words import clean

FORM = 1  # of the JSON object

PlanPath = Annotated[str, typer.Argument(metavar="PLAN", help="The plan file.")]


def show(
    plan: PlanPath, fleet: FleetFile = None, overlay: OverlayFile = None, as_json: Json = False
) -> int:
    """What a plan would do, request by request.

    What each brings, and whether there is a way back:

    \b
        featurelib show plans/payments-eu.json
        featurelib show plans/payments-eu.json --json

    Shown are each level with its name, what it brings and unlocks, how far metadata.version can be
    lowered again afterwards, which releases may join, and what has to be found again before
    `featurelib apply` sends anything. A plan that was changed after it was made is refused; what
    the digest does not cover stands apart, and the cluster's name is the inventory's. Nothing is
    sent. Exit codes: 0 done, 2 usage, or no plan.
    """
    found = read_plan(plan)
    catalogue = open_catalogue(overlay)
    name = known_name(found.plan.cluster, fleet, catalogue)
    if as_json:
        print(json.dumps(_document(found, name, catalogue), indent=2, ensure_ascii=False))
    else:
        print("\n".join(_lines(plan, found, name, catalogue)))
    return 0


def read_plan(path: str) -> PlanFile:
    """The plan in a file. Raises PlanError for a file that cannot be read, or is no plan."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise PlanError(
            f"{path}: expected a plan file, found: {error.strerror}. `featurelib plan` writes one."
        ) from error
    return files.read_plan(content, path)


def _lines(path: str, found: PlanFile, name: str, catalogue: Catalogue) -> list[str]:
    meaning = found.plan
    named = f" ({clean(name)})" if name else ""
    facts = [
        ("cluster", clean(meaning.cluster) + named),
        ("intent", clean(meaning.intent, 400)),
        ("digest", found.digest),
        ("judged by", judged_text(meaning)),
    ]
    if meaning.guards is not None:
        facts.append(("guards", guards_text(meaning.guards)))
    lines = fact_lines(facts)
    if odd := list(contradictions(found, name, catalogue)):
        lines += ["", *warning_lines(odd)]
    lines += ["", *plan_lines(meaning, catalogue)]
    lines += ["It is applied only while this is found again:"]
    lines += list(requirement_lines(meaning, catalogue))
    if meaning.catalogue != catalogue.label:
        text = (
            f"the plan was made with the catalogue of {meaning.catalogue}, and this is the one of "
            f"{catalogue.label}. With its overlay, if it had one: --overlay FILE"
        )
        lines += ["", *warning_lines([text])]
    if beside := list(beside_lines(found.for_people)):
        lines += ["", *beside]
    lines += ["", f"Next: featurelib approve {quote(path)} --expires 24h"]
    return lines


def _document(found: PlanFile, name: str, catalogue: Catalogue) -> dict[str, object]:
    return {
        "version": FORM,
        "digest": found.digest,
        "name": name or None,
        "catalogue": catalogue.label,
        "plan": plain(found.plan),
        "outlook": [asdict(step) for step in look_ahead(found.plan, catalogue)],
        "contradictions": list(contradictions(found, name, catalogue)),
        "for_people": msgspec.to_builtins(found.for_people),
    }
