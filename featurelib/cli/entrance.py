"""How a job or command is entered and left: options, run number, progress, errors as codes.

What the caller can act on ends as one message on stderr and the exit code of its class. Anything
else is a programming error: its stack trace is shown, and the code is none of the documented ones.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from featurelib.cli.interrupt import say_interrupted
from featurelib.cli.usage import Command
from featurelib.errors import ConfigError, FeatureLibError

RUN_FORMAT = "%Y%m%d%H%M%S"
READER_GONE = 141  # as a shell shows what SIGPIPE ended
INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h; 1 would tell a scheduler "findings"

Landing = Annotated[str, typer.Option("--landing", help="Folder or URI of the landing files.")]
Tables = Annotated[str, typer.Option("--tables", help="Folder or URI of the Delta tables.")]
Run = Annotated[
    int | None,
    typer.Option("--run", help="Number of this run, yyyymmddHHMMSS. Default: now, in UTC."),
]


def run_job(main: Callable[..., int]) -> None:
    """Make `main`'s parameters options, call it, and end the process with what it returns."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(help=main.__doc__, cls=Command)(guard(main))
    app(prog_name=f"./spark-submit.sh {Path(sys.argv[0]).stem}")  # what a person types


def choose_run(run: int | None) -> int:
    """`run` if it is a run number, or one made of the current second in UTC."""
    if run is None:
        return int(datetime.now(UTC).strftime(RUN_FORMAT))
    try:
        # strptime alone would take fewer digits.
        if run != int(datetime.strptime(str(run), RUN_FORMAT).strftime(RUN_FORMAT)):
            raise ValueError
    except ValueError as error:
        raise ConfigError(
            f"--run {run}: expected a time in UTC as yyyymmddHHMMSS, as {choose_run(None)}. "
            "Leave out --run to use the current time."
        ) from error
    return run


def say(text: str) -> None:
    """One line of progress: on stderr, at once."""
    print(text, file=sys.stderr, flush=True)


def guard(main: Callable[..., int]) -> Callable[..., None]:
    """`main` as a command that ends the process with what it returns, or its error's code."""

    @functools.wraps(main)
    def guarded(**options: object) -> None:
        raise typer.Exit(_end(main, options))

    return guarded


def _end(main: Callable[..., int], options: dict[str, object]) -> int:
    # py4j logs what an interrupt broke in its sockets; the user asked for the interrupt.
    logging.disable(logging.CRITICAL)
    try:
        return main(**options)
    except FeatureLibError as error:
        say(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return say_interrupted()
    except BrokenPipeError:  # the reader went, as `head` does: what is left has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except Exception:  # a programming error must not leave with the code of a finding
        traceback.print_exc()
        return INTERNAL_ERROR
