"""Tool preview: what kafka-features.sh of a release would send, print and finalize."""

from __future__ import annotations

from featurelib.extras.tool_preview.tool import kafka_features as kafka_features
