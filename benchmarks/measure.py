"""Clocks, memory and tables of the benchmarks. Ratios of one run are what counts, not seconds.

The sides of a comparison take turns, so that a slow minute of the machine hits all of them. How
much of the processors others used meanwhile is measured and printed: above MOST_BY_OTHERS no bar is
called passed or missed.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")  # a second
# Processors that others kept busy. Two threads on two cores lose at most an eighth of their time to
# a quarter of a core, and both sides of a ratio lose it: less than what two runs differ by.
MOST_BY_OTHERS = 0.25
SAMPLE_SECONDS = 0.05
SPAWN = multiprocessing.get_context("spawn")  # a fork would inherit Spark's sockets


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One line of a summary: `of` against `to`, in seconds, and the bar the ratio has to pass.

    `bar` None = there is none at this size. `at_least`: the bar is a lower one.
    """

    what: str
    of: float
    to: float
    bar: float | None = None
    at_least: bool = False
    others: float = 0.0  # processors that others kept busy while it was measured

    @property
    def value(self) -> float:
        return self.of / self.to

    @property
    def verdict(self) -> str:
        if self.bar is None:
            return ""
        if self.others > MOST_BY_OTHERS:
            return "not quiet"
        passed = self.value >= self.bar if self.at_least else self.value <= self.bar
        return "passed" if passed else "missed"


def take_turns(sides: dict[str, Callable[[], float]], repeat: int) -> dict[str, float]:
    """The median of `repeat` seconds of each side; one more round before warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(repeat + 1):
        for name, side in sides.items():
            taken = side()
            if turn:
                seconds[name].append(taken)
    return {name: median(taken) for name, taken in seconds.items()}


@dataclass(slots=True)
class Machine:
    """What else the machine did: its load before (processes that run or wait, over a minute), and
    the processors that others kept busy during the block, of how many there are."""

    before: float
    others: float = 0.0

    def beside(self, ratios: Sequence[Ratio]) -> list[Ratio]:
        """Note with each ratio how quiet it was, and print it."""
        print(f"\n{self}", flush=True)
        return [replace(ratio, others=self.others) for ratio in ratios]

    def __str__(self) -> str:
        return (
            f"load before {self.before:.2f}; others kept {self.others:.2f} of {os.cpu_count()} "
            f"processors busy meanwhile (a bar counts up to {MOST_BY_OTHERS})"
        )


@contextmanager
def watched() -> Iterator[Machine]:
    """Measure, while the block runs, what others use of the machine; ours is this process and all
    below it."""
    machine = Machine(os.getloadavg()[0])
    begin, busy, mine = time.perf_counter(), _busy(), processors()
    yield machine
    spent = _busy() - busy - (processors() - mine)
    machine.others = max(0.0, spent / (time.perf_counter() - begin))


def _busy() -> float:
    """Seconds that all processors were not idle since the machine started."""
    user, nice, system, _, _, *interrupts = (
        Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    )
    return sum(map(int, (user, nice, system, *interrupts[:3]))) / TICKS


def processors() -> float:
    """Return the processor seconds of this process and of all below it."""
    times = os.times()
    return times.user + times.system + processor(os.getpid())


def clock(action: Callable[[], object]) -> float:
    """Seconds that `action` takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def apart(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """What `function` returns in a process of its own, whose memory goes with it."""
    with ProcessPoolExecutor(max_workers=1, mp_context=SPAWN) as pool:
        return pool.submit(function, *args, **kwargs).result()


class Memory:
    """The peak of memory used by this process and all below it, sampled; without `leave_out`."""

    def __init__(self, leave_out: Sequence[int] = ()) -> None:
        self.peak = 0
        self._leave_out = frozenset(leave_out)
        self._end = threading.Event()

    @contextmanager
    def sampled(self) -> Iterator[None]:
        """Look again and again while the block runs."""
        self._end.clear()
        sampler = threading.Thread(target=self._sample, daemon=True)
        sampler.start()
        try:
            yield
        finally:
            self._end.set()
            sampler.join()

    def _sample(self) -> None:
        while not self._end.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, resident(os.getpid(), self._leave_out))


def resident(root: int, leave_out: frozenset[int] = frozenset()) -> int:
    """Resident bytes of `root` and the processes below it; pages they share count for each."""
    return sum(map(_resident, _tree(root, leave_out)))


def resident_of(root: int) -> dict[str, int]:
    """Resident bytes of `root`, of the Java below it, and of the biggest Python below that."""
    held = {"driver": _resident(root), "jvm": 0, "worker": 0}
    for java in _tree(root):
        if java != root and _name(java) == "java":
            held["jvm"] = max(held["jvm"], _resident(java))
            workers = (_resident(one) for one in _tree(java) if one != java)
            held["worker"] = max(held["worker"], *workers, 0)
    return held


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def processor(root: int) -> float:
    """Seconds that processors spent on the processes below `root`, ended ones included; its own are
    left out, because looking at memory is among them."""
    first = {root: 13}  # of its own and its ended children's, the latter stand there
    ticks = (sum(map(int, _stat(one)[first.get(one, 11) : 15])) for one in _tree(root))
    return sum(ticks) / TICKS


def _tree(root: int, leave_out: frozenset[int] = frozenset()) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            process = int(entry.name)
            parent = int(next(iter(_stat(process)[1:2]), 0))
            children.setdefault(parent, []).append(process)
    waiting = [root]
    while waiting:
        process = waiting.pop()
        if process not in leave_out:
            yield process
            waiting += children.get(process, [])


def _stat(process: int) -> list[str]:
    """What stands behind the name, which stands in brackets and may hold anything; empty for a
    process that is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


@contextmanager
def scratch(folder: Path | None) -> Iterator[Path]:
    """An empty folder that goes when the block ends, below `folder` or where temporary files go."""
    with TemporaryDirectory(prefix="featurelib-bench-", dir=folder) as path:
        yield Path(path)


def show_ratios(title: str, ratios: Sequence[Ratio]) -> None:
    """Print a table of ratios with their bars."""
    rows = [
        (
            ratio.what,
            f"{ratio.of:.2f}",
            f"{ratio.to:.2f}",
            f"{ratio.value:.2f}",
            "" if ratio.bar is None else f"{'≥' if ratio.at_least else '≤'} {ratio.bar}",
            ratio.verdict,
        )
        for ratio in ratios
    ]
    show_table(title, ("", "seconds", "against", "ratio", "bar", ""), rows)


def show_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    print(f"\n{title}")
    for row in (head, *rows):
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        print("  " + "  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip(), flush=True)
