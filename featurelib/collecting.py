"""Collect live clusters into landing files: one file per cluster and collection, several in
parallel.

A node that did not respond gets a line with the error. If no address of a cluster responds, one
line records that the cluster was not reached; its nodes get no lines, because the address may be
wrong. A failing cluster does not stop the others. A complete file gets a name that begins with the
time, because readers skip some first characters of a cluster id.

A probe follows the queries. It asks the active controller to validate the first request of the plan
that the audit would make. That plan assumes that nodes of unknown range support every level, and
the controller checks this. If no level can rise, the probe is for the present metadata.version. A
probe is sent only if it cannot write: in KRaft mode, if every possible dialect honours
`ValidateOnly`, and never for kraft.version (4.1 applies it during validation).
"""

from __future__ import annotations

import errno
import gzip
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from featurelib.audit.cluster_view import ClusterView, Inputs, without_nodes
from featurelib.backends.base import (
    Backend,
    Say,
    id_of,
    is_honoured,
    moves_text,
    read_cluster,
    validate,
)
from featurelib.backends.kubernetes import PREFIX, list_resources
from featurelib.catalogue import Catalogue
from featurelib.config.files import quietly, write_whole
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.core.reply import Reply
from featurelib.errors import (
    FeatureLibError,
    LandingError,
    NoEvidenceError,
    RefusedError,
    UnreachableError,
)
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role, UpgradeType, Verdict
from featurelib.findings import tagged
from featurelib.landing import ApiVersionsAnswer, Landing, NodeMetrics, Quarantined, read
from featurelib.landing.fields import write_line
from featurelib.landing.kinds import ProbedUpdate
from featurelib.landing.responses import ALTER, NOT_AUTHORIZED, VOTERS, UpdateFeatures
from featurelib.landing.samples import KIND as METRICS
from featurelib.landing.strimzi import StrimziFleet, objects_of, read_resources
from featurelib.model import Move, Step
from featurelib.planning.requirements import steps_of

SUFFIX = ".jsonl"
_TIME = "%Y%m%dT%H%M%S.%fZ"
_SAFE = re.compile(r"[^A-Za-z0-9_-]")
_GZIP = b"\x1f\x8b"
STDIN = "-"
ENDINGS = tuple(f".{end}{packed}" for end in ("jsonl", "ndjson", "json") for packed in ("", ".gz"))
_LONGEST_LINE = 512 << 20  # the maximum length of a line, in bytes
LONGEST_ID = 100  # the maximum length of a cluster id in a file name; real ids have 22 characters


def name_of(cluster_id: str, at: datetime, part: str = "") -> str:
    """Return the name of a cluster's landing file: `TIME-CLUSTER[-PART].jsonl`."""
    return f"{at.astimezone(UTC).strftime(_TIME)}-{_slug(cluster_id)}{part and '-' + part}{SUFFIX}"


def write_lines(path: Path, lines: Iterable[bytes]) -> int:
    """Write landing lines to a new file atomically; return the number of lines. Raises ConfigError
    if the folder is not writable."""
    return write_whole(str(path), (line + b"\n" for line in lines), "--out FOLDER")


def read_lines(
    name: str, kind: str = "this file", advice: str = "Nothing was written."
) -> Iterator[bytes]:
    """Yield the lines of a file (plain or gzip) or of stdin (`-`). `kind` and `advice` appear in
    the LandingError."""
    number = 0
    try:
        with open(0 if name == STDIN else name, "rb", closefd=name != STDIN) as raw:
            zipped = raw.peek(2)[:2] == _GZIP
            stream = gzip.GzipFile(fileobj=raw) if zipped else raw
            while line := stream.readline(_LONGEST_LINE + 1):
                if len(line) > _LONGEST_LINE:
                    raise OSError(errno.EFBIG, f"a line of more than {_LONGEST_LINE >> 20} MiB")
                number += 1
                yield line
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        source = f"{name}:{number + 1}" if number else name
        raise LandingError(
            f"{source}: featurelib cannot read {kind}: {reason}. {advice}"
        ) from error


