"""What may happen to a cluster in a walk: each step does one thing, by chance, and says what came.

A step that is not possible now gives None, and another is drawn. What real Kafka refuses is a step
like any other: the state after it is what counts.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from featurelib.feature import UpgradeType
from tests.backends.rig.cluster import FEATURES_TOOL
from tests.backends.rig.java import Java
from tests.backends.rig.kraft import Node
from tests.walk.applying import apply_for_real
from tests.walk.returning import INTERVAL, SERVES, Promises, wait_for_snapshot
from tests.walk.wire import Line
from tests.walk.world import (
    FROZEN,
    LIMPING,
    RUNNING,
    SERVERS,
    STOPPED,
    VOTERS,
    Member,
    World,
)

RELEASES = ("3.7.2", "3.8.1", "3.9.2", "4.0.1", "4.1.2", "4.2.1", "4.3.1", "4.4.0")
HAVE_TOOLS = ("3.9.2", "4.0.1", "4.1.2", "4.2.1", "4.3.1")
METADATA, KRAFT = "metadata.version", "kraft.version"
ORDINARY = {
    "group.version": 1,
    "transaction.version": 2,
    "eligible.leader.replicas.version": 1,
    "share.version": 2,
    "streams.version": 1,
}
MOST_BROKERS, MOST_CONTROLLERS = 4, 4
UNREGISTER_CONTROLLERS_FROM = 33  # KIP-1312
KILL = 0.7  # of the stops


@dataclass(slots=True, kw_only=True)
class Walker:
    """Whoever takes steps: the cluster, the chance of this step, and where to keep things."""

    world: World
    rng: random.Random
    folder: Path
    applied: list[str]  # what came of plans that were applied for real: endings
    wrong: list[str]  # what an ending said that is not so
    promises: Promises  # about software, beside nodes that were started
    look: Callable[[], object]  # the product collects once more

    def one(self, members: list[Member]) -> Member | None:
        return self.rng.choice(members) if members else None

    def levels(self) -> dict[str, int]:
        with self.world.leader() as line:
            return line.levels()


Step = Callable[[Walker], str | None]


def move_one(walker: Walker) -> str:
    """A level up or down by the controller's own word, whatever it answers."""
    rng, levels = walker.rng, walker.levels()
    updates = [_update(rng, levels, kraft=rng.random() < 0.12)]
    if rng.random() < 0.2:
        updates.append(_update(rng, levels, kraft=False))
    with walker.world.leader() as line:
        answer = line.update_features(updates, validate_only=False)
    return f"update {updates}: {'accepted' if answer.is_good else 'refused'}"


def _update(rng: random.Random, levels: dict[str, int], *, kraft: bool) -> tuple[str, int, int]:
    if kraft:
        return KRAFT, 1, UpgradeType.UPGRADE
    if rng.random() < 0.45:
        now = levels.get(METADATA, 7)
        level = max(1, now + rng.choice((-3, -2, -1, -1, 1, 1, 1, 2, 3, 5)))
        return METADATA, level, _kind(now, level)
    name = rng.choice(sorted(ORDINARY))
    now = levels.get(name, 0)
    level = rng.choice([n for n in range(ORDINARY[name] + 1) if n != now])
    return name, level, _kind(now, level)


def _kind(now: int, level: int) -> int:
    return UpgradeType.UPGRADE if level > now else UpgradeType.SAFE_DOWNGRADE


