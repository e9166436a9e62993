"""What a broker's registration in ZooKeeper says, and how damage in it is told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurelib.landing import StoredRegistration, broker_id, registration
from tests.landing.test_read import LINES

RANGE = '{"min_version":1,"max_version":4}'
ZERO = '{"min_version":0,"max_version":0}'


def features(text: str) -> str:
    return f'{{"version":5,"features":{text}}}'


def test_ranges_are_read_by_feature() -> None:
    data = f'{{"features":{{"g":{RANGE},"a":{ZERO}}},"version":5,"port":1}}'
    assert registration(data) == StoredRegistration(5, (("a", 0, 0), ("g", 1, 4)), None)


@pytest.mark.parametrize("data", ['{"version":4}', '{"version":4,"features":null}'])
def test_registration_without_features_is_not_an_empty_one(data: str) -> None:
    assert registration(data) == StoredRegistration(4, None, None)
    assert registration('{"version":4,"features":{}}') == StoredRegistration(4, (), None)


@pytest.mark.parametrize(
    ("data", "version", "words"),
    [
        (None, None, "found nothing"),
        ("", None, "expected a JSON object"),
        ("{", None, "expected a JSON object"),
        ("[]", None, "found []"),
        ("\ud800", None, "expected a JSON object"),
        ("[" * 9999, None, "expected a JSON object"),
        ('{"features":{}}', None, "version: expected a whole number from 1, found nothing"),
        ('{"version":0}', None, "found 0"),
        ('{"version":"5"}', None, 'found "5"'),
        (features("[]"), 5, "features: expected an object, found []"),
        (features('{"g":7}'), 5, "features.g: expected an object, found 7"),
        (features('{"g":{"min_version":1}}'), 5, "features.g.max_version is missing"),
        (features('{"g":' + RANGE.replace("4", "65537") + "}"), 5, "65537"),
        (features('{"g":' + RANGE.replace("4", "0") + "}"), 5, "1 to 0"),
        (features('{"":' + RANGE + "}"), 5, "names of 1 to"),
        ('{"version":0,"features":[]}', None, "features"),
    ],
)
def test_damage_is_a_defect(data: str | None, version: int | None, words: str) -> None:
    found = registration(data)
    assert (found.version, found.features or None) == (version, None)
    assert found.defect is not None
    assert words in found.defect


def test_features_are_kept_when_only_the_version_is_damaged() -> None:
    found = registration(f'{{"features":{{"g":{RANGE}}}}}')
    assert found.features == (("g", 1, 4),)
    assert found.defect is not None


def test_every_registration_of_the_samples_is_read() -> None:
    nodes = [json.loads(line) for line in LINES if b'"path":"/brokers/ids/' in line]
    assert len(nodes) > 20
    assert {registration(node["data"]).defect for node in nodes} == {None}


def test_path_of_a_registration_names_its_broker() -> None:
    assert broker_id("/brokers/ids/17") == 17
    assert broker_id("/brokers/ids/2147483648") is None
    assert broker_id("/feature") is None


@settings(deadline=None)
@given(st.text(st.characters()))
def test_no_text_makes_it_raise(data: str) -> None:
    registration(data)
    registration('{"version":5,"features":' + data)
