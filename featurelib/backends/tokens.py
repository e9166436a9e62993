"""A token from an identity provider, by the client's own id and secret (RFC 6749, section 4.4).

One token serves all connections until it is about to expire, and one failure all that wait for it.
The secret goes to the address that the inventory names and to no other: redirects are not followed.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import NoReturn

import msgspec

from featurelib.errors import UnreachableError

RENEW_SECONDS = 30.0  # before a token expires; half of its life, if that is less
FAILED_SECONDS = 5.0  # a failure is not asked for again so soon
LIFE_SECONDS = 300.0  # of a token whose life is not told
LONGEST_ANSWER_BYTES = 1_000_000
_SHOWN = 200  # characters of an answer


class _Granted(msgspec.Struct, frozen=True):
    access_token: str
    expires_in: float | None = None


class _Refused(msgspec.Struct, frozen=True):
    error: str = ""
    error_description: str = ""


class _NotFollowed(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


class TokenEndpoint:
    """The token endpoint of one identity provider; many threads may ask.

    `tls` is what it is trusted by; `clock` counts seconds.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        scope: str,
        tls: Callable[[], ssl.SSLContext],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url, self._client_id, self._scope, self._tls = url, client_id, scope, tls
        self._clock, self._lock = clock, threading.Lock()
        self._token, self._good_until = "", 0.0
        self._failure, self._failed_until = "", 0.0

    def token(self, secret: str, limit: float) -> str:
        """A token that is still good; `limit` in seconds. Raises UnreachableError, ConfigError."""
        with self._lock:
            now = self._clock()
            if self._token and now < self._good_until:
                return self._token
            if self._failure and now < self._failed_until:
                raise UnreachableError(self._failure)
            try:
                granted = self._ask(secret, limit)
            except UnreachableError as error:
                self._failure, self._failed_until = str(error), self._clock() + FAILED_SECONDS
                raise
            life = LIFE_SECONDS if granted.expires_in is None else granted.expires_in
            self._token, self._failure = granted.access_token, ""
            self._good_until = now + max(life / 2, life - RENEW_SECONDS)
            return self._token

    def _ask(self, secret: str, limit: float) -> _Granted:
        fields = {"grant_type": "client_credentials"}
        if self._scope:
            fields["scope"] = self._scope
        known = base64.b64encode(f"{self._client_id}:{secret}".encode()).decode()
        request = urllib.request.Request(
            self._url,
            data=urllib.parse.urlencode(fields).encode(),
            headers={"Authorization": f"Basic {known}", "Accept": "application/json"},
        )
        try:
            with self._opener().open(request, timeout=limit) as answer:
                body: bytes = answer.read(LONGEST_ANSWER_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                self._fail(f"{error.code} {_said(error.read(LONGEST_ANSWER_BYTES))}".strip())
        except TimeoutError:
            self._fail(f"no answer within {limit:g} s")
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            found = f"no answer within {limit:g} s" if isinstance(reason, TimeoutError) else reason
            self._fail(_plain(str(found)) or type(error).__name__)
        return self._understood(body)

    def _understood(self, body: bytes) -> _Granted:
        try:
            granted = msgspec.json.decode(body, type=_Granted)
        except msgspec.DecodeError:  # its words could show a part of a token
            self._fail("an answer without access_token in JSON")
        token = granted.access_token
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            self._fail("an access_token that is no token")
        return granted

    def _opener(self) -> urllib.request.OpenerDirector:
        proxies = {kind: at for kind, at in urllib.request.getproxies().items() if kind == "https"}
        handlers: list[urllib.request.BaseHandler] = [
            urllib.request.ProxyHandler(proxies),
            _NotFollowed(),
        ]
        if self._url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=self._tls()))
        return urllib.request.build_opener(*handlers)

    def _fail(self, found: str) -> NoReturn:
        raise UnreachableError(
            f"the token endpoint {self._url}: expected a token for the client "
            f"{self._client_id}, found: {found}."
        ) from None


def _said(body: bytes) -> str:
    """The words of a refusal (RFC 6749, section 5.2)."""
    try:
        said = msgspec.json.decode(body, type=_Refused)
    except msgspec.DecodeError:
        return ""
    return _plain(" ".join(text for text in (said.error, said.error_description) if text))


def _plain(text: str) -> str:
    """In one line, and nothing in it that a terminal obeys."""
    return "".join(one if one.isprintable() else " " for one in text)[:_SHOWN].strip()
