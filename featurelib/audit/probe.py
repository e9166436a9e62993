"""What a cluster's own controller said when it was asked to validate, and to write nothing.

It asks every registered broker, those too that nobody could list. So an answer that agrees proves
that no registration blocks just this request; a refusal is never READY. It counts as long as
nothing newer landed of its cluster, which the fold sees to, and no longer than evidence does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from featurelib.audit.columns import Bool, Int, is_fresh
from featurelib.audit.controllers import OwnDialects
from featurelib.audit.evidence import Conditions, Evidence
from featurelib.audit.findings import Findings
from featurelib.audit.target import Agreed, Judge, search
from featurelib.core.dialect import HONOURED, load

PROBE_AGREED, PROBE_REFUSED = "probe_agreed", "probe_refused"  # the findings
_ANSWERED_OK = 0


class Validated(msgspec.Struct, frozen=True, kw_only=True):
    """One update the controller validated, and its code and words about it."""

    feature: str
    from_level: int
    to_level: int
    code: int
    message: str

    @property
    def is_agreed(self) -> bool:
        return self.code == _ANSWERED_OK


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What one controller answered: an update by its feature; when and in which line."""

    cluster: int
    updates: dict[str, Validated]
    at: Int
    line: Int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What is left after the controllers' answers. `target` and `refusals` (findings) are by
    question; `proven`: by cluster, whether no registration blocks anything that could go up;
    `controllers`: whether that is so of controllers' registrations, too. `agreed`: what each
    proven cluster's controller agreed to, as feature → (level from, level to)."""

    target: Int
    refusals: Int
    proven: Bool
    controllers: Bool
    agreed: dict[int, dict[str, tuple[int, int]]]


def report_probes(
    asking: Judge,
    agreed: Agreed,
    own: Callable[[], OwnDialects],
    conditions: Conditions,
    said: Findings,
) -> Probed:
    """Hold what passed the policy against what the controller said; findings for both answers.

    What it refused goes back to where it is, and whatever rests on that with it. Where nothing can
    go up, that it agrees to the present level proves that no registration is against that.
    """
    evidence, asked, target = asking.evidence, asking.asked, agreed.target.copy()
    refusals = np.zeros(len(target), dtype=np.int64)
    proven = np.zeros(len(evidence.clusters), dtype=bool)
    controllers = proven.copy()
    proof: dict[int, dict[str, tuple[int, int]]] = {}
    for answer, spoken in _fresh(asking, agreed, own, conditions):
        cluster, answers = answer.cluster, answer.updates
        known = np.flatnonzero((asked.cluster == cluster) & asked.known)
        mine = known[target[known] > asked.current[known]]
        if len(mine) == 0:  # to what it is asked, then, it must agree where it is
            named = [asking.asked.names[int(asked.feature[q])] in answers for q in known]
            mine = known[named]
        met = {int(q): _of_move(asking, int(q), int(target[q]), answers) for q in mine}
        agreed_to = [one for one in met.values() if one is not None and one.is_agreed]
        if len(mine) > 0 and len(agreed_to) == len(mine):
            proven[cluster] = True
            controllers[cluster] = _asks_controllers(asking, cluster, spoken)
            proof[cluster] = {one.feature: (one.from_level, one.to_level) for one in agreed_to}
        _say_agreed(answer, agreed_to, said)
        for question, one in met.items():
            if one is not None and not one.is_agreed:
                _say_refused(answer, one, said)
                refusals[question] += 1
                target[question] = asked.current[question]
    if refusals.any():
        target = search(asking, target)
    return Probed(
        target=target, refusals=refusals, proven=proven, controllers=controllers, agreed=proof
    )


def _asks_controllers(asking: Judge, cluster: int, spoken: Sequence[str]) -> bool:
    """Whether whoever may have answered asks all registered controllers (KIP-919, from 3.7 on)."""
    level = int(asking.metadata_version[cluster])
    least = [load(name).can.controllers_register_from for name in spoken]
    return all(0 < one <= level for one in least)


def _fresh(
    asking: Judge, agreed: Agreed, own: Callable[[], OwnDialects], conditions: Conditions
) -> Iterator[tuple[_Answer, list[str]]]:
    """The answers that count, and what those controllers may speak: of controllers that are known
    to validate only, which those of ZooKeeper mode do not; and no clock may be so far ahead that
    it cannot be believed."""
    for answer in _answers(asking.evidence):
        spoken = agreed.dialects.get(answer.cluster) or own().dialects(answer.cluster)
        honoured = all(load(name).can.validate_only == HONOURED for name in spoken)
        is_young = bool(is_fresh(answer.at, conditions.as_of, conditions.max_age)[0])
        if is_young and spoken and honoured:
            yield answer, spoken


def _answers(evidence: Evidence) -> Iterator[_Answer]:
    probe = evidence.snapshots["probe"]
    updates = probe.structs(Validated)
    for cluster in np.flatnonzero(probe.lengths).tolist():
        first = int(probe.start[cluster])
        mine = updates[first : first + int(probe.lengths[cluster])]
        yield _Answer(
            cluster=cluster,
            updates={one.feature: one for one in mine},
            at=probe.field("at")[[first]],
            line=probe.field("line")[[first]],
        )


def _of_move(
    asking: Judge, question: int, target: int, answers: dict[str, Validated]
) -> Validated | None:
    """The answer about just this move; None = it was not asked about."""
    name = asking.asked.names[int(asking.asked.feature[question])]
    one = answers.get(name)
    now = int(asking.asked.current[question])
    return one if one is not None and (one.from_level, one.to_level) == (now, target) else None


def _say_agreed(answer: _Answer, agreed_to: Sequence[Validated], said: Findings) -> None:
    if agreed_to:
        said.add(
            PROBE_AGREED,
            np.array([answer.cluster]),
            at=answer.at,
            line=answer.line,
            detail=[", ".join(f"{one.feature} {one.to_level}" for one in agreed_to)],
        )


def _say_refused(answer: _Answer, one: Validated, said: Findings) -> None:
    words = f": {one.message}" if one.message else ""
    said.add(
        PROBE_REFUSED,
        np.array([answer.cluster]),
        feature=pa.array([one.feature], pa.string()),
        finalized_level=np.array([one.from_level]),
        level=np.array([one.to_level]),
        at=answer.at,
        line=answer.line,
        detail=[f"error {one.code}{words}"],
    )
