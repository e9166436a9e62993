"""Name, grain, schema and comment of every table. Only this package says what a table holds."""

from featurelib.tables import bronze, gold, silver
from featurelib.tables.table import Table

ALL: tuple[Table, ...] = (*bronze.TABLES, *silver.TABLES, *gold.TABLES)

__all__ = ["ALL", "Table", "bronze", "gold", "silver"]
