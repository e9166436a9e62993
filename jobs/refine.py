"""Bronze to silver: the histories, and one snapshot row a cluster.

./spark-submit.sh refine --tables FOLDER
"""

from __future__ import annotations

from featurelib.cli.entrance import Run, Tables, choose_run, run_job, say
from featurelib.cli.night import expect_folder
from featurelib.spark.refine import refine
from featurelib.spark.session import open_session
from featurelib.spark.store import Store


def main(tables: Tables, run: Run = None) -> int:
    """Bring the silver tables up to the newest ingest."""
    expect_folder("--tables", tables)
    say(f"refine: tables {tables}")
    store = Store(open_session("featurelib refine"), tables)
    with store.hold(choose_run(run), "refine"):
        counts = refine(store, say)
    say(f"refine: {counts.clusters} clusters up to ingest run {counts.run}")
    return 0


if __name__ == "__main__":
    run_job(main)
