"""Define the interface of a backend: a cluster that featurelib can read and change.

A backend contains no rule. A query returns landing lines like those of a collector, so plans,
audits and `apply` judge equal data. A backend hides the differences between protocol versions.
Clients of Kafka and ZooKeeper are optional and slow to import, so a backend is imported only when a
cluster needs it. `read_cluster` rejects lines of another cluster than the intended one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Protocol

import msgspec

from featurelib.catalogue import Catalogue
from featurelib.config.fleet import FleetEntry
from featurelib.core.dialect import HONOURED, load
from featurelib.core.reply import Reply
from featurelib.errors import ConfigError, OutcomeUnknownError, UnreachableError
from featurelib.feature import KRAFT_VERSION
from featurelib.landing.responses import ALTER
from featurelib.model import NotPassed, Passed, Recipient, Step
from featurelib.words import OTHER_CLUSTER, clean, some

Say = Callable[[str], None]
Check = Callable[[], None] | None  # raises an error if the request must not be sent
SHOWN = 3  # the maximum number of clusters in an error message
OF_A_FILE = "featurelib.extras.sandbox.backend:open_embedded"  # the opener of sandbox clusters
TIMEOUT_SECONDS = 10.0  # seconds to connect to a node, and again for its response


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The guarantees of a backend. `validate_only`: it supports validation without writing."""

    mode: str  # the cluster's mode: kraft or zk
    validate_only: bool


class Backend(Protocol):
    """The connection to one cluster. Only one thread at a time may use it; the caller closes it."""

    @property
    def where(self) -> str:
        """The cluster's address as text for messages, without secrets."""

    def describe(self, say: Say) -> tuple[bytes, ...]:
        """Query every node once; return landing lines. `say`: gets the progress. A node that does
        not respond gets a line with the error. Raises UnreachableError if no node responds,
        ProtocolError."""

    def abilities(self) -> Abilities:
        """Return the guarantees of the backend. The first call queries the cluster."""

    def recipient(self) -> Recipient:
        """Connect to the node that will receive the next `update`, and return that node. Raises
        UnreachableError if no connection succeeds."""

    def passed(self, sent: Recipient | None, features: Collection[str]) -> Passed | NotPassed:
        """Return a proof that no node still holds an earlier request, or the reason why no proof
        exists. `sent`: the receiver of the request, None = unknown; `features`: the features of the
        request. Writes nothing. Raises no BackendError."""

    def update(self, step: Step, *, validate_only: bool = False, last_check: Check = None) -> Reply:
        """Send one UpdateFeatures request to the active controller once; return the response.

        `last_check`: runs right before sending; if it raises, nothing is sent. Raises
        UnreachableError (not sent), OutcomeUnknownError (no response), RefusedError
        (`validate_only`, but the cluster would apply the request)."""

    def close(self) -> None:
        """Close all connections and files of the backend."""


def is_honoured(backend: Backend, dialects: Sequence[str]) -> bool:
    """Return true if the cluster cannot apply a request that only validates. In KRaft mode all
    possible `dialects` must honour ValidateOnly."""
    abilities = backend.abilities()
    if abilities.mode != "kraft" or not abilities.validate_only or not dialects:
        return False
    return all(load(name).can.validate_only == HONOURED for name in dialects)


def may_prove(backend: Backend, dialects: Sequence[str], step: Step) -> bool:
    """Return true if the controller's acceptance of `step` proves that no registered or configured
    node blocks it. Always false for kraft.version, because 4.1 and later apply its update during
    validation (KAFKA-16538)."""
    is_plain = all(move.feature != KRAFT_VERSION for move in step.updates)
    return is_plain and is_honoured(backend, dialects)


def moves_text(step: Step) -> str:
    """Return the level changes of a request in one line."""
    return ", ".join(f"{u.feature} {u.from_level} to {u.to_level}" for u in step.updates)


def validate(backend: Backend, step: Step, say: Say | None = None) -> Reply:
    """Let the controller validate `step` without applying it; return the response. Calls `say`
    first. Raises UnreachableError (no response), RefusedError (the step would be applied)."""
    if say is not None:
        say(f"asking the controller to validate only: {moves_text(step)} (needs {ALTER})")
    try:
        return backend.update(step, validate_only=True)
    except OutcomeUnknownError as error:  # a request to validate writes no record
        raise UnreachableError(
            f"the controller did not respond to a validation request: {error} Nothing was written."
        ) from error


def accepts(reply: Reply, step: Step) -> bool:
    """Return true if the response accepts every update of `step`."""
    return reply.accepts(move.feature for move in step.updates)


def open_backend(
    entry: FleetEntry, catalogue: Catalogue, *, timeout: float = TIMEOUT_SECONDS
) -> Backend:
    """Return the backend for one cluster, not yet connected. `timeout`: seconds per node. Raises
    ConfigError for an entry without address, or if the client package is not installed."""
    if entry.file:
        backend: Backend = resolve_name(OF_A_FILE)(entry, catalogue)
        return backend
    if entry.is_reachable:
        from featurelib.backends.kafka.backend import open_kafka

        return open_kafka(entry, timeout=timeout)
    raise ConfigError(
        f"cluster {entry.title!r} has no address. Add bootstrap, controller_bootstrap, zookeeper "
        "or file to its entry in the inventory, or give --bootstrap HOST:PORT."
    )


def read_cluster(backend: Backend, entry: FleetEntry, say: Say) -> tuple[bytes, ...]:
    """Query a cluster once; return its landing lines. Raises ConfigError if another cluster
    responds, and the errors of `Backend.describe`."""
    lines = backend.describe(say)
    ids = sorted(set(map(id_of, lines)))
    if entry.id and ids != [entry.id]:
        raise ConfigError(
            f"{backend.where}: {OTHER_CLUSTER} {entry.id} ({entry.title}), found "
            f"{some([*map(clean, ids)], SHOWN) or 'none'}. Fix its addresses or its id in the "
            "inventory."
        )
    return lines


class _Envelope(msgspec.Struct):
    cluster_id: str


def id_of(line: bytes) -> str:
    """Return the cluster id of a landing line."""
    return _ENVELOPE.decode(line).cluster_id


_ENVELOPE = msgspec.json.Decoder(_Envelope)
