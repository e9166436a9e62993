"""Build a controller's response as sent over the network: error codes and messages.

Only displayed rows need texts: thousands of requests are judged without. `read_refusal` reads the
node and range in a controller's refusal, because no other source may show them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from featurelib.catalogue import Tables
from featurelib.core.batch import NOT_HERE, Batch
from featurelib.core.cluster import Cluster, Request
from featurelib.core.dialect import Absence, Dialect, RuleRow
from featurelib.core.judge import decide, judge, offending_pairs
from featurelib.feature import Role, UpgradeType
from featurelib.model import Reason

NO_ERROR = 0
_OPEN_END = 32767  # Short.MAX_VALUE: Kafka prints "1+"
# The message of `unsupported_by_node` in every generation.
_REFUSER = r"for feature %s\. (?:local )?(broker|controller) (\d{1,9}) (?:does not|only) support"
_ITS_RANGE = re.compile(r" supports (?:versions )?(\d{1,5})(\+?)(?:(?:-| to )(\d{1,5}))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one update in a response."""

    feature: str
    code: int
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An UpdateFeatures response. `results`: None in protocol versions without results."""

    code: int
    message: str | None
    results: tuple[Result, ...] | None

    def of(self, feature: str) -> tuple[int | None, str | None]:
        """Return (code, message) of an update. An error of the request counts for all updates."""
        if self.code != NO_ERROR:
            return self.code, self.message
        if not self.results:  # version 2 has no results on success
            return NO_ERROR, None
        results = {result.feature: (result.code, result.message) for result in self.results}
        return results.get(feature, (None, "the response does not mention it"))

    @property
    def is_good(self) -> bool:
        """True if the response has no error code."""
        return all(code == NO_ERROR for code in (self.code, *(r.code for r in self.results or ())))

    def accepts(self, features: Iterable[str]) -> bool:
        """Return true if the response accepts all these updates."""
        return all(self.of(feature)[0] == NO_ERROR for feature in features)


class Refuser(NamedTuple):
    """The node that a refusal names, with its range; None = the node does not list the feature."""

    role: Role
    node_id: int
    range: tuple[int, int] | None


def read_refusal(message: str | None, feature: str) -> Refuser | None:
    """Return the node that, by a refusal message, does not support a level; None otherwise."""
    pattern = re.compile(_REFUSER % re.escape(feature), re.ASCII | re.IGNORECASE)
    if message is None or (match := pattern.search(message)) is None:
        return None
    node, own = (Role[match[1].upper()], int(match[2])), _ITS_RANGE.search(message, match.end(2))
    if own is None:
        return Refuser(*node, None)
    return Refuser(*node, (int(own[1]), _OPEN_END if own[2] else int(own[3] or own[1])))


def is_about_another(message: str, feature: str, features: Iterable[str]) -> bool:
    """Return true if the message of a refused request names another feature and not `feature`."""
    mentioned = {name for name in features if f"for feature {name}." in message}
    return bool(mentioned) and feature not in mentioned


class JudgedRequests:
    """The judgement of a batch of requests by one dialect, with the dialect's messages."""

    def __init__(self, batch: Batch, dialect: Dialect, tables: Tables) -> None:
        self.batch, self.by, self._tables = batch, dialect, tables
        self.offences = judge(batch, dialect, tables)
        self.outcome = decide(batch, dialect, self.offences)
        self._first = self.offences.first

    def reply(self, position: int, request: Request) -> Reply:
        """Return the controller's response to the request at `position` in the batch."""
        dialect, outcome = self.by, self.outcome
        empty = None if request.version > dialect.can.results_up_to else ()
        if (rejecting_check := int(self.offences.rejecting_check[position])) != NOT_HERE:
            row = dialect.request_checks[rejecting_check]
            message = row.says.format_map({"active": int(self.batch.state.active[position])})
            return Reply(code=row.code_number, message=message, results=empty)
        if (failed := int(outcome.failed_by[position])) != NOT_HERE:
            result = self._result(failed, position)
            message = f"{dialect.text.atomic_prefix}{result.message}"
            return Reply(code=result.code, message=message, results=empty)
        results = None if empty is None else self._results(position, request)
        return Reply(code=NO_ERROR, message=dialect.text.good_top, results=results)

    def _results(self, position: int, request: Request) -> tuple[Result, ...]:
        rows = np.flatnonzero(self.batch.updates.request == position).tolist()
        by_name = {result.feature: result for result in (self._result(i, position) for i in rows)}
        if self.by.can.atomic:  # one result per update, also for repeated names
            return tuple(by_name[update.feature] for update in request.updates)
        return tuple(by_name[name] for name in sorted(by_name))

    def _result(self, index: int, position: int) -> Result:
        dialect, rule = self.by, int(self._first[index])
        code, message = NO_ERROR, dialect.text.good_result
        if rule != NOT_HERE:
            code, message = dialect.rules[rule].code_number, self._message_of(rule, index)
        elif self.outcome.failed_write[position]:
            code, message = dialect.can.after_failed_wait, dialect.text.failed_write
        return Result(feature=self._feature(index), code=code, message=message)

    def refusals(self) -> list[list[Reason]]:
        """Return, per request, the violated rules with the messages of the dialect or policy."""
        reasons: list[list[Reason]] = [[] for _ in range(self.batch.requests)]
        for request, rejecting_check in enumerate(self.offences.rejecting_check.tolist()):
            if rejecting_check != NOT_HERE:
                reasons[request].append(self._refusal(self.by.request_checks[rejecting_check]))
        request_of = self.batch.updates.request.tolist()
        for rule, i in zip(*(at.tolist() for at in self.offences.offends.nonzero()), strict=True):
            level, words = int(self.batch.updates.level[i]), self._message_of(rule, i)
            refusal = self._refusal(self.by.rules[rule], self._feature(i), level, words)
            reasons[request_of[i]].append(refusal)
        return reasons

    def _refusal(self, row: RuleRow, feature: str = "", level: int = 0, words: str = "") -> Reason:
        message = words or row.rule.sentence
        return Reason(
            judge=self.by.name, code=row.code, feature=feature, level=level, message=message
        )

    def after(self, position: int, before: Cluster) -> Cluster:
        """Return the cluster with the levels after the request at `position`."""
        ends = zip(
            self.batch.names,
            self.outcome.after_min[position].tolist(),
            self.outcome.after[position].tolist(),
            strict=True,
        )
        finalized = {name: (least or level, level) for name, least, level in ends if level}
        record = int(self.outcome.kraft_record[position])
        return replace(before, finalized=finalized, kraft_record=record)

    def alike(self) -> tuple[frozenset[str], ...]:
        """Return, per rejected update, all messages that Kafka may send. Their nodes differ,
        because Kafka's order of nodes is not known."""
        groups = []
        for i, rule in enumerate(self._first.tolist()):
            if rule != NOT_HERE and self.by.rules[rule].asks is not None:
                pairs = offending_pairs(self.offences, self.batch, self.by.rules[rule])
                offenders = pairs[1][pairs[0] == i].tolist()
                words = {self._message_of(rule, i, pair) for pair in offenders}
                groups.append(frozenset(words | {self.by.text.atomic_prefix + w for w in words}))
        return tuple(groups)

    def _feature(self, i: int) -> str:
        return self.batch.names[int(self.batch.updates.feature[i])]

    def _message_of(self, rule: int, i: int, pair: int | None = None) -> str:
        """Return the message of rule number `rule` about update `i`. `pair`: the pair whose first
        node is named; default: the first offending pair."""
        row, batch, columns = self.by.rules[rule], self.batch, self.offences.columns
        updates, tables = batch.updates, self._tables
        release = int(batch.state.release[updates.request[i]])
        places: dict[str, object] = {
            "feature": self._feature(i),
            "level": int(updates.level[i]),
            "current": int(columns.current[i]),
            "finalized_min": int(columns.finalized_min[i]),
            "local_min": int(columns.local_min[i]),
            "verb": "downgrade" if updates.kind[i] == UpgradeType.SAFE_DOWNGRADE else "upgrade",
            "oldest_known": int(tables.oldest[release, 0]),  # the oldest metadata.version
            "newest_known": int(tables.newest_unstable[release, 0]),
        }
        template = row.says
        if pair is None:
            pair = int(self.offences.named[rule, i])
        if pair != NOT_HERE and row.asks is not None:
            group, ranges = batch.groups[row.asks], batch.ranges
            at = int(group.profile[pair]), int(updates.feature[i])
            low, high = int(ranges.min_version[at]), int(ranges.max_version[at])
            places |= {"node": int(group.node[pair]), "node_min": low, "node_max": high}
            places["node_range"] = range_text(low, high)
            listed = ranges.lists[at] if row.absence is Absence.REFUSE else high != 0
            template = row.says if listed else row.says_absent
        if "dependency" in template:
            places["dependency"] = tables.features[int(columns.depends_on[i])]
            places["dependency_level"] = int(columns.needed[i])
        return template.format_map(places)


def range_text(low: int, high: int) -> str:
    """Return a range as Kafka prints it: `7`, `1+`, `0-2` (VersionRange.toString)."""
    if low == high:
        return str(low)
    return f"{low}+" if high == _OPEN_END else f"{low}-{high}"
