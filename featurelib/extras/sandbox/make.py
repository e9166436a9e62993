"""Make a sandbox cluster: the function behind `featurelib sandbox make`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from featurelib.api.clusters import Live
from featurelib.catalogue import NEWEST_RELEASE
from featurelib.collecting import landing_lines
from featurelib.config.files import open_catalogue
from featurelib.errors import ConfigError
from featurelib.extras.initial_levels.storage_format import choose_software
from featurelib.extras.sandbox.backend import captured, formatted
from featurelib.extras.sandbox.cluster import EmbeddedCluster
from featurelib.source import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox(Live):
    """A cluster in a file that responds like Kafka's controllers, to try plans."""

    def unregister(self, node_id: int) -> None:
        """Remove a broker, as `kafka-cluster.sh unregister --id` does. Raises InputError."""
        assert self.wanted.file is not None
        with EmbeddedCluster(self.wanted.file, self.catalogue.tables) as cluster:
            cluster.unregister(node_id)


def sandbox(
    file: str,
    *,
    software: str = NEWEST_RELEASE,
    metadata: str | None = None,
    brokers: int = 3,
    controllers: int = 3,
    capture: str | None = None,
    overlay: str | None = None,
) -> Sandbox:
    """Make a cluster in a file that answers as Kafka's controllers do: to learn, and to try plans.

        cluster = sandbox("cluster.db", software="4.1", metadata="3.9")
        copy = sandbox("copy.db", capture="data/samples/orders-prod-us")

    `capture` makes it like the cluster of these landing lines, a file or a folder. An existing file
    is opened with connect(file=…). Raises ConfigError, LandingError.
    """
    catalogue = open_catalogue(overlay)
    if Path(file).exists():
        raise ConfigError(f"{file} exists already. Choose another file name.")
    if capture is not None:
        made = captured(capture, landing_lines("--capture", capture), catalogue)
    else:
        made = formatted(choose_software(catalogue, software), metadata, brokers, controllers)
    with EmbeddedCluster(file, catalogue.tables, mode=made.mode, cluster_id=made.cluster_id) as new:
        new.put(made.cluster, len(made.cluster.nodes))
    return Sandbox(wanted=Wanted(file=file), catalogue=catalogue)
