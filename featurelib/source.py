"""Where the evidence about one cluster comes from: a live look, landing files, or the nightly's
tables.

A plan takes what is named. A question that names nothing looks at a cluster that the inventory can
reach; any other is looked for in the tables of the samples, if the nightly has made them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec

from featurelib.audit.cluster_view import Sight
from featurelib.audit.findings import InForce, Mute
from featurelib.backends.base import Backend, Say
from featurelib.backends.opening import TIMEOUT_SECONDS, look, open_backend
from featurelib.catalogue import Catalogue
from featurelib.collect import landing_lines
from featurelib.config.files import CHECKOUT, HERE, INVENTORY, find_file, find_settings, read_file
from featurelib.config.fleet import ADDRESSES, Fleet, FleetEntry, faults, parse_fleet
from featurelib.config.settings import Settings, mutes_of
from featurelib.errors import ConfigError, NoEvidenceError, TableError
from featurelib.lake import Lake
from featurelib.model import Guards
from featurelib.planning.requirements import Guarding
from featurelib.questions.draft import Terms

# How one cluster is named and reached: by the inventory, by addresses, or as a file.
#
# Addresses beside a name go before the inventory's; what the owner says there (its security, who
# manages it) still holds.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedCluster:
    """One cluster that was named, and how it is reached. `entry.id` is empty where only addresses
    are known: the look tells it."""

    name: str
    entry: FleetEntry
    fleet: Fleet
    catalogue: Catalogue
    timeout: float = TIMEOUT_SECONDS

    def open(self) -> Backend:
        """Its backend; the caller closes it. Raises ConfigError."""
        return open_backend(self.entry, self.catalogue, timeout=self.timeout)

    def look(self, backend: Backend, say: Say) -> tuple[bytes, ...]:
        """One look, as landing lines of this cluster: see featurelib.backends.opening.look."""
        return look(backend, self.entry, say)

    def entry_of(self, cluster_id: str) -> FleetEntry:
        """What the inventory says of the cluster that answered: its owner's word holds by whatever
        way it was reached."""
        known = (entry for entry in self.fleet.cluster if entry.id == cluster_id)
        return next(known, self.entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """Ways to a cluster given beside, or in place of, the inventory's."""

    bootstrap: str | None = None
    controllers: str | None = None
    zookeeper: str | None = None
    file: str | None = None

    @property
    def given(self) -> dict[str, object]:
        """The keys of an inventory's entry they stand for."""
        said: dict[str, object] = {
            "bootstrap": _split(self.bootstrap),
            "controller_bootstrap": _split(self.controllers),
            "zookeeper": self.zookeeper,
            "file": self.file,
        }
        return {key: value for key, value in said.items() if value}


def reach(
    cluster: str | None,
    catalogue: Catalogue,
    *,
    fleet: str | None = None,
    bootstrap: str | None = None,
    controllers: str | None = None,
    zookeeper: str | None = None,
    file: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
    others: str | None = None,
) -> ReachedCluster:
    """The one cluster these options choose. Raises ConfigError for none, and for contradictions.

    `others`: what may be done in place of a name the inventory does not have; None = addresses.
    """
    where, inventory = open_fleet(fleet, catalogue)
    ways = Ways(bootstrap=bootstrap, controllers=controllers, zookeeper=zookeeper, file=file)
    entry = choose(cluster, inventory, where, ways, others or ADDRESSES)
    name = entry.title or file or zookeeper or bootstrap or controllers or ""
    return ReachedCluster(
        name=name, entry=entry, fleet=inventory, catalogue=catalogue, timeout=timeout
    )


def choose(
    cluster: str | None, fleet: Fleet, where: str, ways: Ways, others: str = ADDRESSES
) -> FleetEntry:
    """The entry of the cluster that is named, its ways replaced by those given; without a name an
    entry of its own. `where` names the inventory. Raises ConfigError."""
    given = ways.given
    if cluster is None and not given:
        raise ConfigError(
            "expected a cluster, found none named. Give its id or name in the inventory, or "
            "--bootstrap HOST:PORT, or --file PATH."
        )
    entry = FleetEntry(id="") if cluster is None else fleet.find(cluster, where, others=others)
    if given:
        nothing = {"bootstrap": (), "controller_bootstrap": (), "zookeeper": "", "file": ""}
        entry = msgspec.structs.replace(entry, **(nothing | given))
    fault = next(faults(entry), None)
    if fault is not None:
        raise ConfigError(f"{cluster or 'the cluster'}: {fault}")
    if not entry.is_reachable:
        raise ConfigError(
            f"{where}: cluster {entry.title!r}: expected a way to reach it, found none. Add "
            "bootstrap, zookeeper or file to its entry, or give --bootstrap HOST:PORT."
        )
    return entry


