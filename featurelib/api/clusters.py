"""The one cluster that a function is about, and what it is judged by.

A name is looked up in the inventory and the cluster is looked at; `Live` is reached by other ways;
`Stored` is what a night of the nightly's tables says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from featurelib.backends.embedded import EmbeddedCluster
from featurelib.backends.opening import TIMEOUT_SECONDS
from featurelib.catalogue import Catalogue
from featurelib.cli.options import open_catalogue
from featurelib.config.files import open_settings
from featurelib.config.settings import Settings
from featurelib.controller.journal import Way, way_of
from featurelib.controller.look import Watcher
from featurelib.errors import ConfigError, install_line
from featurelib.questions.describe import Description, describe
from featurelib.questions.draft import Terms
from featurelib.source import Reached, Source, Wanted, find_source, reach
from featurelib.view.describe import describe_page


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


# ----------------------------------------
# What the functions give back: values for a program, which show themselves to a person.
#
# `str()` is the text the command of the same name prints; a notebook shows that text too.

INSTALL = f"Install it, {install_line('notebook')}"

Value = TypeVar("Value")


class Readable:
    """Something whose text is for people, also where a notebook shows it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answer(Readable, Generic[Value]):
    """The answer to a question: its value, the text for a person, and its rows for a table."""

    value: Value
    text: str
    rows: tuple[dict[str, object], ...]

    def __str__(self) -> str:
        return self.text

    def frame(self) -> Any:
        """The rows as a pandas DataFrame. Raises ConfigError where pandas is not installed."""
        return to_frame(pa.Table.from_pylist(list(self.rows)))


def to_frame(table: pa.Table) -> Any:
    """The table as a pandas DataFrame. Raises ConfigError where pandas is not installed."""
    try:
        return table.to_pandas(integer_object_nulls=True)  # else a level is 27.0
    except ImportError as error:
        raise ConfigError(f"tables in a notebook need the package pandas. {INSTALL}") from error


# ----------------------------------------
# A cluster described as KIP-584's Admin describes one, but by all of its nodes.
#
# FeatureMetadata has what one broker said. Here every node's range is kept with whose it is, and
# what
# is finalized is what the witness says who is believed.


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalized:
    """What is finalized of one feature. `min_version_level` is above 1 in ZooKeeper mode only."""

    min_version_level: int
    max_version_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Supported:
    """One range of a feature, and the nodes that support it, as `broker 2`."""

    min_version: int
    max_version: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Described(Readable):
    """One cluster. `finalized` None = nobody trustworthy says; a feature that is not in it is not
    finalized. `finalized_features_epoch` None = no witness knows one (-1 on the wire). `supported`
    has every range of a feature that some node has; nodes that do not list it are in none.
    `description` has all there is: nodes, who is silent, who contradicts, findings."""

    cluster_id: str
    finalized: Mapping[str, Finalized] | None
    finalized_features_epoch: int | None
    supported: Mapping[str, tuple[Supported, ...]]
    description: Description
    text: str

    def __str__(self) -> str:
        return self.text


def describe_features(cluster: AnyCluster) -> Described:
    """What every node of a cluster supports, and what is finalized (KIP-584, describeFeatures).

        describe_features("payments-eu").finalized["metadata.version"].max_version_level
        describe_features(connect(bootstrap="kafka-1:9092"))

    Kafka's own asks one broker; here every listener is asked, controllers too. `print` it, or let
    a notebook show it, and it is what `featurelib describe` says. Nothing is changed. Raises
    ConfigError (it cannot be reached), UnreachableError (nobody answers), NoEvidenceError.
    """
    chosen = choose(cluster)
    source = chosen.source()
    said = describe(source.sight, chosen.catalogue)
    trusted = all(level.level is not None for level in said.levels) and any(
        witness.is_believed for witness in said.witnesses
    )
    finalized = {
        level.feature: Finalized(
            min_version_level=level.min_level or 0, max_version_level=level.level
        )
        for level in said.levels
        if level.level
    }
    return Described(
        cluster_id=said.cluster_id,
        finalized=finalized if trusted else None,
        finalized_features_epoch=epoch_of(said),
        supported=dict(_supported(said)),
        description=said,
        text=str(describe_page(said, source.entry, source.made_from)),
    )


def epoch_of(said: Description) -> int | None:
    """The epoch of the witness that is believed; -1 says that it does not know."""
    epochs = [witness.epoch for witness in said.witnesses if witness.is_believed]
    return epochs[0] if epochs and epochs[0] >= 0 else None


def _supported(said: Description) -> Iterator[tuple[str, tuple[Supported, ...]]]:
    for feature in sorted({name for profile in said.profiles for name in profile}):
        nodes: dict[tuple[int, int], list[str]] = {}
        for node in said.nodes:
            ends = None if node.profile is None else said.profiles[node.profile].get(feature)
            if ends is not None:
                nodes.setdefault(ends, []).append(f"{node.role} {node.node_id}")
        yield (
            feature,
            tuple(
                Supported(min_version=low, max_version=high, nodes=tuple(mine))
                for (low, high), mine in sorted(nodes.items())
            ),
        )
