"""One look at a cluster: every listener that can be found, asked once, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from featurelib.backends.base import Say
from featurelib.backends.kafka_asking import NOT_OFFERED, Asked
from featurelib.backends.kafka_limits import MOST_NODES
from featurelib.backends.kafka_map import Map
from featurelib.backends.kafka_search import Reach, Search
from featurelib.configuration.addresses import split_id
from featurelib.errors import UnreachableError
from featurelib.words import some

if TYPE_CHECKING:  # its client is an extra of its own
    from featurelib.backends.znodes import Znodes

SHOWN = 10  # nodes, or reasons, of a kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One look: everybody who was asked, in the order of role and id."""

    map: Map
    asked: tuple[Asked, ...]
    znodes: Znodes | None


def look(reach: Reach, say: Say) -> Seen:
    """Ask every listener that can be found. Raises UnreachableError where nobody answers."""
    search = Search(reach, Map(), say, asks=True)
    search.run()
    asked = sorted(search.asked.values(), key=lambda one: (-one.target.role, one.target.node_id))
    silent = [f"{one.target.title}: {one.error}" for one in asked if one.error is not None]
    for text in silent[:SHOWN]:
        say(text)
    if len(silent) > SHOWN:
        say(f"{reach.where}: {len(silent) - SHOWN:,} more listeners did not answer")
    if search.known.is_full:
        say(f"{reach.where}: {MOST_NODES:,} nodes or more are named; no more than that are asked")
    if search.znodes is None and len(silent) == len(asked):
        raise UnreachableError(_nobody(reach, (*search.failures, *silent)))
    say(f"{reach.where}: {len(asked) - len(silent)} of {len(asked)} listeners answered")
    for text in (*_refusals(asked), *voters_not_asked(search.known)):
        say(text)
    return Seen(map=search.known, asked=tuple(asked), znodes=search.znodes)


def _nobody(reach: Reach, reasons: Iterable[str]) -> str:
    """That nobody answered, and each reason once. An address that a reason names is not repeated,
    and a reason that stands alone and says what was expected is enough."""
    found = [reason.rstrip(".") for reason in dict.fromkeys(reasons)]
    if len(found) > SHOWN:
        found[SHOWN:] = [f"and {len(found) - SHOWN:,} more"]
    if len(found) == 1 and "expected" in found[0]:
        return f"{found[0]}."
    alone = f"{reach.where}: " if len(found) == 1 else ""
    said = " · ".join(found).removeprefix(alone)
    given = (*reach.bootstrap, *reach.controllers)
    is_named = all(split_id(address)[1] in said for address in given) and bool(given)
    where = "" if is_named else f"{reach.where}: "
    return f"{where}expected at least one node to answer, found: {said}."


def explore(reach: Reach, known: Map) -> None:
    """Who there is, from the addresses that are given; brokers that are known already are asked
    where no given one answers. Raises ConfigError."""
    Search(reach, known, _quietly, asks=False).run()


def _refusals(asked: Iterable[Asked]) -> Iterator[str]:
    """What nodes that answered did not answer, each reason once."""
    reasons: dict[str, list[str]] = {}
    for one in asked:
        for silence in one.silent:
            if silence.why != NOT_OFFERED.format(silence.api.title):
                reasons.setdefault(silence.why, []).append(one.target.title)
    for why, titles in reasons.items():
        yield f"{some(titles, SHOWN)}: {why}"


def voters_not_asked(known: Map) -> Iterator[str]:
    """Voters nobody knows an address of, and addresses nobody knows a node id of."""
    lost = sorted(known.voters - set(known.controllers))
    if not lost:
        return
    yield (
        f"voters {some([*map(str, lost)], SHOWN)}: not asked, because no address is known. Add "
        "ID@HOST:PORT of each to "
        "controller_bootstrap (--controllers)."
    )
    for address in known.nameless[:SHOWN]:
        yield (
            f"{address}: expected a controller that says its node id, found one that does not "
            "(before 3.7, or under another address). Write it as ID@HOST:PORT."
        )


def _quietly(text: str) -> None:
    """Whoever asks again has heard of it before."""
