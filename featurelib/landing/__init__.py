"""Landing lines: text in, evidence or a reason out.

`read` takes one line of a landing file; the modules named after a kind read what is inside a line:
`metadata_log.parse_line`, `features_describe.parse_line`, `znode.registration`.
"""

from featurelib.landing import features_describe, metadata_log, znode
from featurelib.landing.api_versions import ApiVersionsAnswer
from featurelib.landing.describe import ClusterDescription, ConfigDescription, QuorumDescription
from featurelib.landing.line import KINDS, Content, Landing, LogLine, Quarantined, ToolLine, read
from featurelib.landing.probe import ProbeAnswer, ProbeReply
from featurelib.landing.strict import MAX_BYTES, MAX_DEPTH
from featurelib.landing.znode import StoredRegistration, Znode, broker_id, registration

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
    "ProbeAnswer",
    "ProbeReply",
    "Quarantined",
    "QuorumDescription",
    "StoredRegistration",
    "ToolLine",
    "Znode",
    "broker_id",
    "features_describe",
    "metadata_log",
    "read",
    "registration",
    "znode",
]
