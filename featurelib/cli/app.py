"""The command `featurelib`: one table of commands, entered and left as the jobs are.

None of these commands imports Spark: the base install is enough for them. Only the command that is
called is imported, and none for the list of all: an operator in a hurry does not wait for others.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Annotated, Any

import typer

import featurelib
from featurelib.cli.entrance import CommandGroup, JobCommand, guard
from featurelib.cli.options import with_options
from featurelib.cli.streams import only_looks

# The commands of each module, and what each is for, as its own help begins.
_COMMANDS = {
    "levels": {
        "version-mapping": "What a release version means for every feature.",
        "feature-dependencies": "What a level of a feature needs of other features.",
        "initial-levels": "What a new cluster starts with, or why it cannot.",
    },
    "conformance": {
        "rules": "What a controller asks of an update, rule by rule.",
        "conformance": "Compare featurelib's answers with those of Kafka.",
    },
    "collect": {"collect": "Read clusters, and write what their nodes say."},
    "fleet": {"fleet": "Entries for the inventory, of what others list."},
    "questions": {
        "describe": "Every node of a cluster, and what is finalized.",
        "why-not": "Why a level cannot be finalized, and what helps.",
        "what-if": "The verdicts if nodes or levels were others.",
        "roll": "May a release join now, and be rolled back later?",
        "watch": "A roll as it goes on, until a level is READY.",
        "timeline": "Who could what when in one cluster.",
        "diff": "What two nights found, against each other.",
        "report": "The report of a night, of all clusters or of some.",
        "waves": "In which order a fleet is upgraded, ring by ring.",
    },
    "act": {
        "show": "What a plan would do, request by request.",
        "approve": "Let a plan be applied, until a time.",
        "apply": "Carry out an approved plan on its cluster.",
        "journal": "What was sent from here, and what became of it.",
        "resume": "Settle requests whose outcome is not known.",
    },
    "embedded": {"embedded": "Make a cluster that is kept in one file."},
    "plan": {"plan": "A plan for one cluster, or why there is none."},  # a group of commands
}
LOOKING = {*_COMMANDS["levels"], *_COMMANDS["questions"]}  # commands that send nothing
GROUPS = {  # in the order in which the list of all has them
    "Look": ("collect", "describe", "watch", "report", "fleet"),
    "Ask": ("why-not", "what-if", "roll", "waves", "timeline", "diff"),
    "Change": ("plan", "show", "approve", "apply", "resume", "journal"),
    "Reference and practice": (
        *("version-mapping", "feature-dependencies", "initial-levels", "rules", "conformance"),
        "embedded",
    ),
}
_PLACES = {
    name: (sentence, f"featurelib.cli.{module}:{name.replace('-', '_')}")
    for module, commands in _COMMANDS.items()
    for name, sentence in commands.items()
}
# What each is for, and where it stands.
COMMANDS = {name: _PLACES[name] for names in GROUPS.values() for name in names}


def make_app(only: str | None = None) -> typer.Typer:
    """Make the Typer application of all commands, or of `only` that one.

    With a word that is no command (`--help`, a slip of the pen) it only lists them, and imports
    none.
    """
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
    panels = {name: title for title, names in GROUPS.items() for name in names}
    for name, (sentence, place) in COMMANDS.items():
        panel = panels[name]
        if only is None or only == name:
            command = load(place)
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=name, rich_help_panel=panel)
            else:
                app.command(name, help=command.__doc__, cls=JobCommand, rich_help_panel=panel)(
                    guard(with_options(command, name))
                )
        elif only not in COMMANDS:
            app.command(name, help=sentence, rich_help_panel=panel)(_entrance)
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
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command in LOOKING:
        only_looks()
    make_app(command)(prog_name="featurelib")
