"""The oracle's clusters and requests as the core's, and both answers side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from featurelib.catalogue import load as load_catalogue
from featurelib.core.batch import Batch
from featurelib.core.cluster import Cluster, Node, Request, Update, build
from featurelib.core.dialect import Dialect, load
from featurelib.core.judge import Consequences, Offences
from featurelib.core.reply import JudgedRequests, Reply
from featurelib.feature import Role
from tests.core.controllers import words
from tests.core.controllers.draw import Drawn

TABLES = load_catalogue().tables
# What the oracle calls by the words of the table it was written from.
RENAMED = {"no_live_node": "no_node_to_ask", "dependencies_unmet": "dependency_unmet"}


def cluster_of(drawn: words.Cluster) -> Cluster:
    active = drawn.active()
    seen = drawn.finalized is not None and drawn.status != words.DISABLED and drawn.sees_node
    off = bool(drawn.ibp) and words.minor(drawn.ibp) < (2, 7)
    return Cluster(
        release=drawn.release,
        nodes=tuple(node_of(node) for node in drawn.nodes),
        active=-1 if active is None else active.node_id,
        finalized=dict(drawn.finalized or {}),
        cached=None if seen or drawn.mode == "kraft" else {},
        kraft_record=drawn.kraft_record,
        raft_level=drawn.raft,
        off=off,
        migrating=drawn.zk_migration,
        node_missing=drawn.finalized is None,
        blind=not drawn.sees_node,
    )


def node_of(node: words.Node) -> Node:
    controller = node.role == words.CONTROLLER
    return Node(
        node_id=node.node_id,
        role=Role.CONTROLLER if controller else Role.BROKER,
        supported=node.supported,
        release=node.release,
        registered=node.registered,
        fenced=node.fenced,
        running=node.running,
        voter=controller and node.voter,
        ignored=node.ignored,
    )


def request_of(drawn: Drawn) -> Request:
    asked, cluster = drawn.request, drawn.cluster
    active = cluster.active()
    at_active = active is not None and active.node_id == asked.sent_to
    forwarded = cluster.mode == "kraft" and asked.listener == words.BROKER
    if drawn.generation == "kip":
        forwarded = False
    return Request(
        updates=tuple(
            Update(
                feature=update.feature,
                level=update.level,
                kind=update.upgrade_type,
                allow_downgrade=update.allow_downgrade,
            )
            for update in asked.updates
        ),
        version=asked.version,
        validate_only=asked.validate_only,
        timeout_ms=asked.timeout_ms,
        to_active=at_active or forwarded,
        authorized=asked.authorized,
    )


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What the core says of many cases of one generation, judged as one batch."""

    dialect: Dialect
    batch: Batch
    judged: Offences
    outcome: Consequences
    replies: list[Reply]

    def violated(self, position: int, feature: str) -> set[str]:
        """Every rule that the updates of `feature` in one request violate."""
        updates = self.batch.updates
        mine = (updates.request == position) & (updates.feature == self.batch.code(feature))
        hit = np.atleast_1d(self.judged.offends[:, mine].any(axis=1))
        return {row.code for row, found in zip(self.dialect.rules, hit, strict=True) if found}


def answers(drawn: list[Drawn]) -> Answers:
    dialect = load(drawn[0].generation)
    cases = [(cluster_of(case.cluster), request_of(case)) for case in drawn]
    batch = build(cases, dialect, TABLES)
    judged = JudgedRequests(batch, dialect, TABLES)
    return Answers(
        dialect=dialect,
        batch=batch,
        judged=judged.offences,
        outcome=judged.outcome,
        replies=[judged.reply(i, request) for i, (_, request) in enumerate(cases)],
    )


def levels_after(batch: Batch, outcome: Consequences, position: int) -> dict[str, tuple[int, int]]:
    return {
        name: (int(outcome.after_min[position, i]), int(outcome.after[position, i]))
        for i, name in enumerate(batch.names)
        if outcome.after[position, i]
    }
