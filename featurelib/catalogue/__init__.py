"""Hold features, levels, names, defaults and dependencies as dated data with sources."""

from featurelib.catalogue.catalogue import ANY as ANY
from featurelib.catalogue.catalogue import FEATURE_RECORDS_FROM as FEATURE_RECORDS_FROM
from featurelib.catalogue.catalogue import NEWEST_RELEASE as NEWEST_RELEASE
from featurelib.catalogue.catalogue import Catalogue as Catalogue
from featurelib.catalogue.catalogue import Dependency as Dependency
from featurelib.catalogue.catalogue import FeatureLevel as FeatureLevel
from featurelib.catalogue.catalogue import Overlay as Overlay
from featurelib.catalogue.catalogue import ReleaseCatalogue as ReleaseCatalogue
from featurelib.catalogue.catalogue import Tables as Tables
from featurelib.catalogue.catalogue import load as load
from featurelib.catalogue.overlay import with_overlay as with_overlay
