"""Whether both sides of the audit's benchmark say the same, where they mean the same.

Offenders are compared wherever featurelib knows what is finalized. Verdicts are compared for
metadata.version and the made-up features (the ceiling of other real features comes from the
catalogue, which the yardstick has not), and wherever featurelib does not say UNKNOWN: the flat
tables know no ghosts and no disagreement.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.yardstick import Yardstick

_COMPARED = "(feature = 'metadata.version' or feature like 'app%')"
_OFFENDERS = "select cluster, role, {node}, feature, {level}, min_version, max_version from {table}"
_MINE = _OFFENDERS.format(node="node_id", level="finalized_level", table="my_offenders")
_THEIRS = _OFFENDERS.format(node="node", level="level", table="offenders o") + (
    " where not exists (from my_verdicts v where v.cluster = o.cluster"
    " and v.feature = o.feature and v.finalized_level is null)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Counts of rows, and of those where the sides differ."""

    offenders: int
    offenders_left_out: int  # nobody trustworthy says what is finalized there
    verdicts: int
    verdicts_left_out: int  # UNKNOWN in featurelib
    ready: int
    blocked: int
    differences: int

    def show(self) -> str:
        """The agreement as one sentence."""
        return (
            f"{self.offenders:,} offenders ({self.offenders_left_out:,} left out: their level is "
            f"disputed), {self.verdicts:,} verdicts ({self.verdicts_left_out:,} left out: UNKNOWN) "
            f"of them {self.ready:,} ready, {self.blocked:,} blocked: "
            f"{self.differences:,} differences"
        )


def compare(yardstick: Yardstick, offenders: pa.Table, verdicts: pa.Table) -> Agreement:
    """Hold gold.incompatible_broker and gold.feature_readiness of one run against the yardstick."""
    for name, table in (("my_offenders", offenders), ("my_verdicts", verdicts)):
        path: Path = yardstick.folder / f"{name}.parquet"
        pq.write_table(table, path)
        yardstick.ask(f"create or replace view {name} as from read_parquet('{path}')")
    joined = (
        "select m.verdict as mine, t.verdict as theirs from my_verdicts m "
        f"full join verdicts t using (cluster, feature) where {_COMPARED}"
    )
    compared = f"select * from ({joined}) where mine is distinct from 'UNKNOWN'"
    unlike = [
        f"select 1 from ({compared}) where mine is distinct from theirs",
        f"({_MINE} except all {_THEIRS})",
        f"({_THEIRS} except all {_MINE})",
    ]
    return Agreement(
        offenders=_count(yardstick, _MINE),
        offenders_left_out=_count(yardstick, "from offenders") - _count(yardstick, _THEIRS),
        verdicts=_count(yardstick, compared),
        verdicts_left_out=_count(yardstick, joined) - _count(yardstick, compared),
        ready=_count(yardstick, f"from ({compared}) where theirs = 'READY'"),
        blocked=_count(yardstick, f"from ({compared}) where theirs = 'BLOCKED'"),
        differences=sum(_count(yardstick, query) for query in unlike),
    )


def _count(yardstick: Yardstick, query: str) -> int:
    return int(str(yardstick.ask(f"select count(*) from ({query})")[1][0][0]))
