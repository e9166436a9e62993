"""Enter and leave a job or command: options, run number, progress, errors as exit codes.

An error that the caller can act on is one message on stderr, with --json on stdout too, and the
exit code of its class. Any other error is a fault of ours: one line, and its trace only with
FEATURELIB_TRACE=1.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from itertools import groupby
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import msgspec
import typer
from typer.core import TyperCommand, TyperGroup

from featurelib.cli.options import FLAGS, with_options
from featurelib.cli.streams import leave, say_interrupted, take_over
from featurelib.errors import ConfigError
from featurelib.faults import explain
from featurelib.view.documents import ERROR_WORDS, ErrorDocument, fill
from featurelib.words import clean

RUN_FORMAT = "%Y%m%d%H%M%S"
INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h; 1 would mean "findings" to a scheduler
TRACE = "FEATURELIB_TRACE"  # the variable that shows the stack trace of an unexpected error
MOST_OF_A_FAULT, MOST_OF_A_MESSAGE = 300, 10_000  # Maximum number of characters


def print_json_error(message: str, code: int, facts: Mapping[str, object] | None = None) -> None:
    """Print an error as a JSON object on standard output."""
    error = fill(
        ErrorDocument, error=ERROR_WORDS.get(code, "usage"), message=message, exit_code=code
    )
    document = msgspec.to_builtins(error) | dict(facts or {})
    print(json.dumps(document, indent=2, ensure_ascii=False))


def _end(command: Any, args: tuple[Any, ...], options: dict[str, Any], whole: bool) -> Any:
    """Run a Typer command, and end the process if `whole`; otherwise return."""
    try:
        code = command(*args, standalone_mode=False, **options)
    except typer.TyperException as error:
        _show(error)
        code = error.exit_code
        arguments = options.get("args") or next(iter(args), None) or sys.argv
        if "--json" in arguments:  # the options are not parsed yet
            print_json_error(_text(error), code)
    except typer.Abort:
        print("error: Stopped before anything was done.", file=sys.stderr)
        code = 2
    if whole:
        sys.exit(code)
    return code


def _show(error: typer.TyperException) -> None:
    """Print a usage error: its text, the command's usage, and the docs page about options."""
    context = getattr(error, "ctx", None)  # click's context of an invalid command line
    if context is not None and error.format_message() == context.get_help():
        print(context.get_help(), file=sys.stderr)  # a call without arguments is no error
        return
    print(f"error: {_text(error)}", file=sys.stderr)
    if context is not None:
        print(context.get_usage(), file=sys.stderr)
        print(f"Help: {context.command_path} --help", file=sys.stderr)


def _text(error: typer.TyperException) -> str:
    """Return the text of a usage error. An option without value also gets its allowed values."""
    context, name = getattr(error, "ctx", None), getattr(error, "option_name", None)
    note = ""
    if name and context is not None and hasattr(error, "possibilities"):
        note = _suggest(error, {flag for option in context.command.params for flag in option.opts})
    text = error.format_message().rstrip(".") + note
    text = re.sub("Input should be a valid (integer|number).*", "expected a number", text)
    for option in context.command.params if context is not None else ():
        if name in option.opts and not option.is_flag:
            text += f": {option.get_help_record(context)[0]}"
    text = text.replace(_MARK, "")
    return text if text.endswith("?") or "\n" in text else f"{text}."


def _suggest(error: Any, options: set[str]) -> str:
    """Add the nearest option of the command to the error of an unknown option. Return a note if
    only other commands have the option."""
    near = get_close_matches(error.option_name, options | FLAGS, n=1, cutoff=0.75)
    error.possibilities = near if options.issuperset(near) else []
    return "" if near == error.possibilities else f" ({near[0]} is an option of other commands)"


