"""Audit landing lines that are already in memory."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet
from featurelib.config.settings import Settings
from featurelib.errors import ConfigError
from featurelib.lake import INSTALL

if TYPE_CHECKING:
    import pyarrow

    from featurelib.spark.gold import Results


def audit(
    lines: object,
    fleet: Fleet | None = None,
    as_of: datetime | str | None = None,
    settings: Settings | None = None,
    catalogue: Catalogue | None = None,
) -> Results[pyarrow.Table]:
    """Audit a table of landing lines of any number of clusters, without Spark.

        found = featurelib.audit(polars.DataFrame({"raw": open("landing.jsonl").readlines()}))
        found.readiness

    `lines` is a table of Arrow, Polars, DuckDB or pandas with a column `raw` or `value`, a landing
    line a row. The result has the pyarrow tables clusters, readiness, incompatible_brokers, nodes,
    findings and plans. `fleet` are the expected clusters, `as_of` is the time to judge ages as of
    (None = the newest line's). Raises InputError for another table, ConfigError without pyarrow.
    """
    try:
        import pyarrow  # noqa: F401  # an operator's install has none
    except ImportError as error:
        raise ConfigError(f"audit of a table needs the package pyarrow. {INSTALL}") from error
    from featurelib.spark.arrow_tables import audit as audit_table

    return audit_table(lines, fleet, as_of, settings, catalogue)
