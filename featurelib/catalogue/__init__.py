"""Features, levels, their names, defaults and dependencies, as dated data with sources."""

from featurelib.catalogue.catalogue import Catalogue, Dependency, FeatureLevel, Release, load

__all__ = ["Catalogue", "Dependency", "FeatureLevel", "Release", "load"]
