"""Write landing files from live clusters or from tool output.

This module never writes to a cluster. It prints one line of progress per cluster; a cluster that
fails does not stop the others.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from featurelib.api.clusters import Answer
from featurelib.api.documents import OfRound, document, plain
from featurelib.backends.base import Say, open_backend
from featurelib.backends.kubernetes import PREFIX
from featurelib.backends.prometheus import Prometheus, metrics_lines
from featurelib.catalogue import load
from featurelib.collecting import (
    STDIN,
    Collected,
    ReadOne,
    Round,
    collect_one,
    name_of,
    read_all,
    read_lines,
    scrape_one,
    strimzi_resources,
    write_lines,
)
from featurelib.collecting import probe as ask_to_validate
from featurelib.config import nearest
from featurelib.config.files import quietly
from featurelib.config.fleet import KAFKA_ID, Choice, Fleet, FleetEntry
from featurelib.errors import BackendError, ConfigError
from featurelib.feature import Role
from featurelib.landing.fields import write_time
from featurelib.landing.line import KINDS
from featurelib.landing.samples import KIND as METRICS
from featurelib.landing.strimzi import KIND as STRIMZI
from featurelib.landing.tool_outputs import ToolOutput, convert
from featurelib.source import Wanted, choose_entries, open_fleet
from featurelib.view.documents import ConvertedDocument, fill
from featurelib.view.layout import Page
from featurelib.words import clean, count, progress, some

PROGRESS_SECONDS = 10.0  # seconds between two progress lines of a round
SHOWN = 3  # Maximum number of silent listeners in a line


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReading:
    """The options of `collect` for live clusters: their nodes or a Prometheus server."""

    prometheus: str | None = None
    token: str | None = None
    parallel: int = 8
    probe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFile:
    """The options of `collect` for a file that contains a tool's output."""

    from_: str | None = None
    kind: str | None = None
    of_cluster: str | None = None
    observed_at: str | None = None
    path: list[str] | None = None
    chroot: str = ""
    node_id: int | None = None
    controller: bool = False

    @property
    def node(self) -> tuple[Role, int] | None:
        """The (role, id) of the node that the tool queried, from --node-id. Raises ConfigError."""
        if self.node_id is None and not self.controller:
            return None
        if self.node_id is None or self.kind != "features_describe":
            kind = "--controller alone" if self.node_id is None else f"--kind {self.kind}"
            raise ConfigError(
                f"{kind}: --node-id and --controller need --kind features_describe. --node-id is "
                "the node of `kafka-features.sh describe --node-id`. Correct the option or leave "
                "it out."
            )
        return Role.CONTROLLER if self.controller else Role.BROKER, self.node_id

    def expect_none(self) -> None:
        """Raise ConfigError if an option is given that needs --from."""
        for name, value in asdict(self).items():
            if value not in (None, "", False):
                option = name.removeprefix("of_").replace("_", "-")
                raise ConfigError(f"--{option} needs --from FILE. Add --from FILE.")


def collect(
    clusters: list[str] | None = None,
    out: str = "",
    *,
    choice: Choice = Choice(),  # noqa: B008  nothing in these is ever changed
    reading: LiveReading = LiveReading(),
    given: ToolFile = ToolFile(),
    options: Wanted = Wanted(),  # noqa: B008
    say: Say = quietly,
) -> Answer[Any]:
    """Read clusters, and write the nodes' responses.

    A cluster's landing file has the responses of all nodes, and names nodes that did not respond.
    In Python: collect(["payments-eu"], "landing").value.clusters[0].file.

    Exit codes: 0 done; 2 usage; 5 some clusters could not be read, the others are written.

    \b
        featurelib collect --out landing
        featurelib collect payments-eu --out landing
        featurelib collect --from dump.txt --kind metadata_log --cluster payments-eu --out landing
        featurelib collect --from kafkas.json --kind strimzi --out landing
        featurelib collect --prometheus http://prometheus.example:9090 --out landing
    """
    if not out:
        raise ConfigError("The folder for the landing files is missing. Add --out FOLDER.")
    kind = given.kind
    if given.from_ is not None:
        if reading.probe:
            raise ConfigError("--probe needs a live cluster. Remove --probe or --from.")
        if kind is None or clusters or (given.of_cluster is None and kind != STRIMZI):
            raise ConfigError(
                f"--from {given.from_} needs --kind KIND and --cluster CLUSTER, and no other "
                f"cluster. KIND is one of {', '.join(KINDS)}."
            )
        source = ToolOutput(
            where=given.from_,
            cluster_id=given.of_cluster or "",
            observed_at=_read_at(given.from_, given.observed_at, say),
            paths=tuple(given.path or ()),
            chroot=given.chroot,
            node=given.node,
        )
        return _take(kind, source, open_fleet(options.fleet, None)[1], Path(out), say)
    given.expect_none()
    read_one, by_metrics = _reader_of(reading, options, Path(out), say), bool(reading.prometheus)
    entries = choose_entries(clusters or [], choice, options, say, by_metrics=by_metrics)
    return _collect(entries, Path(out), read_one, reading.parallel, say)


