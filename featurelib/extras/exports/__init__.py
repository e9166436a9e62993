"""Exports: the report of a run for spreadsheets (CSV) and for CI servers (JUnit, SARIF)."""
