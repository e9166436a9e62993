"""Waves: the order in which a fleet is upgraded, ring by ring, and the progress."""

from __future__ import annotations

from featurelib.extras.waves.page import waves as waves
from featurelib.extras.waves.page import waves_status as waves_status
