"""The verdicts before and after a change, as text: side by side, and only what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from featurelib.audit.cluster_view import Sight
from featurelib.audit.findings import InForce
from featurelib.audit.wording import FindingColumns, FindingWords
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import STRICT, load
from featurelib.feature import Severity
from featurelib.questions.muted import over_row
from featurelib.questions.what_if import Refused, Turn, WhatIf
from featurelib.view.election import election_lines
from featurelib.view.layout import table, wrap
from featurelib.view.why_not import NO_MUTES, muted_lines, says
from featurelib.words import clean, code_text, count, level_text, metadata_first
from featurelib.words import nodes as say_nodes

Row = dict[str, Any]
FATES = {
    "refused": "would be refused{over}, and ask again for ever",
    "stops": "would refuse to start{over}",
    "ignored": "would be registered, and left out by the controller{over}",
}


def what_if_lines(
    found: WhatIf,
    said: str,
    name: str,
    made_from: str,
    catalogue: Catalogue,
    width: int,
    mutes: InForce = NO_MUTES,
) -> Iterator[str]:
    """The lines of an answer, without line ends; `said` is the change in words."""
    words = FindingWords(catalogue, load(STRICT))
    yield from wrap(f"{clean(name)}, if {said}", width)
    yield from wrap(clean(made_from, 300), width)
    yield from entering_lines(found, width)
    yield ""
    if found.election is not None:
        yield from election_lines(found.election, width)
        yield ""
    was, now = worst(found.before), worst(found.after)
    yield from wrap(f"cluster: {was}" if was == now else f"cluster: {was} → {now}", width)
    if found.turns:
        yield ""
        head = ("feature", "before", "after")
        turns = sorted(found.turns, key=lambda turn: metadata_first(turn.feature))
        shown = [(clean(t.feature, 60), *_states(t, words)) for t in turns]
        same = [row for row in shown if row[1] == row[2]]
        differ = [row for row in shown if row[1] != row[2]]
        if differ:
            yield from table([head, *differ], width)
        number = found.unchanged + len(same)
    else:
        number = found.unchanged
    if number or found.turns:
        yield f"{count(number, 'feature')} unchanged" if number else "every feature changes"
    else:
        yield "no node supports a feature"
    for title, rows in (("new", found.new), ("gone", found.gone)):
        if rows:
            yield ""
            yield f"findings that are {title}: {len(rows):,}"
            yield from _finding_lines(rows, words, width)
    if not (found.new or found.gone):
        yield "no finding is new or gone"
    both = (over_row(mutes, row) for row in (*found.new, *found.gone))
    yield from muted_lines(both, width, "of these, muted in conf/audit.toml")


def worst(sight: Sight) -> str:
    """The cluster's verdict and phase."""
    row = sight.judged.plans.to_pylist()[0]
    return f"{row['verdict']} ({row['phase']})"


def entering_lines(found: WhatIf, width: int) -> Iterator[str]:
    """Who may join, who may not and in whose words, and who does not run."""
    if found.joined:
        who = say_nodes(None, found.joined)
        yield from wrap(f"{who} may join with that software", width)
    yield from refused_lines(found.refused, width)
    if found.idle:
        who = say_nodes(None, found.idle)
        does = "does not run and is" if len(found.idle) == 1 else "do not run and are"
        yield from wrap(f"{who} {does} left as now: name it with --node or --remove", width)


def refused_lines(refused: Sequence[Refused], width: int) -> Iterator[str]:
    """Refusals in the same words together, with who says them."""
    alike: dict[tuple[str, str, str, tuple[str, ...]], list[Refused]] = {}
    for one in refused:
        key = (one.role.text, one.entry, one.message, one.features)
        alike.setdefault(key, []).append(one)
    for (role, entry, message, features), mine in alike.items():
        who = say_nodes(role, [one.node_id for one in mine])
        over = f" over {', '.join(clean(n, 60) for n in features)}" if features else ""
        yield from wrap(f"{who} {FATES[entry].format(over=over)}", width, "", "  ")
        by = " and ".join(dict.fromkeys(says(one.dialect) for one in mine))
        yield from wrap(f'{by}: "{clean(message, 600)}"', width, "  ", "    ")


def _states(turn: Turn, words: FindingWords) -> tuple[str, str]:
    return _state(turn.feature, turn.before, words), _state(turn.feature, turn.after, words)


def _state(feature: str, row: Row | None, words: FindingWords) -> str:
    """`READY 21 (3.9-IV0) → 29 (4.2-IV1)`, `BLOCKED at 0, ceiling 27`."""
    if row is None:
        return "not listed"
    here = "?" if row["finalized_level"] is None else _level(words, feature, row["finalized_level"])
    if row["target"] is not None:
        there = _level(words, feature, row["target"])
        short = row["ceiling"] - row["target"]
        more = f", ceiling {_level(words, feature, row['ceiling'])}" if short else ""
        return f"{row['verdict']} {here} → {there}{more}"
    if row["ceiling"] == row["finalized_level"]:
        return f"{row['verdict']} at {here}"
    return f"{row['verdict']} at {here}, ceiling {_level(words, feature, row['ceiling'])}"


def _level(words: FindingWords, feature: str, level: int) -> str:
    return level_text(words.catalogue, feature, level)


def _finding_lines(rows: Sequence[Row], words: FindingWords, width: int) -> Iterator[str]:
    """One line a finding, the worst first; equal sentences once, with how often."""
    order = list(Severity)
    texts: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: order.index(Severity(row["severity"]))):
        columns: FindingColumns = row  # type: ignore[assignment]  # a row has more columns than words use
        text = f"{row['severity']}  {code_text(row['code'])}: {words.of(columns).message}"
        texts[text] = texts.get(text, 0) + 1
    for text, number in texts.items():
        yield from wrap(text + (f" (×{number})" if number > 1 else ""), width, "  ", "    ")
