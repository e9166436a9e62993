"""A program is told what conf/audit.toml mutes; what people are told is a transcript."""

from __future__ import annotations

from pathlib import Path

from featurelib import RequestedLevels, what_if, why_not
from featurelib.api.clusters import Stored
from featurelib.api.plans import plan
from featurelib.catalogue import load
from featurelib.source import Wanted
from tests.report.samples import SAMPLES

MUTE = """
[[mute]]
code = "unsupported_by_node"
cluster = "ghost-broker"
node = 2
reason = "its disk, ticket 4711"
by = "ann"
until = 2026-12-31
"""


def test_a_program_is_told_what_is_muted(tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text(MUTE, encoding="utf-8")
    wanted = Wanted(
        capture=str(SAMPLES / "ghost-broker"),
        fleet=str(SAMPLES / "fleet.toml"),
        config=str(tmp_path / "audit.toml"),
        as_of="newest",
    )
    cluster = Stored(wanted=wanted, catalogue=load())
    answer = why_not(cluster, "metadata.version", 27)
    assert {row["muted"] for row in answer.rows} == {None, "its disk, ticket 4711 (ann)"}
    made = plan(cluster, "upgrade", RequestedLevels(up={"metadata.version": 27}))
    said = "(broker 2; metadata.version), muted: its disk, ticket 4711 (ann), until"
    for text in (answer, what_if(cluster, remove=[2]), made):
        assert f"unsupported_by_node {said}" in " ".join(str(text).split())
