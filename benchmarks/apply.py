"""`featurelib apply` and `featurelib check` against the real tool, on three real Kafka nodes.

    python -m benchmarks.apply [--repeat 5]

Both sides finalize one feature level that is not there yet, as whole commands: `apply` looks at the
cluster, compares it with what was approved, judges, validates, sends, and looks again; Kafka's tool
describes once and upgrades once, and does none of that. `check` looks at all nodes and judges;
Kafka's tool describes. A bare Python start stands beside.

The tool runs with the options that Kafka's own kafka-run-class.sh gives it, and without an archive
of classes, as an operator starts it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.measure import Ratio, clock, scratch, show_ratios, show_table, take_turns, watched
from tests.backends.rig.cluster import FEATURES_TOOL, RunningCluster
from tests.backends.rig.kraft import Node, start_kraft

FEATURELIB = (sys.executable, "-m", "featurelib")
# Compiled modules are kept, as on anybody's machine; the first round compiles, and does not count.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
FEATURE, LEVEL = "eligible.leader.replicas.version", 1
MOST_SECONDS = 2.0  # over a bare Python start
# What bin/kafka-run-class.sh of Kafka 4 gives a tool (KAFKA_HEAP_OPTS, KAFKA_JVM_PERFORMANCE_OPTS).
OPTIONS = (
    "-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)  # fmt: skip


def run(repeat: int, folder: Path | None) -> tuple[dict[str, float], list[Ratio]]:
    """Median seconds of each side, and their ratios."""
    with scratch(folder) as home:
        nodes = [Node(id=number) for number in (1, 2, 3)]
        cluster = start_kraft(home / "cluster", nodes, release_version="4.1", features={FEATURE: 0})
        try:
            sides: dict[str, Callable[[], float]] = {
                "bare Python start": partial(_clocked, sys.executable, "-c", "pass"),
                "featurelib apply": partial(_apply, cluster, home),
                "kafka-features, describe and upgrade": partial(_tool, cluster),
                "featurelib check": partial(_check, cluster),
                "kafka-features, describe": partial(_describe, cluster),
            }
            with watched() as machine:
                seconds = take_turns(sides, repeat)
        finally:
            cluster.stop()
    bare, ours, tool, checked, described = seconds.values()
    ratios = [
        Ratio(what="apply / kafka-features", of=ours, to=tool, bar=1.0),
        Ratio(what="check / kafka-features describe", of=checked, to=described, bar=1.5),
        Ratio(what="apply over a bare start / 2 s", of=ours - bare, to=MOST_SECONDS, bar=1.0),
    ]
    return seconds, machine.beside(ratios)


def _apply(cluster: RunningCluster, home: Path) -> float:
    """Only the last command is timed; the level is taken away again afterwards."""
    reached = ("--bootstrap", cluster.bootstrap, "--controllers", cluster.controller_bootstrap)
    plan, approval = home / "plan.json", home / "plan.approval.json"
    plan.unlink(missing_ok=True)
    approval.unlink(missing_ok=True)
    wanted = ("plan", "upgrade", *reached, "--feature", f"{FEATURE}={LEVEL}", "--out", str(plan))
    _run(*FEATURELIB, *wanted)
    _run(*FEATURELIB, "approve", str(plan), "--expires", "1h", "--yes", "--out", str(approval))
    carried = ("apply", str(plan), "--approval", str(approval), *reached, "--yes", "--json")
    journal = ("--journal", str(home / "journal.sqlite"))
    said = []
    taken = clock(lambda: said.append(_run(*FEATURELIB, *carried, *journal)))
    assert json.loads(said[0])["outcome"] == "applied", said[0]
    _lower(cluster)
    return taken


def _tool(cluster: RunningCluster) -> float:
    def both() -> None:
        _features(cluster, "describe")
        _features(cluster, "upgrade", "--feature", f"{FEATURE}={LEVEL}")

    taken = clock(both)
    _lower(cluster)
    return taken


def _lower(cluster: RunningCluster) -> None:
    _features(cluster, "downgrade", "--feature", f"{FEATURE}=0")


def _check(cluster: RunningCluster) -> float:
    reached = ("--bootstrap", cluster.bootstrap, "--controllers", cluster.controller_bootstrap)
    return _clocked(*FEATURELIB, "check", *reached)


def _describe(cluster: RunningCluster) -> float:
    return clock(lambda: _features(cluster, "describe"))


def _features(cluster: RunningCluster, *words: str) -> None:
    """Run Kafka's tool as its shell script does."""
    path = ":".join(map(str, cluster.java.jars))
    asked = ("--bootstrap-server", cluster.bootstrap, *words)
    _run(cluster.java.program, *OPTIONS, "-cp", path, FEATURES_TOOL, *asked)


def _clocked(*words: str) -> float:
    return clock(lambda: _run(*words))


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    return _checked(done)


def _checked(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, f"{done.args}: {done.stdout}{done.stderr}"
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.apply", description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--scratch", type=Path, help="where to put what is made up")
    given = parser.parse_args(arguments)
    seconds, ratios = run(given.repeat, given.scratch)
    rows = [(what, f"{taken:.2f} s") for what, taken in seconds.items()]
    show_table("whole commands, median", ("command", "time"), rows)
    show_ratios("ratios", ratios)
    return int(any(ratio.verdict == "missed" for ratio in ratios))


if __name__ == "__main__":
    sys.exit(main())
