"""Which backend a cluster of the inventory is reached by.

Clients of Kafka and ZooKeeper are optional and slow to import, so a backend is imported only when
a cluster needs it. What a look brings is checked to be of the cluster that was meant.
"""

from __future__ import annotations

import msgspec

from featurelib.backends.base import Backend, Say
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import FleetEntry
from featurelib.errors import ConfigError
from featurelib.words import clean, some

SHOWN = 3  # clusters
TIMEOUT_SECONDS = 10.0  # to connect to one node, and again for its answer


def open_backend(
    entry: FleetEntry, catalogue: Catalogue, *, timeout: float = TIMEOUT_SECONDS
) -> Backend:
    """The backend of one cluster; nothing is connected yet. `timeout` in seconds, a node.

    Raises ConfigError for an entry without a way to reach it, or whose client is not installed.
    """
    if entry.file:
        from featurelib.backends.embedded import open_embedded

        return open_embedded(entry, catalogue)
    if entry.is_reachable:
        from featurelib.backends.kafka.backend import open_kafka

        return open_kafka(entry, timeout=timeout)
    raise ConfigError(
        f"cluster {entry.title!r}: expected a way to reach it, found none. Add bootstrap, "
        "controller_bootstrap, zookeeper or file to its entry in the inventory, or give "
        "--bootstrap HOST:PORT."
    )


def look(backend: Backend, entry: FleetEntry, say: Say) -> tuple[bytes, ...]:
    """One look at a cluster, as landing lines of the cluster that was meant.

    Raises ConfigError where another cluster answers, and what `Backend.describe` raises.
    """
    lines = backend.describe(say)
    found = sorted({_ENVELOPE.decode(line).cluster_id for line in lines})
    if entry.id and found != [entry.id]:
        raise ConfigError(
            f"{backend.where}: expected the cluster {entry.id} ({entry.title}), found "
            f"{some([*map(clean, found)], SHOWN) or 'none'}. Mend its addresses or its id in the "
            "inventory."
        )
    return lines


class _Envelope(msgspec.Struct):
    cluster_id: str


_ENVELOPE = msgspec.json.Decoder(_Envelope)
