"""The notebook, executed as a reader would: on the samples' tables, and where there are none."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.questions.nights import RUN, write_histories, write_night
from tests.report.samples import read_samples

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "notebooks" / "upgrade_readiness.ipynb"
TIMEOUT_SECONDS = 300


def read_notebook() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)


def execute(place: Path) -> Any:
    """The notebook with its outputs, run in `place`/notebooks, beside the samples."""
    (place / "data").mkdir(exist_ok=True)
    (place / "data" / "samples").symlink_to(ROOT / "data" / "samples")
    folder = place / "notebooks"
    folder.mkdir()
    notebook = read_notebook()
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=TIMEOUT_SECONDS, resources=resources).execute()
    return notebook


def outputs(notebook: Any, word: str) -> list[Any]:
    """The outputs of the only cell whose last line has that word."""
    [cell] = [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code" and word in cell.source.splitlines()[-1] + "\n"
    ]
    return list(cell.outputs)


def text(notebook: Any, word: str) -> str:
    return "\n".join(output["data"]["text/plain"] for output in outputs(notebook, word))


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("checkout")
    tables = place / "build" / "samples" / "tables"
    write_night(tables, RUN, read_samples().batch)
    write_histories(tables, RUN)
    return execute(place)


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = [cell for cell in read_notebook().cells if cell.cell_type == "code"]
    assert len(cells) > 10
    assert [cell.source for cell in cells if cell.outputs or cell.execution_count] == []
    assert max(len(cell.source.splitlines()) for cell in cells) <= 8


def test_every_cell_says_something_and_nothing_is_printed_on_the_side(executed: Any) -> None:
    for cell in executed.cells:
        if cell.cell_type == "code":
            kinds = [output.output_type for output in cell.outputs]
            assert kinds == ["execute_result"], cell.source


def test_the_fleet_is_seen_at_a_glance(executed: Any) -> None:
    counts = dict(re.findall(r"([A-Z_]+) +(\d+)", text(executed, "value_counts")))
    assert sum(map(int, counts.values())) == len(read_samples().names)
    assert int(counts["BLOCKED"]) >= 8
    shown = text(executed, "head(12)")
    assert "ghost-broker" in shown
    assert "<table" in outputs(executed, "head(12)")[0]["data"]["text/html"]


def test_the_figures_are_the_drawings_of_the_report(executed: Any) -> None:
    pages = [
        output["data"]["text/html"]
        for cell in executed.cells
        if cell.cell_type == "code" and "range_plot" in cell.source.splitlines()[-1]
        for output in cell.outputs
    ]
    before, after = (
        base64.b64decode(re.findall(r"base64,([^\"]+)", page)[0]).decode() for page in pages
    )
    assert 'class="holds" d="M118' in before
    assert "7–25 · in the way" in before
    assert "finalized 25 (4.0-IV3)" in before
    assert "in the way" not in after
    assert "finalized 27 (4.1-IV1)" in after


def test_why_not_names_the_ghost_and_what_if_shows_the_way(executed: Any) -> None:
    why = text(executed, "proof\n")
    assert "ghost-broker: metadata.version 27 (4.1-IV1): BLOCKED" in why
    assert "kafka-cluster.sh unregister --bootstrap-server HOST:PORT --id 2" in why
    assert "broker 2" in text(executed, "proof.frame")
    assert "BLOCKED at 25 (4.0-IV3), ceiling 27" in text(executed, "what_if")


def test_a_plan_is_refused_then_made_and_applied_to_the_embedded_cluster(executed: Any) -> None:
    assert "REFUSED, nothing is written" in text(executed, "plan(copy)")
    assert "metadata.version 25 (4.0-IV3) → 27 (4.1-IV1): upgrade" in text(executed, "made\n")
    assert "nothing was sent" in text(executed, "dry_run")
    assert "Applied: cluster" in text(executed, "done\n")
    finalized = text(executed, "describe_features")
    assert re.search(r"'metadata.version': Finalized\([^)]*max_version_level=27\)", finalized)


def test_without_tables_the_error_says_which_command_makes_them(tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match=r"running \./spark-submit\.sh in the folder"):
        execute(tmp_path)
