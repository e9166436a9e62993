"""History: one cluster over time, and the comparison of two runs."""

from __future__ import annotations

from featurelib.extras.history.command import diff as diff
from featurelib.extras.history.command import history as history
