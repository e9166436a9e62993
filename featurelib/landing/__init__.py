"""Landing lines: text in, evidence or a reason out. `read` takes one line of a landing file."""

from featurelib.landing.kinds import (
    ApiVersionsAnswer,
    ClusterDescription,
    ConfigDescription,
    Content,
    LogLine,
    ProbeAnswer,
    ProbeReply,
    QuorumDescription,
    ToolLine,
    Znode,
)
from featurelib.landing.line import KINDS, Landing, Quarantined, read
from featurelib.landing.samples import NodeMetrics
from featurelib.landing.strict import MAX_BYTES, MAX_DEPTH

__all__ = [
    "KINDS",
    "MAX_BYTES",
    "MAX_DEPTH",
    "ApiVersionsAnswer",
    "ClusterDescription",
    "ConfigDescription",
    "Content",
    "Landing",
    "LogLine",
    "NodeMetrics",
    "ProbeAnswer",
    "ProbeReply",
    "Quarantined",
    "QuorumDescription",
    "ToolLine",
    "Znode",
    "read",
]
