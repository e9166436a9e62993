"""Why a level cannot be finalized, as text: who is in the way, by which rule, and the way out."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from featurelib.audit.findings import Action, InForce, SetAside, remedies
from featurelib.audit.wording import FindingWords
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import GENERATIONS, STRICT, load
from featurelib.planning.reasons import PROBE
from featurelib.planning.steps import GOAL
from featurelib.planning.unlock import Unlock
from featurelib.questions.muted import over_proof, told
from featurelib.questions.why_not import Answer, Proof, WhyNot
from featurelib.view import digest
from featurelib.view.layout import show_moment, table, wrap
from featurelib.words import NOT_LISTED, clean, level_text, place, range_text
from featurelib.words import nodes as say_nodes

# ----------------------------------------
# Who judged, in words: the policy, a generation of controllers, a controller that was asked.


def judges(dialects: Sequence[str]) -> str:
    """Who was asked, in words."""
    own = [load(one).title for one in dialects if one in GENERATIONS]
    return f"the policy{'; and as these controllers answer: ' + '; '.join(own) if own else ''}"


def would(is_answer: bool) -> str:
    """How a controller's words are introduced: it gives one reason, and has others besides."""
    return "would answer" if is_answer else "would refuse this too, once the rest is mended"


def says(judge: str) -> str:
    """Who says something, in a word or two."""
    if judge == STRICT:
        return "policy"
    if judge == GOAL:
        return "the release's catalogue"
    if judge == PROBE:
        return "the controller itself"
    return load(judge).title if judge in GENERATIONS else judge


# ----------------------------------------
# What conf/audit.toml mutes of the reasons that are shown: said below them, never left out.

HEAD = "muted in conf/audit.toml, and in the way all the same"


def muted_lines(found: Iterable[SetAside | None], width: int, head: str = HEAD) -> Iterator[str]:
    """A heading and a line for each code and reason, after an empty line; nothing without any."""
    muted = told(found)
    if muted:
        yield ""
        yield from wrap(head, width)
        for text in digest.muted_lines(muted):
            yield from wrap(clean(text, 600), width, "  ", "    ")


# ----------------------------------------

_NEVER_REGISTERED = frozenset({"voter_not_registered", "configured_voter_not_registered"})
Places = Mapping[int, str]
NO_MUTES = InForce()
_HEADS = {
    Answer.NOTHING: "nothing stands in the way",
    Answer.FINALIZED: "it is finalized already",
    Answer.BLOCKED: "BLOCKED",
    Answer.UNKNOWN: "UNKNOWN",
}


def why_not_lines(
    found: WhyNot,
    name: str,
    ways: tuple[str, str],
    made_from: str,
    places: Places,
    catalogue: Catalogue,
    width: int,
    mutes: InForce = NO_MUTES,
) -> Iterator[str]:
    """The lines of an answer, without line ends. `ways`: the options that chose the evidence, and
    those for when something has changed."""
    words = FindingWords(catalogue, load(STRICT))
    there = _level(words, found.feature, found.level)
    yield from wrap(f"{clean(name)}: {clean(found.feature)} {there}: {_HEADS[found.answer]}", width)
    now = "nobody knows" if found.current is None else _level(words, found.feature, found.current)
    yield from wrap(f"finalized: {now} · {clean(made_from, 300)}", width)
    yield from wrap(f"judged by: {judges(found.dialects)}", width)
    needs = [f"{clean(n)} {_level(words, n, v)}" for n, v in found.moves if n != found.feature]
    if needs:
        yield from wrap(f"it depends on {', '.join(needs)}, which moves with it", width)
    if found.proofs:
        yield ""
        yield from _proof_lines(found.proofs, words, places, width)
    if found.unknown:
        yield ""
        yield from _unknown_lines(found.unknown, places, width)
    if found.agreed is not None:
        yield ""
        when = show_moment(found.agreed.seen_at)
        yield from wrap(f"{clean(found.agreed.message, 1000)} [{when}]", width)
    all_of_them = (*found.proofs, *found.unknown)
    yield from muted_lines((over_proof(mutes, proof) for proof in all_of_them), width)
    yield from _way_out(found, name, ways, words, width)


def _level(words: FindingWords, feature: str, level: int) -> str:
    return level_text(words.catalogue, feature, level)


def _proof_lines(
    proofs: Sequence[Proof], words: FindingWords, places: Places, width: int
) -> Iterator[str]:
    """One row for each node that is in the way, then each rule: who asks it, and of whom."""
    nodes = [proof for proof in proofs if proof.node]
    if nodes:
        several = len({proof.feature for proof in nodes}) > 1
        head = ("in the way", "feature", "supports", "seen", "line")
        rows = dict.fromkeys(_node_row(proof, words, places, several) for proof in nodes)
        yield from table([head, *rows], width)
        yield ""
    yield "the rules that refuse it"
    for rule in dict.fromkeys(proof.rule for proof in proofs):
        yield from _rule_lines([proof for proof in proofs if proof.rule == rule], width)


def _node_row(proof: Proof, words: FindingWords, places: Places, several: bool) -> tuple[str, ...]:
    ends = proof.supported
    silent = "not registered" if proof.rule in _NEVER_REGISTERED else NOT_LISTED
    return (
        proof.node,
        clean(proof.feature) if several else "",
        range_text(words.catalogue, proof.feature, ends) if ends else silent,
        show_moment(proof.seen_at),
        place(places.get(proof.line_id, "")),
    )