# --- Files with tools' outputs -------------------------------------------------------------------


def _read_at(name: str, text: str | None, say: Say) -> int:
    """Return the time of a tool's output in microseconds: --observed-at, or the modification time
    of the file. Raises ConfigError."""
    if text is not None:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise ConfigError(
                f"--observed-at {text}: This is not a time. Use the form 2026-11-21T06:00:00Z."
            ) from error
        if moment.tzinfo is None:
            raise ConfigError(
                f"--observed-at {text}: The time zone is missing. Add Z or an offset, such as "
                "+01:00."
            )
        return int(moment.timestamp() * 1_000_000)
    if name == STDIN or name.startswith(PREFIX):
        return time.time_ns() // 1000
    try:
        at = os.stat(name).st_mtime_ns // 1000
    except OSError as error:
        raise ConfigError(
            f"--from {name}: featurelib cannot read this file: {error.strerror}."
        ) from error
    say(f"{name}: read from the cluster at {write_time(at)}, the file's time (--observed-at)")
    return at


def _take(kind: str, source: ToolOutput, inventory: Fleet, out: Path, say: Say) -> Answer[Any]:
    """Write the landing file for a tool's output. `source.cluster_id`: an id, or a name in the
    inventory. Raises LandingError, ConfigError."""
    entry = inventory.named(source.cluster_id, "--cluster: ") if source.cluster_id else None
    if entry is not None:
        source = replace(source, cluster_id=entry.id)
    if kind == STRIMZI:
        return _take_resources(source, inventory, out, say)
    answer = _convert(kind, source, out, say)
    if entry is None and not KAFKA_ID.fullmatch(source.cluster_id):
        titles = [entry.title for entry in inventory.cluster]
        say(
            f"--cluster {clean(source.cluster_id)}: The inventory has no such cluster, and Kafka "
            "makes other ids. featurelib uses the text as a cluster id. "
            f"{nearest(source.cluster_id, titles, SHOWN) if titles else ''}".rstrip()
        )
    return answer


def _convert(kind: str, source: ToolOutput, out: Path, say: Say) -> Answer[ConvertedDocument]:
    """Convert a tool's output into a landing file. Raises LandingError, ConfigError."""
    path = out / name_of(source.cluster_id, datetime.now(UTC), kind)
    read = read_lines(source.where)
    lines = metrics_lines(read, source) if kind == METRICS else convert(kind, read, source)
    line_count = write_lines(path, lines)
    say(
        f"{source.where}: {count(source.lines, 'line')}, of which {source.left_out:,} left out; "
        f"{count(line_count, 'landing line')} of cluster {source.cluster_id}"
    )
    document = fill(
        ConvertedDocument,
        source,
        file=str(path),
        cluster=source.cluster_id,
        observed_at=write_time(source.observed_at),
        read=source.lines,
        lines=line_count,
    )
    return Answer(
        value=document,
        make_rows=lambda: [msgspec.structs.asdict(document)],
        make_document=lambda: document,
        page=lambda width: Page(width, lines=[str(path)]),
    )


def _take_resources(source: ToolOutput, inventory: Fleet, out: Path, say: Say) -> Answer[Round]:
    """Write a landing file for each cluster in the Strimzi resources. If `source` has a cluster id,
    write only its file. Raises LandingError, ConfigError."""
    resources, wanted_id = strimzi_resources(source.where), source.cluster_id
    for reason in resources.left_out:
        say(reason)
    chosen = [resource for resource in resources.clusters if wanted_id in ("", resource.cluster_id)]
    if not chosen:
        ids_text = some([resource.cluster_id for resource in resources.clusters], SHOWN)
        subject = f"no cluster {wanted_id}" if wanted_id else "no usable Kafka resource"
        raise ConfigError(
            f"--from {source.where} has {subject}. Its clusters: {ids_text or 'none'}. Nothing was "
            "written."
        )
    now, done = datetime.now(UTC), []
    for resource in chosen:
        id_ = resource.cluster_id
        entry = inventory.of(id_, FleetEntry(id=id_, name=resource.resource))
        path = out / name_of(id_, now, STRIMZI)
        lines = write_lines(path, [resource.line(source.observed_at)])
        done.append(Collected(entry=entry, id=id_, file=str(path), lines=lines))
        ids_text = inventory.names.get(id_) or id_
        say(f"{resource.resource}: {resource.text}; cluster {ids_text}")
    return _round_answer(done, out)


