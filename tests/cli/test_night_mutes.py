"""Mutes where a night is entered and left: from --config to the exit code."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from featurelib.cli.night import Places, choose_places, is_reached
from featurelib.errors import ConfigError
from featurelib.feature import Severity
from tests.report.tables import finding, judged, plan

MUTE = """
[[mute]]
code = "ghost_broker"
cluster = "payments"
reason = "its disk"
until = 2026-12-31
"""


def places_of(tmp_path: Path, config: str, fleet: str) -> Places:
    for name, text in (("audit.toml", config), ("fleet.toml", fleet)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return choose_places(
        landing="",
        tables=str(tmp_path / "tables"),
        out=None,
        fleet=str(tmp_path / "fleet.toml"),
        config=str(tmp_path / "audit.toml"),
        as_of=None,
        overlay=None,
    )


def test_a_mute_of_the_settings_is_for_the_cluster_the_inventory_names(tmp_path: Path) -> None:
    places = places_of(tmp_path, MUTE, '[[cluster]]\nid = "x1"\nname = "payments"')
    [mute] = places.mutes
    assert (mute.code, mute.cluster, mute.until) == ("ghost_broker", "x1", date(2026, 12, 31))


def test_a_mute_that_cannot_be_used_stops_the_night_before_it_begins(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"audit\.toml: .*ghost_brokers.*mean ghost_broker"):
        places_of(tmp_path, MUTE.replace("ghost_broker", "ghost_brokers"), "")


def test_muted_findings_do_not_count_for_fail_on() -> None:
    muted = {"muted": "known", "muted_until": date(2026, 12, 31)}
    rows = [
        finding("a", "incompatible_with_finalized", "critical", **muted),
        finding("a", "ghost_broker", "warning"),
    ]
    tables = judged([plan("a", "BLOCKED")], rows)
    reached = [severity for severity in Severity if is_reached(severity, tables)]
    assert reached == [Severity.WARNING, Severity.INFO]
    assert not is_reached(Severity.INFO, judged([plan("a", "BLOCKED")], rows[:1]))
