"""Asking a person before something is done: only at a terminal; elsewhere a flag answers."""

from __future__ import annotations

import sys

from featurelib.errors import ConfigError, RefusedError

YES = ("y", "yes")


def at_terminal() -> bool:
    """Whether a person can be asked: standard input and standard error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str, *, yes: bool) -> None:
    """Returns when the answer is yes, or `yes` said so beforehand.

    Raises ConfigError where nobody can be asked, RefusedError for any other answer.
    """
    if yes:
        return
    if not at_terminal():
        raise ConfigError(
            f"{question} Expected a terminal to ask at, found none. Read what is shown and start "
            "again with --yes."
        )
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().casefold() not in YES:
        raise RefusedError("Not confirmed. Nothing was written or sent.")
