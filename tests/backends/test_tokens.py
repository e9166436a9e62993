"""Tokens from an identity provider: asked for once, kept while they are good, shown nowhere."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from featurelib.backends.credentials import FAILED_SECONDS, HIDDEN, Credentials, TokenEndpoint
from featurelib.backends.kafka.protocol import Wire
from featurelib.config.security import Security
from featurelib.errors import UnreachableError
from tests.backends.rig.bearer import Provider, provider
from tests.backends.rig.jars import UnavailableError
from tests.backends.rig.security import make_security

CLIENT, SECRET, TOKEN = "featurelib", "s3cret-of-the-client", "header.payload.signature"


@pytest.fixture
def idp() -> Iterator[Provider]:
    with provider(CLIENT, SECRET) as made:
        made.grant(TOKEN)
        yield made


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def no_tls() -> None:
    raise AssertionError("loopback is spoken to without TLS")


def endpoint(idp: Provider, clock: Clock | None = None) -> TokenEndpoint:
    known = Security(oauth_token_url=idp.url, oauth_client_id=CLIENT)
    return TokenEndpoint(known, no_tls, clock or Clock())  # type: ignore[arg-type]


def credentials(url: str, secret: str = SECRET, **more: str) -> Credentials:
    security = Security(
        protocol="SASL_SSL" if more else "SASL_PLAINTEXT",
        mechanism="OAUTHBEARER",
        oauth_token_url=url,
        oauth_client_id=CLIENT,
        oauth_client_secret="env:CLIENT",
        **more,  # type: ignore[arg-type]
    )
    return Credentials(security, environment={"CLIENT": secret})


def test_one_token_serves_all_that_ask_at_once(idp: Provider) -> None:
    idp.pause_seconds = 0.2
    asked = endpoint(idp)
    with ThreadPoolExecutor(8) as pool:
        tokens = list(pool.map(lambda _: asked.token(SECRET, 2.0), range(8)))
    assert tokens == [TOKEN] * 8
    assert len(idp.asked) == 1


@pytest.mark.parametrize(
    ("expires_in", "good_for"), [(3600, 3570.0), (40, 20.0), (None, 270.0), (0, 0.0)]
)
def test_a_token_is_renewed_before_it_expires(
    idp: Provider, expires_in: int | None, good_for: float
) -> None:
    clock = Clock()
    asked = endpoint(idp, clock)
    idp.grant("first", expires_in)
    assert asked.token(SECRET, 2.0) == "first"
    idp.grant("second", expires_in)
    if good_for:
        clock.now += good_for - 1
        assert asked.token(SECRET, 2.0) == "first"
        clock.now += 1
    assert asked.token(SECRET, 2.0) == "second"


def test_a_failure_serves_all_that_wait_and_is_then_tried_again(idp: Provider) -> None:
    clock = Clock()
    asked = endpoint(idp, clock)
    idp.status, idp.answer = 503, b""
    for _ in range(3):
        with pytest.raises(UnreachableError, match="no token: 503"):
            asked.token(SECRET, 2.0)
    assert len(idp.asked) == 1
    clock.now += FAILED_SECONDS
    idp.grant(TOKEN)
    assert asked.token(SECRET, 2.0) == TOKEN


@pytest.mark.parametrize(
    ("status", "answer", "found"),
    [
        (400, b'{"error": "invalid_scope", "error_description": "no\\u001b[2Jsuch"}', "no [2Jsuch"),
        (500, b"<html>oh</html>", "no token: 500."),
        (200, b"<html>oh</html>", "the response has no access_token in JSON"),
        (200, b'{"access_token": 7}', "the response has no access_token in JSON"),
        (200, b'{"access_token": ""}', "the access_token is not a token"),
        (200, b'{"access_token": "a\\u0001b"}', "the access_token is not a token"),
        (200, b'{"access_token": "a b"}', "the access_token is not a token"),
    ],
)
def test_an_answer_without_a_token_is_said_in_one_line(
    idp: Provider, status: int, answer: bytes, found: str
) -> None:
    idp.status, idp.answer = status, answer
    with pytest.raises(UnreachableError) as caught:
        endpoint(idp).token(SECRET, 2.0)
    assert str(caught.value).startswith(f"The token endpoint {idp.url} gave the client ")
    assert found in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_redirect_is_not_followed_because_the_secret_would_go_elsewhere(idp: Provider) -> None:
    with provider(CLIENT, SECRET) as elsewhere:
        elsewhere.grant(TOKEN)
        for status in (301, 302, 303, 307, 308):
            idp.status, idp.headers = status, {"Location": elsewhere.url}
            with pytest.raises(UnreachableError, match=f"no token: {status}"):
                endpoint(idp).token(SECRET, 2.0)
        assert elsewhere.asked == []


def test_a_wrong_secret_is_said_for_the_listener_that_was_to_be_asked(idp: Provider) -> None:
    with pytest.raises(UnreachableError) as caught:
        Wire(credentials(idp.url, "wr0ng"), 2.0).connect("127.0.0.1:1")
    assert str(caught.value).startswith("127.0.0.1:1: not asked. The token endpoint http://")
    assert "no token: 401 invalid_client" in str(caught.value)
    assert "wr0ng" not in f"{caught.value!r}"


def test_a_provider_that_repeats_the_secret_is_not_repeated(idp: Provider) -> None:
    idp.status, idp.answer = 400, f'{{"error": "what is {SECRET}?"}}'.encode()
    with pytest.raises(UnreachableError) as caught:
        Wire(credentials(idp.url), 2.0).connect("127.0.0.1:1")
    assert HIDDEN in str(caught.value)
    assert SECRET not in f"{caught.value!r}"


def test_a_token_that_was_given_is_hidden_in_the_words_of_others(idp: Provider) -> None:
    known = credentials(idp.url)
    assert known.token(2.0) == TOKEN
    assert known.hide(f"what is {TOKEN}?") == f"what is {HIDDEN}?"
    shown = f"{known!r} {known.summary} {known.advice}"
    assert CLIENT in shown
    assert SECRET not in shown
    assert TOKEN not in shown


def test_a_provider_is_spoken_to_by_tls_and_trusted_by_ca_file(tmp_path: Path) -> None:
    try:
        made = make_security(tmp_path)
    except UnavailableError as missing:
        pytest.skip(f"a certificate: {missing}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.keystore)
    with provider(CLIENT, SECRET, context) as idp:
        idp.grant(TOKEN)
        assert idp.url.startswith("https://")
        with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
            credentials(idp.url).token(2.0)
        assert idp.asked == []
        assert credentials(idp.url, ca_file=str(made.certificate)).token(2.0) == TOKEN
