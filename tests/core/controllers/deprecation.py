"""The finalized minimum of a feature: what KIP-584 says, and what 2.7 to 3.2 do."""

from __future__ import annotations

from tests.core.controllers.words import Cluster, Range


def minimum_by_the_text(cluster: Cluster, feature: str) -> int | None:
    """KIP-584: the highest supported minimum of any live broker; None: nobody lists it."""
    lows = [n.supported[feature][0] for n in cluster.live_brokers() if feature in n.supported]
    return max(lows, default=None)


def deprecated_by_the_text(cluster: Cluster) -> dict[str, Range]:
    """What would be finalized once the minimum levels are written as the text wants it.

    A minimum above the finalized level fits no range: such a feature is left as it is.
    """
    found = {}
    for name, (low, level) in (cluster.finalized or {}).items():
        least = minimum_by_the_text(cluster, name)
        found[name] = (low, level) if least is None or least > level else (max(low, least), level)
    return found


def minimum_after_update(cluster: Cluster, feature: str) -> int | None:
    """2.7 to 3.2: nothing but an update of the feature itself moves its minimum, and it
    becomes the controller's own; 3.3 to 3.9 keep no minimum."""
    local = cluster.active()
    if local is None or feature not in local.supported:
        return None
    return local.supported[feature][0]
