"""Why a level cannot be finalized, as text: who is in the way, by which rule, and the way out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from featurelib.audit.findings import Action, InForce, remedies
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import GENERATIONS, STRICT
from featurelib.model import Proof
from featurelib.planning.unlock import Unlock
from featurelib.questions.muted import over_reason
from featurelib.questions.why_not import LevelStatus, WhyNot
from featurelib.view.layout import Page
from featurelib.view.words import answer_text, judge_text, judges_text, show_muted
from featurelib.words import (
    clean,
    level_text,
    levels_text,
    moment,
    nodes,
    place,
    range_text,
    time_text,
)

NO_MUTES = InForce()
NAME_RELEASE = (
    "only if you know which release the controllers run: name it in conf/fleet.toml; a wrong one "
    "gives a wrong answer"
)
LOOK_AGAIN = (
    "what was read stays as it is: collect and run the nightly again, or let the plan look at the "
    "cluster itself"
)
_NEVER_REGISTERED = frozenset({"voter_not_registered", "configured_voter_not_registered"})
_HEADS = {
    LevelStatus.NOTHING: "nothing stands in the way",
    LevelStatus.FINALIZED: "it is finalized already",
    LevelStatus.BLOCKED: "BLOCKED",
    LevelStatus.UNKNOWN: "UNKNOWN",
}
Places = Mapping[int, str]


def why_not_page(
    found: WhyNot,
    name: str,
    ways: tuple[str, str],
    made_from: str,
    places: Places,
    catalogue: Catalogue,
    mutes: InForce = NO_MUTES,
    width: int | None = None,
) -> Page:
    """The text of an answer. `ways`: the options that chose the evidence, and those for when
    something has changed; `places`: where landing lines stand, by line_id."""
    page = Page(width)
    there = level_text(catalogue, found.feature, found.level)
    page.text(f"{clean(name)}: {clean(found.feature)} {there}: {_HEADS[found.answer]}")
    now = level_text(catalogue, found.feature, found.current)
    page.text(f"finalized: {now} · {clean(made_from, 300)}")
    page.text(f"judged by: {judges_text(found.dialects)}")
    needs = [(name, level) for name, level in found.moves if name != found.feature]
    if needs:
        page.text(f"it depends on {levels_text(catalogue, needs)}, which moves with it")
    if found.proofs:
        page.line()
        _proofs(found.proofs, catalogue, places, page)
    if found.unknown:
        page.line()
        _unknown(found.unknown, places, page)
    if found.agreed is not None:
        page.line()
        when = time_text(moment(found.agreed.seen_at))
        page.text(f"{clean(found.agreed.message, 1000)} [{when}]")
    show_muted((over_reason(mutes, proof) for proof in (*found.proofs, *found.unknown)), page)
    _way_out(found, name, ways, page)
    return page


def _proofs(proofs: Sequence[Proof], catalogue: Catalogue, places: Places, page: Page) -> None:
    """One row for each node that is in the way, then each rule: who asks it, and of whom."""
    of_nodes = [proof for proof in proofs if proof.node]
    if of_nodes:
        several = len({proof.feature for proof in of_nodes}) > 1
        rows = dict.fromkeys(_node_row(proof, catalogue, places, several) for proof in of_nodes)
        page.table([("in the way", "feature", "supports", "seen", "line"), *rows])
        page.line()
    page.line("the rules that refuse it")
    for rule in dict.fromkeys(proof.code for proof in proofs):
        _rule([proof for proof in proofs if proof.code == rule], page)


def _node_row(proof: Proof, catalogue: Catalogue, places: Places, several: bool) -> tuple[str, ...]:
    is_absent = proof.supported is None and proof.code in _NEVER_REGISTERED
    supports = range_text(catalogue, proof.feature, proof.supported)
    return (
        proof.node,
        clean(proof.feature) if several else "",
        "not registered" if is_absent else supports,
        time_text(moment(proof.seen_at)),
        place(places.get(proof.line_id, "")),
    )


def _rule(mine: Sequence[Proof], page: Page) -> None:
    """One rule: who asks it, of which nodes, where it comes from, and in which words."""
    who = " and ".join(dict.fromkeys(judge_text(proof.judge) for proof in mine))
    halves = []
    for role in dict.fromkeys(proof.role for proof in mine if proof.node):
        ids = {p.node_id for p in mine if p.role == role and p.node_id is not None}
        halves.append(nodes(role, ids))
    page.item(f"{mine[0].code}, asked by {who}{': ' if halves else ''}{'; '.join(halves)}", 2)
    if source := next((proof.source for proof in mine if proof.source), ""):
        page.text(source, 4)
    quoted = set[str]()
    for proof in sorted(mine, key=lambda one: not one.is_answer):  # else as they stand
        if proof.judge == STRICT and proof.node:
            continue  # its row says it
        message = clean(proof.message, 1000)
        if proof.judge in GENERATIONS:
            if proof.judge in quoted:
                continue  # it would name the first node only
            quoted.add(proof.judge)
            message = answer_text(proof.judge, proof.message, is_answer=proof.is_answer)
        page.item(message, 4)


def _unknown(unknown: Sequence[Proof], places: Places, page: Page) -> None:
    page.line(f"what nobody knows, and could change the answer ({len(unknown)})")
    given = set[str]()
    for proof in unknown:
        seen = time_text(moment(proof.seen_at)), place(places.get(proof.line_id, ""))
        after = ", ".join(filter(None, seen))
        page.item(f"{proof.code}: {clean(proof.message, 1000)}{f' [{after}]' if after else ''}", 2)
        if proof.remedy and proof.remedy not in given:
            given.add(proof.remedy)
            page.item(f"→ {clean(proof.remedy, 400)}", 4)
            if proof.command:
                page.line(f"      {clean(proof.command, 400)}")


def _way_out(found: WhyNot, name: str, ways: tuple[str, str], page: Page) -> None:
    now, later = ways
    command = f"featurelib plan {shlex.quote(name)} {found.words}"
    if found.answer is LevelStatus.FINALIZED:
        return
    page.line()
    if found.answer is LevelStatus.NOTHING:
        page.line("this plans it")
        page.line(f"  {command}{now}")
        return
    if found.answer is LevelStatus.UNKNOWN:
        page.text("nothing that is known stands in the way: find out what is not, and ask again")
        return
    if found.unlock is not None:
        _unlock(found, found.unlock, page)
    else:
        page.line("what helps")
        _remedies(found.proofs, page)
    if found.unknown:
        page.line("  and find out what nobody knows")
    if now != later:
        page.item(LOOK_AGAIN, 2)
    page.line(f"  then: {command}{later}")


def _unlock(found: WhyNot, way: Unlock, page: Page) -> None:
    page.line("the smallest set of changes that unlocks it")
    for role, action in dict.fromkeys((fix.role, fix.action) for fix in way.fixes):
        mine = [fix.node_id for fix in way.fixes if (fix.role, fix.action) == (role, action)]
        steps = [remedies()[action].of(node, way.release, found.address) for node in mine]
        each = ", each" if len(mine) > 1 else ""
        page.item(f"{nodes(role.text, mine)}{each}: {steps[0].text}", 2)
        page.lines((step.command for step in steps if step.command), 4)
    for role, node_id in found.also_refused_over:
        one = next(p for p in found.proofs if (p.role, p.node_id) == (role.text, node_id))
        page.item(_own_text(one), 2)
    if found.also_refused_over and len([d for d in found.dialects if d in GENERATIONS]) > 1:
        page.item(NAME_RELEASE, 2)
    done = {fix.action for fix in way.fixes} & {Action.REGISTER, Action.RECONFIGURE}
    mended = _NEVER_REGISTERED if done else frozenset[str]()
    rules = [proof for proof in found.proofs if not proof.node and proof.code not in mended]
    _remedies(rules, page)
    if not (way.fixes or found.also_refused_over or rules):
        page.line("  none that is known")


def _own_text(proof: Proof) -> str:
    """What to do about a node that only the controllers' own rule is against."""
    text = f"{proof.node}: only the controllers' own rule is against it; run software there that "
    if proof.needed is None:
        return text + "this rule accepts"
    low, high = proof.needed
    now = "it does not list it"
    if proof.supported is not None:
        now = "it supports {}-{}".format(*proof.supported)
    return f"{text}supports {clean(proof.feature)} {low}-{high}; {now}"


def _remedies(proofs: Sequence[Proof], page: Page) -> None:
    helps = dict.fromkeys(proof.remedy for proof in proofs if proof.remedy)
    for remedy in helps:
        page.item(clean(remedy, 400), 2)
    own = dict.fromkeys(proof.code for proof in proofs if proof.judge in GENERATIONS)
    if own and not helps:
        page.item(f"mend what its controllers ask for: {', '.join(own)}", 2)
