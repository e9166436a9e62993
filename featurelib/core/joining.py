"""Whether a node that wants to join is accepted: question (b) of the core (KIP-778, M16).

Every feature that does not fit is found, though Kafka names only the first. In KRaft mode the
active controller judges a registration; in ZooKeeper mode the broker judges itself, and what comes
all the same is left out of the live brokers by the controller. Registrations before any feature is
looked at (cluster id, a second broker of one id, migration, wrong directories) are not judged here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from featurelib.catalogue.tables import Tables
from featurelib.core.batch import Flags, Levels
from featurelib.core.cluster import Cluster, Node
from featurelib.core.dialect import Dialect
from featurelib.core.java import string_hash
from featurelib.core.rows import NodeRows
from featurelib.core.rules import RULES
from featurelib.core.sections import Absence, Protection, Registration, is_before
from featurelib.core.standing import (
    GUARDS,
    Codes,
    Members,
    Standing,
    guard_of,
    own_generation,
    stand,
    unfit,
)
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role


class Entry(IntEnum):
    """What becomes of a registration."""

    ACCEPTED = 0
    REFUSED = 1  # the controller answers with an error; the node asks again, for ever
    STOPS = 2  # the broker looks itself before it registers, and exits (ZooKeeper mode)
    IGNORED = 3  # it is registered, and left out of the live brokers (ZooKeeper mode)
    NOT_REGISTERED = 4  # controllers of this generation do not register


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Registrations as a controller reads them, beside what it holds them against. [N, F]"""

    level: Levels
    min_version: Levels
    max_version: Levels
    lists: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What becomes of N registrations, and every feature that does not fit."""

    entry: Codes  # [N] of Entry
    unfit: Flags  # [N, F]
    no_directories: Flags  # [N] refused before its features are looked at
    too_early: Flags  # [N] a controller, before controllers register
    read: Read


def judge(standing: Standing, members: Members, dialect: Dialect, tables: Tables) -> Judged:
    """What becomes of each member's registration, whether or not it is registered now.

    Source: ClusterControlManager.registerBroker and registerController;
    FinalizedFeatureChangeListener, KafkaController.partitionOnFeatureCompatibility.
    """
    read = _read(standing, members, dialect)
    if dialect.registration.at_start:
        return _judge_themselves(standing, members, dialect, tables, read)
    register_from = dialect.can.controllers_register_from
    metadata_version = read.level[:, standing.code(METADATA_VERSION)]
    too_early = members.controller & (metadata_version < register_from)
    named_from, broker = dialect.registration.directories_from, ~members.controller
    bare = broker & ~members.directories & (metadata_version >= named_from) & (named_from > 0)
    offends = _offends(read, dialect) & broker[:, None]
    refused = bare | too_early | offends.any(axis=1)
    entry = np.where(refused, Entry.REFUSED, Entry.ACCEPTED)
    if register_from == 0:
        entry = np.where(members.controller, Entry.NOT_REGISTERED, entry)
    return Judged(
        entry=entry.astype(np.int8),
        unfit=offends,
        no_directories=bare,
        too_early=too_early,
        read=read,
    )


def _read(standing: Standing, members: Members, dialect: Dialect) -> Read:
    code, lists = standing.code(METADATA_VERSION), standing.ranges.lists[members.profile]
    low = standing.ranges.min_version[members.profile]
    high = standing.ranges.max_version[members.profile]
    least, most = dialect.registration.absent_metadata_version
    if most > 0:
        absent = ~lists[:, code]
        low[absent, code], high[absent, code], lists[absent, code] = least, most, True
    level = standing.level[members.cluster]
    absent = level[:, code] == 0
    level[absent, code] = dialect.can.absent_metadata_version
    if dialect.can.kraft_version == "record":  # what nodes report may be a record of no effect
        level[:, standing.code(KRAFT_VERSION)] = standing.raft_level[members.cluster]
    return Read(level=level, min_version=low, max_version=high, lists=lists)


def _offends(read: Read, dialect: Dialect) -> Flags:
    """[N, F] every feature over which a controller in KRaft mode refuses a broker."""
    table = dialect.registration
    compared = np.ones(read.lists.shape, dtype=bool)
    if table.absence is Absence.SKIP:
        compared &= read.lists
    if table.not_finalized is Absence.SKIP:
        compared &= read.level > 0
    rows = NodeRows(
        lowest=read.level,
        level=read.level,
        min_version=read.min_version,
        max_version=read.max_version,
    )
    return RULES["unsupported_by_node"].ask(rows) & compared


def _judge_themselves(
    standing: Standing, members: Members, dialect: Dialect, tables: Tables, read: Read
) -> Judged:
    """ZooKeeper mode: each broker by its own generation, the rest by the controller's."""
    own = unfit(standing, members, tables)
    count = len(members.guard)
    as_controller = replace(
        members,
        guard=np.full(count, GUARDS.index(guard_of(dialect, Role.BROKER)), dtype=np.int8),
        guarded=np.ones(count, dtype=bool),
    )
    seen = unfit(standing, as_controller, tables)
    stops: Flags = np.logical_or.reduce(own, axis=1)
    ignored: Flags = np.logical_or.reduce(seen, axis=1)
    entry = np.select([stops, ignored], [Entry.STOPS, Entry.IGNORED], Entry.ACCEPTED)
    return Judged(
        entry=entry.astype(np.int8),
        unfit=np.where(stops[:, None], own, seen),
        no_directories=np.zeros(count, dtype=bool),
        too_early=np.zeros(count, dtype=bool),
        read=read,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """A node that wants to join, and how it does."""

    node: Node
    protocol_version: str = ""  # inter.broker.protocol.version in ZooKeeper mode; empty: 2.7 or up
    unguarded: bool = False  # nobody looks before this registers: made by hand, or a lost race


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """A feature that does not fit, and the words about it."""

    feature: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What becomes of one registration. `code` and `message` are what Kafka answers or logs."""

    entry: Entry
    code: int = 0
    message: str | None = None
    unfit: tuple[Unfit, ...] = ()  # all of them, in the order in which Kafka looks


def join(cluster: Cluster, newcomer: Newcomer, dialect: Dialect, tables: Tables) -> Joined:
    """What becomes of a registration, in Kafka's words and code, with all that does not fit."""
    node, guarded = newcomer.node, not newcomer.unguarded
    if is_before(newcomer.protocol_version, dialect.election.system_from):
        node, guarded = replace(node, supported={}), False  # it says no ranges, it never looks
    standing, members = stand([replace(cluster, nodes=(node,))], dialect, tables)
    members = replace(members, guarded=np.array([guarded]))
    judged = judge(standing, members, dialect, tables)
    entry, table = Entry(int(judged.entry[0])), dialect.registration
    protection = (own_generation(node, dialect) if entry is Entry.STOPS else dialect).protection
    found = [
        Unfit(feature=name, text=_words(judged, standing, table, protection, name))
        for name in _order(cluster, node)
        if judged.unfit[0, standing.code(name)]
    ]
    code, message = 0, None
    if judged.no_directories[0]:
        code, message = table.directories_code, table.says_directories
    elif entry is Entry.REFUSED:
        code = table.code
        message = found[0].text if found else table.says_controller
    elif entry is Entry.STOPS:
        message = protection.says_broker_prefix + ", ".join(item.text for item in found)
    elif entry is Entry.IGNORED:
        message = table.says_ignored.format(node=node.node_id)
    return Joined(entry=entry, code=code, message=message, unfit=tuple(found))


def _words(
    judged: Judged, standing: Standing, table: Registration, protection: Protection, name: str
) -> str:
    """What is said about one feature of the first member: by a controller, or by the broker."""
    at = 0, standing.code(name)
    own = protection.says_broker if judged.read.lists[at] else protection.says_broker_absent
    return (table.says or own).format(
        feature=name,
        level=int(judged.read.level[at]),
        lowest=int(standing.minimum[at]),
        node_min=int(judged.read.min_version[at]),
        node_max=int(judged.read.max_version[at]),
    )


def _order(cluster: Cluster, node: Node) -> list[str]:
    """The order in which a controller looks: what is listed, metadata.version, then the rest of
    what is finalized as a copy of its hash map walks it."""
    there = (name for name, (_, level) in cluster.finalized.items() if level)
    finalized = sorted({METADATA_VERSION, KRAFT_VERSION, *there})
    size = 2
    while size < int(len(finalized) / 0.75 + 1):  # as HashMap(Map) reckons
        size *= 2
    hashes = {name: string_hash(name) for name in finalized}
    finalized.sort(key=lambda name: (hashes[name] ^ hashes[name] >> 16) & (size - 1))
    in_order = (*node.supported, METADATA_VERSION, *finalized, *cluster.finalized)
    return list(dict.fromkeys(in_order))
