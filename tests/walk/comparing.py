"""What the product says of one cluster, beside what its own controller answers.

The audit's rows and why-not's proofs are put to the controller as requests to validate only. A
policy that is stricter than the controller is no disagreement; it is counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from featurelib.audit.cluster_view import ClusterView
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import GENERATIONS, STRICT
from featurelib.feature import KRAFT_VERSION, Severity, UpgradeType
from featurelib.planning.reasons import PROBE
from featurelib.questions.why_not import LevelStatus, WhyNot, why_not
from tests.walk.wire import Said

Question = tuple[tuple[str, int, int], ...]  # (feature, level, wire code of the upgrade type)
Ask = Callable[[Question], Said | None]  # None: nobody could be asked
PREFIX = "The update failed for all features since the following feature had an error: "
HIGHEST, DOWN = 6, 2  # levels of a feature that are tried above and below the finalized one

WRONG_READY, WRONG_BLOCKED, WRONG_PLAN = "wrong READY", "wrong BLOCKED", "wrong plan"
WRONG_NOTHING, WRONG_REFUSAL = "why-not: wrongly nothing", "why-not: wrong refusal"
UNFORESEEN, MISQUOTED, LEVEL = "why-not: refusal unforeseen", "why-not: misquoted", "wrong level"
CONTRADICTION = "row and why-not differ"
KINDS = (WRONG_READY, WRONG_BLOCKED, WRONG_PLAN, WRONG_NOTHING, WRONG_REFUSAL, UNFORESEEN,
         MISQUOTED, LEVEL, CONTRADICTION)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """One sentence of the product that the controller does not bear out."""

    kind: str
    feature: str
    level: int
    product: str
    controller: str

    @property
    def key(self) -> tuple[str, str, int]:
        return self.kind, self.feature, self.level

    def with_history(self) -> Disagreement:
        """The same, found where the looks before count too."""
        return replace(self, kind=f"{self.kind} (with history)")

    def __str__(self) -> str:
        return (
            f"{self.kind}: {self.feature} {self.level}\n"
            f"    product:    {self.product}\n    controller: {self.controller}"
        )


@dataclass(slots=True, kw_only=True)
class Compared:
    """What came of one judgement."""

    counts: Counter[str] = field(default_factory=Counter)
    disagreements: list[Disagreement] = field(default_factory=list)


def compare(
    view: ClusterView,
    catalogue: Catalogue,
    ask: Ask,
    rng: Random,
    *,
    levels: dict[str, int] | None = None,
    needed: Collection[str] = (),
    with_why_not: bool = True,
    everything: bool = False,
) -> Compared:
    """Every row, its plan, and why-not for some levels of each feature.

    `levels`: what the active controller itself shows as finalized; `needed`: features that are
    asked about although no node speaks of them; `everything`: no level is left to chance.
    """
    found = Compared()
    rows = view.judged.readiness.to_pylist()
    for row in rows:
        found.counts[f"verdict {row['verdict']}"] += 1
        _compare_row(view, catalogue, row, ask, found)
        if levels is not None and row["finalized_level"] is not None:
            _compare_level(row, levels, found)
    _compare_plan(view, ask, found)
    names = {row["feature"]: row for row in rows}
    if not with_why_not:
        return found
    for feature in sorted({*names, *needed}):
        for level in _drawn(view, names.get(feature), feature, None if everything else rng):
            _compare_why_not(why_not(view, feature, level, catalogue), ask, found)
    return found


def unknown_codes(view: ClusterView) -> list[str]:
    """The findings that keep the cluster from a verdict."""
    rows = view.judged.findings.to_pylist()
    return sorted({r["code"] for r in rows if r["severity"] == Severity.UNKNOWN.value})


def _compare_row(
    view: ClusterView, catalogue: Catalogue, row: dict[str, Any], ask: Ask, found: Compared
) -> None:
    feature, now = row["feature"], row["finalized_level"]
    if row["verdict"] == "READY":
        target = row["target"]
        answer = why_not(view, feature, target, catalogue)
        said = ask(_question(answer))
        if answer.answer is not LevelStatus.NOTHING:
            words = f"READY for {target}, and why-not: {answer.answer} ({_rules(answer)})"
            found.disagreements.append(_differ(CONTRADICTION, answer, words, said))
        if said is not None:
            found.counts["READY compared"] += 1
            if not said.is_good:
                found.disagreements.append(_differ(WRONG_READY, answer, "READY", said))
    elif row["verdict"] == "BLOCKED" and now is not None:
        for level in range(now + 1, row["ceiling"] + 1):
            answer = why_not(view, feature, level, catalogue)
            said = ask(_question(answer))
            if said is None:
                continue
            found.counts["BLOCKED level compared"] += 1
            if said.is_good and not any(p.judge == STRICT for p in answer.proofs):
                words = f"BLOCKED; why-not: {answer.answer} ({_rules(answer)})"
                found.disagreements.append(_differ(WRONG_BLOCKED, answer, words, said))
            elif said.is_good:
                found.counts["BLOCKED by the policy alone"] += 1
                for rule in {p.code for p in answer.proofs if p.judge == STRICT}:
                    found.counts[f"policy alone: {rule}"] += 1


def _compare_level(row: dict[str, Any], levels: dict[str, int], found: Compared) -> None:
    feature, level = row["feature"], row["finalized_level"]
    found.counts["levels compared"] += 1
    there = levels.get(feature, 0)
    if level != there:
        found.disagreements.append(
            Disagreement(
                kind=LEVEL, feature=feature, level=level,
                product=f"finalized at {level}", controller=f"finalized at {there}",
            )
        )  # fmt: skip


def _compare_plan(view: ClusterView, ask: Ask, found: Compared) -> None:
    """The first request of the night's plan, whole."""
    [plan] = view.judged.plans.select(["steps"]).to_pylist()
    first = [row for row in plan["steps"] or () if row["request"] == 1]
    if not first:
        return
    question = tuple(
        (row["feature"], row["to_level"], int(UpgradeType[row["upgrade_type"]])) for row in first
    )
    said = ask(question)
    if said is None:
        return
    found.counts["plan compared"] += 1
    if not said.is_good:
        found.disagreements.append(
            Disagreement(
                kind=WRONG_PLAN, feature=first[0]["feature"], level=first[0]["to_level"],
                product=f"the plan's first request: {question}", controller=in_words(said),
            )
        )  # fmt: skip


