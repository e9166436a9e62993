"""What became of a planning: the file, the text or the JSON object, and the exit code."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

from featurelib.catalogue import Catalogue
from featurelib.cli.muted_text import muted_lines
from featurelib.cli.plan_source import Source
from featurelib.cli.plan_text import (
    fact_lines,
    judged_text,
    plan_width,
    reason_lines,
    return_lines,
    stay_lines,
    update_text,
    warning_lines,
)
from featurelib.errors import ConfigError, RefusedError
from featurelib.model import Guards, Plan
from featurelib.planning.files import ForPeople, digest, file_name, plain, write_plan
from featurelib.planning.night import level_names
from featurelib.planning.outlook import look_ahead
from featurelib.planning.planner import Planned
from featurelib.planning.requirements import features_of
from featurelib.questions.muted import as_json, over_reason
from featurelib.view.layout import wrap
from featurelib.words import clean, count

FORM = 1  # of the JSON object
STANDARD_OUTPUT = "-"
PLANS = "plans"
MUTED = "Muted in conf/audit.toml, and in the way all the same:"


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
        print("\n".join(plan_lines(planned, source, warnings, path, catalogue)), file=to)
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
) -> Iterator[str]:
    """What came of a planning, without line ends; `path` is where it stands, None = nowhere."""
    meaning, named = planned.plan, source.entry.name
    name = f" ({clean(named)})" if named else ""
    made = f"{clean(made_from(planned, source), 600)}, last seen {source.seen_at}"
    rows = [
        ("cluster", clean(source.sight.cluster_id) + name),
        ("asked", clean(planned.intent.text, 400)),
        ("from", made),
    ]
    if meaning is not None:
        rows += [("judged by", judged_text(meaning)), ("digest", digest(meaning))]
    yield from fact_lines(rows)
    yield ""
    if _is_refused(planned):
        yield "REFUSED, nothing is written. Everything that is in the way:"
        yield from reason_lines(planned.refusals, catalogue)
    elif meaning is None:
        yield "Nothing to do."
    if meaning is not None:
        yield from _request_lines(meaning, catalogue)
    if meaning is not None and planned.refusals:
        yield ""
        yield f"Left out, {count(len(planned.refusals), 'reason')}:"
        yield from reason_lines(planned.refusals, catalogue)
    mutes = (over_reason(source.muted, reason) for reason in planned.refusals)
    yield from muted_lines(mutes, plan_width(), MUTED)
    if planned.goal.stays:
        yield ""
        yield from stay_lines(planned)
    if warnings:
        yield ""
        yield from warning_lines(warnings)
    if path is not None:
        yield ""
        yield from _next_lines(path, "written to the cluster" if planned.probed else "sent")


def _request_lines(meaning: Plan, catalogue: Catalogue) -> Iterator[str]:
    for number, step in enumerate(look_ahead(meaning, catalogue), start=1):
        yield f"Request {number} of {len(meaning.steps)}"
        for change in step.changes:
            yield from wrap(update_text(change.update, catalogue), plan_width(), "  ", "      ")
            yield from return_lines(change, catalogue)


def _next_lines(path: str, what: str) -> Iterator[str]:
    if path == STANDARD_OUTPUT:
        yield f"The plan is on standard output. Nothing was {what}."
        return
    yield f"The plan is in {path}. Nothing was {what}."
    yield f"Next: featurelib show {quote(path)}"


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
