"""Read the rows of findings: the texts, remedies and tags of each code.

findings.toml has findings about evidence and nodes; rules.toml has the rules of dialects. The
function that emits a finding names its code. Every other module selects findings by tag. The first
remedy whose conditions are true is shown. Loading an invalid row raises an error with file and
line.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from importlib import resources
from string import Formatter
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from featurelib.feature import Severity
from featurelib.schema import FACTS
from featurelib.words import OTHER_CLUSTER, OTHER_SECURITY, REFUSED_LOGIN

ANY_ADDRESS = "HOST:PORT"  # the placeholder for a broker's address in a command
# Placeholders in the texts of every row; each fact of a row adds others, by its kind.
_PLACES = {"role", "node", "feature", "level", "number", "finalized", "version", "range"}
_PLACES |= {"observed_at", "dated", "software", "way", "stale", "cluster", "cluster_and_folder"}
_PLACES |= {"nodes", "inventory", "zookeeper", "collect", "options", "live", "change", "bootstrap"}
# The placeholders of a headline.
HEADLINE = {"nodes", "do", "are", "were", "feature", "finalized", "level"}
_OF_KINDS = {"release": ("newer",), "resource": ("namespace", "name", "resource")}
# Placeholders for values that are unknown or no valid argument: a person fills them in.
Kind = Literal["text", "sentences", "release", "argument", "resource", "blank", "value"]
Verb = Literal[
    "Fix", "Ask", "Collect", "Approve", "Hand over", "Upgrade", "Check", "Add", "Look at"
]
BLANKS = {
    "principal": "User:NAME",
    "directory": "DIRECTORY_ID",
    "znode_text": "TEXT",
    "znode_version": "VERSION",
}

_Entry = TypeVar("_Entry", bound="Remedy")


class Issue(StrEnum):
    """The circumstance in which the usual remedy of a finding does not help."""

    LISTENER = "listener"  # Kafka shows that the node runs; only its listener did not respond
    SECRET = "secret"  # the cluster refused the collector's login
    OTHER_CLUSTER = "other_cluster"  # the nodes at the addresses are of another cluster
    SECURITY = "security"  # protocol, mechanism or certificate differ from the listener's
    EARLIER = "earlier"  # the stale node's range is from an earlier run
    CONTROLLERS = "controllers"  # no list of registered controllers exists
    LAGS = "lags"  # no list of nodes is proven to be as new as other data of its time
    CONTRADICTED = "contradicted"  # data of one time shows two ranges of the node
    HALF = "half"  # the controller role of the broker's process runs
    ZNODE = "znode"  # the broker's registration in ZooKeeper could not be read
    # A broker that registers no features: only its protocol version is too old, or also its
    # software.
    PROTOCOL = "protocol"
    PROTOCOL_AND_SOFTWARE = "protocol_and_software"
    START_NEWER = "start_newer"  # the node did not respond, and is too old for a finalized level
    REGISTER_NEWER = "register_newer"  # the node is not registered, and its software is too old
    VOTER = "voter"  # the voter never registered
    CONFIGURED = "configured"  # only the active controller's configuration names the node

    @classmethod
    def of_error(cls, reason: str) -> Issue | None:
        """Return the reason why a cluster was not reached, from an error text; None if unknown."""
        causes = {REFUSED_LOGIN: cls.SECRET, OTHER_SECURITY: cls.SECURITY}
        causes[OTHER_CLUSTER] = cls.OTHER_CLUSTER
        return next((issue for words, issue in causes.items() if words in reason), None)


class Action(StrEnum):
    """The actions for a blocking node; each names a remedy [[way]] in findings.toml."""

    REGISTER_NEWER = "register_newer"
    START_NEWER = "start_newer"
    REGISTER = "register"
    RECONFIGURE = "reconfigure"
    UNREGISTER_HALF = "unregister_half"
    UNREGISTER = "unregister"
    UNREGISTER_CONTROLLER = "unregister_controller"
    REGISTER_ANEW = "register_anew"
    START_AGAIN = "start_again"
    START = "start"
    MIGRATE = "migrate"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The conditions of a remedy. All must be true; an omitted condition is true."""

    cause: Issue | None = None
    needs: bool | None = None  # true: the level has a dependency that is not finalized
    role: Literal["broker", "controller"] | None = None
    managed_by: Literal["strimzi", "service", "anybody"] | None = None
    owner_finalizes: bool | None = None  # true: the cluster's manager finalizes this feature
    range_above: bool | None = None  # true: the node's range begins above the level
    stale: bool | None = None  # true: the node is off and still registered
    running: bool | None = None
    migrating: bool | None = None  # true: the broker runs in ZooKeeper mode of a migrating cluster
    metadata_version: Annotated[str, msgspec.Meta(pattern="^>=[0-9]+$")] | None = None

    def holds(self, facts: Mapping[str, object]) -> bool:
        """Return true if `facts` meet all conditions."""
        # a loop is faster than all(): most remedies have one
        for name, condition in self._conditions:
            if not _fits_condition(condition, facts.get(name)):
                return False
        return True

    @cached_property
    def _conditions(self) -> tuple[tuple[str, object], ...]:
        """Return (name, value) of the conditions that are set."""
        conditions = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return tuple((name, value) for name, value in conditions if value is not None)


