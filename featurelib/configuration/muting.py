"""The mutes of conf/audit.toml: what they say, what is wrong with them, whom they mean.

A mute needs a reason and a last day. A code that no finding has is refused, for it would hold
nothing back and nobody would know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import date
from difflib import get_close_matches
from typing import Annotated

import msgspec

from featurelib.configuration.fleet import Fleet
from featurelib.core.mutes import EXPIRED, Mute
from featurelib.errors import ConfigError

NEAR = 3  # names that an error proposes


class MuteEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One [[mute]]. An empty key means any."""

    code: str  # of the findings it sets aside
    reason: str  # for whoever asks why
    by: str = ""  # whom to ask
    until: date  # the last day it holds, in UTC
    cluster: str = ""  # an id, or a name of the inventory
    feature: str = ""
    node: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None


def mute_faults(entries: Iterable[MuteEntry], codes: Collection[str]) -> Iterator[str]:
    """What is wrong with the mutes, as sentences that begin with which one."""
    codes = set(codes) - {EXPIRED}
    for number, entry in enumerate(entries, 1):
        which = f"[[mute]] number {number}"
        if entry.code == EXPIRED:
            yield f"{which}: {EXPIRED} cannot be muted: renew the mute it names, or take it out."
        elif entry.code not in codes:
            yield f"{which}: no finding is called {entry.code!r}. {nearest(entry.code, codes)}"
        elif not entry.reason.strip():
            yield f"{which} ({entry.code}): expected a reason, found none. Say why, for others."


def nearest(word: str, known: Collection[str]) -> str:
    """`Did you mean a, or b?`, or else all that is known."""
    near = get_close_matches(word, known, n=NEAR, cutoff=0.5)
    if near:
        return f"Did you mean {', or '.join(near)}?"
    return f"Known are {', '.join(sorted(known))}."


def mutes_of(entries: Iterable[MuteEntry], fleet: Fleet, where: str) -> tuple[Mute, ...]:
    """The mutes, clusters by id. Raises ConfigError for a name that several clusters have.

    A cluster the inventory does not list is taken for an id: it may have landed all the same.
    """
    return tuple(
        Mute(
            code=entry.code,
            reason=entry.reason.strip() + (f" ({entry.by.strip()})" if entry.by.strip() else ""),
            until=entry.until,
            cluster=_cluster_id(entry.cluster, fleet, where),
            feature=entry.feature,
            node=entry.node,
        )
        for entry in entries
    )


def _cluster_id(text: str, fleet: Fleet, where: str) -> str:
    if not text or any(entry.id == text for entry in fleet.cluster):
        return text
    found = [entry.id for entry in fleet.cluster if entry.name == text]
    if len(found) > 1:
        raise ConfigError(
            f"{where}: a [[mute]] is for cluster {text!r}, which is the name of {len(found)} "
            f"clusters: {', '.join(found)}. Give the id."
        )
    return found[0] if found else text
