"""May software of a release join, what must happen first, and may one roll back afterwards."""

from __future__ import annotations

import pytest

from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION
from featurelib.questions.roll import Roll, roll
from tests.questions.nights import NAMES, TERMS, sight


def ask(name: str, release: str) -> Roll:
    return roll(sight(name), release, TERMS)


def test_older_software_needs_its_levels_lowered_first() -> None:
    found = ask("k42-dynamic", "4.1")
    assert not found.may_join
    assert [one.feature for one in found.misfits] == [METADATA_VERSION, "streams.version"]
    assert found.only_unstable == (METADATA_VERSION, "streams.version")
    assert {(one.role.text, one.entry) for one in found.refused} == {
        ("broker", "refused"),
        ("controller", "stops"),
    }
    [first] = found.first
    assert first.intent == "downgrade-all --release-version 4.1"
    levels = {update.feature: update.to_level for step in first.steps for update in step.updates}
    assert levels == {METADATA_VERSION: 27, "streams.version": 0}


def test_a_way_down_that_loses_metadata_is_no_way() -> None:
    found = ask("ghost-broker", "3.9")
    [first] = found.first
    assert first.steps == ()
    assert any("would lose metadata" in reason.message for reason in first.refusals)


def test_in_zookeeper_mode_only_its_releases_join_and_finalized_features_stop_them() -> None:
    assert ask("zk-282-stock", "3.9").may_join
    assert {one.entry for one in ask("zk-282-ranges", "3.9").refused} == {"stops"}
    with pytest.raises(ConfigError, match=r"--to 4\.0: expected a release with ZooKeeper mode"):
        ask("zk-282-stock", "4.0")


def test_what_runs_there_and_fits_may_join_again() -> None:
    """The policy and the controllers agree about the release of every sample's controllers."""
    checked = set()
    for name in set(NAMES) - {"k43-unstable", "refused-metadata"}:
        one = sight(name)
        if one.dialects[0].startswith("kraft") and not one.judged.incompatible.num_rows:
            found = ask(name, one.releases[0])
            assert found.may_join == (not found.misfits), name
            assert found.may_join or name == "rollback-too-late"
            checked.add(name)
    assert len(checked) >= 12
