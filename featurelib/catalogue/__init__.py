"""Features, levels, their names, defaults and dependencies, as dated data with sources."""

from featurelib.catalogue.catalogue import (
    ANY,
    FEATURE_RECORDS_FROM,
    NEWEST_RELEASE,
    Catalogue,
    Dependency,
    FeatureLevel,
    Overlay,
    ReleaseCatalogue,
    Tables,
    load,
)
from featurelib.catalogue.overlay import with_overlay

__all__ = [
    "ANY",
    "FEATURE_RECORDS_FROM",
    "NEWEST_RELEASE",
    "Catalogue",
    "Dependency",
    "FeatureLevel",
    "Overlay",
    "ReleaseCatalogue",
    "Tables",
    "load",
    "with_overlay",
]
