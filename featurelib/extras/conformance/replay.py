"""Replay recorded exchanges on the sandbox cluster, and list every difference by kind.

Some differences cannot be decided by a recording: an offender chosen by Java's hash order or by the
order of registration; a hidden record of kraft.version, and whether a refused request changed it;
an epoch that another change may have increased. The report counts them by reason.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from featurelib.catalogue import Tables
from featurelib.cli.entrance import say
from featurelib.config.files import open_catalogue
from featurelib.core.dialect import Dialect, generation_of, load
from featurelib.core.dry_run import Answered
from featurelib.core.reply import Reply
from featurelib.errors import ConfigError, InputError
from featurelib.extras.conformance.exchanges import Exchange, Levels, read
from featurelib.extras.sandbox.cluster import EmbeddedState
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION
from featurelib.view.documents import Document, fill
from featurelib.view.documents import as_json as to_json
from featurelib.view.layout import Page
from featurelib.words import count

HIDES_RECORD = ("3.9.0",)  # 3.9.2 shows the record while the raft layer is at 0
KINDS = ("code", "words", "results", "levels", "epoch")
# Crossing one of these makes every node register again soon after (KIP-919, KIP-858, KIP-1066).
REGISTER_AGAIN = (15, 17, 30)
# The first time eligible.leader.replicas.version is enabled a CONFIG_RECORD comes along.
MOVES_MORE = ("eligible.leader.replicas.version", KRAFT_VERSION)
_ANOTHER = "another offender is named"
_OF_A_REFUSAL, _BY_NODES = "kraft.version of a refused request", "nodes registered again"
EXCUSES = (_ANOTHER, _OF_A_REFUSAL, _BY_NODES)
_Results = list[tuple[str, int, str | None]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference between the recorded response and featurelib's response."""

    id: str
    kind: str  # a key of KINDS
    recorded: str
    ours: str


@dataclass(slots=True)
class ReplayReport:
    """The result of a replay. `undecided`: differences that it cannot decide, by reason."""

    exchanges: int = 0
    differences: list[Difference] = field(default_factory=list)
    undecided: Counter[str] = field(default_factory=Counter)
    dialects: Counter[str] = field(default_factory=Counter)


def replay(
    exchanges: Iterable[Exchange], tables: Tables, dialect: Dialect | None = None
) -> ReplayReport:
    """Send every exchange to a sandbox cluster of its release, in recorded order. `dialect`:
    responds for every release. Raises InputError for a release without dialect."""
    report, walks = ReplayReport(), dict[str, _Walk]()
    for exchange in exchanges:
        walk = walks.setdefault(exchange.scenario, _Walk())
        walk.step(exchange, dialect or _dialect(exchange), tables, report)
    return report


def _dialect(exchange: Exchange) -> Dialect:
    try:
        return load(generation_of(exchange.cluster.release, exchange.mode))
    except KeyError as error:
        raise InputError(
            f"{exchange.id}: {error.args[0]}. Expected a release of `featurelib rules --dialects`; "
            "record the release the controller is built from."
        ) from error


