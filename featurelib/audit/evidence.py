"""Turns snapshot rows into everything the rules look at, each part by the module named after it.

A row of a snapshot holds what every witness said of one cluster. Four readings, one upon another:

    registrations.py   who must answer   Subjects: a row a node half, with its profile
                                         Membership: a row a cluster, what is known of who is in it
    finalized.py       who is believed   Levels: entries (cluster, feature, level), and who disputes
    features.py        what is asked     Answering: a row each distinct (cluster, profile)
                                         Questions: a row each (cluster, feature), and its pairs
    configured.py      who is configured ConfiguredVoters: by cluster, whom its controller asks

Positions join them: `subjects.cluster` and `questions.cluster` are rows of `clusters`,
`answering.of_subject` leads from a subject to its answering profile, `expand` from a pair back to
the subjects behind it. features.py draws an example. Node keys (columns.py) order subjects by
cluster, role and id.

What cannot be known is said in flags beside the columns, so that a missing value never decides:
`of_subject` -1 (its range is not known, or too old to count), `known` of a question (no witness of
its level can be trusted), `controllers_known` (a list of registered controllers was read). No flag
ever refuses anything: missing.py makes findings of them, and those make UNKNOWN.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from featurelib.audit.columns import Bool, Int, node_key
from featurelib.audit.configured import Configurations, ConfiguredVoters
from featurelib.audit.features import Answering, Questions, answer, ask
from featurelib.audit.finalized import Levels, read_levels
from featurelib.audit.findings import Mute
from featurelib.audit.registrations import Membership, Profiles, Subjects, read_nodes
from featurelib.core.features_znode import Generation
from featurelib.feature import KRAFT_VERSION, Role
from featurelib.snapshot.records import Records, Snapshots


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the inventory says of one cluster."""

    brokers: tuple[int, ...] = ()
    controllers: tuple[int, ...] = ()
    vouched: bool = False  # the owner stands for the registrations being complete
    controllers_vouched: bool = False  # … for controllers nobody can ask
    # Its controller, who knows whom it asks, validates what is to be sent before that is.
    controller_decides: bool = False
    generation: Generation | None = None  # of a ZooKeeper-mode cluster
    release: str = ""  # of the software that runs there, as 3.9; "" = not told


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A feature that was READY, or was so before nobody could tell: since when, microseconds.

    `level`: what was finalized then; None = no trustworthy witness.
    """

    since: int
    level: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What judging depends on beside the evidence. Microseconds.

    `mutes` and `waiting` (by cluster and feature) make findings, and never a verdict.
    """

    as_of: int
    max_age: int
    inventory: dict[str, Expected] = field(default_factory=dict)
    mutes: tuple[Mute, ...] = ()
    waiting: dict[str, dict[str, Waiting]] = field(default_factory=dict)  # of the night before
    forgotten: int = 0  # READY for as long is forgotten; 0 = never


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A batch of clusters, ready to be judged."""

    clusters: list[str]
    as_of: int  # microseconds
    landed: Bool
    snapshots: Snapshots  # what it was read from
    subjects: Subjects
    membership: Membership
    controller: Int  # node id of the active one by cluster, -1 = not known
    levels: Levels
    answering: Answering
    questions: Questions
    listeners: Records
    configurations: Configurations
    configured: ConfiguredVoters
    controllers_vouched: Bool  # the owner stands for those nobody can ask
    controller_decides: Bool  # as in Expected
    malformed: dict[int, str]  # by cluster, what is wrong with its row; nothing else is known

    def errors(self, listener: int) -> str:
        """Why a listener did not answer, in the collector's words."""
        return self.listeners.text("error", listener) or "no reason given"

    def features(self, questions: Int) -> pa.Array:
        """The feature names of these questions."""
        names = pa.array(self.questions.names, pa.string())
        return names.take(pa.array(self.questions.feature[questions]))

    def dynamic(self) -> tuple[Bool, Bool]:
        """By cluster, whether its quorum is dynamic (kraft.version 1 or more, KIP-853), and whether
        it may be one for all that is known. A record that the raft layer disputes makes none."""
        asked, clusters = self.questions, len(self.clusters)
        mine = np.zeros(len(asked.cluster), dtype=bool)
        if KRAFT_VERSION in asked.names:
            mine = asked.feature == asked.names.index(KRAFT_VERSION)
        is_dynamic = np.zeros(clusters, dtype=bool)
        is_dynamic[asked.cluster[mine & (asked.current > 0)]] = True
        is_dynamic[[at for at, name, _ in self.levels.disputed if name == KRAFT_VERSION]] = False
        may_be = is_dynamic.copy()
        may_be[asked.cluster[mine & ~asked.known]] = True
        return is_dynamic, may_be

    def expand(self, pairs: Int) -> tuple[Int, Int]:
        """Every subject behind the given pairs: (pair, subject), one row each."""
        answering = self.answering
        profile = self.questions.pair_profile[pairs]
        count = answering.subject_first[profile + 1] - answering.subject_first[profile]
        pair = np.repeat(pairs, count)
        begin = np.repeat(answering.subject_first[profile] - (np.cumsum(count) - count), count)
        return pair, answering.subject_order[begin + np.arange(len(pair))]


