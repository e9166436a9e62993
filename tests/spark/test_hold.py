"""One run at a time: on a local disk, and by a lease wherever else tables lie."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from featurelib.errors import BusyError
from featurelib.spark import hold
from featurelib.spark.hold import HoldingRun, Lease
from featurelib.spark.store import Store
from featurelib.tables import INGEST_RUN, LANDING_LINE

RUN = 20261121000000
pytestmark = pytest.mark.spark


# A driver, and a child of it that outlives it as a JVM or a Python worker may.
HOLDER = """
import subprocess, sys
from pathlib import Path
from featurelib.spark.hold import hold_folder
with hold_folder(Path(sys.argv[1]), 7, "ingest"):
    child = subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    sys.stdin.read()
"""


def hold_elsewhere(folder: str) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-c", HOLDER, folder]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    return holder, int(holder.stdout.readline())


def test_a_second_run_is_told_who_holds_the_tables_until_that_one_dies(store: Store) -> None:
    folder = store.root.removeprefix("file:")
    holder, child = hold_elsewhere(folder)
    try:
        expected = rf"held by ingest run 7 \(pid {holder.pid} on .*nothing was written"
        with pytest.raises(BusyError, match=expected), store.hold(RUN, "audit", print):
            pass
        assert os.listdir(folder) == [".featurelib.lock"]
        holder.kill()
        holder.communicate()
        os.kill(child, 0)  # it lives on
        with store.hold(RUN, "audit", print):
            content = json.loads((Path(folder) / ".featurelib.lock").read_text())
            assert (content["job"], content["run"], content["pid"]) == ("audit", RUN, os.getpid())
            with (
                pytest.raises(BusyError, match="held by audit run"),
                store.hold(RUN, "audit", print),
            ):
                pass
    finally:
        os.kill(child, signal.SIGKILL)
    with store.hold(RUN, "audit", print):  # the first hold has ended
        pass


def test_a_run_whose_lock_was_removed_writes_nothing_more(store: Store) -> None:
    """Else whoever makes the file anew holds the tables, too."""
    lock = Path(store.root.removeprefix("file:")) / ".featurelib.lock"
    other = Store(store.session, store.root)
    with store.hold(RUN, "audit", print):
        lock.unlink()
        with pytest.raises(BusyError, match=r"somebody removed .* because another run may hold"):
            store.create(INGEST_RUN)
        with other.hold(RUN + 1, "refine", print):
            other.create(INGEST_RUN)
            with pytest.raises(BusyError, match=rf"because refine run {RUN + 1} \(pid .* may hold"):
                store.create(LANDING_LINE)
    assert not store.exists(LANDING_LINE)


# Not on a disk of this machine: a lease.


class Memory:
    """A folder of a store that has a clock of its own, which only the test moves."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[int, bytes]] = {}
        self.milliseconds = 5_000_000

    def list(self) -> Mapping[str, int]:
        return {name: written for name, (written, _) in self.files.items()}

    def create(self, name: str, content: bytes) -> None:
        if self.files.setdefault(name, entry := (self.milliseconds, content)) is not entry:
            raise FileExistsError(name)

    def write(self, name: str, content: bytes) -> None:
        self.files[name] = (self.milliseconds, content)

    def read(self, name: str) -> bytes | None:
        return self.files.get(name, (0, None))[1]

    def remove(self, name: str) -> None:
        self.files.pop(name, None)


def lease(place: Memory, job: str = "nightly", **words: object) -> Lease:
    """Of a run on a machine of its own, unless `words` say otherwise."""
    elsewhere = {"host": f"{job}.example", "seen_from": None, **words}
    return Lease(place, "s3a://b/t", replace(HoldingRun.this(job, RUN), **elsewhere))  # type: ignore[arg-type]


@contextmanager
def left_by(place: Memory, **words: object) -> Iterator[Lease]:
    """A run that has died, or sleeps, when the block begins: it neither beats nor ends its hold."""
    beat, hold.BEAT = hold.BEAT, 1e9
    try:
        with ExitStack() as stack:
            asleep = lease(place, "audit", **words)
            stack.enter_context(asleep.held())
            yield asleep
            beaten = dict(place.files)
        place.files = beaten
    finally:
        hold.BEAT = beat


def test_a_lease_is_held_by_one_and_free_when_it_has_ended() -> None:
    place = Memory()
    for number in range(1, 4):
        with lease(place).held():
            place.milliseconds += 5_000
            with (
                pytest.raises(
                    BusyError,
                    match=r"tables s3a://b/t: held by nightly run 20261121000000 \(pid \d+ on "
                    r"nightly\.example, since 20\d\d-.*Z\); its last sign of life is 5 s old; "
                    r"nothing was written\. Run again when it has ended; if it is dead, in 116 s",
                ),
                lease(place, "audit").held(),
            ):
                pass
            assert set(place.files) == {f"{number:08}"}
        assert set(place.files) == {f"{number:08}", f"{number:08}.free"}


def test_a_holder_that_was_not_heard_of_for_long_is_replaced_and_stops_writing() -> None:
    place = Memory()
    with left_by(place) as asleep:
        place.milliseconds += 120_000
        with pytest.raises(BusyError, match="in 1 s"), lease(place).held():
            pass
        place.milliseconds += 1
        with lease(place).held() as _:
            asleep._beaten -= 100
            with pytest.raises(BusyError, match="another run holds them now; nothing more was"):
                asleep.expect()
        with pytest.raises(BusyError):
            asleep.expect()