class _Walk:
    """A scenario of a recording. Each step starts from the state after the previous step."""

    def __init__(self) -> None:
        self._records: set[int] = {0, 1}  # possible levels in the hidden kraft.version record
        self._due = 0  # expected records of nodes that register again
        self._levels: Levels = {}  # the levels after the previous step
        self._epoch: int | None = None  # the epoch after the previous step

    def step(
        self, exchange: Exchange, dialect: Dialect, tables: Tables, report: ReplayReport
    ) -> None:
        began, gap = exchange.cluster.finalized, exchange.epoch != self._epoch
        if gap:  # an unrecorded step wrote something
            self._records = {0, 1}
        for before, after in ((self._levels, began), (began, exchange.after)):
            self._due += len(exchange.cluster.nodes) * _moves_more(before, after)
        report.exchanges += 1
        report.dialects[dialect.name] += 1
        compared = []
        for record in self._possible(exchange, dialect):
            cluster = replace(exchange.cluster, kraft_record=record)
            state = EmbeddedState(cluster=cluster, epoch=exchange.epoch or 0)
            answered, _ = state.answer(exchange.request, dialect, tables)
            compared.append((answered, *_compare(exchange, answered)))
        fitting = [pair for pair in compared if not pair[1]]
        answered, differences, undecided = (fitting or compared)[0]
        report.differences += differences
        report.undecided.update(undecided)
        if fitting:
            self._records = {pair[0].after.kraft_record for pair in fitting}
            self._judge_epoch(exchange, answered, report, gap=gap)
        self._levels, self._epoch = exchange.after, exchange.epoch_after

    def _possible(self, exchange: Exchange, dialect: Dialect) -> list[int]:
        """Return the levels of kraft.version that are possible: the recorded level, a level of an
        earlier step, or all levels."""
        if dialect.can.kraft_version != "record":
            return [0]
        hidden = exchange.cluster.raft_level > 0 or _hides_record(exchange)
        return (
            sorted(self._records) if hidden else [_level(exchange.cluster.finalized, KRAFT_VERSION)]
        )

    def _judge_epoch(
        self, exchange: Exchange, answered: Answered, report: ReplayReport, *, gap: bool
    ) -> None:
        before, after = exchange.epoch, exchange.epoch_after
        moved, kraft = before != after, exchange.mode == "kraft"
        # In ZooKeeper mode the epoch counts writes of the znode, in a log all records.
        by_one = kraft or before is None or after == before + 1
        decreased = before is not None and after is not None and after < before
        if not decreased and moved == answered.writes and (by_one or not moved):
            return
        if not decreased and answered.unsure:
            report.undecided[_OF_A_REFUSAL] += 1
        elif not decreased and moved and kraft and self._due > 0:
            self._due -= 1
            report.undecided[_BY_NODES] += 1
        elif gap and not decreased and _moved_by_nodes(exchange):
            report.undecided[_BY_NODES] += 1
        else:
            recorded = f"from {before} to {after}" if moved else "stood still"
            expected = "moves" if answered.writes else "stands still"
            report.differences.append(
                Difference(id=exchange.id, kind="epoch", recorded=recorded, ours=expected)
            )


def _compare(exchange: Exchange, answered: Answered) -> tuple[list[Difference], list[str]]:
    """Return (differences between the recorded and featurelib's response, texts about undecidable
    differences)."""
    reply, b_reply, after = exchange.reply, answered.reply, answered.after.finalized
    if _hides_record(exchange):
        after = _but_kraft(after)
    comparisons: dict[str, tuple[Any, Any, Callable[[Any], str]]] = {
        "code": (reply.code, b_reply.code, str),
        "words": (reply.message, b_reply.message, str),
        "results": (_results(reply), _results(b_reply), _results_text),
        "levels": (exchange.after, after, _levels_text),
    }
    faults = {
        kind: Difference(id=exchange.id, kind=kind, recorded=text(recorded), ours=text(answer))
        for kind, (recorded, answer, text) in comparisons.items()
        if recorded != answer
    }
    undecided = []
    if faults.keys() & {"words", "results"} and _names_another(reply, answered):
        undecided.append(_ANOTHER)
        faults = {kind: item for kind, item in faults.items() if kind in ("code", "levels")}
    if "levels" in faults and answered.unsure and _but_kraft(exchange.after) == _but_kraft(after):
        undecided.append(_OF_A_REFUSAL)
        del faults["levels"]
    return [*faults.values()], undecided


def _names_another(recorded: Reply, answered: Answered) -> bool:
    """Return true if both responses refuse the update by one rule and name different nodes. The
    order of registration, which is not recorded, decides the node."""

    def same(text: str | None, other: str | None) -> bool:
        return text == other or any({text, other} <= words for words in answered.alike)

    results, own_results = _results(recorded) or [], _results(answered.reply) or []
    if not same(recorded.message, answered.reply.message) or len(results) != len(own_results):
        return False
    pairs = zip(results, own_results, strict=True)
    return all(result[:2] == other[:2] and same(result[2], other[2]) for result, other in pairs)


