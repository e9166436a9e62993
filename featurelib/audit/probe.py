"""What a cluster's own controller said when it was asked to validate, and to write nothing.

It asks every registered broker, those too that nobody could list. So an answer that agrees proves
that no registration blocks just this request; a refusal is never READY. It counts as long as
nothing newer landed of its cluster, which the fold sees to, and no longer than evidence does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from featurelib.audit import oddities as oddity
from featurelib.audit.columns import Bool, Int, is_fresh
from featurelib.audit.controllers import OwnDialects
from featurelib.audit.evidence import Conditions
from featurelib.audit.findings import Findings
from featurelib.audit.oddities import HONOURED, PROBED, Asked
from featurelib.audit.oddities import read_probe as read
from featurelib.audit.target import Agreed, Judge, search
from featurelib.core.dialect import load

PROBE_AGREED, PROBE_REFUSED = "probe_agreed", "probe_refused"  # the findings


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
    for cluster, entry, spoken in _fresh(asking, agreed, own, conditions):
        answers = {one.feature: one for one in read(entry)}
        known = np.flatnonzero((asked.cluster == cluster) & asked.known)
        mine = known[target[known] > asked.current[known]]
        if len(mine) == 0:  # to what it is asked, then, it must agree where it is
            named = [asking.asked.names[int(asked.feature[q])] in answers for q in known]
            mine = known[named]
        met = {int(q): _answer(asking, int(q), int(target[q]), answers) for q in mine}
        agreed_to = [one for one in met.values() if one is not None and one.is_agreed]
        if len(mine) > 0 and len(agreed_to) == len(mine):
            proven[cluster] = True
            controllers[cluster] = _asks_controllers(asking, cluster, spoken)
            proof[cluster] = {one.feature: (one.from_level, one.to_level) for one in agreed_to}
        _say_agreed(cluster, entry, agreed_to, said)
        for question, one in met.items():
            if one is not None and not one.is_agreed:
                _say_refused(cluster, entry, one, said)
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
) -> Iterator[tuple[int, oddity.Oddity, list[str]]]:
    """The probes that count: of controllers that are known to validate only, which those of
    ZooKeeper mode do not; and no clock may be so far ahead that it cannot be believed."""
    for cluster, entries in enumerate(asking.evidence.oddities):
        for text in entries or ():
            if not text.startswith(PROBED):
                continue
            entry = oddity.read_oddity(text)
            spoken = agreed.dialects.get(cluster) or own().dialects(cluster)
            honoured = all(load(name).can.validate_only == HONOURED for name in spoken)
            at = np.array([entry.at], dtype=np.int64)
            is_young = bool(is_fresh(at, conditions.as_of, conditions.max_age)[0])
            if is_young and spoken and honoured:
                yield cluster, entry, spoken


def _answer(asking: Judge, question: int, target: int, answers: dict[str, Asked]) -> Asked | None:
    """What was said about just this move; None = it was not asked about."""
    name = asking.asked.names[int(asking.asked.feature[question])]
    one = answers.get(name)
    now = int(asking.asked.current[question])
    return one if one is not None and (one.from_level, one.to_level) == (now, target) else None


def _say_agreed(
    cluster: int, entry: oddity.Oddity, agreed_to: Sequence[Asked], said: Findings
) -> None:
    if agreed_to:
        moves = [f"{one.feature} {one.to_level}" for one in agreed_to]
        said.add(PROBE_AGREED, np.array([cluster]), **_place(entry), detail=[", ".join(moves)])


def _say_refused(cluster: int, entry: oddity.Oddity, one: Asked, said: Findings) -> None:
    words = f": {one.message}" if one.message else ""
    said.add(
        PROBE_REFUSED,
        np.array([cluster]),
        feature=pa.array([one.feature], pa.string()),
        finalized_level=np.array([one.from_level]),
        level=np.array([one.to_level]),
        **_place(entry),
        detail=[f"error {one.code}{words}"],
    )


def _place(entry: oddity.Oddity) -> dict[str, Int]:
    return {"at": np.array([entry.at]), "line": np.array([entry.line])}
