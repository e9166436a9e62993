"""How the listeners of a cluster are spoken to: `[cluster.security]` of the inventory.

A secret is named there and never written: nothing that is read, shown or logged of these values
holds one. Settings that contradict each other are refused, because a cluster that was meant to be
spoken to by TLS must not be spoken to without.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Literal

import msgspec

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]

REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+")
_FILE_KEYS = ("ca_file", "certificate_file", "key_file")
_SECRETS = ("password", "key_password", "oauth_token")


class Security(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How listeners of one cluster are spoken to. What is secret is named, never written here:
    `env:NAME` or `file:PATH`, whose text without the line end is the secret."""

    protocol: Protocol = "PLAINTEXT"
    mechanism: Mechanism = ""
    username: str = ""  # PLAIN and SCRAM
    password: str = ""  # a reference
    ca_file: str = ""  # PEM; the system's own authorities where it is empty
    certificate_file: str = ""  # PEM, for listeners that want to know the client
    key_file: str = ""
    key_password: str = ""  # a reference
    check_hostname: bool = True
    kerberos_service_name: str = ""  # GSSAPI
    oauth_token: str = ""  # a reference; read again for each connection

    @property
    def is_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def is_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")


def security_faults(security: Security, key: str) -> Iterator[str]:
    """What is wrong with the settings under `key`, as sentences that begin with the key."""
    for name in _SECRETS:
        text: str = getattr(security, name)
        if text and not REFERENCE.fullmatch(text):  # what was found may be the secret itself
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
    needed = _needed(security.mechanism)
    for name in ("username", "password", "oauth_token", "kerberos_service_name"):
        if bool(getattr(security, name)) != (name in needed):
            there = "none" if name in needed else "one"
            expected = "one" if name in needed else "none"
            beside = security.mechanism or security.protocol
            yield f"{key}.{name}: expected {expected} beside {beside}, found {there}."


def _needed(mechanism: str) -> tuple[str, ...]:
    if mechanism == "PLAIN" or mechanism.startswith("SCRAM-"):
        return ("username", "password")
    return {"OAUTHBEARER": ("oauth_token",), "GSSAPI": ("kerberos_service_name",)}.get(
        mechanism, ()
    )


def anchored(security: Security, folder: str) -> Security:
    """`security` with its relative paths from `folder`."""
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
