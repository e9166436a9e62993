"""Load the tables of dialects: the rules, the nodes that they check, their order and messages.

A dialect is one generation of controllers, `kip` (the literal text of the KIPs), or `strict` (the
policy that decides READY); each has a file. Loading compiles a dialect, so an unknown rule, scope,
group or capability fails at once, and so does a row that the engine could not evaluate. A table
also has values about registration, protection and elections, which compatibility.py and
features_znode.py interpret.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from importlib import resources
from string import Formatter
from typing import Final, Literal, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from featurelib.catalogue import ANY, Tables
from featurelib.core.rules import GROUP_COLUMNS, REQUEST_COLUMNS, RULES, SCOPES, Rule
from featurelib.feature import release_line, release_number
from featurelib.findings import FindingRow, rule_rows


class Absence(StrEnum):
    """The meaning of a feature that a node does not list."""

    ZERO = "zero"  # the node supports 0-0
    REFUSE = "refuse"  # the node supports no level, not even 0
    SKIP = "skip"  # the feature is not compared


class Guard(StrEnum):
    """The finalized values that a node compares with its supported ranges."""

    NOTHING = "nothing"
    LEVEL = "level"  # every finalized level
    RANGE = "range"  # the finalized level, and the finalized minimum
    METADATA_VERSION = "metadata_version"  # only whether that level is known


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationTable:
    """The rules by which controllers judge a registration (KIP-778; ClusterControlManager)."""

    absence: Absence = Absence.SKIP  # a finalized feature that the node does not list: skip or zero
    not_finalized: Absence = Absence.SKIP  # a listed feature that is not finalized
    absent_metadata_version: tuple[int, int] = (0, 0)  # for brokers that do not list it
    code: int = 35  # UNSUPPORTED_VERSION
    says: str = ""
    says_controller: str = ""  # the message for a controller that registers too early
    directories_from: int = 0  # metadata.version from which brokers name log directories; 0 = never
    directories_code: int = 119  # INVALID_REGISTRATION; brokers before 3.7 read -1
    says_directories: str = ""
    at_start: bool = False  # a broker checks itself when it starts (ZooKeeper mode)
    says_ignored: str = ""  # the message about an ignored broker (ZooKeeper mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectionTable:
    """The reaction of nodes to levels that they do not support (KIP-584, KIP-778)."""

    brokers: Guard = Guard.NOTHING
    controllers: Guard = Guard.NOTHING
    broker_exits: bool = False  # otherwise a broker logs a fault, and stops following metadata
    zero_counts: bool = False  # a stored level of 0 or less counts as finalized (ZooKeeper mode)
    says_broker: str = ""
    says_broker_absent: str = ""
    # The first words of the message that lists all incompatible features of a node.
    says_broker_prefix: str = ""
    says_controller: str = ""
    race: str = ""  # a text about the case that this check does not cover


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionTable:
    """The writes of a new controller to the `/feature` znode (KafkaController, ZooKeeper mode)."""

    system_from: str = ""  # inter.broker.protocol.version; "" = there is no `/feature` znode
    schema_2_from: str = ""  # inter.broker.protocol.version; "" = always schema 1
    creates_range: bool = False  # without a znode the whole range is finalized, not only levels


def is_before(version: str, first: str) -> bool:
    """Return true if a release or protocol version (`2.6`, `2.7-IV2`) is older than `first`; false
    if unknown."""
    number = release_number(version)
    return bool(number and first) and number < release_number(first)


STRICT = "strict"  # the policy that decides READY
KIP = "kip"
HONOURED: Final = "honoured"  # a request that only validates is not applied
GENERATIONS = (
    "zk-2.7",
    "zk-3.3",
    "kraft-3.3",
    "kraft-3.5",
    "kraft-3.7",
    "kraft-3.8",
    "kraft-3.9",
    "kraft-4.0",
    "kraft-4.1",
    "kraft-4.2",
)


class Asks(StrEnum):
    """The nodes whose ranges a rule checks."""

    EVERYONE = "everyone"  # every known node, also fenced and unreachable nodes
    LOCAL_CONTROLLER = "local_controller"  # the active controller, or the broker in that role
    REACHABLE_CONTROLLERS = "reachable_controllers"  # the other controllers that respond now
    REGISTERED_CONTROLLERS = "registered_controllers"  # the other controllers that are registered
    BROKERS = "brokers"  # all registered brokers, also fenced brokers
    LIVE_BROKERS = "live_brokers"
    # CONFIGURED_VOTERS: the other nodes in controller.quorum.voters of the active controller.
    # CONFIGURED_ONLY: those of them that are neither voters nor registered.
    CONFIGURED_VOTERS = "configured_voters"
    CONFIGURED_ONLY = "configured_only"
    QUORUM = "quorum"  # all voters


class WalkOrder(StrEnum):
    """The order in which a controller checks nodes; it decides which node a message names."""

    NONE = "none"
    HASH = "hash"  # java.util.HashMap
    SIZED_HASH = "sized_hash"  # a HashMap sized for its number of nodes
    TABLE = "table"  # the registration table, a TimelineHashMap
    TABLE_HASH = "table_hash"  # a HashMap filled from the registration table


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """A row of a dialect: a rule, the updates and nodes it covers, error code and message."""

    rule: Rule
    where: tuple[Rule, ...]
    asks: Asks | None
    absence: Absence
    order: WalkOrder
    code_number: int
    says: str
    says_absent: str
    words: FindingRow = field(compare=False)  # texts for people, equal in all dialects
    not_in_audits: str  # why an audit, which only raises levels, skips the rule; "" = not skipped

    @property
    def code(self) -> str:
        """The stable finding code: the name of the rule."""
        return self.rule.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """The behaviour of a generation of controllers, except its rules (docs/dialects.md)."""

    wire_versions: tuple[int, ...] = ()
    atomic: bool = False  # one invalid update rejects the whole request
    catalogue: Literal["own", "any"] = "own"  # the releases whose catalogue knows a level
    # The state against which the controller checks an update.
    judges: Literal["cached", "finalized", "proposed"] = "proposed"
    duplicates: Literal["each", "first", "last"] = "last"  # the update that counts for a name
    results_up_to: int = 2  # the last request version whose response has results
    # The order of the updates, which decides the first failure.
    update_order: Literal["request", "name", "hash"] = "request"
    validate_only: Literal["honoured", "ignored"] = HONOURED  # ignored: a dry run is applied
    # allow_downgrade: in request version 0 the field AllowDowngrade means SAFE_DOWNGRADE.
    upgrade_type_v0: Literal["upgrade", "allow_downgrade"] = "upgrade"
    absent_metadata_version: int = 1  # the level of a cluster or node without metadata.version
    stores_min: Literal["local", "level"] = "level"  # the minimum that a write stores
    after_failed_wait: int = 0  # the error code if a write happened, but was not visible in time
    # The software that decides which levels are stable.
    stable_by: Literal["controller", "nodes"] = "controller"
    metadata_floor: int = 0
    metadata_needed: int = 0
    controllers_register_from: int = 0
    # The place where the controller keeps the level of kraft.version.
    kraft_version: Literal["none", "plain", "record", "ignored_record", "raft"] = "none"
    kraft_version_leaks: bool = False  # kraft.version changes even if the request is refused
    knows_test_features: bool = False  # names of Kafka's own test features count as known


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """The messages of a generation of controllers, except those of its rules."""

    good_result: str | None = None
    good_top: str | None = None
    atomic_prefix: str = ""
    failed_write: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The rules, messages and behaviour of a generation of controllers, or of the strict policy."""

    name: str
    title: str
    mode: str  # zk, kraft, any
    releases: tuple[str, ...]
    can: Capability
    text: Text
    registration: RegistrationTable
    protection: ProtectionTable
    election: ElectionTable
    request_checks: tuple[RuleRow, ...]
    rules: tuple[RuleRow, ...]

    @property
    def judges_by(self) -> tuple[object, ...]:
        """The parts of the dialect that decide verdicts; equal parts give equal verdicts."""
        rows = ((row.code, row.where, row.asks, row.absence) for row in self.rules)
        return (self.can, *rows)

    @property
    def in_audits(self) -> Dialect:
        """The dialect without the rules that an audit skips (key `not_in_audits`)."""
        return replace(self, rules=tuple(row for row in self.rules if not row.not_in_audits))


