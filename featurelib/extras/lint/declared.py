"""Hold the settings that files declare about a cluster, each with its file and line.

Every reader returns scopes. A scope is one cluster, or one kind of its nodes, with settings under
Kafka's own names. The table [settings] of readers.toml has settings without a name in Kafka. The
value of a template, such as {{ version }} or ${VERSION}, is unknown: its setting is TEMPLATE.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import resources
from typing import NamedTuple

import msgspec

VERSION, METADATA, CONTROLLERS = "version", "metadata", "controllers"
ZOOKEEPER, MIGRATION, KRAFT, API = "zookeeper", "migration", "kraft", "api"
VENDOR, POOLS, RESOURCE, CLUSTER_ID = "vendor", "pools", "resource", "cluster.id"
BROKERS, BROKER_POOLS = "brokers", "broker pools"
CHART, OPERATOR, FIRST_ID, NUMBER = "chart", "operator", "minId", "number"
BROKER_ID, MARKED = "broker.id", "marked key"
# Role → the settings with its number of nodes and its node pools.
MEMBERS = {"controller": (CONTROLLERS, POOLS), "broker": (BROKERS, BROKER_POOLS)}
LISTENERS, CONTROLLER_LISTENERS = "listeners", "controller.listener.names"
ADVERTISED, EMPTY = "advertised.listeners", "empty level"
BETWEEN_BROKERS, PROTOCOLS = "inter.broker.listener.name", "listener.security.protocol.map"
POOL_ROLES = "pool roles"  # roles of node pools that Strimzi does not know
VOTERS, SERVERS = "controller.quorum.voters", "controller.quorum.bootstrap.servers"
ROLES, PROTOCOL = "process.roles", "inter.broker.protocol.version"
CONNECT, MIGRATES = "zookeeper.connect", "zookeeper.metadata.migration.enable"
UNSTABLE, NODE_ID = "unstable.feature.versions.enable", "node.id"
LOG_DIRS = ("metadata.log.dir", "log.dirs", "log.dir")  # the first that is set has the metadata
ROWS = tomllib.loads(resources.files(__package__).joinpath("readers.toml").read_text("utf-8"))
WATCHED, ALIASES = set(ROWS["properties"]["watched"]), ROWS["properties"]["aliases"]
# Keys that only a properties file of a broker or controller has.
OF_KAFKA = {*WATCHED, *ALIASES}
Number = tuple[int, ...]
KRAFT_ONLY = (4, 0)  # Kafka 4.0 has no ZooKeeper mode
DYNAMIC_FROM = (4, 1)  # the first release that upgrades kraft.version (KAFKA-16538)
CANDIDATE = re.compile(r"\d-(rc|alpha|beta|snapshot)", re.IGNORECASE)
_VOTER = re.compile(r"([^@]*)@?(\[.*\]|[^:]*):?(.*)", re.DOTALL)  # [2001:db8::1] is a host
_RELEASE = re.compile(r"\d{1,3}(?:\.\d{1,3}){1,3}")
_PAIR = re.compile(r"^((?:\\.|[^\\=:\s])*)(?:\s*[=:]\s*|\s+|$)(.*)$")  # of a properties file
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
TEMPLATE = "__template__"
TWICE = f"{TEMPLATE} twice"  # replaces a repeated key in a file without templates
_TEMPLATES = re.compile("|".join(ROWS["templates"]), re.DOTALL)
_TEMPLATE_LINE = re.compile(r"^[ \t]*(?:\{\{.*\}\}|\{%.*%\}|\{#.*#\}|<%.*%>)[ \t]*$", re.MULTILINE)


class Setting(NamedTuple):
    """A value in a file, with its line. A mapping or list has its first line, and `parts` by key or
    position; null has the value ""."""

    value: str
    file: str
    line: int
    parts: dict[str, Setting] = {}  # noqa: RUF012 never changed
    size: int = 1  # the number of values in the setting and its parts
    is_number: bool = False  # true if YAML reads a number

    @property
    def is_known(self) -> bool:
        """False if only a template provides the value."""
        return TEMPLATE not in self.value

    def __bool__(self) -> bool:
        """Return false if the setting does not exist in the file (MISSING)."""
        return self.line > 0

    def at(self, *path: str) -> Setting:
        """Return the part at a path of keys; MISSING if it does not exist."""
        part = self
        for key in path:
            part = part.parts.get(key, MISSING)
        return part

    def leaf(self, *path: str) -> Setting | None:
        """Return the value at a path of keys; None if it is missing or empty."""
        return part if (part := self.at(*path)).value else None


MISSING = Setting("", "", 0)


@dataclass(frozen=True, slots=True)
class Scope:
    """The settings of a cluster, or of one type of its nodes, in a file."""

    kind: str
    name: str
    file: str
    line: int
    node: str = ""  # the kind of nodes, if the file has no process.roles
    settings: dict[str, Setting] = field(default_factory=dict)

    def known(self, key: str) -> str | None:
        """Return the text of a setting; None if it is not set, or set by a template."""
        setting = self.settings.get(key)
        return setting.value if setting is not None and setting.is_known else None

    def number(self, key: str, parts: int = 2) -> Number | None:
        """Return the version in a setting as numbers, such as (4, 1); None if unknown."""
        return number_of(self.known(key), parts)

    def count(self, key: str) -> int | None:
        """Return the number in a setting; None if unknown."""
        return int(text) if (text := self.known(key) or "").isdecimal() else None

    def names(self, key: str) -> set[str]:
        """Return the names in a list setting, without `:…`; empty if unknown."""
        parts = (self.known(key) or "").split(",")
        return {part.strip().partition(":")[0] for part in parts} - {""}

    @property
    def role(self) -> str:
        """The role of the nodes in the scope: broker, controller, both or unknown."""
        roles = sorted(self.names(ROLES) & MEMBERS.keys())
        return "both" if len(roles) > 1 else roles[0] if roles else self.node or "unknown"

    @property
    def voters(self) -> set[int] | None:
        """The node ids in controller.quorum.voters; None if unreadable."""
        is_read = all(node.isdecimal() and host for node, host, _ in self.entries)
        return {int(node) for node, *_ in self.entries} if is_read else None

    @property
    def entries(self) -> list[tuple[str, str, str]]:
        """The (id, host, port) of each entry in controller.quorum.voters."""
        parts = (_VOTER.fullmatch(part.strip()) for part in (self.known(VOTERS) or "").split(","))
        return [(match[1], match[2], match[3]) for match in parts if match]

    @property
    def controller_ports(self) -> tuple[set[str], list[str]]:
        """The ports of (the node's listeners for controllers, its entries in the voters)."""
        names, ids = self.names(CONTROLLER_LISTENERS), self.node_ids
        listeners = (part.partition("://") for part in (self.known(LISTENERS) or "").split(","))
        ports = {at.rpartition(":")[2] for name, _, at in listeners if name.strip() in names}
        entries = [port for node, _, port in self.entries if not ids or node in ids]
        return ports, entries if ports and all(map(str.isdecimal, [*ports, *entries])) else []

    @property
    def controller_protocol(self) -> str:
        """The protocol for requests to controllers; "" without an entry in the map."""
        first = (self.known(CONTROLLER_LISTENERS) or "").split(",")[0].strip()
        rows = (part.partition(":") for part in (self.known(PROTOCOLS) or "").split(","))
        protocols = {name.strip(): protocol.strip().upper() for name, _, protocol in rows}
        return protocols.get(first, "")

    @property
    def mode(self) -> str:
        """The system that stores the metadata: zookeeper, migrating, kraft or unknown."""
        keys, migration = self.settings.keys(), (self.known(MIGRATION) or "").lower()
        is_broker = self.known(ROLES) == "broker"  # a pure broker no longer reads ZooKeeper
        in_migration = self.known(MIGRATES) == "true" and not is_broker
        if in_migration or migration in ("migration", "rollback"):
            return "migrating"
        if migration == "enabled" or ROLES in keys:
            return "kraft"
        is_old = (self.number(VERSION) or KRAFT_ONLY) < KRAFT_ONLY
        if {CONNECT, ZOOKEEPER} & keys or (migration == "disabled" and is_old):
            return "zookeeper"
        return "kraft" if self.kind == "strimzi" and VERSION in keys else "unknown"

    @property
    def node_ids(self) -> list[str]:
        """The node ids in the scope; [] if they may belong to several types of nodes."""
        ids = [self.known(key) or "" for key in self.settings if key.startswith(NODE_ID)]
        is_clear = len({*ids}) == 1 or self.kind == "ansible"
        return [*filter(None, ids)] if is_clear else []

    @property
    def log_dirs(self) -> list[str]:
        """The log folders in the scope; the metadata folder comes first."""
        texts = [self.known(key) or "" for key in LOG_DIRS if key in self.settings]
        return [part.strip().rstrip("/") or part for text in texts for part in text.split(",")]


class Fault(msgspec.Struct, frozen=True):
    """A file, or part of a file, that cannot be checked, with advice."""

    file: str
    line: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The scopes that files declare, the faults, and the files without Kafka settings. `charts`:
    files with values of bitnami's chart."""

    scopes: dict[tuple[str, str, str], Scope] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)  # patterns that match no file
    charts: set[str] = field(default_factory=set)

    def scope(self, path: str, new: Scope) -> Scope:
        """Return the scope with the place, type and name of `new`; add `new` if missing."""
        return self.scopes.setdefault((new.kind, path, new.name), new)


