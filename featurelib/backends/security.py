"""From the settings of the inventory to what a client is given: here secrets are fetched.

A secret is fetched when a connection is opened, handed to the client, and is in nothing that can be
shown: not in a repr, an error, a log or a line. `hide` takes it out of what others say.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

from featurelib.configuration.security import Security
from featurelib.errors import ConfigError

HIDDEN = "***"
_PLAIN = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Credentials:
    """How to speak to the listeners of one cluster. `key` names the settings in errors.

    Everything is fetched when it is asked for, so a secret that was renewed counts at once.
    """

    __slots__ = ("_context", "_environment", "_fetched", "_key", "_security")

    def __init__(
        self,
        security: Security,
        key: str = "security",
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._security, self._key, self._environment = security, key, environment
        self._fetched: set[str] = set()
        self._context: ssl.SSLContext | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.summary})"

    @property
    def summary(self) -> str:
        """Protocol, mechanism and user, as far as people may see them."""
        known = self._security
        user = f" as {known.username}" if known.username else ""
        return f"{known.protocol} {known.mechanism}".strip() + user

    @property
    def advice(self) -> str:
        """Where a person looks after a refusal."""
        return f"Look at [cluster.{self._key}] of the inventory ({self.summary})."

    def settings(self) -> dict[str, object]:
        """The settings of a connection, by kafka-python's names; secrets are in them.

        Raises ConfigError for a secret that is not there.
        """
        known = self._security
        given: dict[str, object] = {"security_protocol": known.protocol}
        if known.is_sasl:
            given["sasl_mechanism"] = known.mechanism
        if known.mechanism in _PLAIN:
            given["sasl_plain_username"] = known.username
            given["sasl_plain_password"] = self._fetch("password")
        elif known.mechanism == "GSSAPI":
            given["sasl_kerberos_service_name"] = known.kerberos_service_name
        return given

    def tls(self) -> ssl.SSLContext | None:
        """TLS with the authorities and the certificate of the settings; None without TLS.

        Made once. Raises ConfigError for a file that is not there or not to be used.
        """
        known = self._security
        if known.is_tls and self._context is None:
            context = ssl.create_default_context()
            if known.ca_file:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                self._load("ca_file", lambda: context.load_verify_locations(known.ca_file))
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.check_hostname = known.check_hostname
            if known.certificate_file:
                self._load("certificate_file", lambda: self._load_certificate(context))
            self._context = context
        return self._context

    @property
    def token(self) -> Callable[[], str] | None:
        """What fetches OAUTHBEARER's token, newly for each connection; None without one."""
        return (lambda: self._fetch("oauth_token")) if self._security.oauth_token else None

    def hide(self, text: str) -> str:
        """`text` without any secret that was fetched."""
        for secret in sorted(self._fetched, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text

    def _fetch(self, name: str) -> str:
        """The secret that the setting `name` refers to."""
        scheme, _, place = getattr(self._security, name).partition(":")
        where = f"{self._key}.{name}"
        if scheme == "env":
            secret = self._environment.get(place, "")
            if not secret:
                raise ConfigError(
                    f"{where}: expected a secret in the environment variable {place}, found "
                    "none. Set it and start again."
                )
        else:
            secret = self._read(where, place).rstrip("\r\n")
            if not secret:
                raise ConfigError(f"{where}: expected a secret in {place}, found an empty file.")
        self._fetched.add(secret)
        return secret

    def _read(self, where: str, path: str) -> str:
        try:
            return Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            # The error's own words would show bytes of the secret.
            raise ConfigError(f"{where}: expected text in UTF-8 in {path}, found none.") from None
        except OSError as error:
            raise ConfigError(
                f"{where}: expected a file to read at {path}, found: {error.strerror}."
            ) from error

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        known = self._security

        def password() -> str:
            # Without this, OpenSSL would ask the terminal.
            if not known.key_password:
                raise ConfigError(
                    f"{self._key}.key_password: expected one beside a key that is encrypted, "
                    "found none. Add 'env:NAME' or 'file:PATH'."
                )
            return self._fetch("key_password")

        context.load_cert_chain(known.certificate_file, known.key_file or None, password)

    def _load(self, name: str, load: Callable[[], None]) -> None:
        known = self._security
        paths = [known.ca_file]
        if name == "certificate_file":
            paths = [path for path in (known.certificate_file, known.key_file) if path]
        for path in paths:
            if not os.access(path, os.R_OK):
                raise ConfigError(
                    f"{self._key}.{name}: expected a file to read at {path}, found none."
                )
        try:
            load()
        except ssl.SSLError as error:
            found = error.reason or "no PEM at all"
            raise ConfigError(
                f"{self._key}.{name}: expected PEM that fits together in {' and '.join(paths)}, "
                f"found: {found}. A wrong key_password reads the same."
            ) from error
