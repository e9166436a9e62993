"""The verdicts before and after a change as text: side by side, and only what differs; and what
the next controller election of a cluster in ZooKeeper mode comes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from featurelib.audit.cluster_view import Sight
from featurelib.audit.findings import InForce
from featurelib.audit.wording import FindingWords
from featurelib.catalogue import Catalogue
from featurelib.core.election import ENABLED, ZnodeChange, ZnodeContent, ZnodeReason
from featurelib.feature import Severity
from featurelib.questions.election import Doubt, ElectionOutcome, Foreseen
from featurelib.questions.muted import over_row
from featurelib.questions.what_if import Refused, Turn, WhatIf
from featurelib.view.layout import Page
from featurelib.view.why_not import NO_MUTES
from featurelib.view.words import judge_text, show_muted
from featurelib.words import clean, code_text, count, level_text, metadata_first, nodes

Row = Mapping[str, Any]
FATES = {
    "refused": "would be refused{over}, and ask again for ever",
    "stops": "would refuse to start{over}",
    "ignored": "would be registered, and left out by the controller{over}",
}
CHANGES = {
    ZnodeChange.CREATED: "the features node is created",
    ZnodeChange.REWRITTEN: "the features node is rewritten",
    ZnodeChange.UNCHANGED: "the features node stays as it is",
    ZnodeChange.NOBODY: "NOBODY can be elected, and the features node stays as it is",
}
REASONS = {
    ZnodeReason.ABSENT: "there is none",
    ZnodeReason.ENABLED: "it is Disabled, and from protocol version 2.7 on the system is on",
    ZnodeReason.DISABLED: "it is Enabled, and below protocol version 2.7 the system is off",
    ZnodeReason.EMPTIED: "it is Disabled and holds features all the same, which go away",
    ZnodeReason.SCHEMA_UP: "from protocol version 3.3 on schema 2 is written: minimums are dropped",
    ZnodeReason.SCHEMA_DOWN: (
        "below protocol version 3.3 schema 1 is written: each minimum is its level"
    ),
    ZnodeReason.UNDECODABLE: "no broker of these releases can read it: every election fails",
    ZnodeReason.WRONG_TYPE: "a broker of these releases that starts ends over its shape",
    ZnodeReason.INCOMPATIBLE: (
        "no broker supports what is finalized: each ends before it is elected"
    ),
}
DOUBTS = {
    Doubt.MALFORMED: "its snapshot cannot be judged",
    Doubt.NOT_ZOOKEEPER: "nothing shows that controllers of ZooKeeper mode lead it",
    Doubt.NOT_READ: "the features node was not read; featurelib collect with --zookeeper reads it",
    Doubt.TOO_OLD: "the features node was read too long ago; collect it again",
    Doubt.NO_DIALECT: "no release that may run there knows that protocol version",
    Doubt.NO_BROKER: "no broker is known there that could be elected",
}
FOR_GOOD = (
    "No later election brings them back: what is wanted again has to be finalized again, once "
    "brokers run with 2.7 or above."
)


def what_if_page(
    found: WhatIf,
    change: str,
    name: str,
    made_from: str,
    catalogue: Catalogue,
    mutes: InForce = NO_MUTES,
    width: int | None = None,
) -> Page:
    """The text of an answer; `change` in words."""
    page = Page(width)
    page.text(f"{clean(name)}, if {change}")
    page.text(clean(made_from, 300))
    if found.joined:
        page.text(f"{nodes(None, found.joined)} may join with that software")
    show_refused(found.refused, page)
    if found.idle:
        does = "does not run and is" if len(found.idle) == 1 else "do not run and are"
        who = nodes(None, found.idle)
        page.text(f"{who} {does} left as now: name it with --node or --remove")
    page.line()
    if found.election is not None:
        _election(found.election, page)
        page.line()
    was, now = _worst(found.before), _worst(found.after)
    page.text(f"cluster: {was}" if was == now else f"cluster: {was} → {now}")
    _turns(found, catalogue, page)
    words = FindingWords(catalogue)
    for title, rows in (("new", found.new), ("gone", found.gone)):
        if rows:
            page.line()
            page.line(f"findings that are {title}: {len(rows):,}")
            _findings(rows, words, page)
    if not (found.new or found.gone):
        page.line("no finding is new or gone")
    both = (over_row(mutes, row) for row in (*found.new, *found.gone))
    show_muted(both, page, "of these, muted in conf/audit.toml")
    return page


def _worst(sight: Sight) -> str:
    """The cluster's verdict and phase."""
    row = sight.judged.plans.to_pylist()[0]
    return f"{row['verdict']} ({row['phase']})"


def show_refused(refused: Sequence[Refused], page: Page, indent: int = 0) -> None:
    """Refusals in the same words together, with who says them."""
    alike: dict[tuple[str, str, str, tuple[str, ...]], list[Refused]] = {}
    for one in refused:
        key = (one.role.text, one.entry, one.message, one.features)
        alike.setdefault(key, []).append(one)
    for (role, entry, message, features), mine in alike.items():
        who = nodes(role, [one.node_id for one in mine])
        over = f" over {_names(features)}" if features else ""
        page.item(f"{who} {FATES[entry].format(over=over)}", indent)
        by = " and ".join(dict.fromkeys(judge_text(one.dialect) for one in mine))
        page.item(f'{by}: "{clean(message, 600)}"', indent + 2)


