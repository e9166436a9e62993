"""Define the cluster argument of functions, the inputs of a judgement, and the type of an answer.

A name is looked up in the inventory, and the cluster is read. `Live` has other addresses; `Stored`
is a cluster in the tables of a run. An answer is a value for a program, and a text for a person:
`str()` is the output of the command of the same name, and `json()` its output with --json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from shlex import join, quote, split
from typing import Any, Generic, TypeVar, Unpack

from featurelib.api.documents import OfDescribed, document
from featurelib.backends.base import Say
from featurelib.config.files import open_catalogue, quietly
from featurelib.config.fleet import FleetEntry
from featurelib.errors import ConfigError, UnreachableError, needing
from featurelib.planning.files import ApprovalFile, PlanFile
from featurelib.questions.describe import Description, describe
from featurelib.source import WAYS, Chosen, Wanted, Ways
from featurelib.view.describe import describe_page
from featurelib.view.documents import as_json, fill
from featurelib.view.layout import WIDEST, Page
from featurelib.words import clean

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answer(Generic[Value]):
    """The answer of a command: value, text, table rows and JSON document. Text, rows and document
    are created on first use. `page` takes a width in characters; None = the terminal's width."""

    value: Value
    make_rows: Callable[[], Iterable[dict[str, object]]]
    make_document: Callable[[], object]
    page: Callable[[int | None], Page]
    exit_code: int = 0  # the exit code of the command with this name

    @property
    def rows(self) -> tuple[dict[str, object], ...]:
        """The answer as table rows, for example one row per finding or node."""
        return tuple(self.make_rows())

    @property
    def text(self) -> str:
        """The output of the command, at most 100 columns wide."""
        return str(self.page(WIDEST))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:  # notebooks show this text
        return self.text

    def json(self) -> str:
        """The output of the command with --json."""
        return as_json(self.make_document())

    def frame(self) -> Any:
        """Return the rows as a pandas DataFrame. Raises ConfigError if pandas is not installed."""
        return to_frame(self.make_rows())


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Approved(Answer[ApprovalFile]):
    """An approved plan. `content`: the content of the approval file."""

    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """The person at a terminal who confirms changes. A call from Python has no person. `command`:
    the command line as typed. `confirm`: returns after the answer yes. `sending`: a block that
    prints the progress if it is interrupted."""

    command: str = ""
    at_terminal: bool = False
    show: Callable[[Page], None] = lambda page: None
    confirm: Say = quietly
    sending: Callable[[], AbstractContextManager[None]] = nullcontext


NOBODY = Person()


def plan_ways(file: PlanFile, entry: FleetEntry) -> str:
    """Return the options (address and files) that reached the cluster when the plan was made. The
    plan file is untrusted, so the result is "" for a cluster that receives secrets."""
    known = {} if entry.is_secured else file.for_people.addresses
    options = {n: known[n] for n in WAYS if n in known and clean(known[n], 1000) == known[n]}
    return "".join(f" --{name} {quote(value)}" for name, value in options.items())


def made_at(command: str, file: PlanFile, entry: FleetEntry) -> str:
    """Return a sentence with the command and the options that reached the cluster when the plan was
    made; "" if the command needs no option, or the options are unknown."""
    words, arguments, options = iter(split(command)), list[str](), plan_ways(file, entry)
    for word in words:
        if word.removeprefix("--").partition("=")[0] not in WAYS:
            arguments.append(word)
        elif "=" not in word:
            next(words, None)
    again = f"{join(arguments)}{options}"
    return f"The plan was made at:\n  {again}" if command and options and again != command else ""


