"""The inventory, `conf/fleet.toml`: which clusters and nodes are expected, and whose they are.

A cluster or node that is expected and did not land is UNKNOWN, not absent. Unknown keys are
refused: a misspelt `brokers` must not pass for an empty one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

import msgspec

from featurelib.core.evidence import Expected
from featurelib.core.features_node import Generation
from featurelib.errors import ConfigError

NodeId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cluster the fleet is expected to have."""

    id: str  # as in the landing lines
    name: str = ""  # for people; the id where it is empty
    release: str = ""  # of the software that runs there, as 3.9 or 4.1.2, if known
    brokers: tuple[NodeId, ...] = ()  # node ids that must be there
    controllers: tuple[NodeId, ...] = ()
    registrations_complete: bool = False  # the owner vouches that no fenced broker is hidden
    bootstrap: tuple[str, ...] = ()
    owner: str = ""
    contact: str = ""
    managed_by: str = ""  # who finalizes there, if not we: strimzi, msk, …
    labels: dict[str, str] = {}


class Fleet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every cluster expected, in the order of the file."""

    cluster: tuple[Cluster, ...] = ()

    @property
    def names(self) -> dict[str, str]:
        """Cluster id → the name people use."""
        return {entry.id: entry.name or entry.id for entry in self.cluster}

    @property
    def inventory(self) -> dict[str, Expected]:
        """What the core needs to know of each expected cluster."""
        return {
            entry.id: Expected(
                brokers=entry.brokers,
                controllers=entry.controllers,
                vouched=entry.registrations_complete,
                generation=zookeeper_generation(entry.release),
                release=entry.release,
            )
            for entry in self.cluster
        }


def parse_fleet(text: str, where: str) -> Fleet:
    """The inventory in `text`; ConfigError names `where`, the key, and what was expected."""
    try:
        fleet = msgspec.toml.decode(text, type=Fleet)
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"{where}: {error}. Its keys are explained in conf/fleet.toml."
        ) from error
    for entry in fleet.cluster:
        if not entry.id:
            raise ConfigError(f"{where}: a [[cluster]] has an empty id; give its cluster id.")
    twice = _repeated(entry.id for entry in fleet.cluster)
    if twice is not None:
        raise ConfigError(f"{where}: cluster {twice!r} stands there twice; keep one.")
    return fleet


def zookeeper_generation(release: str) -> Generation | None:
    """Who reads the features node in software of `release`; None if that is not known."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", release)
    if found is None:
        return None
    version = (int(found[1]), int(found[2]), int(found[3] or 0))
    if version < (3, 3, 0):
        return Generation.ZK_2_7
    # KAFKA-14887, from 3.4.1 on: a wrong type no longer stops a running broker.
    return Generation.ZK_3_3 if version < (3, 4, 1) else Generation.ZK_3_9


def _repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
