"""What else a level changes, beyond itself: in general, by the catalogue."""

from __future__ import annotations

from featurelib.catalogue import Catalogue


def say_more(catalogue: Catalogue, feature: str, level: int) -> str:
    """`it changes min.insync.replicas too, and going back does not restore that`, for everything up
    to `level`."""
    rows = [row for row in catalogue.side_effects(feature) if row.level <= level]
    keys = ", ".join(dict.fromkeys(row.key for row in rows if row.key)) or "more than its level"
    kept = "" if all(row.restored for row in rows) else ", and going back does not restore that"
    return f"it changes {keys} too{kept}"