def _rule_lines(mine: Sequence[Proof], width: int) -> Iterator[str]:
    """One rule: who asks it, of which nodes, where it comes from, and in which words."""
    who = dict.fromkeys(says(proof.judge) for proof in mine)
    halves = []
    for role in dict.fromkeys(proof.role for proof in mine if proof.node):
        ids = {p.node_id for p in mine if p.role == role and p.node_id is not None}
        halves.append(say_nodes(role, ids))
    text = f"{mine[0].rule}, asked by {' and '.join(who)}"
    text += f": {'; '.join(halves)}" if halves else ""
    yield from wrap(text, width, "  ", "    ")
    if source := next((proof.source for proof in mine if proof.source), ""):
        yield from wrap(source, width, "    ", "    ")
    told = set[str]()
    for proof in sorted(mine, key=lambda one: not one.is_answer):  # else as they stand
        if proof.judge == STRICT and proof.node:
            continue  # its row says it
        message = clean(proof.message, 1000)
        if proof.judge in GENERATIONS:
            if proof.judge in told:
                continue  # it would name the first node only
            told.add(proof.judge)
            message = f'{says(proof.judge)} {would(proof.is_answer)}: "{message}"'
        yield from wrap(message, width, "    ", "      ")


def _unknown_lines(unknown: Sequence[Proof], places: Places, width: int) -> Iterator[str]:
    yield f"what nobody knows, and could change the answer ({len(unknown)})"
    told = set[str]()
    for proof in unknown:
        seen = [show_moment(proof.seen_at), place(places.get(proof.line_id, ""))]
        after = ", ".join(text for text in seen if text)
        text = f"{proof.rule}: {clean(proof.message, 1000)}{f' [{after}]' if after else ''}"
        yield from wrap(text, width, "  ", "    ")
        if proof.remedy and proof.remedy not in told:
            told.add(proof.remedy)
            yield from wrap(f"→ {clean(proof.remedy, 400)}", width, "    ", "      ")
            if proof.command:
                yield f"      {clean(proof.command, 400)}"


def _way_out(
    found: WhyNot, name: str, ways: tuple[str, str], words: FindingWords, width: int
) -> Iterator[str]:
    now, later = ways
    asks = f"featurelib plan {shlex.quote(name)} {found.words}"
    if found.answer is Answer.FINALIZED:
        return
    yield ""
    if found.answer is Answer.NOTHING:
        yield "this plans it"
        yield f"  {asks}{now}"
        return
    if found.answer is Answer.UNKNOWN:
        text = "nothing that is known stands in the way: find out what is not, and ask again"
        yield from wrap(text, width)
        return
    if found.unlock is not None:
        yield from _unlock_lines(found, found.unlock, words, width)
    else:
        yield from _remedy_lines(found.proofs, width)
    if found.unknown:
        yield "  and find out what nobody knows"
    if now != later:
        yield from wrap(LOOK_AGAIN, width, "  ", "    ")
    yield f"  then: {asks}{later}"


def _unlock_lines(found: WhyNot, way: Unlock, words: FindingWords, width: int) -> Iterator[str]:
    yield "the smallest set of changes that unlocks it"
    if way.fixes:
        for group in dict.fromkeys((fix.role, fix.action) for fix in way.fixes):
            mine = [fix for fix in way.fixes if (fix.role, fix.action) == group]
            who = say_nodes(group[0].text, [fix.node_id for fix in mine])
            what = remedies()[group[1]]
            ways = [what.of(fix.node_id, way.release, found.address) for fix in mine]
            each = ", each" if len(mine) > 1 else ""
            yield from wrap(f"{who}{each}: {ways[0].text}", width, "  ", "    ")
            yield from (f"    {one.command}" for one in ways if one.command)
    for role, node_id in found.also_refused_over:
        one = next(p for p in found.proofs if (p.role, p.node_id) == (role.text, node_id))
        yield from wrap(_own_text(one), width, "  ", "    ")
    if found.also_refused_over and len([d for d in found.dialects if d in GENERATIONS]) > 1:
        yield from wrap(NAME_RELEASE, width, "  ", "    ")
    done = {fix.action for fix in way.fixes} & {Action.REGISTER, Action.RECONFIGURE}
    mended = _NEVER_REGISTERED if done else frozenset[str]()
    rules = [proof for proof in found.proofs if not proof.node and proof.rule not in mended]
    yield from _remedy_lines(rules, width, heading=False)
    if not (way.fixes or found.also_refused_over or rules):
        yield "  none that is known"


def _own_text(proof: Proof) -> str:
    """What to do about a node that only the controllers' own rule is against."""
    text = f"{proof.node}: only the controllers' own rule is against it; run software there that "
    if proof.needed is None:
        return text + "this rule accepts"
    low, high = proof.needed
    now = (
        "it does not list it"
        if proof.supported is None
        else "it supports {}-{}".format(*proof.supported)
    )
    return f"{text}supports {clean(proof.feature)} {low}-{high}; {now}"


NAME_RELEASE = (
    "only if you know which release the controllers run: name it in conf/fleet.toml; a wrong one "
    "gives a wrong answer"
)
LOOK_AGAIN = (
    "what was read stays as it is: collect and run the nightly again, or let the plan look at the "
    "cluster itself"
)


def _remedy_lines(proofs: Sequence[Proof], width: int, *, heading: bool = True) -> Iterator[str]:
    remedies = dict.fromkeys(proof.remedy for proof in proofs if proof.remedy)
    if heading:
        yield "what helps"
    for remedy in remedies:
        yield from wrap(clean(remedy, 400), width, "  ", "    ")
    own = dict.fromkeys(proof.rule for proof in proofs if proof.judge in GENERATIONS)
    if own and not remedies:
        rules = ", ".join(own)
        yield from wrap(f"mend what its controllers ask for: {rules}", width, "  ", "    ")