def strimzi_resources(name: str) -> StrimziFleet:
    """Return the clusters in Strimzi resources. `name`: a file with kubectl's output (plain or
    gzip), stdin (`-`) or an API server (kubernetes:CONTEXT). Raises LandingError, ConfigError,
    UnreachableError."""
    if name.startswith(PREFIX):
        return read_resources(list_resources(name.removeprefix(PREFIX)), name)
    source = "standard input" if name == STDIN else name
    return read_resources(objects_of(read_text(name), source), source)


def read_text(name: str) -> str:
    """Return the text of a JSON file (plain or gzip) or of stdin (`-`). Raises LandingError."""
    try:
        return b"".join(read_lines(name)).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        source = "standard input" if name == STDIN else name
        raise LandingError(
            f"{source}: The file is not JSON in UTF-8: byte 0x{error.object[error.start]:02x} at "
            f"{error.start + 1}. Nothing was written."
        ) from None


def landing_lines(option: str, path: str) -> Iterator[bytes]:
    """Yield the landing lines in the files below `path`, by file name. `option`: named in messages.
    Raises LandingError (no such place, damaged file), NoEvidenceError (no landing file)."""
    folder = Path(path)
    if not folder.exists():
        raise LandingError(f"{option} {path}: There is no such file or folder. Check the path.")
    files = [folder]
    if folder.is_dir():
        files = sorted(f for f in folder.rglob("*") if f.name.endswith(ENDINGS) and f.is_file())
    if not files:
        raise NoEvidenceError(
            f"{option} {path}: The folder has no files *{', *'.join(ENDINGS)}. Use the folder of "
            "the landing files."
        )
    for file in files:
        for line in read_lines(str(file), "this landing file", "Copy the file again."):
            yield line.removesuffix(b"\n").removesuffix(b"\r")


def _slug(cluster_id: str) -> str:
    """Return the cluster id as a safe part of a file name. Different ids give different results."""
    safe = _SAFE.sub("_", cluster_id)
    if safe == cluster_id and len(safe) <= LONGEST_ID:
        return safe
    return f"{safe[:LONGEST_ID]}.{sha256(cluster_id.encode()).hexdigest()[:8]}"


# --- Live clusters --------------------------------------------------------------------------------

ProbeResult = tuple[bytes | None, str]  # (the landing line if a probe was sent, a sentence)
Open = Callable[[FleetEntry], Backend]
Probing = Callable[[Backend, FleetEntry, Sequence[bytes], Say], ProbeResult]


class NodeListener(NamedTuple):
    """A node's listener in one role."""

    role: Role
    node_id: int

    def __str__(self) -> str:
        return f"{self.role.text} {self.node_id}"


class SilentListener(NamedTuple):
    """A listener that did not respond. `error`: the reason."""

    role: Role
    node_id: int
    error: str


class NotAllowed(NamedTuple):
    """A refused request: the missing permission as text, and the nodes that refused."""

    error: str
    refused_by: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The result of collecting one cluster. `error`: why the cluster could not be read;
    `quarantined`: why ingest would quarantine lines; `probe`: the result of the probe, None without
    probe."""

    entry: FleetEntry
    id: str | None = None
    file: str | None = None
    lines: int = 0
    answered: tuple[NodeListener, ...] = ()
    not_answering: tuple[SilentListener, ...] = ()
    not_allowed: tuple[NotAllowed, ...] = ()
    quarantined: tuple[str, ...] = ()
    probe: str | None = None
    error: str | None = None

    @property
    def name(self) -> str:
        """The cluster's name for messages; without name its id or address."""
        entry = self.entry
        addresses = ",".join((*entry.bootstrap, *entry.controller_bootstrap))
        return entry.title or self.id or entry.file or entry.zookeeper or addresses


class Round(NamedTuple):
    """The results of one collection, one per cluster."""

    clusters: tuple[Collected, ...]


class ReadOne(Protocol):
    """The type of a function that reads one cluster and writes its landing file."""

    def __call__(self, entry: FleetEntry, /, *, say: Say) -> Collected: ...


