"""Show the answers of `why-not` as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from featurelib import words
from featurelib.audit.findings import FindingWords, ghosts
from featurelib.core.dialect import GENERATIONS, STRICT
from featurelib.feature import Role, Severity
from featurelib.findings import Action, tagged, way_of
from featurelib.questions.muted import over_reason
from featurelib.questions.why_not import LevelStatus, Proof, WayOut, WhyNot
from featurelib.source import Source
from featurelib.view.layout import Page
from featurelib.view.words import (
    COLLECT_AGAIN,
    READ_AGAIN,
    answer_text,
    judge_text,
    judges_text,
    show_danger,
    show_muted,
)

Row = Mapping[str, Any]


class QuestionPage(Page):
    """A page that answers a question about one cluster."""

    def __init__(self, source: Source, width: int | None) -> None:
        super().__init__(width)
        self.source, self.catalogue = source, source.inputs.catalogue
        self.words = FindingWords(self.catalogue)

    @property
    def name(self) -> str:
        """The cluster as a command's argument after a blank; "" if addresses identify it."""
        options, name = self.source.wanted, f" {shlex.quote(self.source.argument)}"
        return "" if options.addresses and not options.cluster else name

    @property
    def later(self) -> str:
        """The options for a plan that is made later."""
        return self.source.wanted.later(self.source.entry)

    def level(self, feature: str, level: int | None) -> str:
        """Return a level of a feature as text with its name."""
        return words.level_text(self.catalogue, feature, level)


NAME_RELEASE = (
    "only if you know which release the controllers run: set release in conf/fleet.toml; a wrong "
    "release gives a wrong result"
)
_HEADS = {
    LevelStatus.NOTHING: "nothing stands in the way",
    LevelStatus.FINALIZED: "it is finalized already",
    LevelStatus.BLOCKED: "BLOCKED",
    LevelStatus.UNKNOWN: "UNKNOWN",
}


def why_not_page(answer: WhyNot, source: Source, width: int | None = None) -> Page:
    """Return the page of `why-not`: blockers, missing data, changes that unlock the level."""
    page = QuestionPage(source, width)
    goal, current = (page.level(answer.feature, level) for level in (answer.level, answer.current))
    proofs = answer.proofs if answer.answer is LevelStatus.FINALIZED else ()
    title = _HEADS[answer.answer] + words.although([misfit.node for misfit in proofs])
    page.text(f"{words.clean(source.name)}: {words.clean(answer.feature)} {goal}: {title}")
    page.text(f"finalized: {current} · {words.clean(source.made_from, 300)}")
    page.text(f"judged by: {judges_text(answer.dialects)}")
    if needs := [move for move in answer.moves if move.feature != answer.feature]:
        page.text(f"it depends on {words.levels_text(page.catalogue, needs)}, which moves with it")
    if answer.level in page.catalogue.irreversible(answer.feature) - {answer.current}:
        page.text(f"{words.clean(answer.feature)} {goal} can never be taken back")
    if answer.proofs and not proofs:
        _proofs(answer.proofs, page)
    _show_proofs("what the audit finds", proofs, page)
    _show_proofs("missing data that could change the result", answer.unknown, page)
    if answer.agreed is not None:
        page.line()
        page.text(
            f"{words.clean(answer.agreed.statement, 1000)} [{words.time_text(answer.agreed.seen)}]"
        )
    show_muted((over_reason(source.muted, p) for p in (*answer.proofs, *answer.unknown)), page)
    _show_unlock(answer, page)
    return page


def _proofs(proofs: Sequence[Proof], page: QuestionPage) -> None:
    """Add a row per blocking node, then a row per rule, to the page."""
    of_nodes = [proof for proof in proofs if proof.node]
    if of_nodes:
        several = len({proof.feature for proof in of_nodes}) > 1
        rows = dict.fromkeys(_node_row(proof, several, page) for proof in of_nodes)
        page.line()
        page.table([("in the way", "feature", "supports", "seen", "line"), *rows])
    page.head("the rules that refuse it")
    for rule in dict.fromkeys(proof.code for proof in proofs):
        _rule([proof for proof in proofs if proof.code == rule], page)


def _node_row(proof: Proof, several: bool, page: QuestionPage) -> tuple[str, ...]:
    is_absent = proof.supported is None and proof.code in tagged("voter", "configured")
    supports = words.range_text(page.catalogue, proof.feature, proof.supported)
    return (
        proof.node,
        words.clean(proof.feature) if several else "",
        "not registered" if is_absent else supports,
        words.time_text(proof.seen),
        words.place(proof.line or ""),
    )


def _rule(proofs: Sequence[Proof], page: Page) -> None:
    """Add a rule with its judges, nodes, source and message to the page."""
    judges = judges_line(proof.judge for proof in proofs)
    ids = dict[str | None, set[int]]()
    for proof in proofs:
        if proof.node and proof.node_id is not None:
            ids.setdefault(proof.role, set()).add(proof.node_id)
    nodes_text = "; ".join(words.nodes(role, of_role) for role, of_role in ids.items())
    page.item(f"{proofs[0].code}, applied by {judges}{': ' * bool(nodes_text)}{nodes_text}", 2)
    if source := next((proof.source for proof in proofs if proof.source), ""):
        page.text(source, 4)
    quoted = set[str]()
    # A stable sort keeps the order of other reasons.
    for proof in sorted(proofs, key=lambda p: not p.is_answer):
        if proof.judge in quoted or (proof.judge == STRICT and proof.node):
            continue  # the row of the node shows it, and the message names only the first node
        message = words.clean(proof.statement, 1000)
        if proof.judge in GENERATIONS:
            quoted.add(proof.judge)
            message = answer_text(proof.judge, proof.statement, is_answer=proof.is_answer)
        page.item(message, 4)


