"""A command line that cannot be read is told as every other error is: one line, then its usage."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer._click.exceptions import ClickException, NoArgsIsHelpError, UsageError
from typer.core import TyperCommand, TyperGroup


def _end(command: Any, args: tuple[Any, ...], options: dict[str, Any], whole: bool) -> Any:
    """Runs the `main` of a Typer command, and leaves the process unless it is part of another."""
    try:
        code = command(*args, standalone_mode=False, **options)
    except ClickException as error:
        _show(error)
        code = error.exit_code
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
    print(f"error: {error.format_message().rstrip('.')}.", file=sys.stderr)
    if context is not None:
        print(context.get_usage(), file=sys.stderr)
        print(f"Help: {context.command_path} --help", file=sys.stderr)


class Group(TyperGroup):
    """Commands that end as this house's do."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        return _end(super().main, args, extra, standalone_mode)


class Command(TyperCommand):
    """A command of its own, as a job is."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        return _end(super().main, args, extra, standalone_mode)
