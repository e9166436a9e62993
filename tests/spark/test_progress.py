"""What takes long says for how long it has been at work."""

from __future__ import annotations

import re
import time

from featurelib.spark.hold import telling
from featurelib.words import progress


def test_a_long_job_gives_signs_of_life_and_a_short_one_says_nothing() -> None:
    said: list[str] = []
    with telling("nightly", said.append, every=0.05):
        time.sleep(0.3)
    assert len(said) > 1
    assert all(re.fullmatch(r"nightly: at work for \d+ s", line) for line in said), said
    said.clear()
    with telling("nightly", said.append):
        pass
    assert said == []


def test_the_rest_is_said_in_minutes() -> None:
    assert progress(12, 60, "cluster", 61) == "12 of 60 clusters, about 2 minutes left"
    assert progress(1200, 4000, "task", 0.5) == "1,200 of 4,000 tasks, about 1 minute left"