def _results(reply: Reply) -> _Results:
    """Return the results of a reply sorted by feature, because a hash map decides their order."""
    if reply.results is None:
        return None
    return sorted(((r.feature, r.code, r.message) for r in reply.results), key=repr)


def _results_text(results: _Results) -> str:
    if results is None:
        return "no results (the wire version has none)"
    parts = [f"{name} {code} {message or '(no message)'}" for name, code, message in results]
    return "; ".join(parts) or "an empty list of results"


def _levels_text(levels: Levels) -> str:
    """Return levels as text `f=3, g=1..4`. `1..4` is (minimum, level) if they differ."""
    parts = [
        f"{name}={level}" if low == level else f"{name}={low}..{level}"
        for name, (low, level) in sorted(levels.items())
    ]
    return ", ".join(parts) or "nothing finalized"


def _but_kraft(levels: Levels) -> Levels:
    return {name: level for name, level in levels.items() if name != KRAFT_VERSION}


def _hides_record(exchange: Exchange) -> bool:
    """Return true if nodes hide the record of kraft.version, as some releases do while the raft
    layer has level 0."""
    early = exchange.mode == "kraft" and exchange.cluster.release in HIDES_RECORD
    return early and exchange.cluster.raft_level == 0


def _moved_by_nodes(exchange: Exchange) -> bool:
    """Return true if the request wrote no record, and registrations of nodes can explain the
    increase of the epoch."""
    request, reply, nodes = exchange.request, exchange.reply, exchange.cluster.nodes
    good = any(result.code == 0 for result in reply.results or ())
    wrote = good or (reply.code == 0 and reply.results is None)
    dry = request.validate_only and request.version > 0
    newest = max(_level(node.supported, METADATA_VERSION) for node in nodes)
    moved = (exchange.epoch_after or 0) - (exchange.epoch or 0)
    near = 0 < moved <= len(nodes)
    return exchange.mode == "kraft" and (dry or not wrote) and near and newest >= REGISTER_AGAIN[0]


def _moves_more(before: Levels, after: Levels) -> bool:
    """Return true if the change of state needs more records than the request writes."""
    old, new = (_level(levels, METADATA_VERSION) for levels in (before, after))
    if not old:  # the begin of a scenario
        return False
    crossed = any(min(old, new) < level <= max(old, new) for level in REGISTER_AGAIN)
    return crossed or any(before.get(name) != after.get(name) for name in MOVES_MORE)


def _level(levels: Levels, feature: str) -> int:
    return levels.get(feature, (0, 0))[1]


MOST_DIFFERENCES = 20  # differences that are printed without --all
PACK = "conformance_pack.jsonl.gz"
NOT_READ = 2  # the exit code if files could not be read
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
        recording = Path(name) if files else resources.files(__package__).joinpath(name)
        reports[name] = _replay(name, recording, tables, unread)
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
    name: str, folder: Traversable, tables: Tables, unread: list[InputError]
) -> ReplayReport:
    """Replay one file of exchanges. Raises ConfigError (missing), InputError (damaged, empty)."""
    try:
        packed = folder.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{name}: featurelib cannot read this file: {error.strerror}. Name another file. "
            "Without a file, `featurelib conformance` replays featurelib's own recordings."
        ) from error
    try:
        content = _OPENERS.get(packed[:2], bytes)(packed)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise InputError(
            f"{name}: The .gz or .xz file is cut or damaged: {error}. Copy the file again."
        ) from error
    wrong = len(unread)
    report = replay(read(content.splitlines(), name, unread), tables)
    if report.exchanges == 0 and len(unread) == wrong:
        raise InputError(
            f"{name} is empty. Without a file, `featurelib conformance` replays featurelib's own "
            "recordings."
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
    """Print one row per file, the first `most` differences, and the undecided points."""
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
