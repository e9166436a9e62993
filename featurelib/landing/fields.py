"""Define the form of a landing line: the types of its fields, its common keys, and its text.

The types have the bounds of Kafka's protocol. A field's annotation has both the bound and its
message, so a message never names another bound than the checked one. A kind of line is a `Line`
whose tag is the value of `kind`; its `content` returns the observation, or raises the FaultError
that quarantines the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from featurelib.landing.strict import (
    MAX_DEPTH,
    FaultError,
    misfit,
    remembered,
    require_strict,
    show,
)

_T = TypeVar("_T")
INT8_MAX = 2**7 - 1
INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
CLUSTER_LENGTH = 255  # the maximum length of a cluster id, in characters
NAME_LENGTH = 32767  # the maximum bytes of a name in UTF-8: a Kafka string has an int16 length


def _from(low: int, high: int, kind: str = "a whole number") -> Meta:
    return Meta(ge=low, le=high, description=f"{kind} from {low} to {high}")


ClusterId = Annotated[
    str, Meta(min_length=1, max_length=CLUSTER_LENGTH, description="a text of 1 to 255 characters")
]
Time = Annotated[
    datetime, Meta(tz=True, description="an ISO-8601 time with seconds and with Z or an offset")
]
Text = Annotated[str, Meta(description="a text")]
FilledText = Annotated[str, Meta(min_length=1, description="a text that is not empty")]
Truth = Annotated[bool, Meta(description="true or false")]
NodeId = Annotated[int, _from(0, INT32_MAX)]
NodeIdOrNone = Annotated[int, _from(-1, INT32_MAX)]  # -1 means that there is no node
Level = Annotated[int, _from(0, INT16_MAX)]
LevelOrNone = Annotated[int, _from(-1, INT16_MAX)]
Int8 = Annotated[int, _from(-INT8_MAX - 1, INT8_MAX)]
Int16 = Annotated[int, _from(-INT16_MAX - 1, INT16_MAX)]
Int32 = Annotated[int, _from(-INT32_MAX - 1, INT32_MAX)]
Int64 = Annotated[int, _from(-INT64_MAX - 1, INT64_MAX)]
Epoch = Annotated[int, _from(-1, INT64_MAX)]  # -1 means that the epoch is unknown
Count = Annotated[int, _from(0, INT64_MAX)]
LineNumber = Annotated[int, _from(1, INT64_MAX)]
ApiVersionsVersion = Annotated[int, _from(0, 5, "a version of ApiVersions")]
DescribeVersion = Annotated[int, _from(0, 2, "a version of this request")]
# A response in version 0 lacks the source of a value.
ConfigsVersion = Annotated[int, _from(1, 4, "a version of this request")]
Listener = Annotated[Literal["broker", "controller"], Meta(description="broker or controller")]
EndpointType = Annotated[Literal[1, 2], Meta(description="1 (brokers) or 2 (controllers)")]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = 946_684_800_000_000  # the year 2000, in microseconds since 1970
_END = 7_289_654_400_000_000  # the year 2201, in microseconds since 1970
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Line(
    msgspec.Struct, tag_field="kind", frozen=True, gc=False, kw_only=True, omit_defaults=True
):
    """A landing line with the keys that it has in the file.

    Encoded again, the line has no key that the file's line lacks: by this `read` proves strictness.
    """

    cluster_id: ClusterId
    observed_at: Time | None = None


class Timed(Line, frozen=True, gc=False, kw_only=True):
    """A landing line that needs a time, because it states facts."""

    observed_at: Time


def checked_id(cluster: str) -> str:
    """Return a cluster id unchanged. Raises FaultError if it has control characters."""
    # This check is faster than a search: a printable text has no control characters.
    if not cluster.isprintable() and _CONTROL.search(cluster):
        raise FaultError(f"cluster_id: expected no control characters, found {show(cluster)}")
    return cluster


def microseconds(time: datetime) -> int:
    """Return `time` in microseconds since 1970. Raises FaultError if not between 2000 and 2200."""
    since = time - _EPOCH
    count = since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds
    if not _FIRST <= count < _END:
        actual = show(time.isoformat())
        raise FaultError(f"observed_at: expected a time of the years 2000 to 2200, found {actual}")
    return count


_ENCODER = msgspec.json.Encoder()
_SAYS_ABSENT = frozenset({"data", "version"})  # null in these keys means: there is no such znode


def write_line(kind: str, cluster_id: str, observed_at: int, keys: Mapping[str, object]) -> bytes:
    """Return a landing line as bytes. `observed_at`: microseconds since 1970, UTC."""
    members = {
        key: value
        for key, value in keys.items()
        if value is not None or (kind == "znode" and key in _SAYS_ABSENT)
    }
    time = write_time(observed_at)
    return _ENCODER.encode({"kind": kind, "cluster_id": cluster_id, "observed_at": time, **members})


def write_time(microseconds: int) -> str:
    """Return a time as in landing lines: ISO 8601, UTC, with microseconds."""
    seconds, fraction = divmod(microseconds, 1_000_000)
    seconds_text = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()
    return f"{seconds_text}.{fraction:06d}Z"


Ranges = tuple[tuple[str, int, int], ...]  # (feature, first, last), sorted by feature


def ordered(ranges: Iterable[tuple[str, int, int]], path: str) -> Ranges:
    """Return `ranges` sorted by feature. Raises FaultError (invalid or repeated name, minimum above
    maximum)."""
    by_name = sorted(ranges)
    previous = None
    for name, lowest, highest in by_name:
        if not 1 <= (length := len(name.encode())) <= NAME_LENGTH:
            raise FaultError(f"{path}: expected names of 1 to {NAME_LENGTH} bytes, found {length}")
        if name == previous:
            raise FaultError(f'{path}: the feature "{show(name)}" is named more than once')
        if lowest > highest:
            actual = f"found {lowest} to {highest}"
            raise FaultError(f'{path}: expected the range of "{show(name)}" to ascend, {actual}')
        previous = name
    return tuple(by_name)


def reader(path: str, kind: type[msgspec.Struct], end: Callable[..., _T]) -> Callable[[bytes], _T]:
    """Return a function that decodes the list in the field `path`, with a cache for equal texts.
    The function raises FaultError."""
    decoder = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]  # a value, as all types
    shape = Annotated[list[kind], Meta(description="a list of objects")]  # type: ignore[valid-type]

    def read(raw: bytes) -> _T:
        require_strict(raw, MAX_DEPTH - 1)  # the line itself is one level of nesting
        try:
            return end(map(msgspec.structs.astuple, decoder.decode(raw)), path)
        except msgspec.ValidationError as error:
            raise misfit(raw, shape, error, path) from None

    return remembered(read)