def read(batch: pa.RecordBatch, conditions: Conditions, absent_metadata: int) -> Evidence:
    """Evidence from rows of featurelib.schema.SNAPSHOT (`state` is not needed)."""
    snapshots = Snapshots(batch)
    names, malformed = snapshots.clusters, snapshots.malformed
    inventory = conditions.inventory
    known = {
        i: inventory[name]
        for i, name in enumerate(names)
        if name in inventory and i not in malformed
    }
    profiles = Profiles(snapshots)
    decides = _those(names, [i for i, entry in known.items() if entry.controller_decides])
    vouched = _those(names, [i for i, entry in known.items() if entry.vouched]) | decides
    controllers = _those(names, [i for i, entry in known.items() if entry.controllers_vouched])
    levels = read_levels(
        snapshots,
        as_of=conditions.as_of,
        max_age=conditions.max_age,
        generations={i: e.generation for i, e in known.items() if e.generation is not None},
    )
    subjects, membership = read_nodes(
        snapshots,
        profiles,
        as_of=conditions.as_of,
        max_age=conditions.max_age,
        expected=_expected_keys(known),
        vouched=vouched,
        system_off=levels.system_off,
    )
    # Who vouches for controllers says that there are some.
    run_by_quorum = membership.kraft | (controllers & ~membership.zookeeper)
    membership = replace(membership, kraft=run_by_quorum)
    answering, profile = answer(subjects, profiles)
    questions = ask(profiles, levels, membership, answering, profile, subjects, absent_metadata)
    controller = snapshots.scalar("controller")
    configurations = Configurations(snapshots["configs"])
    configured = configurations.voters(
        controller, as_of=conditions.as_of, max_age=conditions.max_age
    )
    return Evidence(
        clusters=names,
        as_of=conditions.as_of,
        landed=snapshots.landed,
        snapshots=snapshots,
        subjects=subjects,
        membership=membership,
        controller=controller,
        levels=levels,
        answering=answering,
        questions=questions,
        listeners=snapshots["listeners"],
        configurations=configurations,
        configured=configured,
        controllers_vouched=controllers,
        controller_decides=decides,
        malformed=malformed,
    )


def _those(names: list[str], positions: list[int]) -> Bool:
    these = np.zeros(len(names), dtype=bool)
    these[positions] = True
    return these


def _expected_keys(known: dict[int, Expected]) -> Int:
    rows = [(i, Role.BROKER, node) for i, entry in known.items() for node in entry.brokers]
    rows += [(i, Role.CONTROLLER, node) for i, entry in known.items() for node in entry.controllers]
    return np.sort(node_key(*np.array(rows, dtype=np.int64).reshape(-1, 3).T))
