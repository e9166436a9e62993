"""Chooses the conformance pack from recorded exchanges: the fewest that prove a lot.

    .venv/bin/python -m scripts.choose_pack [FOLDER]

For each row of each dialect that some recording reaches: the simplest exchange it decides. For each
capability: one whose answer would be another without it. The same recordings give the same bytes.
"""

from __future__ import annotations

import gzip
import json
import lzma
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from featurelib.catalogue import Tables, load
from featurelib.core.batch import NOT_HERE
from featurelib.core.cluster import build
from featurelib.core.dialect import GENERATIONS, Capability, Dialect, generation_of
from featurelib.core.dialect import load as load_dialect
from featurelib.core.judge import decide, judge
from featurelib.extras.conformance.exchanges import Exchange, read
from featurelib.extras.conformance.replay import ReplayReport, replay
from featurelib.extras.rules.book import questions
from featurelib.feature import TEST_FEATURES
from scripts.pack_claims import EPOCH, SAME_LEVEL, SHOWN

ROOT = Path(__file__).parents[1]
RECORDINGS = ROOT / "tests" / "data" / "transcripts"
LEAKS = "kraft_version_leaks"  # whether it happened is not always recorded, so it may be undecided
PACK = ROOT / "featurelib" / "extras" / "conformance" / "conformance_pack.jsonl.gz"


@dataclass(frozen=True)
class Candidate:
    """A recorded line."""

    exchange: Exchange
    line: dict[str, Any]
    tables: Tables

    @property
    def cost(self) -> tuple[bool, int, int, str]:
        """The simplest comes first: not made up at random, few updates, few nodes, then by id."""
        exchange = self.exchange
        updates, nodes = len(exchange.request.updates), len(exchange.cluster.nodes)
        return self.drawn, updates, nodes, exchange.id

    @property
    def drawn(self) -> bool:
        """Whether the request was made up at random, not to show something."""
        return "random" in self.exchange.id

    @cached_property
    def alone(self) -> ReplayReport:
        """What its replay says when it stands alone."""
        return replay([self.exchange], self.tables)

    @property
    def calm(self) -> bool:
        """Nothing differs, and nothing has to be undecided."""
        return not self.alone.differences and not self.alone.undecided

    @property
    def dialect(self) -> Dialect:
        return load_dialect(generation_of(self.exchange.cluster.release, self.exchange.mode))


def recorded(folder: Path) -> Iterator[tuple[dict[str, Any], Exchange]]:
    """Every line of every recording of `folder`, raw and read."""
    for path in sorted([*folder.glob("*.jsonl.xz"), *folder.glob("random/*.jsonl.xz")]):
        lines = lzma.decompress(path.read_bytes()).splitlines()
        for line, exchange in zip(lines, read(lines, path.name), strict=True):
            yield json.loads(line), exchange


def candidates(folder: Path, tables: Tables) -> list[Candidate]:
    """What may be chosen, the simplest first."""
    found = [Candidate(exchange, line, tables) for line, exchange in recorded(folder)]
    return sorted(found, key=lambda candidate: candidate.cost)


def shows(candidate: Candidate, name: str, value: object) -> bool:
    """Whether the answer would be another if the dialect's capability `name` were `value`."""
    if not _may_show(candidate.exchange, name):
        return False
    if candidate.alone.differences or not (candidate.calm or name == LEAKS):
        return False
    dialect = candidate.dialect
    can: Capability = replace(dialect.can, **{name: value})  # type: ignore[arg-type]  # a table
    other = replace(dialect, can=can)
    return bool(replay([candidate.exchange], candidate.tables, other).differences)


def _may_show(exchange: Exchange, name: str) -> bool:
    """Cheap and never wrong where it says no: asking both ways costs a thousand times more."""
    request = exchange.request
    names = [update.feature for update in request.updates]
    if name == "duplicates":
        return len(names) > len(set(names))
    if name == "atomic":
        return len(set(names)) > 1
    if name == "validate_only":
        return request.validate_only
    if name == "upgrade_type_v0":
        return request.version == 0
    if name == "results_up_to":
        return request.version > 1
    if name == "knows_test_features":
        return not TEST_FEATURES.isdisjoint(names)
    if name.startswith("kraft_version"):
        return "kraft.version" in names
    return True


def wanted(dialect: Dialect) -> Iterator[tuple[str, object, str]]:
    """Capabilities of a dialect that have something to prove: name, another value, what."""
    for name, (values, proves) in SHOWN.items():
        own = getattr(dialect.can, name)
        for value in values:
            if value != own and own in proves:
                yield name, value, proves[own]


