"""The inventory, `conf/fleet.toml`: which clusters and nodes are expected, whose they are, and how
they are reached.

A cluster or node that is expected and did not land is UNKNOWN, not absent. Unknown keys are
refused: a misspelt `brokers` must not pass for an empty one. A secret stands elsewhere: the
inventory says where, and nothing that is said of it shows more.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Annotated

import msgspec

from featurelib.catalogue import Catalogue
from featurelib.configuration.addresses import (
    LARGEST_ID,
    is_address,
    is_controller_address,
    is_ensemble,
)
from featurelib.configuration.security import ZOOKEEPER, anchored, security_faults
from featurelib.configuration.security import Security as Security
from featurelib.core.dialect import GENERATIONS, load
from featurelib.core.evidence import Expected
from featurelib.core.features_node import Generation
from featurelib.errors import ConfigError

_SHOWN = 5  # names that an error proposes
ADDRESSES = "say how it is reached (--bootstrap HOST:PORT, --zookeeper HOST:PORT, --file PATH)"
_SECURED = ("security", "controller_security", ZOOKEEPER)  # keys of how somebody is spoken to
_PLACE = re.compile(r"`\$\.cluster\[(\d+)\]")  # in errors: which entry
_MISSING_ID = "Object missing required field `id`"
_NO_ID = (
    'expected an id, found none. Add the cluster\'s id, id = "…": kafka-cluster.sh cluster-id '
    "--bootstrap-server HOST:PORT prints it, and so does featurelib describe --fleet /dev/null "
    "--bootstrap HOST:PORT"
)
NodeId = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_ID)]


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cluster the fleet is expected to have."""

    id: str  # as in the landing lines
    name: str = ""  # for people; the id where it is empty
    release: str = ""  # of the software that runs there, as 3.9 or 4.1.2, if known
    brokers: tuple[NodeId, ...] = ()  # node ids that must be there
    controllers: tuple[NodeId, ...] = ()
    registrations_complete: bool = False  # the owner vouches that no fenced broker is hidden
    controllers_complete: bool = False  # … that controllers nobody can ask fit what is asked
    bootstrap: tuple[str, ...] = ()  # host:port of brokers
    controller_bootstrap: tuple[str, ...] = ()  # host:port of controllers' listeners
    zookeeper: str = ""  # host:port,host:port/chroot
    file: str = ""  # an embedded cluster
    security: Security = Security()
    controller_security: Security | None = None  # of controllers' listeners, where it differs
    zookeeper_security: Security = Security()  # of ZooKeeper, which never takes Kafka's
    owner: str = ""
    contact: str = ""
    managed_by: str = ""  # who finalizes there, if not we: strimzi, msk, …
    labels: dict[str, str] = {}

    @property
    def title(self) -> str:
        """What people call it."""
        return self.name or self.id

    @property
    def is_reachable(self) -> bool:
        """Whether the inventory says any way to it."""
        return bool(self.bootstrap or self.controller_bootstrap or self.zookeeper or self.file)


