r"""Transcripts: a text file of command lines, each with what it prints.

    $ featurelib describe --file cluster.db      typed
    lines of standard output
    ! lines of standard error
    = 3                                          the exit code, where it is not 0

A line that begins with `% ` is something that happens:

    % the request is lost | the reply is lost | all is well      what becomes of requests from here
    % the controller answers CODE TEXT | is cut off              when it is asked
    % unseen TEXT                                                a look sees no line with it
    % write NAME TEXT                                            a file, \n for the end of a line
    % change NAME 'TEXT' 'OTHER'                                 a text in a file becomes another
    % zookeeper FILE ID f=2                                      three brokers and their levels
    % cluster FILE NAME                                          one of CLUSTERS, with the id c-1
    % recorded FILE RECORDING NUMBER                             the first exchanges of a recording
    % columns NUMBER                                             how wide the terminal is
    % stop FILE [NODE …]                                         nodes that run no more, or all

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
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from featurelib.catalogue import load
from featurelib.core.cluster import Cluster
from featurelib.core.reply import Reply
from featurelib.errors import OutcomeUnknownError
from featurelib.extras.sandbox.backend import EmbeddedBackend
from tests.backends.clusters import KRAFT, ZK, broker, controller
from tests.backends.simulator import Simulated
from tests.cli.commands import run
from tests.controller.clusters import OLD, zookeeper
from tests.core import recordings
from tests.test_collect import AT_39

REWRITES = os.environ.get("FEATURELIB_REWRITE") == "1"
_CLUSTER_ID = re.compile(  # sixteen bytes as base64
    r"(?<![\w.-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{21}[AQgw](?![\w-])"
)
_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z| UTC|\+00:00)?"), "<time>"),
    (re.compile(r"\d{8}T\d{6}\.\d{6}Z"), "<time>"),
    (re.compile(r"sha256:(?:[0-9a-f]{64}|[0-9a-f]{12}\b)"), "<digest>"),
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
    os.utime(name, (time.time(), time.time()))  # by the clock that the commands have


def _change(name: str, words: str) -> None:
    old, new = (text.replace("\\n", "\n") for text in shlex.split(words))
    text = Path(name).read_text("utf-8")
    assert old in text, (name, old)
    Path(name).write_text(text.replace(old, new), "utf-8")


def _record(name: str, words: str) -> None:
    recording, number = words.split()
    lines = recordings.lines(recording)[: int(number)]
    Path(name).write_bytes(b"".join(line + b"\n" for line in lines))


def _make_zookeeper(file: str, words: str) -> None:
    cluster, *levels = words.split()
    finalized = {name: int(level) for name, _, level in (one.partition("=") for one in levels)}
    with Simulated(file, load().tables, mode="zk", cluster_id=cluster) as made:
        made.put(zookeeper(release="3.9.2", **finalized), 7)


def _stop(file: str, words: str) -> None:
    with Simulated(file, load().tables) as there:
        for node in there.cluster.nodes:
            if not words or str(node.node_id) in words.split():
                there.stop(node.node_id)


_V44 = {"metadata.version": (7, 33), "kraft.version": (0, 1), "share.version": (0, 2)}
_AT_44 = Cluster(
    release="4.4.0",
    nodes=tuple(of(i, supported=_V44, release="4.4.0") for i, of in ((1, controller), (3, broker))),
    active=1,
    finalized={"metadata.version": (33, 33), "kraft.version": (1, 1), "share.version": (1, 1)},
    raft_level=1,
)
_GHOST = broker(7, supported={"metadata.version": (1, 20)}, release="3.8.1", running=False)
_SILENT = broker(4, supported=OLD, release="3.9.2", running=False)
CLUSTERS = {
    "3.9": AT_39,
    "3.9-with-a-ghost": replace(AT_39, nodes=(*AT_39.nodes, replace(_GHOST, fenced=True))),
    "3.9-with-a-silent-node": replace(AT_39, nodes=(*AT_39.nodes, _SILENT)),
    "4.0": KRAFT,
    "4.4": _AT_44,
    "4.4-with-a-leftover": replace(_AT_44, configured_voters=(1, 9)),
    "zookeeper": ZK,
}


def _make_cluster(file: str, name: str) -> None:
    mode = "zk" if name == "zookeeper" else "kraft"
    with Simulated(file, load().tables, mode=mode, cluster_id="c-1") as made:
        made.put(CLUSTERS[name], 100)


@dataclass
class _Wire:
    """What becomes of a request that changes something, what is answered to any, what is unseen."""

    lost: str = ""  # the request, the reply, nothing
    answer: Reply | Exception | None = None
    unseen: str = ""

    def update(self, real: Callable[..., Reply], *, validate_only: bool) -> Reply:
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            return self.answer
        if validate_only or not self.lost:
            return real(validate_only=validate_only)
        if self.lost == "reply":
            real()
        raise KeyboardInterrupt  # as if a person interrupted the wait for it

    def see(self, lines: Iterable[bytes]) -> tuple[bytes, ...]:
        return tuple(x for x in lines if not self.unseen or self.unseen not in x.decode())


_wire = _Wire()
_EVENTS = {
    "write": _write,
    "change": _change,
    "recorded": _record,
    "zookeeper": _make_zookeeper,
    "cluster": _make_cluster,
    "stop": _stop,
}


def _happen(event: str) -> None:
    global _wire
    what, name, words = [*event.split(" ", 2), "", ""][:3]
    if what in _EVENTS:
        _EVENTS[what](name, words)
    elif what == "columns":
        os.environ["COLUMNS"] = name
    elif event == "all is well":
        _wire = _Wire()
    elif what == "unseen":
        _wire.unseen = event.removeprefix("unseen ")
    elif event == "the controller is cut off":
        _wire.answer = OutcomeUnknownError("cut off.")
    elif event.startswith("the controller answers "):
        code, _, text = words.removeprefix("answers ").partition(" ")
        _wire.answer = Reply(code=int(code), message=text, results=None)
    else:
        _wire.lost = {"the request is lost": "request", "the reply is lost": "reply"}[event]


@contextmanager
def _connection() -> Iterator[None]:
    """While the block runs, all that goes to and comes from a cluster passes the wire."""
    with pytest.MonkeyPatch.context() as patch:
        update, describe = EmbeddedBackend.update, EmbeddedBackend.describe
        patch.setattr(
            EmbeddedBackend,
            "update",
            lambda self, step, *, validate_only=False, last_check=None: _wire.update(
                partial(update, self, step, last_check=last_check), validate_only=validate_only
            ),
        )
        patch.setattr(EmbeddedBackend, "describe", lambda self, say: _wire.see(describe(self, say)))
        yield
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
