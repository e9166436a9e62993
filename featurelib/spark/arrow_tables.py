"""Audit an Arrow table of landing lines in this process: no Spark, no Java, no tables.

Input: a table of landing lines, of Arrow, Polars, DuckDB or pandas. Output: the tables of
featurelib.spark.audit, made by the same functions: parse_lines, fold_batches, judge_as_of.
"""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from featurelib import arrow
from featurelib.audit import gold
from featurelib.audit.columns import latest
from featurelib.catalogue import Catalogue
from featurelib.catalogue import load as load_catalogue
from featurelib.config.fleet import Fleet
from featurelib.config.settings import Settings
from featurelib.landing.line import ZNODE
from featurelib.spark.folding import ENTRY, FOLDED, LATE, SORTED, fold_batches
from featurelib.spark.judging import CELLS, CORE_COLUMNS, expected_rows, judge_as_of, judged_in
from featurelib.spark.lines import SCHEMA, limit_of, line_column, parse_lines, wrong_lines


def audit(
    lines: object,
    inventory: Fleet,
    settings: Settings,
    catalogue: Catalogue | None,
    as_of: datetime | str | None,
    places: tuple[str, str],
) -> gold.Results[pa.Table]:
    """Return the tables of an audit of these landing lines; see featurelib.audit."""
    limit, batches = limit_of(as_of), _lines_of(lines).to_batches()
    parsed = pa.Table.from_batches(parse_lines(batches), SCHEMA)
    accepted = parsed.filter(pc.is_null(parsed["reason"]))
    newest = pc.max(accepted["observed_at"].cast(pa.int64())).as_py() or 0
    is_usable = pc.field("reason").is_null() | (pc.field("kind") == ZNODE)
    usable_lines = parsed.filter(is_usable & pc.field("cluster").is_valid())
    until = LATE if limit is None else latest(limit)
    is_late = pc.greater(usable_lines["observed_at"].cast(pa.int64()), until)
    run = pc.if_else(pc.fill_null(is_late, False), LATE, 1)
    state = pc.if_else(pc.is_null(usable_lines["reason"]), pa.scalar(None, pa.binary()), b"")
    columns = [run, *(usable_lines[name] for name in ENTRY.names[1:-1]), state]
    entries = pa.Table.from_arrays(columns, schema=ENTRY)
    gathered = entries.sort_by([(name, "ascending") for name in SORTED]).to_batches()
    folded = pa.Table.from_batches(fold_batches(gathered, False), FOLDED).select(CORE_COLUMNS)
    rows = pa.concat_tables([folded, expected_rows(folded["cluster"], inventory)])
    moment = newest if limit is None else limit
    judge = judge_as_of(moment, inventory, settings, catalogue)
    result = judged_in(pa.Table.from_batches(judge(rows.to_batches()), CELLS))
    catalogue_used = catalogue or load_catalogue()
    made = {
        name: arrow.table_of(gold.rows_of(table, result, inventory, catalogue_used, places))
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
