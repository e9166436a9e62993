"""Audit landing lines that are already in memory, in this process: no Spark, no Java, no tables.

Lines are folded by the function of `check --all`, and judged by that of the nightly.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from featurelib.audit.cluster_view import Inputs
from featurelib.audit.findings import NO_SITE
from featurelib.catalogue import Catalogue, load
from featurelib.config.fleet import Fleet
from featurelib.config.settings import Settings
from featurelib.errors import needing

if TYPE_CHECKING:
    import pyarrow

    from featurelib.audit.gold import Results


def audit(
    lines: object,
    fleet: Fleet | None = None,
    as_of: datetime | str | None = None,
    settings: Settings | None = None,
    catalogue: Catalogue | None = None,
    landing: str = NO_SITE.landing,
    listed_in: str = NO_SITE.inventory,
) -> Results[pyarrow.Table]:
    """Audit a table of landing lines of any number of clusters, without Spark.

        found = featurelib.audit(polars.DataFrame({"raw": open("landing.jsonl").readlines()}))
        found.readiness

    `lines` is a table of Arrow, Polars, DuckDB or pandas with a column `raw` or `value`, a landing
    line a row. The result has the pyarrow tables clusters, readiness, incompatible_brokers, nodes,
    findings and plans. `fleet` are the expected clusters, `as_of` is the time to judge ages as of
    (None means the newest line's). `landing`, the landing folder, and `listed_in`, the inventory's
    file, stand in the commands of findings. Raises InputError for another table, ConfigError
    without pyarrow.
    """
    with needing("audit of a table needs the package pyarrow", "lake"):
        import pyarrow

        from featurelib import arrow
    from featurelib.audit import gold
    from featurelib.spark.judging import CELLS, judge_as_of, judged_in
    from featurelib.spark.lines import limit_of

    inventory, rules = fleet or Fleet(), settings or Settings()
    full_catalogue = catalogue or load()
    texts, limit = _lines_of(lines), limit_of(as_of)
    inputs = Inputs(catalogue=full_catalogue, as_of=limit, max_age=rules.max_age)
    rows, _ = inputs.fold_fleet(texts, [entry.id for entry in inventory.cluster], every=True)
    moment = int(rows.numbers("observed_at").max(initial=0)) if limit is None else limit
    judging = judge_as_of(moment, inventory, rules, catalogue)
    result = judged_in(pyarrow.Table.from_batches(judging([arrow.batch_of(rows)]), CELLS))
    places = landing, listed_in
    frames = {
        name: arrow.table_of(gold.rows_of(table, result, inventory, full_catalogue, places))
        for name, table in gold.RESULTS.items()
    }
    return gold.Results(**frames)


def _lines_of(lines: object) -> list[bytes]:
    """Return the landing lines in a table. Raises InputError if the table has no such lines."""
    import pyarrow as pa

    from featurelib.spark.lines import line_column, wrong_lines

    remedy = "Give a table of Arrow, Polars, DuckDB or pandas."
    try:
        table = pa.table(lines)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise wrong_lines(f"This is a {type(lines).__name__}.", remedy) from error
    columns = ", ".join(f"{field.name} {field.type}" for field in table.schema)
    error_of_columns = wrong_lines(f"The table has: {columns or 'no column'}.", remedy)
    name = line_column(table.schema.names)
    if name is None or (table.num_rows and pa.types.is_null(table[name].type)):
        raise error_of_columns
    column = table[name]
    try:
        if pa.types.is_dictionary(column.type):  # Polars uses views, which Arrow cannot take
            column = pa.array(column.to_pylist(), pa.binary())
        return [line or b"" for line in column.cast(pa.binary()).to_pylist()]
    except (TypeError, pa.ArrowException) as error:  # the values are neither texts nor bytes
        raise error_of_columns from error
