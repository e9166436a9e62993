"""Audit an Arrow table of landing lines in this process: no Spark, no Java, no tables.

Input: a table of landing lines, of Arrow, Polars, DuckDB or pandas. Output: the tables of
featurelib.spark.audit. Lines are folded by the function of `check --all`, and judged by that of the
nightly.
"""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa

from featurelib import arrow
from featurelib.audit import gold
from featurelib.audit.cluster_view import Inputs
from featurelib.catalogue import Catalogue
from featurelib.catalogue import load as load_catalogue
from featurelib.config.fleet import Fleet
from featurelib.config.settings import Settings
from featurelib.spark.judging import CELLS, judge_as_of, judged_in
from featurelib.spark.lines import limit_of, line_column, wrong_lines


def audit(
    lines: object,
    inventory: Fleet,
    settings: Settings,
    catalogue: Catalogue | None,
    as_of: datetime | str | None,
    places: tuple[str, str],
) -> gold.Results[pa.Table]:
    """Return the tables of an audit of these landing lines; see featurelib.audit."""
    [column], known = _lines_of(lines).columns, catalogue or load_catalogue()
    limit, ids = limit_of(as_of), [entry.id for entry in inventory.cluster]
    inputs = Inputs(catalogue=known, as_of=limit, max_age=settings.max_age)
    rows, _ = inputs.fold_fleet((line or b"" for line in column.to_pylist()), ids, every=True)
    moment = int(rows.numbers("observed_at").max(initial=0)) if limit is None else limit
    judge = judge_as_of(moment, inventory, settings, catalogue)
    result = judged_in(pa.Table.from_batches(judge([arrow.batch_of(rows)]), CELLS))
    made = {
        name: arrow.table_of(gold.rows_of(table, result, inventory, known, places))
        for name, table in gold.RESULTS.items()
    }
    return gold.Results(**made)


def _lines_of(lines: object) -> pa.Table:
    """Return a table of one column, the landing lines as bytes. Raises InputError."""
    try:
        table = pa.table(lines)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise wrong_lines(f"This is a {type(lines).__name__}.", _REMEDY) from error
    columns = ", ".join(f"{field.name} {field.type}" for field in table.schema)
    wrong = wrong_lines(f"The table has: {columns or 'no column'}.", _REMEDY)
    name = line_column(table.schema.names)
    if name is None or (table.num_rows and pa.types.is_null(table[name].type)):
        raise wrong
    column = table[name]
    try:
        if pa.types.is_dictionary(column.type):  # Polars uses views, which Arrow cannot take
            column = pa.array(column.to_pylist(), pa.binary())
        return pa.table({name: column.cast(pa.binary())})
    except (TypeError, pa.ArrowException) as error:  # the values are neither texts nor bytes
        raise wrong from error


_REMEDY = "Give a table of Arrow, Polars, DuckDB or pandas."
