"""How clusters are reached, as the inventory says it: what is refused, and that no secret shows."""

from __future__ import annotations

import re

import pytest

from featurelib.catalogue import Catalogue, load, with_overlay
from featurelib.config.fleet import Fleet, FleetEntry, known_releases, parse_fleet, split_id
from featurelib.errors import ConfigError

HEAD = "[[cluster]]\nid='a'\nname='payments'\n"
SASL = "[cluster.security]\nprotocol='SASL_SSL'\nmechanism='SCRAM-SHA-512'\n"
BEARER = SASL.replace("SCRAM-SHA-512", "OAUTHBEARER")
CLIENT = (
    "oauth_token_url='https://idp.example/t'\noauth_client_id='me'\n"
    "oauth_client_secret='env:SECRET'\n"
)
USER = "username='me'\npassword='env:SECRET'\n"
ZOOKEEPER = "[cluster.zookeeper_security]\nprotocol='SASL_SSL'\nmechanism='DIGEST-MD5'\n"


def parsed(text: str, catalogue: Catalogue | None = None) -> FleetEntry:
    return parse_fleet(HEAD + text, "conf/fleet.toml", catalogue).cluster[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bootstrap=['kafka-1']", ["bootstrap", "HOST:PORT", "'kafka-1'"]),
        ("bootstrap=['kafka-1:port']", ["bootstrap", "HOST:PORT"]),
        ("bootstrap=['kafka-1:0']", ["bootstrap", "'kafka-1:0'"]),
        ("bootstrap=['kafka-1:65536']", ["bootstrap"]),
        ("bootstrap=['a:1,b:2']", ["bootstrap", "'a:1,b:2'"]),
        ("bootstrap=['::1:9092']", ["bootstrap"]),
        ("bootstrap=['SSL://kafka-1:9092']", ["bootstrap"]),
        ("bootstrap=['1@kafka-1:9092']", ["bootstrap", "HOST:PORT", "'1@kafka-1:9092'"]),
        ("bootstrap=['100@[::1]:9092']", ["bootstrap", "'100@[::1]:9092'"]),
        ("bootstrap=['[::1%]:9092']", ["bootstrap"]),
        ("controller_bootstrap=['']", ["controller_bootstrap", "ID@HOST:PORT"]),
        ("controller_bootstrap=['@c-1:9093']", ["controller_bootstrap", "'@c-1:9093'"]),
        ("controller_bootstrap=['one@c-1:9093']", ["controller_bootstrap", "'one@c-1:9093'"]),
        ("controller_bootstrap=['1@2@c-1:9093']", ["controller_bootstrap"]),
        ("controller_bootstrap=['-1@c-1:9093']", ["controller_bootstrap"]),
        ("controller_bootstrap=['2147483648@c-1:9093']", ["controller_bootstrap"]),
        ("controller_bootstrap=['100@::1:9093']", ["controller_bootstrap"]),
        ('controller_bootstrap=["100@c-1:9093\\n"]', ["controller_bootstrap"]),
        ("zookeeper='1@zk-1:2181'", ["zookeeper", "HOST:PORT"]),
        ("zookeeper='zk-1'", ["zookeeper", "HOST:PORT"]),
        ("zookeeper='zk-1:2181/a,zk-2:2181'", ["zookeeper", "CHROOT"]),
        ("zookeeper='zk-1:2181//a'", ["zookeeper"]),
        ("file='x.db'\nbootstrap=['a:1']", ["file", "alone"]),
        ("[cluster.security]\nprotocol='TLS'", ["protocol", "TLS"]),
        ("[cluster.security]\nprotocl='SSL'", ["protocl"]),
        ("[cluster.security]\nprotocol='SASL_SSL'", ["mechanism", "'none'"]),
        ("[cluster.security]\nmechanism='PLAIN'\n" + USER, ["mechanism", "PLAINTEXT"]),
        (SASL + "password='env:A'", ["username", "SCRAM-SHA-512", "found none"]),
        (SASL + "username='me'", ["password", "found none"]),
        (SASL + USER + "oauth_token='env:T'", ["oauth_token", "expected none"]),
        (BEARER, ["oauth_token", "expected one", "found none"]),
        (BEARER + CLIENT + "oauth_token='env:T'", ["oauth_token", "oauth_token_url"]),
        (BEARER + CLIENT.replace("oauth_client_id", "username"), ["username", "expected none"]),
        (BEARER + CLIENT.replace("oauth_client_id='me'\n", ""), ["oauth_client_id", "found none"]),
        (SASL + USER + CLIENT, ["oauth_token_url", "SCRAM-SHA-512", "expected none"]),
        (BEARER + "oauth_token='env:T'\noauth_scope='x'", ["oauth_scope", "oauth_token_url"]),
        (SASL + USER + "kerberos_domain_name='x'", ["kerberos_domain_name", "GSSAPI"]),
        ("[cluster.security]\nca_file='ca.pem'", ["ca_file", "PLAINTEXT"]),
        ("[cluster.security]\nprotocol='SSL'\nkey_file='k'", ["key_file", "certificate_file"]),
        ("[cluster.controller_security]\nusername='me'", ["controller_security.username"]),
        (SASL.replace("SCRAM-SHA-512", "DIGEST-MD5") + USER, ["DIGEST-MD5", "Kafka", "PLAIN"]),
        (
            ZOOKEEPER.replace("DIGEST-MD5", "PLAIN") + USER,
            ["zookeeper_security.mechanism", "'PLAIN'"],
        ),
        (ZOOKEEPER + "username='me'", ["zookeeper_security.password", "DIGEST-MD5"]),
        (
            ZOOKEEPER + "username='me'\npassword='hunter2'",
            ["zookeeper_security.password: expected"],
        ),
        ("[cluster.zookeeper_security]\nca_file='ca.pem'", ["zookeeper_security.ca_file"]),
        ("[cluster.zookeeper_security]\nca='ca.pem'", ["ca"]),
    ],
)
def test_a_way_that_cannot_be_used_is_told(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as told:
        parsed(text)
    assert re.match(r"conf/fleet.toml:\d+: ", str(told.value))
    assert [word for word in words if word not in str(told.value)] == []


@pytest.mark.parametrize(
    "url",
    [
        "http://idp.example/t",
        "https://me:hunter2@idp.example/t",
        "https:///t",
        "ftp://localhost/t",
        "http://localhost.idp.example/t",
        "https://idp.example/t#hunter2",
        "https://idp.example/a b",
        "http://127.0.0.1@idp.example/t",
        "https://idp.example?hunter2",
        "hunter2",
    ],
)
def test_a_client_s_secret_goes_by_tls_or_to_this_machine_only(url: str) -> None:
    with pytest.raises(ConfigError) as told:
        parsed(BEARER + CLIENT.replace("https://idp.example/t", url))
    assert "security.oauth_token_url: expected https://" in str(told.value)
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://idp.example",
        "https://idp.example:8443/realms/x/token?a=b",
        "https://[::1]/t",
        "http://localhost:8080/t",
        "http://127.0.0.1:1/t",
        "http://[::1]:1/t",
    ],
)
def test_a_token_endpoint_can_be_named(url: str) -> None:
    entry = parsed(BEARER + CLIENT.replace("https://idp.example/t", url))
    assert entry.security.oauth_token_url == url


