"""Sandbox: a cluster in one file that responds like Kafka's controllers."""

from __future__ import annotations

from featurelib.extras.sandbox.make import Sandbox as Sandbox
from featurelib.extras.sandbox.make import sandbox as sandbox
