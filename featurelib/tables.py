"""Define the name, grain, schema and comment of every table; no other module defines a table.

Bronze has every landing line once, by content, with its fault. Silver has flat histories for
people, and one snapshot row per cluster for the core. Gold has the results of audits: each run
appends rows with its number, and replaces no row.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from featurelib import schema
from featurelib.schema import BYTES, DATE, LONG, ListOf, Schema, columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A Delta table of featurelib.

    `grain`: the columns that identify a row. `version` increases when older releases cannot read
    the new schema; a new nullable column is added to existing tables without a new version. A table
    that `is_rebuilt` is made again from other tables if its version is older. `skip_by`: the
    columns by which readers skip files; None = Delta's choice, which makes every write slower.
    Spark sorts the rows of each file by `sort_by`, with at most `file_rows` per file, so a query
    for one cluster reads one or two small files of each run.
    """

    layer: str
    name: str
    comment: str
    grain: tuple[str, ...]
    schema: Schema
    required: frozenset[str]  # the columns that are never null
    version: int = 1
    is_rebuilt: bool = False
    skip_by: tuple[str, ...] | None = None
    sort_by: tuple[str, ...] = ()
    file_rows: int | None = None

    @property
    def path(self) -> str:
        """The path of the table in the tables' root folder."""
        return f"{self.layer}/{self.name}"

    @property
    def full_name(self) -> str:
        return f"{self.layer}.{self.name}"

    @property
    def about(self) -> dict[str, str]:
        """The sentence that describes each column, from columns.toml. Keys: column, or
        `column.part`."""
        sentences = _sentences()
        own = sentences["columns"] | sentences.get(self.full_name, {})
        texts = {}
        for name, kind in self.schema.fields:
            rows = kind.of if isinstance(kind, ListOf) else kind
            parts = rows.names if isinstance(rows, Schema) else []
            for key, short in [(name, name), *((f"{name}.{part}", part) for part in parts)]:
                if (sentence := own.get(key, own.get(short))) is not None:
                    texts[key] = sentence
        return texts

    @property
    def audited(self) -> Schema:
        """The columns that an audit returns. A run adds the others."""
        return self.schema.select(name for name in self.schema.names if name not in OF_RUN)

    @property
    def application(self) -> str:
        """The application id under which Delta counts runs."""
        return f"featurelib/{self.full_name}{f'@{self.version}' if self.is_rebuilt else ''}"

    @property
    def name_in_schema(self) -> str:
        """The name of the table in a catalog's schema."""
        return f"{self.layer}_{self.name}"


