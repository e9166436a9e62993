"""Requests tried on clusters before anything is sent: what refuses each, and what would follow.

A request is put to two judges: the policy of this project, and the dialect of the controller that
would answer. Every refusal of both is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from featurelib.catalogue import Tables
from featurelib.core.answer import Judged, decide, judge
from featurelib.core.batch import Batch
from featurelib.core.cluster import Case, Cluster, Range
from featurelib.core.dialect import STRICT, Absence, Dialect, Order, RuleRow, load
from featurelib.core.reply import Speaker
from featurelib.core.rules import RULES
from featurelib.core.scopes import SCOPES
from featurelib.core.single import build
from featurelib.core.words import rule_words
from featurelib.feature import KRAFT_VERSION

# What a plan must not do besides what the strict policy says: rule, and on which updates.
_OF_PLANS = (
    ("negative_level", ()),
    ("downgrade_without_intent", ()),
    ("upgrade_under_downgrade_type", ()),
    ("change_under_downgrade_type", ("of_kraft_version",)),
    ("raft_voters_not_ready", ("of_kraft_version",)),
    ("lossy_safe_downgrade", ("of_metadata_version",)),
    ("dependant_broken", ()),
)
NOTHING_CHANGES, OTHERS_CHANGE = "nothing_changes", "others_change"
FAILS_AFTER_WRITING = "fails_after_writing"
_SAYS = {
    NOTHING_CHANGES: "{title} accepts {feature} {level} in vain.",
    OTHERS_CHANGE: "The controller does not see what is finalized: {feature} would become {level}.",
    FAILS_AFTER_WRITING: "The controller would write {feature} {level} and say that it failed.",
}
_RECORD_ONLY = ("record", "ignored_record")  # 3.9 and 4.0: the raft layer stays where it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One reason against one update: who says it, and in which words."""

    judge: str  # a dialect's name
    code: str
    feature: str
    level: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Every refusal of one request, and the cluster once it has settled."""

    refusals: tuple[Refusal, ...]
    after: Cluster


@cache
def policy(mode: str) -> Dialect:
    """The strict policy for plans in `mode`: what leaves must not lose or break anything either.

    What is stable, lossy or needed is asked of the controller's own release. Deletes ask no node in
    ZooKeeper mode (KIP-584, Validations); where controllers do not register yet, no voter has to be
    registered (KIP-919).
    """
    strict = load(STRICT)
    rows = [_scoped(row, mode) for row in strict.rules]
    present = {row.code for row in rows}
    rows += [_row(name, where) for name, where in _OF_PLANS if name not in present]
    can = replace(strict.can, catalogue="own", upgrade_type_v0="allow_downgrade")
    return replace(strict, can=can, rules=tuple(rows))


def _scoped(row: RuleRow, mode: str) -> RuleRow:
    more = {"voter_not_registered": "controllers_register"}
    if mode == "zk":
        more["unsupported_by_node"] = "sets"
    if row.code not in more:
        return row
    return replace(row, where=tuple(dict.fromkeys((*row.where, SCOPES[more[row.code]]))))


def _row(name: str, where: tuple[str, ...]) -> RuleRow:
    return RuleRow(
        rule=RULES[name],
        where=tuple(SCOPES[scope] for scope in where),
        asks=None,
        absence=Absence.ZERO,
        order=Order.NONE,
        code_number=load(STRICT).rules[0].code_number,
        says="",
        says_absent="",
        words=rule_words(name),
    )


def try_requests(cases: Sequence[Case], own: Dialect, tables: Tables) -> list[Tried]:
    """Each request as the policy and a controller of the dialect `own` judge it, together."""
    said: list[list[Refusal]] = [[] for _ in cases]
    strict = policy(own.mode)
    batch = build(cases, strict, tables)
    _collect(said, batch, judge(batch, strict, tables), strict, None)
    batch = build(cases, own, tables)
    judged = judge(batch, own, tables)
    outcome = decide(batch, own, judged)
    _collect(said, batch, judged, own, Speaker(batch, own, judged, outcome, tables))
    failed = outcome.failed_write.tolist()
    tried = []
    for i, (case, refusals) in enumerate(zip(cases, said, strict=True)):
        finalized: dict[str, Range] = {}
        for name, level, least in zip(
            batch.names, outcome.after[i].tolist(), outcome.after_min[i].tolist(), strict=True
        ):
            if level:
                finalized[name] = (least or level, level)
        record = int(outcome.kraft_record[i])
        after = replace(case[0], finalized=finalized, cached=None, kraft_record=record)
        astray = [] if refusals else list(_astray(case, after, own, failed=failed[i]))
        tried.append(Tried(refusals=(*refusals, *astray), after=after))
    return tried


def refused_by(cases: Sequence[Case], by: Dialect, tables: Tables) -> list[frozenset[str]]:
    """The codes of the rules of one dialect or policy that refuse each request."""
    said: list[list[Refusal]] = [[] for _ in cases]
    batch = build(cases, by, tables)
    _collect(said, batch, judge(batch, by, tables), by, None)
    return [frozenset(refusal.code for refusal in refusals) for refusals in said]


def _collect(
    said: list[list[Refusal]], batch: Batch, judged: Judged, by: Dialect, speaker: Speaker | None
) -> None:
    updates = batch.updates
    for request, door in enumerate(judged.door.tolist()):
        if door >= 0:
            said[request].append(_refusal(by, by.door[door], "", 0, ""))
    for k, i in zip(*(at.tolist() for at in judged.offends.nonzero()), strict=True):
        row, feature = by.rules[k], batch.names[int(updates.feature[i])]
        words = speaker.words(row, i, int(judged.named[k, i])) if speaker else ""
        refusal = _refusal(by, row, feature, int(updates.level[i]), words)
        said[int(updates.request[i])].append(refusal)


def _refusal(by: Dialect, row: RuleRow, feature: str, level: int, words: str) -> Refusal:
    message = words or row.rule.sentence
    return Refusal(judge=by.name, code=row.code, feature=feature, level=level, message=message)


def _astray(case: Case, after: Cluster, own: Dialect, *, failed: bool) -> Iterator[Refusal]:
    """What would come of a request that is accepted, other than what it asks for.

    3.9 and 4.0 record a kraft.version that the raft layer does not take up (KRaftVersion). A
    ZooKeeper-mode controller that no longer sees the features node writes back what it saw last,
    and then says that it failed (KafkaController.updateFeatures).
    """
    levels = {name: level for name, (_, level) in after.finalized.items()}
    wanted = {update.feature: update.level for update in case[1].updates}
    recorded = {KRAFT_VERSION} if own.can.kraft_version in _RECORD_ONLY else set[str]()
    for name in sorted(wanted):
        if levels.get(name, 0) != wanted[name] or name in recorded:
            yield _in_vain(own, NOTHING_CHANGES, name, wanted[name])
        elif failed:
            yield _in_vain(own, FAILS_AFTER_WRITING, name, wanted[name])
    before = {name: level for name, (_, level) in case[0].finalized.items()}
    for name in sorted((set(levels) | set(before)) - set(wanted)):
        if levels.get(name, 0) != before.get(name, 0):
            yield _in_vain(own, OTHERS_CHANGE, name, levels.get(name, 0))


def _in_vain(own: Dialect, code: str, feature: str, level: int) -> Refusal:
    message = _SAYS[code].format(title=own.title, feature=feature, level=level)
    return Refusal(judge=own.name, code=code, feature=feature, level=level, message=message)
