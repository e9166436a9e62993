"""Take the results of unchanged clusters from the last run.

Input: the gold tables of the last run that ended. Output: an EarlierRun for the workers, who leave
unchanged clusters out, and those clusters' rows of gold. Easy to get wrong: a result depends on
more than its cluster's row. `digest_conditions` must hold all the rest except ages: workers compare
every time in a row with the clock.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from featurelib import tables
from featurelib.audit.audit import Judged
from featurelib.audit.gold import PARTS, RESULTS
from featurelib.catalogue import Catalogue
from featurelib.catalogue import load as load_catalogue
from featurelib.config.files import digest_code
from featurelib.config.fleet import Fleet
from featurelib.config.settings import Settings, mutes_of
from featurelib.core.dialect import STRICT
from featurelib.feature import Verdict
from featurelib.rows import NONE, TableRows, join_rows
from featurelib.spark.judging import EarlierRun, WaitingClusters
from featurelib.spark.log import Wanted
from featurelib.spark.store import Store


def digest_conditions(
    fleet: Fleet, settings: Settings, catalogue: Catalogue | None, as_of: int, is_newest: bool
) -> str | None:
    """Return a digest of everything that decides a result, except data and ages; None if
    featurelib's source is not available. `is_newest`: judged as of the newest line."""
    if not (code := digest_code()):
        return None
    known = catalogue or load_catalogue()
    ended = [mute.ends <= as_of for mute in mutes_of(settings.mute, fleet, "settings")]
    inputs = (fleet, settings, ended, known.rows, known.label, STRICT, code, is_newest)
    return sha256(msgspec.json.encode(inputs, order="deterministic")).hexdigest()


def find_last(
    store: Store, waiting: WaitingClusters, conditions: str | None, as_of: int
) -> EarlierRun | None:
    """Return the last run if its results can be reused; None = judge every cluster."""
    run = store.newest_run(tables.AUDIT_RUN)
    if run is None or conditions is None:
        return None
    for table in (*RESULTS.values(), tables.AUDIT_RUN):
        if store.newest_run(table) != run or store.find_change(table):
            return None
    of_run: Wanted = ("run", "=", run)
    ended = store.rows(tables.AUDIT_RUN, [of_run], ["as_of", "conditions"])
    then = int(ended.numbers("as_of")[0])
    if ended["conditions"].to_pylist() != [conditions] or then > as_of:
        return None
    plans = store.rows(tables.UPGRADE_PLANS, [of_run], ["cluster", "checksum", "newest_line"])
    return EarlierRun(run=run, as_of=then, rows=rows_without_ready(plans, waiting))


def rows_without_ready(plans: TableRows, waiting: WaitingClusters) -> dict[str, tuple[int, int]]:
    """Return `rows` of EarlierRun from the last run's plans, without READY clusters."""
    marks = zip(*(plans.numbers(n).tolist() for n in ("checksum", "newest_line")), strict=True)
    rows = dict(zip(plans["cluster"].to_pylist(), marks, strict=True))
    for cluster, features in waiting.items():
        if any(before.verdict == Verdict.READY for before in features.values()):
            rows.pop(cluster, None)
    return {cluster: mark for cluster, mark in rows.items() if NONE not in mark}


def with_unchanged(store: Store, judged: Judged, run: int, unchanged: set[str]) -> Judged:
    """Return the judgements with the last run's rows for unchanged clusters added."""
    of: list[Wanted] = [("run", "=", run), ("cluster", "in", sorted(unchanged))]
    rows = {part: store.rows(table, of, schema.names) for part, (table, schema) in PARTS.items()}
    return Judged(**{part: join_rows([getattr(judged, part), rows[part]]) for part in PARTS})  # type: ignore[arg-type]
