"""The table of nodes, and the nodes that each rule checks: the only place for both.

A row is a node half, of a plain `Cluster` (cluster.py) or of a fleet's evidence (fleet.py). Both
are checked alike; only their columns are filled differently, because evidence has gaps. Missing
evidence never refuses a level (the audit reports it as UNKNOWN):

| column       | of a plain cluster            | of evidence                                     |
|--------------|-------------------------------|-------------------------------------------------|
| `registered` | as it is                      | controllers pass where no list of them was read |
| `live`       | runs, not fenced, not ignored | every broker, but who does not fit is left out |
| `reachable`  | a registered voter that runs  | every controller that answered us               |
| `configured` | its place in the list         | 0 where it is in the list: the order is lost    |
| `leads`      | the active controller         | whoever may be it, where nobody knows which is  |
| `profile`    | what it supports              | "anything", where its range is not known        |

If `controller.quorum.voters` was not read, both use the voters in a static quorum, and no node in a
dynamic quorum.
"""

from __future__ import annotations

from dataclasses import dataclass

from featurelib.core.batch import Flags, Ints
from featurelib.core.dialect import Asks


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The columns of all broker and controller halves, [N]; those of a cluster lie together."""

    cluster: Ints  # the position of the node's cluster or request
    node_id: Ints
    controller: Flags  # true for a controller, false for a broker
    profile: Ints  # the node's row in the Ranges of the batch
    known: Flags  # false if only a controller's configuration has the node
    registered: Flags
    voter: Flags
    live: Flags
    reachable: Flags
    configured: Ints  # place in the active controller's controller.quorum.voters; -1 if not in it
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
    return nodes.controller & nodes.voter  # Asks.QUORUM


def are_walked(nodes: Nodes, asks: Asks) -> Flags:
    """Return a mask of the nodes that a controller iterates over for `asks`. It skips some of them,
    such as itself; the order depends on the size of the whole table."""
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
