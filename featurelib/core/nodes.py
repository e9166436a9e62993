"""Hold the table of nodes, and choose the nodes that each rule checks.

A row is a node in one role, of a plain `Cluster` (cluster.py) or of a fleet's evidence (fleet.py).
The checks are the same; only the columns are filled differently, because evidence has gaps. Missing
evidence never refuses a level (the audit reports it as UNKNOWN):

| column       | of a plain cluster            | of evidence                                     |
|--------------|-------------------------------|-------------------------------------------------|
| `registered` | its own value                 | true for a controller if no list was read       |
| `live`       | runs, not fenced, not ignored | every broker, except incompatible brokers       |
| `reachable`  | a registered voter that runs  | every controller that responded                 |
| `configured` | its position in the list      | 0 if the list has it: the order is lost         |
| `leads`      | the active controller         | every possible controller if none is known      |
| `profile`    | its range map                 | "anything" if its range is unknown              |

If `controller.quorum.voters` was not read, both use the voters in a static quorum, and no node in a
dynamic quorum.
"""

from __future__ import annotations

from dataclasses import dataclass

from featurelib.core.batch import Flags, Ints
from featurelib.core.dialect import Asks


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The columns of all brokers and controllers, [N]. Nodes of one cluster are adjacent."""

    cluster: Ints  # the position of the node's cluster or request
    node_id: Ints
    controller: Flags  # true for a controller, false for a broker
    profile: Ints  # the position of the node's range map in the Ranges of the batch
    known: Flags  # false if only a controller's configuration has the node
    registered: Flags
    voter: Flags
    live: Flags
    reachable: Flags
    configured: Ints  # position in the active controller's configured voters; -1 = absent
    leads: Flags
    is_active: Flags  # true for the active controller itself


def are_asked(nodes: Nodes, asks: Asks) -> Flags:
    """Return a mask of the nodes that a rule with `asks` checks."""
    broker, controllers = nodes.known & ~nodes.controller, nodes.controller & ~nodes.is_active
    match asks:
        case Asks.EVERYONE:
            return nodes.known
        case Asks.LOCAL_CONTROLLER:
            return nodes.leads
        case Asks.REACHABLE_CONTROLLERS:
            return controllers & nodes.reachable
        case Asks.REGISTERED_CONTROLLERS:
            return controllers & nodes.registered
        case Asks.BROKERS:
            return broker & nodes.registered
        case Asks.LIVE_BROKERS:
            return broker & nodes.registered & nodes.live
        case Asks.CONFIGURED_VOTERS:
            return controllers & (nodes.configured >= 0)
        case Asks.CONFIGURED_ONLY:
            return controllers & (nodes.configured >= 0) & ~nodes.voter & ~nodes.registered
    return nodes.controller & nodes.voter  # the last case is Asks.QUORUM


def are_walked(nodes: Nodes, asks: Asks) -> Flags:
    """Return a mask of the nodes over which a controller iterates for `asks`, including nodes that
    it then skips. Their number decides the order."""
    match asks:
        case Asks.REACHABLE_CONTROLLERS:
            return nodes.controller & nodes.voter
        case Asks.REGISTERED_CONTROLLERS:
            return nodes.controller & nodes.registered
        case Asks.LIVE_BROKERS:
            return are_asked(nodes, Asks.BROKERS)
        case Asks.CONFIGURED_VOTERS:
            return nodes.controller & (nodes.configured >= 0)
        case _:
            return are_asked(nodes, asks)
