"""A proxy before one listener that loses what goes one way, as a network that is cut does.

What is lost while it is cut is kept, and goes on when the cut is fixed, as TCP sends it again; but
not for a client that has reset its connection by then.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

UPDATE_FEATURES = 57
UP, DOWN = "to the listener", "to the client"
_STEP_S = 0.01


@dataclass
class Line:
    """`address` is where clients connect; `cut` are the ways that lose what is sent. `at_update` is
    called once, when a request that would write has come and not gone on yet."""

    target: str
    address: str = ""
    cut: set[str] = field(default_factory=set)
    at_update: Callable[[], None] | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def serve(self, server: socket.socket) -> None:
        while not self.over.is_set():
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        host, port = self.target.split(":")
        with client, suppress(OSError), socket.create_connection((host, int(port)), 10) as listener:
            waiting = {UP: b"", DOWN: b""}
            ways = {client: (UP, listener), listener: (DOWN, client)}
            while not self.over.is_set():
                for source in select.select(list(ways), [], [], _STEP_S)[0]:
                    data = source.recv(65536)  # a reset of the client ends it here
                    if not data:
                        return
                    waiting[ways[source][0]] += data
                    hook = self.at_update
                    if hook is not None and source is client and would_write(data):
                        self.at_update = None
                        hook()
                for way, peer in ways.values():
                    if waiting[way] and way not in self.cut:
                        peer.sendall(waiting[way])
                        waiting[way] = b""


def would_write(frame: bytes) -> bool:
    """Whether it is UpdateFeatures and not to validate only: that field is the last, before an
    empty list of tagged fields."""
    return int.from_bytes(frame[4:6], "big") == UPDATE_FEATURES and frame[-2] == 0


@contextmanager
def one_way(target: str) -> Iterator[Line]:
    """A line to `target` (host:port), ended with the block."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = Line(target, f"127.0.0.1:{server.getsockname()[1]}")
        thread = threading.Thread(target=made.serve, args=(server,), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.over.set()
            server.shutdown(socket.SHUT_RDWR)
    thread.join(5)
