"""Free ports on loopback, none of them twice in one test run."""

from __future__ import annotations

import socket

HOST = "127.0.0.1"
_given: set[int] = set()


def free_address() -> str:
    """A "host:port" on which nobody listens now.

    Servers start at once after this; another program may still take the port first, and then the
    server's log says so.
    """
    while True:
        with socket.socket() as taken:
            taken.bind((HOST, 0))
            port = int(taken.getsockname()[1])
        if port not in _given:
            _given.add(port)
            return f"{HOST}:{port}"
