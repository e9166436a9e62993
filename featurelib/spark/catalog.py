"""Schemas of the catalogs that Spark knows: whether one is there, where it lies, how it is written.

A name is told from a folder by featurelib.tables.is_name; tables of a catalog are read and written
by store.py, by their names alone.
"""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from featurelib.errors import ConfigError
from featurelib.faults import in_a_line

LOCAL = "file:"


def find_schema(session: SparkSession, name: str) -> str:
    """Where a schema of a catalog keeps its tables; empty where the catalog does not say. Raises
    ConfigError where Spark does not know it."""
    try:
        if session.catalog.databaseExists(quoted(name)):
            found = session.catalog.getDatabase(quoted(name)).locationUri or ""
            return (
                found
                if not found.startswith(LOCAL)
                else LOCAL + "/" + found.removeprefix(LOCAL).strip("/")
            )
        said = "none of that name"
    except PySparkException as error:  # of the catalog: not reachable, not allowed
        said = in_a_line(str(error))
    raise ConfigError(
        f"--tables {name}: expected a schema of a catalog that this Spark knows, found {said}. "
        f"Make it with CREATE SCHEMA {name}; if a folder is meant, write ./{name}."
    )


def is_forgotten(session: SparkSession, name: str) -> bool:
    """Whether a catalog keeps its names in memory only."""
    own = name.startswith("spark_catalog.")
    return own and session.conf.get("spark.sql.catalogImplementation", "in-memory") != "hive"


def quoted(name: str) -> str:
    """A name of a catalog as SQL has it."""
    return ".".join(f"`{part}`" for part in name.split("."))