def open_fleet(fleet: str | None, catalogue: Catalogue | None) -> tuple[str, Fleet]:
    """The inventory and the file it stands in: the one named, or the first of the usual places
    (featurelib.config.files). Where there is none nothing is expected. Raises ConfigError.

    Releases and features are checked with a catalogue only.
    """
    path = find_file("--fleet", fleet, INVENTORY)
    if path is None:
        return str(HERE / INVENTORY), Fleet()
    return str(path), parse_fleet(read_file("--fleet", path), str(path), catalogue)


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


NEWEST = "newest"  # as of the newest line
RUN_TIME = "run"  # --as-of of whoever asks about a night: when that night was judged
_SHOWN = 3  # quarantined lines that are said
SAMPLES = CHECKOUT.parent / "data" / "samples"
SAMPLE_BUILD = CHECKOUT.parent / "build" / "samples"
SAMPLE_TABLES = SAMPLE_BUILD / "tables"
_OTHERS = f"{ADDRESSES}, or name what was read of it (--tables FOLDER, --capture PATH)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options that choose a cluster and its evidence."""

    cluster: str | None = None
    capture: str | None = None
    tables: str | None = None
    run: int | None = None
    as_of: str | None = None
    fleet: str | None = None
    config: str | None = None
    bootstrap: str | None = None
    controllers: str | None = None
    zookeeper: str | None = None
    file: str | None = None
    timeout: float = TIMEOUT_SECONDS

    @property
    def ways(self) -> tuple[str, str]:
        """The options, after a blank each, with which another command takes the same evidence, and
        the same when something has changed: without what is stored, which stays as it is."""
        later = replace(self, capture=None, tables=None)
        if later != self:
            later = replace(later, as_of=None)
        return self._text, later._text

    @property
    def _text(self) -> str:
        names = ("capture", "tables", "as_of", "fleet", "config", "bootstrap", "controllers")
        given = [(name, getattr(self, name)) for name in (*names, "zookeeper", "file")]
        return "".join(f" --{n.replace('_', '-')} {shlex.quote(v)}" for n, v in given if v)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A look at one cluster, what the inventory says of it, and where the look came from."""

    sight: Sight
    entry: FleetEntry
    made_from: str
    wanted: Wanted  # what chose it
    terms: Terms  # what it was judged by
    guards: Guards  # that go into a plan made from it
    mutes: tuple[Mute, ...] = ()  # of conf/audit.toml
    lake: Lake | None = None  # where it came from, if from tables

    @property
    def muted(self) -> InForce:
        """The mutes as they hold for this cluster then."""
        as_of = self.sight.newest if self.terms.as_of is None else self.terms.as_of
        return InForce(mutes=self.mutes, cluster=self.sight.cluster_id, as_of=as_of)

    @property
    def name(self) -> str:
        """What the commands that follow call the cluster."""
        return self.entry.title or self.sight.cluster_id

    def places(self, lines: Iterable[tuple[int, int]]) -> dict[int, str]:
        """Where lines stand, as `file:line`, from their ids and when they were observed
        (microseconds); none of a live look, which is in no file."""
        known = {line: at for line, at in lines if line}
        if self.lake is not None:
            try:
                return self.lake.places(self.sight.cluster_id, known)
            except (NoEvidenceError, TableError):  # bronze need not be kept to answer a question
                return {}
        return {} if self.wanted.capture is None else _places_in_files(self.wanted.capture, known)

    @property
    def seen_at(self) -> str:
        """When the newest line of it was read."""
        seen = datetime.fromtimestamp(self.sight.newest / 1_000_000, UTC)
        return seen.isoformat(timespec="seconds").replace("+00:00", "Z")


def question_source(wanted: Wanted, catalogue: Catalogue, say: Say) -> Source:
    """The evidence a question is asked of: what is named, or else what is at hand. Ages are judged
    as of when a night was judged, or as of the newest line of files. Raises as find_source does."""
    wanted = _with_samples(wanted, catalogue, say)
    if wanted.as_of is None and wanted.tables is not None:
        wanted = replace(wanted, as_of=RUN_TIME)
    elif wanted.as_of is None and wanted.capture is not None:
        wanted = replace(wanted, as_of=NEWEST)
    source = find_source(wanted, catalogue, say)
    if source.lake is not None:
        expect_catalogue(source.lake, wanted.run, catalogue, say)
    return source


def expect_catalogue(lake: Lake, run: int | None, catalogue: Catalogue, say: Say) -> None:
    """Say where a night was judged with another catalogue than the one at hand."""
    night = lake.run(run)
    row = next(row for row in lake.runs.to_pylist() if row["run"] == night)
    if row["catalogue"] != catalogue.label:
        say(
            f"warning: run {night} was judged with the catalogue of {row['catalogue']}, this is "
            f"the one of {catalogue.label}. With its overlay, if it had one: --overlay FILE"
        )


def usual_tables(tables: str | None, fleet: str | None, say: Say) -> tuple[str, str | None]:
    """The tables and the inventory, for what is asked of tables alone. Raises ConfigError."""
    if tables is None:
        if not SAMPLE_TABLES.is_dir():
            raise ConfigError(
                "--tables: expected the folder of the nightly's tables, found none named. Name it; "
                "`./spark-submit.sh` makes those of the samples."
            )
        tables = str(_relative(SAMPLE_TABLES))
        say(f"reading the samples' tables, {tables}; others with --tables FOLDER")
    if fleet is None and Path(tables).absolute() == SAMPLE_TABLES:
        fleet = str(_relative(SAMPLES / INVENTORY))
    return tables, fleet


def _with_samples(wanted: Wanted, catalogue: Catalogue, say: Say) -> Wanted:
    live = (wanted.bootstrap, wanted.controllers, wanted.zookeeper, wanted.file)
    if wanted.capture is not None or any(way is not None for way in live):
        return wanted
    if wanted.tables is None and (wanted.fleet is not None or not SAMPLE_TABLES.is_dir()):
        return wanted
    if wanted.tables is None:
        _, fleet = open_fleet(wanted.fleet, catalogue)
        named = [entry for entry in fleet.cluster if wanted.cluster in (entry.id, entry.name)]
        if any(entry.is_reachable for entry in named):
            return wanted
    tables, usual = usual_tables(wanted.tables, wanted.fleet, say)
    return replace(wanted, tables=tables, fleet=usual)


def _relative(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _places_in_files(capture: str, lines: dict[int, int]) -> dict[int, str]:
    place, places = Path(capture), dict[int, str]()
    files = [place] if place.is_file() else sorted(f for f in place.rglob("*") if f.is_file())
    for file in files:
        if len(places) == len(lines):
            break
        for number, raw in enumerate(landing_lines("--capture", str(file)), start=1):
            line_id = int.from_bytes(sha256(raw).digest()[:8], "big", signed=True)
            if line_id in lines:
                places.setdefault(line_id, f"{file}:{number}")
    return places


def find_source(wanted: Wanted, catalogue: Catalogue, say: Say) -> Source:
    """The evidence these options choose; `say` hears of progress, and of lines that are set aside.

    Raises ConfigError, InputError, BackendError."""
    if _is_stored(wanted):
        return _stored(wanted, catalogue, say)
    with _looked_at(wanted, catalogue, say) as (source, _):
        return source


@contextmanager
def live_source(wanted: Wanted, catalogue: Catalogue, say: Say) -> Iterator[tuple[Source, Backend]]:
    """A live look, and the cluster that answered, for what --probe asks next: until the block ends.

    Raises ConfigError for landing files and tables, and what find_source raises."""
    if _is_stored(wanted):
        found = "--tables" if wanted.capture is None else "--capture"
        raise ConfigError(f"--probe: expected a live cluster to ask, found {found}. Keep one.")
    with _looked_at(wanted, catalogue, say) as found_live:
        yield found_live


def _is_stored(wanted: Wanted) -> bool:
    """Whether landing files or tables are named. Raises ConfigError for what cannot be together."""
    addresses = [
        ("--bootstrap", wanted.bootstrap),
        ("--controllers", wanted.controllers),
        ("--zookeeper", wanted.zookeeper),
        ("--file", wanted.file),
    ]
    given = [("--capture", wanted.capture), ("--tables", wanted.tables), *addresses]
    named = [option for option, value in given if value is not None]
    stored = {"--capture", "--tables"} & set(named)
    if stored and len(named) > 1:
        raise ConfigError(
            f"expected one source of evidence, found {' and '.join(named)}. Keep one."
        )
    if not stored and (wanted.as_of is not None or wanted.run is not None):
        raise ConfigError("--as-of and --run are for --capture and --tables: a live look is new.")
    if wanted.run is not None and wanted.tables is None:
        raise ConfigError(
            "--run chooses a night of --tables FOLDER; expected that, found --capture."
        )
    return bool(stored)


def _stored(wanted: Wanted, catalogue: Catalogue, say: Say) -> Source:
    _, fleet = open_fleet(wanted.fleet, catalogue)
    settings, where = find_settings(wanted.config)
    entry = entry_named(wanted.cluster, fleet.cluster)
    lake = None if wanted.tables is None else Lake(wanted.tables)
    if lake is not None and wanted.as_of == RUN_TIME:
        as_of: int | None = lake.as_of(wanted.run)
    else:
        as_of = parse_as_of(wanted.as_of)
    terms = _terms(catalogue, settings, fleet, as_of)
    if wanted.capture is not None:
        lines = landing_lines("--capture", wanted.capture)
        sight = terms.see_lines(lines, entry.id or None)
        _say_rejected(sight, wanted.capture, say)
        made_from = f"landing files in {wanted.capture}"
    else:
        assert lake is not None
        if not entry.id:
            raise ConfigError(
                "--tables: expected a cluster, found none named. Give its id, or its name in the "
                "inventory, before the options."
            )
        run = lake.run(wanted.run)
        if not any(entry.id == one.id for one in fleet.cluster):
            lake.expect_cluster(entry.id, run, [one.name for one in fleet.cluster if one.name])
        sight = terms.see(lake.snapshot(entry.id, run))
        made_from = f"tables in {wanted.tables}, run {run}"
    known = next((one for one in fleet.cluster if one.id == sight.cluster_id), entry)
    return Source(
        sight=replace(sight, address=known.address),
        entry=known,
        made_from=made_from,
        wanted=wanted,
        terms=terms,
        guards=Guarding.by(settings, fleet).of(sight.cluster_id),
        mutes=mutes_of(settings.mute, fleet, where),
        lake=lake,
    )


@contextmanager
def _looked_at(wanted: Wanted, catalogue: Catalogue, say: Say) -> Iterator[tuple[Source, Backend]]:
    settings, rules = find_settings(wanted.config)
    reached = reach(
        wanted.cluster,
        catalogue,
        fleet=wanted.fleet,
        bootstrap=wanted.bootstrap,
        controllers=wanted.controllers,
        zookeeper=wanted.zookeeper,
        file=wanted.file,
        timeout=wanted.timeout,
        others=_OTHERS,
    )
    with closing(reached.open()) as backend:
        lines, where = reached.look(backend, say), backend.where
        terms = _terms(catalogue, settings, reached.fleet, None)  # all of it is new
        sight = terms.see_lines(lines)
        _say_rejected(sight, where, say)
        source = Source(
            sight=replace(sight, address=reached.entry.address),
            entry=reached.entry_of(sight.cluster_id),
            made_from=f"a look at {where}",
            wanted=wanted,
            terms=terms,
            guards=Guarding.by(settings, reached.fleet).of(sight.cluster_id),
            mutes=mutes_of(settings.mute, reached.fleet, rules),
        )
        yield source, backend


def _terms(catalogue: Catalogue, settings: Settings, fleet: Fleet, as_of: int | None) -> Terms:
    return Terms(
        catalogue=catalogue,
        as_of=as_of,
        max_age=settings.max_age,
        fleet=fleet,
        severities=settings.severities,
    )


def entry_named(text: str | None, known: Iterable[FleetEntry]) -> FleetEntry:
    """What the inventory calls by that id or else name; of others the text is the id."""
    entries = list(known)
    found = [entry for entry in entries if entry.id == text]
    found = found or [entry for entry in entries if entry.name and entry.name == text]
    if len(found) > 1:
        ids = ", ".join(entry.id for entry in found)
        raise ConfigError(f"{text!r} is the name of {len(found)} clusters: {ids}. Give the id.")
    return found[0] if found else FleetEntry(id=text or "")


def _say_rejected(sight: Sight, where: str, say: Say) -> None:
    for number, reason in sight.rejected[:_SHOWN]:
        say(f"warning: {where}: line {number} is set aside: {reason}")
    if (more := len(sight.rejected) - _SHOWN) > 0:
        say(f"warning: {where}: {more} more lines are set aside")


def parse_as_of(text: str | None) -> int | None:
    """A time as microseconds; now for none, and None for the newest line's. Raises ConfigError."""
    if text == NEWEST:
        return None
    if text is None:
        return int(datetime.now(UTC).timestamp() * 1_000_000)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"--as-of {text}: expected a time as 2026-11-21T06:00:00Z, or {NEWEST!r}."
        ) from error
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1_000_000)
