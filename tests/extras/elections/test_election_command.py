"""The command `featurelib election`: what it prints, and what it rejects."""

from __future__ import annotations

from pathlib import Path

import pytest

from featurelib.core.features_znode import ZnodeChange, ZnodeReason
from featurelib.errors import ConfigError
from featurelib.extras.elections import election as foresee
from featurelib.extras.elections.foresee import WORDS, Doubt
from featurelib.extras.sandbox import sandbox
from tests.report.samples import SAMPLES


def test_from_python_a_copy_of_the_cluster_then_does_what_was_said(tmp_path: Path) -> None:
    file = str(tmp_path / "copy.db")
    cluster = sandbox(file, capture=str(SAMPLES / "zk-282-ranges"))
    found = foresee(cluster, "2.6")
    assert found.value.election.settled is not None
    assert "2 finalized levels LOST" in found.text
    with pytest.raises(ConfigError, match=r"--ibp nine: This is no inter\.broker\.protocol"):
        foresee(cluster, "nine")


def test_every_change_reason_and_doubt_has_its_words() -> None:
    for name, words in (("changes", ZnodeChange), ("reasons", ZnodeReason), ("doubts", Doubt)):
        assert WORDS[name].keys() == set(words)
