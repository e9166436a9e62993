"""What the next controller election makes of the features node, as text."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources

from featurelib.core.features_znode import ENABLED, ZnodeContent
from featurelib.extras.elections.foresee import ElectionOutcome, Foreseen
from featurelib.view.layout import Page
from featurelib.view.questions import QuestionPage, judges_line
from featurelib.words import clean, count, nodes

_WORDS = resources.files(__package__).joinpath("words.toml").read_text(encoding="utf-8")
WORDS = tomllib.loads(
    _WORDS
)  # what an election makes of the node, why, and what nobody knows of it


def show_election(foreseen: Foreseen, page: QuestionPage) -> None:
    """Show the outcomes of elections, a paragraph each; after a line that says what they are of."""
    page.head("the next controller election")
    if foreseen.doubt is not None:
        page.item(f"UNKNOWN: {WORDS['doubts'][foreseen.doubt]}", 2)
    for outcome in foreseen.outcomes:
        _outcome(foreseen, outcome, page)


def _outcome(foreseen: Foreseen, outcome: ElectionOutcome, page: Page) -> None:
    election = outcome.election
    anyone = "any of " if len(outcome.leaders) > 1 else ""
    leaders = f"; elected: {anyone}{nodes('broker', outcome.leaders)}" if outcome.leaders else ""
    page.item(f"{judges_line(outcome.dialects)}{leaders}", 2)
    page.item(WORDS["changes"][election.change], 4)
    for reason in election.reasons:
        page.item(f"because {WORDS['reasons'][reason]}", 6)
    if election.fault is not None:
        page.item(clean(election.fault, 300), 6)
    if election.unfit:
        page.item(f"over {_joined(election.unfit)}", 6)
    if not outcome.certain:
        text = "UNKNOWN which levels are finalized: what the elected broker supports is not known"
        page.item(text, 4)
    elif election.content is not None:
        _content(foreseen, outcome, election.content, page)
    _ends(foreseen, outcome, page)


def _content(foreseen: Foreseen, outcome: ElectionOutcome, after: ZnodeContent, page: Page) -> None:
    before = foreseen.before
    schema = None if before is None else before.schema_version
    rows = [
        ("status", _status(before), _status(after)),
        ("schema", _number(schema), _number(after.schema_version)),
        ("version and epoch", _number(foreseen.version), _number(outcome.version)),
    ]
    was = {} if before is None else {name: level for name, _, level in before.levels}
    now = {name: level for name, _, level in after.levels}
    lost = {name for name, _, _ in outcome.election.lost}
    rows += [
        (clean(name, 60), _number(was.get(name)), "LOST" if name in lost else _number(now[name]))
        for name in sorted(now.keys() | (lost & was.keys()))
    ]
    page.table([("of the node", "before", "after"), *rows], 4)
    if lost:
        page.item(f"{count(len(lost), 'finalized level')} LOST. {WORDS['for_good']}", 4)
    if after.status != ENABLED:
        text = "brokers then show epoch -1 and nothing finalized, and every update is refused"
        page.item(text, 4)


def _ends(foreseen: Foreseen, outcome: ElectionOutcome, page: Page) -> None:
    alike: dict[tuple[str, ...], list[int]] = {}
    for node_id, names in outcome.ends.items():
        alike.setdefault(names, []).append(node_id)
    for names, ids in alike.items():
        page.item(f"{nodes('broker', ids)} would end over {_joined(names)}", 4)
    content = outcome.election.content
    if content is None:
        return
    if content.status == ENABLED and (content.levels or not outcome.certain) and foreseen.silent:
        leaders = nodes("broker", foreseen.silent)
        software = (
            "their software supports" if len(foreseen.silent) > 1 else "its software supports"
        )
        page.item(f"UNKNOWN whether {leaders} could live with it: nobody knows what {software}", 4)
    elif not outcome.ends:
        page.line("    no broker would end over it")


def _status(content: ZnodeContent | None) -> str:
    if content is None:
        return "no node"
    return "Enabled" if content.status == ENABLED else "Disabled"


def _number(number: int | None) -> str:
    return "none" if number is None else str(number)


def _joined(names: Sequence[str]) -> str:
    return ", ".join(clean(name, 60) for name in names)
