"""What the controller itself said of a level, when a collector asked it to validate only.

The audit has held it against everything else; here it is found again for the levels of a question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from featurelib.core.dialect import STRICT, load
from featurelib.core.findings import wordings
from featurelib.core.probes import PROBE_AGREED, PROBE_REFUSED
from featurelib.planning.known import Levels
from featurelib.planning.reasons import PROBE, Reasons
from featurelib.questions.proofs import Proof, proof_of
from featurelib.sight import Sight


def probe_proofs(sight: Sight, reasons: Reasons, moves: Levels) -> Iterator[Proof]:
    """What the controller itself refused of these levels, with the line that says it."""
    source = wordings(load(STRICT))[PROBE_REFUSED].source
    seen = {row["feature"]: row for row in _findings(sight, PROBE_REFUSED)}
    for reason in reasons.of_probe(moves):
        proof, row = proof_of(reason, source), seen[reason.feature]
        yield replace(proof, seen_at=_microseconds(row), line_id=row["line_id"])


def agreement(sight: Sight, moves: Levels) -> Proof | None:
    """That the controller itself agreed to these levels, if it was asked about all of them."""
    wording = wordings(load(STRICT))[PROBE_AGREED]
    for row in _findings(sight, PROBE_AGREED):
        if {f"{name} {level}" for name, level in moves.items()} <= set(row["detail"].split(", ")):
            return Proof(
                judge=PROBE,
                rule=PROBE_AGREED,
                source=wording.source,
                feature="",
                level=0,
                message=wording.message.format_map(row),
                seen_at=_microseconds(row),
                line_id=row["line_id"],
            )
    return None


def _findings(sight: Sight, code: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = sight.judged.findings.to_pylist()
    return [row for row in rows if row["code"] == code]


def _microseconds(row: dict[str, Any]) -> int:
    since: timedelta = row["observed_at"] - datetime.fromtimestamp(0, UTC)
    return since // timedelta(microseconds=1)
