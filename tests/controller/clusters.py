"""Small embedded clusters in files, plans for them, and everything that carries a plan out.

Plans are made as people make them (featurelib.planning); waits are short, and no clock is faked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from dataclasses import replace as replace
from datetime import datetime
from pathlib import Path
from typing import Any

from featurelib.audit.cluster_view import ClusterView
from featurelib.backends.base import Abilities, Backend, Check, Say
from featurelib.catalogue import Catalogue, load
from featurelib.config.fleet import Fleet
from featurelib.controller.apply import ApplyOrder, apply
from featurelib.controller.apply import Mode as Mode
from featurelib.controller.journal import Clearance, Journal
from featurelib.controller.reading import Watcher
from featurelib.controller.send import Waits
from featurelib.core.cluster import Cluster, Range
from featurelib.core.outcome import Ending
from featurelib.core.reply import Reply
from featurelib.extras.sandbox.backend import EmbeddedBackend
from featurelib.model import Move, NotPassed, Passed, Plan, Recipient, Step
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan
from featurelib.planning.requirements import features_of, require
from tests.backends.clusters import broker, controller, zk_broker
from tests.backends.simulator import Simulated
from tests.seeing import see

CATALOGUE = load()
AGE = 72 * 3_600_000_000
TIMEOUT_MS = 300
WAITS = Waits(nodes=0.4, margin=0.05, proof=0.2, first=0.01, longest=0.05)
OLD = {"metadata.version": (1, 21), "kraft.version": (0, 1)}  # 3.9
V42 = {
    "metadata.version": (7, 29),
    "kraft.version": (0, 1),
    "group.version": (0, 1),
    "transaction.version": (0, 2),
    "eligible.leader.replicas.version": (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
}


def kraft(level: int = 25, *, release: str = "4.2.1", ranges: dict[str, Range] = V42) -> Cluster:
    """Two controllers and three brokers of one release."""
    nodes = [controller(i, supported=ranges, release=release) for i in (1, 2)]
    nodes += [broker(i, supported=ranges, release=release) for i in (11, 12, 13)]
    return Cluster(
        release=release,
        nodes=tuple(nodes),
        active=1,
        finalized={"metadata.version": (level, level)},
    )


def zookeeper(release: str = "3.9.2", **finalized: int) -> Cluster:
    """Three brokers that advertise f and g; broker 1 is the controller."""
    nodes = tuple(zk_broker(i, release) for i in (1, 2, 3))
    levels = {name: (1, level) for name, level in (finalized or {"f": 1, "g": 1}).items()}
    return Cluster(release=release, nodes=nodes, active=1, finalized=levels)


def vouched(cluster_id: str, release: str, **more: Any) -> Fleet:
    """An inventory whose owner vouches for what clusters of before 4.0 do not show."""
    from featurelib.config.fleet import FleetEntry as FleetEntry

    entry = FleetEntry(id=cluster_id, release=release, registrations_complete=True, **more)
    return Fleet(cluster=(entry,))


@dataclass
class Wrapped:
    """A backend that does something of its own before or after the real one."""

    inner: Backend
    before_update: Callable[[Step], None] | None = None
    after_update: Callable[[Reply], Reply] | None = None
    before_describe: Callable[[int], None] | None = None
    abilities_: Abilities | None = None
    unproven: str = ""  # why something that was sent may still be carried out
    answer: Reply | Exception | None = None  # to a request, in place of the real one's
    validated: Reply | Exception | None = None  # the same of a request to validate
    unlisted: int | None = None  # a node that nobody names
    sent: list[tuple[Step, bool]] = field(default_factory=list)
    looks: int = 0

    @property
    def where(self) -> str:
        return self.inner.where

    def describe(self, say: Say) -> tuple[bytes, ...]:
        self.looks += 1
        if self.before_describe is not None:
            self.before_describe(self.looks)
        lines = self.inner.describe(say)
        return tuple(x for x in lines if json.loads(x).get("node_id", -1) != self.unlisted)

    def abilities(self) -> Abilities:
        return self.abilities_ or self.inner.abilities()

    def recipient(self) -> Recipient:
        return self.inner.recipient()

    def passed(self, sent: Recipient | None, features: Collection[str]) -> Passed | NotPassed:
        if self.unproven:
            return NotPassed(why=self.unproven)
        return self.inner.passed(sent, features)

    def update(self, step: Step, *, validate_only: bool = False, last_check: Check = None) -> Reply:
        self.sent.append((step, validate_only))
        if self.before_update is not None and not validate_only:
            self.before_update(step)
        instead = self.validated if validate_only else self.answer
        if isinstance(instead, Exception):
            raise instead
        reply = instead or self.inner.update(
            step, validate_only=validate_only, last_check=last_check
        )
        if validate_only:
            return reply
        return reply if self.after_update is None else self.after_update(reply)

    def close(self) -> None:
        self.inner.close()

    @property
    def written(self) -> list[Step]:
        """The requests that were not only to validate."""
        return [step for step, validate_only in self.sent if not validate_only]


def say_nothing(text: str) -> None:
    """Nobody listens."""


@dataclass
class Bench:
    """One cluster in a file, a journal, and who looks at it."""

    folder: Path
    cluster: Simulated
    fleet: Fleet = field(default_factory=Fleet)
    real: Backend | None = None  # in place of the embedded one
    catalogue: Catalogue = CATALOGUE
    said: list[str] = field(default_factory=list)

    @property
    def backend(self) -> Backend:
        return self.real or EmbeddedBackend(self.cluster)

    @property
    def journal_path(self) -> Path:
        return self.folder / "state" / "journal.sqlite"

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        """Its journal, open while the block runs."""
        with closing(Journal(self.journal_path)) as journal:
            yield journal

    def wrapped(self, **how: Any) -> Wrapped:
        return Wrapped(self.backend, **how)

    def watcher(self, backend: Backend | None = None) -> Watcher:
        return Watcher(
            backend=backend or self.backend,
            catalogue=self.catalogue,
            fleet=self.fleet,
            max_age=AGE,
            say=self.said.append,
        )

    def view(self) -> ClusterView:
        lines = self.backend.describe(say_nothing)
        return see(lines, catalogue=self.catalogue, as_of=None, max_age=AGE, fleet=self.fleet)

    def plan(self, timeout_ms: int = TIMEOUT_MS, **how: Any) -> Plan:
        """The upgrade-all plan, or the one `how` asks for: up, down, delete (levels by feature)."""
        command = Command.UPDATE if how else Command.UPGRADE_ALL
        intent = Intent(command=command, **how)
        made = make_plan(self.view(), intent, self.catalogue, timeout_ms=timeout_ms)
        assert made.plan is not None, made.refusals
        return made.plan

    def by_hand(self, *steps: Sequence[tuple[str, int, int, str]]) -> Plan:
        """A plan of these steps, judged by nobody: (feature, from, to, upgrade type)."""
        view = self.view()
        evidence = view.judged.evidence
        assert evidence is not None
        made = tuple(
            Step(
                updates=tuple(
                    Move(feature=name, from_level=low, to_level=high, upgrade_type=kind)
                    for name, low, high, kind in step
                ),
                timeout_ms=TIMEOUT_MS,
            )
            for step in steps
        )
        return Plan(
            cluster=view.cluster_id,
            intent="by hand",
            dialect="strict",
            own_dialects=view.dialects,
            catalogue=self.catalogue.label,
            steps=made,
            requirements=require(evidence, 0, features_of(made), self.catalogue),
        )

    def apply(self, plan: Plan, backend: Backend | None = None, **how: Any) -> Ending:
        given = {"check_approval": approved, "waits": WAITS, "command": "the test"} | how
        with self.journal() as journal:
            return apply(ApplyOrder(plan=plan, **given), self.watcher(backend), journal)

    def levels(self) -> dict[str, int]:
        return {name: level for name, (_, level) in self.cluster.cluster.finalized.items()}

    def fates(self) -> list[str]:
        """What the journal knows last of every request."""
        with self.journal() as journal:
            return [entry.fate.value for entry in journal.entries()]


def approved(at: datetime) -> Clearance:
    """An approval that holds."""
    return Clearance(approval="approval-1", by="ann", reason="CHG-1")


def bench(folder: Path, cluster: Cluster, mode: str = "kraft", **how: Any) -> Bench:
    """A cluster put into a file in `folder`."""
    embedded = Simulated(str(folder / "cluster.db"), CATALOGUE.tables, mode=mode, cluster_id="c-1")
    embedded.put(cluster, 100)
    return Bench(folder=folder, cluster=embedded, **how)
