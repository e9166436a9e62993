"""Connect to one listener, and send each request once over the connection.

The admin client of kafka-python requests Metadata first, chooses a broker, and repeats updates. So
this module uses lower parts of that client (featurelib.backends.kafka.internals). It opens the
socket itself, so the socket is always closed, and the TLS handshake has a time limit.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
import time
from threading import Lock
from typing import Any

from featurelib.backends.base import Check
from featurelib.backends.credentials import Credentials
from featurelib.backends.kafka.internals import (
    SOFTWARE,
    Api,
    KafkaConnection,
    NetworkSelector,
    PlainTransport,
    SecuredTransport,
    TokenProvider,
    make_request,
)
from featurelib.errors import FeatureLibError, UnreachableError
from featurelib.words import OTHER_SECURITY, REFUSED_LOGIN, clean

# The limits of one query of a cluster. A broken or hostile listener may send an endless response,
# or list a hundred thousand nodes. Real clusters stay far below: lists of a thousand nodes have 50
# to 300 kB, and ranges of a thousand features 60 kB.
MEGABYTE = 1_000_000
LONGEST_WORDS = 500  # the maximum length of another program's message, in characters
LISTS = 4 * MEGABYTE  # the maximum size of a response with a list of nodes, in bytes
LONGEST_ANSWER_BYTES = {
    Api.METADATA: LISTS,
    Api.DESCRIBE_CLUSTER: LISTS,
    Api.DESCRIBE_QUORUM: LISTS,
    Api.LIST_PARTITION_REASSIGNMENTS: 4 * LISTS,  # all partitions; not in a reading of a cluster
}
LONGEST_OTHER_ANSWER_BYTES = MEGABYTE
LONGEST_OF_ALL = max(LONGEST_ANSWER_BYTES.values())
MOST_BYTES = 64 * MEGABYTE  # for all responses of a cluster; parsing them takes up to half a minute
MOST_NODES = 5_000  # the maximum number of nodes per role
MOST_ADDRESSES = 8  # the maximum number of addresses per node
TIME_LIMITS = 30  # a cluster's query may take this many timeouts …
LEAST_SECONDS = 60.0  # … and at least this many seconds


class Allowance:
    """The time and bytes left for a cluster, shared by threads. `timeout`: seconds per node."""

    def __init__(self, timeout: float) -> None:
        self._seconds = max(LEAST_SECONDS, TIME_LIMITS * timeout)
        self._over_at = time.monotonic() + self._seconds
        self._left = MOST_BYTES
        self._lock = Lock()

    def take(self, count: int) -> None:
        """Subtract `count` received bytes from the remaining bytes."""
        with self._lock:
            self._left -= count

    def expect_more(self, address: str) -> None:
        """Raise UnreachableError if no time or no bytes remain for querying `address`."""
        if reason := self.spent:
            raise UnreachableError(f"{address}: not asked, {reason}")

    @property
    def spent(self) -> str:
        """The reason why no further node is queried; "" while time and bytes remain."""
        if self._left < 0:
            return f"the nodes of this cluster answered with more than {_megabytes(MOST_BYTES)}"
        if time.monotonic() > self._over_at:
            return f"the reading may take at most {self._seconds:g} s"
        return ""


def too_long(most: int) -> str:
    """Return the reason why a response longer than `most` bytes was not read."""
    return f"its answer is longer than {_megabytes(most)}, and was not read"


def _megabytes(count: int) -> str:
    return f"{count // MEGABYTE} MB"


_NUMBER = re.compile(r"^\[Error -?\d+\] ")
_AUTHENTICATION = "SaslAuthenticationFailedError"
_KERBEROS = "GSSError"  # no ticket, or the Kerberos realm does not know the listener
NO_LENGTH = 0x15000000  # bytes; the first bytes of TLS and HTTP would mean a longer frame
TLS_ALERT = range(NO_LENGTH, 0x16000000)  # the first four bytes of a TLS alert, read as a length
_TIMES = {"RequestTimedOutError", "KafkaTimeoutError"}
_CLOSED = "socket disconnected"


def words(error: Exception, credentials: Credentials, timeout_ms: int) -> str:
    """Return the reason why a listener could not be queried, in one line without secrets."""
    name = type(error).__name__
    text = _NUMBER.sub("", str(error)).removeprefix(name).removeprefix(": ")
    text = clean(credentials.hide(" ".join(text.split())), LONGEST_WORDS) if text else ""
    if reason := _other_security(error, credentials):
        return f"{OTHER_SECURITY}: {reason}. {credentials.advice}"
    if name == _AUTHENTICATION or _KERBEROS in (kind.__name__ for kind in type(error).__mro__):
        detail = f": {text}" if text else f" ({name})"
        return f"{REFUSED_LOGIN}{detail}. {credentials.advice}"
    if isinstance(error, TimeoutError) or name in _TIMES:
        return f"no answer within {timeout_ms / 1000:g} s"
    if isinstance(error, socket.gaierror):
        return f"the host name is not known ({error.strerror})"
    if isinstance(error, ssl.SSLError | ConnectionResetError | BrokenPipeError):
        return f"the handshake failed: {text}. {credentials.advice}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if isinstance(error, UnicodeError | OverflowError):
        return "nobody can have such an address"
    if name == "InvalidReceiveError":  # the bytes are no frame of Kafka's protocol
        if LONGEST_OF_ALL < int(text.rpartition(" ")[2]) < NO_LENGTH:
            return too_long(LONGEST_OF_ALL)
        return f"what listens there does not answer as Kafka does here. {credentials.advice}"
    if text == _CLOSED:
        likely = "" if credentials.security.is_sasl else ", as one that wants a login (SASL) does"
        return f"the listener closed the connection{likely}. {credentials.advice}"
    return f"{name}: {text}" if text else name


def _other_security(error: Exception, credentials: Credentials) -> str:
    """Return the security setting that the listener probably requires, judged by its error; "" =
    another error."""
    security, name, text = credentials.security, type(error).__name__, str(error)
    if name == "UnsupportedSaslMechanismError":
        return f"it does not take the mechanism {security.mechanism}"
    if name == "IllegalSaslStateError":
        return f"it takes no login, so its protocol is {'SSL' if security.is_tls else 'PLAINTEXT'}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); ca_file names who signed"
    if isinstance(error, ssl.SSLEOFError):
        return "it ended the TLS handshake, as one without TLS does"
    if getattr(error, "reason", "") == "WRONG_VERSION_NUMBER":
        return "it answers without TLS"
    if name == "InvalidReceiveError" and int(text.rpartition(" ")[2]) in TLS_ALERT:
        return "it answers by TLS, so its protocol is SASL_SSL" + " or SSL" * (not security.is_sasl)
    if text.endswith(_CLOSED) and security.is_tls and not security.is_sasl:
        return "it closed the connection, as one that wants a login (SASL_SSL) does"
    return ""


_PAUSE_MS = 50
_RESET = struct.pack("ii", 1, 0)  # the value of SO_LINGER for zero seconds
_LEAST_SECONDS = 0.001  # 0 would mean no wait

_CLIENT = {"client_id": "featurelib", "receive_message_max_bytes": LONGEST_OF_ALL}


class LostError(Exception):
    """The error of a sent request that got no response. The text has no secrets."""


class Connection:
    """An open, authenticated connection; only its own thread closes it.

    `connect_ms` limits opening, `timeout_ms` each response (and opening by default). Received bytes
    count against the `allowance`. `offered` is API key → (lowest, highest version). Raises
    UnreachableError, ConfigError.
    """

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        timeout_ms: int,
        connect_ms: int | None = None,
        allowance: Allowance | None = None,
    ) -> None:
        self.address, self.credentials, self._timeout_ms = address, credentials, timeout_ms
        self._allowance = allowance
        self.last_check: Check = None  # `send` calls it right before the bytes
        connect_ms = timeout_ms if connect_ms is None else connect_ms
        settings = credentials.settings()
        try:
            token = credentials.token(timeout_ms / 1000)
        except UnreachableError as error:
            raise UnreachableError(
                f"{address}: not asked. {credentials.hide(str(error))}"
            ) from None
        if token is not None:
            settings["sasl_oauth_token_provider"] = TokenProvider(token)
        self._net, self._socket = NetworkSelector(), _LimitedSocket(allowance)
        self._connection: Any = KafkaConnection(
            self._net, node_id=address, **_CLIENT, **SOFTWARE, **settings
        )
        try:
            self._open(connect_ms / 1000)
            offered = self._connection.broker_version_data.api_versions
        except FeatureLibError:
            self.close()
            raise
        except Exception as error:  # SASL mechanisms raise any class
            self.close()
            reason = self._socket.fault or words(error, credentials, connect_ms)
            raise UnreachableError(f"{address}: {reason}") from None
        self.offered: dict[int, tuple[int, int]] = dict(offered)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._net.close()
        if self._socket.opened is not None:
            self._socket.opened.close()

    def forget_when_lost(self) -> None:
        """Set the socket to discard undelivered bytes when the connection or this process ends.
        Otherwise the kernel could send a request later."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def send(self, api: Api, version: int, fields: dict[str, object], more_ms: int = 0) -> Any:
        """Send a request once; return the response. `more_ms`: the timeout in the request. Raises
        UnreachableError (not sent), LostError (no response)."""
        request, wait_ms = make_request(api, version, fields), self._timeout_ms + more_ms
        self._socket.expect(api)

        async def answered() -> Any:
            await self._wait_until_idle()
            if self.last_check is not None:
                self.last_check()
            return await self._connection.send_request(request, request_timeout_ms=wait_ms)

        try:
            return self._net.run(answered)
        except FeatureLibError:  # raised before the request was sent
            raise
        except Exception as error:
            reason = self._socket.fault or words(error, self.credentials, wait_ms)
            raise LostError(reason) from None

    def _open(self, limit: float) -> None:
        """Open the connection, log in, and read the supported versions, within `limit` seconds."""
        over_at = time.monotonic() + limit
        host, _, port = self.address.rpartition(":")
        host = host.strip("[]")
        opened = socket.create_connection((host, int(port)), limit)
        self._socket.opened, transport = opened, PlainTransport
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if (context := self.credentials.tls()) is not None:
            opened.settimeout(max(over_at - time.monotonic(), _LEAST_SECONDS))
            self._socket.opened = context.wrap_socket(opened, server_hostname=host.rstrip("."))
            transport = SecuredTransport
        self._socket.setblocking(False)
        self._connection.connection_made(transport(self._net, self._socket, host=host))

        async def initialized() -> None:
            await self._connection.initialize(timeout_at=over_at)
            await self._connection.init_future

        self._net.run(initialized)

    async def _wait_until_idle(self) -> None:
        """Wait while the listener throttles, or a login is renewed. Raises UnreachableError."""
        connection, was_free = self._connection, True
        for _ in range(self._timeout_ms // _PAUSE_MS):
            if not connection.connected:
                break
            is_free = not connection.paused and not connection.in_flight_requests
            if is_free and was_free:  # a login pauses between two requests
                return
            was_free = is_free
            await self._net.sleep(_PAUSE_MS / 1000)
        raise UnreachableError(
            f"{self.address}: expected an open connection that is free for a request, found it "
            "closed or throttled, or its login being renewed. Nothing was sent."
        )


class _LimitedSocket:
    """A socket with a limit on received bytes. `fault`: the error after the limit was exceeded."""

    def __init__(self, allowance: Allowance | None) -> None:
        self._allowance, self.fault = allowance, ""
        self.opened: socket.socket | None = None
        self.expect(Api.API_VERSIONS)

    def expect(self, api: Api) -> None:
        """Set the limit for the next response, which answers a request of type `api`."""
        self._most = self._left = LONGEST_ANSWER_BYTES.get(api, LONGEST_OTHER_ANSWER_BYTES)

    def recv(self, most: int) -> bytes:
        """Return at most `most` received bytes. Raises OSError if the response is too long."""
        assert self.opened is not None
        data = self.opened.recv(most)
        self._left -= len(data)
        if self._allowance is not None:
            self._allowance.take(len(data))
            self.fault = self._allowance.spent
        if self._left < 0:
            self.fault = too_long(self._most)
        if self.fault:
            raise OSError(self.fault)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.opened, name)
