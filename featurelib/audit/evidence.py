"""Turn snapshot rows, one per cluster, into the columns that the rules need, in four modules:

    registrations.py   which nodes count Subjects: a row a node half, with its profile
                                         Membership: a row a cluster, what is known of who is in it
    finalized.py       who is believed   Levels: entries (cluster, feature, level), and who disputes
    features.py        what is asked     Answering: a row each distinct (cluster, profile)
                                         Questions: a row each (cluster, feature), and its pairs
    here               who is configured StaticVoters: by cluster, whom its controller asks

Positions join them: `subjects.cluster` and `questions.cluster` are rows of `clusters`,
`answering.of_subject` leads from a subject to its answering profile, `expand` from a pair back to
the subjects behind it. features.py draws an example. Node keys (columns.py) order subjects by
cluster, role and id.

Flags beside the columns mark unknown values, so that a missing value never decides: `of_subject` -1
(its range is not known, or too old to count), `known` of a question (no witness of its level can be
trusted), `controllers_known` (a list of registered controllers was read). No flag rejects a level:
missing.py turns flags into findings, and these make UNKNOWN.

A node whose configuration was not read has no entry and no default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import NamedTuple

import msgspec
import numpy as np

from featurelib.audit.columns import (
    broker_key,
    distinct,
    find,
    is_fresh,
    marked,
    node_key,
    other_half,
    split_key,
)
from featurelib.audit.features import Answering, Questions, answer, ask
from featurelib.audit.finalized import Levels, read_levels
from featurelib.audit.findings import Findings, Mute
from featurelib.audit.profiles import Profiles
from featurelib.audit.registrations import Membership, Subjects, read_nodes, record_keys
from featurelib.catalogue import Catalogue
from featurelib.core.features_znode import Generation
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role, Severity, Witness
from featurelib.landing.responses import BROKER_DEFAULT, VOTERS
from featurelib.rows import NONE, Bool, Column, Int, TableRows, Texts, make_rows, spread, texts_of
from featurelib.schema import FINALIZED_LEVEL, SUPPORTED_RANGE
from featurelib.snapshot.records import Records, Snapshots

NOT_LISTED = -1  # the source of a configuration key that the response lacks
# Sources in DescribeConfigsResponse that matter for a verdict or a side effect.
ONE_BROKER, ALL_BROKERS, OWN_FILE, KAFKAS_DEFAULT = 2, 3, 4, 5
_VOTER = re.compile(r"(\d{1,10})@.+", re.ASCII)
_LARGEST_ID = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The inventory's declarations about one cluster: expected nodes, release, manager."""

    brokers: tuple[int, ...] = ()
    controllers: tuple[int, ...] = ()
    vouched: bool = False  # the owner declares the registrations complete
    controllers_vouched: bool = False  # the owner declares unreachable controllers compatible
    # True if every node that the controller requires was read, and requests are validated first.
    controller_decides: bool = False
    generation: Generation | None = None  # the software generation of a ZooKeeper-mode cluster
    release: str = ""  # the release of the running software, such as 3.9; "" = unknown
    managed_by: str = ""  # the service or tool that finalizes levels; "" = the owner, or unknown


UNEXPECTED = Expected()


class Waiting(NamedTuple):  # a NamedTuple, because workers get tens of thousands
    """The last run's judgement of a feature. `level`: the finalized level then, None = no trusted
    source; `since`: the start of READY; `verdict_since`: the start of the present verdict and
    target; microseconds."""

    level: int | None
    verdict: str
    target: int | None
    since: int | None
    verdict_since: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The settings of a judgement: time, inventory, mutes, and results of earlier runs. `mutes` and
    `waiting` (by cluster and feature) change findings, never a verdict."""

    as_of: int
    max_age: int
    inventory: dict[str, Expected] = field(default_factory=dict)
    mutes: tuple[Mute, ...] = ()
    # Cluster → feature → the previous run's judgement.
    waiting: dict[str, dict[str, Waiting]] = field(default_factory=dict)
    # Cluster → time of the newest line that an earlier run judged.
    newest_lines: Mapping[str, int] = field(default_factory=dict)
    forgotten: int = 0  # a feature READY for this long counts as forgotten; 0 = never
    min_ready: int = 0  # a plan is offered after this time of READY
    up_to: int = (
        0  # the policy's highest metadata.version, which limits all maximum levels; 0 = no limit
    )


class ConfiguredValue(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration value on a node. `at`: microseconds; `line`: the bronze line. Value None =
    the key is not set."""

    node_id: int
    role: int
    resource: str
    key: str
    value: str | None
    source: int
    at: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticVoters:
    """The node ids in the `controller.quorum.voters` of one controller; () = the key is empty."""

    cluster: int  # the cluster's position in the batch
    node_id: int
    ids: tuple[int, ...]
    at: int
    line: int


