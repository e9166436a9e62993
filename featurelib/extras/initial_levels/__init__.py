"""Levels of releases: of a new cluster, of a release version, and what a level needs."""
