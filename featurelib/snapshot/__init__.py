"""Fold landing lines into one cluster's state, and store it as one row."""

from featurelib.snapshot.build import snapshot_rows
from featurelib.snapshot.fold import Fold, begin, fold_lines
from featurelib.snapshot.state import ClusterState

__all__ = ["ClusterState", "Fold", "begin", "fold_lines", "snapshot_rows"]
