"""A real ZooKeeper that wants TLS, a certificate and DIGEST-MD5: it is read, and what it refuses is
said at once, without a secret."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from kazoo.security import make_acl

from featurelib.backends.zookeeper import Read, read_znodes
from featurelib.config.security import Security
from featurelib.errors import ConfigError, UnreachableError
from tests.backends.conftest import running
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.desk import SECRETS, Desk
from tests.backends.rig.jars import UnavailableError
from tests.backends.rig.java import Java
from tests.backends.rig.layout import free_address
from tests.backends.rig.zookeeper import RELEASE, ZooKeeperBroker, start_zookeeper_mode
from tests.backends.rig.zookeeper_tls import (
    KEY_PASSWORD,
    PASSWORD,
    USER,
    Guard,
    make_guard,
    start_guarded,
)

kafka = pytest.mark.kafka
CLUSTER_ID = "guarded-cluster"
WRONG = "wrong-s3cret"
DIGEST = Security(
    protocol="SASL_PLAINTEXT", mechanism="DIGEST-MD5", username=USER, password="env:RIGHT"
)
ADVICE = "Check [cluster.zookeeper_security] of the inventory ("


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guard]:
    """A ZooKeeper alone, that lets in who has a certificate and a password; /kafka has an id, and
    /closed a node that nobody but `somebody` may read."""
    home = tmp_path_factory.mktemp("strict")
    with ExitStack() as stack:
        try:
            guard = make_guard(home / "guard", strict=True)
            process = start_guarded(home, guard, Java.of(RELEASE, *guard.jars))
        except UnavailableError as missing:
            pytest.skip(f"real ZooKeeper: {missing}")
        stack.callback(process.stop, kill=True)
        write_znodes(guard)
        yield guard


def write_znodes(guard: Guard) -> None:
    """By a client of its own: kazoo's TLS, not ours."""
    client = KazooClient(
        guard.address,
        use_ssl=True,
        ca=str(guard.certificate),
        certfile=str(guard.client_certificate),
        keyfile=str(guard.client_key),
        keyfile_password=KEY_PASSWORD,
        sasl_options={"mechanism": "DIGEST-MD5", "username": USER, "password": PASSWORD},
    )
    client.start(timeout=10)
    try:
        content = json.dumps({"version": "1", "id": CLUSTER_ID}).encode()
        client.create("/kafka/cluster/id", content, makepath=True)
        nobody_else = [make_acl("sasl", "somebody", all=True)]
        client.create("/closed")
        client.create("/closed/feature", b"{}", acl=nobody_else)
    finally:
        client.stop()
        client.close()


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, secret in (("RIGHT", PASSWORD), ("KEY", KEY_PASSWORD), ("WRONG", WRONG)):
        monkeypatch.setenv(name, secret)


def keys(guard: Guard, **changes: str | bool) -> dict[str, str | bool]:
    """What `guard` wants, changed."""
    return {
        "protocol": "SASL_SSL",
        "mechanism": "DIGEST-MD5",
        "username": USER,
        "password": "env:RIGHT",
        "ca_file": str(guard.certificate),
        "certificate_file": str(guard.client_certificate),
        "key_file": str(guard.client_key),
        "key_password": "env:KEY",
        **changes,
    }


def security(guard: Guard, **changes: str | bool) -> Security:
    return Security(**keys(guard, **changes))  # type: ignore[arg-type]


@kafka
def test_a_zookeeper_that_wants_certificate_and_password_is_read(strict: Guard) -> None:
    found = read_znodes(f"{strict.address}/kafka", 10.0, security(strict))
    assert found.cluster_id == CLUSTER_ID


NO_SASL = {"protocol": "SSL", "mechanism": "", "username": "", "password": ""}
NO_CERTIFICATE = {"certificate_file": "", "key_file": "", "key_password": ""}


