"""Kerberos on loopback: a KDC with its own files, keytabs, and a Kafka node that takes tickets.

The node's principal carries a name that nobody resolves, so a client has to be told it
(kerberos_domain_name). Realm and keys are of one test run and worth nothing.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.jars import UnavailableError
from tests.backends.rig.kraft import Node, start_kraft
from tests.backends.rig.layout import free_address
from tests.backends.rig.process import Process
from tests.backends.rig.security import Security

REALM, SERVICE, DOMAIN = "TEST.EXAMPLE", "kafka", "kafka-1.example"
USERS = ("auditor", "stranger")
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Realm:
    """A running KDC and where its files are."""

    folder: Path
    process: Process

    @property
    def conf(self) -> Path:
        return self.folder / "krb5.conf"

    def keytab(self, user: str) -> Path:
        return self.folder / f"{user}.keytab"

    def environment(self, user: str) -> Mapping[str, str]:
        """With which a program gets tickets as a user, by the keytab alone."""
        return {
            "KRB5_CONFIG": str(self.conf),
            "KRB5_CLIENT_KTNAME": f"FILE:{self.keytab(user)}",
            "KRB5CCNAME": f"FILE:{self.folder / f'{user}.tickets'}",
        }


@contextmanager
def start_realm(folder: Path) -> Iterator[Realm]:
    """Starts a KDC, ended with the block; raises UnavailableError without its programs."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]
    if missing:
        raise UnavailableError(
            f"there is no {' and no '.join(missing)} in the PATH (Debian: krb5-kdc, krb5-user)"
        )
    folder.mkdir(parents=True, exist_ok=True)
    address = free_address()
    _write_configuration(folder, address)
    environment = {
        "KRB5_CONFIG": str(folder / "krb5.conf"),
        "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
        "PATH": _PATH,
    }
    _run(environment, "kdb5_util", "create", "-s", "-r", REALM, "-P", secrets.token_hex(16))
    for name, keytab in ((f"{SERVICE}/{DOMAIN}", SERVICE), *((user, user) for user in USERS)):
        _run(environment, "kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {name}")
        _run(environment, "kadmin.local", "-r", REALM, "-q",
             f"ktadd -k {folder / f'{keytab}.keytab'} {name}")  # fmt: skip
    host, port = address.split(":")
    process = Process(name="krb5kdc", home=folder, ready=lambda _: _listens(host, int(port)))
    program = str(shutil.which("krb5kdc", path=_PATH))
    told = [f"{name}={value}" for name, value in environment.items()]
    process.launch(["/usr/bin/env", *told, program, "-n", "-r", REALM])
    try:
        process.wait()
        yield Realm(folder=folder, process=process)
    finally:
        process.stop()


def start_kerberized(home: Path, security: Security, realm: Realm) -> RunningCluster:
    """Starts one node, finalized at 4.1, SASL_SSL with PLAIN and GSSAPI on both listeners; the
    auditor may all."""
    jaas = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{realm.keytab(SERVICE)}" principal="{SERVICE}/{DOMAIN}@{REALM}";'
    )
    properties = {
        "sasl.enabled.mechanisms": "PLAIN,GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
        "super.users": "User:admin;User:auditor",
    }
    for listener in ("broker", "controller"):
        properties |= {
            f"listener.name.{listener}.sasl.enabled.mechanisms": "PLAIN,GSSAPI",
            f"listener.name.{listener}.gssapi.sasl.jaas.config": jaas,
        }
    options = (f"-Djava.security.krb5.conf={realm.conf}",)
    node = Node(id=1, properties=properties, java_options=options)
    return start_kraft(home, (node,), release_version="4.1", security=security)


def _write_configuration(folder: Path, address: str) -> None:
    (folder / "krb5.conf").write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n"
        " dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n"
        f" udp_preference_limit = 1\n[realms]\n {REALM} = {{\n  kdc = {address}\n }}\n"
        f"[domain_realm]\n .example = {REALM}\n"
    )
    (folder / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_listen = {address}\n kdc_tcp_listen = {address}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n"
        f"  key_stash_file = {folder}/stash\n  acl_file = {folder}/kadm5.acl\n"
        "  supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }\n"
        f"[logging]\n kdc = FILE:{folder}/kdc.log\n"
    )


def _run(environment: Mapping[str, str], program: str, *words: str) -> None:
    found = str(shutil.which(program, path=_PATH))
    done = subprocess.run(
        [found, *words], env=dict(environment), capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip
    if done.returncode:
        raise ValueError(f"{program} {' '.join(words[:4])}: {done.stderr or done.stdout}")


def _listens(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), 1):
            return True
    except OSError:
        return False
