"""Landing lines as a collector writes them: what was seen in, bytes without a line end out.

A value that is None is left out, but for those whose null says something.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

_ENCODER = msgspec.json.Encoder()
_SAYS_ABSENT = frozenset({"data", "version"})  # of a znode: it does not exist


def write_line(kind: str, cluster_id: str, observed_at: int, keys: Mapping[str, object]) -> bytes:
    """One line; `observed_at` in microseconds since 1970, in UTC."""
    said = {
        key: value
        for key, value in keys.items()
        if value is not None or (kind == "znode" and key in _SAYS_ABSENT)
    }
    time = write_time(observed_at)
    return _ENCODER.encode({"kind": kind, "cluster_id": cluster_id, "observed_at": time, **said})


def write_time(microseconds: int) -> str:
    """A time as landing lines have it: ISO 8601 in UTC, to the microsecond."""
    seconds, rest = divmod(microseconds, 1_000_000)
    whole = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()
    return f"{whole}.{rest:06d}Z"
