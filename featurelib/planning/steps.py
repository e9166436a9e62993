"""A route: the fewest UpdateFeatures requests that reach a goal, each of them tried beforehand.

An atomic controller gets all ordinary features in one request, any other one feature a request,
because it writes the good part of a request whose other part it refuses. kraft.version goes alone:
a refused request may have moved it for good. A goal that cannot be reached gives refusals, no step
(KIP-584, Tooling; KIP-778; KIP-1022, interdependence).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from featurelib.catalogue import Catalogue
from featurelib.core.cluster import Cluster
from featurelib.core.dialect import Dialect
from featurelib.core.dry_run import Tried, request_of, try_requests
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION
from featurelib.model import Move, Reason, Step
from featurelib.planning.goal import software_of
from featurelib.words import metadata_first


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Steps in the order to send them, and the cluster once they have settled. Refusals say what
    cannot be reached and why."""

    steps: tuple[Step, ...] = ()
    refusals: tuple[Reason, ...] = ()
    after: Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """A cluster, how its controller answers, and how it is asked: `stepwise`, with metadata.version
    one known level at a time. `vendors`: see `try_requests`."""

    cluster: Cluster
    dialect: Dialect
    catalogue: Catalogue
    timeout_ms: int = 60_000
    stepwise: bool = False
    vendors: bool = False

    def route(self, moves: Sequence[Move]) -> Route:
        """Find the way; everything at once is tried first, because what the whole violates stays
        wrong."""
        if not moves:
            return Route(after=self.cluster)
        [tried] = self._try(self.cluster, [moves])
        if tried.refusals:
            return Route(refusals=tried.refusals, after=self.cluster)
        hops = {move.feature: self._hops(move) for move in moves}
        return self._atomic(hops) if self.dialect.can.atomic else self._one_by_one(hops)

    def _try(self, cluster: Cluster, groups: Sequence[Sequence[Move]]) -> list[Tried]:
        """Each group of moves as one request, in the newest wire version that carries results."""
        by_name = [sorted(moves, key=lambda move: move.feature) for moves in groups]
        requests = [request_of(self._step(moves), self.dialect) for moves in by_name]
        cases = [(cluster, request) for request in requests]
        return try_requests(cases, self.dialect, self.catalogue.tables, vendors=self.vendors)

    def _step(self, moves: Sequence[Move]) -> Step:
        return Step(updates=tuple(moves), timeout_ms=self.timeout_ms)

    def _hops(self, move: Move) -> list[Move]:
        """The move itself, or metadata.version one known level at a time (KIP-778, Upgrades)."""
        software = software_of(self.cluster, self.catalogue)
        if not self.stepwise or move.feature != METADATA_VERSION or software is None:
            return [move]
        low, high = sorted((move.from_level, move.to_level))
        between = [n for n in software.known_levels(METADATA_VERSION) if low < n < high]
        if not move.is_upgrade:
            between.reverse()
        way = [move.from_level, *between, move.to_level]
        return [replace(move, from_level=a, to_level=b) for a, b in pairwise(way)]

    def _way(self, groups: Sequence[Sequence[Move]]) -> Route:
        """These groups of moves, one request each, up to the first refused one."""
        cluster, steps = self.cluster, list[Step]()
        for group in groups:
            [tried] = self._try(cluster, [group])
            if tried.refusals:
                return Route(refusals=tried.refusals, after=self.cluster)
            cluster = tried.after
            steps.append(self._step(sorted(group, key=lambda move: metadata_first(move.feature))))
        return Route(steps=tuple(steps), after=cluster)

    def _atomic(self, hops: dict[str, list[Move]]) -> Route:
        """All ordinary features in one request; kraft.version after it, or where others need it
        first: before it, or as late as it can be."""
        kraft = hops.get(KRAFT_VERSION, [])
        ordinary = {name: way for name, way in hops.items() if name != KRAFT_VERSION}
        groups = _groups(ordinary)
        ways = [[*groups, kraft], [kraft, *groups]]
        if kraft and groups:
            early = self._passing([way[-1] for way in ordinary.values()])
            first = {name: way for name, way in ordinary.items() if name in early}
            late = {name: way for name, way in ordinary.items() if name not in early}
            ways.append([*_groups(first), kraft, *_groups(late)])
        routes = [self._way([group for group in ways[0] if group])]
        while routes[-1].refusals and len(routes) < len(ways):
            routes.append(self._way([group for group in ways[len(routes)] if group]))
        return routes[0] if routes[-1].refusals else routes[-1]

    def _passing(self, moves: list[Move]) -> set[str]:
        """The most of these moves that pass together: what is refused is left out, again and
        again."""
        while moves:
            [tried] = self._try(self.cluster, [moves])
            refused = {refusal.feature for refusal in tried.refusals}
            if not refused:
                break
            passing = [move for move in moves if move.feature not in refused]
            moves = passing if len(passing) < len(moves) else []
        return {move.feature for move in moves}

    def _one_by_one(self, hops: dict[str, list[Move]]) -> Route:
        """One feature a request, each as soon as it passes: what others need goes up before them
        and down after them. What passes once keeps passing, so no order is missed."""
        cluster, steps = self.cluster, list[Step]()
        waiting = sorted(hops.values(), key=lambda way: turn(way[0]))
        while waiting:
            answers = self._try(cluster, [way[:1] for way in waiting])
            good = next((i for i, tried in enumerate(answers) if not tried.refusals), None)
            if good is None:
                refusals = dict.fromkeys(r for tried in answers for r in tried.refusals)
                return Route(refusals=tuple(refusals), after=self.cluster)
            cluster = answers[good].after
            steps.append(self._step(waiting[good][:1]))
            waiting[good : good + 1] = [rest] if (rest := waiting[good][1:]) else []
        return Route(steps=tuple(steps), after=cluster)


def _groups(hops: dict[str, list[Move]]) -> list[list[Move]]:
    """One request for all; a stepwise metadata.version goes first up, and last down."""
    chain = hops.get(METADATA_VERSION, [])
    if len(chain) < 2:
        return [[hop for way in hops.values() for hop in way]] if hops else []
    rest = [hop for name, way in hops.items() if name != METADATA_VERSION for hop in way]
    alone = [[hop] for hop in chain]
    groups = [*alone, rest] if chain[0].is_upgrade else [rest, *alone]
    return [group for group in groups if group]


def turn(move: Move) -> tuple[bool, int, str]:
    """Sort moves in the order to send them one by one: what others need goes up before them and
    down after them. kraft.version last; metadata.version first when it goes up, else last."""
    place = 1 if move.feature != METADATA_VERSION else 0 if move.is_upgrade else 2
    return move.feature == KRAFT_VERSION, place, move.feature
