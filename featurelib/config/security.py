"""Define the security settings of listeners: `[cluster.security]` and, for ZooKeeper,
`[cluster.zookeeper_security]` of the inventory.

The settings refer to secrets and never contain one, so they can be shown and logged. Contradicting
settings are refused, because a cluster that is meant to use TLS must not be reached without it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Literal

import msgspec

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal[
    "", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "DIGEST-MD5"
]
ZOOKEEPER = "zookeeper_security"  # the key with ZooKeeper's settings
DIGEST = "DIGEST-MD5"  # the SASL mechanism of ZooKeeper, which Kafka's listeners lack

REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+")
_FILE_KEYS = ("ca_file", "certificate_file", "key_file")
_SECRETS = ("password", "key_password", "oauth_token", "oauth_client_secret")
_CLIENT_KEYS = ("oauth_token_url", "oauth_client_id", "oauth_client_secret")
_LOGIN_KEYS = ("username", "password", "oauth_token", *_CLIENT_KEYS, "kerberos_service_name")
# The URLs to which a client's secret may be sent: with TLS or on this machine, without a user.
_TOKEN_URL = re.compile(
    r"(?:https://(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)|http://(?:localhost|127\.0\.0\.1|\[::1\]))"
    r"(?::\d{1,5})?(?:/[!-\"$-~]*)?",
    re.ASCII,
)


class Security(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The security settings of listeners. A secret is given as `env:NAME` (variable) or `file:PATH`
    (content of a file)."""

    protocol: Protocol = "PLAINTEXT"
    mechanism: Mechanism = ""
    username: str = ""  # the user for PLAIN, SCRAM and DIGEST-MD5
    password: str = ""  # where the password is: env:NAME or file:PATH
    ca_file: str = ""  # PEM; empty: the system's authorities
    certificate_file: str = ""  # PEM, for listeners with client authentication
    key_file: str = ""
    key_password: str = ""  # where the key's password is: env:NAME or file:PATH
    check_hostname: bool = True
    kerberos_service_name: str = ""  # GSSAPI: the service in the brokers' principals, usually kafka
    kerberos_domain_name: str = ""  # the brokers' host, if different from the address
    oauth_token: str = ""  # env:NAME or file:PATH; read for each connection
    oauth_token_url: str = ""  # or: the token endpoint for the client below
    oauth_client_id: str = ""
    oauth_client_secret: str = ""  # where the client's secret is: env:NAME or file:PATH
    oauth_scope: str = ""

    @property
    def is_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def is_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")


def security_faults(security: Security, key: str) -> Iterator[str]:
    """Yield each fault of the settings `key` as a sentence that begins with the key."""
    for name, is_wrong, text in _checks(security, is_zookeeper=key == ZOOKEEPER):
        if is_wrong:
            yield f"{key}.{name}: {text}"


Check = tuple[str, bool, str]  # (key, true if its value is wrong, sentence about the fault)


def _checks(security: Security, *, is_zookeeper: bool) -> Iterator[Check]:
    """Yield the checks of security settings. Their sentences contain no secrets."""
    given = {name for name in security.__struct_fields__ if getattr(security, name)}
    protocol, mechanism = security.protocol, security.mechanism
    for name in _SECRETS:
        is_reference = REFERENCE.fullmatch(getattr(security, name)) is not None
        text = "write env:NAME or file:PATH here, and take the secret out of the inventory."
        yield name, name in given and not is_reference, text
    for name in (*_FILE_KEYS, "key_password"):
        text = f"it needs the protocol SSL or SASL_SSL, and the protocol is {protocol}."
        yield (
            name,
            name in given and not security.is_tls,
            f"{text} Change the protocol, or remove the key.",
        )
    lacks_certificate = "key_file" in given and "certificate_file" not in given
    yield "key_file", lacks_certificate, "it needs certificate_file beside it. Add that key."
    text = f"SASL_PLAINTEXT and SASL_SSL need one, others have none; the protocol is {protocol}."
    yield "mechanism", security.is_sasl != bool(mechanism), text
    side, other = ("ZooKeeper", DIGEST) if is_zookeeper else ("Kafka", "PLAIN or SCRAM-SHA-256")
    text = f"{side} does not know {mechanism} here. Use one as {other} (docs/acls.md)."
    yield "mechanism", bool(mechanism) and (mechanism == DIGEST) != is_zookeeper, text
    needed = _needed(security)
    user = (mechanism or protocol) + " with oauth_token_url" * (needed == _CLIENT_KEYS)
    for name in _LOGIN_KEYS:
        yield name, name in needed and name not in given, f"{user} needs it. Add the key."
        yield name, name in given and name not in needed, f"{user} does not use it. Take it out."
    # Without TLS the client's secret would be sent unencrypted.
    has_bad_url = "oauth_token_url" in given and not _TOKEN_URL.fullmatch(security.oauth_token_url)
    text = "write https://HOST[:PORT]/PATH without a user (http:// only for this machine)."
    yield "oauth_token_url", has_bad_url, text
    has_no_url = "oauth_scope" in given and "oauth_token_url" not in given
    yield "oauth_scope", has_no_url, "it needs oauth_token_url beside it."
    is_unused = "kerberos_domain_name" in given and mechanism != "GSSAPI"
    yield "kerberos_domain_name", is_unused, "only the mechanism GSSAPI uses it. Take it out."


def _needed(security: Security) -> tuple[str, ...]:
    """Return the keys that the login mechanism of `security` needs."""
    if security.mechanism in ("PLAIN", DIGEST) or security.mechanism.startswith("SCRAM-"):
        return ("username", "password")
    if security.mechanism == "OAUTHBEARER":
        needs_keys = any(getattr(security, name) for name in _CLIENT_KEYS)
        return _CLIENT_KEYS if needs_keys else ("oauth_token",)
    return ("kerberos_service_name",) if security.mechanism == "GSSAPI" else ()


def anchored(security: Security, folder: str) -> Security:
    """Return security settings with paths relative to `folder` made absolute."""
    changes = {
        name: posixpath.join(folder, path)
        for name in _FILE_KEYS
        if (path := getattr(security, name))
    }
    for name in _SECRETS:
        scheme, _, path = getattr(security, name).partition(":")
        if scheme == "file":
            changes[name] = f"file:{posixpath.join(folder, path)}"
    return msgspec.structs.replace(security, **changes)
