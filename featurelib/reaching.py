"""How one cluster is named and reached: by the inventory, by addresses, or as a file.

Addresses beside a name go before the inventory's; what the owner says there (its security, who
manages it) still holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from featurelib.backends.base import Backend, Say
from featurelib.backends.opening import TIMEOUT_SECONDS, look, open_backend
from featurelib.catalogue import Catalogue
from featurelib.configuration.fleet import ADDRESSES, Cluster, Fleet, faults, parse_fleet
from featurelib.errors import ConfigError
from featurelib.settings_file import HERE, INVENTORY, find_file, read_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """One cluster that was named, and how it is reached. `entry.id` is empty where only addresses
    are known: the look tells it."""

    name: str
    entry: Cluster
    fleet: Fleet
    catalogue: Catalogue
    timeout: float = TIMEOUT_SECONDS

    def open(self) -> Backend:
        """Its backend; the caller closes it. Raises ConfigError."""
        return open_backend(self.entry, self.catalogue, timeout=self.timeout)

    def look(self, backend: Backend, say: Say) -> tuple[bytes, ...]:
        """One look, as landing lines of this cluster: see featurelib.backends.opening.look."""
        return look(backend, self.entry, say)

    def entry_of(self, cluster_id: str) -> Cluster:
        """What the inventory says of the cluster that answered: its owner's word holds by whatever
        way it was reached."""
        known = (entry for entry in self.fleet.cluster if entry.id == cluster_id)
        return next(known, self.entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """Ways to a cluster given beside, or in place of, the inventory's."""

    bootstrap: str | None = None
    controllers: str | None = None
    zookeeper: str | None = None
    file: str | None = None

    @property
    def given(self) -> dict[str, object]:
        """The keys of an inventory's entry they stand for."""
        said: dict[str, object] = {
            "bootstrap": _split(self.bootstrap),
            "controller_bootstrap": _split(self.controllers),
            "zookeeper": self.zookeeper,
            "file": self.file,
        }
        return {key: value for key, value in said.items() if value}


def reach(
    cluster: str | None,
    catalogue: Catalogue,
    *,
    fleet: str | None = None,
    bootstrap: str | None = None,
    controllers: str | None = None,
    zookeeper: str | None = None,
    file: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
    others: str | None = None,
) -> Reached:
    """The one cluster these options choose. Raises ConfigError for none, and for contradictions.

    `others`: what may be done in place of a name the inventory does not have; None = addresses.
    """
    where, inventory = open_fleet(fleet, catalogue)
    ways = Ways(bootstrap=bootstrap, controllers=controllers, zookeeper=zookeeper, file=file)
    entry = choose(cluster, inventory, where, ways, others or ADDRESSES)
    name = entry.title or file or zookeeper or bootstrap or controllers or ""
    return Reached(name=name, entry=entry, fleet=inventory, catalogue=catalogue, timeout=timeout)


def choose(
    cluster: str | None, fleet: Fleet, where: str, ways: Ways, others: str = ADDRESSES
) -> Cluster:
    """The entry of the cluster that is named, its ways replaced by those given; without a name an
    entry of its own. `where` names the inventory. Raises ConfigError."""
    given = ways.given
    if cluster is None and not given:
        raise ConfigError(
            "expected a cluster, found none named. Give its id or name in the inventory, or "
            "--bootstrap HOST:PORT, or --file PATH."
        )
    entry = Cluster(id="") if cluster is None else fleet.find(cluster, where, others=others)
    if given:
        nothing = {"bootstrap": (), "controller_bootstrap": (), "zookeeper": "", "file": ""}
        entry = msgspec.structs.replace(entry, **(nothing | given))
    fault = next(faults(entry), None)
    if fault is not None:
        raise ConfigError(f"{cluster or 'the cluster'}: {fault}")
    if not entry.is_reachable:
        raise ConfigError(
            f"{where}: cluster {entry.title!r}: expected a way to reach it, found none. Add "
            "bootstrap, zookeeper or file to its entry, or give --bootstrap HOST:PORT."
        )
    return entry


def open_fleet(fleet: str | None, catalogue: Catalogue | None) -> tuple[str, Fleet]:
    """The inventory and the file it stands in: the one named, or the first of the usual places
    (featurelib.settings_file). Where there is none nothing is expected. Raises ConfigError.

    Releases and features are checked with a catalogue only.
    """
    path = find_file("--fleet", fleet, INVENTORY)
    if path is None:
        return str(HERE / INVENTORY), Fleet()
    return str(path), parse_fleet(read_file("--fleet", path), str(path), catalogue)


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()
