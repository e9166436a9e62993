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
from pyspark.sql import SparkSession

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
    """Each cell, and what it shows but for what varies."""
    return [
        (cell.source, VARYING.sub("…", str([sorted(one["data"].items()) for one in cell.outputs])))
        for cell in code_cells(notebook)
    ]


def test_it_is_kept_with_the_outputs_it_has(checkout: Path) -> None:
    executed = execute(checkout / "notebooks")
    if REWRITES:
        nbformat.write(executed, NOTEBOOK)
    assert shown(read_notebook()) == shown(executed)
    for cell in code_cells(executed):
        assert {one.output_type for one in cell.outputs} <= {"execute_result"}, cell.source
        assert len(cell.source.splitlines()) <= 18


def test_the_pictures_show_what_the_tables_hold(checkout: Path) -> None:
    cells = code_cells(execute(checkout / "notebooks"))
    found = {
        cell.source.splitlines()[-1]: cell.outputs[0]["data"] for cell in cells if cell.outputs
    }

    def of(words: str) -> Any:
        [data] = [data for line, data in found.items() if words in line]
        return data

    heat = of("drawn(grid)")["text/html"]
    assert heat.count(">BLOCKED<") == 5
    assert "metadata.version" in heat
    assert "2026-10-31" in of("drawn(adoption")["text/html"]
    assert "unsupported_by_node" in of("drawn(causes)")["text/html"]
    assert "payments" in of("crosstab(owned")["text/html"]
    assert "metadata.version is finalized at 29" in of("HTML(")["text/html"]
    assert "orders-prod-us: metadata.version 29 (4.2-IV1): BLOCKED" in of("why_not")["text/plain"]


def test_spark_reads_the_same(checkout: Path, session: SparkSession) -> None:
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {"spark": session}
    for names in (ours, theirs):
        for cell in code_cells(read_notebook()):  # Spark does not look from here
            exec(cell.source.replace('"../', f'"{checkout}/'), names)
    assert len(ours["fleet"]) == 12
    for name in ("counts", "grid", "lag", "causes"):
        assert ours[name].to_string() == theirs[name].to_string(), name


def test_without_tables_the_error_says_which_command_makes_them(tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match=r"spark-submit\.sh` makes those of the samples"):
        execute(tmp_path)


def test_hostile_names_are_shown_and_not_obeyed() -> None:
    """Names of an inventory and of features may hold anything."""
    [cell] = [cell for cell in code_cells(read_notebook()) if "def drawn" in cell.source]
    names: dict[str, Any] = {}
    exec(cell.source, names)
    frame = names["pd"].DataFrame({"<b>a</b>": ["<script>"]}, index=["<i>x</i>"])
    assert not re.search(r"<script>|<b>|<i>", names["drawn"](frame).to_html())
