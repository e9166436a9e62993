"""GSSAPI on a real node with a real KDC: a keytab is enough, and a missing ticket is said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.backends.conftest import running
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.desk import Desk, collected, make_desk
from tests.backends.rig.jars import UnavailableError
from tests.backends.rig.kerberos import DOMAIN, SERVICE, Realm, start_kerberized, start_realm
from tests.backends.rig.security import make_security

pytestmark = pytest.mark.kafka
KEYS = f'mechanism = "GSSAPI"\nkerberos_service_name = "{SERVICE}"\n'
NAMED = f'{KEYS}kerberos_domain_name = "{DOMAIN}"\n'


@dataclass(frozen=True, kw_only=True)
class Kerberized:
    """A node, and the realm whose tickets it takes."""

    cluster: RunningCluster
    realm: Realm


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberized]:
    if find_spec("gssapi") is None:
        pytest.skip("Kerberos: the package gssapi is not installed (the extra kerberos)")
    folder = tmp_path_factory.mktemp("kerberos")
    try:
        with start_realm(folder / "kdc") as realm:
            security = make_security(folder)
            with running(lambda: start_kerberized(folder / "node", security, realm)) as cluster:
                yield Kerberized(cluster=cluster, realm=realm)
    except UnavailableError as missing:
        pytest.skip(f"Kerberos: {missing}")


def desk(folder: Path, node: Kerberized, user: str, keys: str = NAMED, **changes: str) -> Desk:
    environment = {**node.realm.environment(user), **changes}
    return make_desk(folder, node.cluster, keys, environment)


def test_a_keytab_is_enough_to_look_plan_and_apply(node: Kerberized, tmp_path: Path) -> None:
    at = desk(tmp_path, node, "auditor")
    at.run("collect", "payments", "--out", "landing")
    lines = collected(at)
    assert set(lines) == {("controller", 1), ("broker", 1)}
    assert [line for line in lines.values() if "error" in line] == []
    assert "controller 1" in at.run("describe", "payments")
    at.run("plan", "payments", "upgrade", "--out", "plan.json")
    at.run("approve", "plan.json", "--expires", "1h", "--yes", "--reason", "test")
    approved = ("plan.json", "--approval", "plan.approval.json")
    done = at.run("apply", *approved, "--yes", "--journal", "journal.sqlite")
    assert "Result: OK" in done


def test_without_a_ticket_the_nodes_are_recorded_as_not_answering(
    node: Kerberized, tmp_path: Path
) -> None:
    nothing = str(tmp_path / "nothing")
    at = desk(tmp_path, node, "auditor", KRB5_CLIENT_KTNAME=nothing, KRB5CCNAME=nothing)
    text = at.run("collect", "payments", "--out", "landing", code=5)
    assert "authentication failed" in text
    assert "No Kerberos credentials available" in text
    assert "[cluster.security] of the inventory (SASL_SSL GSSAPI)" in text
    for line in collected(at).values():
        assert "No Kerberos credentials available" in str(line["error"])
