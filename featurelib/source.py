"""Where the evidence about one cluster comes from: a live look, landing files, or the nightly's
tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from featurelib.backends.base import Backend, Say
from featurelib.backends.opening import TIMEOUT_SECONDS
from featurelib.catalogue import Catalogue
from featurelib.configuration.fleet import ADDRESSES, Cluster, Fleet
from featurelib.configuration.muting import mutes_of
from featurelib.core.mutes import InForce, Mute
from featurelib.errors import ConfigError
from featurelib.lake import Lake
from featurelib.landing_files import landing_lines
from featurelib.model import Guards
from featurelib.planning.requirements import Guarding
from featurelib.reaching import open_fleet, reach
from featurelib.settings_file import find_settings
from featurelib.sight import Sight, see, see_row

NEWEST = "newest"  # as of the newest line
RUN_TIME = "run"  # --as-of of whoever asks about a night: when that night was judged
_SHOWN = 3  # quarantined lines that are said
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A look at one cluster, what the inventory says of it, and where the look came from."""

    sight: Sight
    entry: Cluster
    made_from: str
    fleet: Fleet
    as_of: int | None  # ages were judged as of then, microseconds; None: the newest line
    guards: Guards  # that go into a plan made from it
    mutes: tuple[Mute, ...] = ()  # of conf/audit.toml
    lake: Lake | None = None  # where it came from, if from tables

    @property
    def muted(self) -> InForce:
        """The mutes as they hold for this cluster then."""
        as_of = self.sight.newest if self.as_of is None else self.as_of
        return InForce(mutes=self.mutes, cluster=self.sight.cluster_id, as_of=as_of)

    @property
    def seen_at(self) -> str:
        """When the newest line of it was read."""
        seen = datetime.fromtimestamp(self.sight.newest / 1_000_000, UTC)
        return seen.isoformat(timespec="seconds").replace("+00:00", "Z")


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
    how = {
        "catalogue": catalogue,
        "as_of": as_of,
        "max_age": settings.max_age,
        "fleet": fleet,
        "severities": settings.severities,
    }
    if wanted.capture is not None:
        lines = landing_lines("--capture", wanted.capture)
        sight = see(lines, cluster_id=entry.id or None, **how)  # type: ignore[arg-type]
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
        sight = see_row(lake.snapshot(entry.id, run), **how)  # type: ignore[arg-type]
        made_from = f"tables in {wanted.tables}, run {run}"
    known = next((one for one in fleet.cluster if one.id == sight.cluster_id), entry)
    return Source(
        sight=replace(sight, address=known.address),
        entry=known,
        made_from=made_from,
        fleet=fleet,
        as_of=as_of,
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
        sight = see(
            lines,
            catalogue=catalogue,
            as_of=None,  # all of it is new
            max_age=settings.max_age,
            fleet=reached.fleet,
            severities=settings.severities,
        )
        _say_rejected(sight, where, say)
        source = Source(
            sight=replace(sight, address=reached.entry.address),
            entry=reached.entry_of(sight.cluster_id),
            made_from=f"a look at {where}",
            fleet=reached.fleet,
            as_of=None,
            guards=Guarding.by(settings, reached.fleet).of(sight.cluster_id),
            mutes=mutes_of(settings.mute, reached.fleet, rules),
        )
        yield source, backend


def entry_named(text: str | None, known: Iterable[Cluster]) -> Cluster:
    """What the inventory calls by that id or else name; of others the text is the id."""
    entries = list(known)
    found = [entry for entry in entries if entry.id == text]
    found = found or [entry for entry in entries if entry.name and entry.name == text]
    if len(found) > 1:
        ids = ", ".join(entry.id for entry in found)
        raise ConfigError(f"{text!r} is the name of {len(found)} clusters: {ids}. Give the id.")
    return found[0] if found else Cluster(id=text or "")


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
