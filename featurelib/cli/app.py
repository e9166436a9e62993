"""The command `featurelib`: one table of commands, entered and left as the jobs are.

None of these commands imports Spark: the base install is enough for them. Only the command that is
called is imported: an operator in a hurry does not wait for the others.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Annotated, Any

import typer

import featurelib
from featurelib.cli.entrance import CommandGroup, guard
from featurelib.cli.options import with_options

# Where each command's function stands.
COMMANDS = {
    "version-mapping": "featurelib.cli.levels:version_mapping",
    "feature-dependencies": "featurelib.cli.levels:feature_dependencies",
    "initial-levels": "featurelib.cli.levels:initial_levels_command",
    "rules": "featurelib.cli.conformance:rules",
    "conformance": "featurelib.cli.conformance:conformance",
    "collect": "featurelib.cli.collect:collect",
    "describe": "featurelib.cli.questions:describe",
    "why-not": "featurelib.cli.questions:why_not",
    "what-if": "featurelib.cli.questions:what_if",
    "roll": "featurelib.cli.questions:roll",
    "timeline": "featurelib.cli.questions:timeline",
    "diff": "featurelib.cli.questions:diff",
    "show": "featurelib.cli.act:show",
    "approve": "featurelib.cli.act:approve",
    "apply": "featurelib.cli.act:apply",
    "journal": "featurelib.cli.act:journal",
    "resume": "featurelib.cli.act:resume",
    "embedded": "featurelib.cli.embedded:embedded",
}
# Commands that have commands of their own.
GROUPS = {"plan": "featurelib.cli.plan:plan_app"}


def make_app(only: str | None = None) -> typer.Typer:
    """The commands as a Typer application; with `only` that one, if it is one."""
    app = typer.Typer(
        name="featurelib",
        cls=CommandGroup,
        help="Feature levels of Apache Kafka clusters: what maps to what, what may be finalized.",
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_entrance)  # one command alone would lose its name
    chosen = {only} & {*COMMANDS, *GROUPS} or {*COMMANDS, *GROUPS}
    for name in [name for name in COMMANDS if name in chosen]:
        command = load(COMMANDS[name])
        app.command(name, help=command.__doc__)(guard(with_options(command, name)))
    for name in [name for name in GROUPS if name in chosen]:
        app.add_typer(load(GROUPS[name]), name=name)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"featurelib {featurelib.__version__}")
        raise typer.Exit


def _entrance(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Say which release this is."
        ),
    ] = False,
) -> None:
    """What stands before a command."""


def load(place: str) -> Any:
    """What stands at `module:name`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class _WithoutPandas(MetaPathFinder):
    """pyarrow imports pandas with its first array where it is installed: half a second, for nothing
    that any command uses."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("no command needs pandas", name=fullname)


def main() -> None:
    """The console script's entrance."""
    sys.meta_path.insert(0, _WithoutPandas())
    first = sys.argv[1] if len(sys.argv) > 1 else None
    make_app(first)(prog_name="featurelib")