@cache
def load(name: str) -> Dialect:
    """Load the dialect `name`. Raises KeyError or ValueError if its table is invalid."""
    path = resources.files(__package__).joinpath("dialects", f"{name}.toml")
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    text = dict(table.get("text", {}))
    invalid = text.pop("invalid", "")
    code = table.get("error_code", 0)
    return Dialect(
        name=table["name"],
        title=table["title"],
        mode=table["mode"],
        releases=tuple(table["releases"]),
        can=_fill(Capability, table["capability"]),
        text=_fill(Text, text),
        registration=_fill(RegistrationTable, table.get("registration", {})),
        protection=_fill(ProtectionTable, table.get("protection", {})),
        election=_fill(ElectionTable, table.get("election", {})),
        request_checks=tuple(
            _compile(row, code, invalid, on_request=True) for row in table.get("door", [])
        ),
        rules=tuple(_compile(row, code, invalid) for row in table["rule"]),
    )


@cache
def generation_of(release: str, mode: str, default: str | None = None) -> str:
    """Return the dialect of controllers of `release`, such as `4.1` or `4.1.2`. `default`: the
    result for an unknown release; without it KeyError is raised."""
    for name in GENERATIONS:
        if name.startswith(mode) and release_line(release) in load(name).releases:
            return name
    if default is not None:
        return default
    raise KeyError(f"no dialect for release {release} in {mode} mode")


