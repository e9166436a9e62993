"""Live clusters to landing files: each cluster read once a round, several at a time, nothing sent
that writes. A probe, if one is wanted, is asked after the look, and its line stands last.

What could not be asked is written down as such, never left out. One cluster's trouble is its own:
the others go on, and each file is there whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from featurelib.backends.base import Backend, Say
from featurelib.backends.opening import look
from featurelib.configuration.fleet import Cluster
from featurelib.core.refusals import NOT_AUTHORIZED
from featurelib.errors import CredentialsError, FeatureLibError, LandingError, UnreachableError
from featurelib.feature import Role
from featurelib.landing import ApiVersionsAnswer, Landing, Rejected, read
from featurelib.landing.envelope import write_line
from featurelib.landing_files import files_of, name_of, read_lines, write_lines
from featurelib.probing import Probed

ASKED_VERSION = 4  # of ApiVersions: lower ones leave out ranges from 0 (KIP-1022)
UNKNOWN_ENDPOINT = "unknown"

Open = Callable[[Cluster], Backend]
Probing = Callable[[Backend, Cluster, Sequence[bytes], Say], Probed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """One listener of one node: a broker or a controller."""

    node_id: int
    role: Role

    def __str__(self) -> str:
        return f"{self.role.text} {self.node_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What one round brought of one cluster. `error` says why it could not be looked at."""

    entry: Cluster
    cluster_id: str = ""
    file: Path | None = None
    lines: int = 0
    answered: tuple[Half, ...] = ()
    silent: dict[Half, str] = field(default_factory=dict)  # why each did not answer
    not_allowed: dict[str, tuple[str, ...]] = field(default_factory=dict)  # words → who refused
    refused: tuple[str, ...] = ()  # reasons for which ingest would quarantine a line
    error: str = ""
    probe: str = ""  # what became of the probe, in a sentence; "" = none was wanted

    @property
    def title(self) -> str:
        """What people call the cluster; how it is reached, where nothing says who it is."""
        entry = self.entry
        ways = ",".join((*entry.bootstrap, *entry.controller_bootstrap))
        return entry.title or self.cluster_id or entry.file or entry.zookeeper or ways


def collect(
    entries: Sequence[Cluster],
    out: Path,
    open_one: Open,
    *,
    parallel: int,
    say: Say,
    probing: Probing | None = None,
) -> Iterator[Collected]:
    """Read each cluster and write its landing file below `out`; yields them as they end.

    `probing` asks each controller to validate what could go up; None = nothing is asked. `say`
    hears of the steps where there is one cluster only. Raises ConfigError for a folder that
    cannot be written to, once every cluster had its turn.
    """
    told = say if len(entries) == 1 else _quietly
    faults: list[BaseException] = []
    pool = ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="collect")
    try:
        rounds = [
            pool.submit(collect_one, entry, out, open_one, told, probing) for entry in entries
        ]
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
    entry: Cluster, out: Path, open_one: Open, say: Say, probing: Probing | None = None
) -> Collected:
    """Read one cluster and write what it said, or that it said nothing. Raises ConfigError for a
    folder that cannot be written to; the cluster's own errors are in the result."""
    probed = None
    try:
        with closing(open_one(entry)) as backend:
            lines = look(backend, entry, say)
            if probing is not None:
                probed = probing(backend, entry, lines, say)
    except (UnreachableError, CredentialsError) as error:  # nobody could be asked
        return _unreached(entry, out, str(error))
    except FeatureLibError as error:  # it is not the nodes that are at fault
        return Collected(entry=entry, cluster_id=entry.id, error=str(error))
    if probed is None:
        return _written(entry, out, lines)
    more = () if probed.line is None else (probed.line,)
    return replace(_written(entry, out, (*lines, *more)), probe=probed.text)


def _written(entry: Cluster, out: Path, lines: Sequence[bytes], error: str = "") -> Collected:
    said = [read(line) for line in lines]
    landed = [line for line in said if isinstance(line, Landing)]
    answers = [line.content for line in landed if isinstance(line.content, ApiVersionsAnswer)]
    silent = {_half(one): one.error for one in answers if one.error is not None}
    answered = dict.fromkeys(_half(one) for one in answers if one.error is None)
    cluster_id = entry.id or next((line.cluster for line in landed), "")
    path = out / name_of(cluster_id, datetime.now(UTC))
    return Collected(
        entry=entry,
        cluster_id=cluster_id,
        file=path,
        lines=write_lines(path, lines),
        answered=tuple(sorted(answered, key=_order)),
        silent={half: silent[half] for half in sorted(silent, key=_order) if half not in answered},
        not_allowed=_not_allowed(lines),
        refused=tuple(line.reason for line in said if isinstance(line, Rejected)),
        error=error,
    )


class _Refusal(msgspec.Struct):
    """What a line says that has no answer because a right is missing."""

    error: str | None = None
    error_code: int | None = None
    asked_node: int | None = None
    listener: str = ""
    role: str = ""


def _not_allowed(lines: Sequence[bytes]) -> dict[str, tuple[str, ...]]:
    """What the user may not ask, in the words that name the right, and who refused it."""
    found: dict[str, list[str]] = {}
    for line in lines:
        said = msgspec.json.decode(line, type=_Refusal)
        if said.error and said.error_code == NOT_AUTHORIZED:
            found.setdefault(said.error, []).append(
                f"{said.listener or said.role} {said.asked_node}"
            )
    return {words: tuple(halves) for words, halves in found.items()}


def _unreached(entry: Cluster, out: Path, error: str) -> Collected:
    """Nothing answered: a line for each node that should have."""
    now = int(datetime.now(UTC).timestamp() * 1_000_000)
    lines = [
        write_line(
            "api_versions",
            entry.id,
            now,
            {
                "node_id": half.node_id,
                "role": half.role.text,
                "endpoint": endpoint,
                "asked_version": ASKED_VERSION,
                "error": error,
            },
        )
        for half, endpoint in known_nodes(entry, out).items()
    ]
    if not lines:  # nobody is known who could be said not to answer
        return Collected(entry=entry, cluster_id=entry.id, error=error)
    return _written(entry, out, lines, error)


def known_nodes(entry: Cluster, out: Path) -> dict[Half, str]:
    """The listeners a cluster is known to have, with their endpoints: those the inventory names,
    and those of its newest landing file in this folder."""
    if not entry.id:
        return {}
    found = {Half(node_id=node, role=Role.BROKER): UNKNOWN_ENDPOINT for node in entry.brokers}
    found |= {
        Half(node_id=node, role=Role.CONTROLLER): UNKNOWN_ENDPOINT for node in entry.controllers
    }
    with suppress(LandingError):  # an old file that cannot be read names nobody
        for path in files_of(out, entry.id)[:1]:
            for line in read_lines(str(path)):
                said = read(line.removesuffix(b"\n"))
                if isinstance(said, Landing) and isinstance(said.content, ApiVersionsAnswer):
                    found[_half(said.content)] = said.content.endpoint
    return dict(sorted(found.items(), key=lambda item: _order(item[0])))


def _half(said: ApiVersionsAnswer) -> Half:
    return Half(node_id=said.node_id, role=said.role)


def _order(half: Half) -> tuple[int, int]:
    return half.role, half.node_id


def _quietly(text: str) -> None:
    """Steps of several clusters at once would be mixed up."""
