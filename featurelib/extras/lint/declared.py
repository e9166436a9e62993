"""The settings that files declare about a cluster, each with its file and line.

Every reader returns scopes. A scope is one cluster, or one kind of its nodes, with settings under
Kafka's own names. Settings that Kafka has no name for:

    version         the release of the software
    metadata        the metadata.version that the file asks for
    controllers     the number of controllers
    pools           Strimzi's node pools with controllers
    zookeeper       an ensemble is declared
    migration       Strimzi's annotation strimzi.io/kraft
    kraft           the kraft.version that a chart is told, or made its clusters with
    vendor          the software is no Apache build, so its levels are not known
    api             an apiVersion that this release does not know
    resource        a Kafka resource of Strimzi's, and not node pools alone
    cluster.id      the id that an image or a chart formats with
    node.id PLACE   the id of a node in a file of several

A value of a template, as {{ version }} or ${VERSION}, is not known: its setting has TEMPLATE.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

VERSION, METADATA, CONTROLLERS = "version", "metadata", "controllers"
ZOOKEEPER, MIGRATION, KRAFT, API = "zookeeper", "migration", "kraft", "api"
VENDOR, POOLS, RESOURCE, CLUSTER_ID = "vendor", "pools", "resource", "cluster.id"
VOTERS, SERVERS = "controller.quorum.voters", "controller.quorum.bootstrap.servers"
ROLES, PROTOCOL = "process.roles", "inter.broker.protocol.version"
CONNECT, MIGRATES = "zookeeper.connect", "zookeeper.metadata.migration.enable"
UNSTABLE, NODE_ID = "unstable.feature.versions.enable", "node.id"
LOG_DIRS = ("metadata.log.dir", "log.dirs", "log.dir")  # the first that is set has the metadata
# Properties that decide about levels, quorum or downgrades.
WATCHED = {VOTERS, SERVERS, ROLES, PROTOCOL, CONNECT, MIGRATES, UNSTABLE, NODE_ID, *LOG_DIRS}
WATCHED.add("controller.listener.names")
# Other names of these; the first is that of 3.7.
ALIASES = {"unstable.metadata.versions.enable": UNSTABLE, "broker.id": NODE_ID}
# A properties file with any of these is one of a broker or controller.
OF_KAFKA = {*WATCHED, *ALIASES, "listeners", "advertised.listeners"}
OF_KAFKA.add("listener.security.protocol.map")
TEMPLATE = "__template__"
# Go templates and Jinja, ${VAR} and $(VAR) of shells and kustomize, ERB, @VAR@ of CMake and Maven.
_TEMPLATES = re.compile(
    r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|\$\{[^}]*\}|\$\([^)]*\)|<%.*?%>|(?<!\w)@[A-Z][A-Z_.]*@",
    re.DOTALL,
)
_TEMPLATE_LINE = re.compile(r"^[ \t]*(?:\{\{.*\}\}|\{%.*%\}|\{#.*#\}|<%.*%>)[ \t]*$", re.MULTILINE)


class Setting(NamedTuple):
    """A value, and the line of a file that has it."""

    value: str
    file: str
    line: int

    @property
    def is_known(self) -> bool:
        """False if a template fills the value in."""
        return TEMPLATE not in self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The settings of one cluster, or of one kind of its nodes; `file` and `line`: where it
    begins."""

    kind: str
    name: str
    file: str
    line: int
    node: str = ""  # the kind of nodes, if the file has no process.roles
    settings: dict[str, Setting] = field(default_factory=dict)

    def known(self, key: str) -> str | None:
        """Return the value of a setting; None if it is not set, or a template fills it in."""
        setting = self.settings.get(key)
        return setting.value if setting is not None and setting.is_known else None

    @property
    def node_id(self) -> str:
        """The id of its node; "" where it is not known, or several nodes are there."""
        ids = {self.known(key) for key in self.settings if key.startswith(NODE_ID)}
        return (ids.pop() or "") if len(ids) == 1 else ""

    @property
    def log_dir(self) -> str:
        """The folder of the metadata; "" where it is not known."""
        key = next((key for key in LOG_DIRS if key in self.settings), "")
        return (self.known(key) or "").partition(",")[0].strip()


class Fault(msgspec.Struct, frozen=True):
    """A file, or a part of it, that cannot be judged, and what to do about it."""

    file: str
    line: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The scopes of files by place and name, the faults, and files that declare nothing of Kafka's.
    `charts`: files that are values of bitnami's chart, whatever else they say."""

    scopes: dict[tuple[str, str, str], Scope] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    charts: set[str] = field(default_factory=set)

    def scope(
        self, kind: str, place: str, name: str, file: str, line: int, node: str = ""
    ) -> Scope:
        """Return the scope of this name at this place, a new one the first time."""
        new = Scope(kind=kind, name=name, file=file, line=line, node=node)
        return self.scopes.setdefault((kind, place, name), new)


def mask(text: str) -> str:
    """Return a text with TEMPLATE for each expression of a template; lines keep their numbers."""
    without = _TEMPLATE_LINE.sub("", text)
    return _TEMPLATES.sub(lambda match: TEMPLATE + "\n" * match[0].count("\n"), without)


def read_properties(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield key, value and line (from 1) of a text in the form of Java's properties."""
    lines = enumerate(text.splitlines(), start=1)
    for number, raw in lines:
        line = raw.strip()
        if not line or line[0] in "#!":
            continue
        while line.endswith("\\") and not line.endswith("\\\\"):
            line = line[:-1] + next(lines, (0, ""))[1].strip()
        key, value, *_ = *re.split(r"\s*[=:]\s*|\s+", line, maxsplit=1), ""
        yield key, value.strip(), number


def add_properties(scope: Scope, pairs: Iterable[tuple[str, str, int]], file: str) -> None:
    """Add the watched properties among these to a scope; the last value of a key holds."""
    for key, value, line in pairs:
        name = ALIASES.get(key, key)
        if name in WATCHED:
            scope.settings[name] = Setting(value, file, line)
