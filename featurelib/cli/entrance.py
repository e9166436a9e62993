"""How a job or command is entered and left: options, run number, progress, errors as codes.

What the caller can act on ends as one message on stderr and the exit code of its class; with --json
a program gets it on stdout too. Anything else is a fault of ours, or of what we rest on: one line,
and where it happened only for those who ask for it (FEATURELIB_TRACE=1).
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated

import typer

from featurelib.cli.interrupt import say_interrupted
from featurelib.cli.streams import leave, take_over
from featurelib.cli.usage import Command, print_json_error
from featurelib.errors import ConfigError, FeatureLibError
from featurelib.words import clean

RUN_FORMAT = "%Y%m%d%H%M%S"
INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h; 1 would tell a scheduler "findings"
TRACE = "FEATURELIB_TRACE"  # set it to see where an unexpected error comes from
MOST_OF_A_FAULT, MOST_OF_A_MESSAGE = 300, 10_000  # characters

Landing = Annotated[str, typer.Option("--landing", help="Folder or URI of the landing files.")]
Tables = Annotated[str, typer.Option("--tables", help="Folder or URI of the Delta tables.")]
Run = Annotated[
    int | None,
    typer.Option("--run", help="Number of this run, yyyymmddHHMMSS. Default: now, in UTC."),
]


def run_job(main: Callable[..., int]) -> None:
    """Make `main`'s parameters options, call it, and end the process with what it returns."""
    take_over(has_colours=True)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(help=main.__doc__, cls=Command)(guard(main))
    leave(partial(app, prog_name=f"./spark-submit.sh {Path(sys.argv[0]).stem}"))  # as it is typed


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
    except KeyboardInterrupt:
        return say_interrupted()
    except Exception as error:
        return _say_error(error, as_json=bool(options.get("as_json")))


def _say_error(error: Exception, *, as_json: bool) -> int:
    if os.environ.get(TRACE):
        traceback.print_exception(error)
    known: Exception | None = error
    if not isinstance(error, FeatureLibError) and "pyspark" in sys.modules:
        from featurelib.spark.faults import explain

        known = explain(error)
    if not isinstance(known, FeatureLibError):
        return _say_unexpected(error, as_json=as_json)
    lines = str(known).split("\n")  # ours; what others say is one line where it comes in
    message = "\n".join(clean(line, MOST_OF_A_MESSAGE) if line.strip() else line for line in lines)
    say(f"error: {message}{_kept(error) if known is not error else ''}")
    if as_json:
        print_json_error(str(known), known.exit_code, known.facts)
    return known.exit_code


def _kept(error: Exception) -> str:
    """Where all of a long error is now, which ends a job that is not run again at once."""
    trace = "".join(traceback.format_exception(error))
    with (
        suppress(OSError),
        NamedTemporaryFile("w", prefix="featurelib-", suffix=".log", delete=False) as file,
    ):
        file.write(trace)
        return f" All that was said is in {file.name}"
    return ""


def _say_unexpected(error: Exception, *, as_json: bool) -> int:
    """One line about an error that nobody foresaw; its class and place are what a report needs."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "featurelib" in frame.filename] or frames
    first = next(iter(str(error).strip().splitlines()), "")
    what = f"{type(error).__name__}: {first}" if first else type(error).__name__
    kept = _kept(error) if "pyspark" in sys.modules else ""
    text = (
        f"a fault in featurelib: {clean(what, MOST_OF_A_FAULT)} "
        f"({Path(ours[-1].filename).name}:{ours[-1].lineno}). Run it again with {TRACE}=1 to see "
        f"all of it, and report it.{kept}"
    )
    say(f"error: {text}")
    if as_json:
        print_json_error(text, INTERNAL_ERROR)
    return INTERNAL_ERROR
