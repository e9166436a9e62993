"""The core on one thread, against the plain oracle on the same requests in the same run.

    python -m benchmarks.core [--clusters 5000] [--nodes 100]

The oracle is the slow one of tests/core/controllers: one request at a time, in plain Python. Both
have to agree. CPU seconds of this process are counted; building either side's values is not.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import pyarrow as pa

from benchmarks.builds import catalogue_of
from benchmarks.built_rows import build_rows
from benchmarks.facts import Shape, draw
from benchmarks.measure import Ratio, show_ratios
from featurelib.arrow import batch_of, rows_of
from featurelib.audit.audit import judge as judge_rows
from featurelib.audit.evidence import Conditions
from featurelib.core.batch import NOT_HERE, Batch
from featurelib.core.cluster import Case, build
from featurelib.core.dialect import STRICT, load
from featurelib.core.judge import decide, judge
from featurelib.schema import LAYOUT, SNAPSHOT
from featurelib.snapshot.records import Records, Snapshots
from tests.core.controllers import words
from tests.core.controllers.draw import Drawn
from tests.core.controllers.model import answer
from tests.core.oracle_cases import TABLES, cluster_of, request_of

DIALECT, RELEASE = "kraft-4.2", "4.2.1"
NEW = {"metadata.version": (7, 29), "group.version": (0, 1), "transaction.version": (0, 2),
       "share.version": (0, 1), "kraft.version": (0, 1)}  # fmt: skip
DAY = 24 * 3600 * 1_000_000
OLD = {**NEW, "metadata.version": (7, 27)}
WIDE = {**NEW, "metadata.version": (7, 30)}
ASKED = {"metadata.version": 28, "transaction.version": 2, "share.version": 1, "group.version": 1}


def make(clusters: int, nodes: int) -> list[Drawn]:
    """Clusters with `nodes` brokers in three profiles and three controllers, asked four levels."""
    request = words.Request(
        version=1,
        updates=tuple(words.Update(name, level) for name, level in ASKED.items()),
        sent_to=1000,
        listener=words.CONTROLLER,
    )
    made = []
    for i in range(clusters):
        # In one cluster of four an old build is among the brokers, so that something is refused.
        builds = (NEW, OLD if i % 4 == 0 else NEW, WIDE)
        brokers = [
            words.Node(node_id=n, release=RELEASE, supported=builds[n % 3]) for n in range(nodes)
        ]
        controllers = [
            words.Node(node_id=1000 + n, role=words.CONTROLLER, release=RELEASE, supported=NEW,
                       active=n == 0)
            for n in range(3)
        ]  # fmt: skip
        level = 25 + i % 3
        cluster = words.Cluster(
            release=RELEASE,
            mode="kraft",
            nodes=(*controllers, *brokers),
            finalized={"metadata.version": (level, level), "group.version": (1, 1)},
        )
        made.append(Drawn(DIALECT, cluster, request))
    return made


def cpu(action: Callable[[], object], repeat: int = 7) -> float:
    """The least CPU seconds of a few turns: others on the machine only ever add to it."""
    best = float("inf")
    for _ in range(repeat):
        begin = time.process_time()
        action()
        best = min(best, time.process_time() - begin)
    return best


def run(clusters: int, nodes: int) -> list[Ratio]:
    """Measure and print; returns what the summary repeats."""
    drawn = make(clusters, nodes)
    dialect = load(DIALECT)
    cases: list[Case] = [(cluster_of(case.cluster), request_of(case)) for case in drawn]
    batch, alone = build(cases, dialect, TABLES), build(cases[:1], dialect, TABLES)

    def decided(which: Batch) -> object:
        return decide(which, dialect, judge(which, dialect, TABLES))

    core, one = cpu(lambda: decided(batch)), cpu(lambda: decided(alone), 50)
    few = drawn[:: max(1, clusters // 200)]
    plain = cpu(lambda: [answer(DIALECT, c.cluster, c.request) for c in few], 3)
    _agree(drawn, batch)
    updates = len(batch.updates.level)
    checks = updates * (nodes + 3)
    print(f"core: {clusters:,} clusters x {nodes} nodes in 3 profiles, {len(ASKED)} updates each")
    print(f"  (node, feature) checks a second  {checks / core / 1e6:8.0f} M   bar 100 M")
    print(f"  updates judged a second          {updates / core / 1e6:8.2f} M   bar 1 M")
    print(f"  a batch of one                   {one * 1e3:8.2f} ms  bar 1 ms")
    ratios = [
        Ratio(
            what="core / plain oracle, 10,000 clusters",
            of=core / clusters * 10_000,
            to=plain / len(few) * 10_000,
        )
    ]
    ratios.append(edge())
    show_ratios("core against the plain oracle, and its edge against the core", ratios)
    return ratios


def edge(clusters: int = 2000) -> Ratio:
    """Arrow rows of a fleet to columns, against judging them: verdicts, findings and plans."""
    facts = draw(Shape(clusters=clusters))
    batches = [batch_of(rows) for rows in build_rows(facts)]
    [stored] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    conditions = Conditions(as_of=facts.as_of, max_age=DAY * 3)
    catalogue, dialect = catalogue_of(facts.shape.features), load(STRICT)
    return Ratio(
        what="edge / core, a fleet's rows",
        of=cpu(lambda: _opened(stored)),
        to=cpu(lambda: judge_rows(rows_of(stored, SNAPSHOT), conditions, catalogue, dialect)),
        bar=1.0,
    )


def _opened(stored: pa.RecordBatch) -> list[Records]:
    """Every part of the rows, laid open."""
    snapshots = Snapshots(rows_of(stored, SNAPSHOT))
    return [snapshots[part] for part in LAYOUT]


def _agree(drawn: Sequence[Drawn], batch: Batch) -> None:
    """RuntimeError when the oracle refuses other requests than the core does."""
    dialect = load(DIALECT)
    outcome = decide(batch, dialect, judge(batch, dialect, TABLES))
    for position in range(0, len(drawn), 97):
        case = drawn[position]
        theirs = answer(case.generation, case.cluster, case.request).code != 0
        if theirs != (outcome.failed_by[position] != NOT_HERE):
            raise RuntimeError("the two sides do not agree, so their times mean nothing")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=5000)
    parser.add_argument("--nodes", type=int, default=100)
    given = parser.parse_args(arguments)
    run(given.clusters, given.nodes)


if __name__ == "__main__":
    main()
