"""Choose the conformance pack from recorded exchanges: few exchanges that prove much.

    .venv/bin/python -m scripts.choose_pack [FOLDER]

For each recorded row of a dialect the pack has the simplest exchange that the row decides. For each
capability it has one exchange whose response would differ without the capability. The same
recordings give the same bytes.
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
# A recording may not show whether it happened, so it may be undecided.
LEAKS = "kraft_version_leaks"
PACK = ROOT / "featurelib" / "extras" / "conformance" / "conformance_pack.jsonl.gz"


@dataclass(frozen=True)
class Candidate:
    """A recorded exchange that may be chosen, raw and parsed."""

    exchange: Exchange
    line: dict[str, Any]
    tables: Tables

    @property
    def cost(self) -> tuple[bool, int, int, str]:
        """The sort key: random requests come last, simple ones first."""
        exchange = self.exchange
        updates, nodes = len(exchange.request.updates), len(exchange.cluster.nodes)
        return self.drawn, updates, nodes, exchange.id

    @property
    def drawn(self) -> bool:
        """True if the request was drawn at random."""
        return "random" in self.exchange.id

    @cached_property
    def alone(self) -> ReplayReport:
        """The result of replaying this exchange alone."""
        return replay([self.exchange], self.tables)

    @property
    def calm(self) -> bool:
        """True if the replay has no difference and no undecidable point."""
        return not self.alone.differences and not self.alone.undecided

    @property
    def dialect(self) -> Dialect:
        return load_dialect(generation_of(self.exchange.cluster.release, self.exchange.mode))


def recorded(folder: Path) -> Iterator[tuple[dict[str, Any], Exchange]]:
    """Yield (raw line, exchange) of every recording in `folder`."""
    for path in sorted([*folder.glob("*.jsonl.xz"), *folder.glob("random/*.jsonl.xz")]):
        lines = lzma.decompress(path.read_bytes()).splitlines()
        for line, exchange in zip(lines, read(lines, path.name), strict=True):
            yield json.loads(line), exchange


def candidates(folder: Path, tables: Tables) -> list[Candidate]:
    """Return all exchanges that may be chosen, simplest first."""
    found = [Candidate(exchange, line, tables) for line, exchange in recorded(folder)]
    return sorted(found, key=lambda candidate: candidate.cost)


def shows(candidate: Candidate, name: str, value: object) -> bool:
    """Return true if the response would differ if the dialect's capability `name` had `value`."""
    if not _may_show(candidate.exchange, name):
        return False
    if candidate.alone.differences or not (candidate.calm or name == LEAKS):
        return False
    dialect = candidate.dialect
    can: Capability = replace(dialect.can, **{name: value})  # type: ignore[arg-type]  # a table
    other = replace(dialect, can=can)
    return bool(replay([candidate.exchange], candidate.tables, other).differences)


def _may_show(exchange: Exchange, name: str) -> bool:
    """Return false if `shows` is certainly false. This check is fast."""
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
    """Yield (name, other value, claim) for each capability of a dialect that the pack must
    prove."""
    for name, (values, proves) in SHOWN.items():
        own = getattr(dialect.can, name)
        for value in values:
            if value != own and own in proves:
                yield name, value, proves[own]


class Pack:
    """The chosen exchanges, each with the claims that it proves."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, Any]] = {}

    def add(self, candidate: Candidate | None, what: str) -> None:
        """Add a candidate for the claim `what`."""
        if candidate is None:
            return
        line = self._lines.setdefault(candidate.exchange.id, {**candidate.line, "proves": []})
        if what not in line["proves"]:
            line["proves"].append(what)

    def prefer(self, found: list[Candidate]) -> Candidate | None:
        """Return a candidate that is already chosen, otherwise the simplest one; None if `found` is
        empty."""
        chosen = [one for one in found if one.exchange.id in self._lines]
        return next((one for one in chosen + found if one.calm), None)

    @property
    def text(self) -> str:
        lines = sorted(self._lines.values(), key=lambda line: line["id"])
        dumped = (json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines)
        return "".join(f"{line}\n" for line in dumped)


def reached(exchanges: Sequence[Exchange], tables: Tables) -> list[tuple[str, ...]]:
    """Return the ids of the rows that decide the response of each exchange, by its position.

    Kafka names the first violated rule, so a recording proves the messages of these rows. Raises
    KeyError for a release without a dialect.
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
    found = [
        {} if door == NOT_HERE else {ids[door]: None} for door in judged.rejecting_check.tolist()
    ]
    request_of = batch.updates.request.tolist()
    for update, (request, rule) in enumerate(zip(request_of, judged.first.tolist(), strict=True)):
        answered = judged.rejecting_check[request] == NOT_HERE and rule != NOT_HERE
        if answered and (not dialect.can.atomic or failed_by[request] == update):
            found[request][ids[len(dialect.request_checks) + rule]] = None
    return [tuple(rows) for rows in found]


def choose(folder: Path, tables: Tables) -> str:
    """Return the pack as text: one exchange per line, sorted by id."""
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
    # An exchange that changes a level proves more than a refused one.
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
    """Write the pack of chosen exchanges."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RECORDINGS
    text = choose(folder, load().tables)
    PACK.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{PACK.name}: {text.count(chr(10))} exchanges, {PACK.stat().st_size} bytes")


if __name__ == "__main__":
    main()
