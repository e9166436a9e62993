"""A ZooKeeper that is spoken to by TLS, beside its plain port or in its place, and by DIGEST-MD5.

Its certificate holds for localhost alone, not for 127.0.0.1. Keys and passwords are of one test run
and worth nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.backends.rig.jars import more_jars
from tests.backends.rig.java import Java
from tests.backends.rig.layout import free_address, write_properties
from tests.backends.rig.process import Process
from tests.backends.rig.security import make_certificate, openssl

USER, PASSWORD, KEY_PASSWORD = "auditor", 'auditor-"s3cret', "key-s3cret"
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_NETTY = "org.apache.zookeeper.server.NettyServerCnxnFactory"
_SASL = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
_LOGIN = "org.apache.zookeeper.server.auth.DigestLoginModule"
READY = "Using checkIntervalMs"  # the last thing it says before it serves


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What guards one ZooKeeper, in PEM files; each certificate is its own authority.

    With `strict` it wants to know the client by certificate, and its user by DIGEST-MD5.
    """

    address: str  # localhost:port of TLS
    certificate: Path
    keystore: Path
    client_certificate: Path
    client_key: Path  # encrypted, by KEY_PASSWORD
    jaas: Path
    strict: bool

    @property
    def jars(self) -> tuple[Path, ...]:
        return tuple(more_jars("netty"))

    @property
    def options(self) -> tuple[str, ...]:
        """Options of Java."""
        login = f"-Djava.security.auth.login.config={self.jaas}"
        return (login, "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server=info")

    @property
    def properties(self) -> dict[str, str]:
        """Lines of zoo.cfg."""
        host, port = self.address.split(":")
        return {
            "secureClientPort": port,
            "secureClientPortAddress": host,
            "serverCnxnFactory": _NETTY,
            "ssl.keyStore.location": str(self.keystore),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": str(self.client_certificate),
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "need" if self.strict else "none",
            "authProvider.sasl": _SASL,
            "sessionRequireClientSASLAuth": str(self.strict).lower(),
        }


def make_guard(folder: Path, *, strict: bool = False) -> Guard:
    """Makes certificates and a JAAS file in `folder`; raises UnavailableError without openssl."""
    certificate, _, keystore = make_certificate(folder, "server", "DNS:localhost")
    client, key, _ = make_certificate(folder, "client", "DNS:localhost")
    locked, jaas = folder / "locked.key", folder / "jaas.conf"
    lock = ("pkcs8", "-topk8", "-passout", f"pass:{KEY_PASSWORD}")
    openssl(*lock, "-in", str(key), "-out", str(locked))
    quoted = PASSWORD.replace('"', '\\"')
    jaas.write_text(f'Server {{\n  {_LOGIN} required\n  user_{USER}="{quoted}";\n}};\n')
    return Guard(
        address=free_address().replace("127.0.0.1", "localhost"),
        certificate=certificate,
        keystore=keystore,
        client_certificate=client,
        client_key=locked,
        jaas=jaas,
        strict=strict,
    )


def start_guarded(home: Path, guard: Guard, java: Java) -> Process:
    """Starts a ZooKeeper without a plain port; the caller stops it. Raises NotReadyError."""
    properties = {"tickTime": "500", "dataDir": str(home / "data"), "admin.enableServer": "false"}
    conf = write_properties(home / "zoo.cfg", properties | guard.properties)
    process = Process(name="zookeeper", home=home, ready=lambda text: READY in text)
    process.launch(java.command(MAIN, str(conf), more=guard.options))
    process.wait()
    return process
