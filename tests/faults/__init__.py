"""Requests under way while processes freeze, die or are cut off; on real Kafka, never imitated."""