class CommandGroup(TyperGroup):
    """A group of commands in titled sections, with featurelib's exit codes."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        widest = max(map(len, self.commands))
        panels = groupby(
            self.commands.items(), lambda item: getattr(item[1], "rich_help_panel", None)
        )
        room = formatter.width - widest - 6
        for title, items in panels:
            with formatter.section(title or "Commands"):
                formatter.write_dl(
                    [
                        (name.ljust(widest), command.get_short_help_str(room))
                        for name, command in items
                    ]
                )

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        return _end(super().main, args, extra, standalone_mode)


# In ZooKeeper mode a cluster id may begin with a hyphen (Kafka's
# CoreUtils.generateUuidAsBase64). This mark hides it from the option parser.
_HYPHENED_ID, _MARK = re.compile(r"-\w[\w-]{20}", re.ASCII), "\u2060"
HELP_ALL, PANEL = "--help-all", "rich_help_panel"
PANELS = ("Arguments", "Options", "Where to read", "Evaluation", "Output")  # parts of a help text


class JobCommand(TyperCommand):
    """A command or job with featurelib's help and errors."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Print the options in a help text: first the command's own, then shared options by panel.
        Rare options are only named without --help-all."""
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in PANELS}
        names = list[str]()
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            section = "Output" if "--help" in parameter.opts else "Options"
            panel, is_rare, _ = (getattr(parameter, PANEL, None) or section).partition(", rare")
            if record and is_rare and not ctx.meta.get(HELP_ALL):
                names += parameter.opts
            elif record:
                panels[panel].append(record)
        if names:
            panels["Output"].append((HELP_ALL, f"Explain {', '.join(names)}, too."))
        for panel, records in panels.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments; a cluster id may begin with a hyphen. Errors of the parser get the
        command's name."""
        if HELP_ALL in args:
            ctx.meta[HELP_ALL], args = True, ["--help"]
        flags = {flag for parameter in self.params for flag in parameter.opts}
        ids = {arg for arg in args if _HYPHENED_ID.fullmatch(arg)} - flags
        try:
            extra = super().parse_args(ctx, [_MARK * (arg in ids) + arg for arg in args])
            ctx.params = {name: _unmarked(value) for name, value in ctx.params.items()}
            return extra
        except typer.TyperException as error:
            vars(error)["ctx"] = getattr(error, "ctx", None) or ctx
            raise

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        return _end(super().main, args, extra, standalone_mode)


def _unmarked(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_unmarked, value))
    is_marked = isinstance(value, str) and value.startswith(_MARK)
    return value.removeprefix(_MARK) if is_marked else value


def run_job(main: Callable[..., int]) -> None:
    """Run a job. The parameters of `main` become options, and its result the exit code."""
    take_over()
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(help=main.__doc__, cls=JobCommand)(guard(with_options(main, "job")))
    leave(partial(app, prog_name=f"./spark-submit.sh {Path(sys.argv[0]).stem}"))  # as typed


def choose_run(run: int | None) -> int:
    """Return `run` if it is valid; None gives a new number from the current second in UTC."""
    if run is None:
        return int(datetime.now(UTC).strftime(RUN_FORMAT))
    try:
        # strptime alone would accept fewer digits.
        if run != int(datetime.strptime(str(run), RUN_FORMAT).strftime(RUN_FORMAT)):
            raise ValueError
    except ValueError as error:
        raise ConfigError(
            f"--run {run}: This is not a run number. Use a time in UTC as yyyymmddHHMMSS, such as "
            f"{choose_run(None)}. Leave out --run to use the current time."
        ) from error
    return run


def say(text: str) -> None:
    """Print a progress line on standard error, unbuffered."""
    print(text, file=sys.stderr, flush=True)


def guard(main: Callable[..., int]) -> Callable[..., None]:
    """Return `main` as a command that ends with its result, or an error's exit code."""

    @functools.wraps(main)
    def guarded(**options: object) -> None:
        raise typer.Exit(_end_line(main, options))

    return guarded


def _end_line(main: Callable[..., int], options: dict[str, object]) -> int:
    # After an interrupt, py4j's log of broken sockets is not shown.
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
    explained = explain(error)
    if explained is None:
        return _say_unexpected(error, as_json=as_json)
    lines = str(explained).split("\n")  # other programs' texts are one line already
    message = "\n".join(clean(line, MOST_OF_A_MESSAGE) if line.strip() else line for line in lines)
    say(f"error: {message}{_kept(error)}")
    if as_json:
        print_json_error(str(explained), explained.exit_code, explained.facts)
    return explained.exit_code


def _kept(error: Exception) -> str:
    """Return a note that names the file with Spark's messages about an error, or ""."""
    cause = error.__cause__ or error
    if not type(cause).__module__.startswith(("pyspark", "py4j")) or "\n" not in str(cause):
        return ""
    trace = "".join(traceback.format_exception(error))
    with (
        suppress(OSError),
        NamedTemporaryFile("w", prefix="featurelib-", suffix=".log", delete=False) as file,
    ):
        file.write(trace)
        return f" All that was said is in {file.name}"
    return ""


def _say_unexpected(error: Exception, *, as_json: bool) -> int:
    """Print an unexpected error in one line with its source position; return the exit code."""
    frames = traceback.extract_tb(error.__traceback__)
    traced = [frame for frame in frames if "featurelib" in frame.filename] or frames
    first = next(iter(str(error).strip().splitlines()), "")
    fault = f"{type(error).__name__}: {first}" if first else type(error).__name__
    source = f"{Path(traced[-1].filename).name}:{traced[-1].lineno}"
    text = (
        f"a fault in featurelib: {clean(fault, MOST_OF_A_FAULT)} ({source}). Run the command again "
        f"with {TRACE}=1 for the whole error, and report the error.{_kept(error)}"
    )
    say(f"error: {text}")
    if as_json:
        print_json_error(text, INTERNAL_ERROR)
    return INTERNAL_ERROR
