"""Predict verdicts and registrations if nodes or levels were others."""

from __future__ import annotations

from featurelib.extras.predictions.command import can_roll as can_roll
from featurelib.extras.predictions.command import what_if as what_if
