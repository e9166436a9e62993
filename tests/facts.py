"""Name facts of findings as whoever emits them does: by the first of the code's row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from featurelib.findings import row_of
from featurelib.schema import FACTS


def first_fact(row: Mapping[str, Any]) -> Any:
    """Return what the finding was emitted with; None = nothing."""
    known = row_of(row["code"])
    return known and row["facts"].get(known.first_fact)


def with_facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of featurelib.schema.FINDING whose facts stand among its columns, `detail` for
    the first of its code."""
    facts = {name: value for name, value in row.items() if name in FACTS.names}
    known = row_of(row["code"])
    if known and known.first_fact and "detail" in row:
        facts = {known.first_fact: row["detail"], **facts}
    kept = {name: value for name, value in row.items() if name not in (*FACTS.names, "detail")}
    return {**kept, "facts": facts}
