"""`featurelib collect --from`: what people already have, as a landing file.

The file's own time is when it was read, unless it is told: a dump of last week must not land as
today's evidence.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from featurelib.cli.entrance import say
from featurelib.cli.reach import open_fleet
from featurelib.errors import ConfigError
from featurelib.landing import KINDS
from featurelib.landing.envelope import write_time
from featurelib.landing.tool_outputs import Source, convert
from featurelib.landing_files import STDIN, name_of, read_lines, write_lines
from featurelib.words import count

VERSION = 1  # of the JSON output

From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="FILE", help="Turn a tool's output into a landing file; - = stdin."
    ),
]
Kind = Annotated[str | None, typer.Option("--kind", help=f"Of --from: {', '.join(KINDS)}.")]
ClusterOf = Annotated[
    str | None,
    typer.Option("--cluster", metavar="CLUSTER", help="Of --from: the cluster's id, or its name."),
]
ObservedAt = Annotated[
    str | None,
    typer.Option(
        "--observed-at",
        metavar="TIME",
        help="Of --from: when it was read from the cluster. Default: the file's time; stdin: now.",
    ),
]
Paths = Annotated[
    list[str] | None,
    typer.Option(
        "--path",
        metavar="PATH",
        help="Of --kind znode: which znode, where the output does not say; once for each.",
    ),
]
Chroot = Annotated[
    str, typer.Option("--chroot", metavar="PATH", help="Of --kind znode: the cluster's chroot.")
]


def choose_source(
    name: str,
    cluster: str,
    observed_at: str | None,
    paths: tuple[str, ...],
    chroot: str,
    fleet: str | None,
) -> Source:
    """What the options say of the file: whose it is, and when it was read. Raises ConfigError."""
    _, inventory = open_fleet(fleet, None)
    named = [entry.id for entry in inventory.cluster if cluster in (entry.id, entry.name)]
    cluster_id = inventory.find(cluster, "--cluster").id if named else cluster
    at = _own_time(name) if observed_at is None else _time(observed_at)
    if observed_at is None and name != STDIN:
        say(f"{name}: read from the cluster at {write_time(at)}, the file's time (--observed-at)")
    return Source(where=name, cluster_id=cluster_id, observed_at=at, paths=paths, chroot=chroot)


def convert_file(kind: str, source: Source, out: Path, as_json: bool) -> int:
    """Write one landing file from one tool's output. Raises LandingError, ConfigError."""
    path = out / name_of(source.cluster_id, datetime.now(UTC), kind)
    written = write_lines(path, convert(kind, read_lines(source.where), source))
    say(
        f"{source.where}: {count(source.lines, 'line')}, of which {source.left_out:,} left out; "
        f"{count(written, 'landing line')} of cluster {source.cluster_id}"
    )
    if as_json:
        document = {
            "version": VERSION,
            "file": str(path),
            "cluster": source.cluster_id,
            "observed_at": write_time(source.observed_at),
            "read": source.lines,
            "left_out": source.left_out,
            "lines": written,
        }
        print(json.dumps(document, ensure_ascii=False))
    else:
        print(path)
    return 0


def _own_time(name: str) -> int:
    try:
        seconds = datetime.now(UTC).timestamp() if name == STDIN else os.stat(name).st_mtime
    except OSError as error:
        raise ConfigError(
            f"--from {name}: expected a file that can be read, found: {error.strerror}."
        ) from error
    return int(seconds * 1_000_000)


def _time(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"--observed-at {text}: expected a time as 2026-11-21T06:00:00Z."
        ) from error
    if moment.tzinfo is None:
        raise ConfigError(f"--observed-at {text}: expected a time with Z or an offset, found none.")
    return int(moment.timestamp() * 1_000_000)
