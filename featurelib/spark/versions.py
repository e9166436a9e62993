"""Which Spark featurelib runs with, and which of Delta's jars belong to it.

The table is jars.txt beside this file; scripts/setup.sh fetches by it. A Spark that is not in
it is refused before it is started, because Delta's jars fit one minor release of Spark each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from featurelib.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """A jar of Delta's, and the minor release of Spark it is for."""

    spark: str  # as 4.2
    name: str
    version: str
    size: int
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


@cache
def all_jars() -> tuple[Jar, ...]:
    """The table's rows."""
    text = files("featurelib.spark").joinpath("jars.txt").read_text("utf-8")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return tuple(
        Jar(spark=spark, name=name, version=version, size=int(size), sha256=sha256)
        for spark, name, version, size, sha256 in rows
    )


def jars_for(spark: str) -> list[Jar]:
    """The jars that belong to a version of Spark, as 4.2.0; ConfigError where none do."""
    minor = ".".join(spark.split(".")[:2])
    if found := [jar for jar in all_jars() if jar.spark == minor]:
        return found
    known = sorted({jar.spark for jar in all_jars()})
    raise ConfigError(
        f"Spark: expected {', '.join(known[:-1])} or {known[-1]}, found {spark}, which featurelib "
        f"has no jars of Delta's for. Install one that fits: pip install pyspark=={known[-1]}.0."
    )


def expect_one_spark(installed: str, running: str) -> None:
    """ConfigError unless the Spark that runs is of the minor release of the pyspark here."""
    expected = jars_for(installed)[0].spark
    if jars_for(running)[0].spark != expected:
        raise ConfigError(
            f"Spark: expected {expected} as the pyspark {installed} of this Python, found "
            f"{running}. Install pyspark=={running} here, or start with the Spark that fits it."
        )
