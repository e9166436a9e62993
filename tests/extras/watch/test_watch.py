"""A roll that is watched: what each look shows, when it ends, and where it is shown."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from featurelib import RequestedLevels, connect, plan
from featurelib.backends.base import Say
from featurelib.catalogue import load
from featurelib.cli.streams import INTERRUPTED, ONLY_READ, READER_GONE
from featurelib.core.cluster import Cluster, Node
from featurelib.errors import ConfigError, UnreachableError
from featurelib.extras.sandbox.backend import EmbeddedBackend
from featurelib.extras.watch import ClusterReading, watch
from featurelib.extras.watch.watching import NodeState, Watched
from featurelib.feature import METADATA_VERSION as METADATA
from featurelib.feature import Role
from tests.backends.clusters import TABLES, ZK, broker, zk_broker
from tests.backends.simulator import Simulated
from tests.cli.commands import run
from tests.controller.clusters import OLD as OLD_39
from tests.test_collect import AT_39

OLD, NEW = ({**load().of(release).ranges()} for release in ("4.0", "4.2"))
LEVELS = {"metadata.version": 29, "transaction.version": 2}
UNTIL = [f"{name}={level}" for name, level in LEVELS.items()]
PATIENCE = 90  # seconds, of a machine that is busy


def node(node_id: int, role: Role, release: str) -> Node:
    supported, voter = (OLD if release == "4.0" else NEW), role is Role.CONTROLLER
    return Node(node_id=node_id, role=role, supported=supported, release=release, voter=voter)


AT_40 = Cluster(
    release="4.0",
    nodes=(*(node(i, Role.CONTROLLER, "4.0") for i in (1, 2)), node(3, Role.BROKER, "4.0")),
    active=1,
    finalized={"metadata.version": (25, 25)},
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Simulated]:
    path = str(tmp_path / "c.db")
    with Simulated(path, TABLES, cluster_id="c-1") as made:
        made.put(AT_40, 9)
        yield made


def looks(cluster: Simulated, **options: object) -> Iterator[ClusterReading]:
    return watch(connect(file=cluster.path), every=0.1, timeout=PATIENCE, **options)  # type: ignore[arg-type]


def following(looks: Iterator[ClusterReading], is_so: Callable[[Watched], bool]) -> Watched:
    """The first look from here on that shows it."""
    return next(look.value for look in looks if is_so(look.value))


def states(seen: Watched) -> dict[tuple[str, int], tuple[str, str]]:
    return {(n.role, n.node_id): (n.state, n.release) for n in seen.nodes}


def test_a_roll_is_followed_to_its_end_and_ready_is_said_where_a_plan_is_made(
    cluster: Simulated,
) -> None:
    seen = looks(cluster, until=UNTIL)
    first = next(seen).value
    assert (first.ready, first.until) == (False, LEVELS)
    assert [n.lacks for n in first.nodes] == [{"metadata.version": 29}] * 3
    for node_id, role in ((3, Role.BROKER), (2, Role.CONTROLLER)):
        half = role.text, node_id
        cluster.stop(node_id)
        down = following(seen, lambda one: states(one)[half][0] == NodeState.SILENT)  # noqa: B023
        assert states(down)[half] == (NodeState.SILENT, "4.0")  # as it was seen last
        assert not down.ready
        cluster.register(node(node_id, role, "4.2"))
        back = following(seen, lambda one: states(one)[half][0] == NodeState.RUNNING)  # noqa: B023
        assert states(back)[half] == (NodeState.RUNNING, "4.2")
        [now] = [one for one in back.nodes if (one.role, one.node_id) == half]
        assert now.since > back.started
        assert (now.lacks, back.ready) == ({}, False)
        levels = {name: str(level) for name, level in LEVELS.items()}
        assert not plan(connect(file=cluster.path), "upgrade", RequestedLevels(up=levels)).is_made
    [last] = [one for one in back.nodes if one.node_id == 1]
    assert (last.lacks, {m.code for m in back.missing}) == (
        {"metadata.version": 29},
        {"unknown_level"},  # the controller that leads is the old one
    )
    nodes = (node(one.node_id, one.role, "4.2") for one in AT_40.nodes)
    cluster.put(replace(AT_40, release="4.2", nodes=tuple(nodes)), 99)
    *_, end = seen
    assert (end.value.ready, end.value.missing) == (True, ())
    assert plan(connect(file=cluster.path), "upgrade", RequestedLevels(up=levels)).is_made
    assert end.text.splitlines()[-1] == (
        "next: featurelib plan upgrade --feature metadata.version=29 --feature "
        f"transaction.version=2 --file {cluster.path}"
    )


def test_a_level_that_no_release_and_no_node_knows_is_not_waited_for(cluster: Simulated) -> None:
    newest = load().newest_known(METADATA)
    for name, level, most in ((METADATA, 99, newest), ("kraft.version", 2, 1)):
        with pytest.raises(ConfigError, match=rf"no level {level}: .*\b{most}\."):
            next(looks(cluster, until=f"{name}={level}"))
    newest_seen = next(looks(cluster, until=f"{METADATA}={newest}")).value
    assert newest_seen.until == {METADATA: newest}


def test_a_broker_of_zookeeper_mode_that_restarts_is_waited_for(tmp_path: Path) -> None:
    """Without it the others would pass what it may not support when it is back."""
    new, old = zk_broker(1, "3.9.2", f=(1, 5)), zk_broker(2, "3.9.2", f=(1, 3))
    path = str(tmp_path / "z.db")
    with Simulated(path, TABLES, mode="zk", cluster_id="c-2") as made:
        made.put(replace(ZK, nodes=(new, old), finalized={"f": (1, 1)}), 9)
        seen = looks(made, until="f=5")
        assert next(seen).value.nodes[1].lacks == {"f": 5}
        made.put(replace(ZK, nodes=(new,), finalized={"f": (1, 1)}), 10)
        away = following(seen, lambda one: len(one.missing) > 0)
        assert [(f.feature, f.possible) for f in away.features] == [("f", 5)]
        assert (away.ready, away.missing[0].code) == (False, "no_longer_listed")
        assert away.missing[0].node == "broker 2"
        assert states(away)["broker", 2][0] == NodeState.GONE
        back = replace(old, supported={"f": (1, 5)})
        made.put(replace(ZK, nodes=(new, back), finalized={"f": (1, 1)}), 11)
        *_, end = seen
        assert (end.value.ready, states(end.value)["broker", 2][0]) == (True, NodeState.RUNNING)


def test_a_broker_that_restarts_is_waited_for_where_no_list_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner vouches that no fenced broker is hidden, and during a roll one is."""
    described = EmbeddedBackend.describe

    def unlisted(self: EmbeddedBackend, say: Say) -> tuple[bytes, ...]:
        """Who is not listed is not asked, on a real cluster."""
        return tuple(line for line in described(self, say) if b"does not run" not in line)

    monkeypatch.setattr(EmbeddedBackend, "describe", unlisted)
    path, old = tmp_path / "c.db", {"metadata.version": (1, 20)}
    late = broker(4, supported=old, release="3.8.1")
    with Simulated(str(path), TABLES, cluster_id="c-1") as made:
        made.put(replace(AT_39, nodes=(*AT_39.nodes, late)), 9)
        fleet = tmp_path / "fleet.toml"
        fleet.write_text(
            f'[[cluster]]\nid = "c-1"\nfile = "{path}"\nregistrations_complete = true\n'
        )
        options = {"every": 0.1, "until": "3.9", "timeout": PATIENCE}
        seen = watch(connect("c-1", fleet=str(fleet)), **options)  # type: ignore[arg-type]
        assert states(next(seen).value)["broker", 4] == (NodeState.RUNNING, "3.8")
        made.stop(4)
        away = following(seen, lambda one: states(one)["broker", 4][0] == NodeState.GONE)
        assert [f.possible for f in away.features if f.feature == METADATA] == [21]
        assert (away.ready, away.missing[-1].code) == (False, "no_longer_listed")
        made.register(replace(late, supported=OLD_39, release="3.9.2"))
        *_, end = seen
    assert (end.value.ready, states(end.value)["broker", 4]) == (True, (NodeState.RUNNING, "3.9"))


