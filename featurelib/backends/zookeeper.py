"""Read a cluster in ZooKeeper mode through its znodes, without writing.

One reading visits each path once. It lists the registered brokers before their registrations, so
the fold notices a registration whose line was lost. The client sets no watch.

This module opens connections itself, with the inventory's TLS settings, and keeps the reason of a
failure. kazoo's own TLS also trusts the system's authorities, and lets OpenSSL ask the terminal for
a key's password; after a failure kazoo only reports a timeout.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event, Thread

import msgspec

from featurelib.backends.credentials import Credentials
from featurelib.backends.kafka.connection import words
from featurelib.config.security import ZOOKEEPER, Security
from featurelib.errors import ConfigError, UnreachableError, needing
from featurelib.landing.kinds import BROKER_IDS
from featurelib.words import REFUSED_LOGIN

with needing("Clusters in ZooKeeper mode need the client kazoo", "zookeeper"):
    from kazoo.client import KazooClient
    from kazoo.exceptions import ConnectionClosedError, KazooException, NoNodeError
    from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
    from kazoo.retry import KazooRetry

# This module reports failures itself, so kazoo's log is off.
logging.getLogger("kazoo").setLevel(logging.CRITICAL)

# kazoo's states after a refused login; timing decides which state comes first.
_REFUSED = {
    "AuthFailedError",
    "ConnectionClosedError",
    "ConnectionLoss",
    "SessionClosedRequireSaslError",
}
_NO_RIGHT = {
    "NoAuthError": "the permission to read a znode is missing",
    "SessionClosedRequireSaslError": "the server requires SASL",
}
_NO_ANSWER = (
    "the server accepted the connection and gave no answer: it may require TLS or a client "
    "certificate, or it is not ZooKeeper"
)


class Connections:
    """The successive connections of one ZooKeeper client. `sasl`: kazoo's SASL settings, None
    without SASL."""

    def __init__(self, credentials: Credentials, timeout: float) -> None:
        """Read the secrets of the connections. `timeout`: seconds. Raises ConfigError."""
        self._credentials, self._timeout = credentials, timeout
        self._tls, self.sasl = credentials.tls(), credentials.sasl_options()
        self._failures: dict[str, str] = {}  # host:port → why no connection was opened
        self._is_tried = self._is_open = self._has_session = False
        self.is_in = False  # true once a request got a response: the client may read
        self._settled = Event()

    # kazoo calls the next methods: create_connection and spawn of its handler, and a state
    # listener.

    def open(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: object
    ) -> socket.socket:
        """Return a socket to `address`, with TLS as the inventory says; kazoo's own TLS options are
        ignored. Raises OSError."""
        self._is_tried = True
        try:
            connection = self._connect(address, hostname, timeout)
        except OSError as error:
            host = f"[{hostname}]" if ":" in hostname else hostname
            reason = words(error, self._credentials, round(self._timeout * 1000))
            self._failures[f"{host}:{address[1]}"] = reason
            raise
        self._is_open = True
        return connection

    def spawn(self, work: Callable[..., object], *args: object, **kwargs: object) -> Thread:
        """Run `work` in a thread. An error ends the wait for a session."""

        def run() -> None:
            with suppress(Exception):
                work(*args, **kwargs)
            self._settled.set()

        thread = Thread(target=run, daemon=True)
        thread.start()
        return thread

    def learn(self, state: str) -> None:
        """Record a state of kazoo's connection; CONNECTED means that a server granted a session."""
        if state == "CONNECTED":
            self._has_session = True
            self._settled.set()

    # read_znodes calls the next methods.

    def wait(self) -> None:
        """Wait until a server grants a session, all servers failed, or the timeout is over."""
        self._settled.wait(self._timeout)

    def why(self, error: Exception) -> str:
        """Return the reason why the znodes could not be read, in one line without secrets."""
        name, advice = type(error).__name__, self._credentials.advice
        if self._has_session and not self.is_in and self.sasl is not None and name in _REFUSED:
            return f"{REFUSED_LOGIN}. {advice}"
        if name in _NO_RIGHT:
            return f"{_NO_RIGHT[name]}. {advice}"
        if self._has_session:
            return self._credentials.hide(" ".join(str(error).split())) or name
        if self._failures:
            return " · ".join(f"{address}: {reason}" for address, reason in self._failures.items())
        if self._is_open:
            return f"{_NO_ANSWER}. {advice}"
        return "none" if self._is_tried else "the host name is not known"

    def _connect(self, address: tuple[str, int], hostname: str, timeout: float) -> socket.socket:
        connection = socket.create_connection(address, timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return connection
        try:
            return self._tls.wrap_socket(connection, server_hostname=hostname)
        except BaseException:
            connection.close()
            raise


# Kafka's code uses /feature, KIP-584 /features; all paths are below the chroot.
PATHS = ("/cluster/id", "/feature", "/features", "/controller", "/controller_epoch", "/migration")
PLAINTEXT = Security()


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """The content of one znode, as in a landing line. `data` None = the znode does not exist."""

    path: str
    at: datetime
    data: str | None
    content: dict[str, object]
    children: list[int] | None = None  # the ids of registered brokers, only for BROKER_IDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Znodes:
    """The content of all znodes that one collection read."""

    reads: tuple[Read, ...]

    @property
    def cluster_id(self) -> str:
        """The cluster id in `/cluster/id`; "" if unknown."""
        return next((_read_json(read).id for read in self.reads if read.path == "/cluster/id"), "")

    @property
    def brokers(self) -> dict[int, tuple[str, ...]]:
        """The addresses of brokers, id → host:port, in readable registrations. A listener SSL:

        host:9093 gives host:9093 (BrokerIdZNode).
        """
        return {
            int(read.path.rsplit("/", 1)[1]): tuple(
                url.partition("://")[2] for url in _read_json(read).endpoints
            )
            for read in self.reads
            if read.path.startswith(f"{BROKER_IDS}/") and read.data is not None
        }


class _Text(msgspec.Struct):
    """The keys that featurelib reads from a znode's JSON text."""

    id: str = ""
    endpoints: list[str] = []


_TEXT = msgspec.json.Decoder(_Text)


def _read_json(read: Read) -> _Text:
    try:
        return _TEXT.decode(read.data or "")
    except (msgspec.DecodeError, UnicodeError):
        return _Text()


def read_znodes(ensemble: str, timeout: float, security: Security = PLAINTEXT) -> Znodes:
    """Read all znodes once from `ensemble` (host:port,…/chroot). `timeout`: seconds per request.

    Raises UnreachableError if no server allows reading; ConfigError for a missing chroot, or
    unusable files or secrets of `security`."""
    hosts, _, below = ensemble.partition("/")
    chroot = f"/{below}".rstrip("/")
    connections = Connections(Credentials(security, ZOOKEEPER), timeout)
    client = _client(hosts, timeout, connections)
    try:
        client.start_async()
        connections.wait()
        if not client.connected:
            raise ConnectionClosedError("no session")
        # Only this request shows a rejected SASL login: it gets no response then.
        stat = client.exists_async(chroot or "/").get(timeout=timeout)
        connections.is_in = True
        if stat is None:
            raise ConfigError(
                f"zookeeper {ensemble}: The chroot /{below} does not exist. Copy the path from "
                "Kafka's zookeeper.connect."
            )
        return Znodes(reads=tuple(_round(client, chroot)))
    except (KazooException, KazooTimeoutError, OSError) as error:
        reason = connections.why(error).rstrip(".").removeprefix(f"{hosts}: ")
        if reason == "none" or "no answer" in reason:
            late = f"no response within {timeout:g} s"
            reason = late if reason == "none" else f"{late}: {reason}"
        advice = "" if "Check [" in reason else " Check the address in `zookeeper`."
        raise UnreachableError(
            f"ZooKeeper {ensemble}: {reason}. Nothing was read.{advice}"
        ) from error
    finally:
        client.stop()
        client.close()


def _client(hosts: str, timeout: float, connections: Connections) -> KazooClient:
    """Return a kazoo client that tries each server once."""
    once, handler = KazooRetry(max_tries=1), SequentialThreadingHandler()  # 0 would mean no limit
    handler.create_connection, handler.spawn = connections.open, connections.spawn
    client = KazooClient(  # the chroot is added later, after a check
        hosts=hosts,
        timeout=timeout,
        handler=handler,
        sasl_options=connections.sasl,
        connection_retry=once,
        command_retry=once,
    )
    client.add_listener(connections.learn)
    return client


def _round(client: KazooClient, chroot: str) -> Iterator[Read]:
    listed = _list_brokers(client, chroot)
    yield listed
    for path in (*PATHS, *(f"{BROKER_IDS}/{node}" for node in listed.children or ())):
        yield _read(client, chroot, path)


def _list_brokers(client: KazooClient, chroot: str) -> Read:
    """Return the ids of the registered brokers, as the read of `/brokers/ids`."""
    version = czxid = children = None
    with suppress(NoNodeError):
        names, stat = client.get_children(chroot + BROKER_IDS, include_data=True)
        version, czxid = stat.version, stat.czxid
        children = sorted(int(name) for name in names if name.isascii() and name.isdigit())
    content = {"path": BROKER_IDS, "version": version, "czxid": czxid, "data": None}
    return Read(
        path=BROKER_IDS,
        at=datetime.now(UTC),
        data=None,
        content=content if children is None else {**content, "children": children},
        children=children,
    )


def _read(client: KazooClient, chroot: str, path: str) -> Read:
    version = czxid = owner = text = None
    with suppress(NoNodeError):
        data, stat = client.get(chroot + path)
        version, czxid = stat.version, stat.czxid
        owner = None if stat.ephemeralOwner is None else hex(stat.ephemeralOwner)
        # A finding reports a damaged znode, so invalid UTF-8 is kept as �.
        text = (data or b"").decode("utf-8", "replace")
    content = {"path": path, "version": version, "czxid": czxid, "ephemeral_owner": owner}
    return Read(path=path, at=datetime.now(UTC), data=text, content={**content, "data": text})
