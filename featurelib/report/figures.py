"""Range plots outside of a page: the same drawings, each as a picture of its own.

A picture carries its colours and touches no style around it, so a notebook shows it as it is.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from html import escape

from featurelib.report.html import render_figure
from featurelib.report.plot import Plot


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RangePlot:
    """The range plots of one cluster, as text and, where somebody shows HTML, as pictures.

    For each feature a track of levels: a bar for each range that nodes support, and lines where
    the feature is finalized, could go (target), and stops by its software (ceiling).
    """

    title: str
    plots: tuple[Plot, ...]

    def svg(self, feature: str) -> str:
        """One feature's plot as an SVG document. Raises KeyError for a feature without one."""
        return render_figure({plot.feature: plot for plot in self.plots}[feature])

    def __str__(self) -> str:
        lines = [f"{plot.feature}: {plot.words}" for plot in self.plots]
        return "\n".join([self.title, *lines])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<h4>{escape(self.title)}</h4>" + "".join(map(_picture, self.plots))


def _picture(plot: Plot) -> str:
    content = b64encode(render_figure(plot).encode()).decode("ascii")
    said = escape(f"{plot.feature}: {plot.words}", quote=True)
    return (
        f'<figure style="margin: 0.6em 0"><figcaption>{escape(plot.feature)}</figcaption>'
        f'<img alt="{said}" src="data:image/svg+xml;base64,{content}" style="max-width: 100%">'
        "</figure>"
    )
