"""Predict verdicts and registrations after an assumed change of nodes or levels."""

from __future__ import annotations

from featurelib.extras.predictions.command import can_roll as can_roll
from featurelib.extras.predictions.command import what_if as what_if
