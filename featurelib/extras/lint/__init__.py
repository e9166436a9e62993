"""Lint: the effect of a changed file on feature levels and on the way back, before it is merged."""
