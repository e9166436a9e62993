"""Findings that a person set aside for a while: still rows, still counted, the reason beside them.

No verdict looks at a mute. It runs out with its last day, in UTC, by the time judged as of; from
then on it speaks up wherever it would still have held.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurelib.core.findings import Findings

EXPIRED = "mute_expired"
_DAY = 86_400_000_000  # microseconds
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mute:
    """Sets findings of `code` aside, `until` included; an empty `cluster` (an id) or `feature`,
    and no `node`, mean any."""

    code: str
    reason: str
    until: date
    cluster: str = ""
    feature: str = ""
    node: int | None = None

    @property
    def ends(self) -> int:
        """From when on it no longer holds: the end of its last day, microseconds, UTC."""
        return (self.until.toordinal() - _EPOCH + 1) * _DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """One finding that a mute sets aside: what it is about, why, and the last day."""

    code: str
    role: str | None
    node_id: int | None
    feature: str | None
    muted: str
    muted_until: date


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """The mutes as they hold for one cluster (its id), judged as of a time in microseconds."""

    mutes: tuple[Mute, ...] = ()
    cluster: str = ""
    as_of: int = 0

    def over(
        self,
        code: str,
        *,
        role: str | None = None,
        node_id: int | None = None,
        feature: str | None = None,
    ) -> SetAside | None:
        """What sets a finding aside, as `set_aside` does in the tables; None if nothing does."""
        hit = [
            mute
            for mute in self.mutes
            if mute.ends > self.as_of
            and mute.code == code
            and mute.cluster in ("", self.cluster)
            and mute.feature in ("", feature or None)
            and mute.node in (None, node_id)
        ]
        if not hit:
            return None
        last = sorted(hit, key=lambda mute: mute.ends)[-1]
        return SetAside(
            code=code,
            role=role,
            node_id=node_id,
            feature=feature or None,
            muted=last.reason,
            muted_until=last.until,
        )


def covered(mute: Mute, findings: pa.Table) -> pa.Array:
    """Which rows of featurelib.schema.FINDING the mute is about, whether or not it has run out."""
    hit = pc.equal(findings["code"], mute.code)
    for column, wanted in (("cluster", mute.cluster), ("feature", mute.feature)):
        if wanted:
            hit = pc.and_(hit, pc.fill_null(pc.equal(findings[column], wanted), False))
    if mute.node is not None:
        hit = pc.and_(hit, pc.fill_null(pc.equal(findings["node_id"], mute.node), False))
    return hit.combine_chunks() if isinstance(hit, pa.ChunkedArray) else hit


def set_aside(
    said: Findings, clusters: Sequence[str], mutes: Sequence[Mute], as_of: int
) -> pa.Table:
    """All findings, those that a mute covers with its reason and its last day.

    Of several mutes the one that runs out last counts. A cluster where one that ran out would still
    have held gets one finding more, which names all of these.
    """
    found = said.table()
    if not mutes:
        return found
    reason, until = found["muted"].combine_chunks(), found["muted_until"].combine_chunks()
    for mute in sorted(mutes, key=lambda one: one.ends):
        if mute.ends > as_of:
            hit = covered(mute, found)
            reason = pc.if_else(hit, pa.scalar(mute.reason, reason.type), reason)
            until = pc.if_else(hit, pa.scalar(mute.until, until.type), until)
    _speak_up(said, clusters, [m for m in mutes if m.ends <= as_of], found, pc.is_null(reason))
    whole = said.table()
    more = whole.num_rows - found.num_rows
    for name, column in (("muted", reason), ("muted_until", until)):
        values = pa.concat_arrays([column, pa.nulls(more, column.type)])
        whole = whole.set_column(whole.schema.get_field_index(name), whole.field(name), values)
    return whole


def _speak_up(
    said: Findings,
    clusters: Sequence[str],
    expired: Sequence[Mute],
    found: pa.Table,
    heard: pa.Array,
) -> None:
    """One finding a cluster: the mutes that ran out there and that no other took the place of."""
    told: dict[str, list[str]] = defaultdict(list)
    for mute in expired:
        hit = pc.and_(covered(mute, found), heard)
        for name in pc.unique(found["cluster"].filter(hit)).to_pylist():
            told[name].append(f"{mute.code}, until {mute.until.isoformat()} ({mute.reason})")
    where = [i for i, name in enumerate(clusters) if name in told]
    details = ["; ".join(told[clusters[i]]) for i in where]
    said.add(EXPIRED, np.array(where, dtype=np.int64), detail=details)
