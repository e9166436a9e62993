"""The command `featurelib`: one table of commands, entered and left as the jobs are.

None of these commands imports Spark: the base install is enough for them.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from featurelib.cli.conformance import conformance
from featurelib.cli.entrance import guard
from featurelib.cli.levels import feature_dependencies, initial_levels_command, version_mapping
from featurelib.cli.rules import rules

COMMANDS: dict[str, Callable[..., int]] = {
    "version-mapping": version_mapping,
    "feature-dependencies": feature_dependencies,
    "initial-levels": initial_levels_command,
    "rules": rules,
    "conformance": conformance,
}


def make_app() -> typer.Typer:
    """The commands as a Typer application."""
    app = typer.Typer(
        name="featurelib",
        help="Feature levels of Apache Kafka clusters: what maps to what, what may be finalized.",
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for name, command in COMMANDS.items():
        app.command(name, help=command.__doc__)(guard(command))
    return app


def main() -> None:
    """The console script's entrance."""
    make_app()(prog_name="featurelib")
