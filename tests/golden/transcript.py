r"""Transcripts: a text file of command lines, each with what it prints.

    $ featurelib describe --file cluster.db      typed
    lines of standard output
    ! lines of standard error
    = 3                                          the exit code, where it is not 0

A line that begins with `% ` is something that happens:

    % the request is lost | the reply is lost | all is well      what becomes of requests from here
    % write NAME TEXT                                            a file, \n for the end of a line
    % change NAME 'TEXT' 'OTHER'                                 a text in a file becomes another
    % zookeeper FILE ID f=2                                      three brokers and their levels
    % stop FILE [NODE …]                                         nodes that run no more, or all
    % columns NUMBER                                             how wide the terminal is

JSON is shown with a line for each value, so that a diff can be read. A transcript runs from top to
bottom in one folder that has `data`, `conf` and `tables` in it. A line that begins with `# ` is a
comment. Times, digests, runs and ids drawn at random are masked.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from featurelib.backends.embedded import EmbeddedBackend
from featurelib.catalogue import load
from tests.backends.simulator import Simulated
from tests.cli.commands import run
from tests.controller.clusters import zookeeper

REWRITES = os.environ.get("FEATURELIB_REWRITE") == "1"
_CLUSTER_ID = re.compile(  # sixteen bytes as base64
    r"(?<![\w.-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{21}[AQgw](?![\w-])"
)
_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z| UTC|\+00:00)?"), "<time>"),
    (re.compile(r"\d{8}T\d{6}\.\d{6}Z"), "<time>"),
    (re.compile(r"sha256:[0-9a-f]{64}"), "<digest>"),
    (re.compile(r'\bprocess("?:?\s)\d+'), r"process\1<pid>"),
    (re.compile(rf'(\bon |"host": "){re.escape(socket.gethostname())}\b'), r"\1<host>"),
)


def play(script: str, folder: Path, known: frozenset[str]) -> str:
    """Type every command of a transcript in `folder`, which is the working directory; gives the
    transcript anew. `known`: cluster ids that are the same every time, so they are shown."""
    played = []
    with _connection():
        for line in script.splitlines():
            if line.startswith(("# ", "% ")):
                played.append(line)
            if line.startswith("% "):
                _happen(line.removeprefix("% "))
            if line.startswith("$ "):
                played += [line, *_printed(line, folder, known), ""]
    return "\n".join(played)


def _write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text.replace("\\n", "\n") + "\n" * bool(text), "utf-8")


def _change(name: str, words: str) -> None:
    old, new = (text.replace("\\n", "\n") for text in shlex.split(words))
    text = Path(name).read_text("utf-8")
    assert old in text, (name, old)
    Path(name).write_text(text.replace(old, new), "utf-8")


def _make_zookeeper(file: str, words: str) -> None:
    cluster, *levels = words.split()
    with Simulated(file, load().tables, mode="zk", cluster_id=cluster) as made:
        made.put(
            zookeeper(**{name: int(v) for name, _, v in (x.partition("=") for x in levels)}), 7
        )


def _stop(file: str, words: str) -> None:
    with Simulated(file, load().tables) as there:
        for node in there.cluster.nodes:
            if not words or str(node.node_id) in words.split():
                there.stop(node.node_id)


_EVENTS = {"write": _write, "change": _change, "zookeeper": _make_zookeeper, "stop": _stop}
_lost = ""  # what of a request that changes something is lost on its way: it, its reply, nothing


def _happen(event: str) -> None:
    global _lost
    what, name, words = [*event.split(" ", 2), "", ""][:3]
    if what in _EVENTS:
        _EVENTS[what](name, words)
        return
    if what == "columns":
        os.environ["COLUMNS"] = name
        return
    _lost = {"the request is lost": "request", "the reply is lost": "reply", "all is well": ""}[
        event
    ]


@contextmanager
def _connection() -> Iterator[None]:
    """While the block runs, what is lost ends as if a person interrupted the wait for it."""
    real = EmbeddedBackend.update

    def update(self: EmbeddedBackend, step: Any, *, validate_only: bool = False) -> Any:
        if validate_only or not _lost:
            return real(self, step, validate_only=validate_only)
        if _lost == "reply":
            real(self, step)
        raise KeyboardInterrupt

    EmbeddedBackend.update = update  # type: ignore[method-assign]
    try:
        yield
    finally:
        EmbeddedBackend.update = real  # type: ignore[method-assign]
        _happen("all is well")


def _printed(line: str, folder: Path, known: frozenset[str]) -> list[str]:
    words = shlex.split(line.removeprefix("$ "))
    if words[0] == "cat":
        code, out, err = 0, "".join(Path(name).read_text("utf-8") for name in words[1:]), ""
    else:
        assert words[0] == "featurelib", line
        code, out, err = run(*words[1:])
    if "--json" in words and out.startswith(("{", "[")):
        out = json.dumps(json.loads(out), indent=1, ensure_ascii=False)
    lines = [*out.splitlines(), *(f"! {text}" for text in err.splitlines())]
    lines += [f"= {code}"] if code else []
    return [_masked(text, folder, known) for text in lines]


def _masked(text: str, folder: Path, known: frozenset[str]) -> str:
    text = text.replace(str(folder), "<folder>").rstrip()
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    return _CLUSTER_ID.sub(lambda found: found[0] if found[0] in known else "<cluster-id>", text)
