"""Watch: follow a rolling upgrade until a level is READY."""

from __future__ import annotations

from featurelib.extras.watch.command import ClusterReading as ClusterReading
from featurelib.extras.watch.command import watch as watch
