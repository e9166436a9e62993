"""One recorded answer beside ours: every difference, by kind, and what a recording cannot decide.

Which of the nodes that offend alike is named, where the order in which they registered decides, and
whether kraft.version of a refused request moved, is no difference; it is excused, by reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from featurelib.core.ask import Answered
from featurelib.core.reply import Reply
from featurelib.exchanges import Exchange, Levels
from featurelib.feature import KRAFT_VERSION

HIDES_RECORD = ("3.9.0",)  # 3.9.2 shows the record while the raft layer is at 0
KINDS = ("code", "words", "results", "levels", "epoch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing in which we answer otherwise than the recorded controller did."""

    id: str
    kind: str  # one of KINDS
    recorded: str
    ours: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One way the exchange may have begun, and how our answer compares with the recorded one."""

    answered: Answered
    differences: list[Difference]
    excused: list[str]


def compare(exchange: Exchange, answered: Answered) -> Compared:
    """The recorded answer and the levels afterwards beside `answered`."""
    theirs, ours = exchange.reply, answered.reply
    found: list[Difference] = []
    excused: list[str] = []

    def differ(kind: str, recorded: object, mine: object) -> None:
        found.append(Difference(id=exchange.id, kind=kind, recorded=str(recorded), ours=str(mine)))

    if theirs.code != ours.code:
        differ("code", theirs.code, ours.code)
    same_words = (theirs.message, _results(theirs)) == (ours.message, _results(ours))
    if not same_words and _names_another(theirs, answered):
        excused.append("another offender is named")
    elif not same_words:
        if theirs.message != ours.message:
            differ("words", theirs.message, ours.message)
        if _results(theirs) != _results(ours):
            differ("results", _results_text(theirs), _results_text(ours))
    after: Levels = answered.after.finalized
    if hides_record(exchange):
        after = _but_kraft(after)
    if exchange.after != after:
        if answered.unsure and _but_kraft(exchange.after) == _but_kraft(after):
            excused.append("kraft.version of a refused request")
        else:
            differ("levels", _levels_text(exchange.after), _levels_text(after))
    return Compared(answered=answered, differences=found, excused=excused)


def hides_record(exchange: Exchange) -> bool:
    """Whether nodes show nothing of the record of kraft.version though the raft layer is at 0."""
    early = exchange.mode == "kraft" and exchange.cluster.release in HIDES_RECORD
    return early and exchange.cluster.raft_level == 0


def _results(reply: Reply) -> list[tuple[str, int, str | None]] | None:
    """Results by name: their order is that of a hash map."""
    if reply.results is None:
        return None
    return sorted(((r.feature, r.code, r.message) for r in reply.results), key=repr)


def _results_text(reply: Reply) -> str:
    results = _results(reply)
    if results is None:
        return "no results (the wire version has none)"
    said = [f"{name} {code} {message or '(no message)'}" for name, code, message in results]
    return "; ".join(said) or "an empty list of results"


def _levels_text(levels: Levels) -> str:
    """`f=3, g=1..4`: the level, with the finalized minimum where that is another one."""
    said = [
        f"{name}={level}" if low == level else f"{name}={low}..{level}"
        for name, (low, level) in sorted(levels.items())
    ]
    return ", ".join(said) or "nothing finalized"


def _names_another(theirs: Reply, answered: Answered) -> bool:
    """Whether both refuse the same update by the same rule, and name different nodes of the group
    it asks, each of which offends: nodes whose order hangs on when they registered."""

    def same(one: str | None, other: str | None) -> bool:
        return one == other or any({one, other} <= words for words in answered.alike)

    results, mine = _results(theirs) or [], _results(answered.reply) or []
    if not same(theirs.message, answered.reply.message) or len(results) != len(mine):
        return False
    return all(
        one[:2] == other[:2] and same(one[2], other[2])
        for one, other in zip(results, mine, strict=True)
    )


def _but_kraft(levels: Levels) -> Levels:
    return {name: level for name, level in levels.items() if name != KRAFT_VERSION}