def _compare_why_not(answer: WhyNot, ask: Ask, found: Compared) -> None:
    if answer.answer is LevelStatus.FINALIZED:
        return
    said = ask(_question(answer))
    if said is None:
        return
    found.counts[f"why-not {answer.answer} compared"] += 1
    own = [p for p in answer.proofs if p.judge == PROBE or (p.judge in GENERATIONS and p.is_answer)]
    if answer.answer is LevelStatus.NOTHING and not said.is_good:
        found.disagreements.append(_differ(WRONG_NOTHING, answer, "nothing in the way", said))
    elif answer.answer is LevelStatus.BLOCKED and said.is_good and own:
        words = f"{own[0].judge} would answer: {own[0].message}"
        found.disagreements.append(_differ(WRONG_REFUSAL, answer, words, said))
    elif answer.answer is LevelStatus.BLOCKED and said.is_good:
        later = any(proof.judge in GENERATIONS for proof in answer.proofs)
        whom = "a controller that may lead later" if later else "the policy alone"
        found.counts[f"why-not: {whom} is against it"] += 1
    elif answer.answer is LevelStatus.BLOCKED and not answer.unknown:
        quotes = list(_quotes(answer))
        if not quotes and not own:
            words = f"only the policy refuses ({_rules(answer)})"
            found.disagreements.append(_differ(UNFORESEEN, answer, words, said))
            return
        if not quotes:
            found.counts["foreseen by a probe alone"] += 1
            return
        found.counts["quotes compared"] += 1
        if _bare(said) not in quotes:
            words = " | ".join(quotes)
            found.disagreements.append(_differ(MISQUOTED, answer, words, said))


def _quotes(answer: WhyNot) -> Iterator[str]:
    """What why-not prints as the controller's own answer."""
    for proof in answer.proofs:
        if proof.judge in GENERATIONS and proof.is_answer:
            yield proof.message.removeprefix(PREFIX)


def _bare(said: Said) -> str:
    """The controller's words about the first update it refuses."""
    if said.code:
        return (said.message or "").removeprefix(PREFIX)
    return next((words or "" for code, words in said.results.values() if code), "")


def in_words(said: Said | None) -> str:
    """An answer in one line."""
    if said is None:
        return "not asked"
    return "accepted" if said.is_good else f"refused: {_bare(said)}"


def _question(answer: WhyNot) -> Question:
    up = answer.current is None or answer.level > answer.current
    kind = UpgradeType.UPGRADE if up else UpgradeType.SAFE_DOWNGRADE
    moves = answer.moves or ((answer.feature, answer.level),)
    return tuple((name, level, int(kind)) for name, level in moves)


def _drawn(
    view: ClusterView, row: dict[str, Any] | None, feature: str, rng: Random | None
) -> list[int]:
    """Levels to ask about: what is special, and some by chance; without chance all."""
    now = (row["finalized_level"] or 0) if row else 0
    ceiling = row["ceiling"] if row else 1
    ends = [node.supported.get(feature, (0, 0))[1] for node in view.cluster.nodes]
    top = max([*ends, ceiling, now])
    below = [] if feature == KRAFT_VERSION else list(range(now))
    if rng is None:
        return [*below, *range(now + 1, top + 2)]
    up = {now + 1, ceiling, top, top + 1, *([row["target"]] if row and row["target"] else [])}
    up = {level for level in up if level > now}
    more = [level for level in range(now + 1, top + 1) if level not in up]
    up |= set(rng.sample(more, min(len(more), max(0, HIGHEST - len(up)))))
    return sorted({*up, *rng.sample(below, min(len(below), DOWN))})


def _rules(answer: WhyNot) -> str:
    proofs = (*answer.proofs, *answer.unknown)
    return ", ".join(dict.fromkeys(f"{proof.code} of {proof.judge}" for proof in proofs))


def _differ(kind: str, answer: WhyNot, product: str, said: Said | None) -> Disagreement:
    return Disagreement(
        kind=kind,
        feature=answer.feature,
        level=answer.level,
        product=product,
        controller=in_words(said),
    )
