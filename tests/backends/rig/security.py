"""SASL_SSL for a node of the rig: one certificate, three users by PLAIN, one of them by SCRAM too.

admin may all; viewer may DESCRIBE the cluster and not ALTER it; stranger may nothing. Passwords and
the key are made for one test run and are worth nothing.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
)

from tests.backends.rig.jars import UnavailableError

USERS = ("admin", "viewer", "stranger")
SCRAM_USER = "viewer"


def password(user: str) -> str:
    return f"{user}-secret"


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """A certificate and its key in PEM files; the certificate is its own authority."""

    certificate: Path
    keystore: Path

    def client(self, user: str, mechanism: str = "PLAIN") -> dict[str, str]:
        """The keywords with which kafka-python reaches the cluster as a user."""
        return {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(self.certificate),
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": password(user),
        }

    def properties(self, controllers: str) -> dict[str, str]:
        """The server's part; `controllers` names the controllers' listener."""
        users = " ".join(f'user_{user}="{password(user)}"' for user in USERS)
        plain = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="admin" password="{password("admin")}" {users};'
        )
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificate),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.broker.plain.sasl.jaas.config": plain,
            "listener.name.broker.scram-sha-256.sasl.jaas.config": scram,
            f"listener.name.{controllers.lower()}.plain.sasl.jaas.config": plain,
            f"listener.name.{controllers.lower()}.sasl.enabled.mechanisms": "PLAIN",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
        }

    @contextmanager
    def admin(self, bootstrap: str) -> Iterator[KafkaAdminClient]:
        """A client that may all, for as long as the block runs."""
        with KafkaAdminClient(bootstrap_servers=bootstrap, **self.client("admin")) as client:
            yield client

    @property
    def format_words(self) -> tuple[str, ...]:
        scram = f"SCRAM-SHA-256=[name={SCRAM_USER},password={password(SCRAM_USER)}]"
        return ("--add-scram", scram)


def openssl(*words: str, given: bytes = b"") -> bytes:
    """What openssl prints; raises UnavailableError without it."""
    program = shutil.which("openssl")
    if program is None:
        raise UnavailableError("there is no openssl in the PATH")
    return subprocess.run([program, *words], input=given, check=True, capture_output=True).stdout


def make_certificate(folder: Path, name: str, *holds_for: str) -> tuple[Path, Path, Path]:
    """A certificate that is its own authority, its key, and both in one file."""
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key, both = (folder / f"{name}.{ending}" for ending in ("crt", "key", "pem"))
    openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
        *("-addext", f"subjectAltName={','.join(holds_for)}"),
        *("-keyout", str(key), "-out", str(certificate)),
    )
    both.write_text(key.read_text() + certificate.read_text())
    return certificate, key, both


def make_security(folder: Path) -> Security:
    """Makes a certificate for 127.0.0.1 with openssl; raises UnavailableError without it."""
    certificate, _, both = make_certificate(folder, "node", "IP:127.0.0.1", "DNS:localhost")
    return Security(certificate=certificate, keystore=both)


def may(user: str, operation: ACLOperation) -> ACL:
    """The rule by which a user may do one operation on CLUSTER."""
    return ACL(
        principal=f"User:{user}",
        host="*",
        operation=operation,
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"),
    )