class Pack:
    """The lines chosen, each with what it proves."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, Any]] = {}

    def add(self, candidate: Candidate | None, what: str) -> None:
        """Take a candidate, or add to what it proves."""
        if candidate is None:
            return
        line = self._lines.setdefault(candidate.exchange.id, {**candidate.line, "proves": []})
        if what not in line["proves"]:
            line["proves"].append(what)

    def prefer(self, found: list[Candidate]) -> Candidate | None:
        """One that is in the pack already, else the simplest, else none."""
        chosen = [one for one in found if one.exchange.id in self._lines]
        return next((one for one in chosen + found if one.calm), None)

    @property
    def text(self) -> str:
        lines = sorted(self._lines.values(), key=lambda line: line["id"])
        dumped = (json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines)
        return "".join(f"{line}\n" for line in dumped)


def reached(exchanges: Sequence[Exchange], tables: Tables) -> list[tuple[str, ...]]:
    """For each exchange the ids of the rows that decide its answer, by the position of exchanges:
    Kafka names the first violated rule, so these are the rows whose words a recording proves.

    Raises KeyError for a release no dialect is of.
    """
    found: list[tuple[str, ...]] = [()] * len(exchanges)
    of: dict[str, list[int]] = {}
    for position, exchange in enumerate(exchanges):
        name = generation_of(exchange.cluster.release, exchange.mode)
        of.setdefault(name, []).append(position)
    for name, positions in of.items():
        rows = _deciding([exchanges[i] for i in positions], load_dialect(name), tables)
        for position, ids in zip(positions, rows, strict=True):
            found[position] = ids
    return found


def _deciding(
    exchanges: Sequence[Exchange], dialect: Dialect, tables: Tables
) -> list[tuple[str, ...]]:
    batch = build([(e.cluster, e.request) for e in exchanges], dialect, tables)
    judged = judge(batch, dialect, tables)
    failed_by = decide(batch, dialect, judged).failed_by
    ids = [question.id for question in questions(dialect.name)]
    found = [{} if door == NOT_HERE else {ids[door]: None} for door in judged.door.tolist()]
    request_of = batch.updates.request.tolist()
    for update, (request, rule) in enumerate(zip(request_of, judged.first.tolist(), strict=True)):
        answered = judged.door[request] == NOT_HERE and rule != NOT_HERE
        if answered and (not dialect.can.atomic or failed_by[request] == update):
            found[request][ids[len(dialect.door) + rule]] = None
    return [tuple(rows) for rows in found]


def choose(folder: Path, tables: Tables) -> str:
    """The pack as text, one exchange a line, by id."""
    pack, every = Pack(), candidates(folder, tables)
    of: dict[str, list[Candidate]] = {name: [] for name in GENERATIONS}
    deciding: dict[str, list[Candidate]] = {}
    for one, ids in zip(every, reached([c.exchange for c in every], tables), strict=True):
        of[one.dialect.name].append(one)
        for row in ids:
            deciding.setdefault(row, []).append(one)
    for name in GENERATIONS:
        for question in questions(name):
            rule = question.row.rule
            what = f"{question.id}: {rule.sentence} ({rule.source})"
            pack.add(pack.prefer(deciding.get(question.id, [])), what)
    for name, mine in of.items():
        _add_capabilities(pack, load_dialect(name), mine)
    return pack.text


def _add_capabilities(pack: Pack, dialect: Dialect, mine: list[Candidate]) -> None:
    # One that changes something tells more than one that is refused.
    def order(one: Candidate) -> tuple[bool, bool]:
        return one.drawn, one.exchange.after == one.exchange.cluster.finalized

    telling = sorted(mine, key=order)
    for name, value, text in wanted(dialect):
        found = next((one for one in telling if shows(one, name, value)), None)
        pack.add(found, f"{dialect.name}.{name}, not {value}: {text}")
    written = [one for one in mine if _writes_one(one.exchange)]
    again = [one for one in written if _same_level(one.exchange)]
    if dialect.mode == "kraft":
        pack.add(pack.prefer(again), f"{dialect.name}.same_level: {SAME_LEVEL}")
    moved = [one for one in written if one not in again]
    pack.add(pack.prefer(moved), f"{dialect.name}.epoch: {EPOCH[dialect.mode]}")


def _writes_one(exchange: Exchange) -> bool:
    good = exchange.reply.code == 0 and len(exchange.request.updates) == 1
    return good and exchange.epoch is not None and exchange.epoch != exchange.epoch_after


def _same_level(exchange: Exchange) -> bool:
    update = exchange.request.updates[0]
    return exchange.cluster.finalized.get(update.feature, (0, 0))[1] == update.level > 0


def main() -> None:
    """Write the pack."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RECORDINGS
    text = choose(folder, load().tables)
    PACK.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{PACK.name}: {text.count(chr(10))} exchanges, {PACK.stat().st_size} bytes")


if __name__ == "__main__":
    main()
