"""The Python API on a real 4.2 node: described, validated, refused, updated, planned, applied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from featurelib import (
    FeatureUpdate,
    UpgradeType,
    apply,
    approve,
    connect,
    describe_features,
    plan,
    update_features,
    why_not,
)
from featurelib.controller.journal import Journal
from featurelib.core.outcome import Fate
from featurelib.errors import RejectedError
from tests.backends.rig.cluster import RunningCluster

METADATA, GROUP, SHARE = "metadata.version", "group.version", "share.version"


def test_a_real_node_is_described_updated_and_takes_a_plan(
    kraft_cluster: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    running = kraft_cluster(release_version="4.1")
    (tmp_path / "fleet.toml").write_text("")
    cluster = connect(bootstrap=running.bootstrap, fleet=str(tmp_path / "fleet.toml"))
    journal = str(tmp_path / "journal.sqlite")

    described = describe_features(cluster)
    assert described.cluster_id == running.cluster_id
    assert described.finalized is not None
    assert described.finalized[METADATA].max_version_level == 27
    assert described.finalized_features_epoch is not None
    [only] = described.supported[METADATA]
    assert (only.max_version, only.nodes) == (29, ("broker 1", "controller 1"))

    off = {GROUP: FeatureUpdate(level=0, upgrade_type=UpgradeType.SAFE_DOWNGRADE)}
    assert update_features(cluster, off, validate_only=True, journal=journal).is_ok
    too_high = {METADATA: FeatureUpdate(level=99), SHARE: FeatureUpdate(level=1)}
    refused = update_features(cluster, too_high, journal=journal)
    assert {one.fate for one in refused.features.values()} == {Fate.REJECTED}
    with pytest.raises(RejectedError, match=r"metadata\.version: rejected \(error 95\)"):
        refused.expect_ok()
    result = update_features(cluster, off, journal=journal)
    assert (result.is_ok, result.features[GROUP].level, result.late) == (True, 0, ())
    now = describe_features(cluster)
    assert now.finalized is not None
    assert GROUP not in now.finalized
    assert now.finalized_features_epoch is not None
    assert now.finalized_features_epoch > described.finalized_features_epoch

    assert why_not(cluster, METADATA, 29).value.answer == "nothing"
    made = plan(cluster)
    carried = apply(made, cluster, approval=approve(made, "1h", by="ann"), journal=journal)
    assert carried.is_done, str(carried)
    after = describe_features(cluster).finalized
    assert after is not None
    assert (after[METADATA].max_version_level, after[GROUP].max_version_level) == (29, 1)
    opened = Journal(Path(journal))
    assert [entry.fate.value for entry in opened.entries()][:2] == ["rejected", "applied"]
    opened.close()
