"""Random clusters and requests, the odd ones on purpose. The same seed draws the same."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.core.controllers.draw_clusters import CATALOGUE, STRANGERS, calm, kraft, zookeeper
from tests.core.controllers.model import ANSWERS, NEWEST_WIRE
from tests.core.controllers.words import (
    BROKER,
    CONTROLLER,
    KRAFT,
    METADATA,
    Cluster,
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
