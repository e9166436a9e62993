"""Reports: one source of values (`values`), shown as text, JSON, HTML and gauges.

Nothing is imported here: a command that only needs a phrase does not pay for the tables.
"""
