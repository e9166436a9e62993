"""What is true of a made-up fleet on one night: drawn from a seed, told by nobody yet.

Landing lines, snapshot rows and flat tables are three ways to write the same facts. One seed gives
one fleet, on every machine; a night differs from the one before in its times, its epochs, in one
cluster of a hundred a day, and in the brokers that are down just then. The first three brokers of a
cluster are never ghosts or offenders.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.builds import MINIMA, Builds, list_builds

Int = npt.NDArray[np.int64]
Byte = npt.NDArray[np.int8]
Bool = npt.NDArray[np.bool_]

PROFILES = ("few", "many")
CONTROLLERS = 3
SAFE = 3  # brokers that carry the quorum where controllers are combined with brokers
CONTROLLERS_FROM = 3001  # ids of separate controllers
FIRST_NIGHT = 1_795_222_800_000_000  # 2026-11-21T01:00:00Z, microseconds
MINUTE = 60_000_000
DAY = 1440 * MINUTE
LINE = 1_000  # microseconds from one line to the next
RECORDS_A_MINUTE = 120  # an idle cluster writes two records a second to its metadata log
CHANGED_A_DAY = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How big and how bad a fleet is. Shares are of brokers, or of clusters where it says so."""

    clusters: int = 1000
    nodes: int = 50  # brokers of each cluster; three controllers answer too
    features: int = 20
    profiles: str = "few"  # many = no two nodes of a cluster advertise the same ranges
    offenders: float = 0.02  # run a build too old for what is finalized
    ghosts: float = 0.01  # registered, fenced, connection refused
    down: float = 0.0  # the same for one night
    disagreeing: float = 0.005  # clusters: two brokers say different levels at one epoch
    behind: float = 0.3  # clusters: every broker was upgraded, nobody finalized
    rolling: float = 0.02  # clusters: half of the brokers still run the build before
    seed: int = 7
    minutes: int = DAY // MINUTE  # from one night to the next

    def __post_init__(self) -> None:
        if self.nodes <= SAFE or self.nodes >= CONTROLLERS_FROM:
            raise ValueError(f"nodes: expected {SAFE + 1} to {CONTROLLERS_FROM - 1}")
        if self.profiles not in PROFILES:
            raise ValueError(f"profiles: expected one of {', '.join(PROFILES)}")
        made_up = len(list_builds(self.features).made_up)
        if self.profiles == "many" and MINIMA**made_up < self.nodes + CONTROLLERS:
            raise ValueError("profiles: many different ones need more features")

    @property
    def listeners(self) -> int:
        """Listeners of each cluster: brokers by id, then controllers by id."""
        return self.nodes + CONTROLLERS

    @property
    def lines(self) -> int:
        """Landing lines of each cluster: listeners, two describe_cluster, describe_quorum."""
        return self.listeners + 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One night of a fleet. C clusters, N brokers, L = N + 3 listeners (brokers, controllers).

    `software`, `finalized` are rows of `builds`. `dissenter` is the broker that says the level of
    metadata.version before the finalized one at the highest epoch, -1 = nobody does.
    """

    shape: Shape
    night: int
    builds: Builds
    ids: list[str]
    combined: Bool  # [C]: controllers are brokers too
    software: Byte  # [C, L]
    finalized: Byte  # [C]
    ghost: Bool  # [C, N]
    offender: Bool  # [C, N]
    dissenter: Int  # [C]
    epoch: Int  # [C, N], never falling from one broker to the next

    @property
    def begin(self) -> int:
        """The time of the first line of this night, microseconds."""
        return FIRST_NIGHT + self.night * self.shape.minutes * MINUTE

    @property
    def as_of(self) -> int:
        """A time after every line of this night, microseconds."""
        return self.begin + self.shape.minutes * MINUTE // 2

    def at(self, clusters: slice) -> Int:
        """When each line of these clusters was read, [C, lines], microseconds."""
        lines = self.shape.lines
        rows = np.arange(*clusters.indices(self.shape.clusters))[:, None]
        return self.begin + LINE * (rows * lines + np.arange(lines))

    def answering(self, clusters: slice) -> Bool:
        """Which listeners answer, [C, L]."""
        ghosts = self.ghost[clusters]
        controllers = np.ones((len(ghosts), CONTROLLERS), dtype=bool)
        return np.hstack((~ghosts, controllers))

    def node_ids(self, cluster: int) -> list[int]:
        """The node id of each listener."""
        brokers = list(range(1, self.shape.nodes + 1))
        if self.combined[cluster]:
            return brokers + brokers[:CONTROLLERS]
        return brokers + list(range(CONTROLLERS_FROM, CONTROLLERS_FROM + CONTROLLERS))

    def minima(self, clusters: slice) -> Int:
        """The minimum versions of made-up features where they tell nodes apart, [C, L, made up]."""
        rows = np.arange(*clusters.indices(self.shape.clusters))[:, None]
        code = rows * self.shape.listeners + np.arange(self.shape.listeners)
        combined = self.combined[clusters]
        code[combined, self.shape.nodes :] = code[combined, :CONTROLLERS]
        powers = MINIMA ** np.arange(len(self.builds.made_up))
        return code[:, :, None] // powers % MINIMA


def draw(shape: Shape, night: int = 0) -> Facts:
    """The fleet of `shape` as it is on `night`, counted from 0."""
    random = np.random.default_rng(shape.seed)
    builds = list_builds(shape.features)
    clusters, nodes = shape.clusters, shape.nodes
    names = random.bytes(16 * clusters)
    ids = [
        urlsafe_b64encode(names[at : at + 16]).decode().rstrip("=")
        for at in range(0, len(names), 16)
    ]
    combined = random.random(clusters) < 0.5
    release = random.integers(2, len(builds), clusters).astype(np.int8)
    rolling = random.random(clusters) < shape.rolling
    finalized = release - (rolling | (random.random(clusters) < shape.behind)).astype(np.int8)
    planted = random.random((clusters, nodes))
    planted[:, :SAFE] = 1.0
    ghost = planted < shape.ghosts
    offender = ~ghost & (planted < shape.ghosts + shape.offenders)
    disagrees = random.random(clusters) < shape.disagreeing
    head_start = random.integers(1_000, 100_000, clusters)
    steps = random.integers(0, 2, (clusters, nodes))
    share = CHANGED_A_DAY * shape.minutes * MINUTE / DAY
    for later in range(1, night + 1):
        _change(np.random.default_rng([shape.seed, later]), share, release, rolling, finalized)
    fails = np.random.default_rng([shape.seed, night, 1]).random((clusters, nodes))
    fails[:, :SAFE] = 1.0
    ghost |= ~offender & (fails < shape.down)
    software = _software(builds, release, rolling, finalized, offender)
    combined_software = software[:, :CONTROLLERS]
    separate_software = np.repeat(release[:, None], CONTROLLERS, axis=1)
    controllers = np.where(combined[:, None], combined_software, separate_software)
    passed = night * shape.minutes * RECORDS_A_MINUTE
    epoch = head_start[:, None] + passed + np.cumsum(steps, axis=1)
    dissenter = _dissenters(ghost, disagrees)
    return Facts(
        shape=shape,
        night=night,
        builds=builds,
        ids=ids,
        combined=combined,
        software=np.hstack((software, controllers)),
        finalized=finalized,
        ghost=ghost,
        offender=offender,
        dissenter=dissenter,
        epoch=_levelled(epoch, dissenter),
    )


def _change(
    random: np.random.Generator, share: float, release: Byte, rolling: Bool, finalized: Byte
) -> None:
    """A share of clusters takes its next step: ends its roll, finalizes, or begins to roll."""
    newest = len(list_builds(1)) - 1
    moves = random.random(len(release)) < share
    ends = moves & rolling
    finalizes = moves & ~rolling & (finalized < release)
    begins = moves & ~rolling & (finalized == release) & (release < newest)
    rolling ^= ends | begins
    finalized += finalizes
    release += begins


def _software(
    builds: Builds, release: Byte, rolling: Bool, finalized: Byte, offender: Bool
) -> Byte:
    nodes = offender.shape[1]
    behind = rolling[:, None] & (np.arange(nodes) % 2 == 1)
    running = release[:, None] - behind.astype(np.int8)
    return np.where(offender, finalized[:, None] - 1, running).astype(np.int8)


def _dissenters(ghost: Bool, disagrees: Bool) -> Int:
    """The last but one of the brokers that answer, where somebody dissents."""
    backwards = np.cumsum(~ghost[:, ::-1], axis=1)
    last_but_one = ghost.shape[1] - 1 - np.argmax(backwards == 2, axis=1)
    return np.where(disagrees, last_but_one, -1)


def _levelled(epoch: Int, dissenter: Int) -> Int:
    """`epoch` with everybody from a dissenter on at its epoch: the highest, and said twice."""
    later = (dissenter[:, None] >= 0) & (np.arange(epoch.shape[1]) >= dissenter[:, None])
    return np.where(later, epoch[:, -1:], epoch)
