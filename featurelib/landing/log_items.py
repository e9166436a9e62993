"""What one line of kafka-dump-log can say, as values.

A record of a type nobody here needs is `Other`; a line that should have said something and cannot
be read is `Undecodable`, because a gap in the log is evidence too.
"""

from __future__ import annotations

from msgspec import Struct

from featurelib.landing.ranges import Ranges


class Dumping(Struct, frozen=True, gc=False):
    """The tool begins with a file."""

    file: str


class LogStart(Struct, frozen=True, gc=False):
    """A log segment begins at this offset."""

    offset: int


class SnapshotStart(Struct, frozen=True, gc=False):
    """A checkpoint follows: the state below this offset."""

    end_offset: int


class BootstrapStart(Struct, frozen=True, gc=False):
    """A bootstrap checkpoint follows: what `format` asked for, not what holds."""


class Batch(Struct, frozen=True, gc=False):
    """A batch begins; both offsets belong to it."""

    base_offset: int
    last_offset: int
    count: int
    is_control: bool


class LeftOut(Struct, frozen=True, gc=False):
    """A collector kept these lines back: their records say nothing about features or nodes.

    `lines` of the dump, from this one's number on. `first` and `last` are the offsets of their
    records, without a hole; both None = they held no record.
    """

    lines: int
    first: int | None
    last: int | None


class FeatureLevel(Struct, frozen=True, gc=False):
    """A feature was finalized; level 0 removes it."""

    name: str
    level: int


class RegisterBroker(Struct, frozen=True, gc=False):
    """A broker registered; replaces all that was known of the id."""

    id: int
    fenced: bool
    features: Ranges
    is_migrating: bool  # it still runs in ZooKeeper mode


class UnregisterBroker(Struct, frozen=True, gc=False):
    """A registration was removed."""

    id: int


class UnregisterController(Struct, frozen=True, gc=False):
    """A controller's registration was removed (KIP-1312, Kafka 4.4)."""

    id: int


class RegistrationChange(Struct, frozen=True, gc=False):
    """A registration changed; `fenced` 1 fenced, -1 unfenced, 0 as before."""

    id: int
    fenced: int


class FenceBroker(Struct, frozen=True, gc=False):
    """A broker was fenced (before metadata.version 3.3-IV2)."""

    id: int


class UnfenceBroker(Struct, frozen=True, gc=False):
    """A broker was unfenced (before metadata.version 3.3-IV2)."""

    id: int


class RegisterController(Struct, frozen=True, gc=False):
    """A controller registered; replaces all that was known of the id."""

    id: int
    features: Ranges


class BeginTransaction(Struct, frozen=True, gc=False):
    """What follows holds only if the transaction ends, and not if it is aborted."""


class EndTransaction(Struct, frozen=True, gc=False):
    """What stood since the transaction began holds."""


class AbortTransaction(Struct, frozen=True, gc=False):
    """What stood since the transaction began never was."""


class ZkMigrationState(Struct, frozen=True, gc=False):
    """0 none, 1 migration, 2 pre-migration, 3 post-migration (3.4 had 1 and 2 swapped)."""

    state: int


class KRaftVersion(Struct, frozen=True, gc=False):
    """The raft layer's kraft.version."""

    level: int


class KRaftVoters(Struct, frozen=True, gc=False):
    """The voters of a dynamic quorum, ascending."""

    ids: tuple[int, ...]


class SnapshotHeader(Struct, frozen=True, gc=False):
    """First record of a checkpoint."""


class SnapshotFooter(Struct, frozen=True, gc=False):
    """Last record of a checkpoint: it is complete."""


class Other(Struct, frozen=True, gc=False):
    """A record that says nothing about features or nodes."""

    type: str


class Undecodable(Struct, frozen=True, gc=False):
    """A line that cannot be read, and why."""

    text: str


Body = (
    FeatureLevel
    | RegisterBroker
    | UnregisterBroker
    | UnregisterController
    | RegistrationChange
    | FenceBroker
    | UnfenceBroker
    | RegisterController
    | BeginTransaction
    | EndTransaction
    | AbortTransaction
    | ZkMigrationState
    | KRaftVersion
    | KRaftVoters
    | SnapshotHeader
    | SnapshotFooter
    | Other
    | Undecodable
)


class Record(Struct, frozen=True, gc=False):
    """One record; `offset` None where the tool was told to leave it out, or it is damaged."""

    offset: int | None
    body: Body


LogItem = Dumping | LogStart | SnapshotStart | BootstrapStart | Batch | Record | LeftOut
