"""One landing line: bytes in, what it observed or why it is quarantined out.

Nothing here raises for any bytes. A line is accepted only if every reader of JSON would understand
it the same way and every known field is what Kafka's wire could carry; unknown keys are ignored.
"""

from __future__ import annotations

from typing import NoReturn

import msgspec

from featurelib.landing.api_versions import ApiVersionsAnswer, ApiVersionsLine
from featurelib.landing.describe_cluster import (
    ClusterDescription,
    DescribeClusterLine,
    WholeDescribeClusterLine,
)
from featurelib.landing.describe_configs import (
    ConfigDescription,
    DescribeConfigsLine,
    WholeDescribeConfigsLine,
)
from featurelib.landing.describe_quorum import (
    DescribeQuorumLine,
    QuorumDescription,
    WholeDescribeQuorumLine,
)
from featurelib.landing.document import is_retold, is_strict, require_size, require_strict
from featurelib.landing.envelope import microseconds, require_cluster
from featurelib.landing.fault import FaultError, show
from featurelib.landing.probe import Probe, ProbeLine
from featurelib.landing.salvage import salvaged
from featurelib.landing.shape import misfit
from featurelib.landing.tool_lines import (
    FeaturesDescribeLine,
    LogLine,
    MetadataLogLine,
    ToolLine,
)
from featurelib.landing.znode import Znode, ZnodeLine

Content = (
    ApiVersionsAnswer
    | Znode
    | ClusterDescription
    | QuorumDescription
    | ConfigDescription
    | LogLine
    | ToolLine
    | Probe
)
_Line = (
    ApiVersionsLine
    | ZnodeLine
    | DescribeClusterLine
    | DescribeQuorumLine
    | DescribeConfigsLine
    | MetadataLogLine
    | FeaturesDescribeLine
    | ProbeLine
)
_Whole = (
    ApiVersionsLine
    | ZnodeLine
    | WholeDescribeClusterLine
    | WholeDescribeQuorumLine
    | WholeDescribeConfigsLine
    | MetadataLogLine
    | FeaturesDescribeLine
    | ProbeLine
)


class Landing(msgspec.Struct, frozen=True, gc=False):
    """An accepted line. `observed_at` is microseconds in UTC; None only where nothing answered."""

    kind: str
    cluster: str
    observed_at: int | None
    content: Content


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """A quarantined line: why, and whatever of its envelope could still be read."""

    reason: str
    kind: str | None
    cluster: str | None
    observed_at: int | None


_KINDS = {str(line.__struct_config__.tag): line for line in _Line.__args__}
KINDS = tuple(_KINDS)
_NAMES = {line: str(line.__struct_config__.tag) for line in (*_Line.__args__, *_Whole.__args__)}
_LINE: msgspec.json.Decoder[_Line] = msgspec.json.Decoder(_Line)
_WHOLE: msgspec.json.Decoder[_Whole] = msgspec.json.Decoder(_Whole)
_ENCODER = msgspec.json.Encoder()
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read(raw: bytes) -> Landing | Rejected:
    """What one line says; `raw` is the line without its line end. Raises nothing."""
    try:
        line = decode(raw)
        content = line.content()
        # Lists that stand undecoded in a line were looked at by its `content`.
        if not is_retold(raw, _ENCODER.encode(line)) and not is_strict(raw, _vouched(content)):
            require_strict(raw)
        require_cluster(line.cluster_id)
        time = line.observed_at
        return Landing(
            _NAMES[type(line)],
            line.cluster_id,
            None if time is None else microseconds(time),
            content,
        )
    except FaultError as fault:
        return Rejected(_reason(raw, fault), *salvaged(raw))


def _vouched(content: Content) -> int:
    """How many objects of a line repeat no key: the line itself, and those of its lists."""
    if type(content) is ApiVersionsAnswer:
        return 1 + len(content.supported) + len(content.finalized)
    return 1


def _reason(raw: bytes, fault: FaultError) -> str:
    """What is wrong with the whole document, or else `fault` of one of its parts."""
    try:
        require_strict(raw)
    except FaultError as whole:
        return str(whole)
    return str(fault)


def decode(raw: bytes) -> _Line:
    """The line as its types; FaultError for one that does not fit them. `read` proves the rest."""
    require_size(raw)
    try:
        return _WHOLE.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return _LINE.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _refuse(raw, error)


def _refuse(raw: bytes, error: Exception) -> NoReturn:
    """Raise the FaultError of a line that the parser refused with `error`."""
    require_strict(raw)
    kinds = ", ".join(KINDS)
    try:
        found = _MEMBERS.decode(raw)["kind"]
    except msgspec.ValidationError:
        raise FaultError(f"expected one JSON object, found {show(raw.decode())}") from None
    except KeyError:
        raise FaultError(f"kind is missing: expected one of {kinds}") from None
    kind = msgspec.json.decode(found)
    if not isinstance(kind, str) or kind not in _KINDS:
        shown = show(bytes(found).decode())
        raise FaultError(f"kind: expected one of {kinds}, found {shown}")
    raise misfit(raw, _KINDS[kind], error)