def number_of(text: str | None, parts: int = 2) -> Number | None:
    """Return a version as numbers, (4, 1) for 4.1, 4.1.2 or 4.1-IV0; None for another text. With
    four parts a candidate is older than its release."""
    match = _RELEASE.match(text or "")
    older = (-1,) * (parts > 3 and CANDIDATE.search(text or "") is not None)
    return (*map(int, match[0].split(".")[:parts]), *older) if match else None


def mask(text: str) -> str:
    """Return a text in which TEMPLATE replaces template expressions. Line numbers stay the same."""
    without, branches = _TEMPLATE_LINE.subn("", text)
    without += f"\n# {TEMPLATE}" * bool(branches)
    return _TEMPLATES.sub(lambda match: TEMPLATE + "\n" * match[0].count("\n"), without)


def read_properties(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield (key, value, line number) from a properties file (java.util.Properties.load)."""
    lines = enumerate(re.split("\r\n?|\n", text), start=1)
    for number, raw in lines:
        line = raw.lstrip()
        if not line or line[0] in "#!":
            continue
        while (len(line) - len(line.rstrip("\\"))) % 2:  # the line continues
            line = line[:-1] + next(lines, (0, ""))[1].lstrip()
        key, value = (
            _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else m[2], part)
            for part in _PAIR.findall(line)[0]
        )
        yield key, value.strip(), number
