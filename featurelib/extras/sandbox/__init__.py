"""Sandbox: a cluster in one file that answers as Kafka's controllers do."""

from __future__ import annotations

from featurelib.extras.sandbox.make import Sandbox as Sandbox
from featurelib.extras.sandbox.make import sandbox as sandbox
