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
ZOOKEEPER = "zookeeper_security"  # the key whose settings are ZooKeeper's
DIGEST = "DIGEST-MD5"  # the mechanism of ZooKeeper; no listener of Kafka has it

REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+")
_FILE_KEYS = ("ca_file", "certificate_file", "key_file")
_SECRETS = ("password", "key_password", "oauth_token", "oauth_client_secret")
_CLIENT_KEYS = ("oauth_token_url", "oauth_client_id", "oauth_client_secret")
# Allowed URLs for a client's secret: TLS or this machine, without a user in the address.
_TOKEN_URL = re.compile(
    r"(?:https://(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)|http://(?:localhost|127\.0\.0\.1|\[::1\]))"
    r"(?::\d{1,5})?(?:/[!-\"$-~]*)?",
    re.ASCII,
)


class Security(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The security settings of a cluster's listeners. A secret is a reference, `env:NAME` or
    `file:PATH`, whose text without the line end is the secret."""

    protocol: Protocol = "PLAINTEXT"
    mechanism: Mechanism = ""
    username: str = ""  # PLAIN, SCRAM and DIGEST-MD5
    password: str = ""  # a reference
    ca_file: str = ""  # PEM; default: the system's own authorities
    certificate_file: str = ""  # PEM, for listeners with client authentication
    key_file: str = ""
    key_password: str = ""  # a reference
    check_hostname: bool = True
    kerberos_service_name: str = ""  # GSSAPI: of the brokers' principals, mostly kafka
    kerberos_domain_name: str = ""  # the brokers' host, if it differs from the address
    oauth_token: str = ""  # a reference; read for each connection
    oauth_token_url: str = ""  # or: the token endpoint for the following client
    oauth_client_id: str = ""
    oauth_client_secret: str = ""  # a reference
    oauth_scope: str = ""

    @property
    def is_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def is_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")


def security_faults(security: Security, key: str) -> Iterator[str]:
    """Yield the faults of the settings under `key`, as sentences that begin with the key."""
    for name in _SECRETS:
        text: str = getattr(security, name)
        if text and not REFERENCE.fullmatch(text):  # the value may be the secret itself
            yield (
                f"{key}.{name}: expected 'env:NAME' or 'file:PATH', which say where the secret "
                "is, found something else. Take the secret out of the inventory."
            )
    tls = [name for name in (*_FILE_KEYS, "key_password") if getattr(security, name)]
    if tls and not security.is_tls:
        yield (
            f"{key}.{tls[0]}: expected only beside the protocol SSL or SASL_SSL, found "
            f"{security.protocol}. Change the protocol, or take the key out."
        )
    if security.key_file and not security.certificate_file:
        yield f"{key}.key_file: expected certificate_file beside it, found none."
    if security.is_sasl != bool(security.mechanism):
        yield (
            f"{key}.mechanism: expected one exactly beside SASL_PLAINTEXT and SASL_SSL, found "
            f"{security.mechanism or 'none'!r} beside {security.protocol}."
        )
    yield from _side_faults(security, key)
    yield from _mechanism_faults(security, key)
    yield from _endpoint_faults(security, key)
    if security.kerberos_domain_name and security.mechanism != "GSSAPI":
        yield f"{key}.kerberos_domain_name: expected only beside GSSAPI, found one without."


def _side_faults(security: Security, key: str) -> Iterator[str]:
    """Yield a mechanism of the wrong side: ZooKeeper's for listeners of Kafka, or the reverse."""
    if security.mechanism and (security.mechanism == DIGEST) != (key == ZOOKEEPER):
        expected = DIGEST if key == ZOOKEEPER else "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, …"
        side = "ZooKeeper" if key == ZOOKEEPER else "Kafka"
        yield (
            f"{key}.mechanism: expected one that {side} is asked by here ({expected}), found "
            f"{security.mechanism!r}. Change it; docs/acls.md says which mechanism needs what."
        )


def _mechanism_faults(security: Security, key: str) -> Iterator[str]:
    """Yield keys that the mechanism needs and lacks, or has and does not need."""
    needed = _needed(security)
    for name in ("username", "password", "oauth_token", *_CLIENT_KEYS, "kerberos_service_name"):
        if bool(getattr(security, name)) != (name in needed):
            number = "none" if name in needed else "one"
            expected = "one" if name in needed else "none"
            beside: str = security.mechanism or security.protocol
            beside += " with oauth_token_url" * (needed == _CLIENT_KEYS)
            yield f"{key}.{name}: expected {expected} beside {beside}, found {number}."


def _needed(security: Security) -> tuple[str, ...]:
    if security.mechanism in ("PLAIN", DIGEST) or security.mechanism.startswith("SCRAM-"):
        return ("username", "password")
    if security.mechanism == "OAUTHBEARER":
        asks = any(getattr(security, name) for name in _CLIENT_KEYS)
        return _CLIENT_KEYS if asks else ("oauth_token",)
    return ("kerberos_service_name",) if security.mechanism == "GSSAPI" else ()


def _endpoint_faults(security: Security, key: str) -> Iterator[str]:
    """Yield endpoints to which a client's secret would be sent unencrypted."""
    if security.oauth_token_url and not _TOKEN_URL.fullmatch(security.oauth_token_url):
        yield (  # the value may hold a secret
            f"{key}.oauth_token_url: expected https://HOST[:PORT]/PATH without a user in it, found "
            "something else. (http:// is for this machine's own addresses.)"
        )
    if security.oauth_scope and not security.oauth_token_url:
        yield f"{key}.oauth_scope: expected only beside oauth_token_url, found one alone."


def anchored(security: Security, folder: str) -> Security:
    """Return `security` with relative paths made absolute from `folder`."""
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