class Fleet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every cluster expected, in the order of the file."""

    cluster: tuple[Cluster, ...] = ()

    @property
    def names(self) -> dict[str, str]:
        """Cluster id → the name people use."""
        return {entry.id: entry.title for entry in self.cluster}

    @property
    def inventory(self) -> dict[str, Expected]:
        """What the core needs to know of each expected cluster."""
        return {
            entry.id: Expected(
                brokers=entry.brokers,
                controllers=entry.controllers,
                vouched=entry.registrations_complete,
                controllers_vouched=entry.controllers_complete,
                generation=zookeeper_generation(entry.release),
                release=entry.release,
            )
            for entry in self.cluster
        }

    def find(self, text: str, where: str, *, others: str = ADDRESSES) -> Cluster:
        """The cluster of that id or else name; ConfigError for none, or a name of several.

        `others`: what else whoever asks may do.
        """
        found = [entry for entry in self.cluster if entry.id == text]
        found = found or [entry for entry in self.cluster if entry.name == text]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(entry.id for entry in found)
            raise ConfigError(
                f"{where}: {text!r} is the name of {len(found)} clusters: {ids}. Give the id."
            )
        titles = [entry.title for entry in self.cluster]
        near = get_close_matches(text, titles, n=_SHOWN, cutoff=0.4) or titles[:_SHOWN]
        known = f"{len(titles)} others, as {', '.join(near)}" if near else "none"
        raise ConfigError(
            f"{where}: expected a cluster with the id or name {text!r}, found {known}. Name one of "
            f"them, add it, or {others}."
        )


def parse_fleet(text: str, where: str, catalogue: Catalogue | None = None) -> Fleet:
    """The inventory in `text`, its relative paths from the folder of `where`.

    With a `catalogue`, releases it does not know are refused. ConfigError names `where`, the
    cluster and the key, what was expected and found; never a secret.
    """
    try:
        fleet = msgspec.toml.decode(text, type=Fleet)
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"{where}: {_unread(str(error), text)}. Its keys are explained in conf/fleet.toml."
        ) from error
    for entry in fleet.cluster:
        if not entry.id:
            raise ConfigError(f"{where}: a [[cluster]] has an empty id; give its cluster id.")
        fault = next(faults(entry, catalogue), None)
        if fault is not None:
            raise ConfigError(f"{where}: cluster {entry.title!r}: {fault}")
    twice = _repeated(entry.id for entry in fleet.cluster)
    if twice is not None:
        raise ConfigError(f"{where}: cluster {twice!r} stands there twice; keep one.")
    folder = posixpath.dirname(where)
    return Fleet(cluster=tuple(_anchored(entry, folder) for entry in fleet.cluster))


def _unread(error: str, text: str) -> str:
    """Why the inventory in `text` cannot be read, with the name of the cluster it is about."""
    found = _PLACE.search(error)
    if found is None:
        return error
    entry = tomllib.loads(text)["cluster"][int(found[1])]  # it could be read as TOML
    title = entry.get("name") or entry.get("id") if isinstance(entry, dict) else None
    which = f"cluster {title!r}" if title else f"[[cluster]] number {int(found[1]) + 1}"
    return f"{which}: {_NO_ID if error.startswith(_MISSING_ID) else error}"


def faults(entry: Cluster, catalogue: Catalogue | None = None) -> Iterator[str]:
    """What is wrong with one entry, as sentences that begin with the key."""
    if catalogue is not None and entry.release and not is_known(entry.release, catalogue):
        known = ", ".join(known_releases(catalogue))
        yield (
            f"release: expected one the catalogue of {catalogue.label} knows ({known}; 4.1.2 reads "
            f"as 4.1), found {entry.release!r}. A vendor's is added by an overlay (--overlay "
            "FILE); without the key it is read from what the nodes say."
        )
    for address in entry.bootstrap:
        if not is_address(address):
            yield f"bootstrap: expected HOST:PORT, as kafka-1.example:9092, found {address!r}."
    for address in entry.controller_bootstrap:
        if not is_controller_address(address):
            yield (
                "controller_bootstrap: expected HOST:PORT or ID@HOST:PORT, as "
                f"100@kafka-c1.example:9093, found {address!r}."
            )
    if entry.zookeeper and not is_ensemble(entry.zookeeper):
        expected = "HOST:PORT[,HOST:PORT …][/CHROOT], as zk-1:2181,zk-2:2181/kafka"
        yield f"zookeeper: expected {expected}, found {entry.zookeeper!r}."
    if entry.file and (entry.bootstrap or entry.controller_bootstrap or entry.zookeeper):
        yield "file: expected alone, found other ways to reach the cluster beside it. Keep one."
    for key in _SECURED:
        security: Security | None = getattr(entry, key)
        yield from () if security is None else security_faults(security, key)


def is_known(release: str, catalogue: Catalogue) -> bool:
    """Whether a release, with or without its patch version, is one that can be judged."""
    short = ".".join(release.split(".")[:2])
    return catalogue.release_named(release) is not None or short in known_releases(catalogue)


def known_releases(catalogue: Catalogue) -> tuple[str, ...]:
    """Releases of both modes: those of the catalogue with its overlay, and ZooKeeper mode's."""
    of_dialects = (name for generation in GENERATIONS for name in load(generation).releases)
    return tuple(dict.fromkeys((*of_dialects, *(r.name for r in catalogue.releases))))


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


def _anchored(entry: Cluster, folder: str) -> Cluster:
    """`entry` with its relative paths from `folder`."""
    changes: dict[str, object] = {}
    if entry.file:
        changes["file"] = posixpath.join(folder, entry.file)
    for key in _SECURED:
        security: Security | None = getattr(entry, key)
        if security is not None:
            changes[key] = anchored(security, folder)
    return msgspec.structs.replace(entry, **changes)


def _repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
