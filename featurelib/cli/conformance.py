"""`featurelib conformance`: recorded exchanges of real controllers against the sandbox cluster.

The command reads files and prints; featurelib.conformance.replay replays and compares.
"""

from __future__ import annotations

import difflib
import gzip
import lzma
import zlib
from collections import Counter
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from featurelib.audit.findings import wordings
from featurelib.catalogue import Tables
from featurelib.cli.entrance import say
from featurelib.config.files import open_catalogue
from featurelib.conformance.exchanges import read
from featurelib.conformance.replay import KINDS, ReplayReport, replay
from featurelib.conformance.rulebook import (
    DIALECTS,
    UNRECORDED,
    Question,
    RulebookEntry,
    describe,
    rulebook,
)
from featurelib.core.dialect import GENERATIONS, STRICT, Dialect, load
from featurelib.core.rules import NODE_COLUMNS, UPDATE_COLUMNS
from featurelib.errors import ConfigError, InputError
from featurelib.findings import tagged
from featurelib.view.documents import ConformanceDocument, RulesDocument, fill
from featurelib.view.documents import as_json as to_json
from featurelib.view.layout import Page, wrap
from featurelib.words import count

MOST_DIFFERENCES = 20  # without --all
PACK = "conformance_pack.jsonl.gz"
NOT_READ = 2  # exit code
_OPENERS = {b"\x1f\x8b": gzip.decompress, b"\xfd7": lzma.decompress}


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
        place = Path(name) if files else resources.files("featurelib").joinpath(name)
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
    page, found = Page(), [d for report in reports.values() for d in report.differences]
    rows = [["FILE", "EXCHANGES", "DIFFERENCES", "UNDECIDED", "DIALECTS"]]
    for name, report in reports.items():
        counts = (report.exchanges, len(report.differences), sum(report.undecided.values()))
        rows.append([name, *map(str, counts), " ".join(sorted(report.dialects))])
    page.table(rows)
    for one in found[:most]:
        for line in ("", f"{one.id}: {one.kind}", f"  recorded  {one.recorded}"):
            page.line(line)
        page.line(f"  ours      {one.ours}")
    if most is not None and len(found) > most:
        page.lines(["", f"{len(found) - most} more differences: --all shows them"])
    if found:
        page.line()
    for name, report in reports.items():
        for reason, number in sorted(report.undecided.items()):
            page.line(f"undecided in {name}: {reason} ({number})")
    exchanges = sum(report.exchanges for report in reports.values())
    page.line(f"{count(exchanges, 'exchange')}, {count(len(found), 'difference')}")
    print(page)


# `featurelib rules`: what is asked of an update, by which controllers, in which words.
#
# Everything printed is read from the rules and the dialects' tables themselves.

WIDTH = 96
TOGETHER = "\u00a0"  # no line ends between a dialect and its number


def rules(name: str | None = None, dialects: bool = False, as_json: bool = False) -> int:
    """Show what a controller asks of an update, rule by rule.

    \b
        featurelib rules
        featurelib rules unsupported_by_node
        featurelib rules --dialects

    The code of a finding is the name of its rule. A dialect is how one generation of controllers
    answers; `strict` decides READY, `kip` is the letter of the KIPs. Exit codes: 0 done, 2 usage.
    """
    if dialects and name is not None:
        raise ConfigError(
            f"--dialects lists the generations of controllers, {name} is a rule: expected one of "
            f"the two, found both. `featurelib rules {name}` names the dialects that ask it."
        )
    page, book = Page(None if dialects else WIDTH), rulebook()
    if dialects:
        tables = [load(each) for each in DIALECTS]
        document = fill(RulesDocument, dialects=[*map(_dialect, tables)])
        rows = [["DIALECT", "RULES", "RELEASES", ""]]
        for each in tables:
            releases = " ".join(each.releases) or "no release"
            rows.append([each.name, str(_rules(each)), releases, each.title])
        page.table(rows)
    elif name is None:
        document = fill(RulesDocument, rules=[*map(_brief, book.values())])
        for entry in book.values():
            page.line(entry.rule.name)
            page.lines([entry.rule.sentence, _asked_in(entry)], indent=4)
    else:
        entry = _entry(name, book)
        document = fill(RulesDocument, rule=_whole(entry))
        _show(entry, page)
    print(to_json(document) if as_json else page)
    return 0


