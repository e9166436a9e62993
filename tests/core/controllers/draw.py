"""Random clusters and requests, half of them as odd as they come. The same seed draws the same."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.core.controllers.model import ANSWERS, NEWEST_WIRE
from tests.core.controllers.words import (
    BROKER,
    CONTROLLER,
    DISABLED,
    ELR,
    ENABLED,
    KNOWN,
    KRAFT,
    METADATA,
    Cluster,
    Node,
    Range,
    Request,
    Update,
    minor,
)

RELEASES = {
    "zk-2.7": ["2.7.2", "2.8.2", "3.0.1", "3.2.3"],
    "zk-3.3": ["3.3.2", "3.5.2", "3.7.2", "3.9.2"],
    "kraft-3.3": ["3.3.2", "3.4.1"],
    "kraft-3.5": ["3.5.2", "3.6.2"],
    "kraft-3.7": ["3.7.2"],
    "kraft-3.8": ["3.8.1"],
    "kraft-3.9": ["3.9.2"],
    "kraft-4.0": ["4.0.1"],
    "kraft-4.1": ["4.1.2"],
    "kraft-4.2": ["4.2.1", "4.3.1", "4.4.0"],
    "kip": ["2.8.2", "3.9.2", "4.4.0"],
}
ODD_LEVELS = [0, 0, -1, -32768, 32767, 99]
ODD_TYPES = [0, 4, -1, 127]


@dataclass(frozen=True)
class Drawn:
    generation: str
    cluster: Cluster
    request: Request


def draw(seed: int, generation: str | None = None) -> Drawn:
    random = Random(seed)
    name = generation or random.choice(sorted(ANSWERS))
    release = random.choice(RELEASES[name])
    mode = "zk" if name.startswith("zk") or minor(release) < (3, 0) else "kraft"
    cluster = zookeeper(random, release) if mode == "zk" else kraft(random, release)
    if random.random() < 0.5:
        cluster = calm(release, cluster)
    sane = random.random() < 0.5
    return Drawn(name, cluster, ask(random, name, cluster, sane))


def ask(random: Random, generation: str, cluster: Cluster, sane: bool) -> Request:
    version = random.randint(0, NEWEST_WIRE.get(generation, 1))
    count = random.choice([0, 1, 1, 1, 2, 2, 3, 6, 20])
    one = sane_update if sane else one_update
    updates = [one(random, version, cluster) for _ in range(count)]
    if updates and random.random() < 0.2:  # a name twice
        again = random.choice(updates)
        other = one(random, version, cluster)
        updates.append(Update(again.feature, *list(vars(other).values())[1:]))
    active = cluster.active()
    sent_to = active.node_id if active is not None else 1
    listener = random.choice([BROKER, CONTROLLER]) if cluster.mode == "kraft" else BROKER
    if random.random() < 0.05:
        sent_to = random.choice(cluster.nodes).node_id
    return Request(
        version=version,
        updates=tuple(updates),
        validate_only=version > 0 and random.random() < 0.2,
        timeout_ms=random.choice([10_000, 10_000, 10_000, 1, 0, -1, -(2**31)]),
        sent_to=sent_to,
        listener=listener,
        authorized=random.random() > 0.03,
    )


def one_update(random: Random, version: int, cluster: Cluster) -> Update:
    levels = cluster.levels()
    known = sorted({name for node in cluster.nodes for name in node.supported} | set(levels))
    name = random.choice([*known, *known, *known, METADATA, KRAFT, *STRANGERS])
    current = levels.get(name, 0)
    tops = [node.supported[name][1] for node in cluster.nodes if name in node.supported]
    near = [current, current + 1, current - 1, min(tops, default=1), max(tops, default=1), 1]
    level = random.choice([*near, random.choice(ODD_LEVELS)])
    level = max(-32768, min(32767, level))
    if version == 0:
        return Update(name, level, allow_downgrade=random.random() < 0.4)
    return Update(name, level, random.choice([1, 1, 1, 2, 2, 3, random.choice(ODD_TYPES)]))


def sane_update(random: Random, version: int, cluster: Cluster) -> Update:
    """A known name, a level nearby, mostly the type that fits."""
    levels = cluster.levels()
    names = [METADATA, METADATA, *CATALOGUE] if cluster.mode == "kraft" else ["f", "g", "h", "m"]
    name = random.choice(names)
    current = levels.get(name, 0)
    level = max(0, current + random.choice([-2, -1, -1, 0, 1, 1, 2]))
    fitting = 1 if level > current else random.choice([2, 2, 3])
    kind = fitting if random.random() < 0.9 else random.choice([1, 2, 3])
    if version == 0:
        return Update(name, level, allow_downgrade=kind > 1)
    return Update(name, level, kind)


CATALOGUE = {KRAFT: 1, "transaction.version": 2, "group.version": 1, ELR: 1}
CATALOGUE |= {"share.version": 2, "streams.version": 1}
# Two with the same hash, one that is not ASCII, a long and a blank one, and none at all.
STRANGERS = ["no.such.feature", "a", "e", "Aa", "BB", "naïve-😀", "x" * 300, " ", ""]
OLDER = ["3.3.2", "3.7.2", "3.9.2", "4.0.1", "4.1.2", "4.2.1"]


def span(random: Random, top: int, low: int = 0) -> Range:
    high = random.choice([top, top, top, random.randint(0, top + 2)])
    return min(random.choice([low, low, random.randint(0, 3)]), high), high


def profile(random: Random, release: str) -> dict[str, Range]:
    """What one node says: mostly what its release would, with gaps and other ends."""
    oldest, newest = KNOWN[minor(release)]
    said = {METADATA: span(random, newest, oldest)}
    if minor(release) >= (3, 9):
        said |= {name: span(random, top) for name, top in CATALOGUE.items()}
    for name in random.sample(STRANGERS, random.choice([0, 0, 1, 3])):
        said[name] = span(random, random.choice([1, 3, 32767]))
    for name in list(said):
        if random.random() < 0.08:
            del said[name]
    return said


def calm_profile(release: str) -> dict[str, Range]:
    oldest, newest = KNOWN[minor(release)]
    said = {METADATA: (oldest, newest)}
    if minor(release) >= (3, 9):
        said |= {name: (0, top) for name, top in CATALOGUE.items()}
    return said


def calm(release: str, cluster: Cluster) -> Cluster:
    """The same cluster with nodes that all say what their release says."""
    if cluster.mode == "zk":
        said = {name: (1, 6) for node in cluster.nodes for name in node.supported}
    else:
        said = calm_profile(release)
    nodes = [
        Node(**{**vars(node), "supported": said, "release": release, "registered": True})
        for node in cluster.nodes
    ]
    return Cluster(**{**vars(cluster), "nodes": tuple(nodes)})


def profiles(random: Random, release: str, count: int) -> list[dict[str, Range]]:
    """Many nodes say the same; sometimes nobody does."""
    made = [profile(random, release) for _ in range(random.choice([1, 2, count or 1]))]
    return [random.choice(made) if len(made) < count else made[i] for i in range(count)]


def kraft_brokers(random: Random, release: str) -> list[Node]:
    count = random.choice([0, 1, 3, 3, 6, 40])
    ids = random.sample(range(1, random.choice([50, 1000, 2**31 - 1])), count)
    brokers = []
    for node_id, said in zip(ids, profiles(random, release, count), strict=True):
        ghost = random.random() < 0.1
        brokers.append(
            Node(
                node_id=node_id,
                release=release,
                supported=said,
                registered=random.random() > 0.04,
                fenced=ghost or random.random() < 0.1,
                running=not ghost,
            )
        )
    return brokers


def controllers(random: Random, release: str) -> list[Node]:
    count = random.choice([1, 1, 3, 3, 5])
    ids = random.sample(range(1, 60), count)
    made = []
    for i, node_id in enumerate(ids):
        never = i > 0 and random.random() < 0.1
        own = release if i == 0 or random.random() < 0.7 else random.choice(OLDER)
        made.append(
            Node(
                node_id=node_id,
                role=CONTROLLER,
                release=own,
                supported={} if never else profile(random, own),
                registered=not never,
                running=i == 0 or (not never and random.random() < 0.8),
                active=i == 0,
                voter=i == 0 or random.random() < 0.9,
            )
        )
    random.shuffle(made)
    return made


def kraft(random: Random, release: str) -> Cluster:
    oldest, newest = KNOWN[minor(release)]
    finalized = {METADATA: random.choice([newest, newest, random.randint(oldest, newest), 14, 15])}
    finalized[METADATA] = max(oldest, min(newest, finalized[METADATA]))
    raft, record = 0, 0
    if minor(release) >= (3, 9):
        raft, record = random.choice([0, 0, 1]), random.choice([0, 1])
        for name, top in CATALOGUE.items():
            if random.random() < 0.4:
                finalized[name] = random.randint(1, top)
        finalized.pop(KRAFT, None)
        shown = raft or (record if minor(release) == (3, 9) else 0)
        if shown:
            finalized[KRAFT] = shown
    for name in random.sample(STRANGERS[:5], random.choice([0, 0, 1])):
        finalized[name] = random.randint(1, 3)
    if random.random() < 0.05:  # nothing finalized at all, but what the raft layer says
        finalized = {name: level for name, level in finalized.items() if name == KRAFT}
    return Cluster(
        release=release,
        mode="kraft",
        nodes=(*controllers(random, release), *kraft_brokers(random, release)),
        finalized={name: (level, level) for name, level in finalized.items()},
        epoch=random.choice([-1, 0, 25, 2**40]),
        zk_migration=(3, 5) <= minor(release) <= (3, 9) and random.random() < 0.1,
        raft=raft,
        kraft_record=record if minor(release) == (3, 9) else 0,
        elr_default=random.random() < 0.5,
    )


def zookeeper(random: Random, release: str) -> Cluster:
    old = minor(release) < (3, 3)
    names = ["f", "g", "h", "m", *random.sample(STRANGERS, 2)]
    count = random.choice([1, 2, 3, 6, 40])
    nodes = []
    for i in range(count):
        low = random.randint(1, 3)
        said = {n: (low, random.randint(low, 6)) for n in names if random.random() < 0.9}
        said |= {"h": (1, 32767)} if random.random() < 0.8 else {}
        gone = i > 0 and random.random() < 0.1
        ignored = i > 0 and random.random() < 0.1
        node = Node(node_id=i + 1, release=release, supported=said, ignored=ignored)
        nodes.append(Node(**{**vars(node), "running": not gone, "active": i == 0}))
    levels: dict[str, Range] = {}
    for name in names:
        if name and random.random() < 0.5:
            level = random.randint(1, 6)
            levels[name] = (random.randint(1, level) if old else level, level)
    finalized: dict[str, Range] | None = levels
    status: str | None = random.choice([ENABLED] * 8 + [DISABLED])
    epoch: int | None = random.choice([0, 7, 2**31 - 2])
    if random.random() < 0.05:
        finalized, status, epoch = None, None, None
    return Cluster(
        release=release,
        mode="zk",
        nodes=tuple(nodes),
        finalized=finalized,
        epoch=epoch,
        ibp=random.choice(["2.6", *["2.7", f"{minor(release)[0]}.{minor(release)[1]}"] * 5]),
        status=status,
        sees_node=random.random() > 0.05,
    )
