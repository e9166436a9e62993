"""Expose featurelib's API: feature levels of a fleet of Apache Kafka clusters.

The public names are those of featurelib.api and two predictions of featurelib.extras. They are
imported at first use: `import featurelib` alone imports no other module.
"""

# ruff: noqa: F405  # the names of __all__ come with the star, for whoever reads types

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes time, and an interrupt would print a stack trace
if TYPE_CHECKING:
    from featurelib.api import *  # noqa: F403  # the names of __all__, as the API has them
    from featurelib.extras.predictions import can_roll, what_if

__version__ = "0.1.0"  # pyproject.toml reads the version from this line

__all__ = [
    "Answer",
    "Carried",
    "Described",
    "FeatureResult",
    "FeatureUpdate",
    "PlanAnswer",
    "RequestedLevels",
    "Tables",
    "UpdateResult",
    "UpgradeType",
    "apply",
    "approve",
    "audit",
    "can_roll",
    "check",
    "collect",
    "connect",
    "describe_features",
    "open_tables",
    "plan",
    "range_plot",
    "report",
    "update_features",
    "what_if",
    "why_not",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'featurelib' has no attribute {name!r}")
    home = "featurelib.extras.predictions" if name in ("can_roll", "what_if") else "featurelib.api"
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
