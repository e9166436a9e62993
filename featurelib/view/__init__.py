"""Everything that shows something: texts, the report, its page, drawings, Prometheus' gauges."""
