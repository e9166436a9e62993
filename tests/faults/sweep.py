"""Many runs, each with its own fault at its own moment, drawn from a seed: `make faults`.

    python -m tests.faults.sweep --runs 100 --seed 7 [--shape one]

Each run moves one level up or down, something goes wrong while the request is under way, and then
everything is fixed. After it the journal and what was said are compared with the metadata log,
record by record. A run is a line of JSON on stdout; the last lines are the figures.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.kraft import ONE_LEADER, Node, start_kraft
from tests.faults.one_way import DOWN, UP, Line, one_way
from tests.faults.stage import LIMIT_S, QUIET_S, Running, Said, Stage

HEAP = ("-Xmx160m",)
TIMEOUTS_MS = (1, 300, 1500, 3000)
# Seconds after apply said that it sends: the request is not read yet, is handled, was handled.
MOMENTS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.4)
FEATURE = "share.version"  # 0 or 1
STALLED = "stalled"  # the shape in which apply itself stands still
OTHER_CLOCK = "+7m"  # of a process that would take a lock that a clock ends


@dataclass(slots=True)
class Play:
    """One shape of cluster with what may go wrong there."""

    stage: Stage
    leader: int  # at last view
    controllers: tuple[int, ...]
    broker: int
    line: Line | None = None


@dataclass(slots=True, kw_only=True)
class Run:
    """What was done and what came of it."""

    seed: int
    shape: str
    fault: str
    moment_s: float
    lasts_s: float
    timeout_ms: int
    code: int = 0
    said: str = ""
    resumes: list[str] = field(default_factory=list)
    outcome: str = ""
    written: bool = False
    wrong: list[str] = field(default_factory=list)


@contextmanager
def shape(name: str, home: Path) -> Iterator[Play]:
    """A running cluster of that shape."""
    with ExitStack() as stack:

        def started(*nodes: Node, release_version: str) -> RunningCluster:
            cluster = start_kraft(home, nodes, release_version=release_version)
            stack.callback(cluster.stop)
            return cluster

        controller = Node(id=1, roles="controller", java_options=HEAP)
        others = [Node(id=i, roles="controller", java_options=HEAP) for i in (2, 3)]
        others = others if name == "three" else []
        waits = {} if others else ONE_LEADER
        broker = Node(id=4, roles="broker", java_options=HEAP, properties=waits)
        cluster = started(controller, *others, broker, release_version="4.2")
        reach: tuple[str, ...] = ("--bootstrap", cluster.bootstrap)
        line = None
        if name == "cut":
            line = stack.enter_context(one_way(cluster.nodes[1].controller))
            reach += ("--controllers", f"1@{line.address}")
        stage = Stage(cluster, home, reach, is_handed_on=name == "handed")
        ids = tuple(node.id for node in (controller, *others))
        play = Play(stage, 1, ids, broker.id, line)
        stack.callback(lambda: stage.thaw(*stage.frozen))
        play.leader = stage.settle()
        yield play


# What goes wrong: each gives what is to be done when the time of the fault is over.

Fault = Callable[[Play], Callable[[], None]]


def freeze(*who: str) -> Fault:
    def begin(play: Play) -> Callable[[], None]:
        nodes = nodes_of(play, who)
        play.stage.freeze(*nodes)
        return lambda: play.stage.thaw(*nodes)

    return begin


def freeze_then_kill(*who: str) -> Fault:
    def begin(play: Play) -> Callable[[], None]:
        nodes = nodes_of(play, who)
        play.stage.freeze(*nodes)
        return lambda: play.stage.kill(*nodes)

    return begin


def kill(*who: str) -> Fault:
    def begin(play: Play) -> Callable[[], None]:
        play.stage.kill(*nodes_of(play, who))
        return lambda: None

    return begin


def cut(*ways: str) -> Fault:
    def begin(play: Play) -> Callable[[], None]:
        assert play.line is not None
        line = play.line
        line.cut |= set(ways)
        return line.cut.clear

    return begin


def nodes_of(play: Play, who: tuple[str, ...]) -> list[int]:
    others = [node for node in play.controllers if node != play.leader]
    known = {
        "leader": [play.leader],
        "follower": others[:1],
        "broker": [play.broker],
        "controllers": list(play.controllers),
    }
    return [node for word in who for node in known[word]]


FAULTS: dict[str, dict[str, Fault]] = {
    "one": {
        "the controller is frozen": freeze("leader"),
        "the controller is frozen, then killed": freeze_then_kill("leader"),
        "the controller is killed": kill("leader"),
        "the broker is frozen": freeze("broker"),
        "controller and broker are frozen": freeze("leader", "broker"),
    },
    "three": {
        "the leader is frozen": freeze("leader"),
        "the leader is frozen, then killed": freeze_then_kill("leader"),
        "the leader is killed": kill("leader"),
        "a follower is frozen": freeze("follower"),
        "leader and a follower are frozen": freeze("leader", "follower"),
        "all controllers are frozen": freeze("controllers"),
    },
    "handed": {
        "the forwarding broker is frozen": freeze("broker"),
        "the forwarding broker is killed": kill("broker"),
        "the forwarding broker is frozen, then killed": freeze_then_kill("broker"),
        "the controller is frozen": freeze("leader"),
        "the controller is killed": kill("leader"),
        "controller and broker are frozen": freeze("leader", "broker"),
    },
    STALLED: {
        "apply is frozen": freeze(),
        "apply is frozen, its approval withdrawn": freeze(),
    },
    "cut": {
        "what goes to the controller is lost": cut(UP),
        "what comes from the controller is lost": cut(DOWN),
        "both ways are cut": cut(UP, DOWN),
    },
}


def run(play: Play, name: str, seed: int, before: list[tuple[str, int]]) -> Run:
    """One run, drawn from its seed; `before` are the log's levels so far."""
    rng = random.Random(f"{name} {seed}")
    fault = rng.choice(sorted(FAULTS[name]))
    timeout_ms = rng.choice(TIMEOUTS_MS)
    made = Run(
        seed=seed,
        shape=name,
        fault=fault,
        moment_s=round(rng.choice(MOMENTS) * rng.uniform(0.5, 1.5), 4),
        lasts_s=round(rng.choice((0.3, 1.0, timeout_ms / 1000 + 1, 8.0, 999.0)), 2),
        timeout_ms=timeout_ms,
    )
    dies = rng.random() < 0.2  # apply itself, at a moment of its own
    dies_after = rng.uniform(0.0, 2.0)
    stage, level = play.stage, 1 - dict(before).get(FEATURE, 0)
    plan, approved = stage.plan(FEATURE, level, timeout_ms=timeout_ms)
    earlier = len(stage.entries())
    applying = stage.apply(plan, approved)
    if name == STALLED and applying.wait_for("sending step"):
        time.sleep(made.moment_s)
        withdrawn = approved if "withdrawn" in fault else None
        made.wrong += _stall(play, made, applying, plan, withdrawn)
    elif applying.wait_for("sending step"):
        time.sleep(made.moment_s)
        ends, began = FAULTS[name][fault](play), time.monotonic()
        if dies:
            made.fault += "; apply is killed"
            time.sleep(dies_after)
            applying.kill()
        while time.monotonic() < began + made.lasts_s and not applying.has_ended():
            time.sleep(0.02)
        if made.lasts_s > 900 and applying.has_ended() and rng.random() < 0.5:
            made.resumes.append(_short(stage.resume()))  # while it lasts
        ends()
    said = applying.end()
    made.code, made.said = said.code, said.last
    if said.code == 4 and rng.random() < 0.5:
        made.resumes.append(_short(stage.resume()))  # the moment it goes on
    stage.fix()
    play.leader = stage.settle()
    _finish(play, made, before, level, said, earlier)
    return made


