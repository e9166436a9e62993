"""History: one cluster over time, and what two runs found, against each other."""

from __future__ import annotations

from featurelib.extras.history.command import diff as diff
from featurelib.extras.history.command import history as history
