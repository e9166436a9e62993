"""Variants of recorded and random clusters of which some landing lines are left out.

The law: no line that is left out makes a feature READY, or READY for a higher level. Variants go
through the public doors (`landing.read`, the fold, the audit), many in one audit as a fleet.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import hashlib
import json
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import Phase, given, settings

from featurelib.audit.audit import judge
from featurelib.audit.columns import latest
from featurelib.audit.evidence import Conditions
from featurelib.catalogue import Catalogue
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load as load_dialect
from featurelib.feature import Role
from featurelib.landing import ApiVersionsAnswer, Landing, read
from featurelib.landing.kinds import (
    ClusterDescription,
    ConfigDescription,
    LogLine,
    NodeDescription,
    NotReachedLine,
    QuorumDescription,
    ToolLine,
    Znode,
    broker_id,
    controller,
    tool_feature,
)
from featurelib.snapshot import fold_lines, snapshot_rows
from featurelib.snapshot.state import FASTEST_RESTART, ONE_READING
from tests.core.lines import MAX_AGE, NOW, lines_of
from tests.core.oracle import Cluster
from tests.core.random_clusters import clusters

ROOT = Path(__file__).parents[2]
CAPTURES = ("data/samples", "tests/data", "tests/walk/cases")
MOMENT = 10_000_000  # microseconds between two lists that are of one moment
BATCH = 400  # variants in one audit
_CLUSTER = re.compile(rb'"cluster_id": ?"([^"]+)"')

Verdict = tuple[str, int]  # and the target, 0 = none
Without = tuple[int, ...]  # the positions of the lines that are left out


class Capture(NamedTuple):
    """The landing lines of one cluster, each with its line id, and the time to judge them as of."""

    name: str
    raw: list[bytes]
    lines: list[tuple[Landing, int]]
    as_of: int


class Violation(NamedTuple):
    """A feature that is READY, or READY for more, because lines were left out."""

    capture: Capture
    without: Without
    feature: str
    whole: Verdict | None
    part: Verdict

    def __str__(self) -> str:
        left_out = "".join(f"\n    - {self.capture.raw[i].decode()[:300]}" for i in self.without)
        return f"{self.capture.name}: {self.feature} {self.whole} -> {self.part}{left_out}"


def capture_of(name: str, raw: Sequence[bytes], as_of: int = 0) -> Capture:
    """Return a capture of these lines; those that are quarantined are in no capture. `as_of` 0 =
    the time of the newest line."""
    good, lines = list[bytes](), list[tuple[Landing, int]]()
    for text in dict.fromkeys(raw):
        landing = read(text)
        if isinstance(landing, Landing):
            digest = hashlib.sha256(text).digest()[:8]
            good.append(text)
            lines.append((landing, int.from_bytes(digest, "big", signed=True)))
    newest = max((landing.observed_at or 0 for landing, _ in lines), default=0)
    return Capture(name, good, lines, as_of or newest)


@cache
def captures() -> list[Capture]:
    """Return every recorded capture of the tree, a cluster each, in the order of their names.

    The earlier nights of a sample are a capture of their own, and once more with its newest night.
    """
    found = dict[tuple[str, str], list[bytes]]()
    nights = defaultdict[str, list[bytes]](list)
    for folder in CAPTURES:
        for path in sorted((ROOT / folder).rglob("*.jsonl*")):
            if path.suffix == ".xz":  # recorded exchanges, which are no landing lines
                continue
            text = path.read_bytes()
            for line in (gzip.decompress(text) if path.suffix == ".gz" else text).splitlines():
                cluster = _CLUSTER.search(line)
                if cluster is None:
                    continue
                name = path.parent.name if path.name == "landing.jsonl" else path.stem
                found.setdefault((name, cluster[1].decode()), []).append(line)
                if "laboratory" in str(path):
                    nights[cluster[1].decode()].append(line)
    several = {of for of in nights if sum(of == other for _, other in found) > 1}
    rest = {("all nights", of): lines for of, lines in nights.items() if of in several}
    made = [
        capture_of(f"{name} {of}", lines) for (name, of), lines in sorted((found | rest).items())
    ]
    return [one for one in made if one.lines]


def single(capture: Capture) -> Iterator[Without]:
    """Yield each line of a capture alone."""
    yield from ((i,) for i in range(len(capture.lines)))


def _is_of_kind(landing: Landing, first: Landing) -> bool:
    return landing.kind == first.kind


def _is_of_moment(landing: Landing, first: Landing) -> bool:
    return landing.observed_at == first.observed_at


def _is_no_older(landing: Landing, first: Landing) -> bool:
    return (landing.observed_at or 0) >= (first.observed_at or 0)


def at_random(capture: Capture, dice: random.Random, sets: int) -> Iterator[Without]:
    """Yield sets of lines: few, many, and those of a kind or of a moment."""
    places = range(len(capture.lines))
    for _ in range(sets):
        way = dice.random()
        if way < 0.5:
            yield tuple(sorted(dice.sample(places, dice.randint(1, min(5, len(places))))))
        elif way < 0.8:
            share = dice.random()
            yield tuple(i for i in places if dice.random() < share)
        else:
            first, _ = capture.lines[dice.choice(places)]
            alike = dice.choice((_is_of_kind, _is_of_moment, _is_no_older))
            share = dice.choice((1, 1, 0.7))
            lines = enumerate(capture.lines)
            yield tuple(i for i, (of, _) in lines if alike(of, first) and dice.random() < share)


def verdicts(
    capture: Capture, variants: Sequence[Without], catalogue: Catalogue | None = None
) -> list[dict[str, Verdict]]:
    """Judge a capture without the lines of each variant: feature → verdict."""
    known, dialect = catalogue or load_catalogue(), load_dialect("strict")
    states = []
    for number, without in enumerate(variants):
        left_out = set(without)
        lines = [line for i, line in enumerate(capture.lines) if i not in left_out]
        states.append((str(number), fold_lines(lines, known, latest(capture.as_of))))
    inputs = Conditions(as_of=capture.as_of, max_age=MAX_AGE)
    table = judge(snapshot_rows(states), inputs, known, dialect).readiness
    found = [dict[str, Verdict]() for _ in variants]
    for row in table.to_pylist():
        found[int(row["cluster"])][row["feature"]] = row["verdict"], row["target"] or 0
    return found


def violations(capture: Capture, variants: Sequence[Without]) -> Iterator[Violation]:
    """Yield what becomes READY, or READY for more, by leaving out the lines of each variant."""
    [whole] = verdicts(capture, [()])
    for start in range(0, len(variants), BATCH):
        some = variants[start : start + BATCH]
        for without, part in zip(some, verdicts(capture, some), strict=True):
            for feature, (verdict, target) in part.items():
                before = whole.get(feature)
                if verdict == "READY" and (
                    before is None or before[0] != "READY" or before[1] < target
                ):
                    yield Violation(capture, without, feature, before, (verdict, target))


# --- Exceptions: lines that may make a feature READY by being left out, and why -------------------


def _brokers_nobody_speaks_of(capture: Capture, without: Without) -> set[int]:
    """Lines about a broker of ZooKeeper mode of which no line is left since its newest registration
    was read. Such a broker looks like one that was stopped; with the list of `/brokers/ids`, which
    `collect` records, a line is left."""
    about = defaultdict[int, list[int]](list)
    since = dict[int, int]()
    for i, (landing, _) in enumerate(capture.lines):
        node_id, at = _zookeeper_broker(landing), landing.observed_at or 0
        if node_id >= 0:
            about[node_id].append(i)
        if isinstance(landing.content, Znode) and broker_id(landing.content.path) == node_id:
            since[node_id] = max(since.get(node_id, 0), at)
    left_out = set(without)
    return {
        i
        for node_id, lines in about.items()
        if _is_on_zookeeper(capture)
        and all(
            other in left_out
            for other in lines
            if (capture.lines[other][0].observed_at or 0) >= since.get(node_id, 0)
        )
        for i in lines
        if i in left_out
    }


def _zookeeper_broker(landing: Landing) -> int:
    """The broker that a line of ZooKeeper mode speaks of; -1 = none."""
    content = landing.content
    if isinstance(content, Znode):
        found = broker_id(content.path)
        is_controller = found is None and content.path == "/controller"
        return controller(content.data) if is_controller else -1 if found is None else found
    is_broker = isinstance(content, ApiVersionsAnswer) and content.role is Role.BROKER
    return content.node_id if is_broker and isinstance(content, ApiVersionsAnswer) else -1


def _is_on_zookeeper(capture: Capture) -> bool:
    return any(isinstance(landing.content, Znode) for landing, _ in capture.lines)


def _all_that_is_later(capture: Capture, without: Without) -> set[int]:
    """Lines two seconds later than every line that is left: a reading that is lost as a whole looks
    like one that was never made, and the verdict is that of the reading before."""
    rest = {*range(len(capture.lines))} - {*without}
    end = max((_seen(capture, line) for line in rest), default=0)
    return {line for line in without if _seen(capture, line) > end + 2_000_000}


def _whole_quorum(capture: Capture, without: Without) -> set[int]:
    """All lines that show controllers of KRaft beside ZooKeeper: nothing is left of a migration."""
    shows = {
        i
        for i, (landing, _) in enumerate(capture.lines)
        if isinstance(landing.content, QuorumDescription | LogLine)
        or getattr(landing.content, "role", Role.BROKER) is Role.CONTROLLER
    }
    return shows if _is_on_zookeeper(capture) and shows <= set(without) else set()


def _configurations(capture: Capture, without: Without) -> set[int]:
    """Whom a controller is configured to ask. Not having read it makes UNKNOWN only where somebody
    may be named there of whom nothing else is left (docs/decisions/0011-configured-voters.md): real
    clusters; a random one names controllers that never were."""
    return {i for i in without if isinstance(capture.lines[i][0].content, ConfigDescription)}


def _answers_that_know_no_level(capture: Capture, without: Without) -> set[int]:
    """The newest answer of a broker of ZooKeeper mode that shows no finalized level. If that broker
    is the controller it refuses every update, after `/feature` was deleted and made again; and
    nothing but its own answer says so. A broker that does not answer is silent, and no ghost."""
    return {
        i
        for i in without
        if _is_on_zookeeper(capture)
        and isinstance(answer := capture.lines[i][0].content, ApiVersionsAnswer)
        and (answer.role, answer.epoch, answer.error) == (Role.BROKER, -1, None)
    }


def _newest_levels(capture: Capture, without: Without) -> set[int]:
    """All lines of the newest epochs, kafka-features.sh's too: nobody who is left has seen that a
    level moved."""
    epochs = {i: _epoch(landing) for i, (landing, _) in enumerate(capture.lines)}
    seen = max((epoch for i, epoch in epochs.items() if i not in set(without)), default=-1)
    return {i for i in without if epochs[i] > seen}


def _epoch(landing: Landing) -> int:
    content = landing.content
    if isinstance(content, Znode) and content.path == "/feature":
        return -1 if content.version is None else content.version
    if isinstance(content, ToolLine):
        feature = tool_feature(content.line)
        return -1 if feature is None or feature.epoch is None else feature.epoch
    return content.epoch if isinstance(content, ApiVersionsAnswer) else -1


def _end_of_the_log(capture: Capture, without: Without) -> set[int]:
    """The last lines of a dump and all that was seen beyond them: a log that ends there."""
    logs = [i for i, (of, _) in enumerate(capture.lines) if isinstance(of.content, LogLine)]
    beyond = (LogLine, ApiVersionsAnswer, QuorumDescription)
    lost = {i for i in without if isinstance(capture.lines[i][0].content, beyond)}
    return lost if logs and lost & set(logs) else set()


def _lists_that_are_contradicted(capture: Capture, without: Without) -> set[int]:
    """Lists of DescribeCluster that disagree with another one of their moment. Two that disagree
    are UNKNOWN (`lists_disagree`). Of one alone nothing shows that there was another."""
    lists = [(i, of.content) for i, (of, _) in enumerate(capture.lines)]
    listed = [(i, of) for i, of in lists if isinstance(of, ClusterDescription) and of.answered]
    return {
        i
        for i, own in listed
        if i in set(without)
        and any(
            other.role is own.role
            and other.members != own.members
            and abs(_seen(capture, i) - _seen(capture, j)) <= MOMENT
            for j, other in listed
        )
    }


def _lists_of_controllers(capture: Capture, without: Without) -> set[int]:
    """All lists of controllers, and all failures to read one: a cluster that was reported without
    one (docs/decisions/0025-the-newest-reading-decides.md)."""
    lines = enumerate(landing.content for landing, _ in capture.lines)
    lists = {
        i
        for i, of in lines
        if isinstance(of, ClusterDescription) and of.request.role is Role.CONTROLLER
    }
    return lists if lists <= set(without) else set()


def _newer_answers_of_one_reading(capture: Capture, without: Without) -> set[int]:
    """Answers of which an older one of the same node is left, not older than a reading is long:
    lines within five minutes count as one reading (docs/decisions/0025)."""
    answers = [
        (i, (of.content.role, of.content.node_id), _seen(capture, i))
        for i, (of, _) in enumerate(capture.lines)
        if isinstance(of.content, ApiVersionsAnswer)
    ]
    left_out = set(without)
    return {
        i
        for i, node, at in answers
        if i in left_out
        and any(
            other == node and j not in left_out and at - ONE_READING <= then < at
            for j, other, then in answers
        )
    }


def _newer_lists_of_one_reading(capture: Capture, without: Without) -> set[int]:
    """Lists of which an older one of that reading is left, if no list is left that `collect` read
    after it compared a broker with the quorum, or no newer response of the node that gave the older
    one: other collectors read lists before ranges, so nothing shows that there was a later list
    (docs/decisions/0025)."""
    contents = [of.content for of, _ in capture.lines]
    lists = [(i, of) for i, of in enumerate(contents) if isinstance(of, ClusterDescription)]
    left_out = set(without)
    kept = [(i, of) for i, of in lists if i not in left_out]
    is_collected = any(of.end >= 0 for _, of in kept)

    def is_last_of_its_node(line: int, listed: ClusterDescription) -> bool:
        key = listed.request.role, listed.request.asked_node
        return not any(
            isinstance(of, ApiVersionsAnswer)
            and (of.role, of.node_id) == key
            and _seen(capture, i) > _seen(capture, line) + FASTEST_RESTART
            for i, of in enumerate(contents)
            if i not in left_out
        )

    return {
        i
        for i, of in lists
        if i in left_out
        and any(
            older.request.role is of.request.role
            and 0 <= _seen(capture, i) - _seen(capture, j) <= ONE_READING
            and (not is_collected or is_last_of_its_node(j, older))
            for j, older in kept
        )
    }


def _newest_failures(capture: Capture, without: Without) -> set[int]:
    """All failures that are newer than everything that is left: nothing shows that anybody tried to
    read the cluster then."""
    left_out = set(without)
    seen = max(
        (_seen(capture, i) for i in range(len(capture.lines)) if i not in left_out), default=0
    )
    return {i for i in without if _seen(capture, i) > seen and _is_failure(capture.lines[i][0])}


def _is_failure(landing: Landing) -> bool:
    content = landing.content
    if isinstance(content, NodeDescription):
        return not content.answered
    failed = isinstance(content, ApiVersionsAnswer) and content.error is not None
    return failed or isinstance(content, NotReachedLine)


def _seen(capture: Capture, line: int) -> int:
    return capture.lines[line][0].observed_at or 0


EXCEPTIONS = (
    _all_that_is_later, _lists_that_are_contradicted, _brokers_nobody_speaks_of, _whole_quorum,
    _configurations,
    _answers_that_know_no_level, _end_of_the_log, _newest_levels, _lists_of_controllers,
    _newer_answers_of_one_reading, _newer_lists_of_one_reading, _newest_failures,
)  # fmt: skip


def excuse(found: Violation) -> str:
    """Return the exceptions without whose lines nothing becomes READY; "" = there are none."""
    capture, without = found.capture, found.without
    chosen = {of.__name__: of(capture, without) for of in EXCEPTIONS}
    ways = [(name, lines) for name, lines in chosen.items() if lines]
    ways += [("several", set[int]().union(*chosen.values()))] if len(ways) > 1 else []
    for name, lines in ways:
        rest = tuple(i for i in without if i not in lines)
        if all(one.feature != found.feature for one in violations(capture, [rest])):
            return name
    return ""


def drawn(examples: int) -> list[Capture]:
    """Return random clusters as captures, the same ones each time."""
    found: list[Cluster] = []

    @settings(
        max_examples=examples, derandomize=True, deadline=None, database=None,
        phases=[Phase.generate],
    )  # fmt: skip
    @given(clusters())
    def collect(some: list[Cluster]) -> None:
        found.extend(some)

    collect()
    made = [capture_of(f"drawn {i}", lines_of(one), NOW) for i, one in enumerate(found)]
    return [one for one in made if one.lines]


def contradicted(several: Sequence[Capture]) -> list[Capture]:
    """Return the captures that list nodes, each with a second list beside its newest one of each
    role, which lacks the last node."""
    made = list[Capture]()
    for capture in several:
        newest = dict[Role, int]()
        for i, (landing, _) in enumerate(capture.lines):
            of = landing.content
            if isinstance(of, ClusterDescription) and of.answered and of.members:
                first = newest.setdefault(of.role, i)
                newest[of.role] = max(first, i, key=lambda i: (_seen(capture, i), i))
        second = [_without_last_node(capture.raw[i]) for i in newest.values()]
        if second:
            raw = [*capture.raw, *second]
            made.append(capture_of(f"contradicted {capture.name}", raw, capture.as_of))
    return made


def collected_twice(several: Sequence[Capture], dice: random.Random) -> list[Capture]:
    """Return captures of KRaft with lists as `collect` writes them, each with another reading
    seconds or minutes later, in which a node joined that supports no higher level."""
    made = list[Capture]()
    for capture in several:
        parsed = [json.loads(line) for line in capture.raw]
        newest = max((_seen(capture, i) for i in range(len(parsed))), default=0)
        first = [
            line
            for i, line in enumerate(parsed)
            if line["kind"] in _OF_A_READING and _seen(capture, i) + ONE_READING >= newest
        ]
        answers = [line for line in first if line["kind"] == "api_versions"]
        if _is_on_zookeeper(capture) or not answers:
            continue
        seconds = dice.choice((3, 20, 60, 250))
        second = [_later(line, seconds) for line in first]
        joined = _joined(_later(dice.choice(answers), seconds), dice)
        is_seen = dice.random() < 0.5
        if not any(_lists_half(line, joined) for line in second):
            continue  # of this role nobody lists nodes
        for line in second:
            _list_node(line, joined, is_seen)
        lines = [*first, *second, *([joined] * (dice.random() < 0.7))]
        lines += [*_compared(first, 1_000_000), *_compared(second, 2_000_000)]
        raw = [json.dumps(line).encode() for line in lines]
        as_of = capture.as_of + seconds * 1_000_000
        made.append(capture_of(f"twice {capture.name}", raw, as_of))
    return made


def dumped_twice(several: Sequence[Capture], dice: random.Random) -> list[Capture]:
    """Return captures with a dump of the metadata log, each with an earlier dump of another log,
    which lacks the registration of one broker: a former leader's, or of a cluster made before."""
    made = list[Capture]()
    for capture in several:
        dumped = [(i, of) for i, (of, _) in enumerate(capture.lines) if of.kind == "metadata_log"]
        newest = max((_seen(capture, i) for i, _ in dumped), default=0)
        lines = [json.loads(capture.raw[i]) for i, _ in dumped if _seen(capture, i) == newest]
        registers = [line for line in lines if '"REGISTER_BROKER_RECORD"' in line["line"]]
        if not registers:
            continue
        lost, hours = dice.choice(registers), dice.choice((0.001, 1, 240))
        earlier = [_later(line, -3600 * hours) for line in lines]
        for line in earlier:
            if line["line_number"] == lost["line_number"]:
                line["line"] = line["line"].partition("payload:")[0] + f"payload: {_NOTHING}"
        raw = [*(json.dumps(line).encode() for line in earlier), *capture.raw]
        made.append(capture_of(f"dumped twice {capture.name}", raw, capture.as_of))
    return made


