"""Choose one cluster by options, and read it: live, from landing files, or from tables.

Addresses in options replace the inventory's; the inventory's security and owner still apply. A plan
needs an explicit source. A question without an explicit source reads a cluster that the inventory
can reach; for any other name it uses the samples' tables.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypedDict

import msgspec

from featurelib.audit.cluster_view import ClusterView, Inputs
from featurelib.audit.findings import InForce, Mute, Site
from featurelib.backends.base import TIMEOUT_SECONDS, Backend, Say, open_backend, read_cluster
from featurelib.catalogue import Catalogue
from featurelib.collecting import landing_lines
from featurelib.config import example
from featurelib.config.files import (
    CHECKOUT,
    HERE,
    INVENTORY,
    SETTINGS,
    find_file,
    find_place,
    find_settings,
    named_journal,
    open_settings,
    quietly,
    read_file,
)
from featurelib.config.fleet import (
    ADDRESSES,
    KAFKA_ID,
    Choice,
    Fleet,
    FleetEntry,
    faults,
    parse_fleet,
)
from featurelib.config.settings import Settings, mutes_of
from featurelib.controller.holder import say_seconds
from featurelib.controller.journal import ClusterArgs
from featurelib.controller.reading import Watcher
from featurelib.errors import ConfigError, NoEvidenceError, SurroundingsError, TableError
from featurelib.lake import Lake, places
from featurelib.model import Guards
from featurelib.planning.requirements import Guarding
from featurelib.words import microseconds

NEWEST = "newest"  # value of --as-of: the time of the newest line
RUN_TIME = "run"  # value of --as-of in a question about a run: the run's own time
SAMPLES = CHECKOUT.parent / "data" / "samples"
NIGHTS_BEFORE = CHECKOUT.parent / "data" / "nights" / "tables.tar.gz"  # the tables of the samples
SAMPLES_MARK = ".featurelib.samples"  # a file in tables that were made from the samples
SAMPLE_BUILD = CHECKOUT.parent / "build" / "samples"
SAMPLE_TABLES = SAMPLE_BUILD / "tables"
WAYS = ("bootstrap", "controllers", "zookeeper", "file")
_SHOWN = 3  # the maximum number of printed quarantined lines
_OTHERS = f"{ADDRESSES}, or name what was read of it (--tables FOLDER, --capture PATH)"


class Ways(TypedDict, total=False):
    """The options of Wanted that reach a live cluster or name files."""

    bootstrap: str | None
    controllers: str | None
    zookeeper: str | None
    file: str | None
    fleet: str | None
    config: str | None
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options that choose a cluster and the source of its data."""

    cluster: str | None = None
    capture: str | None = None
    tables: str | None = None
    run: int | None = None
    as_of: str | None = None
    fleet: str | None = None
    config: str | None = None
    overlay: str | None = None
    bootstrap: str | None = None
    controllers: str | None = None
    zookeeper: str | None = None
    file: str | None = None
    timeout: float = TIMEOUT_SECONDS

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses in the options: option → value. They replace the inventory's addresses."""
        options = {name: getattr(self, name) for name in WAYS}
        return {name: value for name, value in options.items() if value is not None}

    @property
    def addresses_anywhere(self) -> dict[str, str]:
        """The addresses in the options, with absolute paths."""
        return self.addresses | ({"file": os.path.abspath(self.file)} if self.file else {})

    @property
    def ways(self) -> tuple[str, str]:
        """The options, each after a blank, for another command: (to read the same data, to read the
        cluster again after a change)."""
        later = replace(self, capture=None, tables=None, run=None)
        if later != self:
            later = replace(later, as_of=None)
        return self._text, later._text

    @property
    def of_files(self) -> str:
        """The options, each after a blank, for inventory, settings and overlay."""
        return Wanted(fleet=self.fleet, config=self.config, overlay=self.overlay)._text

    def later(self, entry: FleetEntry) -> str:
        """Return the options for a plan after a change. They read the live cluster or, without
        address, newly collected files."""
        options_now, later = replace(self, run=None).ways
        return later if entry.is_reachable else options_now

    @property
    def _text(self) -> str:
        names = ("capture", "tables", "run", "as_of", "fleet", "config", "overlay", *WAYS)
        options = [(name, getattr(self, name)) for name in names]
        demo = demo_places().items() <= {pair for pair in options if isinstance(pair[1], str)}
        if demo:
            options = [pair for pair in options if pair not in demo_places().items()]
        return " --demo" * demo + "".join(
            f" --{n.replace('_', '-')} {shlex.quote(str(value))}" for n, value in options if value
        )

    @property
    def is_stored(self) -> bool:
        """True if the options name landing files or tables. Raises ConfigError if they contradict
        each other."""
        stored = [name for name in ("capture", "tables") if getattr(self, name) is not None]
        options = [f"--{name}" for name in (*stored, *self.addresses)]
        if stored and len(options) > 1:
            raise ConfigError(
                f"{' and '.join(options)} are different sources of data. Keep one of them."
            )
        if not stored and (self.as_of is not None or self.run is not None):
            raise ConfigError(
                "--as-of and --run are for --capture and --tables: a live reading is new."
            )
        if self.run is not None and self.tables is None:
            raise ConfigError(
                "--run needs --tables FOLDER. Landing files (--capture) have no runs."
            )
        return bool(stored)


