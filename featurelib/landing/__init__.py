"""Landing lines: text in, evidence or a reason out.

`read` takes one line of a landing file; the modules named after a kind read what is inside a line:
`metadata_log.parse_line`, `features_describe.parse_line`, `znode.registration`.
"""

from featurelib.landing import features_describe, log_items, metadata_log, znode
from featurelib.landing.api_versions import ApiVersionsAnswer
from featurelib.landing.describe_cluster import ClusterDescription
from featurelib.landing.describe_configs import ConfigDescription
from featurelib.landing.describe_quorum import QuorumDescription
from featurelib.landing.document import MAX_BYTES, MAX_DEPTH
from featurelib.landing.line import KINDS, Content, Landing, Rejected, read
from featurelib.landing.probe import Probe, ProbeAnswer
from featurelib.landing.tool_lines import LogLine, ToolLine
from featurelib.landing.znode import Registration, Znode, broker_id, registration

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
    "Probe",
    "ProbeAnswer",
    "QuorumDescription",
    "Registration",
    "Rejected",
    "ToolLine",
    "Znode",
    "broker_id",
    "features_describe",
    "log_items",
    "metadata_log",
    "read",
    "registration",
    "znode",
]
