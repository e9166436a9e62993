"""Wrap the parts of kafka-python below its public clients; no other module imports them.

Another release of kafka-python may change its connection, selector and transports, so uv.lock pins
the release. tests/backends/test_kafka_answers.py lists the used parts.
"""

from __future__ import annotations

import logging
import socket
import warnings
from enum import IntEnum
from typing import Any

from featurelib.errors import needing

with warnings.catch_warnings():
    # kafka-python reads its schemas with functions that only Python 3.11 does not deprecate.
    warnings.simplefilter("ignore", DeprecationWarning)
    with needing("Kafka clusters need the client kafka-python, found none", "kafka"):
        from kafka.net.connection import KafkaConnection as KafkaConnection
        from kafka.net.sasl.oauth import AbstractTokenProvider
        from kafka.net.selector import NetworkSelector as NetworkSelector
        from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
        from kafka.protocol import admin, metadata
        from kafka.version import __version__

# The client's debug lines would contain requests, and so SASL PLAIN's password: they are off.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


class Api(IntEnum):
    """The requests that featurelib sends, by API key."""

    METADATA = 3
    API_VERSIONS = 18
    DESCRIBE_CONFIGS = 32
    LIST_PARTITION_REASSIGNMENTS = 46
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60

    @property
    def title(self) -> str:
        return "".join(part.capitalize() for part in self.name.split("_"))


SOFTWARE = {
    "client_software_name": "featurelib-kafka-python",
    "client_software_version": __version__,
}


def make_request(api: Api, version: int, fields: dict[str, object]) -> Any:
    """Return a request in exactly this version. Converts plain lists to the client's classes."""
    name = f"{api.title}Request"
    kind = getattr(metadata, name, None) or getattr(admin, name)
    return kind(version=version, **(SOFTWARE if api is Api.API_VERSIONS else _made(kind, fields)))


def _made(kind: Any, fields: dict[str, Any]) -> dict[str, Any]:
    made = dict(fields)
    for name, value in fields.items():
        if value and kind.fields[name].is_struct_array():
            part = kind.fields[name].data_class
            made[name] = [part(**_made(part, item)) for item in value]
    return made


class _LastBytesTransport:
    """A transport that reads the last received bytes before it reports the end of the connection.
    The client would lose them, for example a refused login."""

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        data, error = super()._sock_recv()  # type: ignore[misc]  # of the class it is mixed into
        return (data, None) if data else (data, error)


class PlainTransport(_LastBytesTransport, KafkaTCPTransport):  # type: ignore[misc]  # the client is untyped
    """A transport over an open socket."""


class SecuredTransport(_LastBytesTransport, KafkaSSLTransport):  # type: ignore[misc]  # as above
    """A transport over a socket after its TLS handshake."""

    def __init__(self, net: NetworkSelector, secured: socket.socket, host: str) -> None:
        KafkaTCPTransport.__init__(self, net, secured, host=host)


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # as above
    """The provider of the OAUTHBEARER token for one connection."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token
