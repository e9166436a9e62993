"""A walk: a cluster by chance, a step, a look, a judgement, and the controller's own word; again.

A seed makes the same draws again, as far as real processes allow. What disagrees twice more, a
second apart, is kept in a folder: the steps that led there, the landing lines, the answers.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from featurelib.audit.cluster_view import ClusterView
from featurelib.backends.base import Backend, open_backend
from featurelib.catalogue import Catalogue, load
from featurelib.collecting import Collected, collect_one, probe
from featurelib.config.fleet import Fleet, FleetEntry
from tests.backends.rig.kraft import Node
from tests.backends.rig.process import NotReadyError
from tests.seeing import see
from tests.walk.cases import Case, write_case
from tests.walk.comparing import (
    Compared,
    Disagreement,
    Question,
    compare,
    unknown_codes,
)
from tests.walk.returning import Promises
from tests.walk.steps import METADATA, ORDINARY, RELEASES, Walker, take_step
from tests.walk.wire import Said
from tests.walk.world import RUNNING, World

DAY = 86_400_000_000  # microseconds
NIGHTS = 6  # looks that are judged together, as a night judges what landed before
PATIENT_SECONDS, HASTY_SECONDS = 5.0, 1.0  # a node may take, where all run and where some do not
AGAIN, PAUSE_SECONDS = 2, 1.0  # looks after one that disagrees
NEWEST_LEVEL = {
    "3.7": 19,
    "3.8": 20,
    "3.9": 21,
    "4.0": 25,
    "4.1": 27,
    "4.2": 29,
    "4.3": 30,
    "4.4": 33,
}
NAMES = {
    7: "3.3-IV3", 8: "3.4-IV0", 11: "3.5-IV2", 14: "3.6-IV2", 15: "3.7-IV0", 17: "3.7-IV2",
    19: "3.7-IV4", 20: "3.8-IV0", 21: "3.9-IV0", 23: "4.0-IV1", 25: "4.0-IV3", 26: "4.1-IV0",
    27: "4.1-IV1", 28: "4.2-IV0", 29: "4.2-IV1", 30: "4.3-IV0", 31: "4.4-IV0", 33: "4.4-IV2",
}  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Tally:
    """What the walks came to."""

    counts: Counter[str] = field(default_factory=Counter)
    kept: list[Path] = field(default_factory=list)

    def lines(self) -> list[str]:
        return [f"{count:7}  {name}" for name, count in sorted(self.counts.items())]


@dataclass(slots=True, kw_only=True)
class Walk:
    """One cluster's walk. `say` hears a line a step."""

    seed: str
    folder: Path  # for what is kept
    home: Path  # of the cluster's processes
    tally: Tally
    say: Callable[[str], None]
    catalogue: Catalogue = field(default_factory=load)
    story: list[str] = field(default_factory=list)
    looks: list[list[bytes]] = field(default_factory=list)
    promised: int = 1  # steps that try a promise are drawn so many times as often
    promises: Promises = field(default_factory=Promises)
    known: set[tuple[str, str, int]] = field(default_factory=set)

    def run(self, steps: int) -> None:
        """Starts a cluster and takes `steps` steps, each judged."""
        rng = Random(self.seed)
        world = _begin(rng, self.home)
        self._tell(f"{self.seed}: began with {', '.join(map(str, world.members.values()))}")
        try:
            self._judge(world, Random(f"{self.seed}-0"), 0)
            for number in range(1, steps + 1):
                self._step(world, number)
        finally:
            world.stop_all()
            shutil.rmtree(self.home, ignore_errors=True)

    def _step(self, world: World, number: int) -> None:
        rng = Random(f"{self.seed}-{number}")
        before = self.promises.counts.copy(), len(self.promises.wrong)
        walker = Walker(
            world=world, rng=rng, folder=self.home, applied=[], wrong=[], promises=self.promises,
            look=lambda: self._look(world, Random(0)),
        )  # fmt: skip
        leads = world.quorum().leader in {one.id for one in world.controllers(RUNNING)}
        try:
            done = take_step(walker, leads=leads, promised=self.promised)
        except NotReadyError as error:
            done = f"a node did not start: {str(error).splitlines()[0]}"
        world.notice()
        self.tally.counts["steps"] += 1
        for ending in walker.applied:
            self.tally.counts[f"applied: {ending.split(' ')[0].rstrip(':')}"] += 1
        for wrong in walker.wrong:
            self.tally.counts["WRONG ENDING"] += 1
            self.say(f"WRONG ENDING: {wrong}")
        self.tally.counts.update(self.promises.counts - before[0])
        for wrong in self.promises.wrong[before[1] :]:
            self.say(f"WRONG PROMISE: {wrong}")
        self._tell(f"{number}. {done}")
        self._judge(world, rng, number)

    def _tell(self, text: str) -> None:
        self.story.append(text)
        self.say(text)

    # Judging

    def _judge(self, world: World, rng: Random, number: int) -> None:
        state = rng.getstate()
        for turn in range(AGAIN + 1):
            rng.setstate(state)
            judged = self._look_and_compare(world, rng)
            if judged is None or {one.key for one in judged.compared.disagreements} <= self.known:
                break
            if turn < AGAIN:
                time.sleep(PAUSE_SECONDS)
        if judged is None:
            return
        if turn and not judged.compared.disagreements:
            self.tally.counts["disagreed only while things moved"] += 1
        self.tally.counts.update(judged.compared.counts)
        self.tally.counts["judgements"] += 1
        for one in judged.compared.disagreements:
            self._keep(one, judged, number)
        for one in judged.compared.disagreements:
            self.known.add(one.key)
        self.known &= {one.key for one in judged.compared.disagreements}

    def _look(self, world: World, rng: Random) -> tuple[FleetEntry, Collected, list[bytes], bool]:
        """Collect once, and keep the lines for promises; last: nobody hidden, and all asked."""
        world.notice()
        all_run = all(one.state == RUNNING for one in world.members.values())
        with_probe, vouched = rng.random() < 0.3, rng.random() < 0.7
        hidden = world.registered - {one.id for one in world.brokers(RUNNING)}
        brokers, controllers = world.addresses
        if rng.random() < 0.15:
            controllers = []
        entry = FleetEntry(
            id=world.cluster.cluster_id,
            bootstrap=tuple(brokers),
            controller_bootstrap=tuple(controllers),
            registrations_complete=vouched and not hidden,
        )
        collected = self._collect(entry, all_run=all_run, with_probe=with_probe)
        lines = _lines(collected)
        self.promises.lines += lines
        plain = all_run and controllers and not (hidden or collected.not_answering)
        return entry, collected, lines, bool(plain)

    def _look_and_compare(self, world: World, rng: Random) -> _Judged | None:
        entry, collected, lines, needless = self._look(world, rng)
        if not lines or not collected.answered:
            self.tally.counts["nobody answered the collector"] += 1
            self._tell(f"nobody answered the collector: {collected.error}")
            return None
        self.looks = [*self.looks[-NIGHTS:], lines]
        fleet = Fleet(cluster=(entry,))
        view = self._view_of(lines, fleet)
        answers: dict[Question, Said | None] = {}
        try:
            with world.leader() as line:
                levels = line.levels()

                def ask(question: Question) -> Said | None:
                    if question not in answers:
                        answers[question] = line.update_features(question, validate_only=True)
                    return answers[question]

                compared = compare(
                    view, self.catalogue, ask, rng, levels=levels, needed=(METADATA, *ORDINARY)
                )
                self._compare_history(fleet, ask, rng, compared)
        except OSError:
            self.tally.counts["judgements without an active controller"] += 1
            self._nobody_leads(view)
            return None
        self._why_unknown(view, compared, needless=needless)
        return _Judged(
            lines=lines, fleet=fleet, view=view, answers=answers, levels=levels,
            compared=compared,
        )  # fmt: skip

    def _collect(self, entry: FleetEntry, *, all_run: bool, with_probe: bool) -> Collected:
        seconds = PATIENT_SECONDS if all_run else HASTY_SECONDS

        def open_one(wanted: FleetEntry) -> Backend:
            return open_backend(wanted, self.catalogue, timeout=seconds)

        probing = partial(_probe, self.catalogue) if with_probe else None
        return collect_one(entry, self.home / "landing", open_one, _quietly, probing)

    def _view_of(self, lines: Sequence[bytes], fleet: Fleet) -> ClusterView:
        return see(lines, catalogue=self.catalogue, as_of=None, max_age=DAY, fleet=fleet)

    def _compare_history(
        self, fleet: Fleet, ask: Callable[[Question], Said | None], rng: Random, found: Compared
    ) -> None:
        """The rows once more, from this look and those before it, as a night has them."""
        if len(self.looks) < 2 or rng.random() < 0.5:
            return
        view = self._view_of([line for look in self.looks for line in look], fleet)
        later = compare(view, self.catalogue, ask, rng, with_why_not=False)
        found.counts["judgements with history"] += 1
        for one in later.disagreements:
            found.disagreements.append(one.with_history())

    def _why_unknown(self, view: ClusterView, compared: Compared, *, needless: bool) -> None:
        """Counts judgements with an UNKNOWN by what is missing; `needless`: every node runs, the
        controllers' addresses were given, all answered, and no registration is hidden."""
        rows = view.judged.readiness.to_pylist()
        if not any(row["verdict"] == "UNKNOWN" for row in rows):
            return
        what = "UNKNOWN with every node up" if needless else "UNKNOWN"
        compared.counts[f"{what}: judgements"] += 1
        for code in unknown_codes(view):
            compared.counts[f"{what}: {code}"] += 1

    def _nobody_leads(self, view: ClusterView) -> None:
        rows = view.judged.readiness.to_pylist()
        if any(row["verdict"] == "READY" for row in rows):
            self.tally.counts["READY while nobody leads"] += 1

    def _keep(self, one: Disagreement, judged: _Judged, number: int) -> None:
        """Counts it, and writes it down where the step before did not bring it already."""
        self.tally.counts[one.kind] += 1
        if one.key in self.known:
            return
        self.tally.counts[f"new {one.kind}"] += 1
        name = f"{self.seed}-{number}-{one.kind.replace(' ', '-').replace(':', '')}-{one.feature}"
        path = self.folder / f"{name}.jsonl"
        write_case(
            path,
            Case(
                seed=self.seed,
                step=number,
                story=tuple(self.story),
                disagreement=str(one),
                lines=tuple(judged.lines),
                vouched=judged.fleet.cluster[0].registrations_complete,
                levels=judged.levels,
                answers=judged.answers,
            ),
        )
        self.tally.kept.append(path)
        self.say(str(one))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    lines: list[bytes]
    fleet: Fleet
    view: ClusterView
    answers: dict[Question, Said | None]
    levels: dict[str, int]
    compared: Compared


