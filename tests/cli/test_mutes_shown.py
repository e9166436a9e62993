"""What conf/audit.toml mutes is said where it stands in the way, and stays there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from featurelib import connect, what_if, why_not
from featurelib.api.act import plan
from featurelib.api.clusters import Stored
from featurelib.catalogue import load
from featurelib.source import Wanted
from tests.cli.commands import run
from tests.report.samples import SAMPLES

MUTE = """
[[mute]]
code = "unsupported_by_node"
cluster = "ghost-broker"
node = 2
reason = "its disk, ticket 4711"
by = "ann"
until = {until}
"""
SAID = "unsupported_by_node (broker 2; metadata.version), muted: its disk, ticket 4711 (ann), until"
QUESTIONS = [
    ("why-not", "metadata.version=27"),
    ("what-if", "--remove", "2"),
    ("plan", "upgrade", "--feature", "metadata.version=27", "--as-of", "newest"),
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def asked(*words: str, until: str = "2026-12-31", more: str = "") -> tuple[int, str, str]:
    Path("audit.toml").write_text(MUTE.format(until=until) + more, encoding="utf-8")
    where = ("--capture", str(SAMPLES / "ghost-broker"), "--fleet", str(SAMPLES / "fleet.toml"))
    return run(*words, *where, "--config", "audit.toml")


@pytest.mark.parametrize("words", QUESTIONS)
def test_a_muted_reason_stays_and_is_said_to_be_muted(words: tuple[str, ...]) -> None:
    code, muted, _ = asked(*words)
    plain_code, plain, _ = asked(*words, until="2026-11-01")  # it has run out
    assert code == plain_code
    lines = [" ".join(muted.split()), " ".join(plain.split())]
    assert [f"{SAID} 2026-12-31" in text for text in lines] == [True, False]
    assert set(plain.splitlines()) <= set(muted.splitlines())  # nothing is hidden


def test_a_mute_makes_nothing_ready() -> None:
    whole = '[[mute]]\ncode = "refused_by_own_controller"\nreason = "x"\nuntil = 2026-12-31\n'
    code, out, _ = asked(*QUESTIONS[2], more=whole)
    assert (code, out.count("REFUSED, nothing is written")) == (3, 1)
    code, out, _ = asked(*QUESTIONS[0], more=whole)
    assert out.startswith("ghost-broker: metadata.version 27 (4.1-IV1): BLOCKED\n")
    assert "refused_by_own_controller (metadata.version), muted: x, until 2026-12-31" in out


def test_json_has_the_mute_beside_each_reason() -> None:
    expected = ("its disk, ticket 4711 (ann)", "2026-12-31")

    def mute_of(one: dict[str, str | None]) -> tuple[str | None, str | None]:
        return one["muted"], one["muted_until"]

    proofs = json.loads(asked(*QUESTIONS[0], "--json")[1])["proofs"]
    assert {one["judge"]: mute_of(one) for one in proofs} == {
        "strict": expected,
        "kraft-4.1": (None, None),
    }
    gone = json.loads(asked(*QUESTIONS[1], "--json")[1])["gone"]
    assert {one["code"]: mute_of(one) for one in gone} == {
        "unsupported_by_node": expected,
        "ghost_broker": (None, None),
    }
    refusals = json.loads(asked(*QUESTIONS[2], "--json")[1])["refusals"]
    assert expected in [mute_of(one) for one in refusals]


def test_a_program_is_told_too() -> None:
    asked(*QUESTIONS[0])
    wanted = Wanted(
        capture=str(SAMPLES / "ghost-broker"),
        fleet=str(SAMPLES / "fleet.toml"),
        config="audit.toml",
        as_of="newest",
    )
    cluster = Stored(wanted=wanted, catalogue=load())
    answer = why_not(cluster, "metadata.version", 27)
    assert {row["muted"] for row in answer.rows} == {None, "its disk, ticket 4711 (ann)"}
    made = plan(cluster, "upgrade", up={"metadata.version": 27})
    for text in (answer, what_if(cluster, remove=[2]), made):
        assert SAID in " ".join(str(text).split())


def test_of_a_live_look_a_mute_counts_as_of_now() -> None:
    run("embedded", "make", "copy.db", "--capture", str(SAMPLES / "ghost-broker"))
    for until, is_muted in (("2020-01-01", False), ("9999-01-01", True)):
        text = MUTE.format(until=until).replace("unsupported_by_node", "range_unknown")
        text = text.replace('cluster = "ghost-broker"', "")
        Path("audit.toml").write_text(text, encoding="utf-8")
        Path("fleet.toml").write_text("", encoding="utf-8")
        copy = connect(file="copy.db", config="audit.toml", fleet="fleet.toml")
        said = str(why_not(copy, "metadata.version", 27))
        assert said.startswith("h0FOOR_sRsiOiKHch7mH4w: metadata.version 27 (4.1-IV1): UNKNOWN\n")
        assert ("range_unknown (broker 2), muted: its disk, ticket 4711 (ann)" in said) is is_muted
