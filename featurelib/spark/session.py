"""Open the Spark session with the settings that tables and times depend on, or raise an error.

Under spark-submit the settings come from its command line. Anywhere else (tests, notebooks) Spark
reads the same conf/spark-defaults.conf, so that both ways run the same Spark.

jars.txt beside this file lists the supported releases of Spark and Delta's jars for each;
scripts/setup.sh downloads these jars. Any other Spark is rejected before it starts, because a jar
of Delta fits only one minor release of Spark.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from featurelib.errors import ConfigError
from featurelib.faults import explain, in_a_line

REPOSITORY = Path(__file__).parents[2]

DELTA, _DELTA = "tables are Delta", "org.apache.spark.sql.delta"
# The settings that give tables one meaning everywhere, each with the reason.
REQUIRED = (
    ("spark.sql.session.timeZone", "UTC", "every time in the tables is UTC"),
    ("spark.sql.ansi.enabled", "true", "a cast that does not fit must fail, not wrap"),
    ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension", DELTA),
    ("spark.sql.catalog.spark_catalog", f"{_DELTA}.catalog.DeltaCatalog", DELTA),
)


def open_session(app_name: str, overrides: Mapping[str, str] | None = None) -> SparkSession:
    """Return the running Spark session, or a new one. Raises ConfigError for an unsupported Spark,
    or if a required setting differs.

    `overrides` win over the file, for tests; under spark-submit its own settings stand.
    """
    jars_for(pyspark.__version__)
    builder = SparkSession.builder.appName(app_name)
    # A JVM that runs already (spark-submit, a platform) has settings of its own.
    if "PYSPARK_GATEWAY_PORT" not in os.environ and SparkSession.getActiveSession() is None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_CONF_DIR", str(REPOSITORY / "conf"))
        settings = {
            "spark.master": "local[*]",
            "spark.jars": find_jars(),
            "spark.log.level": "ERROR",
        }
        builder = builder.config(map={**settings, **(overrides or {})})
    session = builder.getOrCreate()
    expect_one_spark(pyspark.__version__, session.version)
    check_settings(session)
    return session


def find_jars() -> str:
    """Return the paths of Delta's jars for this pyspark, as value of Spark's setting. Raises
    ConfigError."""
    cache = Path(os.environ.get("FEATURELIB_CACHE") or REPOSITORY / ".cache")
    folder = Path(os.environ.get("FEATURELIB_JARS") or cache / "jars")
    paths = [folder / jar.file for jar in jars_for(pyspark.__version__)]
    for path in paths:
        if not path.is_file():
            raise ConfigError(
                f"Delta's jars: {path} is missing. "
                "Run scripts/setup.sh, or name their folder in FEATURELIB_JARS."
            )
    return ",".join(map(str, paths))


def check_settings(session: SparkSession) -> None:
    """Raise ConfigError for the first required Spark setting that differs. Other settings are
    accepted if Spark can read Delta tables."""
    for key, expected, reason in REQUIRED:
        try:
            actual = session.conf.get(key) or "nothing"
        except PySparkException:  # not set, and without a default
            actual = "nothing"
        if expected in actual.split(","):  # the value may be a list of extensions
            continue
        if answer := _find_no_delta(session) if reason == DELTA else reason:
            raise ConfigError(
                f"Spark setting {key}: expected {expected}, found {actual} ({answer}). "
                "Start with --properties-file conf/spark-defaults.conf."
            )


def _find_no_delta(session: SparkSession) -> str:
    """Return Spark's message that Delta is missing; "" if Delta works, or if that cannot be
    decided."""
    path = "/featurelib/no-table"
    try:
        session.sql(f"SELECT * FROM delta.`{path}`").schema  # noqa: B018  # Spark Connect looks now
    except Exception as error:  # an error of a store is a Java error
        condition = (isinstance(error, PySparkException) and error.getCondition()) or ""
        if condition == "PATH_NOT_FOUND" or condition.startswith("DELTA_"):
            return ""
        if (fault := explain(error, "Spark's default file system")) is not None:
            raise fault from error
        return f"{DELTA}, and Spark answers a query of one: {in_a_line(str(error))}"
    return ""


class Jar(NamedTuple):
    """A jar of Delta, with the minor release of Spark that needs it."""

    spark: str  # such as 4.2
    name: str
    version: str
    size: int
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


@cache
def all_jars() -> tuple[Jar, ...]:
    """Return all supported jars of Delta, from jars.txt."""
    text = files("featurelib.spark").joinpath("jars.txt").read_text("utf-8")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return tuple(Jar(spark, name, of, int(size), sha256) for spark, name, of, size, sha256 in rows)


def jars_for(spark: str) -> list[Jar]:
    """Return Delta's jars for a Spark version such as 4.2.0. Raises ConfigError if unsupported."""
    minor = ".".join(spark.split(".")[:2])
    if jars := [jar for jar in all_jars() if jar.spark == minor]:
        return jars
    known = sorted({jar.spark for jar in all_jars()})
    raise ConfigError(
        f"featurelib has no Delta jars for Spark {spark}, only for {', '.join(known[:-1])} or "
        f"{known[-1]}. Install another Spark: pip install pyspark=={known[-1]}.0."
    )


def expect_one_spark(installed: str, running: str) -> None:
    """Raise ConfigError unless the running Spark has the minor release of the installed pyspark."""
    expected = jars_for(installed)[0].spark
    if jars_for(running)[0].spark != expected:
        raise ConfigError(
            f"Spark {running} runs, and this Python has pyspark {installed}. Install "
            f"pyspark=={running} here, or start with Spark {expected}."
        )
