"""Fold the landing lines of a cluster into its state, and store the state as a row."""

from featurelib.snapshot.build import snapshot_rows
from featurelib.snapshot.fold import Fold, begin, fold_lines
from featurelib.snapshot.state import ClusterState

__all__ = ["ClusterState", "Fold", "begin", "fold_lines", "snapshot_rows"]
