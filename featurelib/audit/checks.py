"""Nodes that do not support what is finalized already, and what becomes of them."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from featurelib.audit.columns import Bool, Int
from featurelib.audit.controllers import OwnDialects
from featurelib.audit.evidence import Evidence
from featurelib.audit.features import Questions
from featurelib.audit.findings import NO_NUMBER, Findings
from featurelib.audit.target import Judge
from featurelib.catalogue import Tables
from featurelib.catalogue.releases import ANY, FEATURE_RECORDS_FROM
from featurelib.core.batch import Batch, Flags, Ints, Levels
from featurelib.core.cluster import Cluster, Request
from featurelib.core.dialect import GENERATIONS, Dialect, load
from featurelib.core.judge import Outcome, decide, judge
from featurelib.core.rules import RULES, NodeRows
from featurelib.core.single import build
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role
from featurelib.schema import INCOMPATIBLE_BROKER

INCOMPATIBLE_CODE = "incompatible_with_finalized"


def find_incompatible(asking: Judge, said: Findings) -> pa.Table:
    """Nodes whose range does not hold what is finalized: findings, and featurelib.schema's rows."""
    evidence, asked = asking.evidence, asking.asked
    pairs = np.flatnonzero((asked.known & (asked.current > 0))[asked.pair_question])
    # A finalized minimum counts only where it was stored: it is 0 or the level elsewhere.
    lowest = np.where(asked.finalized_min > 0, asked.finalized_min, asked.current)
    mine = asked.pair_question[pairs]
    rows = NodeRows(
        lowest=lowest[mine].astype(np.int32),
        level=asked.current[mine].astype(np.int32),
        min_version=asked.pair_min[pairs].astype(np.int32),
        max_version=asked.pair_max[pairs].astype(np.int32),
    )
    hit = RULES[INCOMPATIBLE_CODE].ask(rows)
    pair, subject = evidence.expand(pairs[hit & ~asked.pair_unclear[pairs]])
    who = evidence.subjects
    # A controller that replays a level it does not support ends. One that answers supports it, and
    # its listener only leaves the unstable level out.
    is_metadata = asked.of_feature(METADATA_VERSION)[asked.pair_question[pair]]
    keep = ~(who.own_word[subject] & is_metadata & asked.pair_listed[pair])
    pair, subject = pair[keep], subject[keep]
    question = asked.pair_question[pair]
    said.add(
        INCOMPATIBLE_CODE,
        asked.cluster[question],
        role=who.role[subject],
        node_id=who.node_id[subject],
        feature=evidence.features(question),
        finalized_level=asked.current[question],
        min_version=listed(asked.pair_min, asked, pair),
        max_version=listed(asked.pair_max, asked, pair),
        at=who.at[subject],
        line=who.line[subject],
        detail=_fates(asking, asked.cluster[question], who.role[subject], is_metadata[keep]),
    )
    table = said.table()
    rows = table.filter(pa.compute.equal(table["code"], INCOMPATIBLE_CODE))
    fenced = pa.array(who.fenced[subject] == 1, mask=who.fenced[subject] < 0)
    return pa.table(
        [fenced if name == "fenced" else rows[name] for name in INCOMPATIBLE_BROKER.names],
        schema=INCOMPATIBLE_BROKER,
    )


def listed(values: Int, asked: Questions, pair: Int) -> Int:
    """An end of the ranges of these pairs, and no number where a node does not list the feature."""
    return np.where(asked.pair_listed[pair], values[pair], NO_NUMBER)


def _fates(asking: Judge, cluster: Int, role: Int, is_metadata: Bool) -> list[str]:
    """What brokers and controllers of that generation do in such a case."""
    membership, words = asking.evidence.membership, _words()
    fates = np.select(
        [
            (membership.zookeeper & ~membership.kraft)[cluster],
            role == Role.CONTROLLER,
            is_metadata,
        ],
        [words["zookeeper"], words["controller"], words["broker_metadata_version"]],
        words["broker_other"],
    )
    said: list[str] = fates.tolist()
    return said


