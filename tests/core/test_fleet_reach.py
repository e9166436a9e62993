"""How clusters are reached, as the inventory says it: what is refused, and that no secret shows."""

from __future__ import annotations

import re

import pytest

from featurelib.catalogue import Catalogue, load, with_overlay
from featurelib.configuration.fleet import Cluster, Fleet, known_releases, parse_fleet
from featurelib.errors import ConfigError

HEAD = "[[cluster]]\nid='a'\nname='payments'\n"
SASL = "[cluster.security]\nprotocol='SASL_SSL'\nmechanism='SCRAM-SHA-512'\n"
USER = "username='me'\npassword='env:SECRET'\n"


def parsed(text: str, catalogue: Catalogue | None = None) -> Cluster:
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
        ("controller_bootstrap=['']", ["controller_bootstrap", "HOST:PORT"]),
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
        ("[cluster.security]\nca_file='ca.pem'", ["ca_file", "PLAINTEXT"]),
        ("[cluster.security]\nprotocol='SSL'\nkey_file='k'", ["key_file", "certificate_file"]),
        ("[cluster.controller_security]\nusername='me'", ["controller_security.username"]),
    ],
)
def test_a_way_that_cannot_be_used_is_told(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as told:
        parsed(text)
    assert str(told.value).startswith("conf/fleet.toml: ")
    assert [word for word in words if word not in str(told.value)] == []


@pytest.mark.parametrize("key", ["password", "key_password", "oauth_token"])
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


def test_paths_are_taken_from_the_folder_of_the_inventory() -> None:
    entry = parsed(
        "file='a/x.db'\n[cluster.security]\nprotocol='SSL'\nca_file='ca.pem'\n"
        "certificate_file='/etc/c.pem'\nkey_file='k'\nkey_password='file:p'\n"
    )
    assert entry.file == "conf/a/x.db"
    security = entry.security
    assert (security.ca_file, security.certificate_file) == ("conf/ca.pem", "/etc/c.pem")
    assert (security.key_file, security.key_password) == ("conf/k", "file:conf/p")


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
    assert words.startswith("conf/fleet.toml: cluster 'payments': release: expected one")
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
    twins = Cluster(id="b", name="twin"), Cluster(id="c", name="twin")
    fleet = Fleet(cluster=(Cluster(id="a", name="x"), Cluster(id="x"), *twins))
    assert fleet.find("a", "f").id == "a"
    assert fleet.find("x", "f").id == "x"  # an id before a name
    with pytest.raises(ConfigError, match=re.escape("'twin' is the name of 2 clusters: b, c.")):
        fleet.find("twin", "f")
    with pytest.raises(ConfigError, match="f: expected a cluster with the id or name 'y'"):
        fleet.find("y", "f")
