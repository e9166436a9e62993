"""A listener that answers what a test tells it to, in Kafka's own frames; it imitates no rule.

For answers that no real node of the rig gives: releases whose jars are not fetched, servers that
refuse a version, words that repeat a secret.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.metadata import ApiVersionsResponse

from featurelib.backends.kafka.internals import Api
from tests.backends.cutting import frame

API_VERSIONS, UNSUPPORTED_VERSION = 18, 35
Answering = Callable[[int], Any]  # version → a response of kafka-python


@dataclass
class Listener:
    """`heard` is (API key, version, the whole frame) of every request, in order."""

    answers: Mapping[int, Answering]
    address: str = ""
    heard: list[tuple[int, int, bytes]] = field(default_factory=list)

    @property
    def asked(self) -> list[tuple[int, int]]:
        return [(key, version) for key, version, _ in self.heard]

    def serve(self, server: socket.socket) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client, suppress(OSError):
                while request := frame(client):
                    key, version = (int.from_bytes(request[i : i + 2], "big") for i in (4, 6))
                    self.heard.append((key, version, request))
                    client.sendall(self.answer(key, version, request[8:12]))

    def answer(self, key: int, version: int, correlation: bytes) -> bytes:
        response = self.answers[key](version)
        is_refused = getattr(response, "error_code", 0) == UNSUPPORTED_VERSION
        version = 0 if is_refused else version  # so does Kafka
        # Headers have tagged fields from the flexible versions on, those of ApiVersions never.
        is_flexible = response.flexible_version_q(version) and key != API_VERSIONS
        head = correlation + (b"\x00" if is_flexible else b"")
        body = head + response.encode(version=version)
        return len(body).to_bytes(4, "big") + body


@contextmanager
def speaking(answers: Mapping[int, Answering]) -> Iterator[Listener]:
    """A listener that answers API keys, ended with the block."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = Listener(answers, f"127.0.0.1:{server.getsockname()[1]}")
        thread = threading.Thread(target=made.serve, args=(server,), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


Mine = tuple[int, str, int]


@contextmanager
def node(
    offered: Mapping[Api, tuple[int, int]], **answers: Callable[[Mine], Any]
) -> Iterator[Listener]:
    """A listener that offers these requests and answers each as told, by the name of the request;
    an answer is made of (1, host, port), which is the listener itself."""
    told: dict[int, Answering] = {Api.API_VERSIONS: api_versions(offered)}
    with speaking(told) as listener:
        host, port = listener.address.split(":")
        for name, answer in answers.items():
            told[Api[name.upper()]] = lambda version, answer=answer: answer((1, host, int(port)))
        yield listener


def api_versions(offered: Mapping[Api, tuple[int, int]], refuses: int = 99) -> Answering:
    """ApiVersions of a listener that refuses versions from `refuses` on."""

    def answer(version: int) -> Any:
        keys = [
            ApiVersionsResponse.ApiVersion(api_key=int(key), min_version=low, max_version=high)
            for key, (low, high) in offered.items()
        ]
        if version >= refuses or version > offered[Api.API_VERSIONS][1]:
            return ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=keys)
        supported = ApiVersionsResponse.SupportedFeatureKey
        return ApiVersionsResponse(
            error_code=0,
            api_keys=keys,
            supported_features=[supported(name="f", min_version=1, max_version=3)],
            finalized_features_epoch=4,
        )

    return answer


def listing(*hosts: tuple[int, str, int], kind: int = 1, cluster: str = "c") -> Any:
    """DescribeCluster that lists (node id, host, port)."""
    broker = DescribeClusterResponse.DescribeClusterBroker
    return DescribeClusterResponse(
        error_code=0,
        error_message=None,
        endpoint_type=kind,
        cluster_id=cluster,
        controller_id=1,
        brokers=[
            broker(broker_id=node, host=host, port=port, rack=None, is_fenced=False)
            for node, host, port in hosts
        ],
    )