def zookeeper_releases() -> list[str]:
    """Return the ZooKeeper-mode releases with a known dialect."""
    return [name for d in map(load, GENERATIONS) if d.mode == "zk" for name in d.releases]


T = TypeVar("T", Capability, Text, RegistrationTable, ProtectionTable, ElectionTable)


def _fill(into: type[T], table: dict[str, object]) -> T:
    """Return a dataclass with the values of a TOML table. Raises KeyError for an unknown key."""
    if unknown := sorted(set(table) - {field.name for field in fields(into)}):
        raise KeyError(f"{into.__name__.lower()} has no {', '.join(unknown)}")
    return msgspec.convert(table, into)


class _Row(msgspec.Struct, kw_only=True):
    """A row of a dialect as written in TOML. Omitted code and messages come from the table."""

    rule: str
    where: tuple[str, ...] = ()
    asks: Asks | None = None
    absence: Absence = Absence.ZERO
    order: WalkOrder = WalkOrder.NONE
    code: int | None = None
    says: str = ""
    says_absent: str | None = None
    not_in_audits: str = ""


# The placeholders of a message: for every update, for a row about nodes, and for a request that is
# refused before its updates are read. reply.py fills them in.
_OF_UPDATES = {"feature", "level", "current", "finalized_min", "local_min", "verb"}
_OF_UPDATES |= {"oldest_known", "newest_known", "dependency", "dependency_level"}
_OF_NODES = {"node", "node_min", "node_max", "node_range"}
_OF_REQUESTS = {"active"}


