"""The option that chooses conf/audit.toml; featurelib.settings_file says what it means."""

from __future__ import annotations

from typing import Annotated

import typer

from featurelib.settings_file import open_settings as open_settings

ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="FILE", help="How to judge and whom to trust. Default: conf/audit.toml."
    ),
]
