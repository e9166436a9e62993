"""Requests written byte by byte to one listener: the truth is not asked for with our own client.

Only what a walk sends, in flexible versions (KIP-482). The fields are those of Kafka's message
definitions; UnregisterController is KIP-1312's.
"""

from __future__ import annotations

import base64
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

API_VERSIONS, DESCRIBE_QUORUM = (18, 3), (55, 0)
INCREMENTAL_ALTER_CONFIGS, UPDATE_FEATURES, UNREGISTER_BROKER = (44, 1), (57, 1), (64, 0)
ADD_VOTER, REMOVE_VOTER, UNREGISTER_CONTROLLER = (80, 0), (81, 0), (94, 0)
TIMEOUT_MS = 4_000
CLIENT = b"walk"
BROKER_RESOURCE = 4
SET, DELETE = 0, 1
FINALIZED_FEATURES = 2  # a tag of ApiVersions


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A controller's answer to UpdateFeatures: feature → (code, words) in `results`."""

    code: int
    message: str | None
    results: Mapping[str, tuple[int, str | None]]

    @property
    def is_good(self) -> bool:
        """Whether it accepts, or accepted, every update."""
        return not self.code and not any(code for code, _ in self.results.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The metadata quorum as one listener shows it; leader -1 = it knows of none."""

    epoch: int
    leader: int
    voters: tuple[int, ...]
    observers: tuple[int, ...]


class Line:
    """A connection to "host:port"; close it when done. Raises OSError where nobody answers."""

    def __init__(self, address: str, seconds: float = TIMEOUT_MS / 1000) -> None:
        host, _, port = address.rpartition(":")
        self.address, self._number = address, 0
        self._socket = socket.create_connection((host, int(port)), seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def levels(self) -> dict[str, int]:
        """What is finalized, as this listener shows it."""
        body = _text("walk") + _text("1") + NO_TAGS
        answer = self._exchange(API_VERSIONS, body, with_tags=False)
        answer.number(2)
        for _ in range(answer.count()):
            answer.number(6)
            answer.tags()
        answer.number(4)
        found = {}
        for tag, part in answer.tagged():
            for _ in range(part.count() if tag == FINALIZED_FEATURES else 0):
                name = part.text() or ""
                found[name] = part.number(2)
                part.number(2)
                part.tags()
        return found

    def quorum(self) -> Quorum:
        """Who leads and who votes; leader -1 where the listener does not say."""
        body = _count(1) + _text("__cluster_metadata") + _count(1) + struct.pack(">i", 0)
        answer = self._exchange(DESCRIBE_QUORUM, body + NO_TAGS * 3)
        if answer.number(2) or not answer.count():
            return Quorum(epoch=-1, leader=-1, voters=(), observers=())
        answer.text()
        answer.count()
        _, fault, leader, epoch = (answer.number(size) for size in (4, 2, 4, 4))
        answer.number(8)  # high watermark
        groups = []
        for _ in range(2):
            ids = []
            for _ in range(answer.count()):
                ids.append(answer.number(4))
                answer.number(8)
                answer.tags()
            groups.append(tuple(sorted(ids)))
        leader = -1 if fault else leader
        return Quorum(epoch=epoch, leader=leader, voters=groups[0], observers=groups[1])

    def update_features(
        self, updates: Sequence[tuple[str, int, int]], *, validate_only: bool
    ) -> Said:
        """`updates` are (feature, level, wire code of the upgrade type)."""
        body = struct.pack(">i", TIMEOUT_MS) + _count(len(updates))
        for name, level, kind in updates:
            body += _text(name) + struct.pack(">hb", level, kind) + NO_TAGS
        body += struct.pack(">?", validate_only) + NO_TAGS
        answer = self._exchange(UPDATE_FEATURES, body)
        answer.number(4)  # throttle time
        code, message = answer.number(2), answer.text()
        results = {}
        for _ in range(answer.count()):
            name = answer.text() or ""
            results[name] = (answer.number(2), answer.text())
            answer.tags()
        return Said(code=code, message=message, results=results)

    def unregister_broker(self, node_id: int) -> str:
        return self._plain(UNREGISTER_BROKER, struct.pack(">i", node_id))

    def unregister_controller(self, node_id: int) -> str:
        return self._plain(UNREGISTER_CONTROLLER, struct.pack(">i", node_id))

    def add_voter(self, cluster_id: str, node_id: int, directory_id: str, address: str) -> str:
        host, _, port = address.rpartition(":")
        body = _text(cluster_id) + struct.pack(">ii", TIMEOUT_MS, node_id) + _uuid(directory_id)
        body += _count(1) + _text("CONTROLLER") + _text(host) + struct.pack(">H", int(port))
        return self._plain(ADD_VOTER, body + NO_TAGS)

    def remove_voter(self, cluster_id: str, node_id: int, directory_id: str) -> str:
        body = _text(cluster_id) + struct.pack(">i", node_id) + _uuid(directory_id)
        return self._plain(REMOVE_VOTER, body)

    def alter_broker_config(self, broker: str, name: str, value: str | None) -> str:
        """Sets a configuration of one broker ("" = the default of all), or deletes it."""
        body = _count(1) + struct.pack(">b", BROKER_RESOURCE) + _text(broker)
        body += _count(1) + _text(name) + struct.pack(">b", DELETE if value is None else SET)
        body += _text(value) + NO_TAGS + NO_TAGS + struct.pack(">?", False)
        answer = self._exchange(INCREMENTAL_ALTER_CONFIGS, body + NO_TAGS)
        answer.number(4)
        answer.count()
        return _words(answer)

    def _plain(self, api: tuple[int, int], body: bytes) -> str:
        answer = self._exchange(api, body + NO_TAGS)
        answer.number(4)
        return _words(answer)

    def _exchange(self, api: tuple[int, int], body: bytes, *, with_tags: bool = True) -> _Answer:
        """`with_tags`: of the answer's header; that of ApiVersions has none."""
        self._number += 1
        head = struct.pack(">hhih", *api, self._number, len(CLIENT)) + CLIENT + NO_TAGS
        self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        size = struct.unpack(">i", self._read(4))[0]
        answer = _Answer(self._read(size))
        if answer.number(4) != self._number:
            raise OSError(f"{self.address}: an answer to another request")
        if with_tags:
            answer.tags()
        return answer

    def _read(self, size: int) -> bytes:
        got = b""
        while len(got) < size:
            part = self._socket.recv(size - len(got))
            if not part:
                raise ConnectionResetError(f"{self.address}: closed")
            got += part
        return got


class _Answer:
    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def number(self, size: int) -> int:
        self._at += size
        return int.from_bytes(self._body[self._at - size : self._at], "big", signed=True)

    def count(self) -> int:
        return max(0, self._varint() - 1)

    def text(self) -> str | None:
        size = self._varint() - 1
        if size < 0:
            return None
        self._at += size
        return self._body[self._at - size : self._at].decode()

    def tags(self) -> None:
        for _ in self.tagged():
            pass

    def tagged(self) -> Iterator[tuple[int, _Answer]]:
        """Tagged fields: their numbers, and what is in them."""
        for _ in range(self._varint()):
            tag, size = self._varint(), self._varint()
            self._at += size
            yield tag, _Answer(self._body[self._at - size : self._at])

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._body[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
            shift += 7


NO_TAGS = b"\x00"


def _words(answer: _Answer) -> str:
    code = answer.number(2)
    return f"error {code}: {answer.text() or ''}" if code else "done"


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def _count(count: int) -> bytes:
    return _varint(count + 1)


def _text(text: str | None) -> bytes:
    if text is None:
        return b"\x00"
    raw = text.encode()
    return _varint(len(raw) + 1) + raw


def _uuid(text: str) -> bytes:
    """Kafka's Uuid: 16 bytes, URL-safe base64 without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
