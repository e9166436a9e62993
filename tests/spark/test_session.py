"""What a session has to have before a run writes anything; Delta as platforms configure it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from featurelib.errors import ConfigError, SurroundingsError
from featurelib.spark.session import check_settings

pytestmark = pytest.mark.spark
# As a platform sets them that brings a Delta of its own.
PLATFORM = {
    "spark.sql.extensions": None,
    "spark.sql.catalog.spark_catalog": "com.databricks.sql.managedcatalog.UnityCatalogV2Proxy",
}


def with_settings(session: SparkSession, settings: dict[str, str | None]) -> Any:
    """The session, as if its settings were these."""

    def get(key: str) -> str | None:
        return settings[key] if key in settings else session.conf.get(key)

    return SimpleNamespace(conf=SimpleNamespace(get=get), sql=session.sql)


def test_delta_is_accepted_however_a_platform_configures_it(session: SparkSession) -> None:
    check_settings(session)
    check_settings(with_settings(session, PLATFORM))


def test_a_spark_without_delta_is_refused(session: SparkSession) -> None:
    other = with_settings(session, PLATFORM)
    real = session.sql
    other.sql = lambda text: real(text.replace("delta", "nosuchformat"))
    said = r"spark\.sql\.extensions: expected io\.delta\..* found nothing .*NOT_FOUND"
    with pytest.raises(ConfigError, match=said):
        check_settings(other)


def test_a_failure_that_is_not_delta_s_does_not_show_that_delta_is_there(
    session: SparkSession,
) -> None:
    """A store that does not answer, and an error that has nothing to do with the table."""
    other, real = with_settings(session, PLATFORM), session.sql
    other.sql = lambda text: real(text.replace("/feature", "hdfs://127.0.0.1:1/feature"))
    with pytest.raises(SurroundingsError, match=r"cannot be reached.*Connection refused"):
        check_settings(other)
    other.sql = lambda _: real("SELECT nothing FROM range(1)")
    with pytest.raises(ConfigError, match=r"found nothing .*UNRESOLVED_COLUMN"):
        check_settings(other)


def test_a_clock_of_another_zone_is_refused(session: SparkSession) -> None:
    other = with_settings(session, {"spark.sql.session.timeZone": "Europe/Berlin"})
    with pytest.raises(ConfigError, match="expected UTC, found Europe/Berlin"):
        check_settings(other)
