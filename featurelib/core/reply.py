"""The answer of a controller as it would come over the wire: codes and words.

Only for rows somebody reads: judging thousands of requests needs no text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from featurelib.catalogue import Tables
from featurelib.core.batch import NOT_HERE, Batch
from featurelib.core.cluster import Request
from featurelib.core.dialect import Absence, Dialect, RuleRow
from featurelib.core.judge import Consequences, Offences, offending_pairs
from featurelib.feature import METADATA_VERSION, UpgradeType

NO_ERROR = 0
_OPEN_END = 32767  # Short.MAX_VALUE: Kafka prints "1+"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The answer about one update."""

    feature: str
    code: int
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An UpdateFeatures response; `results` is None where the wire version has none."""

    code: int
    message: str | None
    results: tuple[Result, ...] | None

    def of(self, feature: str) -> tuple[int | None, str | None]:
        """The code and the words about one update; an error of the whole request is one of all.
        None = nothing was said."""
        if self.code != NO_ERROR:
            return self.code, self.message
        if not self.results:  # wire version 2 lists none where all is well
            return NO_ERROR, None
        found = {result.feature: (result.code, result.message) for result in self.results}
        return found.get(feature, (None, "the answer does not mention it"))

    @property
    def is_good(self) -> bool:
        """Whether no code in it is an error."""
        return all(code == NO_ERROR for code in (self.code, *(r.code for r in self.results or ())))

    def accepts(self, features: Iterable[str]) -> bool:
        """Whether it agrees to every update."""
        return all(self.of(feature)[0] == NO_ERROR for feature in features)


class Speaker:
    """Puts what was judged and decided into the words of a dialect."""

    def __init__(
        self,
        batch: Batch,
        dialect: Dialect,
        judged: Offences,
        outcome: Consequences,
        tables: Tables,
    ) -> None:
        self._batch, self._dialect, self._tables = batch, dialect, tables
        self._judged, self._outcome = judged, outcome
        self._first = judged.first

    def reply(self, position: int, request: Request) -> Reply:
        """The answer to the request at `position` of the batch."""
        can, text, outcome = self._dialect.can, self._dialect.text, self._outcome
        none = None if request.version > can.results_up_to else ()
        if (door := int(self._judged.door[position])) != NOT_HERE:
            row = self._dialect.door[door]
            return Reply(code=row.code_number, message=self._fill_door(row, position), results=none)
        if (failed := int(outcome.failed_by[position])) != NOT_HERE:
            row = self._dialect.rules[int(self._first[failed])]
            message = text.atomic_prefix + self.message(failed)
            return Reply(code=row.code_number, message=message, results=none)
        results = None if none is None else self._results(position, request)
        return Reply(code=NO_ERROR, message=text.good_top, results=results)

    def _results(self, position: int, request: Request) -> tuple[Result, ...]:
        updates, by_name = self._batch.updates, {}
        mine = (updates.request == position).nonzero()[0].tolist()
        for i in mine:
            name = self._batch.names[int(updates.feature[i])]
            by_name[name] = self._result(i, name, position)
        if self._dialect.can.atomic:  # one for each entry, repeated names too
            return tuple(by_name[update.feature] for update in request.updates)
        return tuple(by_name[name] for name in sorted(by_name))

    def _result(self, i: int, name: str, position: int) -> Result:
        text, rule = self._dialect.text, int(self._first[i])
        if rule != NOT_HERE:
            code = self._dialect.rules[rule].code_number
            return Result(feature=name, code=code, message=self.message(i))
        if self._outcome.failed_write[position]:
            code = self._dialect.can.after_failed_wait
            return Result(feature=name, code=code, message=text.failed_write)
        return Result(feature=name, code=NO_ERROR, message=text.good_result)

    def message(self, i: int) -> str:
        """The words about update `i`, which violates a rule."""
        rule = int(self._first[i])
        row, pair = self._dialect.rules[rule], int(self._judged.named[rule, i])
        return self.words(row, i, pair)

    def alike(self) -> tuple[frozenset[str], ...]:
        """For each update whose refusal names a node: the words with any other node of the group
        that offends as it does. Which is the first hangs on the order of registration too."""
        found = []
        for i, rule in enumerate(self._first.tolist()):
            row = self._dialect.rules[rule]
            if rule != NOT_HERE and row.asks is not None:
                updates, pairs = offending_pairs(self._judged, self._batch, row)
                words = {self.words(row, i, pair) for pair in pairs[updates == i].tolist()}
                prefix = self._dialect.text.atomic_prefix
                found.append(frozenset(words | {prefix + said for said in words}))
        return tuple(found)

    def words(self, row: RuleRow, i: int, pair: int) -> str:
        """The words of `row` about update `i`, naming the first node of `pair` (-1: nobody)."""
        columns, updates = self._judged.columns, self._batch.updates
        feature = int(updates.feature[i])
        kind = int(updates.kind[i])
        places: dict[str, object] = {
            "feature": self._batch.names[feature],
            "level": int(updates.level[i]),
            "current": int(columns.current[i]),
            "finalized_min": int(columns.finalized_min[i]),
            "local_min": int(columns.local_min[i]),
            "verb": "downgrade" if kind == UpgradeType.SAFE_DOWNGRADE else "upgrade",
        }
        says = row.says
        if pair != NOT_HERE and row.asks is not None:
            places |= self._node(row, pair, feature)
            absent = (
                not places["lists"] if row.absence is Absence.REFUSE else places["node_max"] == 0
            )
            says = row.says_absent if absent else row.says
        if "known}" in says:
            places |= self._known(i)
        if "dependency" in says:
            places |= self._dependency(i)
        return says.format_map(places)

    def _fill_door(self, row: RuleRow, position: int) -> str:
        return row.says.format_map({"active": int(self._batch.state.active[position])})

    def _node(self, row: RuleRow, pair: int, feature: int) -> dict[str, object]:
        assert row.asks is not None
        group, ranges = self._batch.groups[row.asks], self._batch.ranges
        at = int(group.profile[pair]), feature
        low, high = int(ranges.min_version[at]), int(ranges.max_version[at])
        return {
            "node": int(group.node[pair]),
            "node_min": low,
            "node_max": high,
            "node_range": range_text(low, high),
            "lists": bool(ranges.lists[at]),
        }

    def _known(self, i: int) -> dict[str, object]:
        release = int(self._batch.state.release[self._batch.updates.request[i]])
        code = self._tables.feature_code(METADATA_VERSION)
        return {
            "oldest_known": int(self._tables.oldest[release, code]),
            "newest_known": int(self._tables.newest_unstable[release, code]),
        }

    def _dependency(self, i: int) -> dict[str, object]:
        columns = self._judged.columns
        other = self._tables.features[int(columns.depends_on[i])]
        return {"dependency": other, "dependency_level": int(columns.needed[i])}


def range_text(low: int, high: int) -> str:
    """A range as Kafka prints it: `7`, `1+`, `0-2` (VersionRange.toString)."""
    if low == high:
        return str(low)
    return f"{low}+" if high == _OPEN_END else f"{low}-{high}"