def _fits_condition(condition: object, value: object) -> bool:
    if isinstance(value, frozenset):
        return condition in value
    if isinstance(condition, str) and condition.startswith(">="):
        return isinstance(value, int) and value >= int(condition[2:])
    return condition == value


class Remedy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A remedy of a finding, and its conditions. `message`: replaces the finding's message."""

    text: str
    command: str = ""
    message: str = ""
    when: When = When()

    @property
    def texts(self) -> tuple[str, str, str]:
        """The texts of the remedy. They may contain placeholders."""
        return self.message, self.text, self.command


class NodeRemedy(Remedy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The remedy for a blocking node. The text follows the node's name."""

    action: Action

    def of(self, node_id: int, release: str, address: str = "") -> Remedy:
        """Return the remedy with its placeholders filled in. `release`: "" = unknown; `address`: of
        a broker, "" = unknown."""
        values = {"node": node_id, "software": software(release)}
        command = filled(self.command.format_map(values), address)
        return Remedy(text=self.text.format_map(values), command=command)


class Todo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The verb and the urgency of a task; rank 1 is the most urgent."""

    verb: Verb
    rank: int


class FindingRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The severity and texts of one finding code. {placeholders} are columns and `facts` of the
    finding.

    `title` is the heading for several clusters, "" if never shown alone; `title_stale` is the
    heading for nodes that are off and still registered. `headline` is the state of the {nodes} of
    one cluster, without further facts. `state` is the word for the node in a description of its
    cluster. `fates` are texts for the first fact.
    """

    severity: Severity
    message: str
    consequence: str = ""
    remedies: tuple[Remedy, ...] = msgspec.field(name="remedy")
    todo: Todo | None = None
    title: str = ""
    headline: str = ""
    title_stale: str = ""
    state: str = ""
    source: str = ""
    tags: frozenset[str] = frozenset()
    facts: dict[str, Kind] = {}
    fates: dict[str, str] = {}

    @property
    def remedy(self) -> str:
        """The text of the usual remedy, which is the last one."""
        return self.remedies[-1].text

    @property
    def command(self) -> str:
        """The command of the usual remedy; "" without command."""
        return self.remedies[-1].command

    @property
    def first_fact(self) -> str | None:
        """The name of the first fact, the observation; None without facts."""
        return next(iter(self.facts), None)

    @property
    def statement(self) -> str:
        """The message and the consequence as one text."""
        return joined(self.message, self.consequence)

    @property
    def texts(self) -> str:
        """The joined texts of the row. They may contain placeholders."""
        return " ".join((self.statement, *(text for item in self.remedies for text in item.texts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The texts of a finding. All except the message may be ""."""

    message: str
    consequence: str = ""
    action: str = ""
    command: str = ""
    source: str = ""

    @property
    def statement(self) -> str:
        """The message and the consequence as one text."""
        return joined(self.message, self.consequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAdvice(Advice):
    """The texts of a finding about nodes. `remedy`: the action split at the node's name; () = it
    names no node."""

    remedy: tuple[str, ...] = ()

    @property
    def remedy_key(self) -> tuple[str, ...]:
        """The action without its node. Findings with equal keys share one action."""
        return self.remedy or (self.action,)

    def action_for(self, nodes: str) -> str:
        """Return the action for several nodes, for example `brokers 2-5`."""
        return nodes.join(self.remedy) or self.action


def places_of(text: str) -> set[str]:
    """Return the names of the placeholders in a text."""
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def joined(*sentences: str) -> str:
    """Return the non-empty sentences joined to one text."""
    return " ".join(filter(None, sentences))


def first_fit(entries: Sequence[_Entry], facts: Mapping[str, object]) -> _Entry:
    """Return the first entry whose conditions are met by `facts`."""
    return next(entry for entry in entries if entry.when.holds(facts))


def filled(command: str, address: str) -> str:
    """Return a command with `address` instead of HOST:PORT; unchanged if `address` is ""."""
    return command.replace(ANY_ADDRESS, shlex.quote(address)) if address else command


def software(release: str) -> str:
    """Return a noun phrase for software of `release` or later; "" = unknown release."""
    text = f"Kafka {release} or later"
    return text if release else "software that supports the finalized and the requested levels"


@cache
def finding_rows() -> dict[str, FindingRow]:
    """Return the rows of findings.toml by code."""
    return _read("findings.toml")


@cache
def rule_rows() -> dict[str, FindingRow]:
    """Return the rows of rules.toml by the name of the rule."""
    return _read("rules.toml")


def row_of(code: str) -> FindingRow | None:
    """Return the texts of a finding or rule code; None if this release does not know the code."""
    return finding_rows().get(code) or rule_rows().get(code)


@cache
def ways() -> tuple[NodeRemedy, ...]:
    """Return all remedies [[way]] for blocking nodes in findings.toml."""
    return msgspec.convert(_load("findings.toml")["way"], tuple[NodeRemedy, ...])


def way_of(action: Action) -> NodeRemedy:
    """Return the remedy [[way]] with this action."""
    return next(remedy for remedy in ways() if remedy.action is action)


@cache
def tags() -> dict[str, str]:
    """Return tag → meaning, from findings.toml."""
    return {name: str(text) for name, text in _load("findings.toml")["tags"].items()}


@cache
def tagged(*names: str) -> frozenset[str]:
    """Return the codes that have at least one of these tags. Raises KeyError for an unknown tag."""
    codes = frozenset(name for name in names if tags()[name])
    rows = (finding_rows() | rule_rows()).items()
    return frozenset(code for code, row in rows if not row.tags.isdisjoint(codes))


def code_of(tag: str) -> str:
    """Return the only code with this tag."""
    [code] = tagged(tag)
    return code


# --- Loading --------------------------------------------------------------------------------------


def _load(name: str) -> dict[str, Any]:
    return _parsed(_text(name))


_parsed = cache(tomllib.loads)  # cached, because each row is checked with the text of its file


@cache
def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _read(name: str) -> dict[str, FindingRow]:
    codes = [code for code in _load(name) if code not in ("tags", "way")]
    return {code: check_row(name, _text(name), code) for code in codes}


def check_row(file: str, text: str, code: str) -> FindingRow:
    """Return the checked row of a code. Raises ValueError, with file and line, for invalid keys,
    conditions, tags, facts, placeholders or commands."""
    table, at = _parsed(text)[code], 0
    try:
        row = msgspec.convert(table, FindingRow)
        fault, at = next(_faults(row), ("", 0))
    except msgspec.ValidationError as error:
        fault, match = str(error), re.search(r"\$\.remedy\[(\d+)\]", str(error))
        at = int(match[1]) + 1 if match else 0
    if fault:
        headers = [f"[{code}]", *[f"[[{code}.remedy]]"] * at]
        lines = enumerate(text.splitlines(), start=1)
        line = [next(n for n, text_of in lines if text_of == header) for header in headers][-1]
        raise ValueError(f"{file}:{line}: [{code}] {fault}")
    return row


def _faults(row: FindingRow) -> Iterator[tuple[str, int]]:
    """Yield (fault, number of the remedy) for a row. Number 0 = the row itself."""
    if unknown := row.tags - tags().keys():
        yield f"has the unknown tag {min(unknown)}. Add it to [tags].", 0
    if strangers := row.facts.keys() - set(FACTS.names):
        yield f"has the unknown fact {min(strangers)}. Add it to _OF_FACTS of schema.py.", 0
    if not row.remedies:
        yield "has no remedy.", 0
    facts = {fact for name, kind in row.facts.items() for fact in _OF_KINDS.get(kind, (name,))}
    if strange := places_of(row.headline) - HEADLINE:
        yield f"names {{{min(strange)}}} in its headline, which has only {sorted(HEADLINE)}.", 0
    texts = [(0, row.statement), *((n, t) for n, r in enumerate(row.remedies, 1) for t in r.texts)]
    for at, text in texts:
        if unknown_facts := places_of(text) - facts - _PLACES:
            yield f"names {{{min(unknown_facts)}}}, which is no fact of it. Add it to facts.", at
    for at, remedy in enumerate(row.remedies, start=1):
        if (remedy.when == When()) != (at == len(row.remedies)):
            yield "has a wrong `when`. Only the last remedy must have none.", at
        try:
            shlex.split(remedy.command)
        except ValueError as error:
            yield f"has a command that a shell cannot read: {error}.", at
