"""What ZooKeeper holds of a cluster in ZooKeeper mode. It only reads, and cannot do otherwise.

A round reads each path once: a path that was read twice after a registration was last seen is how
a later reader knows that the registration is gone. No watch is left behind.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from featurelib.backends.security import Credentials
from featurelib.backends.znodes_door import Door
from featurelib.configuration.security import ZOOKEEPER, Security
from featurelib.errors import ConfigError, UnreachableError, install_line

try:
    from kazoo.client import KazooClient
    from kazoo.exceptions import ConnectionClosedError, KazooException, NoNodeError
    from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
    from kazoo.retry import KazooRetry
except ImportError as error:
    raise ConfigError(
        "Clusters in ZooKeeper mode need the client kazoo, found none. Install it, "
        + install_line("zookeeper")
    ) from error

# What fails is said here.
logging.getLogger("kazoo").setLevel(logging.CRITICAL)

# Kafka's code says /feature, KIP-584 says /features; all below the chroot.
PATHS = ("/cluster/id", "/feature", "/features", "/controller", "/controller_epoch", "/migration")
REGISTRATIONS = "/brokers/ids"
PLAINTEXT = Security()


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One read of one path; `version` and `data` None = there is no such node."""

    path: str
    at: datetime
    version: int | None
    czxid: int | None
    ephemeral_owner: int | None
    data: str | None

    @property
    def content(self) -> dict[str, object]:
        """What its landing line holds beside kind, cluster and time."""
        owner = None if self.ephemeral_owner is None else hex(self.ephemeral_owner)
        return {
            "path": self.path,
            "version": self.version,
            "czxid": self.czxid,
            "ephemeral_owner": owner,
            "data": self.data,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Znodes:
    """One round of reading."""

    reads: tuple[Read, ...]

    @property
    def cluster_id(self) -> str:
        """What `/cluster/id` says; empty where it says nothing."""
        data = next((read.data for read in self.reads if read.path == "/cluster/id"), None)
        try:
            return _ID.decode(data or "").id
        except (msgspec.DecodeError, UnicodeError):
            return ""

    @property
    def brokers(self) -> dict[int, tuple[str, ...]]:
        """Broker id → its addresses as host:port, of the registrations that can be read."""
        found = {}
        for read in self.reads:
            if read.path.startswith(REGISTRATIONS) and read.data is not None:
                found[int(read.path.rsplit("/", 1)[1])] = tuple(_addresses(read.data))
        return found


def read_znodes(where: str, timeout: float, security: Security = PLAINTEXT) -> Znodes:
    """One round of reading at `where` (host:port,…/chroot), `timeout` in seconds, each request.

    Raises UnreachableError where no server answers or lets us read, ConfigError for a chroot
    that is not there, or for files and secrets of `security` that do not serve.
    """
    hosts, _, below = where.partition("/")
    chroot = f"/{below}".rstrip("/")
    door = Door(Credentials(security, ZOOKEEPER), timeout)
    client = _client(hosts, timeout, door)
    try:
        client.start_async()
        door.wait()
        if not client.connected:
            raise ConnectionClosedError("no session")
        # SASL may still be under way: a client that is thrown out then may forget a request.
        found = client.exists_async(chroot or "/").get(timeout=timeout)
        door.is_in = True
        if found is None:
            raise ConfigError(
                f"zookeeper {where}: expected the chroot to exist, found no such node. "
                "Mend the path behind the slash; it is Kafka's zookeeper.connect."
            )
        return Znodes(reads=tuple(_round(client, chroot)))
    except (KazooException, KazooTimeoutError, OSError) as error:
        why = door.why(error).rstrip(".").removeprefix(f"{hosts}: ")
        limit = f" within {timeout:g} s" if why == "none" or "no answer" in why else ""
        raise UnreachableError(
            f"zookeeper {where}: expected an answer{limit}, found: {why}. Nothing was read."
        ) from error
    finally:
        client.stop()
        client.close()


def _client(hosts: str, timeout: float, door: Door) -> KazooClient:
    """A client that tries each server once, and that nobody waits for."""
    once, handler = KazooRetry(max_tries=1), SequentialThreadingHandler()  # 0 were for ever
    handler.create_connection, handler.spawn = door.open, door.spawn
    client = KazooClient(  # without the chroot: kazoo warns where it is missing, we refuse
        hosts=hosts,
        timeout=timeout,
        handler=handler,
        sasl_options=door.sasl,
        connection_retry=once,
        command_retry=once,
    )
    client.add_listener(door.learn)
    return client


def _round(client: KazooClient, chroot: str) -> Iterator[Read]:
    try:
        names = client.get_children(chroot + REGISTRATIONS)
    except NoNodeError:
        names = []
    ids = sorted(int(name) for name in names if name.isascii() and name.isdigit())
    for path in (*PATHS, *(f"{REGISTRATIONS}/{node}" for node in ids)):
        yield _read(client, chroot, path)


def _read(client: KazooClient, chroot: str, path: str) -> Read:
    version = czxid = owner = text = None
    try:
        data, stat = client.get(chroot + path)
    except NoNodeError:
        pass
    else:
        version, czxid, owner = stat.version, stat.czxid, stat.ephemeralOwner
        text = (data or b"").decode("utf-8", "replace")  # damage is evidence
    return Read(
        path=path,
        at=datetime.now(UTC),
        version=version,
        czxid=czxid,
        ephemeral_owner=owner,
        data=text,
    )


class _Id(msgspec.Struct):
    id: str


class _Registration(msgspec.Struct):
    endpoints: list[str] = []


_ID = msgspec.json.Decoder(_Id)
_REGISTRATION = msgspec.json.Decoder(_Registration)


def _addresses(data: str) -> Iterator[str]:
    """The listeners of a registration: SSL://host:9093 reads host:9093 (BrokerIdZNode)."""
    try:
        endpoints = _REGISTRATION.decode(data).endpoints
    except (msgspec.DecodeError, UnicodeError):
        return
    for endpoint in endpoints:
        yield endpoint.partition("://")[2]
