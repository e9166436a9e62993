"""Find the reasons in a result that conf/audit.toml mutes.

A mute applies to a finding only: a muted reason still blocks, and is shown as muted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from featurelib.audit.findings import InForce, SetAside
from featurelib.core.dialect import GENERATIONS
from featurelib.findings import code_of
from featurelib.model import Reason
from featurelib.planning.goal import GOAL


def over_reason(mutes: InForce, reason: Reason) -> SetAside | None:
    """Return the mute of the finding behind a reason; None without mute."""
    if reason.judge == GOAL:  # an invalid request is no finding
        return None
    if reason.judge in GENERATIONS:
        return mutes.over(code_of("own_dialect"), feature=reason.feature)
    return mutes.over(reason.code, role=reason.role, node_id=reason.node_id, feature=reason.feature)


def over_row(mutes: InForce, row: Mapping[str, Any]) -> SetAside | None:
    """Return the mute of a row of featurelib.schema.FINDING; None without mute."""
    values = {name: row[name] for name in ("role", "node_id", "feature")}
    return mutes.over(row["code"], **values)


def as_json(muted: SetAside | None) -> dict[str, Any]:
    """Return the JSON keys of a mute: its reason and last day."""
    if muted is None:
        return {"muted": None, "muted_until": None}
    return {"muted": muted.muted, "muted_until": muted.muted_until.isoformat()}