def move_by_tool(walker: Walker) -> str | None:
    """The real kafka-features of some release, run as an operator runs it."""
    rng, world = walker.rng, walker.world
    broker = walker.one(world.brokers(RUNNING))
    if broker is None:
        return None
    name, level, kind = _update(rng, walker.levels(), kraft=False)
    way = "upgrade" if kind == UpgradeType.UPGRADE else "downgrade"
    words = [way, "--feature", f"{name}={level}"]
    drawn = rng.random()
    if drawn < 0.2:
        release = rng.choice(("3.7", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3"))
        words = ["upgrade", "--release-version", release]
    elif drawn < 0.35:
        words = ["disable", "--feature", rng.choice(sorted(ORDINARY))]
    tool = Java.of(rng.choice(HAVE_TOOLS))
    address = world.node(broker.id).broker
    try:
        done = tool.run(FEATURES_TOOL, "--bootstrap-server", address, *words, timeout_seconds=20)
    except subprocess.TimeoutExpired:  # nobody leads, and it would wait for long
        return f"kafka-features {tool.release} {' '.join(words)}: not done in 20 s"
    said = (done.stdout + done.stderr).strip().splitlines()
    return f"kafka-features {tool.release} {' '.join(words)}: {done.returncode} {said[:2]}"


def apply_plan(walker: Walker) -> str:
    """The product plans, a word is given, the product applies; the metadata log is the truth."""
    ending, wrong = apply_for_real(walker.world, walker.rng, walker.folder)
    walker.applied.append(ending)
    walker.wrong += wrong
    return f"applied for real: {ending}" + "".join(f" WRONG: {one}" for one in wrong)


def freeze(walker: Walker) -> str | None:
    world = walker.world
    if len(world.serving) * 2 <= len(world.members):
        return None
    member = walker.one([one for one in world.serving if _is_spare(walker, one)])
    if member is None:
        return None
    world.freeze(member)
    return f"froze {member}"


def thaw(walker: Walker) -> str | None:
    member = walker.one([m for m in walker.world.members.values() if m.state == FROZEN])
    if member is None:
        return None
    walker.world.thaw(member)
    time.sleep(0.5)
    return f"thawed {member}"


def stop(walker: Walker) -> str | None:
    world = walker.world
    if len(world.serving) * 2 <= len(world.members):
        return None
    member = walker.one([one for one in world.serving if _is_spare(walker, one)])
    if member is None:
        return None
    world.stop(member, kill=walker.rng.random() < KILL)
    return f"stopped {member}"


def start(walker: Walker) -> str | None:
    member = walker.one([m for m in walker.world.members.values() if m.state == STOPPED])
    if member is None:
        return None
    return f"started {member}: {walker.world.launch(member)}"


def start_with_the_rest(walker: Walker) -> str | None:
    """A node that would not start is given the release that most of the others run."""
    member = walker.one([m for m in walker.world.members.values() if m.state == STOPPED])
    running = sorted(one.node.release for one in walker.world.serving)
    if member is None or not running:
        return None
    release = running[-1]
    return f"started {member} with {release}: {walker.world.launch(member, release=release)}"


def give_up_limping(walker: Walker) -> str | None:
    member = walker.one([m for m in walker.world.members.values() if m.state == LIMPING])
    if member is None:
        return None
    walker.world.stop(member, kill=True)
    return f"stopped what did not serve: {member}"


def roll(walker: Walker) -> str | None:
    """One node to the release before or after its own, or to the one that others run."""
    world, rng = walker.world, walker.rng
    member = walker.one([one for one in world.serving if _is_spare(walker, one)])
    if member is None:
        return None
    at = RELEASES.index(member.node.release)
    near = [RELEASES[n] for n in (at - 1, at + 1, at + 1) if 0 <= n < len(RELEASES)]
    others = [one.node.release for one in world.serving if one.node.release != member.node.release]
    release = rng.choice(near + others)
    before = str(member)
    world.stop(member, kill=rng.random() < KILL)
    return f"rolled {before} to {release}: {walker.promises.start(world, member, release=release)}"


NEWEST_LEVELS = {"4.0.1": 25, "4.1.2": 27, "4.2.1": 29, "4.3.1": 30, "4.4.0": 33}


def downgrade_and_return(walker: Walker) -> str | None:
    """Levels go down to what the release before supports; a node goes back to it at once, and, if
    it ends, once more after it has written a snapshot with its own software."""
    world, rng, levels = walker.world, walker.rng, walker.levels()
    member = walker.one([one for one in world.serving if _is_spare(walker, one)])
    newest = list(NEWEST_LEVELS)
    if member is None or member.node.release not in newest[1:] or member.node.unstable:
        return None
    own = member.node.release
    older = newest[newest.index(own) - 1]
    named = walker.promises.catalogue.of(older.rpartition(".")[0]).ranges()
    down = [
        (name, min(level, named.get(name, (0, 0))[1]), UpgradeType.SAFE_DOWNGRADE)
        for name, level in levels.items()
        if level > named.get(name, (0, 0))[1] and name != KRAFT
    ]
    if not down:
        return None
    with world.leader() as line:
        answer = line.update_features(down, validate_only=False)
    story = f"lowered {down}: {answer.message or 'accepted'}"
    if not answer.is_good:
        return story
    time.sleep(1)
    walker.look()
    world.stop(member, kill=rng.random() < KILL)
    became = walker.promises.start(world, member, release=older)
    story += f"; {member} at once: {became}"
    if became == SERVES or not member.is_controller:
        return story
    if member.state != STOPPED:
        world.stop(member, kill=False)
    quick = {**member.node.properties, INTERVAL: "2000"}
    if world.launch(member, release=own, properties=quick) != SERVES:
        return f"{story}; {own} does not start again"
    there = wait_for_snapshot(world, member)
    world.stop(member, kill=False)
    after = world.launch(member, release=older)
    walker.promises.counts[f"after a snapshot ({there}): {after[:6]}"] += 1
    if there and after != SERVES:
        walker.promises.wrong.append(f"{member} after a snapshot: {after}")
    return f"{story}; with a snapshot ({there}): {after}"


def replace_disk(walker: Walker) -> str | None:
    """A broker that is no controller, or a controller of a static quorum, starts with no data."""
    world = walker.world
    able = [m for m in world.serving if not (m.is_controller and world.dynamic)]
    member = walker.one([one for one in able if _is_spare(walker, one)])
    if member is None or (member.is_controller and len(world.controllers(RUNNING)) < 3):
        return None
    world.stop(member, kill=False)
    world.wipe(member)
    return f"new disk for {member}: {walker.promises.start(world, member)}"


def split_roles(walker: Walker) -> str | None:
    """A combined node starts as a controller alone; its broker stays registered."""
    world = walker.world
    combined = [one for one in world.serving if one.is_broker and one.is_controller]
    member = walker.one([one for one in combined if _is_spare(walker, one)])
    if member is None or len(world.brokers(RUNNING)) < 2:
        return None
    world.stop(member, kill=walker.rng.random() < KILL)
    return f"split {member}: {walker.promises.start(world, member, roles='controller')}"


def join_roles(walker: Walker) -> str | None:
    """A controller starts as a combined node."""
    world = walker.world
    alone = [one for one in world.serving if one.is_controller and not one.is_broker]
    member = walker.one([one for one in alone if _is_spare(walker, one)])
    if member is None or len(world.brokers()) >= MOST_BROKERS or member.id in world.registered:
        return None
    world.stop(member, kill=walker.rng.random() < KILL)
    return f"joined {member}: {walker.promises.start(world, member, roles='broker,controller')}"


def toggle_unstable(walker: Walker) -> str | None:
    world = walker.world
    member = walker.one([one for one in world.serving if _is_spare(walker, one)])
    if member is None:
        return None
    unstable = not member.node.unstable
    world.stop(member, kill=True)
    return f"unstable={unstable} on {member}: {world.launch(member, unstable=unstable)}"


def unregister_broker(walker: Walker) -> str | None:
    """Of a broker that does not run, mostly; of one that does, seldom."""
    world, rng = walker.world, walker.rng
    running = {one.id for one in world.brokers(RUNNING, FROZEN, LIMPING)}
    gone = sorted(world.registered - running)
    known = sorted(world.registered)
    if rng.random() < 0.85:
        known = gone
    if not known:
        return None
    node_id = rng.choice(known)
    with world.leader() as line:
        done = line.unregister_broker(node_id)
    if done == "done" and node_id not in running:
        world.registered.discard(node_id)
    return f"unregistered broker {node_id}{' which runs' if node_id in running else ''}: {done}"


def unregister_controller(walker: Walker) -> str | None:
    """KIP-1312, voters too: 4.4.0 lets a dead voter be unregistered."""
    world, rng = walker.world, walker.rng
    if walker.levels().get(METADATA, 0) < UNREGISTER_CONTROLLERS_FROM:
        return None
    ids = {one.id for one in world.controllers()} | set(world.quorum().observers)
    ids |= world.gone_controllers
    stopped = {one.id for one in world.controllers(STOPPED)} | world.gone_controllers
    drawn = sorted(stopped) if stopped and rng.random() < 0.8 else sorted(ids)
    node_id = rng.choice(drawn)
    with world.leader() as line:
        return f"unregistered controller {node_id}: {line.unregister_controller(node_id)}"


def add_broker(walker: Walker) -> str | None:
    world, rng = walker.world, walker.rng
    if len(world.brokers()) >= MOST_BROKERS:
        return None
    member = world.join(_new(walker, "broker"))
    return f"added {member}: {world.launch(member, unstable=rng.random() < 0.1)}"


def add_controller(walker: Walker) -> str | None:
    """It comes as an observer; a voter it becomes by another step (KIP-853)."""
    world = walker.world
    if len(world.controllers()) >= MOST_CONTROLLERS or walker.levels().get(KRAFT, 0) < 1:
        return None
    member = world.join(_new(walker, "controller"))
    return f"added {member}: {world.launch(member)}"


def _new(walker: Walker, roles: str) -> Node:
    """With the id of one that is gone, sometimes; with the quorum's configuration of another."""
    world, rng = walker.world, walker.rng
    gone = world.registered if roles == "broker" else world.gone_controllers
    free = sorted(gone - set(world.members)) + rng.sample(range(1, 200), 3)
    node_id = next(n for n in rng.sample(free, len(free)) if n not in world.members)
    like = rng.choice(world.controllers()).node
    quorum = {key: like.properties[key] for key in (VOTERS, SERVERS) if key in like.properties}
    release = rng.choice([one.node.release for one in world.serving] or [like.release])
    if roles == "controller":
        quorum = {SERVERS: ",".join(world.addresses[1]), VOTERS: ""}
    return Node(id=node_id, release=release, roles=roles, properties=quorum)


def add_voter(walker: Walker) -> str | None:
    world = walker.world
    voters = world.quorum().voters
    member = walker.one([one for one in world.controllers(RUNNING) if one.id not in voters])
    if member is None:
        return None
    address = world.node(member.id).controller
    with world.leader() as line:
        done = line.add_voter(
            world.cluster.cluster_id, member.id, world.directory_id(member.id), address
        )
    return f"voter {member.id} added: {done}"


def remove_voter(walker: Walker) -> str | None:
    world, rng = walker.world, walker.rng
    if walker.levels().get(KRAFT, 0) < 1:
        return None
    voters = [one for one in world.quorum().voters if one in world.members]
    if len(voters) < 2:
        return None
    node_id = rng.choice(voters)
    with world.leader() as line:
        done = line.remove_voter(world.cluster.cluster_id, node_id, world.directory_id(node_id))
    time.sleep(0.5)
    return f"voter {node_id} removed: {done}"


def retire_controller(walker: Walker) -> str | None:
    """A voter is decommissioned as the documentation says, or but for the last of its steps."""
    world, rng = walker.world, walker.rng
    levels, voters = walker.levels(), world.quorum().voters
    member = walker.one([one for one in world.controllers(RUNNING) if one.id in voters])
    if member is None or levels.get(KRAFT, 0) < 1 or len(voters) < 2:
        return None
    cluster_id, directory_id = world.cluster.cluster_id, world.directory_id(member.id)
    with world.leader() as line:
        done = [f"voter removed: {line.remove_voter(cluster_id, member.id, directory_id)}"]
    time.sleep(0.5)
    world.stop(member, kill=rng.random() < KILL)
    if levels.get(METADATA, 0) >= UNREGISTER_CONTROLLERS_FROM and rng.random() < 0.8:
        time.sleep(2)  # another one leads by then
        with world.leader() as line:
            done.append(f"unregistered: {line.unregister_controller(member.id)}")
    if not member.is_broker and rng.random() < 0.6:
        world.gone_controllers.add(member.id)
        world.forget(member)
        done.append("gone for good")
    return f"retired {member}: {', '.join(done)}"


def retire_broker(walker: Walker) -> str | None:
    world = walker.world
    member = walker.one([one for one in world.brokers(RUNNING) if not one.is_controller])
    if member is None or len(world.brokers(RUNNING)) < 2:
        return None
    world.stop(member, kill=walker.rng.random() < KILL)
    with world.leader() as line:
        done = line.unregister_broker(member.id)
    if done == "done":
        world.registered.discard(member.id)
    return f"retired {member}: unregistered: {done}"


def forget(walker: Walker) -> str | None:
    """A stopped node is gone for good, and nobody unregisters it."""
    world = walker.world
    voters = world.quorum().voters
    member = walker.one(
        [m for m in world.members.values() if m.state == STOPPED and m.id not in voters]
    )
    if member is None or len(world.members) <= 2:
        return None
    if member.is_controller:
        world.gone_controllers.add(member.id)
    world.forget(member)
    return f"{member} is gone for good"


def configure_quorum(walker: Walker) -> str | None:
    """A controller starts again with other static voters, or with none (KIP-853)."""
    world, rng = walker.world, walker.rng
    if walker.levels().get(KRAFT, 0) < 1:
        return None
    member = walker.one(world.controllers(RUNNING))
    if member is None or RELEASES.index(member.node.release) < RELEASES.index("3.9.2"):
        return None
    known = [n for n in world.cluster.nodes.values() if n.controller]
    servers = ",".join(n.controller for n in known)
    some = rng.sample(known, rng.randint(1, len(known)))
    if member.id not in {n.id for n in some}:
        some.append(world.node(member.id))
    voters = "" if rng.random() < 0.6 else ",".join(f"{n.id}@{n.controller}" for n in some)
    properties = {**member.node.properties, SERVERS: servers, VOTERS: voters}
    world.stop(member, kill=True)
    become = world.launch(member, properties=properties)
    return f"{VOTERS}={voters!r} on {member}: {become}"


def change_config(walker: Walker) -> str | None:
    world, rng = walker.world, walker.rng
    broker = walker.one(world.brokers(RUNNING))
    if broker is None:
        return None
    where = rng.choice(("", str(broker.id)))
    value = rng.choice(("1", "2", None))
    with Line(world.node(broker.id).broker) as line:
        done = line.alter_broker_config(where, "min.insync.replicas", value)
    return f"min.insync.replicas={value} of broker {where!r}: {done}"


def restart_leader(walker: Walker) -> str | None:
    world = walker.world
    member = world.members.get(world.quorum().leader)
    if member is None or member.state != RUNNING:
        return None
    world.stop(member, kill=walker.rng.random() < KILL)
    return f"restarted the leader {member}: {world.launch(member)}"


def _is_spare(walker: Walker, member: Member) -> bool:
    """Whether a majority of voters serves without it; now and then that is let go."""
    world = walker.world
    voters = world.quorum().voters
    if member.id not in voters or walker.rng.random() < 0.05:
        return True
    left = [one for one in world.serving if one.id in voters and one.id != member.id]
    return len(left) * 2 > len(voters)


# How often each is drawn. What costs a process is rarer than what costs a request.
STEPS: dict[Step, int] = {
    move_one: 60,
    move_by_tool: 4,
    apply_plan: 4,
    freeze: 4,
    thaw: 20,
    stop: 6,
    start: 20,
    start_with_the_rest: 5,
    give_up_limping: 6,
    roll: 10,
    downgrade_and_return: 6,
    replace_disk: 3,
    split_roles: 3,
    join_roles: 3,
    toggle_unstable: 3,
    unregister_broker: 8,
    unregister_controller: 7,
    add_broker: 2,
    add_controller: 3,
    add_voter: 4,
    remove_voter: 3,
    forget: 2,
    retire_controller: 6,
    retire_broker: 4,
    configure_quorum: 4,
    change_config: 6,
    restart_leader: 3,
}
PROMISED = {roll, downgrade_and_return, replace_disk, split_roles, join_roles}
TO_RECOVER: dict[Step, int] = {
    thaw: 4, start: 6, start_with_the_rest: 3, give_up_limping: 4, roll: 1, configure_quorum: 1,
}  # fmt: skip


def take_step(walker: Walker, *, leads: bool, promised: int = 1) -> str:
    """One step that is possible now; where nobody leads, mostly one that may fix it. Steps that try
    a promise about software are drawn `promised` times as often."""
    often = {step: n * promised if step in PROMISED else n for step, n in STEPS.items()}
    weights = often if leads or walker.rng.random() < 0.1 else TO_RECOVER
    names, numbers = list(weights), list(weights.values())
    for _ in range(60):
        step = walker.rng.choices(names, numbers)[0]
        try:
            done = step(walker)
        except OSError as error:
            return f"{step.__name__}: nobody answered ({error})"
        if done is not None:
            return done
    return "nothing was possible"