def test_a_cluster_that_answers_no_more_is_silent_and_comes_back(cluster: Simulated) -> None:
    seen = looks(cluster, until="metadata.version=25")
    [only] = seen
    assert only.value.ready  # it is finalized
    seen = looks(cluster)
    assert next(seen).value.ready is None  # nothing is waited for
    before = cluster.cluster
    for one in before.nodes:
        cluster.stop(one.node_id)
    gone = following(seen, lambda one: one.error is not None)
    assert {state for state, _ in states(gone).values()} == {NodeState.SILENT}
    assert gone.cluster_id == "c-1"
    cluster.put(before, 99)
    back = following(seen, lambda one: one.error is None)
    assert {state for state, _ in states(back).values()} == {NodeState.RUNNING}
    seen.close()
    for one in before.nodes:
        cluster.stop(one.node_id)
    with pytest.raises(UnreachableError, match="None of the 3 nodes is running"):
        next(looks(cluster))


def fleet(folder: Path, *names: str) -> str:
    path = folder / "fleet.toml"
    entries = [
        f'[[cluster]]\nid = "{n}"\nname = {json.dumps(n * 2)}\nfile = "{n}.db"' for n in names
    ]
    path.write_text("\n".join(entries))
    return str(path)


def test_several_clusters_have_a_line_each_and_one_that_never_answers_is_exit_code_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        with Simulated(f"{name}.db", TABLES, cluster_id=name) as made:
            made.put(AT_40, 9)
            for one in AT_40.nodes if name == "b" else ():
                made.stop(one.node_id)
    words = ("watch", "--fleet", fleet(tmp_path, "a", "b"), "--timeout", "1s", "--every", "0.2")
    code, out, err = run(*words, "--until", "metadata.version=25", "--json")
    said = [json.loads(line) for line in out.splitlines()]
    assert (code, {(one["name"], one["ready"]) for one in said}) == (
        5,
        {("aa", True), ("bb", False)},
    )
    assert len(said) == 2  # nothing was new in the other looks
    assert err == "the time is up, before it was READY\n"
    code, out, _ = run(*words, "aa", "--until", "4.2")
    assert (code, len(re.findall(r"^\S+ \S+ UTC  aa: not READY yet", out, re.M))) == (1, 1)
    assert "\x1b" not in out
    many = fleet(tmp_path, *(f"c{i}" for i in range(51)))
    code, _, err = run("watch", "--fleet", many)
    assert (code, "watch shows 1 to 50 clusters, and 51 are chosen" in err) == (2, True)


