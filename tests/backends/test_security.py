"""Secrets: fetched where the inventory says, handed to the client, and shown nowhere."""

from __future__ import annotations

import base64
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError

from featurelib.backends import credentials as module
from featurelib.backends.credentials import HIDDEN, Credentials
from featurelib.backends.kafka.connection import Connection, words
from featurelib.config.security import ZOOKEEPER, Security
from featurelib.errors import ConfigError, UnreachableError
from tests.backends.rig.jars import UnavailableError
from tests.backends.rig.security import make_certificate, openssl

SECRET = "s3cret-of-alice"
ENVIRONMENT = {"ALICE": SECRET}
PLAIN = Security(
    protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="alice", password="env:ALICE"
)


def credentials(**changes: object) -> Credentials:
    return Credentials(Security(**changes), environment=ENVIRONMENT)  # type: ignore[arg-type]


def test_a_secret_is_fetched_from_the_environment_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\r\n")
    for place in ("env:ALICE", f"file:{file}"):
        given = credentials(
            protocol="SASL_SSL", mechanism="SCRAM-SHA-512", username="alice", password=place
        ).settings()
        assert given == {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": "alice",
            "sasl_plain_password": SECRET,
        }


def test_a_secret_that_was_renewed_counts_at_the_next_connection(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    known = credentials(protocol="SASL_SSL", mechanism="OAUTHBEARER", oauth_token=f"file:{file}")
    assert known.token(1.0) == "first"
    file.write_text("second\n")
    assert known.token(1.0) == "second"


def test_every_mechanism_is_given_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: True)  # gssapi is an extra
    kerberos = credentials(
        protocol="SASL_PLAINTEXT", mechanism="GSSAPI", kerberos_service_name="kafka"
    )
    assert kerberos.settings()["sasl_kerberos_service_name"] == "kafka"
    assert "sasl_kerberos_domain_name" not in kerberos.settings()
    assert kerberos.token(1.0) is None
    named = credentials(
        protocol="SASL_PLAINTEXT",
        mechanism="GSSAPI",
        kerberos_service_name="kafka",
        kerberos_domain_name="kafka.example",
    )
    assert named.settings()["sasl_kerberos_domain_name"] == "kafka.example"
    assert credentials().settings() == {"security_protocol": "PLAINTEXT"}
    assert credentials().tls() is None


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("env:NOBODY", "environment variable NOBODY is not set"),
        ("file:{folder}/nothing", "nothing: No such file or directory"),
        ("file:{folder}/empty", "empty is empty"),
        ("file:{folder}/binary", "binary is not UTF-8 text"),
    ],
)
def test_a_secret_that_is_not_there_is_an_error_that_says_where(
    tmp_path: Path, place: str, found: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff" + SECRET.encode())
    known = credentials(
        protocol="SASL_SSL",
        mechanism="PLAIN",
        username="alice",
        password=place.format(folder=tmp_path),
    )
    with pytest.raises(ConfigError, match=found) as caught:
        known.settings()
    assert str(caught.value).startswith("security.password: ")
    assert SECRET not in str(caught.value)


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    kerberos = {"mechanism": "GSSAPI", "kerberos_service_name": "kafka"}
    with pytest.raises(ConfigError, match=r"pip install '\.\[kerberos\]'"):
        credentials(protocol="SASL_SSL", **kerberos).settings()
    digest = Security(protocol="SASL_PLAINTEXT", mechanism="DIGEST-MD5", username="alice")
    with pytest.raises(ConfigError, match="needs the package pure-sasl\\."):
        Credentials(digest, ZOOKEEPER).sasl_options()


def test_a_secret_in_the_words_of_others_is_hidden() -> None:
    known = Credentials(PLAIN, environment=ENVIRONMENT)
    known.settings()
    said = SaslAuthenticationFailedError(f"no user alice with password {SECRET}")
    text = words(said, known, 1000)
    assert SECRET not in text
    assert HIDDEN in text
    assert "authentication failed" in text
    assert "[cluster.security]" in text


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "connection refused"),
        (TimeoutError("timed out"), "no answer within 1.5 s"),
        (socket.gaierror(-2, "Name or service not known"), "the host name is not known"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version"), "the handshake failed"),
        (KafkaConnectionError("socket disconnected"), "the listener closed the connection"),
        (RuntimeError("GSSAPI lib not found!"), "RuntimeError: GSSAPI lib not found!"),
        (ValueError(), "ValueError"),
    ],
)
def test_why_a_listener_could_not_be_asked_is_said_in_words(
    error: Exception, expected: str
) -> None:
    assert words(error, credentials(), 1500).startswith(expected)


@pytest.fixture
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """A listener that keeps what it is sent and hangs up."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    heard.append(peer.recv(65536))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}", heard
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_a_listener_that_hangs_up_is_unreachable_and_no_secret_is_told(
    listener: tuple[str, list[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    address, heard = listener
    with caplog.at_level(logging.DEBUG), pytest.raises(UnreachableError) as caught:
        Connection(address, Credentials(PLAIN, environment=ENVIRONMENT), 2000)
    assert str(caught.value).startswith(f"{address}: the listener closed the connection")
    told = f"{caught.value!r} {caplog.text} {heard!r}"
    assert SECRET not in told
    assert base64.b64encode(SECRET.encode()).decode() not in told


def test_the_client_s_debug_lines_stay_silent_because_they_show_requests() -> None:
    assert not logging.getLogger("kafka.net.connection").isEnabledFor(logging.DEBUG)


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate, its key, and the key encrypted."""
    folder = tmp_path_factory.mktemp("pem")
    try:
        _, key, _ = make_certificate(folder, "us", "DNS:us")
    except UnavailableError as missing:
        pytest.skip(f"a certificate: {missing}")
    lock = ("rsa", "-aes256", "-passout", f"pass:{SECRET}")
    openssl(*lock, "-in", str(key), "-out", str(folder / "locked.key"))
    return folder


def tls(folder: Path, **files: str) -> Credentials:
    named = {key: value if ":" in value else str(folder / value) for key, value in files.items()}
    return credentials(protocol="SSL", **named)


def test_certificate_and_encrypted_key_are_loaded_once(pem: Path) -> None:
    known = tls(
        pem,
        ca_file="us.crt",
        certificate_file="us.crt",
        key_file="locked.key",
        key_password="env:ALICE",
    )
    context = known.tls()
    assert context is not None
    assert context is known.tls()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    trusting = credentials(protocol="SSL", check_hostname=False).tls()
    assert trusting is not None
    assert not trusting.check_hostname
    assert trusting.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"ca_file": "none.crt"}, "security.ca_file: featurelib cannot read the file"),
        ({"ca_file": "us.key"}, "security.ca_file: .*us.key cannot be loaded"),
        (
            {"certificate_file": "us.crt", "key_file": "none.key"},
            "security.certificate_file: featurelib cannot read the file .*none.key",
        ),
        (
            {"certificate_file": "us.crt", "key_file": "locked.key"},
            "security.key_password: The key is encrypted",
        ),
        (
            {"certificate_file": "us.crt", "key_file": "locked.key", "key_password": "env:WRONG"},
            "and key_password",
        ),
    ],
)
def test_files_of_tls_that_do_not_serve_are_errors_that_name_the_key(
    pem: Path, files: dict[str, str], found: str
) -> None:
    ENVIRONMENT["WRONG"] = "another"
    with pytest.raises(ConfigError, match=found) as caught:
        tls(pem, **files).tls()
    assert SECRET not in str(caught.value)
