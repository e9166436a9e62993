"""featurelib: feature levels of a fleet of Apache Kafka clusters.

What a program may use is in featurelib.api and handed on here, when it is asked for: importing
featurelib alone imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own takes time in which an interrupt would be a stack trace
if TYPE_CHECKING:
    from featurelib.api import Answer as Answer
    from featurelib.api import Carried as Carried
    from featurelib.api import Described as Described
    from featurelib.api import FeatureResult as FeatureResult
    from featurelib.api import FeatureUpdate as FeatureUpdate
    from featurelib.api import PlanAnswer as PlanAnswer
    from featurelib.api import Tables as Tables
    from featurelib.api import UpdateResult as UpdateResult
    from featurelib.api import UpgradeType as UpgradeType
    from featurelib.api import apply as apply
    from featurelib.api import approve as approve
    from featurelib.api import connect as connect
    from featurelib.api import describe_features as describe_features
    from featurelib.api import diff as diff
    from featurelib.api import embedded as embedded
    from featurelib.api import open_tables as open_tables
    from featurelib.api import plan as plan
    from featurelib.api import range_plot as range_plot
    from featurelib.api import roll as roll
    from featurelib.api import timeline as timeline
    from featurelib.api import update_features as update_features
    from featurelib.api import what_if as what_if
    from featurelib.api import why_not as why_not

    __version__: str

__all__ = [
    "Answer",
    "Carried",
    "Described",
    "FeatureResult",
    "FeatureUpdate",
    "PlanAnswer",
    "Tables",
    "UpdateResult",
    "UpgradeType",
    "apply",
    "approve",
    "connect",
    "describe_features",
    "diff",
    "embedded",
    "open_tables",
    "plan",
    "range_plot",
    "roll",
    "timeline",
    "update_features",
    "what_if",
    "why_not",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        return import_module("importlib.metadata").version(__name__)
    if name not in __all__:
        raise AttributeError(f"module 'featurelib' has no attribute {name!r}")
    found: object = getattr(import_module("featurelib.api"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