def _begin(rng: Random, home: Path) -> World:
    """A cluster by chance: shape, ids, releases, first levels; another one if it does not start."""
    for turn in range(5):
        dynamic = rng.random() < 0.5
        at = rng.randrange(2 if dynamic else 0, len(RELEASES))
        is_newest = rng.random() < 0.2  # where controllers can be unregistered (KIP-1312)
        near = RELEASES[-1:] if is_newest else RELEASES[at : at + rng.randint(1, 3)]
        ids = rng.sample([*range(1, 20), 33, 100, 101, 257], 6)
        combined = rng.random() < 0.25
        count = rng.choice((2, 3) if is_newest else (1, 1, 2, 3))
        nodes = []
        for _ in range(rng.randint(count, 3) if combined else count):
            roles = "broker,controller" if combined else "controller"
            nodes.append(_node(rng, ids.pop(), near, roles))
        for _ in range(0 if combined else rng.randint(1, 3)):
            nodes.append(_node(rng, ids.pop(), near, "broker"))
        newest = min(NEWEST_LEVEL[node.release[:3]] for node in nodes)
        least = 21 if dynamic else 7
        level = rng.choice([n for n in NAMES if least <= n <= newest])
        if is_newest or rng.random() < 0.4:
            level = max(n for n in NAMES if n <= newest)
        with suppress(ValueError, NotReadyError, KeyError):
            return World.start(
                home / str(turn), nodes, release_version=NAMES[level], features={},
                dynamic=dynamic,
            )  # fmt: skip
    raise NotReadyError("no cluster started")


def _node(rng: Random, node_id: int, releases: Sequence[str], roles: str) -> Node:
    replicas = {"min.insync.replicas": rng.choice(("1", "2"))} if rng.random() < 0.3 else {}
    return Node(
        id=node_id,
        release=rng.choice(releases),
        roles=roles,
        unstable=rng.random() < 0.06,
        properties=replicas,
    )


def _lines(collected: Collected) -> list[bytes]:
    if collected.file is None:
        return []
    return Path(collected.file).read_bytes().splitlines()


def _probe(catalogue: Catalogue, backend, entry, lines, say):  # type: ignore[no-untyped-def]
    return probe(backend, entry, lines, say, catalogue)


def _quietly(text: str) -> None:
    """A walk tells its own story."""
