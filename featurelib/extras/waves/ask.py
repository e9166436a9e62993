"""Plan the waves of a fleet, and say how far they are: the functions behind `featurelib waves`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from msgspec import UNSET, UnsetType

from featurelib.api.clusters import Answer
from featurelib.api.tables import MOST, NightTables, Row
from featurelib.config.files import read_file, write_whole
from featurelib.errors import ConfigError, NoEvidenceError, RefusedError
from featurelib.extras.waves.gates import WaveGate, WaveStatus, nights_since
from featurelib.extras.waves.gates import waves_status as find_status
from featurelib.extras.waves.page import waves_page, waves_status_page
from featurelib.extras.waves.rings import FORMAT, WavePlan, Waving, read_waves
from featurelib.extras.waves.standings import Aim, find_standings, plan_waves
from featurelib.planning.files import expect_span
from featurelib.view.documents import Document, fill


class WavesDocument(Document, kw_only=True):
    """featurelib waves; `waves status` has `status` in place of the other two"""

    format: str | UnsetType = UNSET
    waves: WavePlan | UnsetType = UNSET
    status: WaveStatus | UnsetType = UNSET


def waves(
    tables: NightTables,
    target: str,
    *,
    by: list[str] = [],  # noqa: B006  # typer reads the default and never changes it
    soak: str = "7d",
    max_parallel: int = 5,
    limit: int = MOST,
    out: str | None = None,
) -> Answer[WavePlan]:
    """Plan in which order a fleet is upgraded, ring by ring.

    \b
        featurelib waves plan 4.1 --tables TABLES
        featurelib waves plan 4.1 --by environment=test,production --by region --out waves.json

    Canaries go first, one cluster of each kind of change; then the values of a label, or the
    clusters of least risk. Between two steps is a gate: it opens when all clusters of the steps
    before are at their levels and none has a critical finding, and after the soak, which is longer
    where trouble came later after an earlier step. What has no way back is never in one step with
    what has one. A cluster that somebody else manages stands there with that owner's command.
    UNKNOWN and BLOCKED ones are in no ring: what unlocks them is said.

    In Python: waves(open_tables(FOLDER), "4.1").value has rings, held and reached; a row is one
    cluster in one step. Exit codes: 0 answered; 2 usage; 5 there is no run.
    """
    expect_span("--soak", soak)
    if max_parallel < 1:
        raise ConfigError(f"--max-parallel {max_parallel}: expected 1 or more.")
    parts = [text.partition("=") for text in by]
    labels = {key: tuple(filter(None, values.split(","))) for key, _, values in parts}
    if len(labels) < len(parts):
        raise ConfigError(
            f"--by: expected each label once, found {', '.join(p[0] for p in parts)}."
        )
    waving = Waving(by=labels, soak=soak, max_parallel=max_parallel)
    aim = Aim.of(target, tables.catalogue)
    plan = plan_waves(tables.asked(), tables.lake, tables.run, aim, waving)
    answer = Answer(
        value=plan,
        make_rows=lambda: _wave_rows(plan),
        make_document=lambda: fill(WavesDocument, format=FORMAT, waves=plan),
        page=lambda width: waves_page(plan, tables.catalogue, limit, out, tables.ways, width),
    )
    if out is not None:
        write_whole(out, f"{answer.json()}\n".encode())
    return answer


def waves_status(tables: NightTables, path: str, *, limit: int = MOST) -> Answer[WaveStatus]:
    """Say which gate of a plan in waves is open, and what may be done now.

    \b
        featurelib waves status waves.json --tables TABLES

    The runs since are read. All clusters of the file count, whatever was chosen of the tables.
    Exit codes: 0 something may be done now, or all is done; 1 a step soaks; 2 usage; 3 what comes
    next is held, a person has to look; 5 there is no run, or its evidence does not show whether
    the gate is open.
    """
    plan = read_waves(read_file("waves status", Path(path)), path)
    if plan.run > tables.run:
        raise ConfigError(
            f"{path}: expected waves of run {tables.run} or before, found those of run {plan.run}. "
            "Name the tables that they were made from with --tables, or another night with --run."
        )
    aim = Aim.of(plan.target, tables.catalogue)
    nights = nights_since(tables.lake, plan.run, tables.run)
    tonight = find_standings(replace(tables.asked(), part=None), tables.lake, tables.run, aim)
    later = sum(plan.run < run <= tables.run for run in tables.lake.runs["run"].to_pylist())
    status = find_status(plan, tables.run, nights, tonight, later=later)
    return Answer(
        value=status,
        make_rows=lambda: ({name: getattr(step, name) for name in _STEP} for step in status.steps),
        make_document=lambda: fill(WavesDocument, status=status),
        page=lambda width: waves_status_page(status, tables.catalogue, limit, width),
        exit_code=_AT_GATE[status.gate],
    )


_AT_GATE = {
    WaveGate.DONE: 0,
    WaveGate.OPEN: 0,
    WaveGate.SOAKING: 1,
    WaveGate.CLOSED: RefusedError.exit_code,
    WaveGate.UNKNOWN: NoEvidenceError.exit_code,
}


_STEP = ("number", "ring", "way_back", "state", "clusters", "at_level", "since", "until")


def _wave_rows(plan: WavePlan) -> Iterator[Row]:
    for ring in plan.rings:
        for step in ring.steps:
            for number, batch in enumerate(step.batches, start=1):
                for work in batch:
                    for command in work.does:
                        yield {
                            "ring": ring.name,
                            "way_back": step.way_back,
                            "batch": number,
                            "cluster": work.name,
                            "by": command.by,
                            "command": command.command,
                        }