def test_it_ends_when_nobody_reads_it_any_more_and_at_an_interrupt(cluster: Simulated) -> None:
    command = [sys.executable, "-m", "featurelib", "watch", "--file", cluster.path]
    known = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    for code in (READER_GONE, INTERRUPTED):
        with subprocess.Popen(
            [*command, "--every", "0.1", "--timeout", "10m"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=known,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        ) as process:
            assert process.stdout is not None
            assert b"c-1: run 4.0" in process.stdout.readline()
            if code == INTERRUPTED:
                process.send_signal(signal.SIGINT)
                assert process.communicate(timeout=PATIENCE)[1].decode() == f"{ONLY_READ}\n"
            process.stdout.close()  # and no look after it shows anything new
            assert process.wait(PATIENCE) == code


def test_one_screen_is_drawn_in_its_place_and_a_hostile_name_steers_nothing(
    cluster: Simulated, tmp_path: Path
) -> None:
    hostile = json.dumps("\x1b[2J\u202e<b>" + "x" * 200)
    (tmp_path / "fleet.toml").write_text(
        f'[[cluster]]\nid = "c-1"\nname = {hostile}\nfile = "{cluster.path}"\n'
    )
    words = ("watch", "c-1", "--fleet", "fleet.toml", "--until", "4.2", "--every", "0.2")
    with on_a_terminal(tmp_path, *words) as (shown, process):
        assert b"not READY yet" in until_shown(shown, b"controllers 1-2|controller 2")
        nodes = (node(one.node_id, one.role, "4.2") for one in AT_40.nodes)
        cluster.put(replace(AT_40, release="4.2", nodes=tuple(nodes)), 99)
        rest = until_shown(shown, b"next:")
        assert process.wait(PATIENCE) == 0
    assert re.findall(rb"\x1b\[\d+F\x1b\[J", rest)
    codes = {code[:2] + code[-1:] for code in re.findall(rb"\x1b.[\d;]*[A-Za-z]", rest)}
    assert codes == {b"\x1b[F", b"\x1b[J", b"\x1b[m"}
    assert b"\x1b[36mREADY\x1b[0m" in rest
    assert b"\x1b[32mrunning" in rest
    assert b"\\u202e<b>" in rest
    assert "\u202e" not in rest.decode()


def test_a_page_has_room_on_the_terminal(cluster: Simulated, tmp_path: Path) -> None:
    words = ("watch", "--file", cluster.path, "--until", "4.3", "--every", "0.2")
    with on_a_terminal(tmp_path, *words, size=(9, 44)) as (shown, _):
        text = until_shown(shown, rb"window higher\r\n\x1b.*window higher\r\n").decode()
    pages = re.sub(r"\r|\x1b\[[\d;]*m", "", text).split("\x1b[8F\x1b[J")
    assert {len(page.splitlines()) for page in pages} == {8}
    assert max(len(line) for page in pages for line in page.splitlines()) <= 44


def test_a_screen_of_several_clusters_has_colours_unless_somebody_wants_none(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        with Simulated(str(tmp_path / f"{name}.db"), TABLES, cluster_id=name) as made:
            made.put(AT_40, 9)
    words = ("watch", "--fleet", fleet(tmp_path, "a", "b"), "--until", "metadata.version=25")
    with on_a_terminal(tmp_path, *words) as (shown, process):
        painted = until_shown(shown, rb"aa:.*bb:")
        assert process.wait(PATIENCE) == 0
    assert re.search(rb"\x1b\[36maa:\x1b\[0m \x1b\[36mREADY", painted)
    with on_a_terminal(tmp_path, *words, NO_COLOR="1") as (shown, process):
        plain = until_shown(shown, rb"aa: READY.*bb: READY")
        assert process.wait(PATIENCE) == 0
    assert not re.search(rb"\x1b\[[\d;]*m", plain)


@contextmanager
def on_a_terminal(
    folder: Path, *words: str, size: tuple[int, int] = (50, 60), **environment: str
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A command on a terminal of so many lines and columns; what it shows can be read from the
    number."""
    shown, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    command = [sys.executable, "-m", "featurelib", *words]
    known = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(Path(__file__).parents[2])}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        known.pop(name, None)
    known |= environment
    with subprocess.Popen(
        command, cwd=folder, env=known, stdin=terminal, stdout=terminal, stderr=terminal
    ) as process:
        os.close(terminal)
        try:
            yield shown, process
        finally:
            process.kill()
            os.close(shown)


def until_shown(shown: int, pattern: bytes) -> bytes:
    end, found = time.monotonic() + PATIENCE, b""
    while not re.search(pattern, found, re.DOTALL):
        ready, _, _ = select.select([shown], [], [], max(0.0, end - time.monotonic()))
        assert ready, found
        found += os.read(shown, 65536)
    return found
