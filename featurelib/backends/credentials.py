"""Turn the inventory's security settings into client settings, and fetch the secrets.

A secret is fetched when a connection opens, and goes only to the client: no repr, error, log or
landing line contains it. `hide` removes secrets from the messages of other programs. An identity
provider issues tokens by the client's own id and secret (RFC 6749, section 4.4). All connections
share a token until shortly before its end. If the request for a token fails, all waiting
connections get that error. Secrets go only to the inventory's address: redirects are not followed.
"""

from __future__ import annotations

import base64
import http.client
import os
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import msgspec

from featurelib.config.security import DIGEST, Security
from featurelib.errors import ConfigError, CredentialsError, UnreachableError, install_line

RENEW_SECONDS = 30.0  # a token is renewed this long before its end, or after half of its lifetime
FAILED_SECONDS = 5.0  # seconds without a new request after a failure
LIFE_SECONDS = 300.0  # the use of a token without a stated lifetime, in seconds
LONGEST_ANSWER_BYTES = 1_000_000
_SHOWN = 200  # the maximum length of a shown response, in characters


class _Answer(msgspec.Struct, frozen=True):
    """A response of an OAuth token endpoint: a token or an error (RFC 6749, sections 5.1, 5.2)."""

    access_token: str | None = None
    expires_in: float | None = None
    error: str = ""
    error_description: str = ""


def _read(body: bytes) -> _Answer:
    try:
        return msgspec.json.decode(body, type=_Answer)
    except msgspec.DecodeError:  # the error's message could contain a part of a token
        return _Answer()


