"""Tables of the samples, made once for all tests of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.questions.nights import RUN, write_histories, write_night
from tests.report.samples import read_samples


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of one night, with their histories."""
    root = tmp_path_factory.mktemp("tables")
    write_night(root, RUN, read_samples().batch)
    write_histories(root, RUN)
    return root
