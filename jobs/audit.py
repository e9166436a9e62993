"""Silver to gold: a verdict on every feature of every cluster, reports and upgrade-all plans.

./spark-submit.sh audit --tables URI [--out URI] [--as-of newest] [--fail-on blocker]
"""

from __future__ import annotations

from featurelib.cli.entrance import Tables, choose_run, run_job, say
from featurelib.cli.night import (
    AsOf,
    Config,
    FailOn,
    FleetFile,
    Limit,
    Out,
    Overlay,
    RunNumber,
    choose_places,
    go_on,
    judge_and_publish,
)


def main(
    tables: Tables,
    out: Out = None,
    fleet: FleetFile = None,
    config: Config = None,
    as_of: AsOf = None,
    overlay: Overlay = None,
    fail_on: FailOn = None,
    limit: Limit = 20,
    run: RunNumber = None,
) -> int:
    """Judge what refine knows; then write and print the report."""
    places = choose_places("", tables, out, fleet, config, as_of, overlay)
    number = choose_run(run)
    say(f"audit: run {number}, tables {places.tables}; starting Spark …")
    from featurelib.spark.session import open_session
    from featurelib.spark.store import Store

    store = Store(open_session("featurelib audit"), places.tables)
    with store.hold(number, "audit"):
        number = go_on(store, run, number)
        return judge_and_publish(store, places, number, fail_on, limit, None)


if __name__ == "__main__":
    run_job(main)
