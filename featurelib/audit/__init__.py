"""Snapshot rows to verdicts, findings and plans, and the sentences of a finding."""
