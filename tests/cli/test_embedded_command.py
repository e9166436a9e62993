"""`featurelib embedded unregister`: a broker that is gone is taken out of the cluster in a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from featurelib.catalogue import load
from featurelib.feature import Role
from tests.backends.simulator import Simulated
from tests.cli.commands import run

GHOST = str(Path(__file__).parents[2] / "data" / "samples" / "ghost-broker")


@pytest.fixture
def ghost(tmp_path: Path) -> str:
    """A file with the sample whose broker 2 is gone and still registered."""
    path = str(tmp_path / "ghost.db")
    assert run("embedded", "make", path, "--capture", GHOST)[0] == 0
    return path


def brokers(path: str) -> list[int]:
    with Simulated(path, load().tables) as cluster:
        return sorted(node.node_id for node in cluster.cluster.nodes if node.role == 0)


def test_an_unregistered_broker_is_gone_and_the_others_stay(ghost: str) -> None:
    before = brokers(ghost)
    code, out, err = run("embedded", "unregister", ghost, "--node", "2")
    assert (code, err) == (0, "")
    assert "broker 2 is unregistered" in out
    assert before == [1, 2]
    assert brokers(ghost) == [1]


def test_a_controller_is_unregistered_from_metadata_version_33_on_and_no_voter(
    tmp_path: Path,
) -> None:
    """KIP-1312; of voters it is refused (KAFKA-20865)."""
    path = str(tmp_path / "new.db")
    assert run("embedded", "make", path, "--software", "4.4", "--controllers", "1")[0] == 0
    with Simulated(path, load().tables) as cluster:
        before = cluster.cluster
        voter = next(node for node in before.nodes if node.role is Role.CONTROLLER)
        observer = replace(voter, node_id=102, voter=False)
        cluster.put(replace(before, nodes=(*before.nodes, observer)))
    words = ("embedded", "unregister", path, "--controller", "--node")
    code, _, err = run(*words, str(voter.node_id))
    assert (code, "one of the controllers that do not vote 102" in err) == (2, True)
    code, out, _ = run(*words, "102")
    assert (code, "controller 102 is unregistered" in out) == (0, True)
    with Simulated(path, load().tables) as cluster:
        assert cluster.cluster.nodes == before.nodes


def test_below_33_no_controller_is_unregistered(ghost: str) -> None:
    code, _, err = run("embedded", "unregister", ghost, "--controller", "--node", "1")
    assert (code, "expected metadata.version 33 or above, found 25" in err) == (2, True)


def test_a_broker_that_is_not_there_is_refused_and_nothing_changes(ghost: str) -> None:
    code, _, err = run("embedded", "unregister", ghost, "--node", "7")
    assert code == 2
    assert "7" in err
    assert brokers(ghost) == [1, 2]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("unregister", "GHOST"), "expected --node ID"),
        (("unregister", "nowhere.db", "--node", "2"), "no such file"),
        (("make", "other.db", "--node", "2"), "with unregister only"),
        (("stop", "GHOST"), "expected make or unregister"),
    ],
)
def test_what_cannot_be_done_says_what_was_expected(
    ghost: str, words: tuple[str, ...], says: str
) -> None:
    code, _, err = run("embedded", *(ghost if word == "GHOST" else word for word in words))
    assert code == 2
    assert says in err
    assert not Path("nowhere.db").exists()
