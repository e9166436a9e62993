"""What the finalized minimums become: question (e) of the core (M5).

By KIP-584's text the highest minimum that any broker supports is finalized, which deprecates all
levels below it; no release has ever done that. From 2.7 to 3.2 an update of a feature stores the
controller's own minimum; all others keep none. Before a minimum rises, a person must have checked
that no client uses what goes away: no cluster knows that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

from featurelib.catalogue import Tables
from featurelib.core.answer import Outcome, decide, judge
from featurelib.core.batch import Batch, Flags, Ints, Levels
from featurelib.core.cluster import Cluster, Request
from featurelib.core.dialect import Dialect
from featurelib.core.evidence import Evidence
from featurelib.core.findings import Findings
from featurelib.core.rules import RULES
from featurelib.core.single import build
from featurelib.feature import Role

CODE = "minimum_would_rise"
CHECK_CLIENTS = "check_clients"
SOURCE = "KIP-584, Feature version deprecation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimums:
    """Finalized minimums before and after, and what a person has to see to.

    [C, F], or by question where they are of a fleet.
    """

    before: Levels  # 0 = none
    after: Levels
    check_clients: Flags  # the minimum rises: levels below it go away
    impossible: Flags  # it would rise above the level, so it stays as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """Something only a person can see to before minimums rise."""

    code: str
    feature: str
    first_lost: int  # levels first_lost..last_lost cannot be used any more
    last_lost: int
    text: str
    source: str = SOURCE


def minimums_of_fleet(evidence: Evidence) -> Minimums:
    """The same by question, of whole snapshot rows: every registered broker's minimum counts, also
    of one that its controller leaves out of the live ones because of that very minimum.

    Only where a features node that can be believed stores minimums, and brokers that may run there
    keep them: 3.3 and later read the level in their place (featurelib.core.levels).
    """
    asked, who = evidence.questions, evidence.subjects
    mine = (who.role == Role.BROKER) & who.registered & (evidence.answering.of_subject >= 0)
    counts = np.zeros(len(evidence.answering.cluster), dtype=bool)
    counts[evidence.answering.of_subject[mine]] = True
    least = np.zeros(len(asked.cluster), dtype=np.int64)
    says = asked.pair_listed & counts[asked.pair_profile]
    np.maximum.at(least, asked.pair_question[says], asked.pair_min[says])
    in_zookeeper = evidence.membership.zookeeper & ~evidence.membership.kraft
    stored = asked.known & (asked.current > 0) & (asked.finalized_min > 0)
    stored &= (in_zookeeper & ~evidence.levels.system_off)[asked.cluster]
    return _raised(asked.current, asked.finalized_min, least, stored)


def _raised(
    level: Levels | Ints, minimum: Levels | Ints, least: Levels | Ints, stored: Flags
) -> Minimums:
    """`least` in place of the minimums that are lower; no range begins above its level."""
    before = np.where(stored, minimum, 0).astype(np.int32)
    above = RULES["below_finalized_min"].ask(SimpleNamespace(level=level, finalized_min=least))
    impossible = above & stored
    rises = stored & ~impossible & (least > before)
    return Minimums(
        before=before,
        after=np.where(rises, least, before).astype(np.int32),
        check_clients=rises,
        impossible=impossible,
    )


def find_deprecations(evidence: Evidence, said: Findings) -> None:
    """Add a finding for every minimum that would rise."""
    found = minimums_of_fleet(evidence)
    asked, levels = evidence.questions, evidence.levels
    questions = np.flatnonzero(found.check_clients)
    where = asked.cluster[questions]
    before, after = found.before[questions], found.after[questions]
    said.add(
        CODE,
        where,
        feature=evidence.features(questions),
        finalized_level=asked.current[questions],
        level=after.astype(np.int64),
        at=levels.at[where],
        line=levels.line[where],
        detail=[_levels(*ends) for ends in zip(before.tolist(), after.tolist(), strict=True)],
    )


def keeps_minimums(dialect: Dialect) -> bool:
    """Whether minimums mean something to a generation: elsewhere they are the level again."""
    return dialect.can.stores_min == "local"


def minimums_by_update(batch: Batch, outcome: Outcome, dialect: Dialect) -> Minimums:
    """What an update really does to them (KafkaController.updateFeatures of 2.7 to 3.2).

    Where the schema has no minimums the stored one is the level again, and says nothing of clients.
    """
    before, after = batch.state.minimum, outcome.after_min
    return Minimums(
        before=before,
        after=after,
        check_clients=(before > 0) & (after > before) & keeps_minimums(dialect),
        impossible=np.zeros(before.shape, dtype=bool),
    )


def raised_by(
    cluster: Cluster, requests: Sequence[Request], dialect: Dialect, tables: Tables
) -> tuple[Requirement, ...]:
    """What a person must have seen to before these requests are sent, one after the other."""
    found: list[Requirement] = []
    for request in requests if keeps_minimums(dialect) else ():
        batch = replace(build([(cluster, request)], dialect, tables), vendors=True)
        outcome = decide(batch, dialect, judge(batch, dialect, tables))
        found += requirements(minimums_by_update(batch, outcome, dialect), batch.names, 0)
        ends = zip(outcome.after_min[0].tolist(), outcome.after[0].tolist(), strict=True)
        after = {name: end for name, end in zip(batch.names, ends, strict=True) if end[1]}
        cluster = replace(cluster, finalized=after, cached=None)
    return tuple(found)


def requirements(
    minimums: Minimums, names: tuple[str, ...], cluster: int
) -> tuple[Requirement, ...]:
    """What a person must have seen to in one cluster, by the order of the features."""
    found = []
    for feature in np.flatnonzero(minimums.check_clients[cluster]).tolist():
        low = int(minimums.before[cluster, feature])
        high = int(minimums.after[cluster, feature]) - 1
        name, levels = names[feature], _levels(low, high + 1)
        found.append(
            Requirement(
                code=CHECK_CLIENTS,
                feature=name,
                first_lost=low,
                last_lost=high,
                text=f"Check that no client uses {levels} of {name} any more; "
                "the cluster does not know, ask the clients' own metrics.",
            )
        )
    return tuple(found)


def _levels(low: int, end: int) -> str:
    """The levels from `low` on, without `end`."""
    return f"level {low}" if low == end - 1 else f"levels {low} to {end - 1}"
