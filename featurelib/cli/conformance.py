"""`featurelib conformance`: recorded exchanges of real controllers against the embedded cluster.

The command reads files and prints; featurelib.conformance replays and compares.
"""

from __future__ import annotations

import gzip
import json
import lzma
import zlib
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from featurelib.catalogue import Tables
from featurelib.cli.catalogue import Json, OverlayFile, open_catalogue
from featurelib.cli.entrance import say
from featurelib.cli.text import columns
from featurelib.conformance import KINDS, Report, replay
from featurelib.errors import ConfigError, InputError
from featurelib.exchanges import read
from featurelib.words import count

PACK = "conformance_pack.jsonl.gz"
SHOWN = 20  # differences, without --all
FORM = 1  # of the JSON object
NOT_READ = 2  # exit code
_OPENERS = {b"\x1f\x8b": gzip.decompress, b"\xfd7": lzma.decompress}

Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="Recorded exchanges: .jsonl, plain, .gz or .xz."),
]
All = Annotated[bool, typer.Option("--all", help=f"Every difference, not the first {SHOWN}.")]


def conformance(
    files: Files = None, show_all: All = False, overlay: OverlayFile = None, as_json: Json = False
) -> int:
    """Whether featurelib answers as recordings do.

    Without FILE the exchanges that ship with featurelib are replayed: one at least for every rule
    that any recording of Kafka 2.7 to 4.4 reached. With files, yours:

    \b
        featurelib conformance
        featurelib conformance --json

    Each exchange is put to an embedded cluster in the recorded state. Compared are the error code,
    the words, the results, the levels afterwards, and whether the epoch moved. What a recording
    cannot decide is excused and counted.

    To record your vendor's controller, write one JSON object a line: what every node supports and
    what is finalized, the UpdateFeatures request, the answer as it came, what is finalized
    afterwards. docs/conformance.md lists the keys with an example; `release` is the Kafka release
    the controller is built from. Try the request `validate_only` first, or a cluster to throw away.

    Exit codes: 0 done, no difference; 1 differences; 2 usage, or a line of another form. Such a
    line is named, and the others are replayed.
    """
    tables = open_catalogue(overlay).tables
    reports: dict[str, Report] = {}
    unread: list[InputError] = []
    for number, name in enumerate(files or [PACK], start=1):
        say(f"[{number}/{len(files or [PACK])}] {name}")
        reports[name] = _replay(name, _shipped() if not files else _content(name), tables, unread)
    if as_json:
        print(json.dumps(_document(reports, unread), indent=2, ensure_ascii=False))
    elif any(report.exchanges for report in reports.values()):
        _print(reports, show_all=show_all)
    for wrong in unread if show_all else unread[:SHOWN]:
        say(f"error: {wrong}")
    if len(unread) > SHOWN and not show_all:
        say(f"error: and {count(len(unread) - SHOWN, 'more line')}: --all shows every one")
    differ = any(report.differences for report in reports.values())
    return NOT_READ if unread else int(differ)


def _shipped() -> bytes:
    return gzip.decompress(resources.files("featurelib").joinpath(PACK).read_bytes())


def _content(name: str) -> bytes:
    """What is in a file, unpacked. Raises ConfigError (no such file), InputError (damaged)."""
    try:
        packed = Path(name).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{name}: expected a file of recorded exchanges, found: {error.strerror}. Name a file, "
            "or none to replay the exchanges that ship with featurelib."
        ) from error
    opener = _OPENERS.get(packed[:2])
    try:
        return opener(packed) if opener else packed
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise InputError(
            f"{name}: expected a whole .gz or .xz file, found: {error}. Copy it again."
        ) from error


def _replay(name: str, content: bytes, tables: Tables, unread: list[InputError]) -> Report:
    wrong = len(unread)
    report = replay(read(content.splitlines(), name, unread), tables)
    if report.exchanges == 0 and len(unread) == wrong:
        raise InputError(
            f"{name}: expected a recorded exchange a line, found no line. `featurelib conformance` "
            "without a file replays those that ship with it."
        )
    return report


def _document(reports: dict[str, Report], unread: list[InputError]) -> dict[str, object]:
    kinds = {name: Counter(d.kind for d in report.differences) for name, report in reports.items()}
    return {
        "version": FORM,
        "exchanges": sum(report.exchanges for report in reports.values()),
        "files": [
            {
                "file": name,
                "exchanges": report.exchanges,
                "dialects": dict(sorted(report.dialects.items())),
                "differences": {kind: kinds[name][kind] for kind in KINDS},
                "excused": dict(sorted(report.excused.items())),
            }
            for name, report in reports.items()
        ],
        "differences": [
            {"file": name, "id": d.id, "kind": d.kind, "recorded": d.recorded, "ours": d.ours}
            for name, report in reports.items()
            for d in report.differences
        ],
        "unread": [str(wrong) for wrong in unread],
    }


def _print(reports: dict[str, Report], *, show_all: bool) -> None:
    rows = [("FILE", "EXCHANGES", "DIFFERENCES", "EXCUSED", "DIALECTS")]
    for name, report in reports.items():
        excused = sum(report.excused.values())
        dialects = " ".join(sorted(report.dialects))
        exchanges, differences = str(report.exchanges), str(len(report.differences))
        rows.append((name, exchanges, differences, str(excused), dialects))
    print("\n".join(columns(rows)))
    _print_differences(reports, show_all)
    for name, report in reports.items():
        for reason, number in sorted(report.excused.items()):
            print(f"excused in {name}: {reason} ({number})")
    total = sum(report.exchanges for report in reports.values())
    found = sum(len(report.differences) for report in reports.values())
    print(f"{count(total, 'exchange')}, {count(found, 'difference')}")


def _print_differences(reports: dict[str, Report], show_all: bool) -> None:
    found = [d for report in reports.values() for d in report.differences]
    shown = found if show_all else found[:SHOWN]
    for difference in shown:
        print(f"\n{difference.id}: {difference.kind}")
        print(f"  recorded  {difference.recorded}")
        print(f"  ours      {difference.ours}")
    if len(shown) < len(found):
        print(f"\n{len(found) - len(shown)} more differences: --all shows them")
    if found:
        print()