# --- Addresses ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedCluster:
    """A cluster and its connection settings. `entry.id` "" = unknown until the cluster responds."""

    entry: FleetEntry
    fleet: Fleet
    catalogue: Catalogue
    timeout: float = TIMEOUT_SECONDS

    def open(self) -> Backend:
        """Connect to the cluster and return its backend, which the caller closes. Raises
        ConfigError."""
        return open_backend(self.entry, self.catalogue, timeout=self.timeout)

    @contextmanager
    def watcher(self, max_age: int, say: Say) -> Iterator[Watcher]:
        """Yield a watcher, which reads and changes the cluster. `max_age`: microseconds."""
        with closing(self.open()) as backend:
            yield Watcher(
                backend=backend,
                catalogue=self.catalogue,
                fleet=self.fleet,
                max_age=max_age,
                say=say,
            )

    def entry_of(self, cluster_id: str) -> FleetEntry:
        """Return the inventory entry of the cluster that responded; without entry, the one used to
        connect."""
        return self.fleet.of(cluster_id, self.entry)


def choose(options: Wanted, fleet: Fleet, source: str, advice: str = ADDRESSES) -> FleetEntry:
    """Return the inventory entry of the named cluster, or a new entry, with addresses from options.
    `source`: the inventory file. Raises ConfigError."""
    cluster = options.cluster
    ways: dict[str, object] = {
        "bootstrap": _split(options.bootstrap),
        "controller_bootstrap": _split(options.controllers),
        "zookeeper": options.zookeeper or "",
        "file": options.file or "",
    }
    if cluster is None and not any(ways.values()):
        raise ConfigError(
            "No cluster is named. Give its id or name in the inventory, or --bootstrap HOST:PORT, "
            "or --file PATH."
        )
    known = None if cluster is None else fleet.named(cluster, f"{source}: ")
    if cluster is None or (known is None and any(ways.values()) and KAFKA_ID.fullmatch(cluster)):
        entry = FleetEntry(id=cluster or "")  # the cluster that responds must have this id
    else:
        if known is None and not fleet.cluster:
            name = f"No cluster {cluster!r}. Name its address instead (--bootstrap HOST:PORT)."
            raise ConfigError(f"{name} {lists_none(source)}")
        entry = known or fleet.find(cluster, source, advice=advice)
    if any(ways.values()):
        entry = msgspec.structs.replace(entry, **ways)
    fault = next(faults(entry), None)
    if fault is not None:
        raise ConfigError(f"{cluster or 'the cluster'}: {fault}")
    if not entry.is_reachable:
        raise ConfigError(
            f"{source}: cluster {entry.title!r} has no address. Add bootstrap, zookeeper or file "
            "to its entry, or give --bootstrap HOST:PORT."
        )
    return entry


def lists_none(source: str) -> str:
    """Return the advice for an empty or missing inventory."""
    folder, line = Path(source).parent, "featurelib inventory import --bootstrap HOST:PORT"
    make = "" if folder.is_dir() else f"mkdir -p {shlex.quote(str(folder))} && "
    return f"{source} lists no cluster yet. Add one:\n  {make}{line} >> {shlex.quote(source)}"


