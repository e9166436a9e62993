"""Make data/nights/tables.tar.gz: the tables of the samples' earlier runs. The nightly itself makes
them from the recordings in data/samples, one run for each day.

    .venv/bin/python -m scripts.make_nights

A recording has moments, each dated by the last day of that state. The lines of a day are those of
the first moment that is not earlier, with that day in `observed_at`. After its last moment a
cluster has no data. The script needs Spark and some minutes.
"""

from __future__ import annotations

import contextlib
import io
import re
import tarfile
import tempfile
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache
from itertools import groupby
from pathlib import Path

from featurelib.source import NIGHTS_BEFORE, SAMPLES

COUNT = 30  # including the newest run, which the first command makes itself
RUN_AT = "063000"  # UTC
DAY = re.compile(rb'(?<="observed_at":")\d{4}-\d\d-\d\d')
LEFT_OUT = "tables/.featurelib"  # the lock and the record of a run


@cache
def recordings() -> dict[str, dict[date, list[bytes]]]:
    """Return cluster → day → landing lines that were recorded on that day."""
    found = {}
    for file in sorted(SAMPLES.glob("*/landing.jsonl")):
        lines = groupby(file.read_bytes().splitlines(), _day_of)
        found[file.parent.name] = {day: list(of) for day, of in lines}
    return found


def _day_of(line: bytes) -> date:
    found = DAY.search(line)
    assert found is not None, line
    return date.fromisoformat(found[0].decode())


def nights() -> list[date]:
    """Return the days of the sample runs before the newest day, oldest first."""
    newest = max(day for moments in recordings().values() for day in moments)
    return [newest - timedelta(days=ago) for ago in range(COUNT - 1, 0, -1)]


def landed(night: date) -> Iterator[tuple[str, list[bytes]]]:
    """Yield (cluster, landing lines) for each cluster collected on that day."""
    for name, moments in recordings().items():
        day = min((day for day in moments if day >= night), default=None)
        if day is not None:
            yield name, [DAY.sub(night.isoformat().encode(), line, 1) for line in moments[day]]


def make_tables(folder: Path) -> None:
    """Run the nightly for each earlier day, and write `folder`/tables."""
    from featurelib.spark.session import open_session
    from jobs.nightly import main
    from tests.spark.conftest import SETTINGS

    open_session("featurelib nights", SETTINGS)
    for night in nights():
        for name, lines in landed(night):
            file = folder / "landing" / name / f"{night}.jsonl"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"".join(line + b"\n" for line in lines))
        with contextlib.redirect_stdout(io.StringIO()):
            main(
                landing=str(folder / "landing"),
                tables=str(folder / "tables"),
                fleet=str(SAMPLES / "fleet.toml"),
                config=str(SAMPLES / "audit.toml"),
                as_of="newest",
                run=int(f"{night:%Y%m%d}{RUN_AT}"),
            )


def pack(folder: Path) -> None:
    """Write `folder`/tables to an archive. Equal tables give equal bytes, except for times."""

    def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return None if member.name.startswith(LEFT_OUT) else member

    NIGHTS_BEFORE.parent.mkdir(exist_ok=True)
    with tarfile.open(NIGHTS_BEFORE, "w:gz") as archive:
        archive.add(folder / "tables", "tables", filter=kept)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="nights-") as place:
        make_tables(Path(place))
        pack(Path(place))
