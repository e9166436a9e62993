"""One run at a time, by a lease beside the tables."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from featurelib.errors import BusyError
from featurelib.spark import hold
from featurelib.spark.hold import HoldingRun, Lease
from featurelib.spark.store import Store
from featurelib.tables import INGEST_RUN, LANDING_LINE

RUN = 20261121000000
pytestmark = pytest.mark.spark


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tables lie; a holder is given up after seconds."""
    for name, seconds in {"BEAT": 0.1, "POLL": 0.05, "DEAD": 3.0, "EXPIRED": 2.0}.items():
        monkeypatch.setattr(hold, name, seconds)
    return tmp_path


# A driver, and a child of it that outlives it as a JVM or a Python worker may.
HOLDER = """
import subprocess, sys
from featurelib.spark.hold import HoldingRun, Lease
with Lease(sys.argv[1], {}, HoldingRun.this("ingest", 7), print).held():
    child = subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    sys.stdin.read()
"""


def hold_elsewhere(folder: str) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-c", HOLDER, folder]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    return holder, int(holder.stdout.readline())


def test_a_second_run_is_told_at_once_who_holds_the_tables_until_that_one_dies(
    store: Store, place: Path
) -> None:
    folder = store.root.removeprefix("file:")
    holder, child = hold_elsewhere(folder)
    try:
        expected = rf"held by ingest run 7 \(pid {holder.pid} on .*nothing was written"
        said: list[str] = []
        with pytest.raises(BusyError, match=expected), store.hold(RUN, "audit", said.append):
            pass
        assert said == []  # it did not wait
        assert os.listdir(folder) == [hold.LEASE_NAME]
        holder.kill()
        holder.communicate()
        os.kill(child, 0)  # it lives on
        with store.hold(RUN, "audit", said.append):
            assert said == []
            newest = hold._holder(DeltaTable(f"{folder}/{hold.LEASE_NAME}"))
            assert newest is not None
            assert (newest.process.command, newest.run) == ("audit", RUN)
            assert newest.process.pid == os.getpid()
            with (
                pytest.raises(BusyError, match="held by audit run"),
                store.hold(RUN, "audit", print),
            ):
                pass
    finally:
        os.kill(child, signal.SIGKILL)
    with store.hold(RUN, "audit", print):  # the first hold has ended
        pass