class _NotFollowed(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def opener(*handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """Return an opener for URLs that receive a secret: no redirects, only TLS proxies."""
    proxies = {kind: at for kind, at in urllib.request.getproxies().items() if kind == "https"}
    return urllib.request.build_opener(
        urllib.request.ProxyHandler(proxies), _NotFollowed(), *handlers
    )


Clock = Callable[[], float]


class TokenEndpoint:
    """A token endpoint of an identity provider, with its current token. Threads can share it.
    `tls`: the trusted authorities; `clock`: counts seconds."""

    def __init__(
        self, security: Security, tls: Callable[[], ssl.SSLContext], clock: Clock = time.monotonic
    ) -> None:
        self._known, self._tls, self._clock = security, tls, clock
        self._url, self._lock = security.oauth_token_url, threading.Lock()
        self._token, self._good_until = "", 0.0
        self._failure, self._failed_until = "", 0.0

    def token(self, secret: str, limit: float) -> str:
        """Return a valid token within `limit` seconds. Raises UnreachableError, ConfigError."""
        with self._lock:
            now = self._clock()
            if self._token and now < self._good_until:
                return self._token
            if self._failure and now < self._failed_until:
                raise UnreachableError(self._failure)
            try:
                self._token, life = self._ask(secret, limit)
            except UnreachableError as error:
                self._failure, self._failed_until = str(error), self._clock() + FAILED_SECONDS
                raise
            self._failure = ""
            self._good_until = now + max(life / 2, life - RENEW_SECONDS)
            return self._token

    def _ask(self, secret: str, limit: float) -> tuple[str, float]:
        """Request a token. Return (token, lifetime in seconds). Raises UnreachableError."""
        fields = {"grant_type": "client_credentials"}
        if self._known.oauth_scope:
            fields["scope"] = self._known.oauth_scope
        user = f"{self._known.oauth_client_id}:{secret}"
        basic = base64.b64encode(user.encode()).decode()
        request = urllib.request.Request(
            self._url,
            data=urllib.parse.urlencode(fields).encode(),
            headers={"Authorization": f"Basic {basic}", "Accept": "application/json"},
        )
        try:
            with self._opener().open(request, timeout=limit) as answer:
                granted = _read(answer.read(LONGEST_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                refusal = _read(error.read(LONGEST_ANSWER_BYTES))
            reasons = " ".join(text for text in (refusal.error, refusal.error_description) if text)
            self._fail(f"{error.code} {plain(reasons)}".strip())
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            late = f"no answer within {limit:g} s" if isinstance(reason, TimeoutError) else ""
            self._fail(late or plain(str(reason)) or type(error).__name__)
        token = granted.access_token
        if token is None:
            self._fail("the response has no access_token in JSON")
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            self._fail("the access_token is not a token")
        return token, LIFE_SECONDS if granted.expires_in is None else granted.expires_in

    def _opener(self) -> urllib.request.OpenerDirector:
        is_tls = self._url.startswith("https:")
        return opener(*([urllib.request.HTTPSHandler(context=self._tls())] if is_tls else []))

    def _fail(self, fault: str) -> NoReturn:
        raise UnreachableError(
            f"The token endpoint {self._url} gave the client {self._known.oauth_client_id} no "
            f"token: {fault}."
        ) from None


def plain(text: str) -> str:
    """Return `text` as one short line without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:_SHOWN].strip()


HIDDEN = "***"
_PLAIN = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Credentials:
    """The credentials for the listeners of one cluster. `key`: the name of the settings in errors.
    Secrets are read at each use, so that a renewed secret is used at once."""

    def __init__(
        self, security: Security, key: str = "security", environment: Mapping[str, str] = os.environ
    ) -> None:
        self.security, self._key, self._environment = security, key, environment
        self._fetched: set[str] = set()
        self._context: ssl.SSLContext | None = None
        self._endpoint: TokenEndpoint | None = None
        if security.oauth_token_url:
            self._endpoint = TokenEndpoint(security, self._tls_of_endpoint)

    def __repr__(self) -> str:
        return f"Credentials({self.summary})"

    @property
    def summary(self) -> str:
        """The protocol, the mechanism and the user as text, without secrets."""
        security = self.security
        name = security.username or security.oauth_client_id
        user = f" as {name}" if name else ""
        return f"{security.protocol} {security.mechanism}".strip() + user

    @property
    def principal(self) -> str:
        """The user as Kafka principal `User:NAME`; "" for certificate, token or ticket."""
        security = self.security
        if security.mechanism in _PLAIN:
            return f"User:{security.username}"
        return "" if security.is_sasl or security.is_tls else "User:ANONYMOUS"

    @property
    def advice(self) -> str:
        """The advice after a refused login: the settings to check."""
        return f"Check [cluster.{self._key}] of the inventory ({self.summary})."

    def settings(self) -> dict[str, object]:
        """Return the connection settings for kafka-python, including secrets. Raises
        CredentialsError."""
        security = self.security
        settings: dict[str, object] = {"security_protocol": security.protocol}
        if security.is_sasl:
            settings["sasl_mechanism"] = security.mechanism
        if security.mechanism in _PLAIN:
            settings["sasl_plain_username"] = security.username
            settings["sasl_plain_password"] = self._fetch("password")
        elif security.mechanism == "GSSAPI":
            self._expect("gssapi", "gssapi", f"Install it, {install_line('kerberos')}")
            settings["sasl_kerberos_service_name"] = security.kerberos_service_name
            if security.kerberos_domain_name:
                settings["sasl_kerberos_domain_name"] = security.kerberos_domain_name
        return settings

    def sasl_options(self) -> dict[str, str] | None:
        """Return the SASL options for kazoo: user and password; None without SASL. Raises
        ConfigError if a secret is missing."""
        if self.security.mechanism != DIGEST:
            return None
        self._expect("puresasl", "pure-sasl", f"Install it, {install_line('zookeeper')}")
        user = self.security.username
        return {"mechanism": DIGEST, "username": user, "password": self._fetch("password")}

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context of the settings; None without TLS. Raises ConfigError if a file is
        missing or unusable."""
        security = self.security
        if security.is_tls and self._context is None:
            context = ssl.create_default_context()
            if security.ca_file:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                self._load("ca_file", security.ca_file, into=context)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.check_hostname = security.check_hostname
            if security.certificate_file:
                files = security.certificate_file, security.key_file
                self._load("certificate_file", *files, into=context)
            self._context = context
        return self._context

    def token(self, limit: float) -> str | None:
        """Return an OAUTHBEARER token within `limit` seconds; None for another mechanism. Raises
        ConfigError, UnreachableError."""
        if self._endpoint is not None:
            token = self._endpoint.token(self._fetch("oauth_client_secret"), limit)
            self._fetched.add(token)
            return token
        return self._fetch("oauth_token") if self.security.oauth_token else None

    def check(self) -> None:
        """Raise ConfigError if a secret or file of the settings is missing. Opens no connection."""
        self.tls()
        if self.security.mechanism == DIGEST:
            self.sasl_options()
        else:
            self.settings()
        for name in ("oauth_token", "oauth_client_secret"):
            if getattr(self.security, name):
                self._fetch(name)

    def hide(self, text: str) -> str:
        """Return `text` with every fetched secret replaced by `***`."""
        for secret in sorted(self._fetched, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text

    def _tls_of_endpoint(self) -> ssl.SSLContext:
        """Return the TLS context for an identity provider: the system's authorities and ca_file."""
        context = ssl.create_default_context()
        if self.security.ca_file:
            self._load("ca_file", self.security.ca_file, into=context)
        return context

    def _expect(self, module: str, package: str, advice: str) -> None:
        if find_spec(module) is None:
            raise ConfigError(
                f"{self._key}.mechanism: {self.security.mechanism} needs the package {package}. "
                f"{advice}"
            )

    def _fetch(self, name: str) -> str:
        """Return the secret to which the setting `name` refers. Raises CredentialsError."""
        scheme, _, location = getattr(self.security, name).partition(":")
        if scheme == "env":
            secret = self._environment.get(location, "")
            if not secret:
                fault = f"The environment variable {location} is not set. Set {location}"
                raise self._lacks(name, f"{fault} and run the command again.")
        else:
            try:
                secret = Path(location).read_text(encoding="utf-8").rstrip("\r\n")
            except UnicodeDecodeError:  # the error's message would contain bytes of the secret
                raise self._lacks(name, f"The file {location} is not UTF-8 text.") from None
            except OSError as error:
                fault = f"featurelib cannot read the file {location}: {error.strerror}."
                raise self._lacks(name, fault) from error
            if not secret:
                raise self._lacks(name, f"The file {location} is empty. Write the secret there.")
        self._fetched.add(secret)
        return secret

    def _lacks(self, name: str, fault: str) -> CredentialsError:
        return CredentialsError(f"{self._key}.{name}: {fault}")

    def _key_password(self) -> str:
        """Return the password of the encrypted key. Raises CredentialsError if it is not set,
        because OpenSSL would ask at the terminal."""
        if not self.security.key_password:
            fault = "The key is encrypted. Add its password as 'env:NAME' or 'file:PATH'."
            raise self._lacks("key_password", fault)
        return self._fetch("key_password")

    def _load(self, name: str, *paths: str, into: ssl.SSLContext) -> None:
        """Load the files of the setting `name` into a TLS context: authorities, or certificate and
        key. Raises CredentialsError."""
        files = [path for path in paths if path]
        for path in files:
            if not os.access(path, os.R_OK):
                raise self._lacks(name, f"featurelib cannot read the file {path}.")
        try:
            if name == "ca_file":
                into.load_verify_locations(paths[0])
            else:
                into.load_cert_chain(paths[0], paths[1] or None, self._key_password)
        except ssl.SSLError as error:
            fault = f"{' and '.join(files)} cannot be loaded: {error.reason or 'no PEM at all'}."
            advice = " Check that the files belong together, and key_password."
            raise self._lacks(name, f"{fault}{advice if name != 'ca_file' else ''}") from error