def test_a_holder_that_wakes_before_it_is_replaced_goes_on() -> None:
    place = Memory()
    with left_by(place) as asleep:
        place.milliseconds += 500_000
        asleep._beaten -= 500
        asleep.expect()
        with pytest.raises(BusyError, match="0 s old"), lease(place).held():
            pass


def test_a_holder_that_wakes_while_it_is_replaced_is_not_joined_by_another() -> None:
    """Its beat comes after it was found dead, and before its successor is there."""
    place = Memory()
    with left_by(place) as asleep:
        place.milliseconds += 500_000
        create = place.create

        def wake(name: str, content: bytes) -> None:
            asleep._beaten -= 500
            asleep.expect()
            create(name, content)

        place.create = wake  # type: ignore[method-assign]
        with pytest.raises(BusyError, match="goes on"), lease(place).held():
            pass
        place.create = create  # type: ignore[method-assign]
        with pytest.raises(BusyError, match="in 121 s"), lease(place, "refine").held():
            pass
        asleep._beaten -= 500
        with pytest.raises(BusyError, match="another run"):
            asleep.expect()
    place.milliseconds += 121_000
    with lease(place).held():
        pass


@pytest.mark.parametrize("taken", [False, True])
def test_a_holder_whose_lease_was_removed_stops_writing_and_frees_nobody_else_s(
    taken: bool,
) -> None:
    """The folder is gone in the middle of a run; perhaps another took the same number since."""
    place = Memory()
    mine = lease(place)
    with mine.held():
        place.files.clear()
        if taken:
            lease(place, "refine")._take()
        mine._beaten -= 100
        with pytest.raises(BusyError, match=r"somebody removed its lease, \.featurelib\.lease; no"):
            mine.expect()
        with pytest.raises(BusyError, match="held by"), lease(place, "audit").held():
            pass
    with pytest.raises(BusyError, match="held by refine" if taken else "in 121 s"):
        lease(place, "audit")._take()
    place.milliseconds += 121_000
    with lease(place, "audit").held():
        assert "00000002" in place.files


def test_what_is_left_of_a_removed_lease_frees_no_later_one() -> None:
    place = Memory()
    place.write("00000001.free", b"")
    with lease(place).held(), pytest.raises(BusyError, match="held by"):
        lease(place, "audit")._take()


def test_a_dead_process_of_this_machine_is_replaced_at_once_and_a_living_one_never() -> None:
    place = Memory()
    with subprocess.Popen(["sleep", "60"]) as process:
        here = HoldingRun.this("audit", RUN, process.pid)
        ended = {999_999_999: 5}
        with left_by(
            place,
            seen_from=here.seen_from,
            processes={**ended, process.pid: here.processes[process.pid]},
        ):
            with pytest.raises(BusyError, match="held by audit"), lease(place).held():
                pass
            process.kill()
            while not here.is_gone() and hold._start(process.pid) is not None:
                time.sleep(0.01)  # not waited for: a process nobody asked after is gone too
            with lease(place).held():
                pass
    with (
        left_by(place, seen_from="another boot", processes=ended),
        pytest.raises(BusyError),
        lease(place).held(),
    ):
        pass


def test_what_is_refused_because_of_itself_is_held() -> None:
    """The answer of a store got lost, and the request that was sent again was refused."""
    place = Memory()
    create = place.create

    def lose(name: str, content: bytes) -> None:
        create(name, content)
        create(name, content)

    place.create = lose  # type: ignore[method-assign]
    with lease(place).held():
        assert set(place.files) == {"00000001"}


def test_a_store_that_refuses_is_heard() -> None:
    place = Memory()

    def refuse(name: str, content: bytes) -> None:
        raise PermissionError(f"{name}: denied")

    place.create = refuse  # type: ignore[method-assign]
    with pytest.raises(PermissionError), lease(place).held():
        pass


@pytest.mark.parametrize("left", [b"", b"{", b'{"job": 5}'])
def test_a_holder_without_a_name_counts(left: bytes) -> None:
    place = Memory()
    place.write("00000009", left)
    with (
        pytest.raises(BusyError, match="held by another run that has not yet"),
        lease(place).held(),
    ):
        pass
    place.milliseconds += 121_000
    with lease(place).held():
        assert set(place.files) == {"00000010"}


class Slow(Memory):
    """Each call takes its time, so that those of several runs mix."""

    def __getattribute__(self, name: str) -> object:
        found = super().__getattribute__(name)
        if name in ("list", "create", "write", "read", "remove"):
            time.sleep(random.random() / 2000)
        return found


def test_of_many_runs_that_ask_and_end_never_two_hold_at_once() -> None:
    place, inside, most, entered = Slow(), [0], [0], [0]

    def ask(number: int) -> None:
        for _ in range(15):
            try:
                with lease(place, f"job{number}").held():
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    entered[0] += 1
                    time.sleep(0.001)
                    inside[0] -= 1
            except BusyError:
                pass

    threads = [Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert entered[0] > 1
    assert msgspec.json.decode(place.files[max(n for n in place.files if n.isdecimal())][1])
