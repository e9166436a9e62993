"""Turn landing files into bronze: every line once, counted, with a reason if it is quarantined.

./spark-submit.sh ingest --landing FOLDER --tables FOLDER [--run yyyymmddHHMMSS]
"""

from __future__ import annotations

from featurelib.cli.entrance import choose_run, run_job, say
from featurelib.cli.night import expect_folder, expect_landing, go_on
from featurelib.spark.ingest import ingest
from featurelib.spark.session import open_session
from featurelib.spark.store import Store


def main(landing: str, tables: str, run: int | None = None) -> int:
    """Read new and changed landing files into the bronze tables."""
    expect_landing(landing)
    expect_folder("--tables", tables)
    number = choose_run(run)
    say(f"ingest: reading {landing}, run {number}")
    store = Store(open_session("featurelib ingest"), tables)
    with store.hold(number, "ingest", say):
        number = go_on(store, run, number)
        ingest(store, landing, number, say)
    return 0


if __name__ == "__main__":
    run_job(main)
