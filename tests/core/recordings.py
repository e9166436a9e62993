"""The recorded exchanges of real controllers, read once for all tests."""

from __future__ import annotations

import gzip
import json
import lzma
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from featurelib.extras.conformance.exchanges import Exchange, read

FOLDER = Path(__file__).parents[1] / "data" / "transcripts"


def names() -> list[str]:
    """The files, by release."""
    return sorted(path.name for path in FOLDER.glob("*.jsonl.xz"))


@cache
def lines(name: str) -> tuple[bytes, ...]:
    """The lines of one file."""
    return tuple(lzma.decompress((FOLDER / name).read_bytes()).splitlines())


@cache
def exchanges(name: str) -> tuple[Exchange, ...]:
    """The exchanges of one file."""
    return tuple(read(lines(name), name))


@cache
def random() -> tuple[Exchange, ...]:
    """Exchanges of requests made up at random, a sample of those that were sent."""
    packed = (FOLDER / "random" / "random.jsonl.xz").read_bytes()
    return tuple(read(lzma.decompress(packed).splitlines(), "random"))


@cache
def offenders() -> tuple[Exchange, ...]:
    """Exchanges in which several nodes offend, of random ids in random order of registration."""
    packed = (FOLDER / "offenders" / "offenders.jsonl.xz").read_bytes()
    return tuple(read(lzma.decompress(packed).splitlines(), "offenders"))


@cache
def every() -> tuple[Exchange, ...]:
    """All exchanges of all files."""
    return tuple(exchange for name in names() for exchange in exchanges(name))


@cache
def pack() -> tuple[tuple[dict[str, Any], Exchange], ...]:
    """The shipped exchanges: the line as JSON, and read."""
    packed = (
        resources.files("featurelib.extras.conformance")
        .joinpath("conformance_pack.jsonl.gz")
        .read_bytes()
    )
    shipped = gzip.decompress(packed).splitlines()
    parsed = [json.loads(line) for line in shipped]
    return tuple(zip(parsed, read(shipped, "pack"), strict=True))
