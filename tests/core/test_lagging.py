"""Brokers apply the metadata log at their own pace; that is no reason to distrust a cluster."""

from __future__ import annotations

import pytest

from featurelib.catalogue import load
from featurelib.feature import Role
from featurelib.landing import ApiVersionsAnswer, Landing
from featurelib.snapshot import fold_lines, snapshot_rows
from tests.core.lines import anomalies

MINUTE = 60_000_000
START = 1_795_000_000_000_000


def answer(node_id: int, minute: int, epoch: int) -> tuple[Landing, int]:
    said = ApiVersionsAnswer(
        node_id, Role.BROKER, f"b{node_id}:9092", 4, 4, None, epoch, (), (("f", 1, 1),)
    )
    landing = Landing("api_versions", "c", START + minute * MINUTE, said)
    return landing, node_id * 1000 + minute


def met(*answers: tuple[Landing, int]) -> list[str]:
    return anomalies(snapshot_rows([("c", fold_lines(answers, load()))]))


@pytest.mark.parametrize("lag", [1, 5, 1000])
def test_a_broker_that_lags_behind_another_is_nothing_odd(lag: int) -> None:
    assert met(answer(1, 0, 23_296), answer(2, 1, 23_296 - lag)) == []


def test_a_broker_whose_own_epoch_falls_is_said() -> None:
    said = met(answer(1, 0, 23_296), answer(1, 1, 23_000))
    assert said == ["epoch_went_back:broker 1 from 23296 to 23000"]


def test_a_fallen_epoch_is_forgotten_when_another_broker_goes_on() -> None:
    assert met(answer(1, 0, 500), answer(1, 1, 400), answer(2, 2, 501)) == []
