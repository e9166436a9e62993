"""Features, levels, their names, defaults and dependencies, as dated data with sources."""

from featurelib.catalogue.catalogue import (
    NEWEST_RELEASE,
    Catalogue,
    FeatureLevel,
    Overlay,
    Release,
    load,
)
from featurelib.catalogue.overlay import with_overlay
from featurelib.catalogue.releases import Dependency, KnownLevel, ReleaseCatalogue
from featurelib.catalogue.tables import Tables

__all__ = [
    "NEWEST_RELEASE",
    "Catalogue",
    "Dependency",
    "FeatureLevel",
    "KnownLevel",
    "Overlay",
    "Release",
    "ReleaseCatalogue",
    "Tables",
    "load",
    "with_overlay",
]
