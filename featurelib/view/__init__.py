"""Show values to people: texts, the report, its page, drawings, Prometheus' gauges."""