def choose_entries(
    names: list[str], choice: Choice, options: Wanted, say: Say, *, by_metrics: bool = False
) -> list[FleetEntry]:
    """Return the clusters to read; without names, all reachable clusters. Raises ConfigError."""
    source, inventory = open_fleet(options.fleet, None)
    is_named = bool(options.addresses or names)
    part = inventory.choose(choice, source, named=is_named)
    if options.addresses and len(names) > 1:
        raise ConfigError("Addresses belong to one cluster, and several are named. Name one.")
    if options.addresses and by_metrics:
        raise ConfigError("--prometheus excludes other addresses. Keep one of them.")
    if names and by_metrics:
        advice = "leave the name out"
        meant = [inventory.find(name, source, advice=advice) for name in dict.fromkeys(names)]
    elif is_named:
        chosen: list[str | None] = [*dict.fromkeys(names)] or [None]
        meant = [choose(replace(options, cluster=name), inventory, source) for name in chosen]
    else:
        meant = [entry for entry in inventory.cluster if part is None or entry.id in part]
    lack, keys = (
        "does not say how it is reached",
        "a way to reach them (bootstrap, zookeeper or file)",
    )
    if by_metrics:
        lack = "does not say which labels its series have (metrics)"
        keys = 'metrics, the labels of their series, as metrics = { namespace = "kafka" }'
    entries = [e for e in meant if (e.metrics if by_metrics else is_named or e.is_reachable)]
    for entry in meant:
        if entry not in entries:
            say(f"{entry.title}: left out, {source} {lack}")
    if not inventory.cluster and not entries:
        raise ConfigError(lists_none(source))
    if not entries:
        source_text = f"{source} ({part.text})" if part else source
        raise ConfigError(
            f"{source_text} has no cluster with {keys}. {example('fleet.toml')} explains the keys."
        )
    return entries


def open_fleet(fleet: str | None, catalogue: Catalogue | None) -> tuple[str, Fleet]:
    """Return the path and the content of the inventory: the file `fleet`, or the first in the usual
    places (featurelib.config.files); empty without a file. Raises ConfigError.

    Releases and features are checked only if `catalogue` is given.
    """
    path = find_file("--fleet", find_place("fleet", fleet)[0], INVENTORY)
    if path is None:
        return str(HERE / INVENTORY), Fleet()
    return str(path), parse_fleet(read_file("--fleet", path), str(path), catalogue)


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


def find_tables(tables: str | None) -> str:
    """Return the folder of the tables from option or settings. Raises ConfigError without one."""
    folder, _ = find_place("tables", tables)
    if folder is None:
        raise ConfigError(
            "No tables are named. Add --tables FOLDER, or --demo for the tables of the samples. "
            "For a permanent place, set FEATURELIB_TABLES, or tables under [places] in audit.toml."
        )
    return folder


def demo_places() -> dict[str, str]:
    """Return the paths of the samples' tables, inventory and settings, by option."""
    places = {"tables": SAMPLE_TABLES, "fleet": SAMPLES / INVENTORY, "config": SAMPLES / SETTINGS}
    return {name: str(relative(path)) for name, path in places.items()}


def relative(path: Path) -> Path:
    """Return a path relative to the current folder if it is inside this folder."""
    folder = Path.cwd()
    return path.relative_to(folder) if path.is_relative_to(folder) else path


