"""Where the laboratory's clusters stand: recordings of 26 clusters, a folder each, with an
inventory and settings of their own. Each was made to show one thing."""

from __future__ import annotations

from pathlib import Path

LABORATORY = Path(__file__).parent / "data" / "laboratory"
