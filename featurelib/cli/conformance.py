"""`featurelib conformance`: recorded exchanges of real controllers against the embedded cluster.

The command reads files and prints; featurelib.conformance.replay replays and compares.
"""

from __future__ import annotations

import difflib
import gzip
import lzma
import zlib
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from featurelib.audit.findings import wordings
from featurelib.catalogue import Tables
from featurelib.cli.entrance import say
from featurelib.cli.options import MOST_DIFFERENCES
from featurelib.config.catalogue import open_catalogue
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
from featurelib.core.dialect import GENERATIONS, STRICT, load
from featurelib.core.rules import NODE_COLUMNS, UPDATE_COLUMNS
from featurelib.errors import ConfigError, InputError
from featurelib.view.documents import ConformanceDocument, RulesDocument, fill
from featurelib.view.documents import as_json as to_json
from featurelib.view.layout import Page, wrap
from featurelib.words import count

PACK = "conformance_pack.jsonl.gz"
NOT_READ = 2  # exit code
_OPENERS = {b"\x1f\x8b": gzip.decompress, b"\xfd7": lzma.decompress}


def conformance(
    files: list[str] | None = None,
    show_all: bool = False,
    overlay: str | None = None,
    as_json: bool = False,
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
    tables = open_catalogue(overlay, say).tables
    reports: dict[str, ReplayReport] = {}
    unread: list[InputError] = []
    for number, name in enumerate(files or [PACK], start=1):
        say(f"[{number}/{len(files or [PACK])}] {name}")
        reports[name] = _replay(name, _shipped() if not files else _content(name), tables, unread)
    if as_json:
        print(to_json(_document(reports, unread)))
    elif any(report.exchanges for report in reports.values()):
        _print(reports, show_all=show_all)
    for wrong in unread if show_all else unread[:MOST_DIFFERENCES]:
        say(f"error: {wrong}")
    if len(unread) > MOST_DIFFERENCES and not show_all:
        say(
            f"error: and {count(len(unread) - MOST_DIFFERENCES, 'more line')}: "
            "--all shows every one"
        )
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


def _replay(name: str, content: bytes, tables: Tables, unread: list[InputError]) -> ReplayReport:
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
                "excused": dict(sorted(report.excused.items())),
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


def _print(reports: dict[str, ReplayReport], *, show_all: bool) -> None:
    rows = [("FILE", "EXCHANGES", "DIFFERENCES", "EXCUSED", "DIALECTS")]
    for name, report in reports.items():
        excused = sum(report.excused.values())
        dialects = " ".join(sorted(report.dialects))
        exchanges, differences = str(report.exchanges), str(len(report.differences))
        rows.append((name, exchanges, differences, str(excused), dialects))
    page = Page()
    page.table(rows)
    print(page)
    _print_differences(reports, show_all)
    for name, report in reports.items():
        for reason, number in sorted(report.excused.items()):
            print(f"excused in {name}: {reason} ({number})")
    total = sum(report.exchanges for report in reports.values())
    found = sum(len(report.differences) for report in reports.values())
    print(f"{count(total, 'exchange')}, {count(found, 'difference')}")


def _print_differences(reports: dict[str, ReplayReport], show_all: bool) -> None:
    found = [d for report in reports.values() for d in report.differences]
    shown = found if show_all else found[:MOST_DIFFERENCES]
    for difference in shown:
        print(f"\n{difference.id}: {difference.kind}")
        print(f"  recorded  {difference.recorded}")
        print(f"  ours      {difference.ours}")
    if len(shown) < len(found):
        print(f"\n{len(found) - len(shown)} more differences: --all shows them")
    if found:
        print()


# `featurelib rules`: what is asked of an update, by which controllers, in which words.
#
# Everything printed is read from the rules and the dialects' tables themselves.

OWN_DIALECT = "refused_by_own_controller"
WIDTH = 96
TOGETHER = "\u00a0"  # no line ends between a dialect and its number


def rules(name: str | None = None, dialects: bool = False, as_json: bool = False) -> int:
    """What a controller asks of an update, rule by rule.

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
    if dialects:
        found = [_dialect(each) for each in DIALECTS]
        _show(fill(RulesDocument, dialects=found), _dialect_lines(found), as_json)
    elif name is None:
        every = rulebook().values()
        _show(fill(RulesDocument, rules=[*map(_brief, every)]), _list_lines(), as_json)
    else:
        entry = _entry(name)
        _show(fill(RulesDocument, rule=_whole(entry)), _entry_lines(entry), as_json)
    return 0


def _show(document: RulesDocument, lines: Iterator[str], as_json: bool) -> None:
    if as_json:
        print(to_json(document))
        return
    for line in lines:
        print(line)


def _entry(name: str) -> RulebookEntry:
    book = rulebook()
    if name == OWN_DIALECT:
        raise ConfigError(
            f"{name}: expected the name of a rule, found a finding: the cluster's own controllers "
            "refuse what the policy lets pass. The finding names the rule they refuse by: "
            "`featurelib rules` and that name says what it asks."
        )
    if name not in book and name in wordings(load(STRICT)):
        raise ConfigError(
            f"{name}: expected the name of a rule, found a finding about evidence, which no rule "
            "stands behind. docs/vocabulary.md says what it means; `featurelib rules` lists rules."
        )
    if name not in book:
        near = difflib.get_close_matches(name, book, n=3, cutoff=0.5)
        hint = f"; near it: {', '.join(near)}" if near else ""
        raise ConfigError(
            f"{name}: expected the name of a rule, found none such{hint}. "
            "`featurelib rules` lists them all."
        )
    return book[name]


def _dialect(name: str) -> dict[str, object]:
    table = load(name)
    return {
        "name": name,
        "title": table.title,
        "mode": table.mode,
        "releases": list(table.releases),
        "rules": len(table.door) + len(table.rules),
    }


def _dialect_lines(found: list[dict[str, object]]) -> Iterator[str]:
    rows = [("DIALECT", "RULES", "RELEASES", "")]
    for table in found:
        releases = table["releases"]
        assert isinstance(releases, list)
        shown = " ".join(releases) or "no release"
        rows.append((str(table["name"]), str(table["rules"]), shown, str(table["title"])))
    page = Page()
    page.table(rows)
    yield from page


def _brief(entry: RulebookEntry) -> dict[str, object]:
    rule = entry.rule
    return {"name": rule.name, "sentence": rule.sentence, "dialects": list(entry.dialects)}


def _list_lines() -> Iterator[str]:
    for entry in rulebook().values():
        yield entry.rule.name
        yield f"    {entry.rule.sentence}"
        yield f"    {_asked_in(entry)}"


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


def _entry_lines(entry: RulebookEntry) -> Iterator[str]:
    rule, wording = entry.rule, entry.wording
    yield rule.name
    yield from _told("", rule.sentence)
    yield from _told("source: ", rule.source)
    for column in rule.columns:
        yield from _told(f"reads {column}: ", _meaning(entry, column))
    yield from _told(f"finding, {wording.severity.value}: ", wording.message)
    yield from _told("remedy: ", wording.remedy)
    if wording.command:
        yield f"    {wording.command}"
    if not entry.questions:
        yield from _told("", _asked_in(entry))
    for group in entry.groups:
        row = group[0].row
        yield ""
        for line in wrap(_where_asked(group), WIDTH, "", "  "):
            yield line.replace(TOGETHER, " ")
        if row.says:
            yield from _told(f"{row.code_number}: ", row.says)
        if row.says_absent != row.says:
            yield from _told(f"{row.code_number}, if it is not listed: ", row.says_absent)
        for why, names in _unrecorded(group).items():
            yield from _told(f"read in the source of {', '.join(names)} only: ", why)


def _unrecorded(group: tuple[Question, ...]) -> dict[str, list[str]]:
    """Why no recorded exchange shows some of these rows, and in which dialects."""
    found: dict[str, list[str]] = {}
    for question in group:
        if question.id in UNRECORDED:
            found.setdefault(UNRECORDED[question.id], []).append(question.dialect)
    return found


def _where_asked(group: tuple[Question, ...]) -> str:
    """`kraft-3.3 as 3, kraft-3.5 as 3: asks local_controller`."""
    door = " at the door" if group[0].at_door else ""
    places = ", ".join(
        f"{question.dialect} as {question.position}".replace(" ", TOGETHER) for question in group
    )
    scope = describe(group[0].row)
    return f"{places}{door}{': ' if scope else ''}{scope}"


def _told(label: str, text: str) -> Iterator[str]:
    yield from wrap(f"{label}{text}", WIDTH, "  ", "    ")
