"""What a Prometheus server may answer: what is believed of it, and what is told in one line."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from featurelib.backends import prometheus
from featurelib.backends.prometheus import Prometheus
from featurelib.config.fleet import FleetEntry
from featurelib.errors import NoEvidenceError

NOW = 1_795_400_000.5
ENTRY = FleetEntry(id="c-1", metrics={"namespace": 'ka"f\\ka', "job": "kafka"})
Series = tuple[str, dict[str, str], float, float]  # name, labels, value, seconds since its scrape
Answer = tuple[int, bytes]


def node(node_id: int, most: str = "29", age: float = 10.0, **labels: str) -> list[Series]:
    where = {"instance": f"kafka-{node_id}:9404", "job": "kafka"} | labels
    return [
        ("kafka_server_node_metrics_maximum_supported_level",
         {"feature_name": "metadata-version", **where}, float(most), age),
        ("kafka_server_node_metrics_minimum_supported_level",
         {"feature_name": "metadata-version", **where}, 7, age),
        ("kafka_server_app_info_StartTimeMs", {"id": str(node_id), **where}, 1.7e12, age),
        ("kafka_server_KafkaServer_Value", {"name": "BrokerState", **where}, 3, age),
    ]  # fmt: skip


class Server:
    """Answers /api/v1/query as Prometheus does; `answer` takes its place."""

    def __init__(self) -> None:
        self.live: list[Series] = []
        self.gone: list[Series] = []  # within five minutes, and stale since
        self.answer: Answer | None = None
        self.asked: list[dict[str, list[str]]] = []
        self.tokens: list[str | None] = []
        self.url = ""

    def reply(self, fields: dict[str, list[str]]) -> Answer:
        self.asked.append(fields)
        if self.answer is not None:
            return self.answer
        is_range = fields["query"][0].endswith("[5m]")
        series = [*self.live, *self.gone] if is_range else self.live
        result: list[dict[str, Any]] = []
        for name, labels, value, age in series:
            metric = {"__name__": name, **labels}
            if is_range:
                before = [NOW - age - 60, "NaN"]
                result.append({"metric": metric, "values": [before, [NOW - age, str(value)]]})
            else:
                result.append({"metric": metric, "value": [NOW, str(value)]})
        data = {"resultType": "matrix" if is_range else "vector", "result": result}
        return 200, json.dumps({"status": "success", "data": data}).encode()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            made.tokens.append(self.headers["Authorization"])
            code, said = made.reply(parse_qs(body))
            self.send_response(code)
            if code == 302:
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that left
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    made.url = f"http://127.0.0.1:{http.server_port}"
    yield made
    http.shutdown()
    http.server_close()
    thread.join()


def described(server: Server, token: str | None = None) -> list[dict[str, Any]]:
    asked = Prometheus(f"{server.url}/", timeout=20, token=token)
    return [json.loads(line) for line in asked.describe(ENTRY)]


def test_a_line_has_the_time_of_its_scrape_and_what_is_stale_has_none(server: Server) -> None:
    server.live = node(1, age=10) + node(2, age=200)
    server.gone = node(3, most="25")
    lines = described(server)
    assert [(line["node_id"], line["observed_at"]) for line in lines] == [
        (1, "2026-11-23T02:13:10.500000Z"),
        (2, "2026-11-23T02:10:00.500000Z"),
    ]
    assert lines[0]["endpoint"] == "kafka-1:9404"
    assert lines[0]["supported_features"] == [
        {"name": "metadata-version", "min_version": 7, "max_version": 29}
    ]
    first, second = (fields["query"][0] for fields in server.asked)
    assert second == f"{first}[5m]"
    assert server.asked[1]["time"] == [f"{NOW:.3f}"]
    assert first.endswith(r',job="kafka",namespace="ka\"f\\ka"}')


def test_a_token_goes_along_and_nowhere_else(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "s3cret")
    server.live = node(1)
    described(server, "env:TOKEN")
    assert set(server.tokens) == {"Bearer s3cret"}
    server.answer = 302, b"s3cret"
    with pytest.raises(NoEvidenceError, match="query: HTTP 302"):
        described(server, "env:TOKEN")
    server.answer = 400, b'{"status":"error","error":"bad s3cret\\u001b[2J"}'
    with pytest.raises(NoEvidenceError) as error:
        described(server, "env:TOKEN")
    assert "query: HTTP 400 bad *** [2J." in str(error.value)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((401, b"<html>"), "query: HTTP 401. It wants a token: --token env:NAME. Check"),
        ((404, b"not here"), "query: HTTP 404. Check"),
        ((503, b'{"status":"error","error":"not ready"}'), "query: HTTP 503 not ready. Check"),
        ((200, b"<html>a login page</html>"), "query: something else. Check"),
        ((200, b'{"status":"error","error":"query timed out"}'), "query: query timed out. Check"),
        ((200, b'{"status":"success","data":{"result":[]}}'), "are missing among no sample"),
        ((200, b"{" + b" " * 5000), "query: more than 4,000 bytes. Check"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(
    server: Server, answer: Answer, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "LONGEST_ANSWER_BYTES", 4000)
    server.answer = answer
    with pytest.raises(NoEvidenceError) as error:
        described(server)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_two_clusters_in_one_server_do_not_become_one(server: Server) -> None:
    server.live = node(1, namespace="kafka") + node(1, namespace="other")
    with pytest.raises(NoEvidenceError, match="broker 1 is there twice"):
        described(server)


@pytest.mark.parametrize("value", ["0.5", "NaN", "+Inf", "-1", "99999", "no number"])
def test_a_level_is_a_whole_number(server: Server, value: str) -> None:
    def with_text(fields: dict[str, list[str]]) -> Answer:
        code, said = real(fields)
        return code, said.replace(b'"29.0"', json.dumps(value).encode())

    server.live, real = node(1), server.reply
    server.reply = with_text  # type: ignore[method-assign]
    with pytest.raises(NoEvidenceError, match="expected a whole number up to 32767"):
        described(server)


def test_a_server_that_says_nothing_is_late(server: Server) -> None:
    busy, reply = threading.Event(), server.reply

    def wait(fields: dict[str, list[str]]) -> Answer:
        busy.wait(30)
        return reply(fields)

    server.reply = wait  # type: ignore[method-assign]
    try:
        with pytest.raises(NoEvidenceError, match=r"query: no answer within 0\.3 s"):
            Prometheus(server.url, timeout=0.3).describe(ENTRY)
    finally:
        busy.set()
