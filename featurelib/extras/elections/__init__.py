"""Elections: what the next controller of a cluster in ZooKeeper mode would write to /feature."""

from __future__ import annotations

from featurelib.extras.elections.foresee import election as election
