"""No command ever shows a stack trace, whatever its standard streams are and whenever it is
interrupted; the exit code says what became of it, and of its output."""

from __future__ import annotations

import json
import logging
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from featurelib.cli.app import COMMANDS
from featurelib.cli.entrance import guard
from featurelib.cli.streams import INTERRUPTED, OUTPUT_LOST, READER_GONE
from tests.cli.commands import run
from tests.cli.forked import forks
from tests.questions.nights import RUN, write_histories, write_night
from tests.report.samples import SAMPLES, read_samples

# A command line of each command, in a folder that `folder` makes. {n} differs with each call.
LINES = {
    "version-mapping": "",
    "feature-dependencies": "--feature metadata.version=27",
    "initial-levels": "--software 4.1",
    "rules": "",
    "conformance": "",
    "collect": "--file c.db --out landing-{n}",
    "config": "",
    "inventory": "import --fleet {fleet} --from-strimzi "
    "{fleet.parents[3]}/data/kubernetes/strimzi.json",
    "check": "--file c.db",
    "describe": "--file c.db",
    "why-not": "metadata.version=27 --file c.db",
    "what-if": "--file c.db --release 4.2",
    "kafka-features": "--file c.db --command upgrade",
    "election": "--capture {fleet.parent}/zk-282-ranges --ibp 2.6",
    "can-roll": "--file c.db --to 4.2",
    "watch": "--file c.db --until metadata.version=27",
    "history": "ghost-broker --tables tables --fleet {fleet}",
    "diff": "--tables tables",
    "report": "--tables tables --fleet {fleet}",
    "export": "--tables tables --fleet {fleet}",
    "notify": "--dry-run --targets notify.toml --tables tables --fleet {fleet}",
    "lint": "server.properties",
    "waves": "plan 4.1 --tables tables --fleet {fleet}",
    "show": "p.json",
    "approve": "p.json --expires 24h --yes --out a-{n}.json",
    "apply": "p.json --approval a.json --yes --file c-{n}.db --journal j-{n}.db",
    "journal": "--journal j.db",
    "resume": "--journal j.db",
    "sandbox": "make e-{n}.db --software 4.1",
    "plan": "upgrade-all --file c.db --out p-{n}.json",
    "patch": "answer.json kafka.yaml",
}
FLEET = SAMPLES / "fleet.toml"
# An interrupt between the two calls is before the command: nobody could have caught it.
START = """
import os
from featurelib.__main__ import main
try:
    os.write(3, b"x")
    main()
except KeyboardInterrupt as early:
    if early.__traceback__.tb_next:
        raise
    os.write(2, b"error: interrupted\\n")
    os._exit(130)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster, a plan of it and its approval, a journal, and two nights' tables."""
    home = tmp_path_factory.mktemp("streams")
    before = Path.cwd()
    os.chdir(home)
    try:
        for line in (
            "sandbox make c.db --software 4.1 --metadata 3.9",
            "plan upgrade-all --file c.db --out p.json",
            "approve p.json --expires 24h --yes --out a.json",
            "apply p.json --approval a.json --yes --file d.db --journal j.db",
        ):
            if line.startswith("apply"):
                (home / "d.db").write_bytes((home / "c.db").read_bytes())
            code, out, err = run(*line.split())
            assert code == 0, (line, out, err)
        _, answer, _ = run(*["plan", "upgrade-all", "--file", "c.db", "--out", "q.json", "--json"])
    finally:
        os.chdir(before)
    for number in (RUN - 1_000_000, RUN):
        write_night(home / "tables", number, read_samples().batch)
    write_histories(home / "tables", RUN)
    (home / "notify.toml").write_text('[[target]]\nname = "x"\nslack = "env:X"\n', "utf-8")
    (home / "answer.json").write_text(answer, "utf-8")
    kafka = "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {name: a}\n"
    (home / "kafka.yaml").write_text(f"{kafka}spec: {{kafka: {{version: 4.1.0}}}}\n", "utf-8")
    (home / "server.properties").write_text("process.roles=broker\nnode.id=1\n", "utf-8")
    return home