@cache
def _words() -> dict[str, str]:
    text = resources.files(__package__).joinpath("incompatible.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


# ----------------------------------------
# Dependencies of levels that are finalized already, seen from the other end (N4).
#
# Kafka asks what a level depends on only when that level itself moves, so lowering the other
# feature
# breaks it unseen. Asked for here: what the newest software declares, and what the cluster's own
# controllers would say if the level were finalized again.

DEPENDENCY_CODE = "finalized_dependency_unmet"
DECLARED, STORED = "dependency_unmet", "metadata_version_unmet"
_FIRST = 1  # a KRaft cluster that says nothing of metadata.version is at 3.0-IV1 (KIP-778)
_ENOUGH = np.iinfo(np.int16).max  # where it is not known what is finalized, nothing is missing


def report_unmet(
    evidence: Evidence, own: Callable[[], OwnDialects], tables: Tables, said: Findings
) -> None:
    """A finding for each finalized level whose dependency the finalized levels do not meet
    (KIP-1022, Feature dependencies; Feature.validateVersion).

    `own` gives the dialects of the batch; it is called only where some release may complain.
    """
    state = _State(evidence)
    declared = [(row, state.unmet(tables, row)) for row in range(len(tables.dependency_level))]
    declared = [(row, questions) for row, questions in declared if len(questions)]
    stored = state.below(max(_needed(name) for name in GENERATIONS))
    if not declared and len(stored) == 0:
        return
    found = defaultdict[int, set[tuple[str, int]]](set)
    spoken = own().spoken
    for row, questions in declared:
        release = tables.releases[tables.dependency_release[row]]
        asking = [which for (name, by), which in spoken.items() if by == release and _asks(name)]
        what = tables.features[tables.dependency_other[row]], int(tables.dependency_least[row])
        for question in questions.tolist():
            if release == ANY or any(which[state.cluster[question]] for which in asking):
                found[question].add(what)
    for question in stored.tolist():
        cluster = state.cluster[question]
        names = [name for (name, _), which in spoken.items() if which[cluster]]
        least = max([FEATURE_RECORDS_FROM, *map(_needed, names)])
        if question in state.below(least):
            found[question].add((METADATA_VERSION, least))
    state.say(found, said)


@cache
def _needed(dialect: str) -> int:
    """The metadata.version that controllers of a dialect want for a level of any other feature."""
    own = load(dialect)
    return own.can.metadata_needed if STORED in {row.code for row in own.rules} else 0


@cache
def _asks(dialect: str) -> bool:
    """Whether controllers of a dialect ask for the dependencies their release declares."""
    return DECLARED in {row.code for row in load(dialect).rules}


class _State:
    """What is finalized in each cluster of a batch, and what of it asks for something else."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence, self._asked = evidence, evidence.questions
        self.cluster, self._levels = self._asked.cluster, dict[str, Int]()

    def unmet(self, tables: Tables, row: int) -> Int:
        """The questions at the level of one dependency of the catalogue that do not have it."""
        asked, name = self._asked, tables.features[tables.dependency_feature[row]]
        if name not in asked.names:
            return np.zeros(0, dtype=np.int64)
        level = int(tables.dependency_level[row])
        mine = (asked.current == level) & (asked.feature == asked.names.index(name)) & asked.known
        questions = np.flatnonzero(mine)
        there = self._of(tables.features[tables.dependency_other[row]])[self.cluster[questions]]
        rows = SimpleNamespace(proposed=there, needed=tables.dependency_least[row])
        return questions[RULES[DECLARED].ask(rows)]

    def below(self, least: int) -> Int:
        """Finalized features whose level has no metadata.version of `least` to stand in; the level
        of kraft.version stands in the raft layer."""
        asked, membership = self._asked, self._evidence.membership
        names = (METADATA_VERSION, KRAFT_VERSION)
        apart = [asked.names.index(name) for name in names if name in asked.names]
        rows = SimpleNamespace(
            level=np.where(asked.known, asked.current, 0),
            metadata_proposed=self._of(METADATA_VERSION)[self.cluster],
            metadata_needed=np.int32(least),
        )
        hit = RULES[STORED].ask(rows) & membership.kraft[self.cluster]
        return np.flatnonzero(hit & ~np.isin(asked.feature, apart))

    def say(self, found: dict[int, set[tuple[str, int]]], said: Findings) -> None:
        questions = np.array(sorted(found), dtype=np.int64)
        levels, cluster = self._evidence.levels, self.cluster[questions]
        said.add(
            DEPENDENCY_CODE,
            cluster,
            feature=self._evidence.features(questions),
            finalized_level=self._asked.current[questions],
            at=levels.at[cluster],
            line=levels.line[cluster],
            detail=[
                "; ".join(
                    f"{other} {least}, and {other} {self._of(other)[where]} is finalized"
                    for other, least in sorted(found[question])
                )
                for question, where in zip(questions.tolist(), cluster.tolist(), strict=True)
            ],
        )

    def _of(self, name: str) -> Int:
        """The finalized level of one feature by cluster."""
        if name not in self._levels:
            asked = self._asked
            code = asked.names.index(name) if name in asked.names else -1
            mine, least = asked.feature == code, _FIRST if name == METADATA_VERSION else 0
            levels = np.full(len(self._evidence.clusters), least)
            levels[asked.cluster[mine]] = np.maximum(asked.current[mine], least)
            levels[asked.cluster[mine & ~asked.known]] = _ENOUGH
            untrusted = ~self._evidence.levels.trusted | self._evidence.levels.too_old
            levels[untrusted] = _ENOUGH
            self._levels[name] = levels
        return self._levels[name]


# ----------------------------------------
# What the finalized minimums become: question (e) of the core (M5).
#
# By KIP-584's text the highest minimum that any broker supports is finalized, which deprecates all
# levels below it; no release has ever done that. From 2.7 to 3.2 an update of a feature stores the
# controller's own minimum; all others keep none. Before a minimum rises, a person must have
# checked
# that no client uses what goes away: no cluster knows that.

MINIMUM_CODE = "minimum_would_rise"
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
    keep them: 3.3 and later read the level in their place (featurelib.audit.finalized).
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
        MINIMUM_CODE,
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
