"""What takes long says how many tasks of a stage are done, and how long the rest takes."""

from __future__ import annotations

import re
import time

from pyspark.sql import SparkSession

from featurelib.spark.progress import telling
from featurelib.words import progress


def test_a_long_stage_says_how_far_it_is_and_a_short_one_says_nothing(
    session: SparkSession,
) -> None:
    def work(_: object) -> None:
        time.sleep(0.3)

    numbers = session.sparkContext.parallelize(range(8), 8)
    said: list[str] = []
    with telling(session, "nightly", said.append, every=0.05):
        numbers.foreach(work)
    lines = [re.fullmatch(r"nightly: (\d) of 8 tasks, about 1 minute left", line) for line in said]
    done = [int(line[1]) for line in lines if line]
    assert len(done) == len(said) > 0, said
    assert done == sorted(done)
    said.clear()
    with telling(session, "nightly", said.append):
        numbers.count()
    assert said == []


def test_the_rest_is_said_in_minutes() -> None:
    assert progress(12, 60, "cluster", 61) == "12 of 60 clusters, about 2 minutes left"
    assert progress(1200, 4000, "task", 0.5) == "1,200 of 4,000 tasks, about 1 minute left"
