"""Command lines as processes of their own that import nothing: each is forked from a process that
has imported everything, which is most of what a command takes.

As a program it is that process: it reads command lines and answers with exit codes. A command ends
as Python ends: with a last flush of its streams, and the exit code that follows from it.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.laboratory import LABORATORY

ROOT = Path(__file__).parents[2]
SAMPLE = LABORATORY / "k41-forgotten"
# What commands import when they need it: clients, Delta, Arrow.
LATE = ("featurelib.backends.kafka.backend", "kazoo.client", "deltalake", "pyarrow.dataset")


class Forks:
    """Runs command lines, each in a process of its own; of `python FILE` where a file is given."""

    def __init__(self, *late: str) -> None:
        """`late` are modules to import beforehand beside those of all commands."""
        self._folder = tempfile.TemporaryDirectory(prefix="featurelib-")
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, *late],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def run(
        self,
        *words: str,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
        file: Path | None = None,
        out: str | None = "",
        err: str | None = "",
        encoding: str = "utf-8",
    ) -> tuple[int, bytes, bytes]:
        """Exit code, standard output and standard error; `out` and `err` are where they go, ""
        = to a file that is read, None = nowhere: the stream is closed."""
        files = [Path(self._folder.name, name) for name in ("out", "err")]
        for one in files:
            one.unlink(missing_ok=True)
        where = [str(one) if to == "" else to for one, to in zip(files, (out, err), strict=True)]
        case = {
            "words": words,
            "cwd": str(cwd),
            "environment": {**os.environ, **(environment or {})},
            "file": str(file or ""),
            "places": list(enumerate(where, start=1)),
            "encoding": encoding,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(case), file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        said = [one.read_bytes() if one.exists() else b"" for one in files]
        return code, said[0], said[1]

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._folder.cleanup()


@cache
def forks(*late: str) -> Forks:
    """The ones of this test run."""
    made = Forks(*late)
    atexit.register(made.close)
    return made


def _import_all(late: Sequence[str]) -> None:
    from featurelib.cli.app import make_app

    # A first command imports the parser of typer, and reads the catalogue.
    words = ("describe", "--capture", str(SAMPLE), "--as-of", "newest")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), suppress(SystemExit):
        make_app()(words)
    for name in (*LATE, *late):
        import_module(name)
    gc.collect()
    gc.freeze()  # what all have is nobody's garbage


def _become(case: dict[str, Any]) -> None:
    """Turn this process into the command's."""
    os.environ.clear()
    os.environ.update(case["environment"])
    os.chdir(case["cwd"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    opened = {n: os.open(at, os.O_WRONLY | os.O_CREAT) for n, at in case["places"] if at}
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(opened[number], number) if number in opened else os.close(number)
        raw = io.FileIO(number, "w", closefd=False) if number in opened else None
        setattr(sys, name, raw and io.TextIOWrapper(raw, case["encoding"]))


def _serve() -> None:
    """Fork, until the input ends; the child returns from here as the command."""
    for line in iter(sys.stdin.readline, ""):
        case = json.loads(line)
        if child := os.fork():
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
            continue
        _become(case)
        if case["file"]:
            sys.argv = [case["file"], *case["words"]]
            runpy.run_path(case["file"], run_name="__main__")
        else:
            from featurelib.__main__ import main

            sys.argv = ["featurelib", *case["words"]]
            main()
        return


if __name__ == "__main__":
    _import_all(sys.argv[1:])
    _serve()
