"""A plan made, approved and applied by the product on the walk's cluster, held to the log.

What its ending says is compared with the records of the metadata log, which are the truth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from random import Random

from featurelib import api
from featurelib.core.outcome import EndingKind, Fate
from featurelib.errors import FeatureLibError, OutcomeUnknownError
from featurelib.feature import KRAFT_VERSION
from tests.backends.rig.java import Java
from tests.backends.rig.kraft import NEWEST_TOOLS
from tests.walk.world import World

NODES_SECONDS = 8.0  # that nodes may take to report a level
DUMP = "org.apache.kafka.tools.DumpLogSegments"
LEVEL = re.compile(r'"FEATURE_LEVEL_RECORD".*?"name":"([^"]+)","featureLevel":(\d+)')
ORDINARY = ("group.version", "transaction.version", "share.version", "streams.version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One FeatureLevelRecord; `number` counts them."""

    number: int
    feature: str
    level: int


def apply_for_real(world: World, rng: Random, folder: Path) -> tuple[str, list[str]]:
    """Plans something, approves and applies it; the ending, and what it says that is not so."""
    brokers, controllers = world.addresses
    cluster = api.connect(
        bootstrap=",".join(brokers), controllers=",".join(controllers), timeout=4.0,
        fleet=str(_fleet(world, folder)),
    )  # fmt: skip
    journal = str(folder / "journal.sqlite")
    try:
        plan = api.plan(cluster, *_intent(rng))
    except FeatureLibError as error:
        return f"no plan: {type(error).__name__}", []
    if not plan.is_made:
        codes = dict.fromkeys(reason.code for reason in plan.refusals)
        return f"no plan: {', '.join(codes) or 'nothing to do'}", []
    before = _records(world)
    try:
        carried = api.apply(
            plan, cluster, approval=api.approve(plan, "1h", by="walk"), journal=journal,
            wait=NODES_SECONDS,
        )  # fmt: skip
    except OutcomeUnknownError as error:
        return f"unknown: {str(error)[:120]}", []
    except FeatureLibError as error:
        wrong = _unexplained(before, _records(world), {})
        return f"{type(error).__name__}: {str(error)[:160]}", wrong
    ending = carried.ending
    steps = [update for step in ending.steps for update in step.updates]
    written = {one.update.feature: one.update.to_level for one in steps if one.fate is Fate.APPLIED}
    wrong = []
    if ending.kind is EndingKind.APPLIED:
        wrong += _missing(world, written)
    if ending.kind in (EndingKind.APPLIED, EndingKind.REJECTED, EndingKind.NOTHING_TO_DO):
        wrong += _unexplained(before, _records(world), written)
    return f"{ending.kind.value} {written}", wrong


def _intent(rng: Random) -> tuple[str, api.RequestedLevels]:
    """upgrade-all mostly; else one feature by name."""
    if rng.random() < 0.6:
        return "upgrade-all", api.RequestedLevels()
    feature = rng.choice(ORDINARY)
    if rng.random() < 0.5:
        return "update", api.RequestedLevels(up={feature: 1})
    return "update", api.RequestedLevels(down={feature: 0})


def _missing(world: World, written: dict[str, int]) -> list[str]:
    """Levels that were said to be applied and that the active controller does not show."""
    try:
        with world.leader() as line:
            levels = line.levels()
    except OSError:
        return []
    return [
        f"{name} said to be at {level}, found {levels.get(name, 0)}"
        for name, level in written.items()
        if levels.get(name, 0) != level
    ]


def _unexplained(
    before: list[Record] | None, after: list[Record] | None, written: dict[str, int]
) -> list[str]:
    """Records in the log that no applied update explains, and applied updates without one."""
    if before is None or after is None:
        return []
    last = max((one.number for one in before), default=-1)
    new = {one.feature: one.level for one in after if one.number > last}
    explained = {name: level for name, level in written.items() if name != KRAFT_VERSION}
    new.pop(KRAFT_VERSION, None)  # a control record, or none
    return [] if new == explained else [f"the log has {new}, the ending {explained}"]


def _records(world: World) -> list[Record] | None:
    """The FeatureLevelRecords of the leader's log; None where nobody leads."""
    leader = world.quorum().leader
    log = world.home / f"node-{leader}" / "data" / "__cluster_metadata-0"
    log /= "00000000000000000000.log"
    if not log.is_file():
        return None
    done = Java.of(NEWEST_TOOLS).run(
        DUMP, "--cluster-metadata-decoder", "--skip-record-metadata", "--files", str(log)
    )
    rows = LEVEL.findall(done.stdout)
    return [Record(number=n, feature=name, level=int(v)) for n, (name, v) in enumerate(rows)]


def _fleet(world: World, folder: Path) -> Path:
    """An inventory in which the owner vouches for registrations, where that is true."""
    path = folder / "fleet.toml"
    hidden = world.registered - {one.id for one in world.brokers("running")}
    vouched = "false" if hidden else "true"
    path.write_text(
        f'[[cluster]]\nid = "{world.cluster.cluster_id}"\nregistrations_complete = {vouched}\n'
    )
    return path
