"""Which releases never register again after a step."""

from __future__ import annotations

import pytest

from featurelib.catalogue import load
from featurelib.feature import METADATA_VERSION
from featurelib.planning.outlook import NONE, StepOutlook

CATALOGUE = load()


@pytest.mark.parametrize(
    ("levels", "floor", "no_more", "never"),
    [
        ({METADATA_VERSION: 29}, 23, ("3.9", "4.0", "4.1"), ("3.9",)),
        ({METADATA_VERSION: 27, "kraft.version": 1}, 23, ("3.9", "4.0"), ("3.9",)),
        ({METADATA_VERSION: 21, "kraft.version": 1}, 21, ("3.8",), ("3.8",)),
        ({METADATA_VERSION: 21, "kraft.version": 1}, 19, ("3.7", "3.8"), ("3.7", "3.8")),
        ({METADATA_VERSION: 29}, NONE, ("3.9",), ()),
    ],
)
def test_a_release_never_registers_again_if_no_safe_downgrade_brings_it_back(
    levels: dict[str, int], floor: int, no_more: tuple[str, ...], never: tuple[str, ...]
) -> None:
    """Kafka lowers metadata.version down to the floor only, and kraft.version 1 never."""
    outlook = StepOutlook(
        changes=(),
        timeout_ms=1,
        levels=levels,
        floor=floor,
        joins=(),
        joins_no_more=no_more,
        joins_newly=(),
    )
    assert outlook.never_again(CATALOGUE) == never
