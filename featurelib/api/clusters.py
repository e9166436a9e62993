"""The one cluster that a function is about, and what it is judged by.

A name is looked up in the inventory and the cluster is looked at; `Live` is reached by other ways;
`Stored` is what a night of the nightly's tables says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from featurelib.backends.embedded import EmbeddedCluster
from featurelib.backends.opening import TIMEOUT_SECONDS
from featurelib.catalogue import Catalogue
from featurelib.cli.catalogue import open_catalogue
from featurelib.configuration.settings import Settings
from featurelib.controller.commands import Way, way_of
from featurelib.controller.looking import Watcher
from featurelib.errors import ConfigError
from featurelib.questions.terms import Terms
from featurelib.reaching import Reached, reach
from featurelib.settings_file import open_settings
from featurelib.source import Source, Wanted, find_source


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One cluster, as the options chose it."""

    wanted: Wanted
    catalogue: Catalogue

    @property
    def settings(self) -> Settings:
        """The keys of conf/audit.toml."""
        return open_settings(self.wanted.config)

    def source(self) -> Source:
        """What is known of it: of a live cluster a look now."""
        return find_source(self.wanted, self.catalogue, _quietly)

    def terms(self, source: Source) -> Terms:
        """What the audit judges it by."""
        settings = self.settings
        return Terms(
            catalogue=self.catalogue,
            as_of=source.as_of,
            max_age=settings.max_age,
            fleet=source.fleet,
            severities=settings.severities,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored(Chosen):
    """One cluster as a night of the tables has it. It can be asked about, and planned for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Live(Chosen):
    """One cluster that answers: nothing is connected until a function needs it."""

    def reached(self) -> Reached:
        """How it is reached. Raises ConfigError where nothing says it."""
        wanted = self.wanted
        return reach(
            wanted.cluster,
            self.catalogue,
            fleet=wanted.fleet,
            bootstrap=wanted.bootstrap,
            controllers=wanted.controllers,
            zookeeper=wanted.zookeeper,
            file=wanted.file,
            timeout=wanted.timeout,
        )

    def way(self, journal: str | None = None) -> Way:
        """How a command reaches it, from any folder, and a journal that was named."""
        wanted = self.wanted
        addresses = {
            "bootstrap": wanted.bootstrap,
            "controllers": wanted.controllers,
            "zookeeper": wanted.zookeeper,
        }
        return way_of(
            wanted.cluster or "",
            addresses,
            file=wanted.file,
            fleet=wanted.fleet,
            journal=journal,
        )

    @contextmanager
    def watcher(self) -> Iterator[Watcher]:
        """Who looks at it and sends to it, until the block ends."""
        reached = self.reached()
        backend = reached.open()
        try:
            yield Watcher(
                backend=backend,
                catalogue=self.catalogue,
                fleet=reached.fleet,
                max_age=self.settings.max_age,
                say=_quietly,
            )
        finally:
            backend.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded(Live):
    """A cluster in a file. It answers as Kafka's controllers do: to learn with, and to try on."""

    def unregister(self, node_id: int) -> None:
        """Take a broker out, as `kafka-cluster.sh unregister --id` does. Raises InputError."""
        assert self.wanted.file is not None
        with EmbeddedCluster(self.wanted.file, self.catalogue.tables) as cluster:
            cluster.unregister(node_id)


AnyCluster = str | Chosen


def choose(cluster: AnyCluster) -> Chosen:
    """The cluster that is meant: a text is an id or name of conf/fleet.toml."""
    return cluster if isinstance(cluster, Chosen) else connect(cluster)


def choose_live(cluster: str | Live) -> Live:
    """The same, of a cluster that something is to be sent to. Raises ConfigError for another."""
    chosen = choose(cluster)
    if not isinstance(chosen, Live):
        raise ConfigError(
            "expected a cluster that answers, found what tables say of one. Name it as the "
            "inventory does, or reach it with connect(bootstrap='HOST:PORT')."
        )
    return chosen


def connect(
    cluster: str | None = None,
    *,
    bootstrap: str | None = None,
    controllers: str | None = None,
    zookeeper: str | None = None,
    file: str | None = None,
    fleet: str | None = None,
    config: str | None = None,
    overlay: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> Live:
    """A cluster that answers, named as the inventory names it or reached by addresses.

        connect("payments-eu")                              # conf/fleet.toml says how
        connect(bootstrap="kafka-1:9092,kafka-2:9092")      # brokers to ask first
        connect(file="cluster.db")                          # an embedded cluster

    `controllers` are listeners that brokers do not name (before Kafka 3.9), `zookeeper` is only
    read. `fleet`, `config` and `overlay` are files in the place of conf/fleet.toml, conf/audit.toml
    and no overlay. `timeout` in seconds, a node. Nothing is connected yet. Raises ConfigError.
    """
    wanted = Wanted(
        cluster=cluster,
        bootstrap=bootstrap,
        controllers=controllers,
        zookeeper=zookeeper,
        file=file,
        fleet=fleet,
        config=config,
        timeout=timeout,
    )
    live = Live(wanted=wanted, catalogue=open_catalogue(overlay))
    live.reached()
    return live


def _quietly(text: str) -> None:
    """A program reads results; progress is for a terminal."""
