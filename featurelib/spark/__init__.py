"""The Spark library: DataFrames of landing lines in, DataFrames of verdicts and findings out.

    from featurelib import spark as fl
    audit = fl.audit(spark.read.text("landing/*.jsonl"))
    audit.readiness.where("verdict = 'READY'").show()

The functions live in featurelib.spark.frames and are imported on first use: the jobs' modules
(session, store, ingest, refine, auditing) are beside it, and workers import only what they run.
"""

# ruff: noqa: F405  # the names of __all__ come with the star, for whoever reads types

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from featurelib.spark.frames import *  # noqa: F403

__all__ = [
    "Audit",
    "Parsed",
    "audit",
    "create_views",
    "finalized_levels",
    "incompatible",
    "parse",
    "snapshots",
    "supported_ranges",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'featurelib.spark' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("featurelib.spark.frames"), name)
