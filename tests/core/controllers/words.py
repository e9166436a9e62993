"""The words of the oracle: clusters, requests and answers as plain objects; what releases know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

Range = tuple[int, int]
BROKER, CONTROLLER = "broker", "controller"
METADATA, KRAFT, ELR = "metadata.version", "kraft.version", "eligible.leader.replicas.version"
ENABLED, DISABLED = "Enabled", "Disabled"
UPGRADE, SAFE, UNSAFE, UNKNOWN = "upgrade", "safe", "unsafe", "unknown"
INVALID_REQUEST, INVALID_UPDATE, UPDATE_FAILED = 42, 95, 96
NOT_AUTHORIZED, NOT_CONTROLLER, UNSUPPORTED, SERVER_ERROR = 31, 41, 35, -1


def minor(release: str) -> tuple[int, int]:
    """The release a bug fix belongs to: 4.0.1 is (4, 0)."""
    first, second = release.split(".")[:2]
    return int(first), int(second)


@dataclass(frozen=True, kw_only=True)
class Node:
    """One half of a process: a broker or a controller. A combined node is two of these."""

    node_id: int
    role: str = BROKER
    release: str = ""
    supported: dict[str, Range] = field(default_factory=dict)
    registered: bool = True  # as broker; as controller: has it ever said what it supports?
    running: bool = True
    fenced: bool = False
    active: bool = False  # the active controller (in ZooKeeper mode a broker)
    voter: bool = True  # controllers only
    ignored: bool = False  # ZooKeeper mode: left out by the controller when it registered

    @property
    def told_raft(self) -> bool:
        """Whether this voter ever told the raft leader which kraft.version it supports."""
        return self.registered and minor(self.release) >= (4, 1)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """One cluster as it is when the request arrives; nodes in the order they registered."""

    release: str
    mode: str
    nodes: tuple[Node, ...] = ()
    # What nodes report, name -> (min, level). None: ZooKeeper's features node does not exist.
    finalized: dict[str, Range] | None = field(default_factory=dict)
    epoch: int | None = 0
    # ZooKeeper mode
    ibp: str = ""  # inter.broker.protocol.version
    status: str | None = None  # of the features node
    sees_node: bool = True  # False: the controller's watch on the features node is lost
    # KRaft
    zk_migration: bool = False
    raft: int = 0  # the raft layer's kraft.version
    kraft_record: int = 0  # 3.9: the controller's own kraft.version record
    elr_default: bool = True  # 4.x: the default that comes with eligible leader replicas is written

    def brokers(self) -> list[Node]:
        """All registered brokers, fenced and stopped ones too."""
        return [n for n in self.nodes if n.role == BROKER and n.registered]

    def live_brokers(self) -> list[Node]:
        return [n for n in self.brokers() if n.running and not n.fenced and not n.ignored]

    def active(self) -> Node | None:
        return next((n for n in self.nodes if n.active), None)

    def quorum(self) -> list[Node]:
        return [n for n in self.nodes if n.role == CONTROLLER and n.voter]

    def levels(self) -> dict[str, int]:
        return {name: level for name, (_, level) in (self.finalized or {}).items()}


@dataclass(frozen=True)
class Update:
    feature: str
    level: int
    upgrade_type: int = 1  # wire v1 on: 1 upgrade, 2 safe, 3 unsafe, else unknown
    allow_downgrade: bool = False  # wire v0 only

    def intent(self) -> str:
        """What the upgrade type says (wire v1 on)."""
        return {1: UPGRADE, 2: SAFE, 3: UNSAFE}.get(self.upgrade_type, UNKNOWN)


@dataclass(frozen=True, kw_only=True)
class Request:
    version: int
    updates: tuple[Update, ...]
    validate_only: bool = False
    timeout_ms: int = 10_000
    sent_to: int
    listener: str = BROKER  # of which half of that process
    authorized: bool = True


class Result(NamedTuple):
    feature: str
    code: int
    message: str | None
    rules: tuple[str, ...] = ()  # `kip` only: every broken rule


@dataclass(frozen=True, kw_only=True)
class Answer:
    code: int
    message: str | None
    results: list[Result] | None  # None: this wire version has no such field
    after: dict[str, Range] | None
    status: str | None = None  # of the features node afterwards (ZooKeeper mode)
    epoch_moved: bool | None  # None: it may
    steps: int  # what the request itself adds to the epoch, at least
    kraft_record: int = 0
    raft: int = 0


def turned_away(cluster: Cluster, request: Request, code: int, message: str) -> Answer:
    """The whole request is refused before any update was looked at, or because of one."""
    return Answer(
        code=code,
        message=message,
        results=None if request.version >= 2 else [],
        after=cluster.finalized,
        status=cluster.status,
        epoch_moved=False,
        steps=0,
        kraft_record=cluster.kraft_record,
        raft=cluster.raft,
    )


def outside(level: int, span: Range) -> bool:
    return level < span[0] or level > span[1]


# The oldest and newest metadata.version a release's software has a name for, unstable ones too.
KNOWN = {
    (3, 3): (1, 7),
    (3, 4): (1, 8),
    (3, 5): (1, 11),
    (3, 6): (1, 14),
    (3, 7): (1, 20),
    (3, 8): (1, 21),
    (3, 9): (1, 23),
    (4, 0): (7, 26),
    (4, 1): (7, 29),
    (4, 2): (7, 30),
    (4, 3): (7, 31),
    (4, 4): (7, 34),
}
# Levels whose step changed how metadata is written.
LOSSY = {1, 3, 5, 6, 7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33}


def knows_metadata(release: str, level: int) -> bool:
    low, high = KNOWN[minor(release)]
    return low <= level <= high


def lossy_steps(release: str) -> set[int]:
    """An unstable level's mark could still change before it was released."""
    if minor(release) == (3, 7):
        return LOSSY | {20}
    if minor(release) == (3, 8):
        return LOSSY | {21}
    if minor(release) == (3, 9):
        return (LOSSY | {22}) - {23}
    if minor(release) == (4, 2):
        return LOSSY - {30}
    return LOSSY


def loses_metadata(release: str, level: int, current: int) -> bool:
    return any(level < step <= current for step in lossy_steps(release))


def levels_of(release: str) -> dict[str, int]:
    """The newest level of each other feature that a 4.x release's software knows."""
    known = {KRAFT: 1, "transaction.version": 2, "group.version": 1, ELR: 1}
    if minor(release) >= (4, 1):
        known |= {"share.version": 1, "streams.version": 1}
    if minor(release) >= (4, 4):
        known["share.version"] = 2
    return known


def needs(release: str, feature: str, level: int) -> dict[str, int]:
    """The declared dependencies of one level."""
    if feature == ELR and level >= 1:
        return {METADATA: 23}
    if feature == KRAFT and level >= 1 and minor(release) <= (4, 0):
        return {METADATA: 21}
    return {}
