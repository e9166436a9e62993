"""Strimzi's resources from an API server: one that answers as Kubernetes does, page by page, one
that refuses, one that is none, and none at all. Nothing but lists is asked for."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from featurelib.collect import strimzi_resources
from tests.cli.commands import run

FILE = Path(__file__).parents[2] / "data" / "kubernetes" / "strimzi.json"
KINDS = {"kafkas": "Kafka", "kafkanodepools": "KafkaNodePool", "strimzipodsets": "StrimziPodSet"}
# Where Kubernetes says what it has: an API group with its versions, the one it prefers among them.
GROUPS = {
    "kind": "APIGroupList",
    "apiVersion": "v1",
    "groups": [
        {
            "name": name,
            "versions": [
                {"groupVersion": f"{name}/{version}", "version": version}
                for version in ("v1", "v1beta2")
            ],
            "preferredVersion": {"groupVersion": f"{name}/v1", "version": "v1"},
        }
        for name in ("apps", "kafka.strimzi.io", "core.strimzi.io")
    ],
}


class ApiServer(ThreadingHTTPServer):
    """Answers as an API server; `refuses` are the lists that it does not give, and the status."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.refuses: dict[str, int] = {}
        self.page = 2
        self.asked: list[str] = []
        self.body: bytes | None = None
        items = json.loads(FILE.read_text("utf-8"))["items"]
        self.lists = {
            plural: [one for one in items if one["kind"] == kind] for plural, kind in KINDS.items()
        }


class _Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        self.server.asked.append(f"{self.command} {place.path}")
        assert self.headers["Authorization"] == "Bearer t0ken"
        if self.server.body is not None:
            self._answer(200, self.server.body)
        elif place.path == "/apis/":
            self._answer(200, GROUPS)
        else:
            self._list(place.path.rpartition("/")[2], parse_qs(place.query))

    def _list(self, plural: str, query: dict[str, list[str]]) -> None:
        if status := self.server.refuses.get(plural):
            text = f'{plural} is forbidden: User "x" cannot list resource'
            fault = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": text}
            return self._answer(status, fault | {"code": status})
        first = int(query.get("continue", ["0"])[0])
        items, size = self.server.lists[plural], self.server.page
        metadata: dict[str, Any] = {"resourceVersion": "81300"}
        if first + size < len(items):
            metadata["continue"] = str(first + size)
        some = [
            {key: value for key, value in one.items() if key != "kind"}
            for one in items[first : first + size]
        ]
        return self._answer(
            200,
            {"apiVersion": "kafka.strimzi.io/v1", "kind": f"{KINDS[plural]}List"}
            | {"metadata": metadata, "items": some},
        )

    def _answer(self, status: int, body: object) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """A server, and the kubeconfig whose current context leads to it."""
    with ApiServer() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [
                {"name": "c", "cluster": {"server": f"http://127.0.0.1:{made.server_port}"}}
            ],
            "users": [{"name": "u", "user": {"token": "t0ken"}}],
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        yield made
        made.shutdown()
        thread.join()


def collect(source: str, out: Path) -> tuple[int, str, str]:
    return run("collect", "--from", source, "--kind", "strimzi", "--out", str(out))


@pytest.mark.parametrize("source", ["kubernetes:", "kubernetes:here"])
def test_what_the_server_lists_is_what_kubectl_prints(server: ApiServer, source: str) -> None:
    assert strimzi_resources(source) == strimzi_resources(str(FILE))
    assert {path for path in server.asked if "strimzi" in path} == {
        "GET /apis/kafka.strimzi.io/v1/kafkas",
        "GET /apis/kafka.strimzi.io/v1/kafkanodepools",
        "GET /apis/core.strimzi.io/v1/strimzipodsets",
    }


def test_it_lands_and_becomes_an_inventory(server: ApiServer, tmp_path: Path) -> None:
    code, out, err = collect("kubernetes:", tmp_path / "landing")
    assert (code, len([*(tmp_path / "landing").iterdir()])) == (0, 3), err
    code, out, _ = run("fleet", "--from-strimzi", "kubernetes:", "--fleet", "/dev/null")
    assert (code, out.count("[[cluster]]")) == (0, 3)


@pytest.mark.parametrize(
    ("status", "said"), [(401, "Log in again"), (403, "has the role"), (500, "kubectl")]
)
def test_a_refusal_is_told_with_what_helps(
    server: ApiServer, tmp_path: Path, status: int, said: str
) -> None:
    server.refuses["kafkas"] = status
    code, _, err = collect("kubernetes:", tmp_path / "landing")
    assert code == 5
    assert f"kubernetes:: expected lists of Strimzi's resources, found {status}" in err
    assert said in err
    assert not (tmp_path / "landing").exists()


def test_a_server_without_strimzi_has_no_kafka_resources(server: ApiServer, tmp_path: Path) -> None:
    server.body = json.dumps({"kind": "APIGroupList", "groups": []}).encode()
    code, _, err = collect("kubernetes:", tmp_path / "landing")
    assert (code, "expected Kafka resources of Strimzi" in err) == (2, True)


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[]"])
def test_another_server_is_told_in_one_line(server: ApiServer, tmp_path: Path, body: bytes) -> None:
    server.body = body
    code, _, err = collect("kubernetes:", tmp_path / "landing")
    assert code == 5, err
    assert "expected Kubernetes' API server at http://127.0.0.1:" in err
    assert "Traceback" not in err


def test_nobody_there_and_no_such_context_are_told(
    tmp_path: Path, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = tmp_path / "kubeconfig"
    away.write_text(away.read_text().replace(f":{server.server_port}", ":9"))
    code, _, err = collect("kubernetes:", tmp_path / "landing")
    assert (code, "refused. Nothing was written." in err) == (5, True), err
    code, _, err = collect("kubernetes:nowhere", tmp_path / "landing")
    assert (code, "kubectl config get-contexts lists the contexts" in err) == (2, True)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    code, _, err = collect("kubernetes:", tmp_path / "landing")
    assert (code, "expected a kubeconfig with that context, or a pod" in err) == (2, True)
