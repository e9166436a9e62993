"""A proxy before one listener that cuts the connection at a request of one kind.

It reads what a client sends request by request, so that it knows what went through.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum

UPDATE_FEATURES = 57


class Cut(Enum):
    """Where the connection ends."""

    NOWHERE = "nowhere"
    AT_ONCE = "before the first byte"
    REQUEST = "the request never reaches the listener"
    REPLY = "the listener answers, and the answer never reaches the client"
    SILENCE = "the request never reaches the listener, and nobody hangs up"


@dataclass
class Proxy:
    """`address` is where clients connect; `seen` counts requests by API key."""

    target: str
    cut: Cut
    address: str = ""
    seen: dict[int, int] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    def serve(self, server: socket.socket) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client, suppress(OSError):
                if self.cut is not Cut.AT_ONCE:
                    self.carry(client)

    def carry(self, client: socket.socket) -> None:
        """One request and its answer after the other: this project's client never overlaps them."""
        host, port = self.target.split(":")
        with socket.create_connection((host, int(port)), 10) as listener:
            while request := frame(client):
                key = int.from_bytes(request[4:6], "big")
                self.seen[key] = self.seen.get(key, 0) + 1
                is_cut = key == UPDATE_FEATURES and self.cut is not Cut.NOWHERE
                if is_cut and self.cut is Cut.SILENCE:
                    self.over.wait(20)
                if is_cut and self.cut is not Cut.REPLY:
                    return
                listener.sendall(request)
                answer = frame(listener)
                if is_cut:
                    return
                client.sendall(answer)


def frame(peer: socket.socket) -> bytes:
    """One request or answer with its length before it; empty where the peer hung up."""
    head = exactly(peer, 4)
    return head + exactly(peer, int.from_bytes(head, "big")) if head else b""


def exactly(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = peer.recv(count - len(data))
        if not more:
            return b""
        data += more
    return data


@contextmanager
def proxy(target: str, cut: Cut) -> Iterator[Proxy]:
    """A proxy before `target` (host:port), ended with the block."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = Proxy(target, cut, f"127.0.0.1:{server.getsockname()[1]}")
        thread = threading.Thread(target=made.serve, args=(server,), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.over.set()
            server.shutdown(socket.SHUT_RDWR)
    thread.join(5)
