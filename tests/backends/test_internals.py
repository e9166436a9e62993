"""The parts of kafka-python below its public clients that featurelib relies on, of one release."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import kafka
import pytest

from featurelib.backends.kafka import internals

ROOT = Path(__file__).parents[2]
PINNED = "3.0.12"


def test_the_release_is_the_pinned_one() -> None:
    """Another one? Read the diff of kafka/net first, run tests/backends, then write it here."""
    locked = re.search(
        r'name = "kafka-python"\nversion = "([^"]+)"', (ROOT / "uv.lock").read_text()
    )
    assert locked is not None
    assert locked.group(1) == kafka.__version__ == PINNED


@pytest.mark.parametrize(
    ("part", "names"),
    [
        (
            internals.KafkaConnection,
            "connection_made initialize init_future send_request broker_version_data connected "
            "paused close",
        ),
        (internals.NetworkSelector, "run sleep close"),
        (internals.KafkaTCPTransport, "_sock_recv"),  # overridden: last words are kept
        (internals.AbstractTokenProvider, "token"),
        (
            type(internals.admin.UpdateFeaturesRequest.fields["feature_updates"]),
            "is_struct_array data_class",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_used_of_it_is_there(part: type, names: str) -> None:
    source = inspect.getsource(part)
    for name in names.split():
        assert hasattr(part, name) or f"self.{name} =" in source, name
