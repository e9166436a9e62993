"""One cluster, one request: the controller's answer and what is true afterwards.

A batch of one through the same engine that judges a fleet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from featurelib.catalogue.tables import Tables
from featurelib.core.answer import decide, judge
from featurelib.core.cluster import Cluster, Range, Request
from featurelib.core.dialect import Dialect
from featurelib.core.reply import Reply, Speaker
from featurelib.core.single import build
from featurelib.errors import ProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A rule that an update violates, in this dialect's words."""

    feature: str
    level: int
    rule: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A reply, the cluster once it has settled, and everything that was wrong."""

    reply: Reply
    after: Cluster
    writes: bool  # the epoch moves
    unsure: bool  # kraft.version moves or not by the order of a hash map
    violations: tuple[Violation, ...]  # all of them; the reply names the first
    alike: tuple[frozenset[str], ...]  # messages that differ in nothing but which offender is named


def answer(cluster: Cluster, request: Request, dialect: Dialect, tables: Tables) -> Answered:
    """What a controller of `dialect` answers to `request`, and what follows (KIP-584, KIP-1022).

    Raises ProtocolError for a version of the request that such a controller does not read.
    """
    if dialect.can.wire_versions and request.version not in dialect.can.wire_versions:
        spoken = ", ".join(map(str, dialect.can.wire_versions))
        raise ProtocolError(
            f"{dialect.title}: expected UpdateFeatures version {spoken}, found {request.version}; "
            "the controller closes the connection. Ask in a version it lists in ApiVersions."
        )
    batch = build([(cluster, request)], dialect, tables)
    judged = judge(batch, dialect, tables)
    outcome = decide(batch, dialect, judged)
    speaker = Speaker(batch, dialect, judged, outcome, tables)
    finalized: dict[str, Range] = {}
    for i, name in enumerate(batch.names):
        if level := int(outcome.after[0, i]):
            finalized[name] = int(outcome.after_min[0, i]) or level, level
    wrote = bool(outcome.writes[0])
    after = replace(
        cluster,
        finalized=finalized,
        # What the controller wrote it has seen, unless it is blind to its own node.
        cached=cluster.cached if not wrote or cluster.blind else None,
        kraft_record=int(outcome.kraft_record[0]),
    )
    violations = []
    for k, i in zip(*judged.offends.nonzero(), strict=True):
        row, updates = dialect.rules[k], batch.updates
        violations.append(
            Violation(
                feature=batch.names[int(updates.feature[i])],
                level=int(updates.level[i]),
                rule=row.code,
                message=speaker.words(row, int(i), int(judged.named[k, i])),
            )
        )
    return Answered(
        reply=speaker.reply(0, request),
        after=after,
        writes=wrote,
        unsure=bool(outcome.unsure[0]),
        violations=tuple(violations),
        alike=speaker.alike(),
    )