# --- Evidence -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The data of one cluster, with its inventory entry and origin."""

    view: ClusterView
    entry: FleetEntry
    made_from: str
    wanted: Wanted  # the options that chose the cluster
    inputs: Inputs  # the inputs of the judgement
    guards: Guards  # the guards of plans from this data
    mutes: tuple[Mute, ...] = ()  # the mutes in conf/audit.toml
    lake: Lake | None = None  # the tables, if the data comes from tables

    @property
    def muted(self) -> InForce:
        """The mutes that are valid for this cluster at the time of its data."""
        as_of = self.view.newest if self.inputs.as_of is None else self.inputs.as_of
        return InForce(mutes=self.mutes, cluster=self.view.cluster_id, as_of=as_of)

    @property
    def name(self) -> str:
        """The cluster's name for messages."""
        return self.entry.title or self.view.cluster_id

    @property
    def argument(self) -> str:
        """The cluster's name for command lines."""
        return self.entry.argument or self.view.cluster_id

    def places(self, lines: Iterable[tuple[int, int]]) -> dict[int, str]:
        """Return line id → `file:line` for (line id, microseconds); {} for live data."""
        by_line = {line: at for line, at in lines if line}
        if self.lake is not None:
            try:
                return places(self.lake.read, by_line, self.view.cluster_id)
            except (NoEvidenceError, TableError, SurroundingsError):
                return {}  # a result is possible without bronze
        return {} if self.wanted.capture is None else _places_in_files(self.wanted.capture, by_line)

    @property
    def seen_at(self) -> str:
        """The time of the newest data of the cluster, as text."""
        return say_seconds(self.view.seen // 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A cluster chosen by options. `say`: gets progress messages and quarantined lines."""

    wanted: Wanted
    catalogue: Catalogue
    say: Say = quietly

    @property
    def settings(self) -> Settings:
        """The settings in --config or in the default file."""
        return open_settings(self.wanted.config)

    def reached(self, advice: str = ADDRESSES) -> ReachedCluster:
        """Return the cluster with its addresses. Raises ConfigError for missing addresses or
        contradicting options; `advice` ends the message about an unknown name."""
        options, catalogue = self.wanted, self.catalogue
        source, fleet = open_fleet(options.fleet, catalogue)
        entry, timeout = choose(options, fleet, source, advice), options.timeout
        return ReachedCluster(entry=entry, fleet=fleet, catalogue=catalogue, timeout=timeout)

    def way(self, journal: str | None = None, *, cluster: str = "") -> ClusterArgs:
        """Return the options that reach the cluster, and the journal, from any folder."""
        options = self.wanted
        given = options.addresses_anywhere.items()
        words = [f"--{option} {shlex.quote(value)}" for option, value in given if value]
        options_text = " ".join(words) or shlex.quote(options.cluster or cluster)
        journal = (journal_place := named_journal(journal)) and os.path.abspath(journal_place)
        fleet = options.fleet and os.path.abspath(options.fleet)
        return ClusterArgs(reach=options_text, fleet=fleet, journal=journal)

    @contextmanager
    def watcher(self) -> Iterator[Watcher]:
        """Yield a watcher, which reads and changes the cluster."""
        with self.reached().watcher(self.settings.max_age, self.say) as watcher:
            yield watcher

    def source(self) -> Source:
        """Read the cluster, live or stored. Raises ConfigError, InputError, BackendError."""
        if self.wanted.is_stored:
            return self._stored()
        with self.live() as (source, _):
            return source

    def question(self) -> Source:
        """Read the cluster for a question. The age of stored data is judged as of its run or newest
        line."""
        options = self.wanted
        if options.as_of is None and options.tables is not None:
            options = replace(options, as_of=RUN_TIME)
        elif options.as_of is None and options.capture is not None:
            options = replace(options, as_of=NEWEST)
        source = replace(self, wanted=options).source()
        if source.lake is not None:
            run_time = source.lake.night(options.run)
            if run_time["catalogue"] != self.catalogue.label:
                self.say(
                    f"warning: run {run_time['run']} was judged with the catalogue of "
                    f"{run_time['catalogue']}, this is the one of {self.catalogue.label}. With its "
                    "overlay, if it had one: --overlay FILE"
                )
        return source

    @contextmanager
    def live(self) -> Iterator[tuple[Source, Backend]]:
        """Yield (live data, backend for a probe). Raises ConfigError for landing files and tables,
        and the errors of `source`."""
        if self.wanted.is_stored:
            option = "--tables" if self.wanted.capture is None else "--capture"
            raise ConfigError(f"--probe needs a live cluster. Remove --probe or {option}.")
        with self.reader() as (read, backend):
            yield read(), backend

    def _stored(self) -> Source:
        """Return the data in landing files or in the tables of a run."""
        options = self.wanted
        _, fleet = open_fleet(options.fleet, self.catalogue)
        entry = fleet.named(options.cluster) or FleetEntry(id=options.cluster or "")
        if options.capture is not None:
            lines, as_of = landing_lines("--capture", options.capture), parse_as_of(options.as_of)
            see = partial(Inputs.see_lines, lines=lines, cluster_id=entry.id or None)
            return self._make_source(see, as_of, fleet, entry, "landing files in", options.capture)
        lake = Lake(options.tables or "")
        run_time = options.as_of == RUN_TIME
        as_of = lake.as_of(options.run) if run_time else parse_as_of(options.as_of)
        if not entry.id:
            raise ConfigError(
                "--tables: no cluster is named. Give its id, or its name in the inventory, before "
                "the options."
            )
        run = lake.run(options.run)
        if entry not in fleet.cluster:
            lake.expect_cluster(entry.id, run, [e.name for e in fleet.cluster if e.name])
        see = partial(Inputs.see, row=lake.snapshot(entry.id, run))
        source = f"{options.tables}, run {run}"
        return replace(self._make_source(see, as_of, fleet, entry, "tables in", source), lake=lake)

    @contextmanager
    def reader(self) -> Iterator[tuple[Callable[[], Source], Backend]]:
        """Yield (function that reads the live cluster, backend). Raises ConfigError."""
        find_settings(self.wanted.config)  # report invalid settings first
        reached = self.reached(_OTHERS)
        with closing(reached.open()) as backend:
            yield partial(self._read, reached, backend), backend

    def _read(self, reached: ReachedCluster, backend: Backend) -> Source:
        entry = reached.entry
        lines = read_cluster(backend, entry, self.say)
        judge, label = partial(Inputs.see_lines, lines=lines), backend.where
        # The data is new, so its age does not matter.
        source = self._make_source(judge, None, reached.fleet, entry, "a reading of", label)
        return replace(source, view=replace(source.view, site=self._site(entry)))

    def _site(self, entry: FleetEntry) -> Site:
        """Return the facts for remedies. Their commands repeat the options of this source."""
        return replace(entry.site, options=self.wanted.later(entry))

    def _make_source(
        self,
        see: Callable[[Inputs], ClusterView],
        as_of: int | None,
        fleet: Fleet,
        entry: FleetEntry,
        how: str,
        label: str,
    ) -> Source:
        """Return data judged by the settings in use. `say` gets the quarantined lines."""
        settings, file = find_settings(self.wanted.config)
        inputs = Inputs(
            catalogue=self.catalogue,
            as_of=as_of,
            max_age=settings.max_age,
            fleet=fleet,
            severities=settings.severities,
        )
        view = see(inputs)
        for number, reason in view.rejected[:_SHOWN]:
            self.say(f"warning: {label}: line {number} is set aside: {reason}")
        if (rest_count := len(view.rejected) - _SHOWN) > 0:
            self.say(f"warning: {label}: {rest_count} more lines are set aside")
        entry_known = fleet.of(view.cluster_id, entry)
        return Source(
            view=replace(view, site=self._site(entry_known)),
            entry=entry_known,
            made_from=f"{how} {label}",
            wanted=self.wanted,
            inputs=inputs,
            guards=Guarding.by(settings, fleet).of(view.cluster_id),
            mutes=mutes_of(settings.mute, fleet, file),
        )


def _places_in_files(capture: str, lines: dict[int, int]) -> dict[int, str]:
    folder, places = Path(capture), dict[int, str]()
    files = [folder] if folder.is_file() else sorted(f for f in folder.rglob("*") if f.is_file())
    for file in files:
        if len(places) == len(lines):
            break
        for number, raw in enumerate(landing_lines("--capture", str(file)), start=1):
            line_id = int.from_bytes(sha256(raw).digest()[:8], "big", signed=True)
            if line_id in lines:
                places.setdefault(line_id, f"{file}:{number}")
    return places


def now() -> int:
    """Return the current time in microseconds."""
    return int(datetime.now(UTC).timestamp() * 1_000_000)


def parse_as_of(text: str | None) -> int | None:
    """Parse --as-of to microseconds; "" = now, `newest` gives None. Raises ConfigError."""
    if text == NEWEST:
        return None
    if text is None:
        return now()
    try:
        return microseconds(text)
    except ValueError as error:
        raise ConfigError(
            f"--as-of {text}: This is not a time. Use the form 2026-11-21T06:00:00Z, or {NEWEST!r}."
        ) from error