@pytest.mark.parametrize("key", ["password", "key_password", "oauth_token", "oauth_client_secret"])
@pytest.mark.parametrize("text", ["hunter2", "env:", "env:a-b", "file:", "ENV:X", " env:X"])
def test_a_secret_in_the_inventory_is_refused_and_not_shown(key: str, text: str) -> None:
    with pytest.raises(ConfigError) as told:
        parsed(f"[cluster.security]\nprotocol='SSL'\n{key}='{text}'")
    assert f"security.{key}: expected 'env:NAME' or 'file:PATH'" in str(told.value)
    assert "hunter2" not in str(told.value)


def test_all_ways_can_be_said() -> None:
    entry = parsed(
        "bootstrap=['kafka-1.example:9092','[::1]:9092','10.0.0.1:1']\n"
        "controller_bootstrap=['c1:9093']\nzookeeper='zk-1:2181,zk-2:2181/kafka/eu'\n"
        "controllers_complete=true\n" + SASL + USER + "ca_file='/etc/ca.pem'\n"
    )
    assert entry.is_reachable
    assert entry.security.username == "me"
    assert (entry.security.is_tls, entry.security.is_sasl) == (True, True)
    assert entry.controller_security is None
    assert not parsed("").is_reachable
    assert parsed("file='x.db'").is_reachable


