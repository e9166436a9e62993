"""The notebook, executed as a reader would: on the samples' tables, and where there are none.

It is kept with its outputs, to be read on the web; FEATURELIB_REWRITE=1 writes them anew.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.golden.transcript import REWRITES

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "upgrade_readiness.ipynb"
TIMEOUT_SECONDS = 300
VARYING = re.compile(r"run \d{14}|T_[0-9a-f]+|0x[0-9a-f]+")  # the run's number, and pandas' ids


def read_notebook() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@cache
def execute(folder: Path) -> Any:
    """The notebook with its outputs, run in `folder`."""
    notebook = read_notebook()
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(
        notebook, timeout=TIMEOUT_SECONDS, resources=resources, record_timing=False
    )
    client.execute()
    return notebook


def shown(notebook: Any) -> list[tuple[str, str]]:
    """Each cell, and its outputs without what varies; pixels are not compared."""
    return [(cell.source, VARYING.sub("…", str(_outputs(cell)))) for cell in code_cells(notebook)]


def _outputs(cell: Any) -> list[list[tuple[str, Any]]]:
    return [
        sorted((kind, "" if kind == "image/png" else data) for kind, data in one.data.items())
        for one in cell.outputs
    ]


def test_it_is_kept_with_the_outputs_it_has(checkout: Path) -> None:
    executed = execute(checkout / "notebooks")
    if REWRITES:
        nbformat.write(executed, NOTEBOOK)
    assert shown(read_notebook()) == shown(executed)
    for cell in code_cells(executed):
        assert {one.output_type for one in cell.outputs} <= {"execute_result"}, cell.source
        assert len(cell.source.splitlines()) <= 18


def test_each_section_has_a_chart_or_a_table_and_a_conclusion(checkout: Path) -> None:
    cells = [cell for cell in code_cells(execute(checkout / "notebooks")) if cell.outputs]
    kinds = [kind for cell in cells for kind in cell.outputs[0]["data"]]
    assert (kinds.count("image/png"), kinds.count("text/markdown")) == (6, 8)
    conclusions = [text for cell in cells if (text := cell.outputs[0]["data"].get("text/markdown"))]
    assert all(re.search(r"\d", text) for text in conclusions), conclusions
    proof = next(cell for cell in cells if "why_not" in cell.source).outputs[0]["data"]
    assert "BLOCKED" in proof["text/plain"]
    assert "in the way" in proof["text/plain"]


def test_without_tables_the_error_says_which_command_makes_them(tmp_path: Path) -> None:
    with pytest.raises(
        CellExecutionError, match=r"spark-submit\.sh` makes the tables of the samples"
    ):
        execute(tmp_path)


def test_names_are_drawn_as_they_are() -> None:
    """An inventory may hold any name: matplotlib reads `$` as mathematics unless it is told."""
    sources = [cell.source for cell in code_cells(read_notebook())]
    names: dict[str, Any] = {}
    exec(next(source for source in sources if "COLOURS =" in source), names)
    times = names["pd"].to_datetime(["2026-11-19", "2026-11-20"], utc=True)
    rows = {"name": "$a^{<b>", "phase": "rolled, not finalized", "as_of": times}
    names |= {"clusters": names["pd"].DataFrame(rows), "runs": names["pd"].DataFrame(rows)}
    exec(next(source for source in sources if "BEHIND, DONE" in source), names)
    names["figure"].canvas.draw()
