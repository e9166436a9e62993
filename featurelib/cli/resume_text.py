"""What `featurelib resume` found out: one sentence a request, and one at the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from featurelib.catalogue import Catalogue
from featurelib.cli.journal import results_as_json
from featurelib.controller.ending_words import settled_sentence, unexplained_sentence
from featurelib.controller.resuming import Settled, Unexplained
from featurelib.errors import OutcomeUnknownError
from featurelib.journal.journal import Entry
from featurelib.words import clean, count


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was looked after, and open requests that were not: `lost`, which were asked for too,
    each with why, and `others`, which are of other clusters than `asked`, with the command.
    `unexplained` are levels of the clusters that were looked at."""

    settled: tuple[Settled, ...] = ()
    lost: Sequence[tuple[Entry, str]] = ()
    others: Sequence[tuple[Entry, str]] = ()
    asked: str = ""
    unexplained: Sequence[Unexplained] = ()


def report(found: Found, catalogue: Catalogue, *, as_json: bool) -> int:
    """Print it; the exit code."""
    unknown = sum(one.is_open for one in found.settled) + len(found.lost)
    code = OutcomeUnknownError.exit_code if unknown else 0
    end = _end(found, unknown)
    if as_json:
        requests: list[dict[str, object]] = [
            {
                "number": one.entry.number,
                "cluster": one.entry.intent.cluster,
                "outcome": one.result.fate.value,
                "proof": one.result.proof,
                "unproven": one.result.unproven,
                "updates": results_as_json(one.result.updates),
            }
            for one in found.settled
        ]
        requests += _open_as_json(found.lost, "why")
        document = {
            "version": 1,
            "requests": requests,
            "others": _open_as_json(found.others, "next"),
            "unexplained": [
                {
                    "cluster": one.entry.intent.cluster,
                    "feature": one.feature,
                    "level": one.level,
                    "entry": one.entry.number,
                    "closed_as": one.entry.fate.value,
                }
                for one in found.unexplained
            ],
            "unknown": unknown,
            "says": end,
        }
        print(json.dumps(document, indent=2, ensure_ascii=False))
        return code
    for one in found.settled:
        print(f"cluster {clean(one.entry.intent.cluster)}: ", end="")
        print(settled_sentence(one.entry.number, one.result, catalogue))
    for entry, why in found.lost:
        print(
            f"cluster {clean(entry.intent.cluster)}: Journal entry {entry.number}: still unknown: "
            f"{why}"
        )
    for level in found.unexplained:
        print(f"cluster {clean(level.entry.intent.cluster)}: ", end="")
        print(unexplained_sentence(level, catalogue))
    print(end)
    return code


def _open_as_json(entries: Sequence[tuple[Entry, str]], key: str) -> list[dict[str, object]]:
    return [
        {"number": e.number, "cluster": e.intent.cluster, "outcome": "unknown", key: said}
        for e, said in entries
    ]


def _end(found: Found, unknown: int) -> str:
    """What is true of all that was asked for, then of other clusters."""
    number = len(found.settled) + len(found.lost)
    others = "".join(f" {text}" for text in _of_others(found.others))
    if unknown:
        return f"Still unknown: {unknown} of {count(number, 'request')}.{_again(found)}{others}"
    if number:
        return f"Settled: {count(number, 'request')}; nothing was written.{others}"
    if others:
        asked = clean(found.asked)
        return f"Nothing to settle: no request is open for this cluster ({asked}).{others}"
    if found.unexplained:
        return "Nothing to settle; how these levels came about is not known."
    return "Nothing to settle: the outcome of every request is known."


def _again(found: Found) -> str:
    """What can help those that were looked at in vain; of the lost it is said what does."""
    waiting = [str(one.entry.number) for one in found.settled if one.is_open]
    if not waiting:
        return ""
    return (
        f" Run this again for journal entry {', '.join(waiting)}."
        if found.lost
        else " Run this again."
    )


def _of_others(others: Sequence[tuple[Entry, str]]) -> Iterator[str]:
    """One sentence a cluster and way: how many are open there, and the command."""
    counts = Counter((entry.intent.cluster, way) for entry, way in others)
    for (cluster, way), number in counts.items():
        what = f"{count(number, 'request')} {'is' if number == 1 else 'are'} open"
        yield f"{what} for another cluster ({clean(cluster)}). Run: {way}"
