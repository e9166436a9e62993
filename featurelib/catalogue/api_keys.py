"""Which release a listener is of, by the requests it offers (`api_keys` of ApiVersions).

Supported features do not tell releases apart: 4.1 with unstable features looks like a stock 4.2,
and a controller's listener hides unstable levels. What requests a node offers does, from 4.0 on
each line for itself. release_apis.csv was measured on real nodes by scripts/record_api_keys.py: a
row stands where a release line differs from the one before.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from featurelib.feature import Role

BROKER: Final = Role.BROKER.text
CONTROLLER: Final = Role.CONTROLLER.text
ApiKeys = tuple[tuple[int, int, int], ...]  # (api_key, min_version, max_version), by key


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One request as one release offers it; -1 where it does not.

    A node with `unstable.api.versions.enable` goes up to `newest_unstable`. `may_be_less`: a broker
    offers what it forwards no further than the active controller does, which may be older, and
    what a plug-in serves only with that plug-in.
    """

    min_version: int
    max_version: int
    newest_unstable: int
    may_be_less: bool

    def allows(self, low: int, high: int) -> bool:
        """Whether a node of the release may offer the request in these versions."""
        if self.may_be_less:
            return low >= self.min_version and high <= self.newest_unstable
        return low == self.min_version and self.max_version <= high <= self.newest_unstable


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRow:
    """A line of release_apis.csv: what a listener offers from a release line on."""

    release: str
    listener: str
    api_key: int
    offer: Offer
    source: str


_GONE = Offer(min_version=0, max_version=-1, newest_unstable=-1, may_be_less=False)


def releases_offering(role: Role, offered: ApiKeys) -> tuple[str, ...]:
    """The release lines whose listeners of `role` offer just this, the oldest first.

    () = none that was measured, as of ZooKeeper mode, of a vendor or of a newer release.
    """
    return _releases_offering(role, offered)


@cache
def _releases_offering(role: Role, offered: ApiKeys) -> tuple[str, ...]:
    shown = {key: (low, high) for key, low, high in offered}
    return tuple(release for release, known in _offers()[role.text].items() if _fits(known, shown))


def _fits(known: dict[int, Offer], shown: dict[int, tuple[int, int]]) -> bool:
    missing = (known[key] for key in known.keys() - shown.keys())
    if any(offer.max_version >= 0 and not offer.may_be_less for offer in missing):
        return False
    return all(known.get(key, _GONE).allows(*ends) for key, ends in shown.items())


def read_rows() -> Iterator[OfferRow]:
    """The rows of the table, in its order."""
    path = resources.files(__package__).joinpath("release_apis.csv")
    for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        yield OfferRow(
            release=row["release"],
            listener=row["listener"],
            api_key=int(row["api_key"]),
            offer=Offer(
                min_version=int(row["min_version"]),
                max_version=int(row["max_version"]),
                newest_unstable=int(row["newest_unstable"]),
                may_be_less=row["may_be_less"] == "true",
            ),
            source=row["source"],
        )


@cache
def _offers() -> dict[str, dict[str, dict[int, Offer]]]:
    """Listener → release line → what it offers by API key."""
    rows = list(read_rows())
    found: dict[str, dict[str, dict[int, Offer]]] = {BROKER: {}, CONTROLLER: {}}
    for listener, by_release in found.items():
        now: dict[int, Offer] = {}
        for release in _lines(rows):
            now = now | {
                row.api_key: row.offer
                for row in rows
                if (row.release, row.listener) == (release, listener)
            }
            by_release[release] = now
    return found


def _lines(rows: Sequence[OfferRow]) -> list[str]:
    """The release lines, the oldest first."""
    return sorted({row.release for row in rows}, key=lambda r: [int(p) for p in r.split(".")])