def _compile(
    row: dict[str, object], code: int, invalid: str, *, on_request: bool = False
) -> RuleRow:
    rule = RULES[str(row["rule"])]
    if unknown := sorted(set(row) - set(_Row.__struct_fields__)):
        raise KeyError(f"rule {rule.name}: a row has no {', '.join(unknown)}")
    read = msgspec.convert(row, _Row)
    scopes = tuple(SCOPES[name] for name in read.where)
    _check_columns(rule, scopes, asks=read.asks is not None, on_request=on_request)
    pattern = read.says.replace("{invalid}", invalid)
    absent = pattern if read.says_absent is None else read.says_absent.replace("{invalid}", invalid)
    fillable = _OF_REQUESTS if on_request else _OF_UPDATES | (_OF_NODES if read.asks else set())
    fields = {name or "" for text in (pattern, absent) for _, name, _, _ in Formatter().parse(text)}
    if strange := sorted(fields - fillable - {""}):
        raise KeyError(f"rule {rule.name}: nothing fills {', '.join(strange)} of its words in")
    return RuleRow(
        rule=rule,
        where=scopes,
        asks=read.asks,
        absence=read.absence,
        order=read.order,
        code_number=code if read.code is None else read.code,
        says=pattern,
        says_absent=absent,
        words=msgspec.structs.replace(rule_rows()[rule.name], source=rule.source),
        not_in_audits=read.not_in_audits,
    )


def _check_columns(rule: Rule, scopes: Iterable[Rule], *, asks: bool, on_request: bool) -> None:
    """Raise KeyError for a row that cannot be evaluated: a column is missing, or a rule about
    ranges lacks `asks`."""
    if asks != (rule.about_nodes or rule.about_groups):
        raise KeyError(
            f"rule {rule.name} looks at nodes, its row does not say whom it asks"
            if not asks
            else f"rule {rule.name} looks at no node, its row asks some"
        )
    unknown = {name for scope in scopes for name in scope.columns if name in GROUP_COLUMNS}
    unknown |= {name for name in rule.columns if rule.about_groups and name not in GROUP_COLUMNS}
    if on_request:
        unknown |= {n for mask in (rule, *scopes) for n in mask.columns if n not in REQUEST_COLUMNS}
    if unknown:
        raise KeyError(f"rule {rule.name}: a row here cannot read {', '.join(sorted(unknown))}")


Levels = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


def possible_releases(
    min_version: Levels, max_version: Levels, partial: Flags, tables: Tables
) -> tuple[Flags, Flags]:
    """Return [P, releases] the catalogue's releases that may advertise each profile, and [P] true
    if a release advertises exactly the profile.

    Shapes [P, catalogued features], 0-0 for a feature that a profile does not list. `partial` [P]:
    the response may omit features with minimum 0 (ApiVersions before version 4). The
    metadata.version decides about a profile that no release has, such as a vendor's; without
    metadata.version no release matches.
    """
    is_fit = np.zeros((len(min_version), len(tables.releases)), dtype=bool)
    for high in (tables.newest_stable, tables.newest_unstable):
        low, high = np.where(high > 0, tables.oldest, 0), np.maximum(high, 0)  # 0-0: not advertised
        # Most releases differ in metadata.version, the first column: only then compare the other
        # columns.
        at, release = np.nonzero(partial[:, None] | (max_version[:, :1] == high[:, 0]))
        matches = (min_version[at] == low[release]) & (max_version[at] == high[release])
        matches |= partial[at][:, None] & (tables.oldest[release] <= 0)
        is_fit[at, release] |= matches.all(axis=1)
    is_fit[:, [name == ANY for name in tables.releases]] = False
    unknown = ~is_fit.any(axis=1) & (max_version[:, 0] > 0)
    is_fit[unknown] = _by_metadata_version(max_version[unknown, 0], tables)
    return is_fit, ~unknown & is_fit.any(axis=1) & ~partial


def _by_metadata_version(newest: Levels, tables: Tables) -> Flags:
    """Return a mask of the releases that may have `newest` as metadata.version: it is a level of
    the release, or directly above."""
    is_release = np.array([name != ANY for name in tables.releases])
    stable, unstable = tables.newest_stable[:, 0], tables.newest_unstable[:, 0]
    inside = (stable <= newest[:, None]) & (newest[:, None] <= unstable) & is_release
    reached = is_release & (stable <= newest[:, None])
    nearest = np.where(reached, stable, 0).max(axis=1)
    below = (stable == nearest[:, None]) & is_release
    return np.where(inside.any(axis=1)[:, None], inside, below)
