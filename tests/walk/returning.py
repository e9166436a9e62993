"""Promises about software beside nodes that are really started: what `can-roll` answers for
the release of a node, then that node's start with it, on the disk that it has.

A promise is about one half or both of one node: "may join now", "not yet" (a controller's log may
replay a level), or "may not". Only "may join now" of a node that does not serve, and "may not" of
one that does, are wrong. "Not yet" of a node that serves is counted: it was careful for nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from featurelib.audit.cluster_view import Inputs
from featurelib.catalogue import Catalogue, load
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.errors import FeatureLibError
from featurelib.extras.predictions.rolling import Roll
from featurelib.extras.predictions.rolling import roll as ask_roll
from tests.backends.rig.kraft import Node
from tests.walk.world import LIMPING, RUNNING, STOPPED, Member, World

DAY = 86_400_000_000  # microseconds
MAY, NOT_YET, MAY_NOT = "may join now", "not yet", "may not join"
SERVES = "serves"
LONG_SECONDS = 60.0
INTERVAL = "metadata.log.max.snapshot.interval.ms"


@dataclass(slots=True, kw_only=True)
class Promises:
    """The lines of every look of a walk, and each promise beside what came of it."""

    lines: list[bytes] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    catalogue: Catalogue = field(default_factory=load)

    def answer(self, world: World, release: str) -> Roll | None:
        """The product's answer by all that was ever collected; None: it has none."""
        entry = FleetEntry(id=world.cluster.cluster_id, registrations_complete=True)
        inputs = Inputs(
            catalogue=self.catalogue, as_of=None, max_age=DAY, fleet=Fleet(cluster=(entry,))
        )
        with suppress(FeatureLibError):
            view = inputs.see_lines(self.lines, None)
            return ask_roll(view, release.rpartition(".")[0], inputs)
        return None

    def start(self, world: World, member: Member, **change: object) -> str:
        """Start a stopped node as `change` says, and note whether the promise was kept."""
        earlier = member.node
        release = str(change.get("release", earlier.release))
        answer = None if earlier.unstable else self.answer(world, release)
        voters = world.quorum().voters or (member.id,)
        there = {one.id for one in world.controllers(RUNNING)} | {member.id}
        has_majority = len(there & set(voters)) * 2 > len(voters)
        was = world.launch(member, **change)
        if member.state == LIMPING:  # slow is not wrong
            was = world.wait(member, LONG_SECONDS)
        if was != SERVES:
            self._recover(world, member, earlier)
        if answer is None or not (answer.levels_known and has_majority):
            self.counts["promises that could not be tried"] += 1
            return was
        promise = MAY if answer.may_join else MAY_NOT
        if answer.may_join and member.is_controller and answer.replays:
            promise = NOT_YET
        came = SERVES if was == SERVES else "does not serve"
        self.counts[f"promise: {promise}, {came}"] += 1
        if (promise, came) in ((MAY, "does not serve"), (MAY_NOT, SERVES)):
            self.counts["WRONG PROMISE"] += 1
            self.wrong.append(f"{member} with {release}: {promise}, and it {was}")
        return was

    def _recover(self, world: World, member: Member, earlier: Node) -> None:
        """Start the node as it was before, so that the walk goes on."""
        if member.state != STOPPED:
            world.stop(member, kill=True)
        back = {
            "release": earlier.release,
            "roles": earlier.roles,
            "properties": earlier.properties,
        }
        self.counts[f"back as before: {world.launch(member, **back)[:6]}"] += 1


def wait_for_snapshot(world: World, member: Member, seconds: float = 15) -> bool:
    """Whether a node that runs writes a new metadata snapshot in time."""
    before, over = _snapshots(world, member), time.monotonic() + seconds
    while time.monotonic() < over:
        if _snapshots(world, member) - before:
            return True
        time.sleep(0.2)
    return False


def _snapshots(world: World, member: Member) -> set[Path]:
    folder = world.home / f"node-{member.id}" / "data" / "__cluster_metadata-0"
    return {path for path in folder.glob("*.checkpoint") if int(path.name.split("-")[0])}