def _entry(name: str, book: dict[str, RulebookEntry]) -> RulebookEntry:
    """The rule of that name. Raises ConfigError, which says what else the name may be."""
    if name in book:
        return book[name]
    near = difflib.get_close_matches(name, book, n=3, cutoff=0.5)
    hint = f"; near it: {', '.join(near)}" if near else ""
    found = f"none such{hint}. `featurelib rules` lists them all."
    if name in tagged("own_dialect"):
        found = (
            "a finding: the cluster's own controllers refuse what the policy lets pass. The "
            "finding names the rule they refuse by: `featurelib rules` and that name says what it "
            "asks."
        )
    elif name in wordings(load(STRICT)):
        found = (
            "a finding about evidence, which no rule stands behind. docs/vocabulary.md says what "
            "it means; `featurelib rules` lists rules."
        )
    raise ConfigError(f"{name}: expected the name of a rule, found {found}")


def _dialect(table: Dialect) -> dict[str, object]:
    names = ("name", "title", "mode", "releases")
    return {name: getattr(table, name) for name in names} | {"rules": _rules(table)}


def _rules(table: Dialect) -> int:
    return len(table.door) + len(table.rules)


def _brief(entry: RulebookEntry) -> dict[str, object]:
    rule = entry.rule
    return {"name": rule.name, "sentence": rule.sentence, "dialects": list(entry.dialects)}


def _asked_in(entry: RulebookEntry) -> str:
    """By how many of the generations, and which policies."""
    if not entry.dialects:
        return "asked of no update: nodes that belong to a cluster are judged by it"
    return f"asked in {' '.join(entry.dialects)}"


def _whole(entry: RulebookEntry) -> dict[str, object]:
    rule, wording = entry.rule, entry.wording
    return {
        **_brief(entry),
        "source": rule.source,
        "columns": {name: _meaning(entry, name) for name in rule.columns},
        "severity": wording.severity.value,
        "message": wording.message,
        "remedy": wording.remedy,
        "command": wording.command,
        "asked": [_question(question) for question in entry.questions],
    }


def _meaning(entry: RulebookEntry, column: str) -> str:
    return (NODE_COLUMNS if entry.rule.about_nodes else UPDATE_COLUMNS)[column]


def _question(question: Question) -> dict[str, object]:
    row = question.row
    return {
        "id": question.id,
        "dialect": question.dialect,
        "at_door": question.at_door,
        "position": question.position,
        "where": [scope.name for scope in row.where],
        "asks": row.asks and row.asks.value,
        "absence": row.absence.value if row.asks else None,
        "order": row.order.value if row.asks else None,
        "code": row.code_number,
        "says": row.says,
        "says_absent": row.says_absent if row.says_absent != row.says else None,
        "recorded": question.dialect in GENERATIONS and question.id not in UNRECORDED,
        "why_not_recorded": UNRECORDED.get(question.id),
    }


def _show(entry: RulebookEntry, page: Page) -> None:
    rule, wording = entry.rule, entry.wording
    page.line(rule.name)
    page.item(rule.sentence, 2)
    page.item(f"source: {rule.source}", 2)
    for column in rule.columns:
        page.item(f"reads {column}: {_meaning(entry, column)}", 2)
    page.item(f"finding, {wording.severity.value}: {wording.message}", 2)
    page.item(f"remedy: {wording.remedy}", 2)
    if wording.command:
        page.line(f"    {wording.command}")
    if not entry.questions:
        page.item(_asked_in(entry), 2)
    for group in entry.groups:
        row = group[0].row
        page.line()
        page.lines(
            line.replace(TOGETHER, " ") for line in wrap(_where_asked(group), WIDTH, "", "  ")
        )
        if row.says:
            page.item(f"{row.code_number}: {row.says}", 2)
        if row.says_absent != row.says:
            page.item(f"{row.code_number}, if it is not listed: {row.says_absent}", 2)
        unrecorded: dict[str, list[str]] = {}
        for question in group:
            if question.id in UNRECORDED:
                unrecorded.setdefault(UNRECORDED[question.id], []).append(question.dialect)
        for why, names in unrecorded.items():
            page.item(f"read in the source of {', '.join(names)} only: {why}", 2)


def _where_asked(group: tuple[Question, ...]) -> str:
    """`kraft-3.3 as 3, kraft-3.5 as 3: asks local_controller`."""
    door = " at the door" if group[0].at_door else ""
    places = ", ".join(
        f"{question.dialect} as {question.position}".replace(" ", TOGETHER) for question in group
    )
    scope = describe(group[0].row)
    return f"{places}{door}{': ' if scope else ''}{scope}"
