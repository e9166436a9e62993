"""Strimzi's resources from an API server: what a real one answered, one that is none, and none at
all. Nothing but lists is asked for.

kubernetes.json.gz holds requests and replies of kube-apiserver 1.20.2, built from Debian's source,
on etcd 3.5.16, with RBAC and the CRDs of Strimzi 1.2.0, recorded on 2026-11-23 between it and
`collect --from kubernetes:`. data/kubernetes/strimzi.json is what kubectl printed of it. It was
asked by a service account: with the role of deploy/kubernetes/nightly.yaml, without it, with a
token of nobody's, with etcd compacted between two pages, and before the CRDs were there.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from featurelib.backends import kubernetes
from featurelib.collecting import strimzi_resources
from tests.cli.commands import run

FILE = Path(__file__).parents[2] / "data" / "kubernetes" / "strimzi.json"
# Scene → the request's path → the status and the body of the reply.
RECORDED: dict[str, dict[str, tuple[int, Any]]] = json.loads(
    gzip.decompress(Path(__file__).with_name("kubernetes.json.gz").read_bytes())
)


class ApiServer(ThreadingHTTPServer):
    """Answers as was recorded in a scene, or with `status` and `body`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scene = "all"
        self.asked: list[str] = []
        self.status, self.body = 200, b""


class _Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        assert self.headers["Authorization"] == "Bearer t0ken"
        status, body = self.server.status, self.server.body
        if not body:
            status, said = RECORDED[self.server.scene][self.path]
            body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """A server, and the kubeconfig whose current context leads to it."""
    monkeypatch.setattr(kubernetes, "_PAGE", 2)  # as it was recorded
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


def test_what_the_server_lists_is_what_kubectl_prints(server: ApiServer, tmp_path: Path) -> None:
    assert strimzi_resources("kubernetes:here") == strimzi_resources(str(FILE))
    assert {path.partition("?")[0] for path in server.asked} == {
        "/apis/",
        "/apis/kafka.strimzi.io/v1/kafkas",
        "/apis/kafka.strimzi.io/v1/kafkanodepools",
        "/apis/core.strimzi.io/v1/strimzipodsets",
    }
    assert sum("continue=" in path for path in server.asked) == 3
    code, out, err = collect("kubernetes:", tmp_path / "landing")
    assert (code, len([*(tmp_path / "landing").iterdir()])) == (0, 3), err
    code, out, _ = run(
        "inventory", "import", "--from-strimzi", "kubernetes:", "--fleet", "/dev/null"
    )
    assert (code, out.count("[[cluster]]")) == (0, 3)


@pytest.mark.parametrize(
    ("scene", "code", "said"),
    [
        ("no_role", 5, 'User "system:serviceaccount:default:featurelib" cannot list resource'),
        ("no_role", 5, "at the cluster scope. Nothing was written. It needs the right to list"),
        ("no_token", 5, ": 401 Unauthorized. Nothing was written. Log in again"),
        ("compacted", 5, "display a consistent list result. Nothing was written. The list changed"),
        (
            "no_strimzi",
            2,
            "kubernetes:: expected Kafka resources of Strimzi, the output of kubectl get kafka",
        ),
    ],
)
def test_what_it_does_not_give_is_told_with_what_helps(
    server: ApiServer, tmp_path: Path, scene: str, code: int, said: str
) -> None:
    server.scene = scene
    found, _, err = collect("kubernetes:", tmp_path / "landing")
    assert (found, said in err) == (code, True), err
    assert not (tmp_path / "landing").exists()


NONE_OF_IT = "The Kubernetes API server at http://127.0.0.1:"


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"<html>", NONE_OF_IT),
        (200, b"{}", NONE_OF_IT),
        (200, b"[]", NONE_OF_IT),
        (503, b"<html>", ": 503 Service Unavailable. Nothing was written. Try kubectl get"),
        (500, b'{"message": 7}', ": 500 Internal Server Error. Nothing was written."),
    ],
)
def test_another_server_is_told_in_one_line(
    server: ApiServer, tmp_path: Path, status: int, body: bytes, said: str
) -> None:
    server.status, server.body = status, body
    code, _, err = collect("kubernetes:", tmp_path / "landing")
    assert (code, said in err, "Traceback" in err) == (5, True, False), err


def test_nobody_there_and_no_such_context_are_told(
    tmp_path: Path, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = tmp_path / "kubeconfig"
    away.write_text(away.read_text().replace(f":{server.server_port}", ":9"))
    code, _, err = collect("kubernetes:", tmp_path / "landing")
    assert (code, "refused. Nothing was written." in err) == (5, True), err
    code, _, err = collect("kubernetes:nowhere", tmp_path / "landing")
    assert (code, "`kubectl config get-contexts` lists the contexts" in err) == (2, True)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    code, _, err = collect("kubernetes:", tmp_path / "landing")
    assert (code, "No kubeconfig has this context, and this is no pod" in err) == (2, True)
