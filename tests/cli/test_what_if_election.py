"""`featurelib what-if --ibp`: whole outputs, JSON, refusals; and the same from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import featurelib
from featurelib.core.features_znode import ZnodeChange, ZnodeReason
from featurelib.errors import ConfigError
from featurelib.questions.election import Doubt
from featurelib.view.questions import CHANGES, DOUBTS, REASONS
from tests.cli.commands import run
from tests.report.samples import SAMPLES

FLEET = str(SAMPLES / "fleet.toml")


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def capture(name: str) -> str:
    return str(SAMPLES / name)


def ask(name: str, version: str, *more: str) -> tuple[int, str, str]:
    words = ("--capture", capture(name), "--fleet", FLEET, "--ibp", version, *more)
    return run("what-if", *words)


@pytest.mark.parametrize("text", ["", "4.0", "2.7-IV9", "latest"])
def test_a_protocol_version_that_there_is_not_is_a_usage_error(text: str) -> None:
    code, out, err = ask("zk-282-ranges", text)
    assert (code, out) == (2, "")
    assert f"--ibp {text}: expected an inter.broker.protocol.version of ZooKeeper mode" in err


def test_from_python_a_copy_of_the_cluster_then_does_what_was_said(tmp_path: Path) -> None:
    file = str(tmp_path / "copy.db")
    cluster = featurelib.embedded(file, capture=capture("zk-282-ranges"))
    found = featurelib.what_if(cluster, ibp="2.6")
    assert found.value.election is not None
    assert found.value.election.settled is not None
    assert "2 finalized levels LOST" in found.text
    with pytest.raises(ConfigError, match=r"--ibp nine: expected an inter\.broker\.protocol"):
        featurelib.what_if(cluster, ibp="nine")


def test_every_change_reason_and_doubt_has_its_words() -> None:
    assert (set(CHANGES), set(REASONS), set(DOUBTS)) == (
        set(ZnodeChange),
        set(ZnodeReason),
        set(Doubt),
    )
