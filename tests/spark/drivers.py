"""Jobs as their users start them, to be watched and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.spark.conftest import JAVA, SETTINGS
from tests.spark.nights import ROOT

QUICK = [key for key in SETTINGS if key.startswith(("spark.sql.", "spark.databricks."))]


@dataclass(slots=True)
class Driver:
    """A job under ./spark-submit.sh, in a process group of its own."""

    process: subprocess.Popen[str]
    said: list[str]

    def wait_for(self, moment: Callable[[list[str]], bool]) -> None:
        deadline = time.monotonic() + 180
        while not moment(self.said):
            assert self.process.poll() is None, f"it ended first: {self.said}"
            assert time.monotonic() < deadline, f"it hangs: {self.said}"
            time.sleep(0.01)

    def finish(self) -> str:
        """What it prints until it ends; its stderr has a reader already."""
        assert self.process.stdout is not None
        printed = self.process.stdout.read()
        self.process.wait()
        return printed

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def submit(*words: object, env: Mapping[str, str] | None = None) -> Iterator[Driver]:
    command = [str(ROOT / "spark-submit.sh")]
    command += ["--conf", f"spark.driver.extraJavaOptions={JAVA}"]
    for key in QUICK:
        command += ["--conf", f"{key}={SETTINGS[key]}"]
    with subprocess.Popen(
        [*command, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd="/",
        env={
            **clean_environment(),
            "CI": "true",
            **(env or {}),
        },  # makes no class archive behind the test
    ) as process:
        driver = Driver(process, [])
        errors = process.stderr
        assert errors is not None
        reader = threading.Thread(target=lambda: driver.said.extend(errors), daemon=True)
        reader.start()
        try:
            yield driver
        finally:
            if process.poll() is None:
                driver.kill()
            reader.join(10)


def clean_environment() -> dict[str, str]:
    """Ours, without what says that a JVM is there already."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_")}


def said(text: str) -> Callable[[list[str]], bool]:
    return lambda lines: any(text in line for line in lines)
