"""Command lines run in this process: exit code, standard output, standard error."""

from __future__ import annotations

import logging
from unittest.mock import patch

from typer.testing import CliRunner

from featurelib.cli.app import make_app


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command line."""
    app = make_app(args[0] if args else "")  # as the console script: of that command alone
    try:
        with patch("sys.argv", ["featurelib", *args]):  # a command may print itself
            result = CliRunner().invoke(app, args, prog_name="featurelib")
    finally:
        logging.disable(logging.NOTSET)  # a command turns it off
    return result.exit_code, result.stdout, result.stderr