@cache
def _sentences() -> dict[str, dict[str, str]]:
    text = resources.files(__package__).joinpath("columns.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def views() -> dict[str, str]:
    """Return view name → SQL query."""
    text = resources.files(__package__).joinpath("views.sql").read_text(encoding="utf-8")
    return dict(re.findall(r"CREATE VIEW (\w+) AS\n(.*?);\n", text, re.DOTALL))


def is_name(tables: str) -> bool:
    """Return true if `tables` is CATALOG.SCHEMA: two words with a dot between. A folder with such a
    name is written ./a.b."""
    return re.fullmatch(r"[A-Za-z]\w*\.[A-Za-z]\w*", tables, re.ASCII) is not None


def with_run(rows: Schema) -> Schema:
    """Return `rows` with two new first columns: the run and its day."""
    return rows.with_first("run_date", DATE).with_first("run", LONG)


OF_RUN = ("run", "run_date", "first_seen_run")
_SKIP_BY = ("run", "cluster")

# The reason for a line whose bytes were changed, so that it proves nothing.
CHANGED = "the line was changed after it was accepted: another writer changed bronze.landing_line"

LANDING_LINE = Table(
    layer="bronze",
    name="landing_line",
    comment="Every landing line once, by content. A null reason means valid, a text quarantined.",
    grain=("content_hash",),
    # line_id: the first 8 bytes of raw's SHA-256; line_number: from 1
    schema=columns(
        "run content_hash line_id source_file line_number kind cluster observed_at reason raw"
    ),
    required=frozenset({"run", "content_hash", "line_id", "source_file", "line_number", "raw"}),
)

FILE = columns("source_file size modified_at")

INGEST_RUN = Table(
    layer="bronze",
    name="ingest_run",
    comment="The files and counts of each run: lines = accepted + repeated + quarantined.",
    grain=("run",),
    schema=columns("run landing files lines accepted repeated quarantined", files=ListOf(of=FILE)),
    required=frozenset({"run", "landing", "lines", "accepted", "repeated", "quarantined"}),
)

BRONZE = (LANDING_LINE, INGEST_RUN)

_HISTORY_ROWS, _SNAPSHOT_ROWS = 50_000, 500

_WHO = "run cluster observed_at line_id role node_id epoch"


def _history(name: str, comment: str, levels: str) -> Table:
    """Return a silver history table: one row per landing line and feature, at each change."""
    return Table(
        layer="silver",
        name=name,
        comment=comment,
        grain=("line_id", "feature"),
        schema=columns(f"{_WHO} {levels}"),
        required=frozenset({"run", "cluster", "observed_at", "line_id", "role"}),
        version=2,  # 2: rows only for changes; the source is `role`
        is_rebuilt=True,
        skip_by=_SKIP_BY,
        sort_by=("cluster",),
        file_rows=_HISTORY_ROWS,
    )


NODE_ADVERTISEMENT = _history(
    "node_advertisement",
    "The supported ranges of nodes by feature; a row for each change.",
    "feature min_version max_version",
)
FINALIZED_FEATURES = _history(
    "finalized_features",
    "The finalized levels by feature and source; rows for each reading with a change.",
    "epoch_before feature min_level level",  # level 0: this line removed the feature
)

SET_ASIDE = ListOf(of=columns("line_id reason"))
FOLDED = schema.SNAPSHOT.with_last("learned", BYTES).with_last("set_aside", SET_ASIDE)

CLUSTER_SNAPSHOT = Table(
    layer="silver",
    name="cluster_snapshot",
    comment="The present state of each cluster, one row per cluster; every run rewrites the table.",
    grain=("cluster",),
    schema=FOLDED.with_first("run", LONG),
    required=frozenset({"run", "cluster"}),
    version=12,  # 3: one form (schema.LAYOUT); 4 to 9: witnesses; 11: changes; 12: unnumbered
    is_rebuilt=True,
    skip_by=_SKIP_BY,
    file_rows=_SNAPSHOT_ROWS,  # a fold writes them sorted by cluster
)

SILVER = (NODE_ADVERTISEMENT, FINALIZED_FEATURES, CLUSTER_SNAPSHOT)

FINDINGS = Table(
    layer="gold",
    name="finding",
    comment="All findings, one row per node and feature.",
    grain=("run", "cluster", "code", "role", "node_id", "feature"),
    schema=with_run(
        Schema.of([*schema.FINDING.fields, *schema.FINDING_TEXTS.fields, ("first_seen_run", LONG)])
    ),
    version=3,  # 2: mutes; 3: facts, consequence and action
    skip_by=_SKIP_BY,
    required=frozenset({"run", "cluster", "code", "severity"}),
)

INCOMPATIBLE_BROKERS = Table(
    layer="gold",
    name="incompatible_broker",
    comment="Nodes whose supported range does not contain the finalized level.",
    grain=("run", "cluster", "role", "node_id", "feature"),
    schema=with_run(schema.INCOMPATIBLE_BROKER),
    skip_by=_SKIP_BY,
    required=frozenset({"run", "cluster", "node_id", "feature"}),
)

FEATURE_READINESS = Table(
    layer="gold",
    name="feature_readiness",
    comment="The verdict on one feature of one cluster.",
    grain=("run", "cluster", "feature"),
    schema=with_run(schema.READINESS),
    version=3,  # 2 added downgrade_floor; 3 added ready_since
    skip_by=_SKIP_BY,
    required=frozenset({"run", "cluster", "feature", "verdict"}),
)

UPGRADE_PLANS = Table(
    layer="gold",
    name="upgrade_plan",
    comment="The phase, worst verdict and upgrade-all steps of each cluster, one row per cluster.",
    grain=("run", "cluster"),
    schema=with_run(schema.UPGRADE_PLAN),
    version=4,  # 2: the dialects asked; 3: who can register; 4: how far back afterwards
    skip_by=_SKIP_BY,
    required=frozenset({"run", "cluster", "verdict", "phase"}),
)

CLUSTERS = Table(
    layer="gold",
    name="cluster",
    comment="The owner, software, levels and verdict of each cluster, for dashboards.",
    grain=("run", "cluster"),
    schema=with_run(schema.CLUSTER),
    skip_by=_SKIP_BY,
    required=frozenset({"run", "cluster", "name", "phase", "verdict"}),
)

NODES = Table(
    layer="gold",
    name="node",
    comment="The nodes that must respond, one row per node and role.",
    grain=("run", "cluster", "role", "node_id"),
    schema=with_run(schema.NODE),
    skip_by=_SKIP_BY,
    required=frozenset({"run", "cluster", "role", "node_id"}),
)

INPUT = columns("table version")

ON_RELEASE, AT_LEVEL = columns("release clusters"), columns("level clusters")

AUDIT_RUN = Table(
    layer="gold",
    name="audit_run",
    comment="The inputs, time, catalogue and counts of each run, one row per run.",
    grain=("run",),
    schema=columns(
        "run run_date as_of release catalogue dialect inputs clusters ready blocked up_to_date "
        "unknown findings releases metadata_versions median_wait_hours longest_wait_hours out "
        "unchanged conditions",
        inputs=ListOf(of=INPUT),
        releases=ListOf(of=ON_RELEASE),
        metadata_versions=ListOf(of=AT_LEVEL),
    ),
    required=frozenset({"run", "as_of"}),
    skip_by=("run",),
)

_OF_CLUSTERS = (FEATURE_READINESS, UPGRADE_PLANS, CLUSTERS)
GOLD = (FINDINGS, INCOMPATIBLE_BROKERS, *_OF_CLUSTERS, NODES, AUDIT_RUN)

ALL: tuple[Table, ...] = (*BRONZE, *SILVER, *GOLD)