def _stall(
    play: Play, made: Run, applying: Running, plan: Path, withdrawn: Path | None
) -> Iterator[str]:
    """Stop apply for `lasts_s` at least, and yield what it sends afterwards that no longer holds.

    Meanwhile a process whose clock is ahead tries to settle its request."""
    stage = play.stage
    applying.signal(signal.SIGSTOP)
    frozen_at = time.time()
    made.lasts_s = min(made.lasts_s, 8.0)
    began = time.monotonic()
    if withdrawn is not None:
        made.resumes.append(_short(stage.withdraw(plan, withdrawn)))
        withdrawn = withdrawn if made.resumes[-1].startswith("0 ") else None
    made.resumes.append(_short(stage.resume(clock=OTHER_CLOCK)))
    refused_or_idle = made.resumes[-1].startswith(("3 error: ", "0 Nothing to settle"))
    if not refused_or_idle and not applying.has_ended():
        yield f"resume beside a frozen apply: {made.resumes[-1]}"
    time.sleep(max(QUIET_S, began + made.lasts_s - time.monotonic()))
    sent = stage.records(play.leader)
    stood_still = time.monotonic() - began
    applying.signal(signal.SIGCONT)
    applying.process.wait(LIMIT_S)
    time.sleep(QUIET_S)
    intents = [entry.intent.at for entry in stage.entries()]
    # Where it stood still before the intent, all is checked after it.
    is_old = withdrawn is not None or max(intents, default=frozen_at) < frozen_at
    if stage.records(play.leader) != sent and is_old:
        yield f"sent after it stood still for {stood_still:.1f} s"