def _names(names: Sequence[str]) -> str:
    return ", ".join(clean(name, 60) for name in names)


def _turns(found: WhatIf, catalogue: Catalogue, page: Page) -> None:
    turns = sorted(found.turns, key=lambda turn: metadata_first(turn.feature))
    shown = [(clean(turn.feature, 60), *_states(turn, catalogue)) for turn in turns]
    differ = [row for row in shown if row[1] != row[2]]
    if turns:
        page.line()
    if differ:
        page.table([("feature", "before", "after"), *differ])
    same = found.unchanged + len(shown) - len(differ)
    if same:
        page.line(f"{count(same, 'feature')} unchanged")
    else:
        page.line("every feature changes" if turns else "no node supports a feature")


def _states(turn: Turn, catalogue: Catalogue) -> tuple[str, str]:
    return _state(turn.feature, turn.before, catalogue), _state(turn.feature, turn.after, catalogue)


def _state(feature: str, row: Row | None, catalogue: Catalogue) -> str:
    """`READY 21 (3.9-IV0) → 29 (4.2-IV1)`, `BLOCKED at 1, ceiling 2`."""
    if row is None:
        return "not listed"
    here, there, ceiling = (
        level_text(catalogue, feature, row[name])
        for name in ("finalized_level", "target", "ceiling")
    )
    if row["target"] is not None:
        more = f", ceiling {ceiling}" if row["ceiling"] != row["target"] else ""
        return f"{row['verdict']} {here} → {there}{more}"
    if row["ceiling"] == row["finalized_level"]:
        return f"{row['verdict']} at {here}"
    return f"{row['verdict']} at {here}, ceiling {ceiling}"


def _findings(rows: Sequence[Row], words: FindingWords, page: Page) -> None:
    """One line a finding, the worst first; equal sentences once, with how often."""
    order = list(Severity)
    texts: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: order.index(Severity(row["severity"]))):
        message = words.of(row).message  # type: ignore[arg-type]  # a row has more columns
        text = f"{row['severity']}  {code_text(row['code'])}: {message}"
        texts[text] = texts.get(text, 0) + 1
    for text, times in texts.items():
        page.item(text + (f" (×{times})" if times > 1 else ""), 2)


def _election(found: Foreseen, page: Page) -> None:
    """What elections come to, one paragraph each; after a line that says what they are of."""
    page.line("the next controller election")
    if found.doubt is not None:
        page.item(f"UNKNOWN: {DOUBTS[found.doubt]}", 2)
    for one in found.outcomes:
        _outcome(found, one, page)


def _outcome(found: Foreseen, one: ElectionOutcome, page: Page) -> None:
    election = one.election
    judges = " and ".join(judge_text(name) for name in one.dialects)
    anyone = "any of " if len(one.leaders) > 1 else ""
    who = f"; elected: {anyone}{nodes('broker', one.leaders)}" if one.leaders else ""
    page.item(f"{judges}{who}", 2)
    page.item(CHANGES[election.change], 4)
    for reason in election.reasons:
        page.item(f"because {REASONS[reason]}", 6)
    if election.fault is not None:
        page.item(clean(election.fault, 300), 6)
    if election.unfit:
        page.item(f"over {_names(election.unfit)}", 6)
    if not one.certain:
        text = "UNKNOWN which levels are finalized: nobody knows what the elected one supports"
        page.item(text, 4)
    elif election.content is not None:
        _content(found, one, election.content, page)
    _ends(found, one, page)


def _content(found: Foreseen, one: ElectionOutcome, after: ZnodeContent, page: Page) -> None:
    before = found.before
    schema = None if before is None else before.schema_version
    rows = [
        ("status", _status(before), _status(after)),
        ("schema", _number(schema), _number(after.schema_version)),
        ("version and epoch", _number(found.version), _number(one.version)),
    ]
    was = {} if before is None else {name: level for name, _, level in before.levels}
    now = {name: level for name, _, level in after.levels}
    lost = {name for name, _, _ in one.election.lost}
    rows += [
        (clean(name, 60), _number(was.get(name)), "LOST" if name in lost else _number(now[name]))
        for name in sorted(was.keys() | now.keys())
        if name in now or name in lost
    ]
    page.table([("of the node", "before", "after"), *rows], 4)
    if lost:
        page.item(f"{count(len(lost), 'finalized level')} LOST. {FOR_GOOD}", 4)
    if after.status != ENABLED:
        text = "brokers then show epoch -1 and nothing finalized, and every update is refused"
        page.item(text, 4)


def _ends(found: Foreseen, one: ElectionOutcome, page: Page) -> None:
    alike: dict[tuple[str, ...], list[int]] = {}
    for node_id, names in one.ends.items():
        alike.setdefault(names, []).append(node_id)
    for names, ids in alike.items():
        page.item(f"{nodes('broker', ids)} would end over {_names(names)}", 4)
    content = one.election.content
    if content is None:
        return
    if content.status == ENABLED and (content.levels or not one.certain) and found.silent:
        who = nodes("broker", found.silent)
        software = "their software supports" if len(found.silent) > 1 else "its software supports"
        page.item(f"UNKNOWN whether {who} could live with it: nobody knows what {software}", 4)
    elif not one.ends:
        page.line("    no broker would end over it")


def _status(content: ZnodeContent | None) -> str:
    if content is None:
        return "no node"
    return "Enabled" if content.status == ENABLED else "Disabled"


def _number(number: int | None) -> str:
    return "none" if number is None else str(number)
