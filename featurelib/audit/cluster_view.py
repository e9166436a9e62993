"""Everything known of one cluster from landing lines in memory, without tables and without Spark.

The same reading, folding and judging as the nightly's, for a batch of one: no verdict can differ.
A broken line is set aside with its reason and the rest goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256

import pyarrow as pa

from featurelib.audit.audit import Judged, judge
from featurelib.audit.cluster_of import PlainClusters
from featurelib.audit.columns import latest
from featurelib.audit.evidence import Conditions, Evidence, Expected
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet
from featurelib.core.cluster import Cluster
from featurelib.core.dialect import STRICT, load
from featurelib.errors import InputError, NoEvidenceError
from featurelib.feature import Severity
from featurelib.landing import Landing, Quarantined, read
from featurelib.snapshot import fold_lines, snapshot_rows

NO_FLEET = Fleet()  # an inventory that expects nothing
NEXT = "docs/landing.md says what a landing line holds."
_SHOWN = 5  # reasons and clusters that an error names


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One cluster. `newest` is when its newest line was read, microseconds."""

    cluster_id: str
    rows: pa.RecordBatch  # its one row of featurelib.schema.SNAPSHOT
    judged: Judged
    cluster: Cluster  # plain values for goals, steps, floors
    releases: tuple[str, ...]  # its controllers may run, the likeliest first
    dialects: tuple[str, ...]  # its controllers may speak, also where nothing can go up
    rejected: tuple[tuple[int, str], ...]  # number and reason of each quarantined line
    newest: int
    address: str = ""  # of its brokers, for commands; "" = not known

    @property
    def evidence(self) -> Evidence:
        """What it was judged by, as columns."""
        assert self.judged.evidence is not None  # only what a table holds has none
        return self.judged.evidence

    @property
    def is_trusted(self) -> bool:
        """Whether somebody who can be trusted says what is finalized, and not too long ago."""
        levels = self.evidence.levels
        return bool(levels.trusted[0] and not levels.too_old[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What judging depends on beside the evidence. Times in microseconds; `as_of` None = the newest
    line of the cluster. `controller_decides`: as if everybody had been seen whom its controller
    asks, because that is put to the controller itself before anything is sent (`ValidateOnly`)."""

    catalogue: Catalogue
    as_of: int | None
    max_age: int
    fleet: Fleet = NO_FLEET
    severities: dict[str, Severity] | None = None
    controller_decides: bool = False

    def see_lines(
        self,
        lines: Iterable[bytes],
        cluster_id: str | None = None,
        choosing: str = "Choose one by its id.",
    ) -> Sight:
        """The cluster that `lines` speak of.

        Raises NoEvidenceError where no line of it is accepted, and InputError where they are of
        several clusters and `cluster_id` chooses none: `choosing` says what to do.
        """
        rejected: list[tuple[int, str]] = []
        accepted: dict[str, list[tuple[Landing, int]]] = {}
        for number, ended in enumerate(lines, start=1):
            raw = ended.removesuffix(b"\n")
            line = read(raw)
            if isinstance(line, Quarantined):
                rejected.append((number, line.reason))
            else:
                line_id = int.from_bytes(sha256(raw).digest()[:8], "big", signed=True)
                accepted.setdefault(line.cluster, []).append((line, line_id))
        chosen = _choose(accepted, rejected, cluster_id, choosing)
        until = None if self.as_of is None else latest(self.as_of)
        rows = snapshot_rows([(chosen, fold_lines(accepted[chosen], self.catalogue, until))])
        return _judged(rows, self, tuple(rejected))

    def see(self, row: pa.RecordBatch) -> Sight:
        """The same from a stored row of silver.cluster_snapshot.

        Raises InputError for any other number of rows than one, NoEvidenceError for a cluster that
        never landed.
        """
        if row.num_rows != 1:
            raise InputError(
                f"expected one row of silver.cluster_snapshot, found {row.num_rows}; "
                "choose one by its cluster id."
            )
        return _judged(row, self, ())


def see(
    lines: Iterable[bytes],
    *,
    catalogue: Catalogue,
    as_of: int | None,
    max_age: int,
    fleet: Fleet = NO_FLEET,
    cluster_id: str | None = None,
    severities: dict[str, Severity] | None = None,
) -> Sight:
    """Terms.see_lines by these terms."""
    terms = Terms(
        catalogue=catalogue, as_of=as_of, max_age=max_age, fleet=fleet, severities=severities
    )
    return terms.see_lines(lines, cluster_id)


def _judged(row: pa.RecordBatch, terms: Terms, rejected: tuple[tuple[int, str], ...]) -> Sight:
    cluster_id: str = row.column("cluster")[0].as_py()
    newest = row.column("observed_at").cast(pa.int64())[0].as_py()
    if newest is None and row.column("waiting")[0].as_py():
        raise NoEvidenceError(
            f"cluster {cluster_id}: expected lines of before {_time(terms.as_of)}, found later "
            "ones only, so nothing can be said. Judge as of another time (--as-of), or set the "
            "clock of the collector right."
        )
    if newest is None:
        raise NoEvidenceError(
            f"cluster {cluster_id}: nothing landed from it, so nothing can be said. Collect it."
        )
    inventory = terms.fleet.inventory
    mine = inventory.get(cluster_id, Expected())
    if terms.controller_decides:
        inventory |= {cluster_id: replace(mine, controller_decides=True)}
    conditions = Conditions(
        as_of=newest if terms.as_of is None else terms.as_of,
        max_age=terms.max_age,
        inventory=inventory,
    )
    catalogue, told = terms.catalogue, mine.release
    judged = judge(row, conditions, catalogue, load(STRICT), terms.severities)
    assert judged.evidence is not None
    plain = PlainClusters(judged.evidence, [told], catalogue, judged.probed)
    return Sight(
        cluster_id=cluster_id,
        rows=row,
        judged=judged,
        cluster=plain.cluster(0),
        releases=plain.releases(0),
        dialects=plain.dialects(0),
        rejected=rejected,
        newest=newest,
    )


def _time(moment: int | None) -> str:
    return f"{datetime.fromtimestamp((moment or 0) // 1_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _choose(
    found: Collection[str], rejected: Sequence[tuple[int, str]], wanted: str | None, choosing: str
) -> str:
    """The one cluster to look at, among those with accepted lines."""
    if wanted is None and len(found) > 1:
        raise InputError(
            f"expected lines of one cluster, found {len(found)}: {_some(sorted(found))}. {choosing}"
        )
    if wanted is None and found:
        return next(iter(found))
    if wanted is not None and wanted in found:
        return wanted
    reasons = _some([f"line {number}: {reason}" for number, reason in rejected], "; ")
    said = f"; quarantined: {reasons}" if rejected else ""
    if wanted is None:
        raise NoEvidenceError(f"expected landing lines, found none that is accepted{said}. {NEXT}")
    others = f"; there are lines of {_some(sorted(found))}" if found else ""
    raise NoEvidenceError(
        f"expected landing lines of cluster {wanted}, found none that is accepted{others}{said}. "
        f"{NEXT}"
    )


def _some(texts: Sequence[str], between: str = ", ") -> str:
    more = len(texts) - _SHOWN
    return between.join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
