"""Elections: predict what the next controller of a ZooKeeper-mode cluster writes to /feature."""

from __future__ import annotations

from featurelib.extras.elections.foresee import election as election