def to_frame(rows: Iterable[dict[str, object]]) -> Any:
    """Return rows as a pandas DataFrame. Raises ConfigError if pandas is not installed."""
    with needing("tables in a notebook need the packages pandas and pyarrow", "notebook"):
        import pyarrow as pa

        table = pa.Table.from_pylist(list(rows))
        return table.to_pandas(integer_object_nulls=True)  # pandas turns 27 into 27.0 otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored(Chosen):
    """A cluster in the tables of a run; questions and plans read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Live(Chosen):
    """A running cluster. The connection opens on first use."""


AnyCluster = str | Chosen


def choose(cluster: AnyCluster) -> Chosen:
    """Return a chosen cluster for an argument that may be an id or name in conf/fleet.toml."""
    return cluster if isinstance(cluster, Chosen) else connect(cluster)


def choose_live(cluster: str | Chosen) -> Chosen:
    """Return a live cluster. Raises ConfigError for a cluster in stored tables."""
    chosen = choose(cluster)
    if isinstance(chosen, Stored):
        raise ConfigError(
            "This call needs a live cluster, and this cluster comes from tables. Use its name in "
            "the inventory, or connect(bootstrap='HOST:PORT')."
        )
    return chosen


def connect(
    cluster: str | None = None, *, overlay: str | None = None, **ways: Unpack[Ways]
) -> Live:
    """Return a live cluster, named as in the inventory or reached by addresses.

        connect("payments-eu")                              # by its addresses in conf/fleet.toml
        connect(bootstrap="kafka-1:9092,kafka-2:9092")      # brokers to ask first
        connect(file="cluster.db")                          # a sandbox cluster

    `controllers` are listeners that brokers do not name (before Kafka 3.9), `zookeeper` is only
    read. `fleet`, `config` and `overlay` are files that replace conf/fleet.toml, conf/audit.toml
    and no overlay. `timeout` is in seconds, per node. It does not connect yet. Raises ConfigError.
    """
    live = Live(
        wanted=Wanted(cluster=cluster, overlay=overlay, **ways), catalogue=open_catalogue(overlay)
    )
    live.reached()
    return live


# --- clusters ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalized:
    """The finalized range of one feature. `min_version_level` is 1 except in ZooKeeper mode."""

    min_version_level: int
    max_version_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Supported:
    """A supported version range of a feature, and the nodes with it, such as `broker 2`."""

    min_version: int
    max_version: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Described(Answer[Description]):
    """The description of a cluster, as Kafka's Admin.describeFeatures has it, but from all nodes.

    `finalized`: None without a trusted source; a missing feature is not finalized.
    `finalized_features_epoch`: None if no source has an epoch. `supported`: every range of a
    feature that some node lists. `value`: also has nodes, contradictions and findings."""

    finalized: Mapping[str, Finalized] | None
    finalized_features_epoch: int | None
    supported: Mapping[str, tuple[Supported, ...]]

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self.value.cluster_id


def describe_features(cluster: AnyCluster) -> Described:
    """Show a cluster's nodes and finalized levels.

    The output has the supported ranges of each node (KIP-584; Kafka's tool queries one broker).
    Every listener is queried; nothing is changed. Nodes with equal ranges are shown together; a
    range that excludes the finalized level is marked. Exit codes: 0 done; 2 usage; 5 no response.

    \b
        featurelib describe payments-eu
        featurelib describe --bootstrap kafka-1.example:9092
        featurelib describe --capture landing/payments-eu.jsonl --json
        describe_features("payments-eu").finalized["metadata.version"].max_version_level
    """
    chosen = choose(cluster)
    source = chosen.question()
    described, entry = describe(source.view, chosen.catalogue), source.entry
    trusted = all(level.level is not None for level in described.levels) and any(
        witness.is_believed for witness in described.witnesses
    )
    finalized = {
        level.feature: Finalized(
            min_version_level=level.min_level or 0, max_version_level=level.level
        )
        for level in described.levels
        if level.level
    }
    epochs = [witness.epoch for witness in described.witnesses if witness.is_believed]
    return Described(
        value=described,
        make_rows=lambda: map(asdict, described.nodes),
        make_document=lambda: document(
            fill(
                OfDescribed,
                name=entry.title or None,
                owner=entry.owner or None,
                managed_by=entry.managed_by or None,
                made_from=source.made_from,
            ),
            described,
        ),
        page=lambda width: describe_page(described, entry, source.made_from, width),
        exit_code=0 if described.answered else UnreachableError.exit_code,
        finalized=finalized if trusted else None,
        finalized_features_epoch=epochs[0] if epochs and epochs[0] >= 0 else None,
        supported=dict(_supported(described)),
    )


def _supported(described: Description) -> Iterator[tuple[str, tuple[Supported, ...]]]:
    for feature in sorted({name for profile in described.profiles for name in profile}):
        nodes: dict[tuple[int, int], list[str]] = {}
        for node in described.nodes:
            ends = None if node.profile is None else described.profiles[node.profile].get(feature)
            if ends is not None:
                nodes.setdefault(ends, []).append(f"{node.role} {node.node_id}")
        ranges = [
            Supported(min_version=low, max_version=high, nodes=tuple(ids))
            for (low, high), ids in sorted(nodes.items())
        ]
        yield feature, tuple(ranges)
