"""Start the command `featurelib` from a table of all commands.

No command needs Spark: the base install is enough. Only the called command is imported, so that
commands start fast. The list of commands imports none.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import resources
from importlib.abc import MetaPathFinder
from pkgutil import resolve_name
from typing import Annotated, Any

import msgspec
import typer

from featurelib import __version__
from featurelib.cli.entrance import CommandGroup, JobCommand, guard
from featurelib.cli.options import with_options
from featurelib.cli.streams import set_only_reads

GROUPS = msgspec.toml.decode(
    resources.files(__package__).joinpath("commands.toml").read_bytes(),
    type=dict[str, dict[str, str]],
)
OTHER_WORDS = GROUPS.pop("other words")
COMMANDS = {name: place for commands in GROUPS.values() for name, place in commands.items()}
SENDING = {*GROUPS["Change"], "collect", "inventory", "rules", "conformance", "sandbox"}
COMPLETING = "_FEATURELIB_COMPLETE"
READ_ONLY = COMMANDS.keys() - SENDING  # after an interrupt of these nothing has to be repeated


def sentence_of(target: str) -> str:
    """Return the first sentence of a command's help, read from its source without import."""
    module, _, name = target.partition(":")
    source = resources.files("featurelib").joinpath(*module.split(".")[1:-1])
    text = source.joinpath(f"{module.rpartition('.')[2]}.py").read_text("utf-8")
    match = re.search(rf'^(?:def {name}\b|{name.upper()}_HELP =).*?"""(.*?)\n', text, re.M | re.S)
    assert match is not None
    return match[1]


def make_app(only: str | None = None) -> typer.Typer:
    """Return the Typer application with all commands, or only with the command `only`. For any
    other word it lists the commands and imports none."""
    app = typer.Typer(
        name="featurelib",
        cls=_Commands,
        help="Check, plan and change the feature levels of Apache Kafka clusters.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_entrance)  # without a callback Typer would drop the name of a single command
    panels = {name: title for title, names in GROUPS.items() for name in names}
    for name, target in COMMANDS.items():
        panel = panels[name]
        if only is None or only == name:
            command = resolve_name(target)
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=name, rich_help_panel=panel)
            else:
                app.command(name, help=command.__doc__, cls=JobCommand, rich_help_panel=panel)(
                    guard(with_options(command, name))
                )
        elif only not in COMMANDS:
            app.command(name, help=sentence_of(target), rich_help_panel=panel)(_entrance)
    return app


class _Commands(CommandGroup):
    """The group of all commands. It suggests the nearest command for an unknown word."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as error:
            if args[0] in OTHER_WORDS:
                text = f"No such command {args[0]!r}. Use:\n  {OTHER_WORDS[args[0]]}"
                vars(error)["message"] = text
            raise


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"featurelib {__version__}")
        raise typer.Exit


def _entrance(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Say which release this is."
        ),
    ] = False,
) -> None:
    """Accept the options that come before the command."""


class _WithoutPandas(MetaPathFinder):
    """An import finder that hides pandas. Otherwise pyarrow would import pandas, which takes half a
    second and no command needs."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("no command needs pandas", name=fullname)


def main() -> None:
    """Run the command line program; the entry point of the console script `featurelib`."""
    sys.meta_path.insert(0, _WithoutPandas())
    if sys.argv[1:2] == ["help"]:  # `help check` is `check --help`
        sys.argv[1:] = [*sys.argv[2:], "--help"]
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command in READ_ONLY:
        set_only_reads()
    is_completion = COMPLETING in os.environ  # the shell may complete any command
    make_app(None if is_completion else command)(prog_name="featurelib")
