"""`featurelib conformance`: recorded exchanges of real controllers against the sandbox cluster.

The command reads files and prints; featurelib.extras.conformance.replay replays and compares.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections import Counter
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from featurelib.catalogue import Tables
from featurelib.cli.entrance import say
from featurelib.config.files import open_catalogue
from featurelib.errors import ConfigError, InputError
from featurelib.extras.conformance.exchanges import read
from featurelib.extras.conformance.replay import KINDS, ReplayReport, replay
from featurelib.view.documents import Document, fill
from featurelib.view.documents import as_json as to_json
from featurelib.view.layout import Page
from featurelib.words import count

MOST_DIFFERENCES = 20  # without --all
PACK = "conformance_pack.jsonl.gz"
NOT_READ = 2  # exit code
_OPENERS = {b"\x1f\x8b": gzip.decompress, b"\xfd7": lzma.decompress}


class ConformanceDocument(Document):
    """featurelib conformance"""

    exchanges: int
    files: list[dict[str, Any]]
    differences: list[dict[str, str]]
    unread: list[str]


def conformance(
    files: list[str] | None = None,
    show_all: bool = False,
    overlay: str | None = None,
    as_json: bool = False,
) -> int:
    """Compare featurelib's answers with those of Kafka.

    Without FILE the exchanges that ship with featurelib are replayed: at least one for every rule
    that a recording of Kafka 2.7 to 4.4 reached. With files, yours are replayed:

    \b
        featurelib conformance
        featurelib conformance --json

    Each exchange is sent to a sandbox cluster in the recorded state. The error code, the words,
    the results, the levels afterwards, and whether the epoch moved, are compared. What a recording
    cannot decide is no difference: it is counted as undecided, with the reason.

    To record your vendor's controller, write one JSON object a line: what every node supports and
    what is finalized, the UpdateFeatures request, the answer as it came, what is finalized
    afterwards. docs/conformance.md lists the keys with an example; `release` is the Kafka release
    the controller is built from. Try the request `validate_only` first, or a cluster to throw away.

    Exit codes: 0 done, no difference; 1 differences; 2 usage, or a line of another form. Such a
    line is named, and the others are replayed.
    """
    tables = open_catalogue(overlay, say).tables
    reports: dict[str, ReplayReport] = {}
    unread: list[InputError] = []
    names = files or [PACK]
    for number, name in enumerate(names, start=1):
        say(f"[{number}/{len(names)}] {name}")
        place = Path(name) if files else resources.files(__package__).joinpath(name)
        reports[name] = _replay(name, place, tables, unread)
    if as_json:
        print(to_json(_document(reports, unread)))
    elif any(report.exchanges for report in reports.values()):
        _print(reports, None if show_all else MOST_DIFFERENCES)
    most = len(unread) if show_all else MOST_DIFFERENCES
    for wrong in unread[:most]:
        say(f"error: {wrong}")
    if len(unread) > most:
        say(f"error: and {count(len(unread) - most, 'more line')}: --all shows every one")
    differ = any(report.differences for report in reports.values())
    return NOT_READ if unread else int(differ)


def _replay(
    name: str, place: Traversable, tables: Tables, unread: list[InputError]
) -> ReplayReport:
    """A file that may be packed. Raises ConfigError (no such file), InputError (damaged, empty)."""
    try:
        packed = place.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{name}: expected a file of recorded exchanges, found: {error.strerror}. Name a file, "
            "or none to replay the exchanges that ship with featurelib."
        ) from error
    try:
        content = _OPENERS.get(packed[:2], bytes)(packed)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise InputError(
            f"{name}: expected a whole .gz or .xz file, found: {error}. Copy it again."
        ) from error
    wrong = len(unread)
    report = replay(read(content.splitlines(), name, unread), tables)
    if report.exchanges == 0 and len(unread) == wrong:
        raise InputError(
            f"{name}: expected a recorded exchange a line, found no line. `featurelib conformance` "
            "without a file replays those that ship with it."
        )
    return report


def _document(reports: dict[str, ReplayReport], unread: list[InputError]) -> ConformanceDocument:
    kinds = {name: Counter(d.kind for d in report.differences) for name, report in reports.items()}
    return fill(
        ConformanceDocument,
        exchanges=sum(report.exchanges for report in reports.values()),
        files=[
            {
                "file": name,
                "exchanges": report.exchanges,
                "dialects": dict(sorted(report.dialects.items())),
                "differences": {kind: kinds[name][kind] for kind in KINDS},
                "undecided": dict(sorted(report.undecided.items())),
            }
            for name, report in reports.items()
        ],
        differences=[
            {"file": name, "id": d.id, "kind": d.kind, "recorded": d.recorded, "ours": d.ours}
            for name, report in reports.items()
            for d in report.differences
        ],
        unread=[str(wrong) for wrong in unread],
    )


def _print(reports: dict[str, ReplayReport], most: int | None) -> None:
    """A row for each file, at most so many differences, and what is undecided."""
    page, differences = Page(), [d for report in reports.values() for d in report.differences]
    rows = [["FILE", "EXCHANGES", "DIFFERENCES", "UNDECIDED", "DIALECTS"]]
    for name, report in reports.items():
        counts = (report.exchanges, len(report.differences), sum(report.undecided.values()))
        rows.append([name, *map(str, counts), " ".join(sorted(report.dialects))])
    page.table(rows)
    for d in differences[:most]:
        for line in ("", f"{d.id}: {d.kind}", f"  recorded  {d.recorded}"):
            page.line(line)
        page.line(f"  ours      {d.ours}")
    if most is not None and len(differences) > most:
        page.lines(["", f"{len(differences) - most} more differences: --all shows them"])
    if differences:
        page.line()
    for name, report in reports.items():
        for reason, number in sorted(report.undecided.items()):
            page.line(f"undecided in {name}: {reason} ({number})")
    exchanges = sum(report.exchanges for report in reports.values())
    page.line(f"{count(exchanges, 'exchange')}, {count(len(differences), 'difference')}")
    print(page)