@pytest.mark.parametrize(
    "address",
    [
        "c-1:9093",
        "100@c-1:9093",
        "0@c-1:9093",
        "2147483647@10.0.0.1:1",
        "[::1]:9093",
        "100@[::1]:9093",
        "100@[fe80::1%eth0]:9093",
        "[::ffff:10.0.0.1]:9093",
    ],
)
def test_a_controller_is_written_with_its_node_id_or_without(address: str) -> None:
    assert parsed(f"controller_bootstrap=['{address}']").controller_bootstrap == (address,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100@[::1]:9093", (100, "[::1]:9093")),
        ("[::1]:9093", (None, "[::1]:9093")),
        ("7@c-1:9093", (7, "c-1:9093")),
        ("x@c-1:9093", (None, "x@c-1:9093")),
    ],
)
def test_a_node_id_is_split_from_its_address(text: str, expected: tuple[int | None, str]) -> None:
    assert split_id(text) == expected


def test_paths_are_taken_from_the_folder_of_the_inventory() -> None:
    entry = parsed(
        "file='a/x.db'\n[cluster.security]\nprotocol='SSL'\nca_file='ca.pem'\n"
        "certificate_file='/etc/c.pem'\nkey_file='k'\nkey_password='file:p'\n"
    )
    assert entry.file == "conf/a/x.db"
    security = entry.security
    assert (security.ca_file, security.certificate_file) == ("conf/ca.pem", "/etc/c.pem")
    assert (security.key_file, security.key_password) == ("conf/k", "file:conf/p")


def test_zookeeper_is_spoken_to_by_settings_of_its_own() -> None:
    assert not parsed(SASL + USER).zookeeper_security.is_tls
    security = parsed(ZOOKEEPER + USER + "ca_file='ca.pem'\n").zookeeper_security
    assert (security.is_tls, security.username) == (True, "me")
    assert (security.ca_file, security.password) == ("conf/ca.pem", "env:SECRET")


def test_the_owner_s_word_for_controllers_reaches_the_core() -> None:
    fleet = parse_fleet(HEAD + "controllers_complete=true", "fleet.toml")
    assert fleet.inventory["a"].controllers_vouched
    assert not parse_fleet(HEAD, "fleet.toml").inventory["a"].controllers_vouched


@pytest.mark.parametrize(
    "release", ["", "3.9", "4.1.2", "4.4.0-SNAPSHOT", "2.8.2", "3.2", "3.3.2", "2.7"]
)
def test_releases_of_both_modes_are_known(release: str) -> None:
    assert parsed(f"release='{release}'", load()).release == release


@pytest.mark.parametrize("release", ["4.5", "latest", "5", "2.6", "7.6.1-ccs", "41.2"])
def test_a_release_the_catalogue_does_not_know_is_refused(release: str) -> None:
    with pytest.raises(ConfigError) as told:
        parsed(f"release='{release}'", load())
    words = str(told.value)
    assert words.startswith("conf/fleet.toml:4: cluster 'payments': release: expected one")
    assert f"found '{release}'" in words
    assert all(name in words for name in ("2.7", "3.9", "4.4", "--overlay"))


def test_a_release_of_an_overlay_is_known() -> None:
    text = (
        "[[release]]\nrelease = '7.9-vendor'\nbased_on = '3.9'\n"
        "oldest_metadata_version = 1\nnewest_stable = 21\nnewest_unstable = 21\n"
        "oldest_bootstrap = 1\n"
    )
    catalogue = with_overlay(load(), text.encode(), "overlay.toml")
    assert "7.9-vendor" in known_releases(catalogue)
    assert parsed("release='7.9-vendor'", catalogue).release == "7.9-vendor"


def test_a_cluster_is_found_by_id_or_name() -> None:
    twins = FleetEntry(id="b", name="twin"), FleetEntry(id="c", name="twin")
    fleet = Fleet(cluster=(FleetEntry(id="a", name="x"), FleetEntry(id="x"), *twins))
    assert fleet.find("a", "f").id == "a"
    assert fleet.find("x", "f").id == "x"  # an id before a name
    with pytest.raises(ConfigError, match=re.escape("'twin' is the name of 2 clusters: b, c.")):
        fleet.find("twin", "f")
    with pytest.raises(ConfigError, match="f: expected a cluster with the id or name 'y'"):
        fleet.find("y", "f")