@kafka
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"password": "env:WRONG"}, ["authentication failed", "SASL_SSL DIGEST-MD5 as auditor"]),
        (NO_SASL, ["the server requires SASL", "(SSL)"]),
        (NO_CERTIFICATE, ["the handshake failed", "bad certificate"]),
        ({"ca_file": "{client}"}, ["its certificate is not trusted", "ca_file names who signed"]),
        ({"ca_file": ""}, ["its certificate is not trusted", "ca_file names who signed"]),
        ({**NO_SASL, **NO_CERTIFICATE, "protocol": "PLAINTEXT", "ca_file": ""},
         ["accepted the connection and gave no answer: it may require TLS", "(PLAINTEXT)"]),
    ],
    ids=["password", "no SASL", "no certificate", "another CA", "the system's CAs", "no TLS"],
)  # fmt: skip
def test_what_zookeeper_refuses_is_said_at_once_and_without_a_secret(
    strict: Guard, changes: dict[str, str], words: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    files = {key: text.format(client=strict.client_certificate) for key, text in changes.items()}
    began = time.monotonic()
    with caplog.at_level(logging.DEBUG), pytest.raises(UnreachableError) as caught:
        read_znodes(strict.address, 20.0, security(strict, **files))
    assert time.monotonic() - began < 15
    said = str(caught.value)
    late = "no response within 20 s: " * ("no answer" in words[0])  # the others answer at once
    assert said.startswith(f"ZooKeeper {strict.address}: {late}")
    assert [word for word in (*words, ADVICE, "Nothing was read.") if word not in said] == []
    told = f"{said} {caught.value.__cause__!r} {caplog.text}"
    assert [one for one in (PASSWORD, WRONG, KEY_PASSWORD) if one in told] == []


@kafka
def test_the_name_in_the_certificate_is_checked_unless_told_otherwise(strict: Guard) -> None:
    other = strict.address.replace("localhost", "127.0.0.1")
    with pytest.raises(UnreachableError, match=r"not valid for '127\.0\.0\.1'"):
        read_znodes(other, 10.0, security(strict))
    trusting = security(strict, check_hostname=False)
    assert read_znodes(f"{other}/kafka", 10.0, trusting).cluster_id == CLUSTER_ID
    stranger = security(strict, check_hostname=False, ca_file=str(strict.client_certificate))
    with pytest.raises(UnreachableError, match="its certificate is not trusted"):
        read_znodes(other, 10.0, stranger)


@kafka
def test_another_server_of_the_ensemble_answers_where_one_does_not(strict: Guard) -> None:
    both = f"{free_address()},{strict.address}/kafka"
    assert read_znodes(both, 10.0, security(strict)).cluster_id == CLUSTER_ID


@kafka
def test_a_node_that_may_not_be_read_is_said_so(strict: Guard) -> None:
    with pytest.raises(UnreachableError, match="the permission to read a znode is missing"):
        read_znodes(f"{strict.address}/closed", 10.0, security(strict))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"password": "env:NOBODY"},
            "zookeeper_security.password: The environment variable NOBODY",
        ),
        (
            {"ca_file": "nothing.pem"},
            "zookeeper_security.ca_file: featurelib cannot read the file noth",
        ),
    ],
)
def test_a_secret_or_a_file_that_is_not_there_is_told_before_anything_is_sent(
    changes: dict[str, str], words: str
) -> None:
    given = {"protocol": "SASL_SSL", "mechanism": "DIGEST-MD5", "username": USER}
    with pytest.raises(ConfigError) as caught:
        read_znodes("127.0.0.1:1", 5.0, Security(**(given | {"password": "env:RIGHT"} | changes)))  # type: ignore[arg-type]
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Security(), "the server accepted the connection and gave no answer"),
        (
            Security(protocol="SSL"),
            r"no response within 1 s(: no answer within 1 s)?\. Nothing was read",
        ),
    ],
)
def test_who_takes_a_connection_and_says_nothing_is_waited_for_once(
    given: Security, words: str
) -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    with silent, pytest.raises(UnreachableError, match=words):
        read_znodes(f"127.0.0.1:{silent.getsockname()[1]}", 1.0, given)


