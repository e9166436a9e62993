"""Define the interface of a backend: a cluster that featurelib can read and change.

A backend holds no rule. A reading returns landing lines, the same as a collector writes, so plans,
audits and `apply` judge the same data. Wire quirks end inside a backend. Clients of Kafka and
ZooKeeper are optional and slow to import, so a backend is imported only when a cluster needs it.
`read_cluster` rejects lines of another cluster than the intended one.
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
Check = Callable[[], None] | None  # raises the reason not to send
SHOWN = 3  # clusters in an error message
OF_A_FILE = "featurelib.extras.sandbox.backend:open_embedded"  # opens a sandbox cluster
TIMEOUT_SECONDS = 10.0  # to connect to one node, and again for its response


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The guarantees of a backend about its cluster: with `validate_only`, no request that only
    validates is ever applied."""

    mode: str  # kraft, zk
    validate_only: bool


class Backend(Protocol):
    """A cluster. Close it when done; it may be used from one thread at a time."""

    @property
    def where(self) -> str:
        """The cluster's address for messages, without secrets."""

    def describe(self, say: Say) -> tuple[bytes, ...]:
        """Read every node once, and return landing lines; `say` gets the progress.

        A node that does not respond gets a line with the error. Raises UnreachableError when no
        node answers, ProtocolError.
        """

    def abilities(self) -> Abilities:
        """Return the guarantees after the last query of the cluster; query it if there was none."""

    def recipient(self) -> Recipient:
        """Connect to the node that gets the next `update`, and return the node; the update goes to
        no other node. Raises UnreachableError if no node can be connected to."""

    def passed(self, sent: Recipient | None, features: Collection[str]) -> Passed | NotPassed:
        """Prove that every node that may hold a request has handled all earlier requests. `sent` is
        the request's receiver (None: an earlier release sent it, and recorded no receiver),
        `features` are its features. Nothing is written. Raises no BackendError."""

    def update(self, step: Step, *, validate_only: bool = False, last_check: Check = None) -> Reply:
        """Send one UpdateFeatures request to the active controller, once, and return its response.

        `last_check` runs after all waiting, right before the bytes are sent. If it raises, nothing
        was sent. Raises UnreachableError if nothing was sent, OutcomeUnknownError if no answer
        came, RefusedError for `validate_only` where it would be written.
        """

    def close(self) -> None:
        """Close connections and files."""


def is_honoured(backend: Backend, dialects: Sequence[str]) -> bool:
    """Return true if a request that only validates cannot be applied: on KRaft, if all `dialects`
    that may be used there honour ValidateOnly."""
    abilities = backend.abilities()
    if abilities.mode != "kraft" or not abilities.validate_only or not dialects:
        return False
    return all(load(name).can.validate_only == HONOURED for name in dialects)


def may_prove(backend: Backend, dialects: Sequence[str], step: Step) -> bool:
    """Return true if the controller's acceptance of `step` proves registrations that no source
    lists: the controller checks every registered broker, and every node in its configuration.

    Never true for kraft.version: 4.1 and later apply it during validation (KAFKA-16538).
    """
    is_plain = all(move.feature != KRAFT_VERSION for move in step.updates)
    return is_plain and is_honoured(backend, dialects)


def moves_text(step: Step) -> str:
    """Return the levels of a request as one line."""
    return ", ".join(f"{u.feature} {u.from_level} to {u.to_level}" for u in step.updates)


def validate(backend: Backend, step: Step, say: Say | None = None) -> Reply:
    """Ask the controller to only validate `step`, and return its response. `say` is called before.
    Raises UnreachableError if it does not respond, RefusedError if it would write."""
    if say is not None:
        say(f"asking the controller to validate only: {moves_text(step)} (needs {ALTER})")
    try:
        return backend.update(step, validate_only=True)
    except OutcomeUnknownError as error:  # a request to validate writes nothing
        raise UnreachableError(
            f"the controller did not answer a request to validate: {error} Nothing was written."
        ) from error


def accepts(reply: Reply, step: Step) -> bool:
    """Return true if the controller accepts every update."""
    return reply.accepts(move.feature for move in step.updates)


def open_backend(
    entry: FleetEntry, catalogue: Catalogue, *, timeout: float = TIMEOUT_SECONDS
) -> Backend:
    """Return the backend of one cluster, without a connection. `timeout` in seconds per node.

    Raises ConfigError for an entry without a way to reach it, or whose client is not installed.
    """
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
    """Read a cluster once, and return landing lines of that cluster.

    Raises ConfigError where another cluster answers, and what `Backend.describe` raises.
    """
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
    """Return the id of a landing line's cluster."""
    return _ENVELOPE.decode(line).cluster_id


_ENVELOPE = msgspec.json.Decoder(_Envelope)