_NOTHING = '{"type":"NO_OP_RECORD","version":0,"data":{}}'
_OF_A_READING = {"api_versions", "describe_cluster", "describe_quorum", "describe_configs"}


def _compared(lines: Sequence[dict[str, Any]], end: int) -> Iterator[dict[str, Any]]:
    """Yield the lists that `collect` reads once more, after the broker had the quorum's end."""
    for line in lines:
        shows = line["kind"] == "describe_cluster" and line.get("include_fenced_brokers")
        if shows and line.get("endpoint_type") == 1 and line.get("answer"):
            yield _later(line, 0.1) | {"epoch": end - 1, "high_watermark": end}


def _later(line: dict[str, Any], seconds: float) -> dict[str, Any]:
    time = datetime.fromisoformat(line["observed_at"]) + timedelta(seconds=seconds)
    return copy.deepcopy(line) | {"observed_at": time.isoformat()}


def _joined(line: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """Make the response of a node that supports no level above the finalized one, or none."""
    line |= {"node_id": 4711, "endpoint": "10.9.9.9:9092"}
    if dice.random() < 0.3:
        head = ("kind", "cluster_id", "observed_at", "node_id", "role", "endpoint", "asked_version")
        return {name: line[name] for name in head} | {"error": "no answer within 3 s"}
    levels = {of["name"]: of["max_version_level"] for of in line.get("finalized_features") or ()}
    for of in line.get("supported_features") or ():
        of["max_version"] = max(of["min_version"], levels.get(of["name"], of["min_version"]))
    return line


def _lists_half(line: dict[str, Any], node: dict[str, Any]) -> bool:
    kind = 2 if node["role"] == "controller" else 1
    is_list = line["kind"] == "describe_cluster" and line.get("endpoint_type", 1) == kind
    return is_list and bool((line.get("answer") or {}).get("brokers"))


def _list_node(line: dict[str, Any], node: dict[str, Any], is_seen: bool) -> None:
    """Add a node to the lists of its role, and to the observers if the leader sees it."""
    answer = line.get("answer") or {}
    if _lists_half(line, node):
        listed = answer.get("brokers") or ()
        fenced = {"is_fenced": not is_seen} if line.get("include_fenced_brokers") else {}
        answer["brokers"] = [*listed, *(of | {"broker_id": 4711} | fenced for of in listed[:1])]
    for topic in answer.get("topics", ()) if is_seen else ():
        for part in topic["partitions"]:
            replicas = [*(part.get("current_voters") or ()), *(part.get("observers") or ())]
            seen = [of | {"replica_id": 4711} for of in replicas[:1]]
            part["observers"] = [*(part.get("observers") or ()), *seen]


def _without_last_node(line: bytes) -> bytes:
    listed = json.loads(line)
    listed["answer"]["brokers"].pop()
    return json.dumps(listed).encode()


def main() -> int:
    """Judge random sets of lines left out, and print the figures; 1 where one made READY."""
    words = argparse.ArgumentParser(prog="python -m tests.core.deletions", description=__doc__)
    words.add_argument("--sets", type=int, default=100_000, help="random sets of lines; 0 = none")
    words.add_argument("--seed", type=int, default=int(time.time()))
    chosen = words.parse_args()
    dice, counts, shown = random.Random(chosen.seed), Counter[str](), Counter[str]()
    several = captures()
    work = [(one, list(single(one))) for one in several]
    if chosen.sets:
        random_clusters = drawn(600)
        twice = collected_twice([*several, *random_clusters], dice)
        twice += dumped_twice([*several, *random_clusters], dice)
        several = [*several, *contradicted(several), *random_clusters, *twice]
        share = -(-chosen.sets // len(several))
        work += [(one, list(at_random(one, dice, share))) for one in several]
    for capture, variants in work:
        counts["variants"] += len(variants)
        for found in violations(capture, variants):
            if name := excuse(found):
                counts[f"excused: {name.strip('_').replace('_', ' ')}"] += 1
                continue
            kinds = sorted({capture.lines[i][0].kind for i in found.without})
            counts["READY by it"] += 1
            shown[kind := f"{capture.name} {' '.join(kinds)}"] += 1
            if shown[kind] == 1:
                print(found, flush=True)
    print(f"seed {chosen.seed}: " + ", ".join(f"{n:,} {what}" for what, n in counts.items()))
    return int(counts["READY by it"] > 0)


if __name__ == "__main__":
    sys.exit(main())
