"""What the text of a znode and a line of `kafka-features.sh describe` say, damaged ones too."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurelib.landing.kinds import ToolFeature, broker_id, controller, registration, tool_feature
from featurelib.landing.strict import FaultError
from tests.landing.test_read import LINES

RANGE = '{"min_version":1,"max_version":4}'
TAB = (
    "Feature: metadata.version\tSupportedMinVersion: 3.0-IV1\tSupportedMaxVersion: UNKNOWN [11]"
    "\tFinalizedVersionLevel: 3.3-IV3\tEpoch: 27"
)
PADDED = (
    f"Feature: {'kraft.version':<40}  SupportedMinVersion: {'0':<15}  "
    f"SupportedMaxVersion: {'1':<15}  FinalizedVersionLevel: {'UNKNOWN 33':<15}  Epoch: 21"
)
WITH_MINIMUM = (
    "Feature: geo\tSupportedMinVersion: 2\tSupportedMaxVersion: 5\t"
    "FinalizedMinVersionLevel: 3\tFinalizedMaxVersionLevel: 4\tEpoch: 1"
)
ABSENT = WITH_MINIMUM.replace(": 3", ": -").replace(": 4", ": -").replace("Epoch: 1", "Epoch: -")


def features(text: str) -> str:
    return f'{{"version":5,"features":{text}}}'


def test_a_registration_lists_ranges_by_feature_or_no_features_at_all() -> None:
    zero = '{"min_version":0,"max_version":0}'
    data = f'{{"features":{{"g":{RANGE},"a":{zero}}},"version":5,"port":1}}'
    assert registration(data) == (("a", 0, 0), ("g", 1, 4))
    assert registration('{"version":4}') is registration('{"version":4,"features":null}') is None
    assert registration('{"version":4,"features":{}}') == ()


@pytest.mark.parametrize(
    "data",
    [
        *("", "{", "[]", "\ud800", "[" * 9999, '{"features":{}}', '{"version":0}'),
        *('{"version":"5"}', features("[]"), features('{"g":7}')),
        features('{"g":{"min_version":1}}'),
        features('{"g":' + RANGE.replace("4", "65537") + "}"),
        features('{"g":' + RANGE.replace("4", "0") + "}"),
        features('{"":' + RANGE + "}"),
    ],
)
def test_a_registration_that_cannot_be_read_is_damaged(data: str) -> None:
    with pytest.raises(FaultError):
        registration(data)


def test_every_text_of_the_samples_is_read() -> None:
    nodes = [json.loads(line) for line in LINES if b'"path":"/brokers/ids/' in line]
    assert len([registration(node["data"]) for node in nodes if node["data"]]) > 20
    tool = [json.loads(line)["line"] for line in LINES if b'"features_describe"' in line]
    shown = [tool_feature(line) for line in tool if line.startswith("Feature: ")]
    assert len(shown) > 100
    assert None not in shown


def test_path_of_a_registration_names_its_broker() -> None:
    assert broker_id("/brokers/ids/17") == 17
    assert broker_id("/brokers/ids/2147483648") is None
    assert broker_id("/feature") is None


@pytest.mark.parametrize(
    ("data", "node_id"),
    [('{"version":1,"brokerid":7}', 7), (None, -1), ("", -1), ("{", -1), ("[]", -1),
     ('{"brokerid":"7"}', -1), ("\ud800", -1), ("[" * 9999, -1)],
)  # fmt: skip
def test_who_is_the_controller_by_its_znode(data: str | None, node_id: int) -> None:
    assert controller(data) == node_id


@settings(deadline=None)
@given(st.text(st.characters()), st.booleans())
def test_no_text_raises_anything_else(data: str, inside: bool) -> None:
    with contextlib.suppress(FaultError):
        registration('{"version":5,"features":' + data if inside else data)


@pytest.mark.parametrize(
    ("line", "feature"),
    [
        (TAB, ToolFeature("metadata.version", "3.3-IV3", None, 27)),
        (PADDED, ToolFeature("kraft.version", "UNKNOWN 33", None, 21)),
        (WITH_MINIMUM, ToolFeature("geo", "4", "3", 1)),
        (ABSENT, ToolFeature("geo", "-", "-", None)),
        *((line, None) for line in ("", "--- stderr", TAB[:40], TAB + "x", "x" + TAB)),
        *((line, None) for line in (TAB.replace("27", "x"), TAB.replace("\t", " "))),
    ],
)
def test_a_line_of_the_tool_tells_of_a_feature_or_of_none(
    line: str, feature: ToolFeature | None
) -> None:
    assert tool_feature(line) == feature
