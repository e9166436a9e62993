"""Turn silver into gold: a verdict on every feature of every cluster, reports and upgrade-all
plans.

./spark-submit.sh audit --tables URI [--out URI] [--as-of newest] [--fail-on blocker]
"""

from __future__ import annotations

from featurelib.cli.entrance import choose_run, run_job, say
from featurelib.cli.night import choose_places, go_on, judge_and_publish
from featurelib.feature import Severity


def main(
    tables: str,
    out: str | None = None,
    fleet: str | None = None,
    config: str | None = None,
    as_of: str | None = None,
    overlay: str | None = None,
    fail_on: Severity | None = None,
    limit: int = 20,
    run: int | None = None,
) -> int:
    """Judge the snapshots of the last refine; then write and print the report."""
    places = choose_places("", tables, out, fleet, config, as_of, overlay)
    number = choose_run(run)
    say(f"audit: run {number}, tables {places.tables}; starting Spark …")
    from featurelib.spark.session import open_session
    from featurelib.spark.store import Store

    store = Store(open_session("featurelib audit"), places.tables)
    with store.hold(number, "audit", say):
        number = go_on(store, run, number)
        return judge_and_publish(store, places, number, fail_on, limit)


if __name__ == "__main__":
    run_job(main)
