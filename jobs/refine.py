"""Turn bronze into silver: the histories, and one snapshot row per cluster.

./spark-submit.sh refine --tables FOLDER [--as-of newest]
"""

from __future__ import annotations

from featurelib.cli.entrance import choose_run, run_job, say
from featurelib.cli.night import expect_folder, go_on
from featurelib.source import parse_as_of
from featurelib.spark.refine import refine
from featurelib.spark.session import open_session
from featurelib.spark.store import Store


def main(tables: str, as_of: str | None = None, run: int | None = None) -> int:
    """Bring the silver tables up to the newest ingest.

    Lines dated more than five minutes after --as-of wait in bronze for their time.
    """
    expect_folder("--tables", tables)
    when, number = parse_as_of(as_of), choose_run(run)
    say(f"refine: tables {tables}")
    store = Store(open_session("featurelib refine"), tables)
    with store.hold(number, "refine", say):
        number = go_on(store, run, number)
        newest = refine(store, say, as_of=when, run=number)
    say(f"refine: up to ingest run {newest}")
    return 0


if __name__ == "__main__":
    run_job(main)