@kafka
def test_a_connection_that_is_lost_later_is_no_matter_of_the_password(
    strict: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object) -> Iterator[Read]:
        raise ConnectionLoss

    monkeypatch.setattr("featurelib.backends.zookeeper._round", lose)
    with pytest.raises(UnreachableError, match=r": ConnectionLoss\. Nothing"):
        read_znodes(strict.address, 10.0, security(strict))


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("127.0.0.1:1", "127.0.0.1:1: connection refused. Nothing was read. Check the"),
        ("no-such-host.invalid:2181", "the host name is not known"),
        ("127.0.0.1:1,127.0.0.1:2", "127.0.0.1:2: connection refused"),
    ],
)
def test_a_zookeeper_that_is_not_there_is_said_at_once(where: str, words: str) -> None:
    began = time.monotonic()
    with pytest.raises(UnreachableError) as caught:
        read_znodes(where, 20.0)
    assert words in str(caught.value)
    assert time.monotonic() - began < 15


@dataclass(frozen=True, kw_only=True)
class Guarded:
    """A cluster in ZooKeeper mode, and what guards the TLS port of its ZooKeeper."""

    cluster: RunningCluster
    guard: Guard

    def desk(self, folder: Path, **changes: str | bool) -> Desk:
        """An inventory that names the cluster `payments`, its ZooKeeper by the TLS port."""
        (folder / "conf").mkdir(parents=True)
        (folder / SECRETS).mkdir()
        (folder / SECRETS / "password").write_text(f"{PASSWORD}\n")
        _, _, chroot = self.cluster.zookeeper.partition("/")
        given = {"password": f"file:../{SECRETS}/password", **changes}
        lines = [f"{key} = {json.dumps(text)}\n" for key, text in keys(self.guard, **given).items()]
        (folder / "conf" / "fleet.toml").write_text(
            f'[[cluster]]\nid = "{self.cluster_id}"\nname = "payments"\nbrokers = [1]\n'
            f'bootstrap = ["{self.cluster.bootstrap}"]\n'
            f'zookeeper = "{self.guard.address}/{chroot}"\n'
            f"[cluster.zookeeper_security]\n{''.join(lines)}"
        )
        return Desk(folder=folder, said=[], environment={})

    @property
    def cluster_id(self) -> str:
        return read_znodes(self.cluster.zookeeper, 10.0).cluster_id


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """One broker of 3.9 that advertises f 1-5; its ZooKeeper has a TLS port and knows a user."""
    home = tmp_path_factory.mktemp("guarded")
    try:
        guard = make_guard(home / "guard")
    except UnavailableError as missing:
        pytest.skip(f"real ZooKeeper: {missing}")
    brokers = (ZooKeeperBroker(id=1, features={"f": (1, 5)}),)
    with running(lambda: start_zookeeper_mode(home, brokers, {"f": 1}, guard)) as cluster:
        yield Guarded(cluster=cluster, guard=guard)


def landed(at: Desk) -> list[dict[str, object]]:
    files = (at.folder / "landing").iterdir()
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


@kafka
def test_a_cluster_in_zookeeper_mode_is_collected_by_tls_and_digest(
    guarded: Guarded, tmp_path: Path
) -> None:
    at = guarded.desk(tmp_path)
    at.run("collect", "payments", "--out", "landing")
    znodes = {line["path"]: line for line in landed(at) if line["kind"] == "znode"}
    assert {"/feature", "/cluster/id", "/brokers/ids/1"} <= set(znodes)
    content = znodes["/feature"]["data"]
    assert isinstance(content, str)
    assert json.loads(content)["features"] == {"f": {"max_version_level": 1}}
    assert "ZooKeeper mode" in at.run("describe", "payments")
    at.run("plan", "payments", "update", "--upgrade", "f:2", "--out", "plan.json")
    assert at.leaks(PASSWORD, KEY_PASSWORD) == []
