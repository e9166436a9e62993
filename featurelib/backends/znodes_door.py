"""How connections to ZooKeeper are opened: by the inventory's TLS, with the reason kept where one
was not.

kazoo's own TLS trusts the system's authorities beside the one that is named, and has OpenSSL ask
the terminal for the password of a key. Of a failure kazoo says only that the time ran out.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

from featurelib.backends.kafka_words import words
from featurelib.backends.security import Credentials

# How kazoo calls what becomes of a user that is refused: it depends on who is quicker.
_REFUSED = {
    "AuthFailedError",
    "ConnectionClosedError",
    "ConnectionLoss",
    "SessionClosedRequireSaslError",
}
_NO_RIGHT = {
    "NoAuthError": "a node that may not be read by whoever this is",
    "SessionClosedRequireSaslError": "a server that lets nobody in without SASL",
}
_NO_ANSWER = (
    "a connection and no answer, as where TLS or a client's certificate is wanted and none is "
    "given, or where something else listens"
)


class Door:
    """Opens the connections of one client, one after the other; secrets are in it, and not shown.

    `sasl` is what the client is told of the user, by kazoo's names; None without SASL.
    """

    __slots__ = ("_credentials", "_failures", "_has_session", "_is_open", "_is_tried", "_settled",
                 "_timeout", "_tls", "is_in", "sasl")  # fmt: skip

    def __init__(self, credentials: Credentials, timeout: float) -> None:
        """Fetches what is secret. `timeout` in seconds. Raises ConfigError."""
        self._credentials, self._timeout = credentials, timeout
        self._tls, self.sasl = credentials.tls(), credentials.sasl_options()
        self._failures: dict[str, str] = {}  # host:port → why it was not opened
        self._is_tried = self._is_open = self._has_session = False
        self.is_in = False  # a request was answered, so whoever asks was let in
        self._settled = Event()

    # What kazoo calls: create_connection and spawn of a handler, a listener of a client.

    def open(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: object
    ) -> socket.socket:
        """A connection to `address` of the host that the inventory names; kazoo's own words for
        TLS are not read. Raises OSError."""
        self._is_tried = True
        try:
            connection = self._connect(address, hostname, timeout)
        except OSError as error:
            host = f"[{hostname}]" if ":" in hostname else hostname
            why = words(error, self._credentials, round(self._timeout * 1000))
            self._failures[f"{host}:{address[1]}"] = why
            raise
        self._is_open = True
        return connection

    def spawn(self, work: Callable[..., object], *given: object, **named: object) -> Thread:
        """Runs `work` beside. What ends it ends the wait and is told by whoever waits for an
        answer; nothing of it goes to the terminal."""

        def run() -> None:
            with suppress(Exception):
                work(*given, **named)
            self._settled.set()

        thread = Thread(target=run, daemon=True)
        thread.start()
        return thread

    def learn(self, state: str) -> None:
        """Hears that a server gave a session."""
        if state == "CONNECTED":
            self._has_session = True
            self._settled.set()

    # What read_znodes asks.

    def wait(self) -> None:
        """Until a server gave a session, all of them failed, or the time is over."""
        self._settled.wait(self._timeout)

    def why(self, error: Exception) -> str:
        """Why nothing could be read, in one line without secrets."""
        name, advice = type(error).__name__, self._credentials.advice
        if self._has_session and not self.is_in and self.sasl is not None and name in _REFUSED:
            return f"authentication failed. {advice}"
        if name in _NO_RIGHT:
            return f"{_NO_RIGHT[name]}. {advice}"
        if self._has_session:
            return self._credentials.hide(" ".join(str(error).split())) or name
        if self._failures:
            return " · ".join(f"{address}: {why}" for address, why in self._failures.items())
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
