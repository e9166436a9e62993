"""An audit of a table in memory: every form a caller may have, and clear words for the others."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import featurelib
import featurelib.audit.findings
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.config.settings import Settings, parse_settings
from featurelib.errors import InputError
from tests.report.samples import SAMPLES

NAMES = ("ghost-broker", "k39-dynamic", "zk-392-stock")
TABLES = ("clusters", "readiness", "incompatible_brokers", "nodes", "findings", "plans")


def lines_of(*names: str) -> list[bytes]:
    return [
        line
        for name in names
        for line in Path(SAMPLES, name, "landing.jsonl").read_bytes().splitlines()
    ]


def rows(lines: object, **options: object) -> dict[str, list[dict[str, object]]]:
    found = featurelib.audit(lines, **options)  # type: ignore[arg-type]
    return {name: getattr(found, name).to_pylist() for name in TABLES}


def test_every_form_of_the_lines_gives_the_same_tables() -> None:
    lines = lines_of(*NAMES)
    texts = [line.decode() for line in lines]
    expected = rows(pa.table({"raw": lines}))
    verdicts = {row["cluster"]: row["verdict"] for row in expected["plans"]}
    assert len(verdicts) == len(NAMES)
    assert expected["findings"]
    kinds = (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))
    for kind in kinds:
        assert rows(pa.table({"value": pa.array(texts).cast(kind)})) == expected
    frame = pd.DataFrame({"raw": texts, "file": "a"})
    assert rows(frame) == expected
    assert rows(duckdb.sql("SELECT raw FROM frame")) == expected
    numbered = pl.DataFrame({"raw": lines, "number": range(len(lines))})
    coded = pl.DataFrame({"raw": pl.Series(texts, dtype=pl.Categorical)})
    for table in (numbered, coded, pl.DataFrame({"value": texts})):
        assert rows(table) == expected
    assert rows(pa.table({"raw": lines[::-1], "value": texts})) == expected


def test_lines_without_a_meaning_leave_the_others_as_they_are() -> None:
    lines: list[bytes | None] = [*lines_of("k39-dynamic")]
    broken = pa.table({"raw": [*lines, b"{", None]})
    assert rows(broken) == rows(pa.table({"raw": lines}))


def test_empty_tables_have_the_clusters_that_are_expected() -> None:
    fleet = Fleet(cluster=(FleetEntry(id="c", name="silent"),))
    for empty in (pa.table({"raw": pa.array([], pa.string())}), pa.table({"value": pa.nulls(0)})):
        assert not any(rows(empty).values())
        [cluster] = rows(empty, fleet=fleet)["clusters"]
        assert (cluster["name"], cluster["verdict"]) == ("silent", "UNKNOWN")
    [schema] = {found.findings.schema for found in [featurelib.audit(pa.table({"raw": [b"{"]}))]}
    assert "action" in schema.names


def test_the_time_decides_which_evidence_is_too_old_and_which_waits() -> None:
    lines = pa.table({"raw": lines_of("k39-dynamic")})
    usual = {row["verdict"] for row in rows(lines)["readiness"]}
    late = rows(lines, as_of="2027-11-21T06:00:00Z")["readiness"]
    assert {row["verdict"] for row in late} == {"UNKNOWN"} != usual
    early = rows(lines, as_of=datetime(2020, 1, 1))["plans"]
    assert {row["verdict"] for row in early} == {"UNKNOWN"}
    ages = parse_settings("max_age_hours = 100000", "audit.toml")
    patient = rows(lines, as_of="2027-11-21", settings=ages)["readiness"]
    assert {row["verdict"] for row in patient} == usual
    assert isinstance(ages, Settings)


def test_lines_dated_later_wait_and_change_no_verdict() -> None:
    """Else a collector whose clock is ahead would take the place of what is known now."""
    lines = lines_of("k39-dynamic")
    newest = max(json.loads(line)["observed_at"] for line in lines)
    later = [
        re.sub(rb'"observed_at":"[^T]*T', b'"observed_at":"2026-12-24T', line) for line in lines
    ]
    assert later != lines
    alone, both = (rows(pa.table({"raw": some}), as_of=newest) for some in (lines, lines + later))
    assert both["readiness"] == alone["readiness"]
    codes = {row["code"] for row in both["findings"]} - {row["code"] for row in alone["findings"]}
    assert codes == {"evidence_from_the_future"}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (pa.table({"line": ["{}"]}), "The table has: line string."),
        (pa.table({"value": [1]}), "The table has: value int64."),
        (pa.table({"raw": pa.nulls(2)}), "The table has: raw null."),
        (pa.table({"raw": [["{}"]]}), "The table has: raw list<"),
        (pa.table({}), "The table has: no column."),
        (["{}"], "This is a list."),
        (7, "This is a int."),
        (None, "This is a NoneType."),
    ],
)
def test_a_table_of_something_else_is_refused_with_what_is_needed(
    lines: object, words: str
) -> None:
    needed = "needs a column `value` or `raw` of type string or binary, a line a row"
    with pytest.raises(InputError, match=needed) as error:
        featurelib.audit(lines)
    assert words in str(error.value)
    with pytest.raises(InputError, match="as_of 'tomorrow' is no time"):
        featurelib.audit(pa.table({"raw": [b""]}), as_of="tomorrow")


def test_the_package_of_that_name_is_a_package_still() -> None:
    assert featurelib.audit.findings.FindingWords.__name__ == "FindingWords"  # type: ignore[attr-defined]
