"""What is collected of a real cluster, and what is judged of its lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from featurelib.audit.cluster_view import NO_FLEET, ClusterView
from featurelib.catalogue import load
from featurelib.config.fleet import Fleet
from featurelib.feature import UpgradeType
from tests.backends.rig.cluster import RunningCluster
from tests.cli.commands import run
from tests.seeing import see
from tests.walk.wire import Line

CATALOGUE, METADATA = load(), "metadata.version"
PATIENCE_SECONDS = 20.0  # while a controller is elected
Row = dict[str, Any]


def collected(out: Path, *ways: str) -> tuple[list[bytes], str]:
    """The lines that `featurelib collect` lands in `out`, and what it said."""
    code, _, said = run("collect", *ways, "--timeout", "5", "--out", str(out))
    assert code == 0, said
    (path,) = out.iterdir()
    return path.read_bytes().splitlines(), said


def ways(cluster: RunningCluster) -> tuple[str, ...]:
    """The options that reach it, controllers too."""
    return ("--bootstrap", cluster.bootstrap, "--controllers", cluster.controller_bootstrap)


def levels(address: str) -> dict[str, int]:
    """What is finalized above 0, as one listener shows it; not asked for with our own client."""
    with Line(address) as line:
        return line.levels()


def judged(lines: Iterable[bytes], fleet: Fleet = NO_FLEET) -> ClusterView:
    return see(lines, catalogue=CATALOGUE, as_of=None, max_age=10**15, fleet=fleet)


def verdict(view: ClusterView, feature: str = METADATA) -> str:
    rows = view.judged.readiness.to_pylist()
    return str(next(row["verdict"] for row in rows if row["feature"] == feature))


def findings(view: ClusterView) -> dict[tuple[str, str | None, int | None], Row]:
    """By code, role and node."""
    rows = view.judged.findings.to_pylist()
    return {(row["code"], row["role"], row["node_id"]): row for row in rows}


def validated(cluster: RunningCluster, level: int, feature: str = METADATA) -> str:
    """Return the real controller's refusal to validate a level; "" if it agrees."""
    with Line(cluster.nodes[1].broker, PATIENCE_SECONDS) as line:  # a broker forwards to the leader
        reply = line.update_features([(feature, level, UpgradeType.UPGRADE)], validate_only=True)
    return "" if reply.is_good else str(reply)


def until(true: Callable[[], bool], seconds: float = 90) -> None:
    """Ask again until it is so: leaders resign, and nodes learn by and by."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.2)
