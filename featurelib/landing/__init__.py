"""Read landing lines: text in, evidence or the reason for quarantine out. `read` takes one line."""

from featurelib.landing.kinds import ApiVersionsAnswer as ApiVersionsAnswer
from featurelib.landing.kinds import ClusterDescription as ClusterDescription
from featurelib.landing.kinds import ConfigDescription as ConfigDescription
from featurelib.landing.kinds import Content as Content
from featurelib.landing.kinds import LogLine as LogLine
from featurelib.landing.kinds import ProbeAnswer as ProbeAnswer
from featurelib.landing.kinds import ProbeReply as ProbeReply
from featurelib.landing.kinds import QuorumDescription as QuorumDescription
from featurelib.landing.kinds import ToolLine as ToolLine
from featurelib.landing.kinds import Znode as Znode
from featurelib.landing.line import KINDS as KINDS
from featurelib.landing.line import Landing as Landing
from featurelib.landing.line import Quarantined as Quarantined
from featurelib.landing.line import read as read
from featurelib.landing.samples import NodeMetrics as NodeMetrics
from featurelib.landing.strict import MAX_BYTES as MAX_BYTES
from featurelib.landing.strict import MAX_DEPTH as MAX_DEPTH
