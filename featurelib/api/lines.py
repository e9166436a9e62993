"""Audit landing lines that are already in memory."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from featurelib.audit.findings import NO_SITE
from featurelib.catalogue import Catalogue
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
        from featurelib.spark.arrow_tables import audit as audit_table
    places = landing, listed_in
    return audit_table(lines, fleet or Fleet(), settings or Settings(), catalogue, as_of, places)
