"""Ctrl-C ends a job in one line with 130, wherever it meets it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from featurelib.cli.streams import INTERRUPTED, MESSAGE, OUTPUT_LOST
from tests.laboratory import LABORATORY

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = LABORATORY

LOST = "error: standard output: {}; not all of it was written\n"
WAITS = "print('here', flush=True); time.sleep(60)"
JOBS = {
    "waits": f"import time\n{WAITS}",
    # As Spark does when a session starts; its own call to the JVM fails then.
    "handler of its own": (
        "import signal, time\n"
        "def handle(number, frame):\n"
        "    time.sleep(0.2)\n"
        "    raise OSError('Py4JNetworkError')\n"
        f"signal.signal(signal.SIGINT, handle)\n{WAITS}"
    ),
    "raises on the way out": (
        f"import time\ntry:\n    {WAITS}\nfinally:\n    raise OSError('Py4JNetworkError')"
    ),
    # One thread writes the line, and the other has to wait for it.
    "a slow standard error": (
        "import os, time\nwrite = os.write\n"
        "def late(number, text):\n    time.sleep(0.5)\n    return write(number, text)\n"
        f"os.write = late\n{WAITS}"
    ),
    "a job": (
        "import time\nfrom featurelib.cli.entrance import run_job\n"
        f"def main() -> int:\n    {WAITS}\n    return 0\nrun_job(main)"
    ),
    "threads that wait": (
        "import time\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor() as pool:\n"
        f"    pool.submit(time.sleep, 60)\n    {WAITS}"
    ),
}


def start(*words: object, ignoring: bool = False, **more: str) -> subprocess.Popen[str]:
    how = signal.SIG_IGN if ignoring else signal.SIG_DFL
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_")}
    return subprocess.Popen(
        [*map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, how),
        env=clean | {"CI": "true"} | more,  # CI: makes no class archive behind the test
    )


def drive(folder: Path, text: str, *, ignoring: bool = False) -> subprocess.Popen[str]:
    """`text` as a job, as spark-submit.sh runs it, when it has said that it is there."""
    job = folder / "job.py"
    job.write_text(text)
    process = start(sys.executable, ROOT / "scripts" / "driver.py", job, ignoring=ignoring)
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    return process


@pytest.mark.parametrize("text", JOBS.values(), ids=JOBS)
def test_a_job_that_is_interrupted_ends_at_once_and_in_one_line(tmp_path: Path, text: str) -> None:
    process = drive(tmp_path, text)
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (INTERRUPTED, "", f"{MESSAGE}\n")
    assert time.monotonic() - began < 10


def test_an_interrupt_that_the_caller_ignores_stays_ignored(tmp_path: Path) -> None:
    text = "import time\nprint('here', flush=True)\ntime.sleep(1)\nprint('done')"
    process = drive(tmp_path, text, ignoring=True)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=30) == ("done\n", "")
    assert process.returncode == 0


def test_a_job_is_run_as_python_runs_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("word = 'beside'")
    text = "import sys, beside\nprint('here')\nprint(sys.argv[1:], __name__, beside.word)\nexit(7)"
    (tmp_path / "job.py").write_text(text)
    process = start(sys.executable, ROOT / "scripts" / "driver.py", tmp_path / "job.py", "a b", "")
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (7, "here\n['a b', ''] __main__ beside\n", "")


SPEAKS = (
    "from featurelib.cli.entrance import run_job\n"
    "def main() -> int:\n    print('\\u2192 here')\n    return 0\nrun_job(main)"
)


@pytest.mark.parametrize(
    ("redirected", "expected"),
    [
        ("", (0, "? here\n", "")),
        (">/dev/full", (OUTPUT_LOST, "", LOST.format("no space left on device"))),
        (">&-", (OUTPUT_LOST, "", LOST.format("bad file descriptor"))),
        ("2>/dev/full", (0, "? here\n", "")),
    ],
)
def test_a_job_s_output_is_never_a_stack_trace(
    tmp_path: Path, redirected: str, expected: tuple[int, str, str]
) -> None:
    job = tmp_path / "job.py"
    job.write_text(SPEAKS)
    command = f"exec {sys.executable} {ROOT / 'scripts' / 'driver.py'} {job} {redirected}"
    out, err = (process := start("bash", "-c", command, PYTHONIOENCODING="ascii")).communicate()
    assert (process.returncode, out, err) == expected


def test_a_night_that_is_still_setting_up_ends_so_too(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho >$0.asked\nexec sleep 60\n")
    java.chmod(0o755)
    process = start(ROOT / "spark-submit.sh", "nightly", JAVA_HOME=str(tmp_path))
    while not java.with_name("java.asked").exists():
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    said = "featurelib: interrupted; run again.\n"
    assert (process.returncode, out, err) == (INTERRUPTED, "", said)


# When, in seconds after which line of progress, of how many bytes of landing lines; workers that
# die of it are what Spark logs about.
MOMENTS = {
    "starting": ("starting Spark", 1.0, 0),
    "workers at work": ("new files", 2.0, 64 << 20),
}


@pytest.mark.spark
@pytest.mark.parametrize(("mark", "delay", "size"), MOMENTS.values(), ids=MOMENTS)
def test_a_night_under_spark_submit_ends_so_too(
    tmp_path: Path, mark: str, delay: float, size: int
) -> None:
    landing = tmp_path / "landing"
    shutil.copytree(SAMPLES, landing)
    one = (SAMPLES / "ghost-broker" / "landing.jsonl").read_bytes()
    (landing / "big.jsonl").write_bytes(one * (size // len(one)))
    options = ("--landing", landing, "--tables", tmp_path / "tables", "--as-of", "newest")
    process = start(ROOT / "spark-submit.sh", "nightly", *options)
    try:
        assert process.stderr is not None
        said = [process.stderr.readline()]
        while mark not in said[-1]:
            assert said[-1], f"it ended first: {said}"
            said.append(process.stderr.readline())
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert (process.returncode, out) == (INTERRUPTED, "")
    progress = ("ingest: ", "refine: ")
    rest = [line for line in err.splitlines() if not line.startswith(progress)]
    # On a slow machine the JVM has not come to the job's Python yet, and goes without a word.
    assert rest == [MESSAGE] or (mark == "starting Spark" and not rest)
