"""Writes a made-up fleet as landing files: seeded, fast, the same bytes every time.

    python -m benchmarks.fleet --clusters 1000 --nodes 50 --features 20 --seed 7 --out DIR [--gzip]

A night is a folder of files, a cluster's lines stand together in one of them.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import IO

from benchmarks.facts import PROFILES, Facts, Shape, draw
from benchmarks.fleet_lines import write_lines

FILES = 8  # a night: enough to share out between workers


def write_night(facts: Facts, out: Path, files: int = FILES, zipped: bool = False) -> list[Path]:
    """The landing files of one night, below `out`."""
    folder = out / f"night-{facts.night:02d}"
    folder.mkdir(parents=True, exist_ok=True)
    clusters = facts.shape.clusters
    files = min(files, clusters)
    paths = []
    for part in range(files):
        path = folder / f"part-{part:03d}.jsonl{'.gz' if zipped else ''}"
        with _create(path, zipped) as file:
            for lines in write_lines(
                facts, part * clusters // files, (part + 1) * clusters // files
            ):
                file.write(lines)
        paths.append(path)
    return paths


@contextmanager
def _create(path: Path, zipped: bool) -> Iterator[IO[bytes] | gzip.GzipFile]:
    with path.open("wb", buffering=1 << 20) as file:
        if not zipped:
            yield file
            return
        # Without a name and a time in it, so that equal lines are equal files.
        with gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed:
            yield packed


def add_shape(parser: argparse.ArgumentParser) -> None:
    """Every field of Shape as an option."""
    for field in fields(Shape):
        parser.add_argument(
            f"--{field.name}",
            type=type(field.default),
            default=field.default,
            choices=PROFILES if field.name == "profiles" else None,
            help=f"default {field.default}",
        )


def read_shape(given: argparse.Namespace) -> Shape:
    """The Shape that the options of `add_shape` describe."""
    return Shape(**{field.name: getattr(given, field.name) for field in fields(Shape)})


def main(arguments: Sequence[str] | None = None) -> None:
    """Write as many nights as asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    add_shape(parser)
    parser.add_argument("--nights", type=int, default=1)
    parser.add_argument("--files", type=int, default=FILES, help="a night")
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    shape = read_shape(given)
    for night in range(given.nights):
        begin = time.perf_counter()
        paths = write_night(draw(shape, night), given.out, given.files, given.gzip)
        lines, size = shape.clusters * shape.lines, sum(path.stat().st_size for path in paths)
        print(
            f"night {night}: {lines:,} lines, {size / 1e6:,.0f} MB in {len(paths)} files, "
            f"{time.perf_counter() - begin:.1f} s"
        )


if __name__ == "__main__":
    main()
