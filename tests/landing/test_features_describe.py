"""What a line of `kafka-features.sh describe` says, in its three layouts."""

from __future__ import annotations

import json

import pytest

from featurelib.landing.features_describe import FeatureLine, parse_line
from tests.landing.test_read import LINES

TAB = (
    "Feature: metadata.version\tSupportedMinVersion: 3.0-IV1\tSupportedMaxVersion: UNKNOWN [11]"
    "\tFinalizedVersionLevel: 3.3-IV3\tEpoch: 27"
)


def test_columns_parted_by_a_tab_are_read() -> None:
    assert parse_line(TAB) == FeatureLine(
        "metadata.version", "3.0-IV1", "UNKNOWN [11]", "3.3-IV3", None, 27
    )


def test_padded_columns_are_read() -> None:
    line = (
        f"Feature: {'kraft.version':<40}  SupportedMinVersion: {'0':<15}  "
        f"SupportedMaxVersion: {'1':<15}  FinalizedVersionLevel: {'UNKNOWN 33':<15}  Epoch: 21"
    )
    assert parse_line(line) == FeatureLine("kraft.version", "0", "1", "UNKNOWN 33", None, 21)


def test_layout_with_a_finalized_minimum_is_read() -> None:
    line = (
        "Feature: geo\tSupportedMinVersion: 2\tSupportedMaxVersion: 5\t"
        "FinalizedMinVersionLevel: 3\tFinalizedMaxVersionLevel: 4\tEpoch: 1"
    )
    assert parse_line(line) == FeatureLine("geo", "2", "5", "4", "3", 1)
    absent = line.replace(": 3", ": -").replace(": 4", ": -").replace("Epoch: 1", "Epoch: -")
    assert parse_line(absent) == FeatureLine("geo", "2", "5", "-", "-", None)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--- stderr",
        TAB[:40],
        TAB + "x",
        TAB.replace("27", "x"),
        TAB.replace("\t", " "),
        "x" + TAB,
    ],
)
def test_other_and_damaged_lines_tell_of_no_feature(line: str) -> None:
    assert parse_line(line) is None


def test_every_feature_of_the_samples_is_read() -> None:
    lines = [json.loads(line)["line"] for line in LINES if b'"features_describe"' in line]
    told = [line for line in lines if line.startswith("Feature: ")]
    assert len(told) > 100
    assert None not in [parse_line(line) for line in told]
