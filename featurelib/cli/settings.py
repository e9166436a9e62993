"""The option that chooses the settings; featurelib.settings_file says where else they are."""

from __future__ import annotations

from typing import Annotated

import typer

from featurelib.settings_file import find_settings as find_settings
from featurelib.settings_file import open_settings as open_settings

PLACES = "Default: the first of $FEATURELIB_CONFIG, /etc/featurelib and conf/ that has"

ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help=f"How to judge and whom to trust. {PLACES} audit.toml.",
    ),
]