class Server:
    """Runs command lines in `folder`, each in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0

    def run(self, line: str, **where: Any) -> tuple[int, bytes, bytes]:
        """Exit code, standard output and standard error; `where` they go, as Forks.run has it."""
        self.count += 1
        words = line.format(n=self.count, fleet=FLEET).split()
        return forks().run(*words, cwd=self.folder, **where)


@pytest.fixture(scope="module")
def server(folder: Path) -> Server:
    return Server(folder)


def lines() -> Iterator[str]:
    """A command line of every command."""
    assert set(LINES) == set(COMMANDS) - {"mcp"}  # the SDK's client speaks to it
    for command, rest in LINES.items():
        yield f"{command} {rest}"


@pytest.fixture(scope="module")
def usual(server: Server) -> dict[str, tuple[int, bytes]]:
    """How each command line ends, and what it says, where nothing is in its way."""
    copies(server)
    found = {line: server.run(line) for line in lines()}
    assert {line: err for line, (code, _, err) in found.items() if code not in (0, 1)} == {}
    return {line: (code, out) for line, (code, out, _) in found.items()}


def copies(server: Server, more: int = 400) -> None:
    """A cluster for each apply that is to come."""
    for number in range(server.count + 1, server.count + more):
        (server.folder / f"c-{number}.db").write_bytes((server.folder / "c.db").read_bytes())


ONE_LINE = re.compile(rb"error: standard output: [a-z ]+; not all of it was written\n")


@pytest.mark.parametrize("where", ["/dev/full", None], ids=["full", "closed"])
def test_output_that_cannot_be_written_is_said_in_one_line_and_by_the_exit_code(
    server: Server, usual: dict[str, tuple[int, bytes]], where: str | None
) -> None:
    for line in lines():
        code, _, err = server.run(line, out=where)
        assert b"Traceback" not in err, line
        expected = usual[line][0] or OUTPUT_LOST
        assert (code, len(ONE_LINE.findall(err))) == (expected, int(code == OUTPUT_LOST)), line


@pytest.mark.parametrize("where", ["/dev/full", None], ids=["full", "closed"])
def test_progress_that_cannot_be_written_changes_nothing(
    server: Server, usual: dict[str, tuple[int, bytes]], where: str | None
) -> None:
    for line in lines():
        code, out, _ = server.run(line, err=where)
        assert (code, bool(out)) == (usual[line][0], bool(usual[line][1])), line


def test_a_terminal_that_is_not_utf_8_gets_question_marks_and_json_escapes(
    server: Server, usual: dict[str, tuple[int, bytes]]
) -> None:
    for line in lines():
        code, out, err = server.run(line, encoding="ascii")
        assert (code, out.isascii(), err.isascii()) == (usual[line][0], True, True), line
        assert b"Traceback" not in err, line
        if line.startswith("patch"):  # it prints the characters of a file
            continue
        code, out, err = server.run(f"{line} --json", encoding="ascii")
        assert (code, out.isascii(), b"Traceback" in err) == (usual[line][0], True, False), line
        json.loads(out)


def test_with_json_an_early_error_is_an_object_too(server: Server) -> None:
    for line in lines():
        for wrong in (f"{line} --json --no-such-option", f"{line} --json --fleet nowhere.toml"):
            code, out, err = server.run(wrong)
            if code == 0:  # it has no use for an inventory
                continue
            said = json.loads(out)
            assert (said["error"], said["exit_code"]) == ("usage", code) == ("usage", 2), wrong
            assert err.decode().splitlines()[0] == f"error: {said['message']}", wrong


# Without the server: what really stands between a shell and a command.

NOT_UTF_8 = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(
    ("redirected", "environment", "expected"),
    [
        (">/dev/full", {}, OUTPUT_LOST),
        (">&-", {}, OUTPUT_LOST),
        ("2>/dev/full", {}, 0),
        ("2>&- >&- <&-", {}, OUTPUT_LOST),
        (">/dev/null", NOT_UTF_8, 0),
        (">/dev/null", {"PYTHONIOENCODING": "ascii"}, 0),
        ("| true; exit ${PIPESTATUS[0]}", {}, READER_GONE),
    ],
)
def test_a_real_command_ends_so_too(
    folder: Path, redirected: str, environment: dict[str, str], expected: int
) -> None:
    command = f"sleep 0.1; {sys.executable} -m featurelib describe --file c.db {redirected}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, cwd=folder, env={**os.environ, **environment}
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (expected, False)


def begin(folder: Path, words: list[str]) -> subprocess.Popen[bytes]:
    """A command that just begins: what the interpreter does before is not ours."""
    reader, writer = os.pipe()
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$@" 3>&{writer}', "bash", sys.executable, "-c", START, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[writer],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    os.close(writer)
    assert os.read(reader, 1) == b"x"
    os.close(reader)
    return process


def test_an_interrupt_at_any_moment_is_one_line(folder: Path) -> None:
    chance, ended = random.Random(7), 0
    moments = [0.0, 0.02, *(chance.uniform(0.02, 1.0) for _ in range(11))]
    for number, moment in enumerate(moments):
        command, rest = chance.choice(list(LINES.items()))
        (folder / f"c-i{number}.db").write_bytes((folder / "c.db").read_bytes())
        process = begin(folder, f"{command} {rest.format(n=f'i{number}', fleet=FLEET)}".split())
        time.sleep(moment)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert b"Traceback" not in err, (command, moment, err.decode())
        if process.returncode == INTERRUPTED:
            ended += 1
            assert err.decode().endswith("\n")
            assert "interrupted" in err.decode().splitlines()[-1], (command, moment, err)
        else:
            # While a request is under way nobody knows what becomes of it.
            unknown = process.returncode == 4 and b"resume" in err
            assert unknown or process.returncode == 0, (command, moment, err)
    assert ended >= 3


def test_a_table_whose_file_is_damaged_is_one_line(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tables"
    shutil.copytree(folder / "tables", copy)
    for file in (copy / "silver" / "cluster_snapshot").glob("**/*.parquet"):
        file.write_bytes(file.read_bytes()[:100])
    words = ["why-not", "ghost-broker", "metadata.version=27", "--fleet", str(FLEET)]
    code, _, err = run(*words, "--tables", str(copy))
    assert code == 5
    (line,) = err.splitlines()
    assert line.startswith("error: table silver.cluster_snapshot at ")
    assert "a file of it is missing or damaged" in line


def test_what_nobody_foresaw_is_one_line_too_and_the_rest_for_those_who_ask(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(**options: object) -> int:
        raise ValueError("of two\nlines \x1b[2J")

    for trace in ("", "1"):
        monkeypatch.setenv("FEATURELIB_TRACE", trace)
        with pytest.raises(typer.Exit) as left:
            guard(fails)(as_json=True)
        logging.disable(logging.NOTSET)
        out, err = capsys.readouterr()
        said = err.splitlines()[-1]
        assert left.value.exit_code == json.loads(out)["exit_code"] == 70
        assert said.startswith("error: a fault in featurelib: ValueError: of two (")
        assert "FEATURELIB_TRACE=1" in said
        assert said == f"error: {json.loads(out)['message']}"
        assert ("Traceback" in err) == bool(trace)


def test_a_log_of_both_streams_keeps_their_order(tmp_path: Path) -> None:
    """What is asked of a person stands before what is done, also where nobody looks on."""
    script = (
        "import sys\nfrom featurelib.cli.streams import take_over\ntake_over()\n"
        "print('first')\nprint('second', file=sys.stderr)\nprint('third')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.stdout.splitlines() == ["first", "second", "third"]
