"""The tables of one night of the samples, of two nights; and Spark's session."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from featurelib.catalogue import load
from featurelib.landing import Landing, read
from featurelib.snapshot import ClusterState, fold_lines, snapshot_rows
from tests.questions.conftest import tables as tables
from tests.questions.nights import (
    NAMES,
    RUN,
    lines_of,
    read_samples_id,
    write_histories,
    write_night,
)
from tests.report.samples import read_samples
from tests.spark.conftest import session as session

NIGHT_BEFORE = RUN - 1_000_000
NOT_YET = ("k40-fresh", "refused-35")  # clusters that landed in the second night only
FIRST_PART = 0.8  # of the lines of a cluster, which the first night knows


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder whose name is always as long, so that lines wrap where they wrapped."""
    made = Path(mkdtemp(prefix="golden-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="session")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of two nights: in the first one each cluster's last lines are missing."""
    root, catalogue = tmp_path_factory.mktemp("nights"), load()
    rows: list[tuple[str, ClusterState]] = []
    for name in NAMES:
        landed = [(read(raw), read_samples_id(raw)) for raw in lines_of(name)]
        known = [(line, number) for line, number in landed if isinstance(line, Landing)]
        known = sorted(known, key=lambda one: one[0].observed_at or 0)
        if name not in NOT_YET:
            first = known[: max(1, int(len(known) * FIRST_PART))]
            rows.append((known[0][0].cluster, fold_lines(first, catalogue)))
    write_night(root, NIGHT_BEFORE, snapshot_rows(rows))
    write_night(root, RUN, read_samples().batch)
    write_histories(root, RUN)
    return root
