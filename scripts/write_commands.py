"""Write the pages about commands and jobs, exit codes, and errors.

The content is read from the code: typer's own help, and the classes of featurelib/errors.py.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from featurelib import errors
from featurelib.cli.app import make_app
from featurelib.cli.entrance import HELP_ALL, JobCommand
from featurelib.cli.options import with_options
from featurelib.errors import FeatureLibError
from scripts.docs_texts import COMMANDS_INTRO, ENDS, ERRORS_INTRO, EXIT_CODES_INTRO, JOBS_INTRO
from scripts.markdown import code, page, table

JOBS = tuple(sorted(path.stem for path in (Path(__file__).parents[1] / "jobs").glob("[!_]*.py")))
WIDTH = 88  # the width of a help text on the page
SAID = re.compile(r"Exit codes?:? (?P<codes>\d.*?)\.(?: |$)")


def commands() -> Iterator[tuple[str, Any, Any]]:
    """Yield (command as typed, typer object, context) of every command."""
    app = get_command(make_app())
    top = app.make_context("featurelib", ["-"], resilient_parsing=True, terminal_width=WIDTH)
    for name, command in app.commands.items():
        context = _context(command, name, top)
        yield name, command, context
        for inner, below in getattr(command, "commands", {}).items():
            yield f"{name} {inner}", below, _context(below, inner, context)


def _context(command: Any, name: str, parent: Any) -> Any:
    return command.make_context(
        name, [], parent=parent, resilient_parsing=True, terminal_width=WIDTH
    )


def jobs() -> Iterator[tuple[str, Any, Any]]:
    """Yield every job of ./spark-submit.sh in the form of `commands`."""
    for name in JOBS:
        main = importlib.import_module(f"jobs.{name}").main
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(help=main.__doc__, cls=JobCommand)(with_options(main, "job"))
        command = get_command(app)
        shown = f"./spark-submit.sh {name}"
        context = command.make_context(shown, [], resilient_parsing=True, terminal_width=WIDTH)
        yield name, command, context


def commands_page() -> str:
    """Return the page of commands and jobs with their help texts."""
    everything = list(commands())
    rows = [[_link(name), command.get_short_help_str(200)] for name, command, _ in everything]
    job_rows = [[_link(name), command.get_short_help_str(200)] for name, command, _ in jobs()]
    return page(
        "# Commands and jobs",
        COMMANDS_INTRO,
        table(["command", "does"], rows),
        JOBS_INTRO,
        table(["job", "does"], job_rows),
        *(part for entry in everything for part in _help(*entry)),
        *(part for entry in jobs() for part in _help(*entry)),
    )


def _link(name: str) -> str:
    return f"[{name}](#{name.replace(' ', '-')})"


def _help(name: str, command: Any, context: Any) -> tuple[str, str]:
    context.meta[HELP_ALL] = True
    return f"## {name}", f"```text\n{command.get_help(context)}\n```"


def exit_codes_page() -> str:
    """Return the page of exit codes, with the errors and commands of each code."""
    rows = [[str(number), ENDS[number], _classes(number)] for number in sorted(ENDS)]
    said = [[_command(name), text] for name, text in _said()]
    return page(
        "# Exit codes",
        EXIT_CODES_INTRO,
        table(["code", "means", "errors that end so"], rows),
        "## By command",
        "Some commands have codes of their own. All other commands use the table above.",
        table(["command", "exit codes"], said),
    )


def _command(name: str) -> str:
    return f"[{name}](commands.md#{name.replace(' ', '-')})"


def _said() -> Iterator[tuple[str, str]]:
    for name, command, _ in commands():
        found = SAID.search(" ".join((command.help or "").split()))
        if found:
            yield name, found["codes"]


def _classes(number: int) -> str:
    own = [cls.__name__ for cls in error_classes() if cls.exit_code == number]
    return ", ".join(code(name) for name in own) or "–"


def error_classes() -> list[type[FeatureLibError]]:
    """Return every error class in the order of the file."""
    found = [each for each in vars(errors).values() if inspect.isclass(each)]
    return [each for each in found if issubclass(each, FeatureLibError)]


def errors_page() -> str:
    """Return the page of errors: class, base class, exit code and meaning."""
    rows = [
        [
            code(cls.__name__),
            code(cls.__bases__[0].__name__),
            str(cls.exit_code),
            (cls.__doc__ or "").strip().split("\n")[0],
        ]
        for cls in error_classes()
    ]
    tree = re.search(r"\n\n(    FeatureLibError\n.*?)\n\n", errors.__doc__ or "", re.DOTALL)
    shown = "" if tree is None else f"```text\n{inspect.cleandoc(tree[1])}\n```"
    return page(
        "# Errors",
        ERRORS_INTRO,
        shown,
        table(["class", "is a", "exit code", "means"], rows),
    )