# --- Live clusters --------------------------------------------------------------------------------


def _reader_of(reading: LiveReading, options: Wanted, out: Path, say: Say) -> ReadOne:
    """Return a function that reads one cluster, from its listeners or from a Prometheus server.
    Raises ConfigError."""
    timeout, probe = options.timeout, reading.probe
    if reading.prometheus is not None:
        if probe:
            raise ConfigError("--probe needs a live cluster. Remove --probe or --prometheus.")
        server = Prometheus(reading.prometheus, timeout=timeout, token=reading.token)
        return partial(scrape_one, out=out, describe=server.describe)
    if reading.token is not None:
        raise ConfigError("--token needs --prometheus URL. Add --prometheus URL.")
    open_one = partial(open_backend, catalogue=load(), timeout=timeout)
    probing = partial(ask_to_validate, catalogue=load()) if probe else None
    if probe:
        say(
            "--probe: each KRaft controller is sent one UpdateFeatures request with ValidateOnly "
            "for what could be upgraded; nothing is written. It needs ALTER on the cluster."
        )
    return partial(collect_one, out=out, open_one=open_one, probing=probing)


def _collect(
    entries: list[FleetEntry], out: Path, read_one: ReadOne, parallel: int, say: Say
) -> Answer[Round]:
    results = read_all(entries, read_one, parallel=parallel, say=say)
    done, began = [], time.monotonic()
    reported_at = began
    for result in results:
        done.append(result)
        say(_line(result, alone=len(entries) == 1))
        now, waiting = time.monotonic(), len(entries) - len(done)
        if now - reported_at >= PROGRESS_SECONDS and waiting:
            seconds = (now - began) / len(done) * waiting
            say(f"collect: {progress(len(done), len(entries), 'cluster', seconds)}")
            reported_at = now
    return _round_answer(done, out)


def _round_answer(done: list[Collected], out: Path) -> Answer[Round]:
    """Return the answer of `collect`, which summarizes the results of all clusters."""
    failed = [result for result in done if result.error]
    read = f"{count(len(done) - len(failed), 'cluster')} read"
    missed = f", {len(failed)} not: {', '.join(r.name for r in failed)}" if failed else ""
    landed = any(result.file for result in done)
    files = f"Landing files are in {out}" if landed else "No data was collected"
    return Answer(
        value=Round(tuple(done)),
        make_rows=lambda: map(plain, done),
        make_document=lambda: document(fill(OfRound, out=str(out)), Round(tuple(done))),
        page=lambda width: Page(width, lines=[f"{read}{missed}. {files}"]),
        exit_code=BackendError.exit_code if failed else 0,
    )


def _line(result: Collected, *, alone: bool) -> str:
    """Return the result of collecting one cluster as a line. `alone`: omit missing permissions."""
    if result.error:
        number = len(result.not_answering)
        text = f"{count(number, 'listener')} did not respond" if number else "no node could be read"
        recorded = f"Recorded: {text}" if result.file else "Nothing is recorded"
        nameless = "" if result.id else ": the cluster's id is unknown. Set id in fleet.toml"
        error = result.error.removeprefix(f"{result.name}: ").rstrip(".")
        return f"{result.name}: NOT READ: {error}. {recorded}{nameless}."
    silent = ""
    if late := result.not_answering:
        late_nodes = [f"{node.role.text} {node.node_id}: {node.error}" for node in late[:SHOWN]]
        dots = "; …" if len(late) > SHOWN else ""
        silent = f", {len(late)} did not ({'; '.join(late_nodes)}{dots})"
    reasons = [*dict.fromkeys(result.quarantined)]
    faults = f"; ingest will quarantine: {some(reasons, SHOWN)}" if reasons else ""
    probe = f"; {result.probe}" if result.probe else ""
    missing, answered = () if alone else result.not_allowed, len(result.answered)
    rights = "".join(f"; {some(node.refused_by, SHOWN)}: {node.error}" for node in missing)
    return f"{result.name}: {count(answered, 'listener')} responded{silent}{rights}{faults}{probe}"
