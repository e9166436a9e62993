"""A finding is data: rows of featurelib.schema.FINDING, collected column by column.

The words of a code are in findings.toml, or in the dialect's table for codes that are rules;
nothing here composes a sentence.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from featurelib.core.columns import Int
from featurelib.core.dialect import Dialect
from featurelib.feature import Role, Severity
from featurelib.schema import FINDING

NOBODY = -1  # a finding about the whole cluster
NO_NUMBER = np.iinfo(np.int64).min

_ROLES = np.array([Role.BROKER.text, Role.CONTROLLER.text], dtype=object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What a code says to a person, and what it rests on."""

    severity: Severity
    source: str
    message: str
    remedy: str
    command: str


@cache
def wordings(dialect: Dialect) -> dict[str, Wording]:
    """Every code's wording: the dialect's rules and the findings about evidence."""
    text = resources.files(__package__).joinpath("findings.toml").read_text(encoding="utf-8")
    table: dict[str, dict[str, str]] = tomllib.loads(text)
    said = {
        code: Wording(
            severity=Severity(row["severity"]),
            source=row["source"],
            message=row["message"],
            remedy=row["remedy"],
            command=row["command"],
        )
        for code, row in table.items()
    }
    for rule in dialect.rules:
        said[rule.code] = Wording(
            severity=rule.words.severity,
            source=rule.rule.source,
            message=rule.words.message,
            remedy=rule.words.remedy,
            command=rule.words.command,
        )
    return said


class Findings:
    """Blocks of findings, one code each, that become one table."""

    def __init__(self, clusters: list[str], severities: dict[str, Severity]) -> None:
        self._clusters = pa.array(clusters, pa.string())
        self._severities = severities
        self._blocks: list[pa.RecordBatch] = []

    def add(
        self,
        code: str,
        cluster: Int,
        *,
        role: Int | None = None,
        node_id: Int | None = None,
        feature: pa.Array | None = None,
        finalized_level: Int | None = None,
        level: Int | None = None,
        min_version: Int | None = None,
        max_version: Int | None = None,
        epoch: Int | None = None,
        at: Int | None = None,
        line: Int | None = None,
        detail: list[str] | None = None,
    ) -> None:
        """One row for each position in `cluster`; a column left out is null in all of them.

        In `at` and `line` 0, in `node_id` and `epoch` -1 means that there is none.
        """
        count = len(cluster)
        if count == 0:
            return
        columns = {
            "cluster": self._clusters.take(pa.array(cluster)),
            "code": _constant(code, count),
            "severity": _constant(self._severities[code].value, count),
            "role": pa.nulls(count, pa.string()),
            "feature": pa.nulls(count, pa.string()) if feature is None else feature,
            "detail": pa.nulls(count, pa.string()) if detail is None else pa.array(detail),
            "muted": pa.nulls(count, pa.string()),
            "muted_until": pa.nulls(count, pa.date32()),
        }
        if role is not None:
            columns["role"] = pa.array(_ROLES[role], pa.string())
        numbers: dict[str, tuple[Int | None, int]] = {
            "node_id": (node_id, NOBODY),
            "finalized_level": (finalized_level, NO_NUMBER),
            "level": (level, NO_NUMBER),
            "min_version": (min_version, NO_NUMBER),
            "max_version": (max_version, NO_NUMBER),
            "epoch": (epoch, -1),
            "observed_at": (at, 0),
            "line_id": (line, 0),
        }
        for name, (values, none) in numbers.items():
            columns[name] = _numbers(values, none, FINDING.field(name).type, count)
        self._blocks.append(
            pa.RecordBatch.from_arrays([columns[name] for name in FINDING.names], schema=FINDING)
        )

    def table(self) -> pa.Table:
        """All findings as one table of featurelib.schema.FINDING."""
        return pa.Table.from_batches(self._blocks, schema=FINDING)


def _constant(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _numbers(values: Int | None, none: int, of: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, of)
    mask: npt.NDArray[np.bool_] = values == none
    if pa.types.is_timestamp(of):
        return pa.array(values, pa.int64(), mask=mask).cast(of)
    return pa.array(np.where(mask, 0, values), pa.int64(), mask=mask).cast(of)