class Configurations:
    """The configurations of the nodes of a batch, decoded on first use."""

    def __init__(self, records: Records) -> None:
        """Keep `records`, the part `configs` of featurelib.schema.LAYOUT."""
        self._records = records

    def of(self, cluster: int, role: Role, node_id: int, key: str) -> ConfiguredValue | None:
        """Return the value of a key on a node; None = no response of the node."""
        return self._values.get((cluster, int(role), node_id, str(node_id), key))

    def default(self, cluster: int, key: str) -> ConfiguredValue | None:
        """Return the cluster-wide default of a broker key from the newest response; None = no
        response. Its `value` is None if no default is set."""
        return self._defaults.get((cluster, key))

    @cached_property
    def static_voters(self) -> tuple[StaticVoters, ...]:
        """The readable `controller.quorum.voters` of all controllers, by cluster and node."""
        records = self._records
        is_voters_key = records.field("key") == records.code("key", VOTERS)
        is_voters_key &= records.field("role") == int(Role.CONTROLLER)
        is_voters_key &= records.field("resource") != records.code("resource", BROKER_DEFAULT)
        at = np.flatnonzero(is_voters_key)
        values = zip(records.row[at].tolist(), records.structs(ConfiguredValue, at), strict=True)
        return tuple(
            StaticVoters(cluster=cluster, node_id=v.node_id, ids=ids, at=v.at, line=v.line)
            for cluster, v in values
            if (ids := voter_ids(v.value)) is not None
        )

    def voters(self, active: Int, as_of: int, max_age: int) -> dict[int, StaticVoters]:
        """Return cluster → recent `controller.quorum.voters` of the active controller: the nodes
        that it requires (QuorumFeatures.quorumNodeIds). `active`: node id per cluster, -1 =
        unknown."""
        return {
            voters.cluster: voters
            for voters in self.static_voters
            if voters.node_id == active[voters.cluster] and abs(as_of - voters.at) <= max_age
        }

    @cached_property
    def _defaults(self) -> dict[tuple[int, str], ConfiguredValue]:
        newest: dict[tuple[int, str], ConfiguredValue] = {}
        for (cluster, _, _, resource, key), value in self._values.items():
            if resource == BROKER_DEFAULT:
                older = newest.get((cluster, key), value)
                newest[cluster, key] = max(older, value, key=lambda value: (value.at, value.line))
        return newest

    @cached_property
    def _values(self) -> dict[tuple[int, int, int, str, str], ConfiguredValue]:
        values = self._records.structs(ConfiguredValue)
        rows = zip(self._records.row.tolist(), values, strict=True)
        return {(row, v.role, v.node_id, v.resource, v.key): v for row, v in rows}