def read_all(
    entries: Sequence[FleetEntry], read_one: ReadOne, *, parallel: int, say: Say
) -> Iterator[Collected]:
    """Read each cluster with `read_one`, several in parallel; yield each result when it is
    complete. `say`: gets the progress of a single cluster. Raises ConfigError, after all clusters
    were read, if the folder is not writable."""
    report = say if len(entries) == 1 else quietly  # progress of several clusters would be mixed up
    faults: list[BaseException] = []
    pool = ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="collect")
    try:
        rounds = [pool.submit(read_one, entry, say=report) for entry in entries]
        for done in as_completed(rounds):
            fault = done.exception()
            if fault is None:
                yield done.result()
            else:
                faults.append(fault)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    if faults:
        raise faults[0]


def collect_one(
    entry: FleetEntry, out: Path, open_one: Open, say: Say, probing: Probing | None = None
) -> Collected:
    """Read one cluster and write its landing file. Errors of the cluster are in the result. Raises
    ConfigError if the folder is not writable."""
    line = text = None
    try:
        with closing(open_one(entry)) as backend:
            lines = read_cluster(backend, entry, say)
            if probing is not None:
                line, text = probing(backend, entry, lines, say)
    except FeatureLibError as error:
        if silent := silence(entry, error):
            return _written(entry, out, silent, str(error))
        return Collected(entry=entry, error=str(error))
    return replace(_written(entry, out, [*lines, *([line] if line else [])]), probe=text)


def silence(entry: FleetEntry, error: FeatureLibError) -> tuple[bytes, ...]:
    """Return the landing lines of a failed collection: silent nodes, or that no node was reached.
    () if the cluster's id is unknown."""
    unreached = error if isinstance(error, UnreachableError) else UnreachableError(str(error))
    # Lines about nodes of another cluster prove nothing about this cluster.
    if not entry.id or entry.id in map(id_of, unreached.lines):
        return unreached.lines
    now = time.time_ns() // 1000
    return (write_line("not_reached", entry.id, now, {"error": unreached.reason}),)


def _written(
    entry: FleetEntry, out: Path, lines: Sequence[bytes], error: str | None = None, suffix: str = ""
) -> Collected:
    contents = [read(line) for line in lines]
    landed = [line for line in contents if isinstance(line, Landing)]
    scraped = {_listener(n.content) for n in landed if isinstance(n.content, NodeMetrics)}
    answers = [line.content for line in landed if isinstance(line.content, ApiVersionsAnswer)]
    silent = {_listener(answer): answer.error for answer in answers if answer.error is not None}
    answered = {_listener(answer) for answer in answers if answer.error is None} | scraped
    cluster_id = entry.id or next((line.cluster for line in landed), "")
    path = out / name_of(cluster_id, datetime.now(UTC), suffix)
    return Collected(
        entry=entry,
        id=cluster_id or None,
        file=str(path),
        lines=write_lines(path, lines),
        answered=tuple(sorted(answered)),
        not_answering=tuple(
            SilentListener(*key, silent[key]) for key in sorted(silent.keys() - answered)
        ),
        not_allowed=_not_allowed(lines),
        quarantined=tuple(line.reason for line in contents if isinstance(line, Quarantined)),
        error=error,
    )


class _Refusal(msgspec.Struct):
    """The fields of a landing line about a refused request."""

    error: str | None = None
    error_code: int | None = None
    asked_node: int | None = None
    listener: str = ""
    role: str = ""


def _not_allowed(lines: Sequence[bytes]) -> tuple[NotAllowed, ...]:
    refusals: dict[str, list[str]] = {}
    for line in lines:
        refusal = msgspec.json.decode(line, type=_Refusal)
        if refusal.error and refusal.error_code == NOT_AUTHORIZED:
            refusals.setdefault(refusal.error, []).append(
                f"{refusal.listener or refusal.role} {refusal.asked_node}"
            )
    return tuple(NotAllowed(error, tuple(nodes)) for error, nodes in refusals.items())


def scrape_one(
    entry: FleetEntry, out: Path, describe: Callable[[FleetEntry], Sequence[bytes]], say: Say
) -> Collected:
    """Write a landing file with the metrics of one cluster's nodes. Nodes without metrics get no
    line. Raises ConfigError if the folder is not writable."""
    say(f"{entry.title}: asking for its metrics")
    try:
        lines = describe(entry)
    except FeatureLibError as error:
        return Collected(entry=entry, id=entry.id, error=str(error))
    return _written(entry, out, lines, suffix=METRICS)