def test_a_run_whose_lease_was_removed_writes_nothing_more(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever makes it anew holds the tables, too."""
    monkeypatch.setattr(hold, "EXPIRED", 0.0)  # as if it slept before each commit
    lease = Path(store.root.removeprefix("file:")) / hold.LEASE_NAME
    other = Store(store.session, store.root)
    with store.hold(RUN, "audit", print):
        shutil.rmtree(lease)
        with pytest.raises(BusyError, match=r"somebody removed .* because another run may hold"):
            store.create(INGEST_RUN)
        with other.hold(RUN + 1, "refine", print):
            other.create(INGEST_RUN)
            with pytest.raises(BusyError, match=rf"refine run {RUN + 1} .* took its place"):
                store.create(LANDING_LINE)
    assert not store.exists(LANDING_LINE)


def lease(place: Path, job: str = "nightly", **words: object) -> Lease:
    """Of a run on a machine of its own, unless `words` say otherwise."""
    elsewhere = {"host": f"{job}.example", **words}
    me = HoldingRun.this(job, RUN)
    me = replace(me, process=replace(me.process, **elsewhere))  # type: ignore[arg-type]
    return Lease(str(place), {}, me, lambda _: None)


def left_by(place: Path, **words: object) -> Lease:
    """A run that took the tables and has died, or sleeps: it neither beats nor ends its hold."""
    asleep = lease(place, "audit", **words)
    asleep._take()
    return asleep


def test_a_lease_is_held_by_one_and_free_when_it_has_ended(place: Path) -> None:
    for _ in range(2):
        with lease(place).held():
            for _ in range(2):
                said = rf"held by nightly run {RUN} \(pid {os.getpid()} on nightly\.example, since "
                with pytest.raises(BusyError, match=said), lease(place, "audit").held():
                    pass
    newest, *_ = DeltaTable(place / hold.LEASE_NAME).history(1)
    assert newest[hold.HOLDER] == ""


def test_a_holder_that_is_not_heard_of_is_replaced_and_stops_when_it_wakes(place: Path) -> None:
    asleep = left_by(place)
    asleep.expect()
    said: list[str] = []
    successor = lease(place)
    successor._say = said.append
    with successor.held():
        assert [f"held by audit run {RUN}" in line for line in said] == [True]
        time.sleep(2.1)  # longer ago than EXPIRED
        with pytest.raises(BusyError, match=rf"and nightly run {RUN} .* took its place; nothing"):
            asleep.expect()
        successor._beaten = 0.0
        successor.expect()


def test_a_holder_that_ends_or_speaks_while_another_waits(place: Path) -> None:
    asleep = left_by(place)

    def wake(content: bytes) -> Thread:
        def commit() -> None:
            time.sleep(0.3)
            asleep._put(asleep._open(), content)

        thread = Thread(target=commit)
        thread.start()
        return thread

    thread = wake(msgspec.json.encode(asleep._me))
    with pytest.raises(BusyError, match="held by audit"), lease(place).held():
        pass
    thread.join()
    thread = wake(b"")
    with lease(place).held():
        thread.join()


@pytest.mark.parametrize("taken", [False, True])
def test_a_holder_whose_lease_was_removed_stops_writing_and_frees_nobody_else_s(
    place: Path, taken: bool
) -> None:
    """The folder is gone in the middle of a run; perhaps another took the tables since."""
    mine = lease(place)
    with mine.held():
        with mine._beating:
            shutil.rmtree(place / hold.LEASE_NAME)
            other = left_by(place) if taken else None
        mine._beaten = 0.0
        said = "took its place" if taken else r"somebody removed its lease, \.featurelib\.hold; no"
        with pytest.raises(BusyError, match=said):
            mine.expect()
    if other is not None:
        assert hold._holder(other._open()) == other._me


def test_a_dead_process_of_this_machine_is_replaced_at_once_and_a_living_one_never(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold, "DEAD", 1e9)
    here = HoldingRun.this("audit", RUN)
    left_by(place, host=here.process.host, pid=999_999_999)
    with lease(place).held():
        pass
    asleep = left_by(place, host=here.process.host)
    assert not asleep._me.is_gone()
    dead = replace(here.process, pid=999_999_999)
    unseen = [
        replace(dead, started=f"another-boot {dead.started.split()[1]}"),
        replace(dead, started=""),
        replace(dead, namespace="of a container"),
    ]
    assert [replace(here, process=one).is_gone() for one in (dead, *unseen)] == [True, *[False] * 3]


def test_what_is_refused_because_of_itself_is_held(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of a store got lost, and the request that was sent again was refused."""
    put = Lease._put

    def lose(mine: Lease, opened: DeltaTable, content: bytes) -> None:
        put(mine, opened, content)
        raise CommitFailedError("version 1 is there")

    mine = lease(place)
    with monkeypatch.context() as patch:
        patch.setattr(Lease, "_put", lose)
        mine._take()
        mine._beat()
    mine.expect()
    assert hold._holder(mine._open()) == mine._me


def test_two_that_ask_at_once_do_not_both_hold(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one comes while ours has looked and not yet written."""
    put = Lease._put

    def be_overtaken(mine: Lease, opened: DeltaTable, content: bytes) -> None:
        monkeypatch.setattr(Lease, "_put", put)
        left_by(place)
        put(mine, opened, content)

    monkeypatch.setattr(Lease, "_put", be_overtaken)
    with pytest.raises(BusyError, match="held by audit"), lease(place).held():
        pass


def test_commits_of_others_to_the_lease_free_nothing_and_an_unknown_holder_counts(
    place: Path,
) -> None:
    asleep = left_by(place)
    write_deltalake(asleep._open(), pa.table({"nothing": [1]}), mode="append")
    assert hold._holder(asleep._open()) == asleep._me
    asleep._put(asleep._open(), b"{")
    assert "has not yet said its name" in str(hold._holder(asleep._open()))


def test_a_store_that_refuses_is_heard(place: Path) -> None:
    (place / hold.LEASE_NAME).write_text("a file")
    with pytest.raises(Exception, match="featurelib"), lease(place).held():
        pass


def test_of_many_runs_that_ask_and_end_never_two_hold_at_once(place: Path) -> None:
    inside, most, entered = [0], [0], [0]

    def ask(number: int) -> None:
        for _ in range(5):
            try:
                with lease(place, f"job{number}").held():
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    entered[0] += 1
                    time.sleep(0.01)
                    inside[0] -= 1
            except BusyError:
                pass

    threads = [Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert entered[0] > 1