@cache
def voter_ids(value: str | None) -> tuple[int, ...] | None:
    """Return the distinct ids in a text `ID@HOST:PORT,…`, in its order; None if the text has
    another format."""
    if value is None:
        return None
    entries = [entry.strip() for entry in value.split(",") if entry.strip()]
    matches = [_VOTER.match(entry) for entry in entries]
    ids = [int(match[1]) for match in matches if match is not None]
    if len(ids) < len(entries) or any(match > _LARGEST_ID for match in ids):
        return None
    return tuple(dict.fromkeys(ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence about a batch of clusters as columns, the input of the judgement."""

    clusters: list[str]
    as_of: int  # the time of the judgement, microseconds; so is max_age
    max_age: int
    landed: Bool
    snapshots: Snapshots  # the snapshot rows from which the columns are made
    subjects: Subjects
    membership: Membership
    controller: Int  # by cluster: the node id of the active controller, -1 = unknown
    levels: Levels
    answering: Answering
    questions: Questions
    listeners: Records
    configurations: Configurations
    configured: dict[int, StaticVoters]  # cluster → the configured voters, if they were read
    controllers_vouched: Bool  # by cluster: the owner declares unreachable controllers compatible
    controller_decides: Bool  # by cluster: the attribute of that name in Expected
    operated: Int  # keys of nodes that Strimzi's resources name, ascending
    malformed: dict[int, str]  # cluster → why its row cannot be read, so that all data is unknown

    def errors(self, listeners: Int) -> list[str]:
        """Return the collector's error texts for unreachable listeners."""
        return [text or "no reason given" for text in self.listeners.texts("error", listeners)]

    def features(self, questions: Int) -> Texts:
        """Return the feature names of (cluster, feature) pairs, given by position."""
        return Texts(words=self.questions.names, codes=self.questions.feature[questions])

    def may_lead(self, counted: Bool) -> Bool:
        """Return a mask of the nodes in `counted` that are or may be the active controller: brokers
        in ZooKeeper mode, controllers on KRaft. If no controller is known, brokers stand for
        controllers."""
        node, clusters, controller = self.subjects, len(self.clusters), self.subjects.role > 0
        led = marked(clusters, node.cluster[controller & counted]) & ~self.membership.on_zookeeper
        local = np.where(led[node.cluster], controller, ~controller) & counted
        active = local & (node.node_id == self.controller[node.cluster])
        # Any broker may lead now if only /controller shows the controller.
        is_shown = (node.listener >= 0) | (self.answering.of_subject >= 0)
        active &= is_shown | ~self.membership.on_zookeeper[node.cluster]
        has_active = marked(clusters, node.cluster[active])
        return np.where(has_active[node.cluster], active, local)

    def uncatalogued(self, catalogue: Catalogue) -> Bool:
        """Return a mask of (cluster, feature) with a KRaft feature unknown to the catalogue."""
        query = self.questions
        unknown = np.isin(query.feature, _unknown(query.names, catalogue))
        return unknown & ~self.membership.on_zookeeper[query.cluster]

    def finalized_by_vendor(self, catalogue: Catalogue) -> Bool:
        """Return a mask of the KRaft clusters with a finalized feature that the catalogue lacks.
        Such clusters run a vendor's build."""
        levels = self.snapshots["levels"]
        unknown = np.isin(levels.field("feature"), _unknown(self.snapshots.names, catalogue))
        return marked(len(self.clusters), levels.row[unknown]) & ~self.membership.on_zookeeper

    def unlisted_observers(self, clusters: Bool) -> tuple[Int, Int]:
        """Return (cluster, node id) of each observer that no node list contains."""
        observers, node = self.snapshots["observers"], self.subjects
        keys = node_key(observers.row, 0, observers.field("node_id"))[clusters[observers.row]]
        keys = keys[find(node.key, keys) < 0]
        return split_key(keys[find(node.key, other_half(keys)) < 0])[::2]

    def strangers(self) -> Int:
        """Return the listeners that only metrics show and no node list contains: nodes of another
        cluster, or new nodes."""
        node, member, observers = self.subjects, self.membership, self.snapshots["observers"]
        times = np.maximum(self.listeners.field("full_at"), self.listeners.field("partial_at"))
        rows = np.flatnonzero((self.listeners.field("scraped") >= 0) & (times == 0))
        if len(rows) == 0:  # this early return saves a sort of all nodes
            return rows
        keys, cluster = record_keys(self.listeners)[rows], self.listeners.row[rows]
        follow = node_key(observers.row, int(Role.CONTROLLER), observers.field("node_id"))
        known_keys = node.key[node.registered | node.voter]
        known = distinct(np.concatenate((known_keys, follow, broker_key(follow))))
        is_broker = self.listeners.field("role")[rows] == Role.BROKER
        listed = np.where(is_broker, member.brokers_listed[cluster], member.quorum_known[cluster])
        return rows[(find(known, keys) < 0) & listed]

    def left_out(self) -> Bool:
        """Return a mask of the brokers in ZooKeeper mode that the controller ignores because they
        do not support the finalized levels (KafkaController.partitionOnFeatureCompatibility).

        From 3.3 on controllers ignore finalized minimums. The verdict does not change, because such
        controllers check these nodes anyway."""
        query = self.questions
        mask = query.pair_unfit & self.membership.on_zookeeper[query.cluster][query.pair_question]
        # The last entry is for position -1: a node without a profile.
        profiles = marked(len(self.answering.cluster) + 1, query.pair_profile[mask])
        return profiles[self.answering.of_subject]

    def dynamic(self) -> tuple[Bool, Bool]:
        """Return two masks of clusters: the quorum is dynamic (kraft.version 1 or above, KIP-853);
        the quorum may be dynamic."""
        query, rows = self.questions, self.questions.of_feature(KRAFT_VERSION)
        is_dynamic = marked(len(self.clusters), query.cluster[rows & (query.current > 0)])
        is_dynamic[[at for at, name, _ in self.levels.disputed if name == KRAFT_VERSION]] = False
        return is_dynamic, is_dynamic | marked(len(is_dynamic), query.cluster[rows & ~query.known])

    def ranges(self) -> list[dict[str, tuple[int, int]]]:
        """Return feature → range per profile, without features that a response may omit."""
        query, pairs = self.questions, np.flatnonzero(self.questions.pair_listed)
        ranges = [dict[str, tuple[int, int]]() for _ in self.answering.cluster]
        feature = query.feature[query.pair_question[pairs]]
        columns = (query.pair_profile[pairs], feature, query.pair_min[pairs], query.pair_max[pairs])
        for profile, name, low, high in zip(*(column.tolist() for column in columns), strict=True):
            ranges[profile][query.names[name]] = (low, high)
        return ranges

    def expand(self, pairs: Int) -> tuple[Int, Int]:
        """Return (pair, node) for all nodes with the ranges of the (profile, feature) pairs."""
        first, profile = self.answering.subject_first, self.questions.pair_profile[pairs]
        pair, at = spread(first[profile], first[profile + 1] - first[profile])
        return pairs[pair], self.answering.subject_order[at]


def read(rows: TableRows, conditions: Conditions, absent_metadata: int) -> Evidence:
    """Read the evidence columns from snapshot rows (featurelib.schema.SNAPSHOT)."""
    snapshots = Snapshots(rows)
    malformed, inventory = snapshots.malformed, conditions.inventory
    entries = [
        UNEXPECTED if i in malformed else inventory.get(name, UNEXPECTED)
        for i, name in enumerate(snapshots.clusters)
    ]
    controllers = np.array([entry.controllers_vouched for entry in entries], dtype=bool)
    decides = np.array([entry.controller_decides for entry in entries], dtype=bool)
    vouched = np.array([entry.vouched for entry in entries], dtype=bool) | decides
    fresh = partial(is_fresh, as_of=conditions.as_of, max_age=conditions.max_age)
    profiles, operated = Profiles(snapshots), _operated_keys(snapshots, fresh)
    levels = read_levels(snapshots, fresh, [entry.generation for entry in entries])
    subjects, membership = read_nodes(
        snapshots,
        profiles,
        fresh,
        np.sort(np.concatenate([_expected_keys(entries), operated])),
        vouched,
        levels.system_off,
    )
    # In ZooKeeper mode brokers do not show the status of `/feature`.
    levels.trusted &= ~membership.on_zookeeper | (levels.kind != Witness.BROKER)
    # Only KRaft has controllers, so an owner's declaration about controllers shows KRaft mode.
    reported = levels.names.equal(METADATA_VERSION) & (levels.entry_level > 0)
    by_quorum = controllers | marked(len(entries), levels.entry_cluster[reported])
    run_by_quorum = membership.kraft | (by_quorum & ~membership.zookeeper)
    membership = replace(membership, kraft=run_by_quorum)
    answering, profile = answer(subjects, profiles)
    controller = snapshots.scalar("controller")
    configurations = Configurations(snapshots["configs"])
    return Evidence(
        clusters=snapshots.clusters,
        as_of=conditions.as_of,
        max_age=conditions.max_age,
        landed=snapshots.landed,
        snapshots=snapshots,
        subjects=subjects,
        membership=membership,
        controller=controller,
        levels=levels,
        answering=answering,
        questions=ask(profiles, levels, membership, answering, profile, absent_metadata),
        listeners=snapshots["listeners"],
        configurations=configurations,
        configured=configurations.voters(controller, conditions.as_of, conditions.max_age),
        controllers_vouched=controllers,
        controller_decides=decides,
        operated=operated,
        malformed=malformed,
    )


def _operated_keys(snapshots: Snapshots, fresh: Callable[[Int], Bool]) -> Int:
    """Return the ascending keys of the nodes in recently read Strimzi resources."""
    records, at = snapshots["strimzi"], np.zeros(len(snapshots), dtype=np.int64)
    at[records.row] = records.field("at")
    keys = record_keys(snapshots["strimzi_nodes"])
    return np.sort(keys[fresh(at)[snapshots["strimzi_nodes"].row]])


def _expected_keys(expected: Sequence[Expected]) -> Int:
    rows = [(i, Role.BROKER, node) for i, e in enumerate(expected) for node in e.brokers]
    rows += [(i, Role.CONTROLLER, node) for i, e in enumerate(expected) for node in e.controllers]
    return np.sort(node_key(*np.array(rows, dtype=np.int64).reshape(-1, 3).T))


def supported_ranges(evidence: Evidence) -> TableRows:
    """Return a row of SUPPORTED_RANGE for every node range that the rules check. An unlisted
    feature has no row. A null end is unknown."""
    query, node = evidence.questions, evidence.subjects
    pair, subject = evidence.expand(np.arange(len(query.pair_question)))
    question, listed = query.pair_question[pair], query.pair_listed[pair]
    low, high = query.pair_min[pair], query.pair_max[pair]
    # A running controller supports the finalized levels: its listener omits unstable levels.
    is_metadata = query.of_feature(METADATA_VERSION)[question]
    understated = node.own_word[subject] & is_metadata & listed & query.pair_unfit[pair]
    unclear = query.pair_unclear[pair] | understated
    low, high = (np.where(unclear, NONE, end) for end in (low, high))
    listed_here = listed | unclear
    silent = (evidence.answering.of_subject >= 0) & ~marked(len(node.key), subject[listed_here])
    nodes = np.concatenate((subject[listed_here], np.flatnonzero(silent)))
    nothing = np.full(len(nodes) - int(listed_here.sum()), NONE)
    features = np.append(query.feature[question[listed_here]], np.full(len(nothing), -1))
    columns: dict[str, Column | Int] = {
        "cluster": Texts(words=evidence.clusters, codes=node.cluster[nodes]),
        "role": Texts(words=[role.text for role in Role], codes=node.role[nodes]),
        "node_id": node.node_id[nodes],
        "feature": Texts(words=query.names, codes=features),
        "min_version": np.append(low[listed_here], nothing),
        "max_version": np.append(high[listed_here], nothing),
        "observed_at": np.where(node.at[nodes] > 0, node.at[nodes], NONE),
    }
    return make_rows(SUPPORTED_RANGE, len(nodes), columns)


def finalized_levels(evidence: Evidence) -> TableRows:
    """Return a row of FINALIZED_LEVEL for each level that a trusted source shows."""
    query, levels = evidence.questions, evidence.levels
    at = np.flatnonzero(query.known & (query.current > 0))
    cluster, least = query.cluster[at], query.finalized_min[at]
    epoch, current = levels.epoch[cluster], query.current[at]
    columns: dict[str, Column | Int] = {
        "cluster": Texts(words=evidence.clusters, codes=cluster),
        "feature": evidence.features(at),
        "min_level": np.where(least > 0, least, current),
        "level": current,
        "epoch": np.where(epoch < 0, NONE, epoch),
        "source": Texts(words=[w.name.lower() for w in Witness], codes=levels.kind[cluster]),
    }
    return make_rows(FINALIZED_LEVEL, len(at), columns)


Seen = tuple[Int, ...]  # the line that shows a fact: times, line ids and, for some sources, epochs
# One text per row, or a function that makes the texts of given rows.
Details = Texts | Sequence[str] | Callable[[Int], Sequence[str]] | Callable[[Int], Texts]


class BatchFindings(Findings):
    """The findings of a batch. Each method adds findings and returns their number per cluster
    (`of_questions`: per (cluster, feature)).

    `rows_at`: positions or a mask. `place` and `detail` have one row for each position, other
    columns one row per finding."""

    def __init__(self, evidence: Evidence, severities: dict[str, Severity]) -> None:
        super().__init__(evidence.clusters, severities)
        self.evidence = evidence
        query = evidence.questions
        self._current = np.where(query.known, query.current, NONE)

    def of_clusters(
        self,
        code: str,
        rows_at: Int | Bool | Sequence[int] | Mapping[int, str],
        place: Seen = (),
        detail: Details | None = None,
        **columns: Int | Texts,
    ) -> Int:
        """Add a finding for each cluster in `rows_at`. The values of a mapping become the first
        fact of the findings."""
        if isinstance(rows_at, Mapping):
            detail = list(rows_at.values())
        rows = _positions(list(rows_at) if isinstance(rows_at, Mapping) else rows_at)
        return self._add(code, rows, rows, place, detail, columns)

    def of_nodes(
        self,
        code: str,
        rows_at: Int | Bool,
        place: Seen = (),
        detail: Details | None = None,
        **columns: Int | Texts,
    ) -> Int:
        """Add a finding for each node in `rows_at`. `place`: time and line of the source; default:
        those of the node's range."""
        node, rows = self.evidence.subjects, _positions(rows_at)
        columns |= {"role": node.role[rows], "node_id": node.node_id[rows]}
        place = place or (node.at, node.line)
        return self._add(code, node.cluster[rows], rows, place, detail, columns)

    def of_questions(
        self, code: str, rows_at: Int | Bool, detail: Details | None = None, **columns: Int | Texts
    ) -> Int:
        """Add a finding for each (cluster, feature) in `rows_at`. The source is the line of the
        finalized levels."""
        query, rows = self.evidence.questions, _positions(rows_at)
        cluster, columns = query.cluster[rows], {**columns, "feature": self.evidence.features(rows)}
        columns.setdefault("finalized_level", self._current[rows])
        self._add(code, cluster, cluster, self.evidence.levels.seen, detail, columns)
        return np.bincount(rows, minlength=len(query.cluster))

    def _add(
        self,
        code: str,
        cluster: Int,
        at: Int,
        place: Seen,
        detail: Details | None,
        columns: Mapping[str, Int | Texts],
    ) -> Int:
        if len(at):
            places = zip(("at", "line", "epoch"), place, strict=False)
            facts = {name: values[at] for name, values in places} | {**columns}
            details = detail(at) if callable(detail) else detail
            if not isinstance(details, Texts):
                details = texts_of(details) if details else None
            self.add(code, cluster, detail=details, **facts)
        return np.bincount(cluster, minlength=len(self.evidence.clusters))


def _positions(rows: Int | Bool | Sequence[int]) -> Int:
    positions = np.asarray(rows)
    return np.flatnonzero(positions) if positions.dtype == bool else positions.astype(np.int64)


def _unknown(names: Sequence[str], catalogue: Catalogue) -> list[int]:
    """Return the positions in `names` of features that neither catalogue nor overlay has."""
    features = {METADATA_VERSION}.union(*(release.features for release in catalogue.releases))
    return [code for code, name in enumerate(names) if name not in features]
