"""Judge one cluster without tables and Spark, and return its data as plain values.

The run's own code reads, folds and judges landing lines in memory, as a batch of one cluster. A
broken line is quarantined with its reason.

Goals, steps, downgrade floors and joins take plain values. In plain values a node of unknown range
supports nothing; only the audit distinguishes UNKNOWN from BLOCKED.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from featurelib.audit.audit import Judged, judge, judge_each
from featurelib.audit.columns import latest
from featurelib.audit.controllers import RULED_OUT, Software, blind_leaders
from featurelib.audit.evidence import UNEXPECTED, Conditions, Evidence, Expected
from featurelib.audit.findings import NO_SITE, Mute, Site
from featurelib.audit.profiles import NOBODY
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet
from featurelib.core.cluster import Cluster, Features, Node, Range
from featurelib.core.dialect import STRICT, Asks, generation_of, load
from featurelib.core.nodes import are_asked
from featurelib.errors import InputError, NoEvidenceError
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role, Severity
from featurelib.landing import Landing, read
from featurelib.rows import NONE, Int, TableRows, join_rows, make_rows, texts_of
from featurelib.snapshot import ClusterState, fold_lines, snapshot_rows
from featurelib.snapshot.fold import UnusableLineError
from featurelib.snapshot.records import open_row, write_rows
from featurelib.snapshot.state import NOTHING
from featurelib.words import count, moment

NO_FLEET = Fleet()  # an inventory without clusters
NEXT = "docs/landing.md describes them. To write some: featurelib collect CLUSTER --out FOLDER"
_SHOWN = 5  # the maximum number of cluster ids in an error message
_REGISTER_FROM = load(STRICT).can.controllers_register_from


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The evidence and the judgement of one cluster. `newest`: the time of the newest line in
    microseconds."""

    cluster_id: str
    rows: TableRows  # the cluster's row of featurelib.schema.SNAPSHOT
    judged: Judged
    cluster: Cluster  # the cluster as a plain value, for goals, steps and downgrade floors
    releases: tuple[str, ...]  # possible releases of the controllers, likeliest first
    dialects: tuple[str, ...]  # possible dialects of the controllers, also if no level can rise
    newest: int
    rejected: tuple[tuple[int, str], ...] = ()  # (number, reason) of each quarantined line
    site: Site = NO_SITE  # the facts of the inventory that remedies depend on

    @property
    def evidence(self) -> Evidence:
        """The evidence columns behind the judgement of the cluster."""
        assert self.judged.evidence is not None  # only views of stored rows lack evidence
        return self.judged.evidence

    @property
    def seen(self) -> int:
        """The time of the newest evidence, microseconds."""
        at = int(self.evidence.snapshots.observed_at[0])
        return self.newest if at == NONE else at

    @property
    def is_trusted(self) -> bool:
        """True if the finalized levels come from a trusted and recent source."""
        levels = self.evidence.levels
        return bool(levels.trusted[0] and not levels.too_old[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of a verdict besides the landing lines; times in microseconds. `as_of` None = the
    time of the newest line. `controller_decides`: assume that all required nodes were read, because
    the controller validates the request before featurelib sends it."""

    catalogue: Catalogue
    as_of: int | None
    max_age: int
    fleet: Fleet = NO_FLEET
    severities: dict[str, Severity] | None = None
    controller_decides: bool = False

    def see_lines(
        self,
        lines: Iterable[bytes],
        cluster_id: str | None = None,
        choosing: str = "Choose one by its id.",
    ) -> ClusterView:
        """Judge landing lines of one cluster; return its view.

        Raises NoEvidenceError if no line is valid; InputError with the advice `choosing` if
        `cluster_id` is empty and the lines are of several clusters."""
        accepted, unread, rejected = _gather(lines)
        chosen = _choose(accepted, rejected, cluster_id, choosing)
        state = self._fold(chosen, accepted, unread, rejected)
        as_of = self.as_of
        if as_of is None and state.strimzi and state.strimzi.at > state.observed_at:
            as_of = state.strimzi.at  # the newest line, which is not from a node
        view = replace(self, as_of=as_of).see(snapshot_rows([(chosen, state)]))
        return replace(view, rejected=tuple(rejected))

    def judge_lines(
        self,
        lines: Iterable[bytes],
        expected: Collection[str],
        mutes: tuple[Mute, ...] = (),
        *,
        every: bool = False,
    ) -> tuple[Judged, int, list[tuple[int, str]]]:
        """Judge the clusters `expected`; `every`: also judge all other clusters in `lines`.

        Return (judgement, its time, (number, reason) of each quarantined line). A cluster without
        lines is UNKNOWN. Raises NoEvidenceError if there is no cluster to judge."""
        rows, rejected = self.fold_fleet(lines, expected, every=every)
        if not len(rows):
            _choose((), rejected, None, "")
        newest = int(rows.numbers("observed_at").max(initial=0))
        as_of = newest if self.as_of is None else self.as_of
        return self._judge(rows, as_of, self.fleet.inventory, mutes), as_of, rejected

    def fold_fleet(
        self, lines: Iterable[bytes], expected: Collection[str], *, every: bool = False
    ) -> tuple[TableRows, list[tuple[int, str]]]:
        """Return (snapshot rows to judge, (number, reason) of each quarantined line). An expected
        cluster without lines gets a row without evidence."""
        accepted, unread, rejected = _gather(lines)
        landed = sorted(name for name in accepted if every or name in expected)
        states: list[tuple[str, ClusterState | Exception]] = []
        for name in landed:
            try:
                states.append((name, self._fold(name, accepted, unread, rejected)))
            except Exception as fault:  # one cluster must not end the run of the others
                states.append((name, fault))
        rows = snapshot_rows(states)
        missing = sorted({*expected}.difference(landed))
        empty = make_rows(rows.schema, len(missing), {"cluster": texts_of(missing)})
        return join_rows([rows, empty]), rejected

    def _fold(
        self, cluster_id: str, accepted: _Lines, unread: _Lines, rejected: list[tuple[int, str]]
    ) -> ClusterState:
        """Return the state of a cluster from its lines. Unusable lines are added to `rejected`."""
        until = None if self.as_of is None else latest(self.as_of)
        lines = [*accepted[cluster_id], *unread.get(cluster_id, ())]
        while True:
            try:
                return fold_lines(
                    ((line, line_id) for _, line, line_id in lines), self.catalogue, until
                )
            except UnusableLineError as fault:
                bad = [number for number, _, line_id in lines if line_id == fault.line_id]
                rejected += [(number, str(fault)) for number in bad]
                lines = [entry for entry in lines if entry[0] not in bad]

    def _judge(
        self,
        rows: TableRows,
        as_of: int,
        inventory: dict[str, Expected],
        mutes: tuple[Mute, ...] = (),
    ) -> Judged:
        conditions = Conditions(as_of=as_of, max_age=self.max_age, inventory=inventory, mutes=mutes)
        catalogue, severities = self.catalogue, self.severities
        return judge_each(
            rows, lambda batch: judge(batch, conditions, catalogue, load(STRICT), severities)
        )

    def see(self, row: TableRows) -> ClusterView:
        """Judge a stored row of silver.cluster_snapshot; return the view of its cluster.

        Raises InputError unless there is exactly one row, NoEvidenceError for a cluster without
        data."""
        if len(row) != 1:
            raise InputError(
                f"A cluster is one row of silver.cluster_snapshot, and these are {len(row)} rows. "
                "Select the row by its cluster id."
            )
        [cluster_id], [waiting] = (row[name].to_pylist() for name in ("cluster", "waiting"))
        newest = int(row.numbers("observed_at")[0])
        if newest == NONE and waiting:
            until = f"{moment(self.as_of or 1):%Y-%m-%dT%H:%M:%SZ}"
            raise NoEvidenceError(
                f"cluster {cluster_id}: All lines are later than {until}, so all features are "
                "unknown. Use a later time with --as-of, or correct the collector's clock."
            )
        if newest == NONE:
            raise NoEvidenceError(
                f"cluster {cluster_id}: no data was ever collected from this cluster. Collect it."
            )
        entry = self.fleet.inventory.get(cluster_id, UNEXPECTED)
        if self.controller_decides:
            entry = replace(entry, controller_decides=True)
        as_of = newest if self.as_of is None else self.as_of
        judged = self._judge(row, as_of, {cluster_id: entry})
        assert judged.evidence is not None
        plain = PlainCluster(judged.evidence, entry.release, self.catalogue, judged.probed)
        return ClusterView(
            cluster_id=cluster_id,
            rows=row,
            judged=judged,
            cluster=plain.cluster(),
            releases=plain.releases,
            dialects=plain.dialects,
            newest=newest,
        )


# cluster id → (number, content, line id) of lines
_Lines = dict[str, list[tuple[int, Landing, int]]]


def _gather(lines: Iterable[bytes]) -> tuple[_Lines, _Lines, list[tuple[int, str]]]:
    """Return (valid lines by cluster, lines of an unknown kind by cluster, quarantined lines)."""
    accepted, unread, rejected = _Lines(), _Lines(), list[tuple[int, str]]()
    for number, ended in enumerate(lines, start=1):
        raw = ended.removesuffix(b"\n")
        line = read(raw)
        line_id = int.from_bytes(sha256(raw).digest()[:8], "big", signed=True)
        if isinstance(line, Landing):
            accepted.setdefault(line.cluster, []).append((number, line, line_id))
            continue
        rejected.append((number, line.reason))
        if (landing := line.unread) is not None:
            unread.setdefault(landing.cluster, []).append((number, landing, line_id))
    return accepted, unread, rejected


def _choose(
    ids: Collection[str], rejected: Sequence[tuple[int, str]], own_id: str | None, choosing: str
) -> str:
    """Return the id of the cluster to judge: `own_id`, or the only cluster with valid lines."""
    if own_id is None and len(ids) > 1:
        raise InputError(
            f"These are lines of {len(ids)} clusters: {_list_of(sorted(ids))}. {choosing}"
        )
    if ids and (own_id is None or own_id in ids):
        return next(iter(ids)) if own_id is None else own_id
    of_cluster = "" if own_id is None else f" of cluster {own_id}"
    text = f"There is no landing line{of_cluster}"
    if ids:
        text += f", only lines of {_list_of(sorted(ids))}"
    elif rejected:
        (number, reason), lines = rejected[0], count(len(rejected), "line")
        text = f"None of {lines} is a valid landing line{of_cluster}. Line {number}: {reason}. "
        text += "`collect --from FILE` makes landing lines from the output of a Kafka tool"
    raise NoEvidenceError(f"{text}. {NEXT}")


def _list_of(texts: Sequence[str]) -> str:
    rest_count = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {rest_count} more" if rest_count > 0 else "")


class PlainCluster:
    """The only cluster of a batch of evidence as plain Python values."""

    def __init__(
        self,
        evidence: Evidence,
        release: str,
        catalogue: Catalogue,
        probed: Mapping[int, Features] | None = None,
    ) -> None:
        """Prepare the values. `release`: the release in the inventory or "". `probed`: node →
        levels that the controller accepted in a probe, instead of the node's own ranges."""
        self._evidence, self._probed, self._tables = evidence, probed or {}, catalogue.tables
        self._zookeeper = bool(evidence.membership.on_zookeeper[0])
        self._told, self._named = release, catalogue.release_named(release)
        self._software = Software(evidence, [release], catalogue)
        leaders = np.flatnonzero(evidence.may_lead(~evidence.subjects.expected_only))
        # Possible releases of the controllers; the active controller's likeliest release comes
        # first.
        self.releases = self._releases(leaders)
        self.dialects = tuple(self._software.dialects(0))
        self._active = int(evidence.controller[0])
        if self._active < 0 and (active := int(self._software.active[0])) >= 0:
            self._active = int(evidence.subjects.node_id[active])

    def cluster(self) -> Cluster:
        """Return the cluster with its nodes and finalized levels as a plain value."""
        levels, membership = self._evidence.levels, self._evidence.membership
        system_is_off, missing = bool(levels.system_off[0]), self._zookeeper and bool(levels.absent)
        blind_leader = bool(blind_leaders(self._evidence)[0] != NOBODY)
        finalized = self._finalized()
        level = finalized.get(KRAFT_VERSION, (0, 0))[1]
        # A 3.9 controller reports its own record of kraft.version, also if its raft layer has none.
        # Then the metadata log disputes the record (KAFKA-18979).
        disputed = KRAFT_VERSION in {name for _, name, _ in levels.disputed}
        nodes = self._nodes(finalized.get(METADATA_VERSION, (0, 0))[1])
        return Cluster(
            release=self.releases[0] if self.releases else "",
            nodes=nodes,
            active=self._active,
            finalized=finalized,
            cached={} if system_is_off or missing or blind_leader else None,
            kraft_record=level if disputed else 0,
            raft_level=0 if disputed else level,
            configured_voters=self._configured(nodes),
            off=system_is_off,
            migrating=bool(membership.migrating[0]),
            node_missing=missing,
            blind=blind_leader,
        )

    def _configured(self, nodes: tuple[Node, ...]) -> tuple[int, ...] | None:
        """Return the controller ids in the active controller's configuration; None if the
        configuration was not read."""
        read, every = self._evidence.configured.get(0), self._software.fleet.nodes
        if read is None:
            return None
        controller_ids = {node.node_id for node in nodes if node.role is Role.CONTROLLER}
        controller_ids |= set(every.node_id[are_asked(every, Asks.CONFIGURED_ONLY)].tolist())
        return tuple(i for i in read.ids if i in controller_ids)

    def _nodes(self, metadata_version: int) -> tuple[Node, ...]:
        """Return the cluster's nodes. Excluded: nodes that only the inventory names, and
        unreachable controllers that the owner declares compatible. A required voter is always
        included (QuorumFeatures.reasonNotSupported)."""
        node, profile = self._evidence.subjects, self._evidence.answering.of_subject
        controller = node.role == Role.CONTROLLER
        # Without a list, every node counts as registered. A node that responds after the list was
        # read has registered since, except a broker that ran before and is not in the list.
        listed = self._evidence.membership.controllers_known[0]
        registered = node.registered | ~np.where(controller, listed, node.unregistered)
        running = node.runs | (self._zookeeper & node.registered)
        is_declared = controller & self._evidence.controllers_vouched[0]
        must_register = node.voter & ~registered & (metadata_version >= _REGISTER_FROM)
        out = node.expected_only | (is_declared & ~node.answers & (profile < 0) & ~must_register)
        left_out = self._evidence.left_out()
        ranges = self._evidence.ranges()
        return tuple(
            Node(
                node_id=int(node.node_id[i]),
                role=Role(int(node.role[i])),
                supported=self._probed.get(i) or (ranges[profile[i]] if profile[i] >= 0 else {}),
                release=self._release_of(i),
                registered=bool(registered[i]),
                fenced=bool(node.fenced[i] == 1),
                running=bool(running[i]),
                gone=bool(node.gone[i]),
                voter=bool(node.voter[i]),
                ignored=bool(left_out[i] and registered[i]),
            )
            for i in np.flatnonzero(~out).tolist()
        )

    def _finalized(self) -> dict[str, Range]:
        """Return feature → (minimum, level) from the trusted source. Excluded: levels that the
        source cannot show, and level 0 on KRaft (not finalized)."""
        levels, least = self._evidence.levels, 0 if self._zookeeper else 1
        columns = levels.names.to_pylist(), levels.entry_min.tolist(), levels.entry_level.tolist()
        return {
            name: (max(low, 0) or level, level)
            for name, low, level in zip(*columns, strict=True)
            if level >= least
        }

    def _release_of(self, subject: int) -> str:
        """Return the release of a node; "" if unknown, always in ZooKeeper mode."""
        code = int(self._software.likeliest(np.array([subject]))[0])
        return "" if code < 0 else self._as_in_inventory(self._tables.releases[code])

    def _releases(self, may_lead: Int) -> tuple[str, ...]:
        """Return the possible releases of the controllers, likeliest first; () = unknown. Releases
        of the nodes `may_lead` come first. Of two equally likely releases the older comes first,
        because it knows fewer features. In ZooKeeper mode a release stands for its generation."""
        possible = {release: dialect for dialect, release in self._software.spoken}
        evidence_against = self._software.weigh(may_lead).min(axis=0, initial=RULED_OUT).tolist()
        weight = dict(zip(self._tables.releases, evidence_against, strict=True))
        age = self._tables.release_code  # older releases know fewer features
        order = sorted(possible, key=lambda name: (weight.get(name, RULED_OUT), age(name)))
        return tuple(self._as_in_inventory(name, possible[name]) for name in order)

    def _as_in_inventory(self, release: str, dialect: str = "") -> str:
        """Return a release as the inventory writes it, for example 4.1.2 for 4.1, if both names
        mean the same software."""
        generation = generation_of(self._told, "zk", "") if self._zookeeper else self._named
        return self._told if generation == (dialect if self._zookeeper else release) else release


_NODE_PARTS = ("listeners", "registrations", "voters", "observers", "strimzi_nodes", "member")


def without_nodes(rows: TableRows, node_ids: Sequence[int], keys: Sequence[str] = ()) -> TableRows:
    """Return a cluster's snapshot row in which `node_ids` are stopped, unregistered and no voters,
    and in which the configuration `keys` are missing."""
    row = open_row(rows)
    members, is_kept = row.parts["members"], ~np.isin(row.parts["member"]["node_id"], node_ids)
    list_of = np.repeat(np.arange(len(members)), members["size"])
    members["size"] = np.bincount(list_of[is_kept], minlength=len(members))
    for part in _NODE_PARTS:
        row.parts[part] = row.parts[part][~np.isin(row.parts[part]["node_id"], node_ids)]
    controller, configs = row.parts["scalars"]["controller"], row.parts["configs"]
    controller[np.isin(controller, node_ids)] = NOTHING
    row.parts["configs"] = configs[~np.isin(configs["key"], [row.text_code(key) for key in keys])]
    return write_rows([row])
