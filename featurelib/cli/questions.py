"""Define `featurelib report`: print the report of a run again."""

from __future__ import annotations

import sys

from featurelib.api.tables import NightTables
from featurelib.view.model import render_json
from featurelib.view.text import LIMIT, write_text


def report(night: NightTables, limit: int = LIMIT, as_json: bool = False) -> int:
    """Print the report of a run.

    The output equals the nightly's:

    \b
        featurelib report --owner payments --tables TABLES
        featurelib report --run 20261121060000 --tables TABLES --json

    Counts, causes and tasks are computed for the chosen clusters only. For a spreadsheet or a CI
    server: featurelib export.

    Exit codes: 0 done; 2 usage; 5 there is no run, or it judged none of these clusters.
    """
    if as_json:
        print(render_json(night.report).decode(), end="")
    else:
        write_text(night.report, sys.stdout, limit=limit)
    return 0
