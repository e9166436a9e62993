"""A node that takes tokens: OAUTHBEARER beside PLAIN, signatures checked with a JWKS file.

The key, the tokens and the identity provider are of one test run and worth nothing. The provider is
a listener on loopback that gives a token for the client's id and secret (RFC 6749, section 4.4).
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs

from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.jars import more_jars
from tests.backends.rig.kraft import Node, start_kraft
from tests.backends.rig.security import Security, openssl

ISSUER, AUDIENCE, SUBJECT, KEY_ID = "https://idp.example", "kafka", "auditor", "test-key"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
_MODULE = f"{_PACKAGE}.OAuthBearerLoginModule required;"
_ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """Signs tokens with a key of its own; `jwks` is the file a broker checks them with."""

    key: Path
    jwks: Path

    def token(self, **changes: object) -> str:
        """A token for the auditor that is good for an hour; a claim of None is left out."""
        now = int(time.time())
        claims: dict[str, object] = {"iss": ISSUER, "aud": AUDIENCE, "sub": SUBJECT}
        claims |= {"iat": now, "exp": now + 3600} | changes
        told = {name: value for name, value in claims.items() if value is not None}
        head = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        signed = f"{_encode(json.dumps(head).encode())}.{_encode(json.dumps(told).encode())}"
        signature = openssl("dgst", "-sha256", "-sign", str(self.key), given=signed.encode())
        return f"{signed}.{_encode(signature)}"


def make_signer(folder: Path) -> Signer:
    """Makes an RSA key and its JWKS file with openssl; raises UnavailableError without it."""
    folder.mkdir(parents=True, exist_ok=True)
    key, jwks = folder / "token.key", folder / "jwks.json"
    make = ("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048")
    openssl(*make, "-out", str(key))
    shown = openssl("rsa", "-in", str(key), "-noout", "-modulus").decode()
    modulus = _encode(bytes.fromhex(shown.strip().removeprefix("Modulus=")))
    public = {"kty": "RSA", "kid": KEY_ID, "use": "sig", "alg": "RS256", "n": modulus, "e": "AQAB"}
    jwks.write_text(json.dumps({"keys": [public]}))
    return Signer(key=key, jwks=jwks)


def start_bearer(home: Path, security: Security, signer: Signer) -> RunningCluster:
    """Starts one node, finalized at 4.1, SASL_SSL with PLAIN and OAUTHBEARER on both listeners; the
    auditor may all."""
    url = f"file://{signer.jwks}"
    properties = {
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "super.users": f"User:admin;User:{SUBJECT}",
    }
    for listener in ("broker", "controller"):
        prefix = f"listener.name.{listener}"
        properties |= {
            f"{prefix}.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
            f"{prefix}.oauthbearer.sasl.jaas.config": _MODULE,
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": (
                f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler"
            ),
        }
    node = Node(
        id=1,
        properties=properties,
        java_options=(f"-D{_ALLOWED}={url}",),
        jars=tuple(more_jars("bearer")),
    )
    return start_kraft(home, (node,), release_version="4.1", security=security)


@dataclass
class Provider:
    """An identity provider's token endpoint. `asked` is the form of every request, in order;
    `answer` gives status and body for the next ones."""

    client_id: str
    secret: str
    url: str = ""
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    status: int = 200
    answer: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    pause_seconds: float = 0.0

    def grant(self, token: str, expires_in: int | None = 3600) -> None:
        """Give this token from now on."""
        told: dict[str, object] = {"access_token": token, "token_type": "Bearer"}
        self.status, self.answer = 200, json.dumps(told | {"expires_in": expires_in}).encode()


@contextmanager
def provider(client_id: str, secret: str, tls: ssl.SSLContext | None = None) -> Iterator[Provider]:
    """A token endpoint on loopback, ended with the block. A wrong id or secret is a 401."""
    made = Provider(client_id, secret)
    known = "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            made.asked.append(parse_qs(body))
            time.sleep(made.pause_seconds)
            status, answer = made.status, made.answer
            if self.headers["Authorization"] != known:
                status, answer = 401, b'{"error": "invalid_client"}'
            self.send_response(status)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def do_GET(self) -> None:
            made.asked.append({"redirected": [self.path]})
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    made.url = f"http{'s' * bool(tls)}://127.0.0.1:{server.server_port}/token"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