def _listener(content: ApiVersionsAnswer | NodeMetrics) -> NodeListener:
    return NodeListener(content.role, content.node_id)


# --- A probe --------------------------------------------------------------------------------------

_DAY = 86_400_000_000  # microseconds; new data is never older
_TIMEOUT_MS = 10_000  # milliseconds; a collector waits less long than an applier
_NOTHING = "probe: nothing was sent: "


def probe(
    backend: Backend, entry: FleetEntry, lines: Sequence[bytes], say: Say, catalogue: Catalogue
) -> ProbeResult:
    """Send a probe to the controller of the cluster in `lines`; return the result. An error becomes
    the result's text."""
    try:
        view, is_unsure = _view_of(entry, lines, catalogue)
        step = _question(backend, view, is_unsure)
    except FeatureLibError as error:
        return None, f"{_NOTHING}{error}"
    names = ("feature", "from_level", "to_level")
    updates = [ProbedUpdate(**{name: getattr(u, name) for name in names}) for u in step.updates]
    keys: dict[str, object] = {"updates": updates}
    moves = moves_text(step)
    try:
        reply = validate(backend, step, lambda text: say(f"{backend.where}: {text}"))
    except RefusedError as error:
        return None, f"{_NOTHING}{error}"
    except FeatureLibError as error:  # a request to validate writes no record
        keys["error"] = text = str(error)
        sentence = f"probe: no response to {moves}: {text}"
    else:
        keys["answer"] = UpdateFeatures.of(reply)
        sentence = f"probe: the controller {_verdict(reply)}: {moves}"
    return write_line("probe", view.cluster_id, time.time_ns() // 1000, keys), sentence


def _view_of(
    entry: FleetEntry, lines: Sequence[bytes], catalogue: Catalogue
) -> tuple[ClusterView, bool]:
    """Return (view of the cluster for a probe, true if the probe also proves registrations). The
    view assumes that all registrations are known and every level is supported."""
    cluster_id = id_of(lines[0])
    fleet = Fleet(cluster=(msgspec.structs.replace(entry, id=cluster_id),))
    inputs = Inputs(catalogue=catalogue, as_of=None, max_age=_DAY, fleet=fleet)
    view = inputs.see_lines(lines)
    unsure, unseen = tagged("unproven", "unseen"), tagged("unseen")
    findings = [row for row in view.judged.findings.to_pylist() if row["code"] in unsure]
    unreached = [row["node_id"] for row in findings if row["code"] in unseen]
    # The probe is about exactly these unknown nodes, whatever voters are configured.
    row = without_nodes(view.rows, unreached, (VOTERS,)) if findings else view.rows
    return replace(inputs, controller_decides=True).see(row), bool(findings)


def _question(backend: Backend, view: ClusterView, is_unsure: bool) -> Step:
    """Return the first request of the plan, to be validated. Raises RefusedError if the plan is
    empty, or the controller might apply the request."""
    if not is_honoured(backend, view.dialects):
        raise RefusedError("this controller would apply a request to validate.")
    [plan] = view.judged.plans.select(["verdict", "steps"]).to_pylist()
    first_step = steps_of(plan["steps"] or ())[:1]
    updates = tuple(m for step in first_step for m in step.updates if m.feature != KRAFT_VERSION)
    present = view.cluster.level(METADATA_VERSION)
    if not updates and is_unsure and plan["verdict"] == Verdict.UP_TO_DATE and present:
        kind = UpgradeType.UPGRADE.name
        target_move = Move(
            feature=METADATA_VERSION, from_level=present, to_level=present, upgrade_type=kind
        )
        updates = (target_move,)
    if not updates:
        raise RefusedError(f"the collected data allows no upgrade ({plan['verdict']}).")
    return Step(updates=updates, timeout_ms=_TIMEOUT_MS)


def _verdict(reply: Reply) -> str:
    if reply.code == NOT_AUTHORIZED:
        return f"did not validate, because the permission {ALTER} on the cluster is missing"
    refused = [result for result in reply.results or () if result.code]
    if not reply.code and not refused:
        return "agreed, validating only"
    words = reply.message if reply.code else refused[0].message
    return f"refused ({words or 'without words'}), validating only"
