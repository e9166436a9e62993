"""What every landing line has: its kind, its cluster and the time it was read.

A kind of line is a `Line` whose tag is the value of `kind`; its `content` either says what the
line observed or raises the FaultError that quarantines it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

from featurelib.landing.fault import FaultError, show
from featurelib.landing.wire import ClusterId, Time

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = 946_684_800_000_000  # 2000-01-01, microseconds
_END = 7_289_654_400_000_000  # 2201-01-01
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Line(
    msgspec.Struct, tag_field="kind", frozen=True, gc=False, kw_only=True, omit_defaults=True
):
    """One landing line as it stands in the file.

    Written again it has no key that the file's line lacks: `read` proves lines by that.
    """

    cluster_id: ClusterId
    observed_at: Time | None = None


class Timed(Line, frozen=True, gc=False, kw_only=True):
    """A line that claims something, and so has to say when that was."""

    observed_at: Time


def require_cluster(cluster: str) -> None:
    """Raise FaultError if the cluster's id holds control characters."""
    # Printable texts hold none, and are told apart without a search.
    if not cluster.isprintable() and _CONTROL.search(cluster):
        raise FaultError(f"cluster_id: expected no control characters, found {show(cluster)}")


def microseconds(time: datetime) -> int:
    """`time` as microseconds since 1970 in UTC; FaultError before the year 2000 or after 2200."""
    since = time - _EPOCH
    count = since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds
    if not _FIRST <= count < _END:
        found = show(time.isoformat())
        raise FaultError(f"observed_at: expected a time of the years 2000 to 2200, found {found}")
    return count
