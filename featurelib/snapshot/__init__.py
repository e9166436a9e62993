"""One cluster as everything read so far shows it: folded from landing lines, stored as one row."""

from featurelib.snapshot.fold import Fold, begin, fold_lines
from featurelib.snapshot.replay import Change
from featurelib.snapshot.row import Rows
from featurelib.snapshot.state import State

__all__ = ["Change", "Fold", "Rows", "State", "begin", "fold_lines"]
