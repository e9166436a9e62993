"""Plan a fleet upgrade in steps, and show its progress: `featurelib waves`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from featurelib.cli.choosing import nights
from featurelib.cli.entrance import CommandGroup, JobCommand, guard
from featurelib.cli.options import with_options
from featurelib.extras.waves import page

WAVES_HELP = """Plan a fleet upgrade in steps, and follow it.

\b
    featurelib waves plan 4.1 --out waves.json --tables TABLES
    featurelib waves status waves.json --tables TABLES

Nothing is sent: each cluster is planned, approved and applied by itself. Exit codes: 0 answered;
2 usage; those of status are in its help.
"""

waves = typer.Typer(cls=CommandGroup, help=WAVES_HELP, no_args_is_help=True, rich_markup_mode=None)
_FUNCTIONS: dict[str, Callable[..., Any]] = {"plan": page.waves, "status": page.waves_status}
for _name, _function in _FUNCTIONS.items():
    waves.command(_name, help=_function.__doc__, cls=JobCommand)(
        guard(with_options(_function, f"waves {_name}", tables=nights))
    )
