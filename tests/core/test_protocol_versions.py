"""Which inter.broker.protocol.versions there are, as real brokers of 3.9.0 take them."""

from __future__ import annotations

import pytest

from featurelib.core.dialect import GENERATIONS, load
from featurelib.core.protocol_versions import STEPS, is_protocol_version, knows, release_knows


@pytest.mark.parametrize(
    ("text", "there_is"),
    [
        ("2.6", True),
        ("2.7.1", True),
        ("2.7-IV2", True),
        ("2.7-IV3", False),
        ("2.7-IV9", False),
        ("2.7.1-IV9", True),  # what follows the release is cut off
        ("0.10.0", True),
        ("0.10.0-IV1", True),
        ("0.8.2.1", True),
        ("0.8.2-IV0", False),
        ("0.9", False),
        ("1.0-IV0", True),
        ("3.9-IV0", True),
        ("3.9-IV1", False),
        ("4.0", False),
        ("2.10", False),
        ("2", False),
        ("2.6.", False),
        (" 2.6", False),
        ("2.6\n", False),
        ("", False),
    ],
)
def test_what_metadata_version_of_3_9_0_makes_of_it(text: str, there_is: bool) -> None:
    """Recorded: MetadataVersion.fromVersionString of kafka-server-common 3.9.0."""
    assert is_protocol_version(text) == there_is


def test_every_release_of_zookeeper_mode_has_one() -> None:
    releases = {r for name in GENERATIONS[:2] for r in load(name).releases}
    assert releases <= set(STEPS)
    assert {load(name).mode for name in GENERATIONS[:2]} == {"zk"}


def test_a_release_knows_its_own_and_all_older_ones() -> None:
    assert release_knows("2.8.2", "2.8-IV1")
    assert release_knows("2.8.2", "0.10.0")
    assert not release_knows("2.8.2", "3.0")
    assert [knows(load(name), "3.3") for name in GENERATIONS[:2]] == [False, True]
    assert [knows(load(name), "3.2") for name in GENERATIONS[:2]] == [True, True]
