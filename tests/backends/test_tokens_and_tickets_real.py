"""OAUTHBEARER and GSSAPI on real nodes: signed tokens, their renewal, and that no output holds one;
a keytab of a real KDC is enough, and a missing ticket is said."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.backends.conftest import running
from tests.backends.rig.bearer import Signer, make_signer, provider, start_bearer
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.desk import Desk, collected, make_desk
from tests.backends.rig.jars import UnavailableError
from tests.backends.rig.kerberos import DOMAIN, SERVICE, Realm, start_kerberized, start_realm
from tests.backends.rig.security import make_security

pytestmark = pytest.mark.kafka
CLIENT, SECRET = "featurelib-auditor", "s3cret-of-the-client"
EVERYBODY = {("controller", 1), ("broker", 1)}


@dataclass(frozen=True, kw_only=True)
class Bearer:
    """A node that takes the tokens of `signer`."""

    cluster: RunningCluster
    signer: Signer
    folder: Path


@pytest.fixture(scope="module")
def bearer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bearer]:
    folder = tmp_path_factory.mktemp("bearer")
    try:
        signer = make_signer(folder)
        security = make_security(folder)
    except UnavailableError as missing:
        pytest.skip(f"tokens: {missing}")
    with running(lambda: start_bearer(folder / "node", security, signer)) as cluster:
        yield Bearer(cluster=cluster, signer=signer, folder=folder)


def desk(
    folder: Path, bearer: Bearer, keys: str, environment: Mapping[str, str] | None = None
) -> Desk:
    """The node as `payments`, and `keys` of OAUTHBEARER."""
    return make_desk(folder, bearer.cluster, f'mechanism = "OAUTHBEARER"\n{keys}', environment)


def parts(token: str) -> tuple[str, ...]:
    """The token and what would give it away: its claims and its signature."""
    return (token, *token.split(".")[1:])


CLIENT_KEYS = (
    'oauth_token_url = "{url}"\noauth_client_id = "' + CLIENT + '"\n'
    'oauth_client_secret = "{where}"\noauth_scope = "kafka"\n'
)


def test_a_token_of_a_file_opens_both_listeners_and_is_read_again_when_renewed(
    bearer: Bearer, tmp_path: Path
) -> None:
    at = desk(tmp_path, bearer, 'oauth_token = "file:../secrets/token"\n')
    file, good = tmp_path / "secrets" / "token", bearer.signer.token()
    old = bearer.signer.token(iat=int(time.time()) - 7200, exp=int(time.time()) - 3600)
    file.write_text(old)
    text = at.run("collect", "payments", "--out", "landing", code=5)
    assert "authentication failed" in text
    assert "[cluster.security]" in text
    file.write_text(good + "\n")
    at.run("collect", "payments", "--out", "landing")
    lines = collected(at)
    assert set(lines) == EVERYBODY
    assert [line for line in lines.values() if "error" in line] == []
    assert "controller 1" in at.run("describe", "payments")
    assert at.leaks(*parts(old), *parts(good)) == []


def test_a_client_s_id_and_secret_are_enough_to_plan_and_apply_and_no_output_holds_a_secret(
    bearer: Bearer, tmp_path: Path
) -> None:
    with provider(CLIENT, SECRET) as idp:
        token = bearer.signer.token()
        idp.grant(token)
        keys = CLIENT_KEYS.format(url=idp.url, where="env:CLIENT_SECRET")
        at = desk(tmp_path, bearer, keys, {"CLIENT_SECRET": SECRET})
        at.run("collect", "payments", "--out", "landing")
        assert len(idp.asked) == 1  # one token for all connections
        assert idp.asked[0]["scope"] == ["kafka"]
        assert set(collected(at)) == EVERYBODY
        at.run("describe", "payments", "--json")
        assert "Result: OK" in at.upgrade("payments")
        at.run("journal", "--journal", "journal.sqlite")
        at.run("show", "plan.json")
        assert (tmp_path / "journal.sqlite").is_file()
        assert at.leaks(SECRET, *parts(token)) == []


@pytest.mark.parametrize("wrong", ["expired", "audience", "issuer", "signature", "nonsense"])
def test_a_wrong_token_is_said_and_nothing_lands_of_nodes_that_nobody_reached(
    bearer: Bearer, tmp_path: Path, wrong: str
) -> None:
    now = int(time.time())
    stranger = make_signer(tmp_path / "stranger")
    token = {
        "expired": lambda: bearer.signer.token(iat=now - 7200, exp=now - 3600),
        "audience": lambda: bearer.signer.token(aud="another"),
        "issuer": lambda: bearer.signer.token(iss="https://another.example"),
        "signature": stranger.token,
        "nonsense": lambda: "not-a-token-at-all",
    }[wrong]()
    at = desk(tmp_path, bearer, 'oauth_token = "env:TOKEN"\n', {"TOKEN": token})
    text = at.run("collect", "payments", "--out", "landing", code=5)
    assert "authentication failed" in text
    assert "[cluster.security] of the inventory (SASL_SSL OAUTHBEARER)" in text
    assert collected(at) == {}  # the one line is of the cluster
    text = at.run("describe", "payments", code=5)
    assert "authentication failed" in text
    assert at.leaks(token, *token.split(".")[1:]) == []


# --- Kerberos -------------------------------------------------------------------------------------


NAMED = (
    f'mechanism = "GSSAPI"\nkerberos_service_name = "{SERVICE}"\n'
    f'kerberos_domain_name = "{DOMAIN}"\n'
)


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


def test_a_keytab_is_enough_to_look_plan_and_apply(node: Kerberized, tmp_path: Path) -> None:
    at = make_desk(tmp_path, node.cluster, NAMED, node.realm.environment("auditor"))
    at.run("collect", "payments", "--out", "landing")
    lines = collected(at)
    assert set(lines) == {("controller", 1), ("broker", 1)}
    assert [line for line in lines.values() if "error" in line] == []
    assert "controller 1" in at.run("describe", "payments")
    assert "Result: OK" in at.upgrade("payments")


def test_without_a_ticket_nothing_lands_of_nodes_that_nobody_reached(
    node: Kerberized, tmp_path: Path
) -> None:
    nothing = str(tmp_path / "nothing")
    lost = {"KRB5_CLIENT_KTNAME": nothing, "KRB5CCNAME": nothing}
    at = make_desk(tmp_path, node.cluster, NAMED, {**node.realm.environment("auditor"), **lost})
    text = at.run("collect", "payments", "--out", "landing", code=5)
    assert "authentication failed" in text
    assert "No Kerberos credentials available" in text
    assert "[cluster.security] of the inventory (SASL_SSL GSSAPI)" in text
    assert collected(at) == {}  # the one line is of the cluster