def _show_proofs(title: str, proofs: Sequence[Proof], page: QuestionPage) -> None:
    """Add findings with their remedies to the page, below the heading `title`."""
    if proofs:
        page.head(f"{title} ({len(proofs)})")
    texts = set[str]()
    for proof in proofs:
        after = ", ".join(
            filter(None, (words.time_text(proof.seen), words.place(proof.line or "")))
        )
        page.item(
            f"{proof.code}: {words.clean(proof.statement, 1000)}{f' [{after}]' if after else ''}", 2
        )
        if proof.action and proof.action not in texts:
            texts.add(proof.action)
            page.item(f"→ {words.clean(proof.action, 600)}", 4)
            if proof.command:
                page.line(f"      {words.clean(proof.command, 400)}")


def _show_unlock(answer: WhyNot, page: QuestionPage) -> None:
    options, later = page.source.wanted.ways
    command = f"featurelib plan{page.name} {answer.words}"
    if answer.answer is LevelStatus.FINALIZED:
        return
    if answer.answer is LevelStatus.NOTHING:
        for change in (change for step in answer.ahead for change in step.changes):
            show_danger(change, page.catalogue, page)
        page.head("this plans it")
        page.line(f"  {command}{options}")
        return
    if answer.answer is LevelStatus.UNKNOWN:
        page.line()
        page.text(f"{_missing_data(answer.unknown, page)}, and ask again")
        return
    if answer.unlock is not None:
        page.head("the smallest set of changes that unlocks it")
        _unlock(answer, answer.unlock, page)
    else:
        page.head("what helps")
        _remedies(answer.proofs, page)
    if answer.unknown:
        page.line("  and find out what is not known")
    if any(proof.code in tagged("lossy") for proof in answer.proofs):
        return  # no change of the cluster unlocks the level
    if options != later:
        page.item(READ_AGAIN if page.later == later else COLLECT_AGAIN, 2)
    page.line(f"  then: {command}{page.later}")


def _missing_data(unknown: Sequence[Proof], page: QuestionPage) -> str:
    """Return a text about the data to collect. A stale node gets its remedy instead."""
    stale = {node_key[1:] for node_key in ghosts(page.source.view.judged.findings)}
    idle = dict.fromkeys(u.node for u in unknown if (u.role, u.node_id) in stale)
    fix = "is off and still registered: start it or, if it will never run again, unregister it"
    rows, codes = page.source.view.judged.findings.to_pylist(), {u.code for u in unknown}
    grave = any(row["severity"] == Severity.CRITICAL and row["code"] in codes for row in rows)
    default = "fix critical findings first" if grave else "nothing that is known stands in the way"
    fixes = "; ".join(f"{node} {fix}" for node in idle) or default
    return fixes + f"{';' if idle else ':'} find out what is not known" * (len(idle) < len(unknown))


def _unlock(answer: WhyNot, route: WayOut, page: QuestionPage) -> None:
    _fixes(route, page)
    proofs = {(proof.role, proof.node_id): proof for proof in reversed(answer.proofs)}
    for role, node_id in route.only_own_controllers:
        page.item(_node_advice(proofs[role.text, node_id]), 2)
    if route.only_own_controllers and len([d for d in answer.dialects if d in GENERATIONS]) > 1:
        page.item(NAME_RELEASE, 2)
    done = {fix.action for fix in route.fixes} & {Action.REGISTER, Action.RECONFIGURE}
    fixed = tagged("voter", "configured") if done else frozenset[str]()
    rules = [proof for proof in answer.proofs if not proof.node and proof.code not in fixed]
    _remedies(rules, page)
    if not (route.fixes or route.only_own_controllers or rules):
        page.line("  none that is known")


def _fixes(route: WayOut, page: QuestionPage) -> None:
    """Add the action for each node, with its command, to the page."""
    ids: dict[tuple[Role, Action], list[int]] = {}
    for fix in route.fixes:
        ids.setdefault((fix.role, fix.action), []).append(fix.node_id)
    for (role, action), half in ids.items():
        address = page.source.view.site.address
        steps = [way_of(action).of(node, route.release or "", address) for node in half]
        page.item(f"{words.nodes(role.text, half)}{', each' * (len(half) > 1)}: {steps[0].text}", 2)
        page.lines((step.command for step in steps if step.command), 4)


def _node_advice(proof: Proof) -> str:
    """Return the advice for a node that only the controllers' own rule refuses."""
    text = f"{proof.node}: only the controllers' own rule is against it; run software there that "
    if proof.needed is None:
        return text + "this rule accepts"
    (low, high), supported = proof.needed, proof.supported
    support = "it does not list it" if supported is None else "it supports {}-{}".format(*supported)
    return f"{text}supports {words.clean(proof.feature)} {low}-{high}; {support}"


def _remedies(proofs: Sequence[Proof], page: Page) -> None:
    helps = dict.fromkeys(proof.action for proof in proofs if proof.action)
    for remedy in helps:
        page.item(words.clean(remedy, 600), 2)
    codes = dict.fromkeys(proof.code for proof in proofs if proof.judge in GENERATIONS)
    if codes and not helps:
        page.item(f"fix what its controllers ask for: {', '.join(codes)}", 2)


def judges_line(judges: Iterable[str]) -> str:
    """Return the distinct names of judges, joined by `and`."""
    return " and ".join(dict.fromkeys(map(judge_text, judges)))
