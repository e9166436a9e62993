"""A few of the faults of `make faults`, each at its worst moment; the many are in sweep.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.backends.rig.jars import UnavailableError
from tests.faults.one_way import DOWN, UP
from tests.faults.stage import QUIET_S, Running, Said
from tests.faults.sweep import FEATURE, Play, Run, figures, run, shape

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """One controller behind a line that can be cut, and one broker."""
    try:
        with shape("cut", tmp_path_factory.mktemp("faults")) as made:
            yield made
    except UnavailableError as missing:
        pytest.skip(f"real Kafka: {missing}")


def levels(play: Play) -> list[tuple[str, int]]:
    return play.stage.records(play.leader)


def applied_at(play: Play, fault: Callable[[], None]) -> tuple[Said, int]:
    """How apply ended where `fault` came with its request on the way; the level it asked for."""
    assert play.line is not None
    level = 1 - dict(levels(play)).get(FEATURE, 0)
    files = play.stage.plan(FEATURE, level, timeout_ms=300)
    play.line.at_update = fault
    said = play.stage.apply(*files).end()
    assert play.line.at_update is None, said
    return said, level


def fates(play: Play) -> list[str]:
    return [entry.fate.value for entry in play.stage.entries()]


def test_a_frozen_controller_leaves_a_request_open_and_carries_it_out_when_it_goes_on(
    play: Play,
) -> None:
    """As a pause of its virtual machine, or a long collection of garbage; 5 of 5 were called
    rejected, and were carried out."""
    before = levels(play)
    said, level = applied_at(play, lambda: play.stage.freeze(1))
    assert said.code == 4, said
    assert said.last.startswith("Unknown: cluster ")
    assert "it may still be applied: nobody says which controller leads now" in said.last
    assert "Run: featurelib resume --bootstrap " in said.last
    assert "nothing was written" not in said.out
    still = play.stage.resume()
    assert (still.code, fates(play)[-1]) == (4, "unknown")
    assert "still unknown: " in still.out
    play.stage.thaw(1)
    settled = play.stage.resume(timeout_s=10)  # the moment it goes on
    assert settled.code == 0, settled
    assert fates(play)[-1] == "applied"
    time.sleep(QUIET_S)
    assert levels(play) == [*before, (FEATURE, level)]


def test_a_controller_that_is_killed_with_the_request_in_its_socket_never_carries_it_out(
    play: Play,
) -> None:
    before = levels(play)
    said, _ = applied_at(play, lambda: play.stage.freeze(1))
    assert said.code == 4, said
    play.stage.kill(1)
    assert play.stage.resume().code == 4, "nobody can know"
    play.stage.fix()
    play.stage.settle()
    settled = play.stage.resume(timeout_s=10)
    assert settled.code == 0, settled
    assert fates(play)[-1] == "not applied"
    assert "controller 1 has handled all that was sent before, in epoch " in settled.out
    time.sleep(QUIET_S)
    assert levels(play) == before


@pytest.mark.parametrize("way", [UP, DOWN])
def test_what_a_cut_line_lost_is_settled_once_the_controller_has_answered(
    play: Play, way: str
) -> None:
    before, line = levels(play), play.line
    assert line is not None
    said, level = applied_at(play, lambda: line.cut.add(way))
    assert said.code == (4 if way == UP else 0), said  # what was carried out a broker shows
    line.cut.clear()
    assert play.stage.resume(timeout_s=10).code == 0
    assert fates(play)[-1] == ("not applied" if way == UP else "applied")
    time.sleep(QUIET_S)
    assert levels(play) == (before if way == UP else [*before, (FEATURE, level)])


def test_apply_that_is_killed_with_its_request_on_the_way_is_resumed_and_goes_on(
    play: Play,
) -> None:
    before, line, applying = levels(play), play.line, list[Running]()
    assert line is not None
    level = 1 - dict(before).get(FEATURE, 0)
    files = play.stage.plan(FEATURE, level, timeout_ms=300)
    line.at_update = lambda: applying[0].kill()
    applying.append(play.stage.apply(*files))
    assert applying[0].end().code == -9
    assert fates(play)[-1] == "unknown"
    refused = play.stage.apply(*files).end()
    assert (refused.code, "First run `featurelib resume" in refused.err) == (4, True), refused
    assert play.stage.resume(timeout_s=10).code == 0
    time.sleep(QUIET_S)
    known = {"applied": [*before, (FEATURE, level)], "not applied": before}
    assert levels(play) == known[fates(play)[-1]]
    again = play.stage.apply(*files).end()
    assert again.code == 0, again
    time.sleep(QUIET_S)
    assert levels(play) == [*before, (FEATURE, level)], "a request was sent twice, or never"


def test_a_run_of_the_sweep_says_what_it_did_and_what_came_of_it(play: Play) -> None:
    made = run(play, "cut", 7, levels(play))
    assert isinstance(made, Run)
    assert made.wrong == []
    assert made.outcome in ("applied", "not applied", "rejected", "unknown")
    counted = figures([{**vars_of(made)}])
    assert counted[-1] == "# left open after everything was fixed: 0; wrong: 0"
    wrong = {**vars_of(made), "wrong": ["rejected, and the log has it"], "outcome": "unknown"}
    assert figures([wrong])[-1] == "# left open after everything was fixed: 1; wrong: 1"


def vars_of(made: Run) -> dict[str, object]:
    return {name: getattr(made, name) for name in made.__slots__}