def _short(said: Said) -> str:
    return f"{said.code} {said.out.strip().splitlines()[0] if said.out.strip() else said.last}"


def _finish(
    play: Play, made: Run, before: list[tuple[str, int]], level: int, said: Said, earlier: int
) -> None:
    """Settle what is open, and compare everything with the log; the journal has so many `earlier`
    entries of other runs."""
    stage = play.stage
    if any(entry.is_open for entry in stage.entries()):
        made.resumes.append(_short(stage.resume(timeout_s=5.0)))
    time.sleep(QUIET_S)  # whatever may still be carried out is
    records = stage.records(play.leader)
    new, before[:] = records[len(before) :], records
    made.written = new == [(FEATURE, level)]
    entries = stage.entries()
    made.outcome = entries[-1].fate.value if len(entries) > earlier else "nothing sent"
    made.wrong += _contradictions(made, new, said)
    if made.outcome == "unknown":  # for good: the next run needs a journal of its own
        stage.journals += 1


def _contradictions(made: Run, new: list[tuple[str, int]], said: Said) -> Iterator[str]:
    """What was said and is not so; the journal's outcome is what was said last."""
    if new and not made.written:
        yield f"expected one record at most, found {new}"
    if made.outcome == "applied" and not made.written:
        yield "applied, and no record"
    if made.outcome != "applied" and made.outcome != "unknown" and new:
        yield f"{made.outcome}, and the log has {new}"
    if made.code == 3 and new:
        yield f"apply: {made.said}"
    if made.code in (0, 1) and not made.written:
        yield f"apply: {made.said}"
    for resumed in made.resumes:
        if (": not applied:" in resumed and new) or (": applied:" in resumed and not new):
            yield f"resume: {resumed}"
    if "nothing was written" in said.out and "may" in said.out.partition("nothing was written")[2]:
        yield f"it contradicts itself: {said.out}"
    if made.code == 4 and "featurelib resume" not in said.out + said.err:
        yield f"no next command: {said.out}"


def sweep(names: list[str], runs: int, seed: int) -> int:
    """`runs` runs shared out among the shapes; the number of wrong ones."""
    done = list[Run]()
    for number, name in enumerate(names):
        share = max(1, runs // len(names) + (number < runs % len(names)))
        mine = range(seed + number * 1000, seed + number * 1000 + share)
        with tempfile.TemporaryDirectory() as home, shape(name, Path(home)) as play:
            before = play.stage.records(play.leader)
            for each in mine:
                began = time.monotonic()
                made = run(play, name, each, before)
                done.append(made)
                took = round(time.monotonic() - began, 1)
                print(json.dumps(asdict(made) | {"took_s": took}), flush=True)
    for line in figures([asdict(one) for one in done]):
        print(line)
    return sum(bool(one.wrong) for one in done)


def figures(runs: list[dict[str, object]]) -> list[str]:
    """How many runs of which fault ended how."""
    table = Counter(
        (
            one["shape"],
            str(one["fault"]).removesuffix("; apply is killed"),
            one["outcome"],
            one["written"],
        )
        for one in runs
    )
    lines = [
        f"# {count:4} {shape_}: {fault}: {outcome}, {'written' if written else 'not written'}"
        for (shape_, fault, outcome, written), count in sorted(table.items(), key=str)
    ]
    codes = Counter(one["code"] for one in runs)
    killed = sum("apply is killed" in str(one["fault"]) for one in runs)
    wrong = sum(bool(one["wrong"]) for one in runs)
    left = sum(one["outcome"] == "unknown" for one in runs)
    ended = dict(sorted(codes.items(), key=str))
    lines.append(f"# {len(runs)} runs; apply ended {ended}, killed in {killed}")
    lines.append(f"# left open after everything was fixed: {left}; wrong: {wrong}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--shape", choices=sorted(FAULTS), action="append")
    given = parser.parse_args()
    print(f"# seed {given.seed}", flush=True)
    sys.exit(1 if sweep(given.shape or list(FAULTS), given.runs, given.seed) else 0)


if __name__ == "__main__":
    main()
