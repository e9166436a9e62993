"""How errors are told: one line on standard error, and with --json one object on standard output.

A command line that cannot be read is told so too, and then its usage.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import typer
from typer._click.exceptions import ClickException, NoArgsIsHelpError, UsageError
from typer.core import TyperCommand, TyperGroup

# What each exit code of an error is called, for a program.
WORDS = {2: "usage", 3: "refused", 4: "unknown", 5: "could not look", 70: "fault"}


def print_json_error(message: str, code: int, facts: Mapping[str, object] | None = None) -> None:
    """One object on standard output, for whoever asked for JSON."""
    document = {
        "version": 1,
        "error": WORDS.get(code, "usage"),
        "message": message,
        "exit_code": code,
    }
    print(json.dumps({**document, **(facts or {})}, indent=2, ensure_ascii=False))


def _end(command: Any, args: tuple[Any, ...], options: dict[str, Any], whole: bool) -> Any:
    """Runs the `main` of a Typer command, and leaves the process unless it is part of another."""
    try:
        code = command(*args, standalone_mode=False, **options)
    except ClickException as error:
        _show(error)
        code = error.exit_code
        given = options.get("args") or next(iter(args), None) or sys.argv
        if "--json" in given:  # no option was read
            print_json_error(_text(error), code)
    except typer.Abort:
        print("error: Stopped before anything was done.", file=sys.stderr)
        code = 2
    if whole:
        sys.exit(code)
    return code


def _show(error: ClickException) -> None:
    """What is wrong, how the command is used, and where its options are explained."""
    context = error.ctx if isinstance(error, UsageError) else None
    if isinstance(error, NoArgsIsHelpError):
        error.show()
        return
    print(f"error: {_text(error)}", file=sys.stderr)
    if context is not None:
        print(context.get_usage(), file=sys.stderr)
        print(f"Help: {context.command_path} --help", file=sys.stderr)


def _text(error: ClickException) -> str:
    return f"{error.format_message().rstrip('.')}."


class Group(TyperGroup):
    """Commands that end as this house's do."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        return _end(super().main, args, extra, standalone_mode)


class Command(TyperCommand):
    """A command of its own, as a job is."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        return _end(super().main, args, extra, standalone_mode)
