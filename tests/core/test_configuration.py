"""Configuration: the inventory (whom it expects, how clusters are reached) and the settings of an
audit. What cannot be used is one sentence: file, key, expected and found; and no secret shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from featurelib.catalogue import Catalogue, load, with_overlay
from featurelib.config.fleet import (
    Choice,
    Fleet,
    FleetEntry,
    known_releases,
    parse_fleet,
    split_id,
    zookeeper_generation,
)
from featurelib.config.settings import mutes_of, parse_settings
from featurelib.core.features_znode import Generation
from featurelib.errors import ConfigError
from featurelib.feature import Severity
from featurelib.model import Guards
from featurelib.planning.requirements import Guarding
from tests.core.frozen import FOLDER, expect_refused

CONF = Path(__file__).parents[2] / "conf"
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


ONE = "[[cluster]]\nid='a'\n"
TWO = "[[cluster]]\nid='x'\n\n[[cluster]]\nname='pay'\nid='a'\n"

# Whole inventories; what stands after two clusters; how one is reached. The words in which each is
# refused, with the line: data/frozen/inventories.txt.
INVENTORIES = (
    "[[cluster]",
    "[[clusters]]\nid='a'",
    "[[cluster]]\nname='pay'",
    ONE + "[[cluster]]\nowner='b'",
    ONE + "security.protocol='TLS'",
    "cluster = [3]",
    "[[cluster]]\nid=''",
    ONE + ONE,
    ONE + "broker=[1]",
    ONE + "brokers=['1']",
    ONE + "labels={x=1}",
    ONE + "brokers=[-1]",
    ONE + "brokers=[4294967297]",
    "cluster = [{id = 'a', brokers = [1, 1]}]",
    "[[view]]\nname='a'",
    "[[view]]\nowner=['a']",
    "[[view]]\nname=''\nowner=['a']",
    "[[view]]\nname='a'\nowners=['a']",
    "[[view]]\nname='a'\nlabel=['b']\n[[view]]\nname='a'\nlabel=['c']",
)
CONTRADICTIONS = (
    "managed_features=['f']",
    "managed_as='a/b'",
    "managed_by='strimzi'\nmanaged_as='payments'",
    "managed_by='strimzi'\nmanaged_as='-n/$(x)'",
    "managed_by='me'\nmanaged_features=[]",
    "managed_by='me'\nmanaged_features=['group.version','group.version']",
    "managed_by='strimzi'\nmanaged_features=['metadata.verison']",
    "managed_by='strimzi'\nmanaged_features=['zzz']",
    "release='4.1'\nzookeeper='z:1'",
    "brokers=[1,2,1]",
    "id='x'",
    "[cluster.security]\nprotocol='SASL_SSL'",
    "security.protocol='SSL'\nsecurity.key_file='k'",
    "[cluster.security]\nprotocol='PLAIN'",
    "[cluster.security]\nx=1\nprotocol='SSL'",
    "[[cluster]]\nid='a'",
    "[[cluster]]\nid=''",
    "[[cluster]]\nowner='b'",
)
BOOTSTRAPS = (
    "kafka-1",
    "kafka-1:port",
    "kafka-1:0",
    "kafka-1:65536",
    "a:1,b:2",
    "::1:9092",
    "SSL://kafka-1:9092",
    "1@kafka-1:9092",
    "100@[::1]:9092",
    "[::1%]:9092",
)
CONTROLLERS = (
    "",
    "@c-1:9093",
    "one@c-1:9093",
    "1@2@c-1:9093",
    "-1@c-1:9093",
    "2147483648@c-1:9093",
    "100@::1:9093",
    "100@c-1:9093\\n",
)
ZOOKEEPERS = "1@zk-1:2181", "zk-1", "zk-1:2181/a,zk-2:2181", "zk-1:2181//a"
UNUSABLE = (
    *(f'bootstrap=["{address}"]' for address in BOOTSTRAPS),
    *(f'controller_bootstrap=["{address}"]' for address in CONTROLLERS),
    *(f'zookeeper="{address}"' for address in ZOOKEEPERS),
    "file='x.db'\nbootstrap=['a:1']",
    "[cluster.security]\nprotocol='TLS'",
    "[cluster.security]\nprotocl='SSL'",
    "[cluster.security]\nprotocol='SASL_SSL'",
    "[cluster.security]\nmechanism='PLAIN'\n" + USER,
    SASL + "password='env:A'",
    SASL + "username='me'",
    SASL + USER + "oauth_token='env:T'",
    BEARER,
    BEARER + CLIENT + "oauth_token='env:T'",
    BEARER + CLIENT.replace("oauth_client_id", "username"),
    BEARER + CLIENT.replace("oauth_client_id='me'\n", ""),
    SASL + USER + CLIENT,
    BEARER + "oauth_token='env:T'\noauth_scope='x'",
    SASL + USER + "kerberos_domain_name='x'",
    "[cluster.security]\nca_file='ca.pem'",
    "[cluster.security]\nprotocol='SSL'\nkey_file='k'",
    "[cluster.controller_security]\nusername='me'",
    SASL.replace("SCRAM-SHA-512", "DIGEST-MD5") + USER,
    ZOOKEEPER.replace("DIGEST-MD5", "PLAIN") + USER,
    ZOOKEEPER + "username='me'",
    ZOOKEEPER + "username='me'\npassword='hunter2'",
    "[cluster.zookeeper_security]\nca_file='ca.pem'",
    "[cluster.zookeeper_security]\nca='ca.pem'",
)
# A client's secret goes by TLS, or to this machine only.
URLS = (
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
)
SECRETS = "hunter2", "env:", "env:a-b", "file:", "ENV:X", " env:X"
RELEASES = "4.5", "latest", "5", "2.6", "7.6.1-ccs", "41.2"


def cases(
    texts: Iterable[str], read: Callable[[str], object]
) -> Iterable[tuple[str, Callable[[], object]]]:
    """Each text on one line as the name of its case, and its reading."""

    def reading(text: str) -> Callable[[], object]:
        return lambda: read(text)

    return [(text.strip().replace("\n", " | "), reading(text)) for text in texts]


def test_an_inventory_that_cannot_be_used_is_told_with_its_line() -> None:
    wholes = cases(INVENTORIES, lambda text: parse_fleet(text, "my/fleet.toml"))
    two = [TWO + text + "\n" for text in CONTRADICTIONS]
    wholes += cases(two, lambda text: parse_fleet(text, "my/fleet.toml", load()))
    expect_refused("inventories", ConfigError, wholes, begins="my/fleet.toml")


def test_a_way_that_cannot_be_used_is_told_and_no_secret_shows() -> None:
    urls = [BEARER + CLIENT.replace("https://idp.example/t", url) for url in URLS]
    keys = ("password", "key_password", "oauth_token", "oauth_client_secret")
    secrets = [
        f"[cluster.security]\nprotocol='SSL'\n{key}='{text}'" for key in keys for text in SECRETS
    ]
    expect_refused(
        "ways", ConfigError, cases((*UNUSABLE, *urls, *secrets), parsed), begins="conf/fleet.toml:"
    )
    said = [
        line for line in (FOLDER / "ways.txt").read_text("utf-8").splitlines() if line[:1] != "#"
    ]
    assert not [line for line in said if "hunter2" in line]


def test_a_release_the_catalogue_does_not_know_is_refused() -> None:
    unknown = cases(RELEASES, lambda text: parsed(f"release='{text}'", load()))
    expect_refused("inventory_releases", ConfigError, unknown, begins="conf/fleet.toml:1: cluster ")


def test_a_token_endpoint_and_a_controller_can_be_named() -> None:
    urls = (
        "https://idp.example", "https://idp.example:8443/realms/x/token?a=b", "https://[::1]/t",
        "http://localhost:8080/t", "http://127.0.0.1:1/t", "http://[::1]:1/t",
    )  # fmt: skip
    for url in urls:
        entry = parsed(BEARER + CLIENT.replace("https://idp.example/t", url))
        assert entry.security.oauth_token_url == url
    # With its node id or without.
    addresses = (
        "c-1:9093", "100@c-1:9093", "0@c-1:9093", "2147483647@10.0.0.1:1", "[::1]:9093",
        "100@[::1]:9093", "100@[fe80::1%eth0]:9093", "[::ffff:10.0.0.1]:9093",
    )  # fmt: skip
    for address in addresses:
        found = parsed(f"controller_bootstrap=['{address}']").controller_bootstrap
        assert found == (address,)
    split = {
        "100@[::1]:9093": (100, "[::1]:9093"),
        "[::1]:9093": (None, "[::1]:9093"),
        "7@c-1:9093": (7, "c-1:9093"),
        "x@c-1:9093": (None, "x@c-1:9093"),
    }
    assert {text: split_id(text) for text in split} == split


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


def test_zookeeper_is_spoken_to_by_settings_of_its_own() -> None:
    assert not parsed(SASL + USER).zookeeper_security.is_tls
    security = parsed(ZOOKEEPER + USER + "ca_file='ca.pem'\n").zookeeper_security
    assert (security.is_tls, security.username) == (True, "me")
    assert (security.ca_file, security.password) == ("conf/ca.pem", "env:SECRET")


def test_the_owner_s_word_for_controllers_reaches_the_core() -> None:
    fleet = parse_fleet(HEAD + "controllers_complete=true", "fleet.toml")
    assert fleet.inventory["a"].controllers_vouched
    assert not parse_fleet(HEAD, "fleet.toml").inventory["a"].controllers_vouched


def test_releases_of_both_modes_and_of_an_overlay_are_known() -> None:
    for release in ("", "3.9", "4.1.2", "4.4.0-SNAPSHOT", "2.8.2", "3.2", "3.3.2", "2.7"):
        assert parsed(f"release='{release}'", load()).release == release
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
    with pytest.raises(ConfigError, match="f: no cluster has the id or name 'y'"):
        fleet.find("y", "f")


PARTS = """
[[cluster]]
id='a'
owner='payments'
labels={env='prod', region='eu'}
[[cluster]]
id='b'
owner='payments'
labels={env='test'}
[[cluster]]
id='c'
owner='search, ads'
labels={env='prod', tier=''}
[[cluster]]
id='d'
[[view]]
name='live'
label=['env=prod']
[[view]]
name='gone'
owner=['paymints']
"""
CHOSEN = (  # options, and the clusters they choose; z landed and is not listed
    (Choice(owner=["payments"]), "ab", "owner payments"),
    (Choice(owner=["payments", ""]), "abdz", "owner payments or nobody"),
    (Choice(owner=[""]), "dz", "owner nobody"),
    (Choice(label=["env=prod"]), "ac", "label env=prod"),
    (Choice(label=["env=prod", "env=test"]), "abc", "label env=prod, label env=test"),
    (Choice(label=["env=prod", "region"]), "a", "label env=prod, label region"),
    (Choice(label=["tier="]), "c", "label tier="),
    (Choice(view="live"), "ac", "view live"),
    (Choice(view="live", owner=["payments"]), "a", "view live, owner payments"),
)
# Options that choose nothing. The words in which each is refused: data/frozen/choices.txt.
STRANGE: tuple[dict[str, Any], ...] = (
    {"owner": ["Payments"]}, {"owner": ["zzz"]}, {"label": ["evn=prod"]}, {"label": ["env=prd"]},
    {"label": ["env="]}, {"label": [""]}, {"label": ["=prod"]}, {"view": "life"}, {"view": ""},
    {"view": "gone"}, {"owner": ["payments"], "label": ["tier"]},
    {"owner": [""], "view": "live"}, {"owner": ["a\nb"]},
)  # fmt: skip


def test_options_choose_clusters_by_owner_label_and_view() -> None:
    fleet = parse_fleet(PARTS, "f")
    assert fleet.choose(Choice(), "f") is None
    for choice, ids, text in CHOSEN:
        part = fleet.choose(choice, "f")
        assert part is not None
        assert ("".join(c for c in "abcdz" if c in part), part.text) == (ids, text)


def test_a_choice_that_meets_nothing_is_told_with_what_is_near() -> None:
    fleet, none = parse_fleet(PARTS, "f"), parse_fleet(ONE, "f")
    asked = [(str(one), partial(fleet.choose, Choice(**one), "f")) for one in STRANGE]
    bare: tuple[dict[str, Any], ...] = {"owner": ["a"]}, {"label": ["a"]}, {"view": "a"}
    asked += [(f"of none, {one}", partial(none.choose, Choice(**one), "f")) for one in bare]
    expect_refused("choices", ConfigError, asked)


def test_what_is_managed_is_what_its_owner_moves_unless_the_inventory_says_it() -> None:
    text = "managed_by='Strimzi'\n", "managed_by='msk'\n", "", "managed_by='x'\n"
    more = "managed_features=['group.version', 'custom']"
    one, two, three, four = (
        parse_fleet(f"[[cluster]]\nid='a'\n{one}{rest}", "f").cluster[0]
        for one, rest in zip(text, ("", "", "", more), strict=True)
    )
    assert (one.managed, two.managed, three.managed) == (("metadata.version",), None, ())
    assert four.managed == ("custom", "group.version")
    known = "[[cluster]]\nid='a'\nmanaged_by='me'\nmanaged_features=['group.version']"
    assert parse_fleet(known, "f", load()).cluster[0].managed == ("group.version",)
    guarding = Guarding.by(parse_settings("require_signature = true", "s"), Fleet(cluster=(one,)))
    assert guarding.of("a") == Guards(
        require_signature=True, managed_by="Strimzi", managed_features=("metadata.version",)
    )
    assert guarding.of("b") == Guards(require_signature=True)


def test_an_inventory_says_what_is_expected() -> None:
    text = "[[cluster]]\nid='a'\nbrokers=[1,2]\ncontrollers=[9]\nregistrations_complete=true\n"
    fleet = parse_fleet(text + "release='2.8.2'\n[[cluster]]\nid='b'\nname='B'", "fleet.toml")
    assert fleet.names == {"a": "a", "b": "B"}
    expected = fleet.inventory["a"]
    assert (expected.brokers, expected.controllers, expected.vouched) == ((1, 2), (9,), True)
    assert expected.generation is Generation.ZK_2_7
    assert fleet.inventory["b"].generation is None


def test_a_release_says_who_reads_the_features_node() -> None:
    old, new = Generation.ZK_2_7, Generation.ZK_3_9
    read = {"2.8.2": old, "3.2": old, "3.3": Generation.ZK_3_3, "3.4.0": Generation.ZK_3_3}
    read |= {"3.4.1": new, "3.9": new, "3.10.1-SNAPSHOT": new}
    assert {release: zookeeper_generation(release) for release in read} == read
    assert zookeeper_generation("") is zookeeper_generation("latest") is None


# --- Settings -------------------------------------------------------------------------------------

GOOD = '[[mute]]\ncode="ghost_broker"\nreason="its disk"\nuntil=2026-12-31\n'
SETTINGS = (
    "max_age_hours = ",
    "max_age = 3",
    'max_age_hours = "long"',
    "max_age_hours = -1",
    "max_age_hours = 0",
    "max_age_hours = nan",
    "max_age_hours = inf",
    "retention_days = 6",
    'vacuum = "yes"',
    "longest_approval_hours = 0",
    "longest_approval_hours = nan",
    'allowed_signers = ""',
    'require_signature = "yes"',
    "require_signatures = true",
    '[severities]\nghost_broker = "grave"',
    '[severities]\nghost = "info"',
    GOOD.replace("ghost_broker", "ghost_brokr"),
    GOOD.replace("ghost_broker", "zzzz"),
    GOOD + GOOD.replace('"its disk"', '"  "'),
    GOOD.replace('reason="its disk"\n', ""),
    GOOD.replace("until=2026-12-31", ""),
    GOOD.replace("2026-12-31", '"next year"'),
    GOOD.replace("2026-12-31", "2026-12-31T00:00:00Z"),
    GOOD + "node=-1",
    GOOD + 'node="7"',
    GOOD + 'reasn="why"',
    GOOD.replace("ghost_broker", "mute_expired"),
    GOOD.replace("[[mute]]", "[[mutes]]"),
    GOOD.replace("[[mute]]", "[mute]"),
    "mute = 3",
    "forgotten_nights = -1",
    "forgotten_nights = 1000000",
    "forgotten_nights = 1.5",
)


def test_settings_that_cannot_be_used_are_told() -> None:
    unusable = cases(SETTINGS, lambda text: parse_settings(text, "my/audit.toml"))
    expect_refused("settings", ConfigError, unusable, begins="my/audit.toml")
    assert ConfigError.exit_code == 2


def test_empty_settings_are_the_defaults() -> None:
    settings = parse_settings("", "audit.toml")
    assert settings.forgotten == 14 * 24 * 3_600_000_000
    assert parse_settings("forgotten_nights = 0", "audit.toml").forgotten == 0
    assert settings.max_age == 72 * 3_600_000_000
    assert (settings.retention_days, settings.vacuum, settings.severities) == (90, False, {})
    assert (settings.require_signature, settings.allowed_signers) == (False, "allowed_signers")
    assert settings.longest_approval_hours == 168


def test_a_severity_can_be_changed() -> None:
    settings = parse_settings('[severities]\nghost_broker = "critical"', "audit.toml")
    assert settings.severities == {"ghost_broker": Severity.CRITICAL}


def test_the_files_that_ship_can_be_used() -> None:
    shipped = parse_settings((CONF / "audit.toml").read_text(encoding="utf-8"), "conf/audit.toml")
    assert shipped == parse_settings("", "defaults")
    parse_fleet((CONF / "fleet.toml").read_text(encoding="utf-8"), "conf/fleet.toml")


def test_a_mute_names_a_cluster_by_id_or_by_its_name_in_the_inventory() -> None:
    fleet = parse_fleet("[[cluster]]\nid='a'\nname='b'\n[[cluster]]\nid='b'\nname='c'", "f")
    text = GOOD + "".join(GOOD + f'cluster="{name}"\n' for name in ("a", "b", "c", "landed"))
    mutes = mutes_of(parse_settings(text, "audit.toml").mute, fleet, "audit.toml")
    assert [mute.cluster for mute in mutes] == ["", "a", "b", "b", "landed"]
    assert {(mute.reason, mute.until) for mute in mutes} == {("its disk", date(2026, 12, 31))}


def test_a_mute_for_a_name_of_two_clusters_is_refused() -> None:
    fleet = parse_fleet("[[cluster]]\nid='a'\nname='x'\n[[cluster]]\nid='b'\nname='x'", "f")
    with pytest.raises(ConfigError, match=r"audit.toml: .*'x'.*2 clusters: a, b. Give the id"):
        mutes_of(parse_settings(GOOD + 'cluster="x"', "audit.toml").mute, fleet, "audit.toml")


def test_the_example_of_a_mute_in_the_file_that_ships_can_be_used() -> None:
    text = (CONF / "audit.toml").read_text(encoding="utf-8")
    example = text.partition("# [[mute]]")[1] + text.partition("# [[mute]]")[2]
    settings = parse_settings(re.sub("^# ", "", example, flags=re.MULTILINE), "conf/audit.toml")
    [mute] = settings.mute
    assert (mute.code, mute.node, mute.until) == ("ghost_broker", 7, date(2026, 12, 31))
