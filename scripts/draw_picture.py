"""Draw the picture of the README: the range plot of one recorded cluster."""

from __future__ import annotations

from pathlib import Path

from featurelib.api.clusters import Stored
from featurelib.api.questions import range_plot
from featurelib.catalogue import load
from featurelib.source import Wanted

SAMPLE = Path(__file__).parents[1] / "data" / "samples" / "orders-prod-us"


def picture() -> str:
    """Return the plot of metadata.version of the sample orders-prod-us, as an SVG document."""
    wanted = Wanted(capture=str(SAMPLE), as_of="newest")
    return range_plot(Stored(wanted=wanted, catalogue=load())).svg("metadata.version")
