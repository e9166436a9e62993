"""A real cluster on which something goes wrong while `featurelib apply` has a request under way.

The commands run as users run them, as processes of their own. What is true is read from the
metadata log with Kafka's own kafka-dump-log, and compared with what the commands said, record by
record.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from featurelib import api
from featurelib.controller.journal import Journal, JournalEntry
from featurelib.errors import FeatureLibError
from featurelib.model import Passed
from featurelib.planning import files
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan
from tests.backends.rig.cluster import RunningCluster

_RUN = "from featurelib.__main__ import main; main()"
# As where the controller cannot be connected to after the look: a broker hands the request on.
_HANDED_ON = (
    "from featurelib.backends.kafka import backend as k; from featurelib.feature import Role; "
    "of = k.candidates; "
    "k.candidates = lambda known: (c for c in of(known) if c[0] is Role.BROKER); "
)
LIMIT_S = 240  # after which a command is said to hang
QUIET_S = 1.5  # in which a request that was kept back is carried out, once all go on


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line of its answer, or of its error."""
        return next(iter(reversed((self.out.strip() or self.err.strip()).splitlines())), "")


@dataclass(slots=True)
class Running:
    """A command under way; `wait_for` reads what it writes to stderr until a text comes."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    _news: threading.Condition = field(default_factory=threading.Condition)
    _reader: threading.Thread | None = None

    def read(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self.lines.append(line)
                self._news.notify_all()

    def wait_for(self, text: str) -> bool:
        """Whether it came before the command ended."""
        until = time.monotonic() + LIMIT_S
        with self._news:
            while not any(text in line for line in self.lines):
                if self.process.poll() is not None or time.monotonic() > until:
                    return any(text in line for line in self.lines)
                self._news.wait(0.002)
        return True

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        self.process.kill()

    def signal(self, number: signal.Signals) -> None:
        """Stop it, or let it go on."""
        self.process.send_signal(number)

    def end(self) -> Said:
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        assert self._reader is not None
        with self.process.stdout as out:
            text = out.read()
        self._reader.join(10)
        self.process.stderr.close()
        return Said(code=self.process.returncode, out=text, err="".join(self.lines))


@dataclass(slots=True)
class Stage:
    """One cluster, one journal, and how the cluster is reached: options of a command line."""

    cluster: RunningCluster
    home: Path
    reach: tuple[str, ...]
    timeout_s: float = 1.0
    frozen: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    journals: int = 1
    is_handed_on: bool = False

    @property
    def journal(self) -> Path:
        return self.home / f"journal-{self.journals}.sqlite"

    # What goes wrong

    def freeze(self, *nodes: int) -> None:
        """The processes stand still; the kernel still takes bytes and connections for them."""
        for node in nodes:
            self._signal(node, signal.SIGSTOP)
            self.frozen.add(node)

    def thaw(self, *nodes: int) -> None:
        for node in nodes:
            self._signal(node, signal.SIGCONT)
            self.frozen.discard(node)

    def kill(self, *nodes: int) -> None:
        for node in nodes:
            self.cluster.stop_node(node, kill=True)
            self.frozen.discard(node)
            self.dead.add(node)

    def fix(self) -> None:
        """All nodes go on, and whoever was killed is started again."""
        self.thaw(*self.frozen)
        for node in sorted(self.dead):
            self.cluster.nodes[node].launch()
        for node in sorted(self.dead):
            self.cluster.nodes[node].process.wait()
        self.dead.clear()

    def _signal(self, node: int, number: signal.Signals) -> None:
        pid = self.cluster.nodes[node].process.pid
        assert pid is not None
        os.kill(pid, number)

    # What is asked for

    def connected(self) -> api.Live:
        options = {"--bootstrap", "--controllers", "--zookeeper", "--fleet"}
        words, given = list(self.reach), dict[str, Any]()
        while words:
            word = words.pop(0)
            if word in options:
                given[word.removeprefix("--")] = words.pop(0)
            else:
                given["cluster"] = word
        return api.connect(**given, timeout=5.0)

    def plan(self, feature: str, level: int, *, timeout_ms: int) -> tuple[Path, Path]:
        """The files of a plan that moves one feature, and of its files."""
        live = self.connected()
        view = live.source().view
        down = level < view.cluster.finalized.get(feature, (0, 0))[1]
        intent = Intent(
            command=Command.UPDATE,
            up={} if down else {feature: str(level)},
            down={feature: str(level)} if down and level else {},
            delete=(feature,) if down and not level else (),
        )
        made = make_plan(view, intent, live.catalogue, timeout_ms=timeout_ms)
        assert made.plan is not None, made.refusals
        plan, approved = self.home / "plan.json", self.home / "plan.files.json"
        plan.write_text(files.write_plan(made.plan))
        word = files.approve(
            made.plan, by="tests", at=datetime.now(UTC), expires=timedelta(hours=1)
        )
        approved.write_bytes(files.write_approval(word))
        return plan, approved

    def start(self, *words: str, clock: str = "") -> Running:
        """A command of featurelib as a process; `clock` as faketime takes it, such as +7m."""
        faked = ["faketime", "--exclude-monotonic", "-f", clock] if clock else []
        process = subprocess.Popen(
            [*faked, sys.executable, "-c", _HANDED_ON * self.is_handed_on + _RUN, *words,
             "--journal", str(self.journal)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=self.home, env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
        made = Running(process)
        made.read()
        return made

    def apply(self, plan: Path, approved: Path) -> Running:
        reach = [word for word in self.reach if word != self.cluster.cluster_id]  # the plan's
        return self.start(
            "apply", str(plan), "--approval", str(approved), "--yes",
            "--timeout", str(self.timeout_s), "--wait", "5", *reach,
        )  # fmt: skip

    def resume(self, *, timeout_s: float | None = None, clock: str = "") -> Said:
        timeout = str(timeout_s or self.timeout_s)
        return self.start("resume", "--timeout", timeout, *self.reach, clock=clock).end()

    def withdraw(self, plan: Path, approved: Path) -> Said:
        return self.start("approve", str(plan), "--withdraw", "--out", str(approved)).end()

    def entries(self) -> tuple[JournalEntry, ...]:
        """What the journal holds, oldest first."""
        opened = Journal(self.journal)
        try:
            return opened.entries()
        finally:
            opened.close()

    # What is true

    def settle(self) -> int:
        """Wait until somebody leads and is through with everything; who leads."""
        until, nodes = time.monotonic() + 60, self.cluster.nodes.values()
        controllers = ",".join(f"{node.id}@{node.controller}" for node in nodes if node.controller)
        live = api.connect(bootstrap=self.cluster.bootstrap, controllers=controllers, timeout=5.0)
        while True:
            try:
                with live.watcher() as watcher, closing(watcher.backend) as backend:
                    backend.describe(lambda text: None)
                    leader = backend.recipient().leader
                    if leader >= 0 and isinstance(backend.passed(backend.recipient(), ()), Passed):
                        break
            except FeatureLibError:
                if time.monotonic() > until:
                    raise
            assert time.monotonic() < until, "nobody leads"
            time.sleep(0.2)
        time.sleep(QUIET_S)
        return leader

    def records(self, node: int) -> list[tuple[str, int]]:
        """Every level that the metadata log of one controller holds, in order."""
        folder = self.home / f"node-{node}" / "data" / "__cluster_metadata-0"
        logs = ",".join(str(path) for path in sorted(folder.glob("*.log")))
        done = self.cluster.java.run(
            "kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", logs
        )
        return levels_in(done.stdout.splitlines())


def levels_in(lines: Sequence[str]) -> list[tuple[str, int]]:
    """The feature levels that a dump of the metadata log tells, in order."""
    found = []
    for line in lines:
        _, _, payload = line.partition("payload: ")
        if '"FEATURE_LEVEL_RECORD"' in payload:
            data: Mapping[str, Any] = json.loads(payload)["data"]
            found.append((data["name"], data["featureLevel"]))
    return found
