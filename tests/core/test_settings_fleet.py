"""Configuration that cannot be used is one sentence: file, key, what was expected and found."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from featurelib.catalogue import load
from featurelib.config.fleet import Fleet, parse_fleet, zookeeper_generation
from featurelib.config.settings import mutes_of, parse_settings
from featurelib.core.features_znode import Generation
from featurelib.errors import ConfigError
from featurelib.feature import Severity
from featurelib.model import Guards
from featurelib.planning.requirements import Guarding

# Found by these tests and reported; the mark goes with the bug.
CONF = Path(__file__).parents[2] / "conf"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max_age_hours = ", ["conf/audit.toml"]),
        ("max_age = 3", ["max_age"]),
        ('max_age_hours = "long"', ["max_age_hours", "float", "str"]),
        ("max_age_hours = -1", ["max_age_hours", "above 0", "-1"]),
        ("max_age_hours = 0", ["max_age_hours", "above 0", "0"]),
        ("max_age_hours = nan", ["max_age_hours", "nan"]),
        ("max_age_hours = inf", ["max_age_hours", "inf"]),
        ("retention_days = 6", ["retention_days", "7", "6"]),
        ('vacuum = "yes"', ["vacuum", "bool"]),
        ("longest_approval_hours = 0", ["longest_approval_hours", "above 0", "0"]),
        ("longest_approval_hours = nan", ["longest_approval_hours", "nan"]),
        ('allowed_signers = ""', ["allowed_signers", "''"]),
        ('require_signature = "yes"', ["require_signature", "bool"]),
        ("require_signatures = true", ["require_signatures"]),
        ('[severities]\nghost_broker = "grave"', ["severities", "grave"]),
        ('[severities]\nghost = "info"', ["severities", "ghost"]),
    ],
)
def test_settings_that_cannot_be_used_are_told(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as told:
        parse_settings(text, "my/audit.toml")
    assert str(told.value).startswith("my/audit.toml: ")
    assert [word for word in words if word not in str(told.value)] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[cluster]", ["fleet.toml"]),
        ("[[clusters]]\nid='a'", ["clusters"]),
        ("[[cluster]]\nname='pay'", ["cluster 'pay': expected an id", "cluster-id --bootstrap"]),
        ("[[cluster]]\nid='a'\n[[cluster]]\nowner='b'", ["[[cluster]] number 2: expected an id"]),
        ("[[cluster]]\nid='a'\nsecurity.protocol='TLS'", ["cluster 'a': ", "'TLS'"]),
        ("cluster = [3]", ["[[cluster]] number 1: ", "object", "int"]),
        ("[[cluster]]\nid=''", ["empty id"]),
        ("[[cluster]]\nid='a'\n[[cluster]]\nid='a'", ["'a'", "twice"]),
        ("[[cluster]]\nid='a'\nbroker=[1]", ["broker"]),
        ("[[cluster]]\nid='a'\nbrokers=['1']", ["brokers", "int", "str"]),
        ("[[cluster]]\nid='a'\nlabels={x=1}", ["labels", "str", "int"]),
        ("[[cluster]]\nid='a'\nbrokers=[-1]", ["brokers"]),
        ("[[cluster]]\nid='a'\nbrokers=[4294967297]", ["brokers"]),
    ],
)
def test_an_inventory_that_cannot_be_used_is_told(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as told:
        parse_fleet(text, "my/fleet.toml")
    assert re.match(r"my/fleet.toml(:\d+)?: ", str(told.value))
    assert [word for word in words if word not in str(told.value)] == []


TWO = "[[cluster]]\nid='x'\n\n[[cluster]]\nname='pay'\nid='a'\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("managed_features=['f']", 7, ["managed_features: expected managed_by beside it"]),
        ("managed_by='me'\nmanaged_features=[]", 8, ["what me finalizes", "empty list"]),
        (
            "managed_by='me'\nmanaged_features=['group.version','group.version']",
            8,
            ["each feature once", "'group.version' twice"],
        ),
        (
            "managed_by='strimzi'\nmanaged_features=['metadata.verison']",
            8,
            ["found 'metadata.verison' (did you mean metadata.version?)", "--overlay FILE"],
        ),
        ("managed_by='strimzi'\nmanaged_features=['zzz']", 8, ["found 'zzz'."]),
        ("release='4.1'\nzookeeper='z:1'", 8, ["the release 4.1", "4.x has no ZooKeeper mode"]),
        ("brokers=[1,2,1]", 7, ["brokers: expected each node once, found 1 twice"]),
        ("id='x'", 7, ["Cannot overwrite a value"]),
        ("[cluster.security]\nprotocol='SASL_SSL'", 7, ["security.mechanism: expected one"]),
        ("security.protocol='SSL'\nsecurity.key_file='k'", 7, ["security.key_file: expected"]),
        ("[cluster.security]\nprotocol='PLAIN'", 8, ["'PLAIN'"]),
        ("[cluster.security]\nx=1\nprotocol='SSL'", 8, ["unknown field `x`"]),
        ("[[cluster]]\nid='a'", 8, ["cluster 'a' stands there twice"]),
        ("[[cluster]]\nid=''", 8, ["empty id"]),
        ("[[cluster]]\nowner='b'", 7, ["[[cluster]] number 3: expected an id"]),
    ],
)
def test_an_inventory_that_contradicts_itself_is_told_with_its_line(
    text: str, line: int, words: list[str]
) -> None:
    with pytest.raises(ConfigError) as told:
        parse_fleet(TWO + text + "\n", "my/fleet.toml", load())
    said = str(told.value)
    assert said.startswith(f"my/fleet.toml:{line}: ") or f"at line {line}" in said
    assert [word for word in words if word not in said] == []


def test_clusters_in_an_unusual_form_have_no_line() -> None:
    with pytest.raises(ConfigError, match=r"^f: cluster 'a': brokers: expected each node once"):
        parse_fleet("cluster = [{id = 'a', brokers = [1, 1]}]", "f")


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


def test_a_wrong_configuration_is_a_usage_error() -> None:
    assert ConfigError.exit_code == 2


def test_empty_settings_are_the_defaults() -> None:
    settings = parse_settings("", "audit.toml")
    assert settings.max_age == 72 * 3_600_000_000
    assert (settings.retention_days, settings.vacuum, settings.severities) == (90, False, {})
    assert (settings.require_signature, settings.allowed_signers) == (False, "allowed_signers")
    assert settings.longest_approval_hours == 168


def test_a_severity_can_be_changed() -> None:
    settings = parse_settings('[severities]\nghost_broker = "critical"', "audit.toml")
    assert settings.severities == {"ghost_broker": Severity.CRITICAL}


def test_an_inventory_says_what_is_expected() -> None:
    text = "[[cluster]]\nid='a'\nbrokers=[1,2]\ncontrollers=[9]\nregistrations_complete=true\n"
    fleet = parse_fleet(text + "release='2.8.2'\n[[cluster]]\nid='b'\nname='B'", "fleet.toml")
    assert fleet.names == {"a": "a", "b": "B"}
    expected = fleet.inventory["a"]
    assert (expected.brokers, expected.controllers, expected.vouched) == ((1, 2), (9,), True)
    assert expected.generation is Generation.ZK_2_7
    assert fleet.inventory["b"].generation is None


@pytest.mark.parametrize(
    ("release", "generation"),
    [
        ("2.8.2", Generation.ZK_2_7),
        ("3.2", Generation.ZK_2_7),
        ("3.3", Generation.ZK_3_3),
        ("3.4.0", Generation.ZK_3_3),
        ("3.4.1", Generation.ZK_3_9),
        ("3.9", Generation.ZK_3_9),
        ("3.10.1-SNAPSHOT", Generation.ZK_3_9),
        ("", None),
        ("latest", None),
    ],
)
def test_a_release_says_who_reads_the_features_node(
    release: str, generation: Generation | None
) -> None:
    assert zookeeper_generation(release) is generation


def test_the_files_that_ship_can_be_used() -> None:
    shipped = parse_settings((CONF / "audit.toml").read_text(encoding="utf-8"), "conf/audit.toml")
    assert shipped == parse_settings("", "defaults")
    parse_fleet((CONF / "fleet.toml").read_text(encoding="utf-8"), "conf/fleet.toml")


GOOD = '[[mute]]\ncode="ghost_broker"\nreason="its disk"\nuntil=2026-12-31\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD.replace("ghost_broker", "ghost_brokr"), ["ghost_brokr", "ghost_broker", "number 1"]),
        (GOOD.replace("ghost_broker", "zzzz"), ["zzzz", "Known are", "unsupported_by_node"]),
        (GOOD + GOOD.replace('"its disk"', '"  "'), ["number 2", "ghost_broker", "reason"]),
        (GOOD.replace('reason="its disk"\n', ""), ["reason", "mute[0]"]),
        (GOOD.replace("until=2026-12-31", ""), ["until", "mute[0]"]),
        (GOOD.replace("2026-12-31", '"next year"'), ["date", "until = 2026-12-24"]),
        (GOOD.replace("2026-12-31", "2026-12-31T00:00:00Z"), ["until", "date", "datetime"]),
        (GOOD + "node=-1", ["node", ">= 0"]),
        (GOOD + 'node="7"', ["node", "int", "str"]),
        (GOOD + 'reasn="why"', ["'reasn'", "reason?", "[[mute]]"]),
        (GOOD.replace("ghost_broker", "mute_expired"), ["mute_expired", "cannot be muted"]),
        (GOOD.replace("[[mute]]", "[[mutes]]"), ["'mutes'", "mute?"]),
        (GOOD.replace("[[mute]]", "[mute]"), ["mute", "array"]),
        ("mute = 3", ["mute", "array"]),
        ("forgotten_nights = -1", ["forgotten_nights", "-1"]),
        ("forgotten_nights = 1000000", ["forgotten_nights", "1000000"]),
        ("forgotten_nights = 1.5", ["forgotten_nights", "int"]),
    ],
)
def test_mutes_that_cannot_be_used_are_told(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as told:
        parse_settings(text, "my/audit.toml")
    assert str(told.value).startswith("my/audit.toml: ")
    assert [word for word in words if word not in str(told.value)] == []


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


def test_nights_until_finalization_is_forgotten_are_days() -> None:
    assert parse_settings("", "audit.toml").forgotten == 14 * 24 * 3_600_000_000
    assert parse_settings("forgotten_nights = 0", "audit.toml").forgotten == 0
