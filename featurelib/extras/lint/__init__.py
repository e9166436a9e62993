"""Lint: the effect of a changed file on feature levels and downgrades, before it is merged."""
