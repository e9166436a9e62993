"""The next controller election of a cluster in ZooKeeper mode, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from featurelib.core.election import ENABLED, Change, Content, Reason
from featurelib.questions.election import Doubt, Foreseen, Outcome
from featurelib.view.layout import table, wrap
from featurelib.view.why_not import says
from featurelib.words import clean, count
from featurelib.words import nodes as say_nodes

CHANGES = {
    Change.CREATED: "the features node is created",
    Change.REWRITTEN: "the features node is rewritten",
    Change.UNCHANGED: "the features node stays as it is",
    Change.NOBODY: "NOBODY can be elected, and the features node stays as it is",
}
REASONS = {
    Reason.ABSENT: "there is none",
    Reason.ENABLED: "it is Disabled, and from protocol version 2.7 on the system is on",
    Reason.DISABLED: "it is Enabled, and below protocol version 2.7 the system is off",
    Reason.EMPTIED: "it is Disabled and holds features all the same, which go away",
    Reason.SCHEMA_UP: "from protocol version 3.3 on schema 2 is written: minimums are dropped",
    Reason.SCHEMA_DOWN: "below protocol version 3.3 schema 1 is written: each minimum is its level",
    Reason.UNDECODABLE: "no broker of these releases can read it: every election fails",
    Reason.WRONG_TYPE: "a broker of these releases that starts ends over its shape",
    Reason.INCOMPATIBLE: "no broker supports what is finalized: each ends before it is elected",
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


def election_lines(found: Foreseen, width: int) -> Iterator[str]:
    """What elections come to, one paragraph each; after a line that says what they are of."""
    yield "the next controller election"
    if found.doubt is not None:
        yield from wrap(f"UNKNOWN: {DOUBTS[found.doubt]}", width, "  ", "    ")
    for one in found.outcomes:
        yield from _outcome_lines(found, one, width)


def _outcome_lines(found: Foreseen, one: Outcome, width: int) -> Iterator[str]:
    judges = " and ".join(says(name) for name in one.dialects)
    anyone = "any of " if len(one.leaders) > 1 else ""
    who = f"; elected: {anyone}{say_nodes('broker', one.leaders)}" if one.leaders else ""
    yield from wrap(f"{judges}{who}", width, "  ", "    ")
    change = one.election.change
    yield from wrap(CHANGES[change], width, "    ", "      ")
    for reason in one.election.reasons:
        yield from wrap(f"because {REASONS[reason]}", width, "      ", "        ")
    if one.election.fault is not None:
        yield from wrap(clean(one.election.fault, 300), width, "      ", "        ")
    if one.election.unfit:
        yield from wrap(f"over {_names(one.election.unfit)}", width, "      ", "        ")
    if not one.certain:
        yield from wrap(
            "UNKNOWN which levels are finalized: nobody knows what the elected one supports",
            width, "    ", "      ",
        )  # fmt: skip
    elif one.election.content is not None:
        yield from _content_lines(found, one, one.election.content, width)
    yield from _end_lines(found, one, width)


def _content_lines(found: Foreseen, one: Outcome, after: Content, width: int) -> Iterator[str]:
    before = found.before
    rows = [
        ("status", _status(before), _status(after)),
        ("schema", "none" if before is None else str(before.schema_version),
         str(after.schema_version)),
        ("version and epoch", _number(found.version), _number(one.version)),
    ]  # fmt: skip
    was = {} if before is None else {name: level for name, _, level in before.levels}
    now = {name: level for name, _, level in after.levels}
    lost = {name for name, _, _ in one.election.lost}
    rows += [
        (clean(name, 60), _number(was.get(name)), "LOST" if name in lost else _number(now[name]))
        for name in sorted(was.keys() | now.keys())
        if name in now or name in lost
    ]
    yield from table([("of the node", "before", "after"), *rows], width, "    ")
    if lost:
        yield from wrap(
            f"{count(len(lost), 'finalized level')} LOST. {FOR_GOOD}", width, "    ", "      "
        )
    if after.status != ENABLED:
        yield from wrap(
            "brokers then show epoch -1 and nothing finalized, and every update is refused",
            width, "    ", "      ",
        )  # fmt: skip


def _end_lines(found: Foreseen, one: Outcome, width: int) -> Iterator[str]:
    alike: dict[tuple[str, ...], list[int]] = {}
    for node_id, names in one.ends.items():
        alike.setdefault(names, []).append(node_id)
    for names, ids in alike.items():
        text = f"{say_nodes('broker', ids)} would end over {_names(names)}"
        yield from wrap(text, width, "    ", "      ")
    content = one.election.content
    asked = (
        content is not None and content.status == ENABLED and (content.levels or not one.certain)
    )
    if asked and found.silent:
        who = say_nodes("broker", found.silent)
        software = "their software supports" if len(found.silent) > 1 else "its software supports"
        text = f"UNKNOWN whether {who} could live with it: nobody knows what {software}"
        yield from wrap(text, width, "    ", "      ")
    elif content is not None and not one.ends:
        yield "    no broker would end over it"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(clean(name, 60) for name in names)


def _status(content: Content | None) -> str:
    if content is None:
        return "no node"
    return "Enabled" if content.status == ENABLED else "Disabled"


def _number(number: int | None) -> str:
    return "none" if number is None else str(number)


def election_document(found: Foreseen) -> dict[str, object]:
    """The same for a program."""
    return {
        "protocol_version": found.protocol_version,
        "unknown": None if found.doubt is None else found.doubt.value,
        "version_before": found.version,
        "before": _content(found.before),
        "outcomes": [
            {
                "dialects": one.dialects,
                "elected": one.leaders,
                "change": one.election.change.value,
                "reasons": [reason.value for reason in one.election.reasons],
                "fault": one.election.fault,
                "version_after": one.version,
                "after": _content(one.election.content) if one.certain else None,
                "lost": [
                    {"feature": name, "min_version_level": low, "max_version_level": level}
                    for name, low, level in one.election.lost
                ],
                "would_end": [
                    {"node_id": node_id, "features": names} for node_id, names in one.ends.items()
                ],
            }
            for one in found.outcomes
        ],
        "range_not_known": found.silent,
    }


def _content(content: Content | None) -> dict[str, object] | None:
    if content is None:
        return None
    return {
        "schema_version": content.schema_version,
        "status": content.status,
        "features": [
            {"feature": name, "min_version_level": low, "max_version_level": level}
            for name, low, level in content.levels
        ],
    }
